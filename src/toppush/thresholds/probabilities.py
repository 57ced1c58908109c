"""Calibrated probabilities of scores, and the threshold with the greatest expected F1 score.

The log odds of a positive are a continuous function of the score that is linear between knots.
Logistic regression on the score (Platt 1999) is a single line. Here the slope changes at knots
that divide the rows into parts of equal weight, where both classes have the same total. The
logarithms of the slopes are a random walk, whose steps cost the squared log likelihood of a normal
distribution: few rows give nearly a single line, many rows their own slope in each part. Labels
are Platt's targets, which are a little off 0 and 1.

So the probability rises strictly with the score and keeps the ranking, also beyond the scores that
it was learned from. It is never 0 or 1: one more row, a negative, is counted in. On raw tables
logistic regression overestimated the precision at the top of thousands of rows, and isotonic
regression and the method of Venn and Abers had a greater log loss, most of all with few positives
(`python -m benchmarks.calibration`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import expit, logit

from toppush.metrics.positive_class import checked_weights
from toppush.metrics.quantile_sketch import (
    QuantileSketch,
    effective_rows,
    masses,
    numbers,
    top_levels,
)
from toppush.types import Array, Mask

PIECES = 12
STEP = 0.4
"""Standard deviation of the change of a log slope from one piece to the next. With 5 to 16 pieces
and steps of 0.3 to 0.6 the log loss differed by less than 0.1 %."""
BEYOND = 0.3
"""Slope above the highest row, relative to that below it. With 1, probabilities of the first 10 of
15,000 new rows were too high by 0.02 to 0.03 with few training rows."""
LEAST_RISE, MOST_RISE, LEAST_ODDS = 1e-3, 100.0, -700.0
"""Of the log odds in a piece; and the least log odds, of a probability of 1e-304."""
TINY = np.finfo(np.float64).tiny


def calibrate(
    positive: Mask, scores: Array, weight: Array | None = None
) -> tuple[float, "Calibration"]:
    """The threshold of `Calibration.f1_threshold`, and probabilities of scores less this threshold.

    Parameters
    ----------
    positive : array of bool
    scores : array
        Distributed as those of new rows; rows whose score is NaN are left out.
    weight : array, optional
    """
    known = ~np.isnan(scores)
    known_weight = None if weight is None else weight[known]
    calibration = Calibration.learn(positive[known], scores[known], known_weight)
    threshold = calibration.f1_threshold(scores[known], known_weight)
    return threshold, replace(calibration, knots=calibration.knots - threshold)


@dataclass(frozen=True)
class Calibration:
    """Probabilities of scores, learned from labelled rows.

    Attributes
    ----------
    knots : array
        Scores in ascending order.
    log_odds : array
        Log odds at the knots, ascending; linear between them and beyond the first and last.
    rows : float
        Effective number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.thresholds.probabilities import Calibration
    >>> scores = np.arange(100.0)
    >>> calibration = Calibration.learn(scores % 10 < scores // 10, scores)
    >>> calibration.probability([25.0, 75.0]).round(1)
    array([0.2, 0.7])
    """

    knots: Array
    log_odds: Array
    rows: float

    @classmethod
    def learn(cls, positive: Mask, scores: Array, weight: ArrayLike | None = None) -> Self:
        """Learn from scores of rows that the model was not fitted to; O(n log n).

        Parameters
        ----------
        positive : array of bool
        scores : array
            None of them NaN.
        weight : array, optional
            Only ratios count; a row of weight 0 is left out.
        """
        weights = np.ones(len(scores)) if weight is None else checked_weights(weight)
        cells = _Cells.of(np.asarray(positive, bool), np.asarray(scores, np.float64), weights)
        knots = cells.knots(PIECES)
        log_odds = _fitted(cells, knots)
        further = knots[-1] - knots[0]
        rise = BEYOND * further * (log_odds[-1] - log_odds[-2]) / (knots[-1] - knots[-2])
        knots = np.append(knots, knots[-1] + further)
        return cls(knots, np.append(log_odds, log_odds[-1] + rise), float(cells.mass.sum()))

    def probability(self, scores: ArrayLike) -> Array:
        """Probabilities of scores, each between 0 and 1; they rise with the score."""
        values = np.asarray(scores, np.float64)
        piece = np.searchsorted(self.knots[1:-1], values, side="right")
        with np.errstate(over="ignore"):
            odds = self.log_odds[piece] + self.slopes[piece] * (values - self.knots[piece])
        inner = self.log_odds[1:-1]  # rounding must not change the order at a knot
        odds = np.clip(odds, np.append(LEAST_ODDS, inner)[piece], np.append(inner, np.inf)[piece])
        return np.asarray(expit(odds) * self.most)

    @property
    def most(self) -> float:
        """The limit of probabilities from above."""
        return self.rows / (self.rows + 1.0)

    def of_both_classes(self, scores: Array) -> Array:
        """Probabilities of the negative and the positive class, a column each."""
        positive = self.probability(scores)
        return np.column_stack([1.0 - positive, positive])

    @property
    def slopes(self) -> Array:
        """Change of the log odds with the score in each piece."""
        return np.asarray(np.diff(self.log_odds) / np.maximum(np.diff(self.knots), TINY))

    def f1_threshold(self, scores: Array, weight: Array | None = None) -> float:
        """Score above which rows have the greatest expected F1 score, by their probabilities.

        With few positives it is more stable than the threshold that is best for the labels.

        Parameters
        ----------
        scores : array
            Distributed as those of new rows.
        weight : array, optional
        """
        distinct, mass = masses(scores, np.ones(len(scores)) if weight is None else weight)
        distinct, mass = distinct[mass > 0.0][::-1], mass[mass > 0.0][::-1]
        positives = np.cumsum(mass * self.probability(distinct))
        best = int(np.argmax(positives / (np.cumsum(mass) + positives[-1])))
        if best == len(distinct) - 1:
            return float(np.nextafter(distinct[-1], -np.inf))
        above, below = float(distinct[best]), float(distinct[best + 1])
        middle = below + (above - below) / 2.0
        return middle if middle < above else below

    def as_json(self) -> dict[str, object]:
        """Plain numbers."""
        return {
            "knots": self.knots.tolist(),
            "log_odds": self.log_odds.tolist(),
            "rows": self.rows,
        }

    @classmethod
    def from_json(cls, table: Any) -> Self:
        """The inverse of `as_json`; invalid input is refused."""
        if not isinstance(table, Mapping):
            raise ValueError("'calibration' is no table.")
        knots, log_odds = (numbers(table.get(name), name) for name in ("knots", "log_odds"))
        rows = float(numbers([table.get("rows")], "rows")[0])
        if not 2 <= len(knots) == len(log_odds):
            raise ValueError("a calibration needs two knots or more, with log odds each.")
        if (np.diff(knots) < 0.0).any() or (np.diff(log_odds) <= 0.0).any():
            raise ValueError("the log odds of a calibration must rise with the score.")
        if rows <= 0.0 or log_odds[0] < LEAST_ODDS:
            raise ValueError("a calibration needs rows, and log odds of probabilities above 0.")
        return cls(knots, log_odds, rows)


class _Cells(NamedTuple):
    """Rows of neighbouring scores in one cell, a few hundred of them, fewer rows at the top."""

    score: Array
    """The mean."""
    mass: Array
    positives: Array

    @classmethod
    def of(cls, positive: Mask, scores: Array, weights: Array) -> "_Cells":
        """From single rows; the mass of all is their effective number."""
        levels = top_levels(int((weights > 0.0).sum()))
        ends = QuantileSketch.of(scores, weights, levels=levels).knots
        place = np.minimum(np.searchsorted(ends, scores), len(ends) - 1)
        weights = weights * (effective_rows(weights) / weights.sum())
        mass, total, positives = (
            np.bincount(place, values, len(ends)).astype(np.float64)
            for values in (weights, weights * scores, weights * positive)
        )
        return cls(total / mass, mass, positives)

    def knots(self, pieces: int) -> Array:
        """Scores that divide both classes, of equal weight in total, evenly; and both ends."""
        negatives = self.mass - self.positives
        shares = (part / max(part.sum(), TINY) for part in (self.positives, negatives))
        up_to = np.cumsum(sum(shares))
        at = np.searchsorted(up_to, up_to[-1] * np.arange(1, pieces) / pieces)
        knots = np.unique(np.concatenate([self.score[:1], self.score[at], self.score[-1:]]))
        return knots if len(knots) > 1 else np.append(knots, knots + max(1.0, abs(knots[0])))

    def targets(self) -> Array:
        """Platt's targets, instead of labels of 0 and 1."""
        negatives = self.mass - self.positives
        n_pos, n_neg = self.positives.sum(), negatives.sum()
        high, low = (n_pos + 1.0) / (n_pos + 2.0), 1.0 / (n_neg + 2.0)
        return np.asarray((high * self.positives + low * negatives) / self.mass)


def _fitted(cells: _Cells, knots: Array) -> Array:
    """Log odds at the knots that maximise the likelihood, less the cost of changing slopes."""
    scale = float(knots[-1] - knots[0])
    places, widths = (knots - knots[0]) / scale, np.diff(knots) / scale
    inside = np.clip((cells.score[:, None] - knots[0]) / scale, places[:-1], places[1:])
    inside -= places[:-1]
    targets, mass = cells.targets(), cells.mass

    def loss(parameters: Array) -> tuple[float, Array]:
        slopes, changes = np.exp(parameters[1:]), np.diff(parameters[1:]) / STEP
        odds = parameters[0] + inside @ slopes
        residual = mass * (expit(odds) - targets)
        gradient = np.append(residual.sum(), (residual @ inside) * slopes)
        gradient[1:] -= np.diff(changes / STEP, prepend=0.0, append=0.0)
        likelihood = mass @ (np.logaddexp(0.0, odds) - targets * odds)
        return float(likelihood + changes @ changes / 2.0), gradient

    bounds = [(None, None), *np.log(np.outer(1.0 / widths, [LEAST_RISE, MOST_RISE])).tolist()]
    start = np.append(logit(mass @ targets / mass.sum()) - 1.0, np.ones(len(widths)))
    solution = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    rises = np.exp(solution[1:]) * widths
    return np.asarray(solution[0] + np.append(0.0, np.cumsum(rises)))
