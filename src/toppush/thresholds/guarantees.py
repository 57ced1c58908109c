"""Thresholds whose guarantee holds with a stated confidence, whatever the scores' distribution.

False positives, by the Neyman-Pearson umbrella: of n independent negatives with sorted scores
t_(1) <= ... <= t_(n), the rate of new negatives above t_(k) exceeds alpha with probability at most

    v(k) = P(Binomial(n, 1 - alpha) >= k),

with equality if the distribution is continuous. The threshold is t_(k) for the least k with
v(k) <= 1 - confidence. Recall is the same statement about the positives.

Precision is not monotonic along a list, so that a threshold is chosen among several, and the choice
must not cost the confidence. The depths that are tested are fixed before any label is seen, each
1.25 times the one before. Given the score t at such a depth and the number of rows above it, those
are independent draws from the rows above t, so that their positives are binomial, and the test of
Clopper and Pearson is exact. Depth j gets a part of 1 - confidence in proportion to 1 / j, so that
the confidence holds for all tests together. The longest list that passes is taken. Nothing is
assumed about how precision changes along the list.

A tie is in or out as a whole: rows with a score above the threshold, not equal to it, are taken.
The rows must be independent, like those to come, and not those the model was fitted to.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from toppush.metrics.curve import TopCurve, top_curve
from toppush.types import Array

RATIO = 1.25
"""Of each depth at which precision is tested to the one before."""


class NoGuarantee(ValueError):
    """No threshold has the guarantee: there are too few rows, or the ranking is not good enough."""

    exit_code = 3
    """Of a command that ends with this error."""


class NotEnoughNegatives(NoGuarantee):
    """No threshold has the guarantee: there are fewer than `negatives_needed`."""


@dataclass(frozen=True)
class Threshold:
    """A score, and the guaranteed false positive rate of the rows above it.

    Attributes
    ----------
    score : float
        Rows with a score above it, not equal to it, are taken.
    max_fpr, confidence : float
        The guarantee: the false positive rate is at most `max_fpr`, with this confidence.
    order : int
        k: it is the k-th lowest of the negatives' scores.
    n_negatives : int
    violation : float
        v(k), at most 1 - confidence: the probability that the guarantee does not hold.
    """

    score: float
    max_fpr: float
    confidence: float
    order: int
    n_negatives: int
    violation: float


@dataclass(frozen=True)
class Guarantee:
    """A score, and the guaranteed precision or recall of the rows above it.

    Attributes
    ----------
    metric : {"precision", "recall"}
    score : float
        Rows with a score above it, not equal to it, are taken.
    level, confidence : float
        The guarantee: the metric is at least `level`, with this confidence.
    rows, true_positives : int
        Rows of the list above the score, and the positives among them.
    observed : float
        The metric of this list, which is not guaranteed.
    """

    metric: str
    score: float
    level: float
    confidence: float
    rows: int
    true_positives: int
    observed: float


def negatives_needed(max_fpr: float, confidence: float) -> int:
    """Least number of negatives that can bound a rate: the least n with (1 - a)^n <= 1 - c.

    >>> from toppush.thresholds.guarantees import negatives_needed
    >>> negatives_needed(0.001, 0.95)
    2995
    """
    _check_fractions(max_fpr=max_fpr, confidence=confidence)
    needed = math.log1p(-confidence) / math.log1p(-max_fpr)
    return math.ceil(needed * (1 - 1e-12))


def _check_fractions(**fractions: float) -> None:
    for name, value in fractions.items():
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name} must be above 0 and below 1, got {value!r}.")


def threshold_at_fpr(scores: ArrayLike, *, max_fpr: float, confidence: float = 0.95) -> Threshold:
    """The lowest score above which the false positive rate is at most `max_fpr`, with confidence.

    O(n) for n scores, and a search over the binomial distribution. Raises `NotEnoughNegatives` if
    there are fewer than `negatives_needed`.

    Parameters
    ----------
    scores : array of shape (n_negatives,)
        Scores of negatives that the model was not fitted to.
    max_fpr : float in (0, 1)
    confidence : float in (0, 1), default=0.95

    Examples
    --------
    >>> from toppush.thresholds.guarantees import threshold_at_fpr
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
            f"least {needed} negatives, and there are {n}; add more, or relax the guarantee."
        )
    order = _least_order(n, max_fpr, confidence)
    score = float(np.partition(values, order - 1)[order - 1])
    violation = float(binom.sf(order - 1, n, 1.0 - max_fpr))
    return Threshold(score, max_fpr, confidence, order, n, violation)


def _least_order(n: int, rate: float, confidence: float) -> int:
    """The least k with v(k) <= 1 - confidence."""
    from scipy.stats import binom

    # P(X >= k) <= 1 - c  <=>  P(X <= k - 1) >= c; ppf gives the least such k - 1.
    order = int(binom.ppf(confidence, n, 1.0 - rate)) + 1
    while order > 1 and binom.sf(order - 2, n, 1.0 - rate) <= 1.0 - confidence:
        order -= 1
    while order < n and binom.sf(order - 1, n, 1.0 - rate) > 1.0 - confidence:
        order += 1
    return order


def threshold_at_recall(
    y_true: ArrayLike, y_score: ArrayLike, *, min_recall: float, confidence: float = 0.95
) -> Guarantee:
    """The highest score above which recall is at least `min_recall`, with confidence.

    O(n log n) for n rows. Raises `NoGuarantee` if there are too few positives.

    Parameters
    ----------
    y_true : array of bool
        Which rows are positive; the model was fitted to none of them.
    y_score : array
    min_recall : float in (0, 1)
    confidence : float in (0, 1), default=0.95

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.thresholds.guarantees import threshold_at_recall
    >>> threshold_at_recall(np.arange(100) < 60, -np.arange(100.0), min_recall=0.95).rows
    60
    """
    _check_fractions(min_recall=min_recall, confidence=confidence)
    curve = top_curve(y_true, y_score)
    n_pos, needed = round(curve.n_pos), negatives_needed(1.0 - min_recall, confidence)
    if n_pos < needed:
        raise NoGuarantee(
            f"a recall of at least {min_recall:g} with confidence {confidence:g} needs at least "
            f"{needed} positives, and there are {n_pos}; add more, or relax the guarantee."
        )
    wanted = _least_order(n_pos, 1.0 - min_recall, confidence)
    end = int(np.searchsorted(curve.true_positives, wanted))
    return _guarantee("recall", curve, end, min_recall, confidence)


def threshold_at_precision(
    y_true: ArrayLike, y_score: ArrayLike, *, min_precision: float, confidence: float = 0.95
) -> Guarantee:
    """The longest tested list whose precision is at least `min_precision`, with confidence.

    The confidence holds for the whole search. O(n log n) for n rows. Raises `NoGuarantee` if no
    tested list passes, with the number of rows that might suffice.

    Parameters
    ----------
    y_true, y_score, confidence
        As for `threshold_at_recall`.
    min_precision : float in (0, 1)

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.thresholds.guarantees import threshold_at_precision
    >>> threshold_at_precision(np.arange(500) < 120, -np.arange(500.0), min_precision=0.9).rows
    110
    """
    from scipy.stats import binom

    _check_fractions(min_precision=min_precision, confidence=confidence)
    curve = top_curve(y_true, y_score)
    depths = depths_to_test(round(curve.depth[-1]), min_precision, confidence)
    # The tie at depth k + 1 is left out, so that k rows are above it, or fewer.
    ends = np.searchsorted(curve.depth, depths, side="right") - 1
    rows, positives = curve.depth[ends], curve.true_positives[ends]
    allowed = _test_levels(1.0 - confidence, len(depths))
    passed = binom.sf(positives - 1, rows, min_precision) <= allowed
    if not passed.any():
        raise NoGuarantee(_why_none(curve, rows, positives, min_precision, confidence))
    return _guarantee("precision", curve, int(ends[passed][-1]), min_precision, confidence)


def depths_to_test(n_rows: int, min_precision: float, confidence: float) -> Array:
    """Depths at which precision is tested; they depend on the number of rows, not on labels."""
    first = negatives_needed(1.0 - min_precision, confidence)
    steps = max(0, math.ceil(math.log(max(n_rows / first, 1.0), RATIO)))
    depths = np.unique(np.floor(first * RATIO ** np.arange(steps + 1)))
    return np.asarray(depths[depths < n_rows])


def _test_levels(violation: float, tests: int) -> Array:
    """Significance level of each test, in proportion to 1 / j.

    Equal levels failed in 55 of 100 lists of 20,000 rows where these fail in 35, because most
    depths are too deep for the precision.
    """
    parts = 1.0 / np.arange(1, tests + 1)
    return np.asarray(violation * parts / parts.sum())


def _guarantee(
    metric: str, curve: TopCurve, end: int, level: float, confidence: float
) -> Guarantee:
    """The guarantee for the rows down to a point of the curve."""
    rows, positives = round(curve.depth[end]), round(curve.true_positives[end])
    observed = positives / rows if metric == "precision" else positives / curve.n_pos
    score = score_below(curve.thresholds, end)
    return Guarantee(metric, score, level, confidence, rows, positives, observed)


def score_below(scores: Array, end: int) -> float:
    """The greatest score that the rows down to a place of descending scores exceed."""
    if end + 1 < len(scores):
        return float(scores[end + 1])
    return float(np.nextafter(scores[end], -np.inf))


def _why_none(
    curve: TopCurve, rows: Array, positives: Array, min_precision: float, confidence: float
) -> str:
    """Whether more rows might help, and how many."""
    wanted = f"a precision of at least {min_precision:g} with confidence {confidence:g}"
    n_rows, first = round(curve.depth[-1]), negatives_needed(1.0 - min_precision, confidence)
    if not rows.any():
        return (
            f"{wanted} needs a list of at least {first} rows that score above all others, and of "
            f"these {n_rows:,} rows there is none; add more, or relax the guarantee."
        )
    precision = positives / np.maximum(rows, 1.0)
    best = int(np.argmax(precision))
    seen = f"the best tested list holds {positives[best]:,.0f} positives in {rows[best]:,.0f} rows"
    if precision[best] <= min_precision:
        return f"{wanted} cannot be guaranteed: {seen}, which is not above it; relax the guarantee."
    allowed = _test_levels(1.0 - confidence, len(rows))
    times = _times_needed(rows, positives, min_precision, allowed)
    return (
        f"{wanted} cannot be guaranteed from {n_rows:,} rows: {seen}, too few to be sure. If more "
        f"are like these, about {times * n_rows:,.0f} suffice; add more, or relax the guarantee."
    )


def _times_needed(rows: Array, positives: Array, min_precision: float, allowed: Array) -> float:
    """Factor of the number of rows at which a test passes if precision stays as observed."""
    from scipy.special import betainc

    times = np.geomspace(1.0, 1e6, 2000)[:, None]
    # P(Binomial(n, p) >= h) = I_p(h, n - h + 1), which is defined between whole numbers too.
    h, others = np.maximum(times * positives, 1e-9), times * (rows - positives)
    passed = (betainc(h, others + 1, min_precision) <= allowed).any(axis=1)
    return float(times[np.argmax(passed), 0]) if passed.any() else math.inf
