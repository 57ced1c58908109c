"""Readable scores: percentile scores from 0 to 100, and calibrated probabilities.

The percentile score is the percentage of held-out rows with a lower score. It resolves the top of a
ranking as finely as those rows do; 100 is above all of them.

`toppush.thresholds.probabilities` has the calibrated probabilities.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from toppush.metrics.positive_class import checked_weights
from toppush.metrics.quantile_sketch import QuantileSketch, numbers, rounded, top_levels
from toppush.thresholds.probabilities import Calibration
from toppush.types import Array, Mask

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
    calibration : Calibration or None
        Probabilities of scores; None if some rows were scored by a model that was fitted to them.
    held_out : bool
        Whether every row was scored by a model that was not fitted to it.
    """

    sketch: QuantileSketch
    positives: Array
    calibration: Calibration | None
    held_out: bool

    @classmethod
    def learn(
        cls,
        positive: Mask,
        scores: Array,
        weight: Array | None = None,
        *,
        held_out: bool = True,
        calibration: Calibration | None = None,
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
        calibration : Calibration, optional
            That of the fitted ranker, if it has one.
        """
        weights = np.ones(len(scores)) if weight is None else checked_weights(weight)
        counted = weights > 0.0
        sketch = QuantileSketch.of(scores, weights, levels=top_levels(int(counted.sum())))
        place = np.minimum(np.searchsorted(sketch.knots, scores), len(sketch.knots) - 1)
        positives = np.bincount(place, weights * positive, len(sketch.knots)) / weights.sum()
        if held_out and calibration is None:
            calibration = Calibration.learn(positive, scores, weights)
        return cls(sketch, positives, calibration, held_out)

    def percentile(self, scores: ArrayLike) -> Array:
        """Percentile scores, 0 to 100: percent of the rows that score lower, ties by half."""
        return np.asarray(100.0 * self.sketch.fraction_below(np.asarray(scores, np.float64)))

    def probability(self, scores: ArrayLike) -> Array | None:
        """Calibrated probabilities of scores, or None."""
        return None if self.calibration is None else self.calibration.probability(scores)

    @property
    def why(self) -> str:
        """Why there are no probabilities; empty if there are."""
        return "" if self.calibration is not None else IN_SAMPLE

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
        return {
            "sketch": self.sketch.as_json(),
            "positives": rounded(self.positives),
            "calibration": None if self.calibration is None else self.calibration.as_json(),
            "held_out": self.held_out,
        }

    @classmethod
    def from_json(cls, table: Any) -> Self:
        """The inverse of `as_json`; invalid input is refused."""
        sketch = QuantileSketch.from_json(table.get("sketch"))
        positives = numbers(table.get("positives"), "positives")
        fractions = (positives >= 0.0) & (positives <= 1.0)
        if len(positives) != len(sketch.knots) or not fractions.all():
            raise ValueError("'positives' does not hold one number from 0 to 1 for each knot.")
        known = table.get("calibration")
        calibration = None if known is None else Calibration.from_json(known)
        return cls(sketch, positives, calibration, bool(table.get("held_out")))


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
    """Calibrated probabilities of scores.

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
    >>> reference = np.arange(100)
    >>> probabilities([25, 75], reference % 10 < reference // 10, reference).round(1)
    array([0.2, 0.7])
    """
    known = np.asarray(positive, bool), np.asarray(reference, np.float64)
    return Calibration.learn(*known, weight).probability(scores)


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
