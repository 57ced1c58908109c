"""
A first list
============

**The task.** Tumours were measured; a doctor can look at some of them again first. The malignant ones
should be on top of the list, and a false alarm up there costs a look.

`TopRanker` fits rankers of several kinds, lets rows that none of them has seen choose and weigh them, and
scores by the result.
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
# Who did how well on rows that it had not seen, and with which weight it counts:

shown = ["name", "weight", "positives_at_top", "average_precision", "seconds"]
pd.DataFrame(ranker.leaderboard_)[shown].round(3)

# %%
# How good is the list? Of the first rows nearly all are malignant, and the curve of precision says from
# where on they are not.

axes = plt.figure(figsize=(7, 4), layout="constrained").gca()
TopCurveDisplay.from_predictions(y_test, scores, ax=axes, plot_chance_level=True)

# %%
# How far to trust that? ``positives_at_top`` is the share of malignant cases above *every* benign one. It
# hangs on a single row, so its interval is wide; average precision looks at the whole list.

found = evaluate(scores, y=y_test)
for name in ("positives_at_top", "average_precision"):
    print(
        f"{name:18} {found[name].value:.3f}, from {found[name].low:.3f} to {found[name].high:.3f}"
    )

# %%
# **What to conclude.** Ten lines give a list that can be worked through from the top, with a figure for how
# good it is and an interval for how far to trust that. How far down to go is the next story.
