"""Measures of one or two rankings of the same rows, with bootstrap intervals."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from toppush.designs.local import one_blas_thread
from toppush.losses import Array
from toppush.metrics import TopCurve
from toppush.report.ranking import Ranking

N_DRAWS = 200
ROWS_DRAWN = 20_000_000
"""Rows over all draws beyond which there are no intervals: about ten seconds for two lists."""

Measure = Callable[[TopCurve], float]


@dataclass(frozen=True)
class Estimate:
    """A measure and its 95% interval, if one was computed."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Compared:
    """A measure of the ranking, of its rival, and their difference."""

    name: str
    ours: Estimate
    theirs: Estimate | None
    difference: Estimate | None


def measures_for(ranking: Ranking) -> dict[str, Measure]:
    """The measures that a list of this length supports, as functions of its curve."""
    chosen: dict[str, Measure] = {
        "positives above every negative": lambda curve: curve.recall_at_fpr(0.0)
    }
    for k in (10, 100, 1000):
        if 2 * k <= ranking.n_rows:
            chosen[f"precision in the first {k:,}"] = partial(_precision, k=k)
    for rate in (0.001, 0.01):
        if rate * ranking.n_neg >= 1:
            chosen[f"recall at {100 * rate:g}% false positives"] = partial(_recall, max_fpr=rate)
    return chosen | {
        "average precision": TopCurve.average_precision,
        "NDCG": TopCurve.ndcg,
        "area under the ROC curve": TopCurve.auc,
    }


def _precision(curve: TopCurve, k: int) -> float:
    return float(curve.hits_within(k) / k)


def _recall(curve: TopCurve, max_fpr: float) -> float:
    return curve.recall_at_fpr(max_fpr)


def compare(ranking: Ranking, rival: Ranking | None) -> list[Compared]:
    """Every measure of both lists; the same draws serve both, so that differences are paired."""
    measures = measures_for(ranking)
    lists = [ranking] if rival is None else [ranking, rival]
    values = _values(measures, [one.curve for one in lists])
    drawn = _draws(measures, lists)
    rows = []
    for place, name in enumerate(measures):
        sides = [
            _estimate(values[side, place], drawn[:, side, place]) for side in range(len(lists))
        ]
        difference = None
        if rival is not None:
            apart = drawn[:, 0, place] - drawn[:, 1, place]
            difference = _estimate(values[0, place] - values[1, place], apart)
        rows.append(Compared(name, sides[0], sides[1] if rival else None, difference))
    return rows


def _values(measures: dict[str, Measure], curves: list[TopCurve]) -> Array:
    return np.array([[measure(curve) for measure in measures.values()] for curve in curves])


def _draws(measures: dict[str, Measure], lists: list[Ranking]) -> Array:
    """Measures of resampled lists, of shape (n_draws, n_lists, n_measures); O(n) a draw.

    Positives and negatives are drawn apart, so that a draw has as many of each as the list.
    """
    ranking = lists[0]
    rng = np.random.default_rng(0)
    n_draws = N_DRAWS if N_DRAWS * ranking.n_rows <= ROWS_DRAWN else 0
    drawn = np.empty((n_draws, len(lists), len(measures)))
    # Dot products of short vectors waited for busy cores: 13 s against 1 s on 20,000 rows.
    with one_blas_thread():
        for values in drawn:
            weight = _resampled(ranking, rng)
            values[:] = _values(measures, [one.resampled(weight) for one in lists])
    return drawn


def _resampled(ranking: Ranking, rng: np.random.Generator) -> Array:
    """How often each row is drawn."""
    weight = np.zeros(ranking.n_rows)
    for members in (ranking.positive, ~ranking.positive):
        rows = np.flatnonzero(members)
        weight += np.bincount(rng.choice(rows, len(rows)), minlength=ranking.n_rows)
    return weight


def _estimate(value: float, drawn: Array) -> Estimate:
    if not len(drawn):
        return Estimate(float(value))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(float(value), float(low), float(high))
