"""
A first ranking
===============

**The task.** Rank measurements of tumours so that a doctor can review the malignant ones first. A false alarm
at the top costs a review.

`TopRanker` cross-validates several model types and combines them.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from toppush import TopRanker, evaluate
from toppush.plots import TopCurveDisplay

X, benign = load_breast_cancer(return_X_y=True, as_frame=True)
y = benign == 0
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
ranker = TopRanker(effort="quick", random_state=0).fit(X_train, y_train)
scores = ranker.decision_function(X_test)

# %%
# Out-of-fold metrics of the base models, and their weights in the combination:

shown = ["name", "weight", "positives_at_top", "average_precision", "seconds"]
pd.DataFrame(ranker.leaderboard_)[shown].round(3)

# %%
# Nearly all of the first rows are malignant; the precision curve shows up to which length.

axes = plt.figure(figsize=(7, 4), layout="constrained").gca()
TopCurveDisplay.from_predictions(y_test, scores, ax=axes, plot_chance_level=True)

# %%
# Confidence intervals: ``positives_at_top`` is the share of malignant cases above *every* benign one. It
# depends on a single row, so its interval is wide; average precision depends on the whole ranking.

evaluation = evaluate(scores, y=y_test)
for name in ("positives_at_top", "average_precision"):
    metric = evaluation[name]
    print(f"{name:18} {metric.value:.3f}, from {metric.low:.3f} to {metric.high:.3f}")

# %%
# **What to conclude.** Ten lines of code give a ranking and its metrics with confidence intervals. The next
# example shows how many rows to review.
