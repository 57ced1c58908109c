"""
When zero is optimal
====================

**The task.** Understand the `DegenerateWarning` "weights of zero are optimal", and find a better setting.

With ``top=1`` the positives must exceed the highest negative. If the mean of the positives lies in the convex
hull of the negatives, every direction has a negative above it, and weights of zero are optimal. This is common
with few columns. It is a property of the problem, not a failure of the solver, and the certificate shows it.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from toppush import DegenerateWarning, TopPush
from toppush.metrics import average_precision

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 2))
y = np.arange(400) < 60
X[y] += [1.2, 0.8]  # the clouds overlap, and some negatives lie beyond all positives

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    strict = TopPush(lam=0.1, top=1).fit(X, y)
print(caught[0].category is DegenerateWarning, "-", str(caught[0].message)[:90], "...")
print(f"optimum between {strict.solution_.lower:.4f} and {strict.solution_.upper:.4f}")

# %%
# The objective of zero weights is 1 here, and the lower bound equals it: no weights are better. The ranker still
# has a direction, in which a solution would lie.
#
# **A solution** is a larger ``top``. ``top="auto"`` finds about the smallest one with weights better than zero.

auto = TopPush(lam=0.1, top="auto").fit(X, y)
print(f"top='auto' took {auto.top_} negatives; objective {auto.solution_.upper:.4f}")

axes = plt.figure(figsize=(6, 5), layout="constrained").gca()
axes.scatter(*X[~y].T, s=12, color="0.6", label="negatives")
axes.scatter(*X[y].T, s=18, color="C0", label="positives")
for ranker, colour, name in ((strict, "C3", "top=1"), (auto, "C2", 'top="auto"')):
    direction = ranker.coef_[0] / np.linalg.norm(ranker.coef_[0])
    axes.annotate(
        "", 3 * direction, (0, 0), arrowprops={"arrowstyle": "->", "color": colour, "lw": 2}
    )
    axes.plot([], [], color=colour, label=f"{name}: {average_precision(y, X @ direction):.3f} AP")
axes.set_aspect("equal")
axes.legend(loc="lower right")

# %%
# **What to conclude.** The warning means that at this ``top`` no linear ranking is better than none. Use
# ``top="auto"``, a share such as ``top=0.05``, or more columns.
