"""
Networks on a table
===================

**The task.** Blurred measurements of tumours, of which one in ten is malignant. You like networks, and want
the few malignant ones on top.

`TopPushNet` trains small networks as one, with the push to the top; ``loss="cross_entropy"`` is the same
with the usual loss, to see what the push adds. It needs torch: ``pip install 'toppush[gpu]'``.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from toppush import TopPushNet, compare
from toppush.plots import TopCurveDisplay

X, y = load_breast_cancer(return_X_y=True)
malignant, rng = y == 0, np.random.default_rng(0)
kept = ~malignant | (np.cumsum(malignant) % 5 == 0)
X = (X + 1.5 * X.std(axis=0) * rng.normal(size=X.shape))[kept]
X, X_test, y, y_test = train_test_split(
    X, malignant[kept], test_size=0.5, random_state=0, stratify=malignant[kept]
)

# %%
# The same networks with either loss, drawn into the same picture: precision and recall of the list by
# the time that so many rows were looked at.

lists = {}
axes = plt.figure(figsize=(7, 4), layout="constrained").gca()
for loss in ("pairwise", "cross_entropy"):
    net = TopPushNet(loss=loss, n_members=4, hidden=(64, 32), max_steps=300, random_state=0)
    lists[loss] = net.fit(X, y).decision_function(X_test)
    TopCurveDisplay.from_predictions(y_test, lists[loss], name=loss, ax=axes)

# %%
# **What to conclude.** Two lists of one small sample differ by luck first. Before you say that one is
# better, ask `toppush.compare`, which gives the difference an interval.

print(compare(lists, y=y_test))
