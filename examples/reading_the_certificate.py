"""
Reading the certificate
=======================

**The task.** Somebody asks: "is this the best that a linear ranking can do, or did your solver stop too
early?" With `TopPush` you can answer, for every fit comes with a proof.
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

print(f"objective of these weights   {solution.upper:.6f}")
print(f"nothing can be better than   {solution.lower:.6f}")
print(f"relative gap                 {solution.relative_gap:.1e}")
print(solution.status.value)

# %%
# How it came there: the objective falls from above, the proven bound rises from below, and the truth is
# caught between them. (``solution.plot()`` draws it too.)

history = solution.history[1:]
axes = plt.figure(figsize=(7, 4), layout="constrained").gca()
axes.plot([one.upper for one in history], label="objective")
axes.plot([one.lower for one in history], label="certified bound")
axes.set(xlabel="iterations", ylabel="objective", yscale="log")
axes.legend()

# %%
# The paper's own solver stops by another rule. Its gap says how much it left open:

paper = TopPush(lam=1e-3, top=1, solver="paper", tol=1e-4).fit(X, y).solution_
print(f"paper's rule: relative gap {paper.relative_gap:.1e} after {paper.n_iter} iterations")
print(paper.status.value)

# %%
# And a fit that was stopped too early says so itself:

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    early = TopPush(lam=1e-3, top=5, tol=1e-6, max_iter=3).fit(X, y).solution_
print(f"relative gap {early.relative_gap:.1e}: {early.status.value}")

# %%
# **What to conclude.** If the gap is small, more iterations cannot help: look for better columns, another ``lam``
# or ``top``, or a ranker that is not linear. The certificate is about the training rows; how good the list is on
# new rows only held-out rows can say.
