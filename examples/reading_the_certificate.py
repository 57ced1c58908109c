"""
Reading the certificate
=======================

**The task.** Check whether the solver has reached the best linear ranking by the training objective, or has
stopped too early. Every fit of `TopPush` reports a certified optimality gap.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import maxabs_scale

from toppush import TopPush

X, y = load_breast_cancer(return_X_y=True)
X = maxabs_scale(X)
ranker = TopPush(lam=1e-3, top=5, tol=1e-6).fit(X, y)
solution = ranker.solution_

print(f"objective of the weights     {solution.upper:.6f}")
print(f"lower bound of the optimum   {solution.lower:.6f}")
print(f"relative gap                 {solution.relative_gap:.1e}")
print(solution.status.value)

# %%
# The objective decreases and the lower bound increases; the optimum lies between them. (``solution.plot()``
# draws them too.)

history = solution.history[1:]
axes = plt.figure(figsize=(7, 4), layout="constrained").gca()
axes.plot([iteration.upper for iteration in history], label="objective")
axes.plot([iteration.lower for iteration in history], label="certified bound")
axes.set(xlabel="iterations", ylabel="objective", yscale="log")
axes.legend()

# %%
# The paper's solver uses another stopping rule, and leaves a larger gap:

paper = TopPush(lam=1e-3, top=1, solver="paper", tol=1e-4).fit(X, y).solution_
print(f"paper's rule: relative gap {paper.relative_gap:.1e} after {paper.n_iter} iterations")
print(paper.status.value)

# %%
# The status of a fit that was stopped too early:

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    early = TopPush(lam=1e-3, top=5, tol=1e-6, max_iter=3).fit(X, y).solution_
print(f"relative gap {early.relative_gap:.1e}: {early.status.value}")

# %%
# **What to conclude.** If the gap is small, more iterations cannot help: try better columns, another ``lam`` or
# ``top``, or a ranker that is not linear. The certificate concerns the training objective; use held-out rows to
# measure the ranking of new rows.
