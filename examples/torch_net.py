"""
Networks on a table
===================

**The task.** Rank noisy measurements of tumours, of which one in ten is malignant, with neural networks.

`TopPushNet` trains several small networks together with a loss for the top of the ranking;
``loss="cross_entropy"`` trains them with the usual loss for comparison. It needs torch: ``pip install 'toppush[gpu]'``.
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
# Precision and recall of both losses by the number of rows reviewed.

rankings = {}
axes = plt.figure(figsize=(7, 4), layout="constrained").gca()
for loss in ("pairwise", "cross_entropy"):
    net = TopPushNet(loss=loss, n_members=4, hidden=(64, 32), max_steps=300, random_state=0)
    rankings[loss] = net.fit(X, y).decision_function(X_test)
    TopCurveDisplay.from_predictions(y_test, rankings[loss], name=loss, ax=axes)

# %%
# **What to conclude.** On a small sample two rankings differ by chance. Before you prefer one, compare them with
# `toppush.compare`, which reports an interval of the difference.

print(compare(rankings, y=y_test))
