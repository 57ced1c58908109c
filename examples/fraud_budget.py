"""
Fraud triage with a budget
==========================

**The task.** Twenty thousand payments a day, one in a hundred is a fraud, and the team can look at fifty. A
look costs 5, a fraud that is found saves 120. Which payments do they get, and is fifty the right number?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from toppush import TopPushCV
from toppush.thresholds.budgets import expected_true_positives, threshold_for_budget
from toppush.thresholds.profit import best_length, profit_curve

X, y = make_classification(
    20_000, 20, n_informative=6, weights=[0.99], flip_y=0.002, class_sep=1.5, random_state=0
)
X_train, X_test, y_train, y_test = train_test_split(
    StandardScaler().fit_transform(X), y == 1, test_size=0.5, stratify=y, random_state=0
)
ranker = TopPushCV().fit(X_train, y_train)
scores = ranker.decision_function(X_test)  # of rows that the ranker has not seen

# %%
# **Fifty looks a day.** With the first threshold fifty payments a day exceed it on average; with the second
# the team is done on 95 days of a hundred.

on_average = threshold_for_budget(scores, budget=50, rows_per_day=20_000)
nearly_always = threshold_for_budget(scores, budget=50, rows_per_day=20_000, confidence=0.95)
print(f"look at payments above {on_average.score:.3f}, or above {nearly_always.score:.3f}")
hits = expected_true_positives(y_test, scores, rows=20_000, length=50)
print(f"of fifty a day {hits.expected:.0f} are frauds, between {hits.low:.0f} and {hits.high:.0f}")

# %%
# **Is fifty the right number?** The profit of a list is the value of its hits less the cost of its looks.

curve = profit_curve(y_test, scores, value=120.0, cost=5.0)
best = best_length(y_test, scores, value=120.0, cost=5.0)
expected = best.expected
print(f"best: {best.length} of {len(y_test)} rows, {2 * best.length} a day")
print(
    f"profit of so many rows {expected.value:.0f}, from {expected.low:.0f} to {expected.high:.0f}"
)

axes = plt.figure(figsize=(7, 4), layout="constrained").gca()
axes.plot(2 * curve.lengths, 2 * curve.profits)
axes.axvline(50, color="k", linestyle=":", label="fifty looks")
axes.axvline(2 * best.length, color="C1", linestyle="--", label="where the profit is greatest")
axes.set(xscale="log", xlabel="looks a day", ylabel="profit a day", xlim=(1, 10_000))
axes.set_ylim(-2000, 2.2 * np.max(curve.profits))
axes.legend()

# %%
# **What to conclude.** The budget gives a score to cut at, and what to expect of a day. The money says whether
# the budget is well chosen: where the curve still rises at the team's fifty rows, another colleague pays.
