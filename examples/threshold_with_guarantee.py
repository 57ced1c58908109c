"""
A threshold with a guarantee
============================

**The task.** "Of the cases that you send us, nine in ten must be right." Cutting the list where its precision on
a sample is 90 % does not keep that promise: half of such lists are worse. Here is one that holds with 95 %
confidence, and what it costs.
"""

import matplotlib.pyplot as plt
import numpy as np

from toppush.metrics import top_curve
from toppush.thresholds.guarantees import NoGuarantee, threshold_at_precision


def sample(seed, n_rows=4000):
    """Scores of a model on new rows, of which one in ten is positive."""
    rng = np.random.default_rng(seed)
    y = rng.random(n_rows) < 0.1
    return y, 3.0 * y + rng.normal(size=n_rows)


y, scores = sample(0)
promised = threshold_at_precision(y, scores, min_precision=0.9, confidence=0.95)
curve = top_curve(y, scores)
precision = curve.true_positives[1:] / curve.depth[1:]
observed = curve.thresholds[1:][precision >= 0.9].min()
print(f"as observed: above {observed:.2f}; as promised: above {promised.score:.2f}")

# %%
# The same again for two hundred samples, each judged on a large one that it has not seen:

truth_y, truth_scores = sample(999, 400_000)


def true_precision(score):
    return truth_y[truth_scores > score].mean()


kept = {"as observed": [], "as promised": []}
for seed in range(200):
    y, scores = sample(seed)
    curve = top_curve(y, scores)
    precision = curve.true_positives[1:] / curve.depth[1:]
    kept["as observed"].append(true_precision(curve.thresholds[1:][precision >= 0.9].min()))
    try:
        found = threshold_at_precision(y, scores, min_precision=0.9, confidence=0.95)
        kept["as promised"].append(true_precision(found.score))
    except NoGuarantee:
        pass

axes = plt.figure(figsize=(7, 4), layout="constrained").gca()
axes.hist(kept.values(), bins=np.linspace(0.8, 1.0, 41), label=list(kept))
axes.axvline(0.9, color="k", linestyle=":")
axes.set(xlabel="true precision of the list", ylabel="samples")
axes.legend()
for name, all_found in kept.items():
    print(f"{name}: held in {np.mean(np.array(all_found) >= 0.9):.0%} of {len(all_found)} lists")

# %%
# **What to conclude.** The promise costs length: the list is shorter than the sample suggests. It is kept in at
# least 95 of 100 cases, whatever the model is; the naive cut in about half of them.
