"""Readable scores: percentile scores from 0 to 100, and calibrated probabilities.

The percentile score is the percentage of held-out rows with a lower score. It resolves the top of a
ranking as finely as those rows do; 100 is above all of them.

The calibrated probability that a row of such a score is positive follows Venn and Abers (Vovk,
Petej and Fedorova 2015): isotonic regression is fitted twice for each score, with one more row
there that is negative, p0, and with one that is positive, p1. The probability is
p0 + prior (p1 - p0), the prior being the prevalence. It never falls as the score rises, and is
never 0 or 1: the first k rows of a list, all positive, have (k + prior) / (k + 1). Isotonic
regression and logistic regression, on the score or on its rank, overestimated the precision at the
top, most of all with few positives; the usual p1 / (1 - p0 + p1) overestimated the number of
positives in all (`python -m benchmarks.calibration`).
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from toppush.metrics.positive_class import checked_weights
from toppush.metrics.quantile_sketch import QuantileSketch, numbers, rounded, top_levels
from toppush.types import Array, Mask

FEWEST = 20
"""Positives, and negatives, below which there is no calibrated probability."""
IN_SAMPLE = (
    "No calibrated probability: every row that it could be learned from was used by the fit, and "
    "scores of training rows are optimistic."
)


@dataclass(frozen=True)
class ScoreScale:
    """Percentile scores and calibrated probabilities of scores, learned from labelled rows.

    Attributes
    ----------
    sketch : QuantileSketch
        Of the scores.
    positives : array
        Positives above the knot before and up to each knot, as a fraction of all weight.
    probability_at : array or None
        Calibrated probability of scores in those places, if the rows allow it.
    why : str
        Why there is none.
    held_out : bool
        Whether every row was scored by a model that was not fitted to it.
    """

    sketch: QuantileSketch
    positives: Array
    probability_at: Array | None
    why: str
    held_out: bool

    @classmethod
    def learn(
        cls,
        positive: Mask,
        scores: Array,
        weight: Array | None = None,
        *,
        held_out: bool = True,
        fewest: int = FEWEST,
    ) -> Self:
        """Learn from scores of labelled rows; O(n log n).

        Parameters
        ----------
        positive : array of bool
        scores : array
            None of them NaN.
        weight : array, optional
            A row of weight 2 counts as two, a row of weight 0 as none.
        held_out : bool, default=True
            Whether the scores are out-of-fold; if not, there are no probabilities.
        fewest : int, default=20
            Positives, and negatives, below which there are no probabilities.
        """
        weights = np.ones(len(scores)) if weight is None else checked_weights(weight)
        counted = weights > 0.0
        sketch = QuantileSketch.of(scores, weights, levels=top_levels(int(counted.sum())))
        place = np.minimum(np.searchsorted(sketch.knots, scores), len(sketch.knots) - 1)
        positives = np.bincount(place, weights * positive, len(sketch.knots)) / weights.sum()
        why = _why_not(positive[counted], held_out, fewest)
        probability = None
        if not why:
            row = 1.0 / np.sum(counted)
            low, high = venn_abers(positives, np.diff(sketch.up_to, prepend=0.0), row)
            prior = (float(positives.sum()) + row) / (1.0 + 2.0 * row)
            probability = np.asarray(low + prior * (high - low))
        return cls(sketch, positives, probability, why, held_out)

    def percentile(self, scores: ArrayLike) -> Array:
        """Percentile scores, 0 to 100: percent of the rows that score lower, ties by half."""
        return np.asarray(100.0 * self.sketch.fraction_below(np.asarray(scores, np.float64)))

    def probability(self, scores: ArrayLike) -> Array | None:
        """Calibrated probabilities of scores, or None."""
        if self.probability_at is None:
            return None
        at = np.searchsorted(self.sketch.knots, np.asarray(scores, np.float64))
        return np.asarray(self.probability_at[np.minimum(at, len(self.probability_at) - 1)])

    @property
    def digits(self) -> int:
        """Decimals by which percentile scores separate single rows: 4 for 100,000 rows."""
        return int(np.clip(np.ceil(np.log10(max(self.sketch.rows, 1.0))) - 1, 1, 7))

    @property
    def prevalence(self) -> float:
        """Fraction of positives among all rows."""
        return float(self.positives.sum())

    def precision(self, first: ArrayLike) -> Array:
        """Precision in the first part of the list, such as 0.01 of it."""
        first = np.clip(np.asarray(first, np.float64), 1e-300, 1.0)
        depth = np.append(0.0, 1.0 - np.append(0.0, self.sketch.up_to[:-1])[::-1])
        above = np.append(0.0, np.cumsum(self.positives[::-1]))
        return np.asarray(np.minimum(np.interp(first, depth, above) / first, 1.0))

    def as_json(self) -> dict[str, object]:
        """Plain numbers and strings."""
        probability = None if self.probability_at is None else rounded(self.probability_at)
        return {
            "sketch": self.sketch.as_json(),
            "positives": rounded(self.positives),
            "probability": probability,
            "why": self.why,
            "held_out": self.held_out,
        }

    @classmethod
    def from_json(cls, table: Any) -> Self:
        """The inverse of `as_json`; invalid input is refused."""
        sketch = QuantileSketch.from_json(table.get("sketch"))
        positives, probability = numbers(table.get("positives"), "positives"), None
        if table.get("probability") is not None:
            probability = numbers(table["probability"], "probability")
        for name, values in (("positives", positives), ("probability", probability)):
            if values is None:
                continue
            if len(values) != len(sketch.knots) or (values < 0.0).any() or (values > 1.0).any():
                raise ValueError(f"{name!r} does not hold one number from 0 to 1 for each knot.")
        if probability is not None and (np.diff(probability) < 0.0).any():
            raise ValueError("probabilities fall as scores rise.")
        why, held_out = str(table.get("why", "")), bool(table.get("held_out"))
        return cls(sketch, positives, probability, why, held_out)


@dataclass(frozen=True)
class Reliability:
    """Predicted and observed precision in the first rows of a list.

    `predicted` is the mean calibrated probability, `low` and `high` are the 95 % interval of
    Clopper and Pearson around the observed precision.
    """

    first: int
    predicted: float
    observed: float
    low: float
    high: float

    @property
    def holds(self) -> bool:
        """Whether the interval contains the predicted precision."""
        return self.low <= self.predicted <= self.high


def percentiles(scores: ArrayLike, reference: ArrayLike, weight: ArrayLike | None = None) -> Array:
    """Percent of reference rows with a lower score, ties by half.

    Parameters
    ----------
    scores : array
        Scores to convert.
    reference : array
        Scores of rows to compare with.
    weight : array, optional
        Of the reference rows.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.thresholds.calibration import percentiles
    >>> percentiles([5.0, 99.0], np.arange(10))
    array([ 55., 100.])
    """
    known = np.asarray(reference, np.float64)
    weights = None if weight is None else checked_weights(weight)
    sketch = QuantileSketch.of(known, weights, levels=top_levels(len(known)))
    return np.asarray(100.0 * sketch.fraction_below(np.asarray(scores, np.float64)))


def probabilities(
    scores: ArrayLike,
    positive: ArrayLike,
    reference: ArrayLike,
    weight: ArrayLike | None = None,
) -> Array:
    """Calibrated probabilities of scores, by the method of Venn and Abers.

    Parameters
    ----------
    scores : array
        Scores to convert.
    positive : array of bool
        Which reference rows are positive.
    reference : array
        Their scores, by a model that did not see them.
    weight : array, optional
        Of the reference rows.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.thresholds.calibration import probabilities
    >>> probabilities([10.0, -10.0], np.arange(10) >= 6, np.arange(10)).round(3)
    array([0.883, 0.06 ])
    """
    weights = None if weight is None else checked_weights(weight)
    known = np.asarray(positive, bool), np.asarray(reference, np.float64)
    calibrated = ScoreScale.learn(*known, weights, fewest=0).probability(scores)
    assert calibrated is not None
    return calibrated


def reliability(positive: Mask, scores: Array, predicted: Array) -> list[Reliability]:
    """Predicted and observed precision in the first 10, 30, 100, ... rows of a list.

    Of equal scores the earlier row comes first, as in a ranked list.
    """
    from scipy.stats import binomtest

    order = np.argsort(-scores, kind="stable")
    positives, sums = np.cumsum(positive[order]), np.cumsum(predicted[order])
    rows = []
    for k in lengths(len(scores)):
        count = int(positives[k - 1])
        interval = binomtest(count, k).proportion_ci(0.95)
        ends = float(interval.low), float(interval.high)
        rows.append(Reliability(k, float(sums[k - 1]) / k, count / k, *ends))
    return rows


def lengths(n_rows: int) -> list[int]:
    """10, 30, 100, 300 and so on, and all rows."""
    steps = [base * 10**power for power in range(1, 16) for base in (1, 3)]
    return [k for k in steps if k < n_rows] + [n_rows]


def venn_abers(positives: Array, rows: Array, row: float) -> tuple[Array, Array]:
    """p0 and p1 of places in ascending order of score, with these positives and rows.

    `row` is the weight of one row. As many isotonic regressions as there are places, twice.
    """
    low, high = np.empty(len(rows)), np.empty(len(rows))
    for place in range(len(rows)):
        more, one_more = rows.copy(), positives.copy()
        more[place] += row
        one_more[place] += row
        low[place], high[place] = (
            _isotonic(positives, more)[place],
            _isotonic(one_more, more)[place],
        )
    return np.maximum.accumulate(low), np.maximum.accumulate(high)


def _isotonic(positives: Array, rows: Array) -> Array:
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(positives / rows, weights=rows).x)


def _why_not(positive: Mask, held_out: bool, fewest: int) -> str:
    """Why there are no probabilities; empty if there are."""
    if not held_out:
        return IN_SAMPLE
    n_pos, n_neg = int(positive.sum()), int((~positive).sum())
    if min(n_pos, n_neg) >= fewest:
        return ""
    return (
        f"No calibrated probability: it needs {fewest} positives and {fewest} negatives among the "
        f"rows that it is learned from, and there are {n_pos} and {n_neg}."
    )
