"""
An objective for LightGBM
=========================

**The task.** There is a LightGBM pipeline, and it is to stay. Only the objective shall change: from "is each
row classified right" to "are the positives above the highest negatives".

`TopPushObjective` plugs into LightGBM's own training (and into XGBoost's), and `LightGBMMetric` stops it early by
a measure of the top.
"""

import lightgbm
import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from toppush import compare
from toppush.objectives import LIGHTGBM_PARAMS, LightGBMMetric, TopPushObjective

X, y = make_classification(
    8000, 20, n_informative=8, weights=[0.97], flip_y=0.01, class_sep=0.8, random_state=0
)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
rows = lightgbm.Dataset(X_train[::2], y_train[::2])
held_out = rows.create_valid(X_train[1::2], y_train[1::2])


def train(objective):
    seen = {}
    booster = lightgbm.train(
        {**LIGHTGBM_PARAMS, "objective": objective, "verbose": -1, "num_threads": 1},
        rows,
        300,
        valid_sets=[held_out],
        feval=LightGBMMetric("average_precision"),
        callbacks=[
            lightgbm.early_stopping(30, first_metric_only=False, verbose=False),
            lightgbm.record_evaluation(seen),
        ],
    )
    return booster, seen["valid_0"]["average_precision"]


boosters = {"push": train(TopPushObjective(top=0.1)), "log loss": train("binary")}

# %%
# Average precision on the held-out rows, round by round:

axes = plt.figure(figsize=(7, 4), layout="constrained").gca()
for name, (_, course) in boosters.items():
    axes.plot(range(1, len(course) + 1), course, label=name)
axes.set(xlabel="rounds", ylabel="average precision, held out")
axes.legend()

# %%
# On rows that had no say in anything:

lists = {name: booster.predict(X_test, raw_score=True) for name, (booster, _) in boosters.items()}
print(compare(lists, y=y_test))

# %%
# **What to conclude.** The change is one line, and what it brings is to be measured on your rows: our own
# comparisons find most of the gain of `TopPushTrees` in averaging several models, less in the objective.
