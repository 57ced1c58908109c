"""
Fraud triage with a budget
==========================

**The task.** There are 20,000 payments a day, 1 % of them fraudulent, and the team can review 50. A review costs
5, a detected fraud saves 120. Which payments should the team review, and is 50 the right number?
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
scores = ranker.decision_function(X_test)  # of held-out rows

# %%
# **Fifty reviews per day.** On average 50 payments per day exceed the first threshold; at most 50 exceed the
# second one on 95 % of days.

on_average = threshold_for_budget(scores, budget=50, rows_per_day=20_000)
nearly_always = threshold_for_budget(scores, budget=50, rows_per_day=20_000, confidence=0.95)
print(f"review payments above {on_average.score:.3f}, or above {nearly_always.score:.3f}")
frauds = expected_true_positives(y_test, scores, rows=20_000, length=50)
print(f"frauds among fifty: {frauds.expected:.0f}, between {frauds.low:.0f} and {frauds.high:.0f}")

# %%
# **Is fifty the right number?** The profit is the benefit of the true positives minus the cost of the reviews.

curve = profit_curve(y_test, scores, value=120.0, cost=5.0)
best = best_length(y_test, scores, value=120.0, cost=5.0)
expected = best.expected
print(f"best: {best.length} of {len(y_test)} rows, {2 * best.length} per day")
print(f"expected profit {expected.value:.0f}, from {expected.low:.0f} to {expected.high:.0f}")

axes = plt.figure(figsize=(7, 4), layout="constrained").gca()
axes.plot(2 * curve.lengths, 2 * curve.profits)
axes.axvline(50, color="k", linestyle=":", label="fifty reviews")
axes.axvline(2 * best.length, color="C1", linestyle="--", label="greatest profit")
axes.set(xscale="log", xlabel="reviews per day", ylabel="profit per day", xlim=(1, 10_000))
axes.set_ylim(-2000, 2.2 * np.max(curve.profits))
axes.legend()

# %%
# **What to conclude.** The review budget gives a threshold and a forecast for a day. Costs and benefits show
# whether the budget is well chosen: if the curve still rises at fifty reviews, more reviews pay.
