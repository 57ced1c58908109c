"""Thresholds whose false positive rate is bounded with a stated confidence.

The Neyman-Pearson umbrella: of n independent negatives with sorted scores t_(1) <= ... <= t_(n),
the rate of new negatives above t_(k) exceeds alpha with probability at most

    v(k) = P(Binomial(n, 1 - alpha) >= k),

whatever the distribution of the scores; with equality if it is continuous. The threshold is t_(k)
for the least k with v(k) <= 1 - confidence. The negatives must not be those the model was fitted
to.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["NotEnoughNegatives", "Threshold", "negatives_needed", "threshold_at_fpr"]


class NotEnoughNegatives(ValueError):
    """No threshold can keep the promise: even the highest score of so few may be too low."""

    exit_code = 3
    """Of a command that ends with this."""


@dataclass(frozen=True)
class Threshold:
    """A score, and what is promised of the rows above it.

    Attributes
    ----------
    score : float
        Rows with a score above it, not equal to it, are alarms.
    max_fpr, confidence : float
        The promise: the false positive rate is at most `max_fpr`, with this confidence.
    order : int
        k: it is the k-th lowest of the negatives' scores.
    n_negatives : int
    violation : float
        v(k), at most 1 - confidence: the probability that the promise does not hold.
    """

    score: float
    max_fpr: float
    confidence: float
    order: int
    n_negatives: int
    violation: float


def negatives_needed(max_fpr: float, confidence: float) -> int:
    """Least number of negatives that can bound a rate: the least n with (1 - a)^n <= 1 - c.

    >>> negatives_needed(0.001, 0.95)
    2995
    """
    for name, value in (("max_fpr", max_fpr), ("confidence", confidence)):
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name} must be above 0 and below 1, got {value!r}.")
    needed = math.log1p(-confidence) / math.log1p(-max_fpr)
    return math.ceil(needed * (1 - 1e-12))


def threshold_at_fpr(scores: ArrayLike, *, max_fpr: float, confidence: float = 0.95) -> Threshold:
    """The lowest score above which the false positive rate is at most `max_fpr`, with confidence.

    O(n) for n scores, and a search over the binomial distribution.

    Parameters
    ----------
    scores : array of shape (n_negatives,)
        Scores of negatives that the model was not fitted to.
    max_fpr : float in (0, 1)
    confidence : float in (0, 1), default=0.95

    Returns
    -------
    Threshold

    Raises
    ------
    NotEnoughNegatives
        If there are fewer than `negatives_needed`.

    Examples
    --------
    >>> import numpy as np
    >>> threshold_at_fpr(np.arange(100.0), max_fpr=0.05).score
    98.0
    """
    from scipy.stats import binom

    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or np.isnan(values).any():
        raise ValueError(f"scores must be a vector without NaN, got shape {values.shape}.")
    n = len(values)
    needed = negatives_needed(max_fpr, confidence)
    if n < needed:
        raise NotEnoughNegatives(
            f"a false positive rate of at most {max_fpr:g} with confidence {confidence:g} needs at "
            f"least {needed} negatives, and there are {n}; bring more, or ask for less."
        )
    # P(X >= k) <= 1 - c  <=>  P(X <= k - 1) >= c; ppf gives the least such k - 1.
    order = int(binom.ppf(confidence, n, 1.0 - max_fpr)) + 1
    while order > 1 and binom.sf(order - 2, n, 1.0 - max_fpr) <= 1.0 - confidence:
        order -= 1
    while order < n and binom.sf(order - 1, n, 1.0 - max_fpr) > 1.0 - confidence:
        order += 1
    score = float(np.partition(values, order - 1)[order - 1])
    violation = float(binom.sf(order - 1, n, 1.0 - max_fpr))
    return Threshold(score, max_fpr, confidence, order, n, violation)
