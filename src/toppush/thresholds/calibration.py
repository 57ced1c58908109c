"""Readable scores: percentile scores from 0 to 100, and calibrated probabilities.

The percentile score is the percentage of held-out rows with a lower score. It resolves the top of a
ranking as finely as those rows do; 100 is above all of them.

The calibrated probability that a row of such a score is positive follows Venn and Abers (Vovk,
Petej and Fedorova 2015): isotonic regression is fitted twice for each score, with one more row
there that is negative, p0, and with one that is positive, p1. The probability is
p0 + prior (p1 - p0), the prior being the share of positives among all rows. It never falls as the
score rises, and is never 0 or 1: the first k rows of a list, all positive, have
(k + prior) / (k + 1). Isotonic regression and logistic regression, on the score or on its rank,
promised more at the top than was found there, most of all with few positives; p1 / (1 - p0 + p1),
which is usual, promised too many positives in all (`python -m benchmarks.shares`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from toppush.metrics.quantile_sketch import Spread, numbers, rounded, top_levels
from toppush.metrics.weights import checked_weights
from toppush.types import Array, Mask

__all__ = ["FEWEST", "ScoreScale", "percentiles", "probabilities", "reliability"]

FEWEST = 20
"""Positives, and negatives, below which there is no calibrated probability."""
FLATTERING = (
    "No calibrated probability: every row that it could be learned from was used by the fit, and "
    "scores of training rows are optimistic."
)


@dataclass(frozen=True)
class ScoreScale:
    """What scores mean, learned from labelled rows.

    Attributes
    ----------
    spread : Spread
        Of the scores.
    hits : array
        Positives above the knot before and up to each knot, as a share of all weight.
    probability_at : array or None
        Calibrated probability of scores in those places, if the rows allow it.
    why : str
        Why there is none.
    held_out : bool
        Whether no row was scored by a fit that had seen it.
    """

    spread: Spread
    hits: Array
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
            A row of weight 2 counts as two, a row of weight 0 as none; the scale of all weights
            changes nothing.
        held_out : bool, default=True
            Whether the scores are out-of-fold; if not, there are no probabilities.
        fewest : int, default=20
            Positives, and negatives, below which there are none either.
        """
        weights = np.ones(len(scores)) if weight is None else checked_weights(weight)
        spread = Spread.of(scores, weights, levels=top_levels(int(np.sum(weights > 0.0))))
        place = np.minimum(np.searchsorted(spread.knots, scores), len(spread.knots) - 1)
        hits = np.bincount(place, weights * positive, len(spread.knots)) / weights.sum()
        why = _why_not(positive[weights > 0.0], held_out, fewest)
        rows = np.diff(spread.upto, prepend=0.0)
        found = None if why else _calibrated(hits, rows, 1.0 / np.sum(weights > 0.0))
        return cls(spread, hits, found, why, held_out)

    def percentile(self, scores: ArrayLike) -> Array:
        """Percentile scores, 0 to 100: percent of the rows that score lower, ties by half."""
        return np.asarray(100.0 * self.spread.share_below(np.asarray(scores, np.float64)))

    def probability(self, scores: ArrayLike) -> Array | None:
        """Calibrated probabilities of scores, never falling; None if not known."""
        if self.probability_at is None:
            return None
        at = np.searchsorted(self.spread.knots, np.asarray(scores, np.float64))
        return np.asarray(self.probability_at[np.minimum(at, len(self.probability_at) - 1)])

    @property
    def digits(self) -> int:
        """Decimals by which percentile scores separate single rows: 4 for 100,000 rows."""
        return int(np.clip(np.ceil(np.log10(max(self.spread.rows, 1.0))) - 1, 1, 7))

    @property
    def prevalence(self) -> float:
        """Share of positives among all rows."""
        return float(self.hits.sum())

    def precision(self, first: ArrayLike) -> Array:
        """Share of positives found in the first part of the list, such as 0.01 of it."""
        first = np.clip(np.asarray(first, np.float64), 1e-300, 1.0)
        depth = np.append(0.0, 1.0 - np.append(0.0, self.spread.upto[:-1])[::-1])
        found = np.append(0.0, np.cumsum(self.hits[::-1]))
        return np.asarray(np.minimum(np.interp(first, depth, found) / first, 1.0))

    def as_json(self) -> dict[str, object]:
        """Plain numbers and texts."""
        probability_at = None if self.probability_at is None else rounded(self.probability_at)
        known = {"hits": rounded(self.hits), "probability": probability_at, "why": self.why}
        return {"spread": self.spread.as_json(), **known, "held_out": self.held_out}

    @classmethod
    def from_json(cls, known: Mapping[str, object]) -> Self:
        """Undo `as_json`; refuse what is none."""
        spread = known.get("spread")
        if not isinstance(spread, Mapping):
            raise ValueError("'spread' is no table.")
        read, hits, probability_at = (
            Spread.from_json(spread),
            numbers(known.get("hits"), "hits"),
            None,
        )
        if known.get("probability") is not None:
            probability_at = numbers(known["probability"], "probability")
        for name, one in (("hits", hits), ("probability", probability_at)):
            if one is not None and (len(one) != len(read.knots) or not _are_fractions(one)):
                raise ValueError(f"{name!r} does not hold one number from 0 to 1 for each knot.")
        if probability_at is not None and (np.diff(probability_at) < 0.0).any():
            raise ValueError("probabilities fall as scores rise.")
        return cls(
            read, hits, probability_at, str(known.get("why", "")), bool(known.get("held_out"))
        )


@dataclass(frozen=True)
class Reliability:
    """What was predicted and what was found in the first rows of a list.

    Attributes
    ----------
    first : int
        How many rows.
    predicted : float
        Their mean calibrated probability.
    found : float
        Share of positives among them.
    low, high : float
        95 % interval of Clopper and Pearson around what was found.
    """

    first: int
    predicted: float
    found: float
    low: float
    high: float

    @property
    def holds(self) -> bool:
        """Whether the interval holds what was predicted."""
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
    spread = Spread.of(known, weights, levels=top_levels(len(known)))
    return np.asarray(100.0 * spread.share_below(np.asarray(scores, np.float64)))


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
    found = ScoreScale.learn(*known, weights, fewest=0).probability(scores)
    assert found is not None
    return found


def reliability(positive: Mask, scores: Array, predicted: Array) -> list[Reliability]:
    """Predicted and found share of positives among the first 10, 30, 100, ... rows of a list.

    Of equal scores the earlier row comes first, as in a ranked list.
    """
    order = np.argsort(-scores, kind="stable")
    hits, sums = np.cumsum(positive[order]), np.cumsum(predicted[order])
    return [_first_rows(k, int(hits[k - 1]), float(sums[k - 1])) for k in lengths(len(scores))]


def lengths(n_rows: int) -> list[int]:
    """10, 30, 100, 300 and so on, and all rows."""
    found = [base * 10**power for power in range(1, 16) for base in (1, 3)]
    return [k for k in found if k < n_rows] + [n_rows]


def _first_rows(k: int, hits: int, expected: float) -> Reliability:
    from scipy.stats import binomtest

    interval = binomtest(hits, k).proportion_ci(0.95)
    return Reliability(k, expected / k, hits / k, float(interval.low), float(interval.high))


def _calibrated(hits: Array, rows: Array, row: float) -> Array:
    """Between p0 and p1, by the share of all rows that is positive, which is never 0 or 1."""
    low, high = venn_abers(hits, rows, row)
    prior = (float(hits.sum()) + row) / (1.0 + 2.0 * row)
    return np.asarray(low + prior * (high - low))


def venn_abers(hits: Array, rows: Array, row: float) -> tuple[Array, Array]:
    """p0 and p1 of places in rising order of score, with these positives and rows.

    `row` is what one row weighs. As many isotonic regressions as there are places, twice.
    """
    low, high = np.empty(len(rows)), np.empty(len(rows))
    for place in range(len(rows)):
        more, one_more = rows.copy(), hits.copy()
        more[place] += row
        one_more[place] += row
        low[place], high[place] = _rising(hits, more)[place], _rising(one_more, more)[place]
    return np.maximum.accumulate(low), np.maximum.accumulate(high)


def _rising(hits: Array, rows: Array) -> Array:
    """The rising staircase nearest to shares of places that weigh differently."""
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(hits / rows, weights=rows).x)


def _why_not(positive: Mask, held_out: bool, fewest: int) -> str:
    """Why there are no probabilities, if there can be none."""
    if not held_out:
        return FLATTERING
    n_pos, n_neg = int(positive.sum()), int((~positive).sum())
    if min(n_pos, n_neg) < fewest:
        return (
            f"No calibrated probability: it needs {fewest} positives and {fewest} negatives among "
            f"the rows that it is learned from, and there are {n_pos} and {n_neg}."
        )
    return ""


def _are_fractions(values: Array) -> bool:
    return bool(((values >= 0.0) & (values <= 1.0)).all())
