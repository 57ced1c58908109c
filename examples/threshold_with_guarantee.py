"""
A threshold with a guarantee
============================

**The task.** The precision of the selected cases must be at least 90 %. A threshold with an observed precision of
90 % on a sample does not guarantee this: for about half of the samples the true precision is lower. This example
finds a threshold that holds with 95 % confidence, and shows its cost.
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
guaranteed = threshold_at_precision(y, scores, min_precision=0.9, confidence=0.95)
curve = top_curve(y, scores)
precision = curve.true_positives[1:] / curve.depth[1:]
observed = curve.thresholds[1:][precision >= 0.9].min()
print(f"observed: above {observed:.2f}; guaranteed: above {guaranteed.score:.2f}")

# %%
# Repeat this for 200 samples, each evaluated on a large independent sample:

truth_y, truth_scores = sample(999, 400_000)


def true_precision(score):
    return truth_y[truth_scores > score].mean()


precisions = {"observed": [], "guaranteed": []}
for seed in range(200):
    y, scores = sample(seed)
    curve = top_curve(y, scores)
    precision = curve.true_positives[1:] / curve.depth[1:]
    precisions["observed"].append(true_precision(curve.thresholds[1:][precision >= 0.9].min()))
    try:
        guaranteed = threshold_at_precision(y, scores, min_precision=0.9, confidence=0.95)
        precisions["guaranteed"].append(true_precision(guaranteed.score))
    except NoGuarantee:
        pass

axes = plt.figure(figsize=(7, 4), layout="constrained").gca()
axes.hist(precisions.values(), bins=np.linspace(0.8, 1.0, 41), label=list(precisions))
axes.axvline(0.9, color="k", linestyle=":")
axes.set(xlabel="true precision", ylabel="samples")
axes.legend()
for name, values in precisions.items():
    print(f"{name}: held in {np.mean(np.array(values) >= 0.9):.0%} of {len(values)} samples")

# %%
# **What to conclude.** The guarantee costs recall: fewer rows are selected than the sample suggests. It holds in
# at least 95 % of the cases, for any model; the observed threshold holds in about half of them.
