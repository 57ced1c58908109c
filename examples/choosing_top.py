"""
Choosing ``top``
================

**The task.** Choose how many of the highest negatives enter the loss. ``top`` sets which negatives the
positives must exceed: the highest one (``top=1``), the mean of the ``k`` highest, or a share of them. A small
``top`` depends on single rows; a large one is more stable, and looks further down the ranking.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import minmax_scale

from toppush import DegenerateWarning, TopPush, TopPushCV
from toppush.metrics import average_precision, top_recall

X, digit = load_digits(return_X_y=True)
X = minmax_scale(X) + np.random.default_rng(0).normal(scale=0.25, size=X.shape)
y = digit == 8
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
tops = [1, 5, 0.01, 0.05, 0.1, 0.5, 1.0]

# %%
# Fit a ranker for each value and compare them on held-out rows: recall before the first five false alarms,
# and average precision.

results = []
for top in tops:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateWarning)
        scores = TopPush(lam=0.01, top=top).fit(X_train, y_train).decision_function(X_test)
    results.append((top_recall(y_test, scores), average_precision(y_test, scores)))

axes = plt.figure(figsize=(7, 4), layout="constrained").gca()
for line, name in zip(np.transpose(results), ["recall before 5", "average precision"], strict=True):
    axes.plot(range(len(tops)), line, "o-", label=name)
axes.set_xticks(range(len(tops)), [str(top) for top in tops])
axes.set(xlabel="top: a count, or a share of the negatives", ylabel="on held-out rows")
axes.legend()

# %%
# `TopPushCV` chooses ``lam`` and ``top`` together by cross-validation.

chosen = TopPushCV().fit(X_train, y_train)
scores = chosen.decision_function(X_test)
print(f"chosen: top={chosen.top_}, lam={chosen.lam_:.2g}")
print(f"recall before 5: {top_recall(y_test, scores):.3f}")

# %%
# **What to conclude.** Neither the smallest nor the largest ``top`` ranks best, and the best ``top`` depends on
# ``lam``: a larger ``top`` may go with stronger regularisation. Let `TopPushCV` choose, or start with a share
# between 0.01 and 0.1. Use ``top=1`` for clean data, on which no false alarm at the top is possible.
