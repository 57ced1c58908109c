"""Intervals of the measures of a ranked list, by the bootstrap, for many measures at once.

Positives and negatives are drawn with replacement, each class as often as it has rows. The list is
sorted once: a draw is a weight for each row, and the sums of weights at or above each score give
all measures. Draws are made some at a time, as rows of a matrix, so that memory stays bounded;
O(draws x rows). Measures are those of `toppush.metrics`, ties included.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["MEASURES", "Interval", "intervals", "measure"]

Array = NDArray[Any]
ENTRIES = 1 << 21
"""Entries of the matrix of draws that is worked on."""
WORK = 200_000_000
"""Rows times draws at which the default number of draws stops growing with the rows."""
SLACK = 1 + 1e-12


@dataclass(frozen=True)
class Interval:
    """A measure of the list and the middle of its bootstrap distribution."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Lists:
    """Many draws of a list: weight at or above each distinct score, after a 0, a row a draw."""

    hits: Array
    alarms: Array

    @property
    def depth(self) -> Array:
        """Rows at or above each score."""
        return self.hits + self.alarms

    @property
    def n_pos(self) -> float:
        """Positives, of which every draw has as many."""
        return float(self.hits[0, -1])

    @property
    def n_neg(self) -> float:
        """Negatives, of which every draw has as many."""
        return float(self.alarms[0, -1])

    def between(self, at: float, x: Array, y: Array) -> Array:
        """Where x, which does not fall along a list, reaches `at`: y there, straight in between."""
        last = np.maximum((x <= at).sum(axis=1) - 1, 0)
        following = np.minimum(last + 1, x.shape[1] - 1)
        rows = np.arange(len(x))
        x0, x1, y0, y1 = x[rows, last], x[rows, following], y[rows, last], y[rows, following]
        share = np.divide(at - x0, x1 - x0, out=np.zeros_like(x0), where=x1 > x0)
        return np.asarray(y0 + share * (y1 - y0))


def _positives_at_top(lists: Lists) -> Array:
    return np.asarray(np.where(lists.alarms == 0, lists.hits, 0.0).max(axis=1) / lists.n_pos)


def _auc(lists: Lists) -> Array:
    middle = (lists.hits[:, 1:] + lists.hits[:, :-1]) / 2
    area = (np.diff(lists.alarms) * middle).sum(axis=1)
    return np.asarray(area / (lists.n_pos * lists.n_neg))


def _ranking_loss(lists: Lists) -> Array:
    missed = (np.diff(lists.alarms) * (lists.n_pos - lists.hits[:, :-1])).sum(axis=1)
    return np.asarray(missed / (lists.n_pos * lists.n_neg))


def _average_precision(lists: Lists) -> Array:
    precision = lists.hits[:, 1:] / np.maximum(lists.depth[:, 1:], 1.0)
    return np.asarray((np.diff(lists.hits) * precision).sum(axis=1) / lists.n_pos)


def _ndcg(lists: Lists) -> Array:
    depth = lists.depth.astype(np.int64)
    discount = 1.0 / np.log2(np.arange(2, depth[0, -1] + 2))
    total = np.append(0.0, np.cumsum(discount))
    filled = np.maximum(np.diff(depth), 1)
    earned = np.diff(total[depth]) * np.diff(lists.hits) / filled
    return np.asarray(earned.sum(axis=1) / total[int(lists.n_pos)])


def _partial_auc(lists: Lists, max_fpr: float) -> Array:
    limit = max_fpr * lists.n_neg
    alarms = np.minimum(lists.alarms, limit)
    edge = lists.between(limit, lists.alarms, lists.hits)[:, None]
    hits = np.where(lists.alarms <= limit, lists.hits, edge)
    middle = (hits[:, 1:] + hits[:, :-1]) / 2
    return np.asarray((np.diff(alarms) * middle).sum(axis=1) / (limit * lists.n_pos))


def _recall_at_fpr(lists: Lists, max_fpr: float) -> Array:
    allowed = lists.alarms <= max_fpr * lists.n_neg * SLACK
    return np.asarray(np.where(allowed, lists.hits, 0.0).max(axis=1) / lists.n_pos)


def _top_recall(lists: Lists, n_false: float = 5) -> Array:
    counted = np.minimum(lists.alarms, n_false)
    before = (np.diff(counted) * lists.hits[:, :-1]).sum(axis=1)
    return np.asarray(before / (counted[:, -1] * lists.n_pos))


def _within(lists: Lists, depth: float, per: float) -> Array:
    return lists.between(depth, lists.depth, lists.hits) / per


def _precision_at_k(lists: Lists, k: int) -> Array:
    return _within(lists, k, k)


def _recall_at_k(lists: Lists, k: int) -> Array:
    return _within(lists, k, lists.n_pos)


def _lift_at(lists: Lists, fraction: float) -> Array:
    length = fraction * (lists.n_pos + lists.n_neg)
    return _within(lists, length, lists.n_pos * fraction)


MEASURES: dict[str, Callable[..., Array]] = {
    "positives_at_top": _positives_at_top,
    "average_precision": _average_precision,
    "ndcg": _ndcg,
    "auc": _auc,
    "partial_auc": _partial_auc,
    "precision_at_k": _precision_at_k,
    "recall_at_k": _recall_at_k,
    "recall_at_fpr": _recall_at_fpr,
    "top_recall": _top_recall,
    "lift_at": _lift_at,
    "ranking_loss": _ranking_loss,
    "top_loss": lambda lists: 1.0 - _positives_at_top(lists),
}
"""Measures of many lists at once, under the names that they have in `toppush.metrics`."""


def measure(name: str, **parameters: Any) -> Callable[[Lists], Array]:
    """A measure with its parameters, for `intervals`; names as in `toppush.metrics`."""
    return partial(MEASURES[name], **parameters)


def intervals(
    y_true: ArrayLike,
    y_score: ArrayLike,
    measures: Mapping[str, Callable[[Lists], Array]],
    *,
    confidence: float = 0.95,
    draws: int | None = None,
    seed: int = 0,
) -> dict[str, Interval]:
    """Measures of a list with percentile intervals from a stratified bootstrap.

    Measures that hang on single rows, as the positives at the top do on the highest negative,
    have rough intervals: a third of the draws leave that row out.

    Parameters
    ----------
    y_true : array of bool
        Which rows are positive.
    y_score : array
    measures : dict
        Any names, and what `measure` returns.
    confidence : float, default=0.95
    draws : int, optional
        1000, and for more than 200,000 rows fewer, down to 200.
    seed : int, default=0

    Returns
    -------
    dict of Interval
    """
    positive, score = np.asarray(y_true, bool), np.asarray(y_score, np.float64)
    order = np.argsort(-score, kind="stable")
    positive, score = positive[order], score[order]
    last = np.flatnonzero(np.append(score[1:] != score[:-1], True))
    draws = draws or int(np.clip(WORK // len(score), 200, 1000))
    whole = _lists(np.ones((1, len(score))), positive, last)
    at_a_time = max(1, ENTRIES // len(score))
    rng = np.random.default_rng(seed)
    found: dict[str, list[Array]] = {name: [] for name in measures}
    for start in range(0, draws, at_a_time):
        weights = _draw(positive, min(at_a_time, draws - start), rng)
        lists = _lists(weights, positive, last)
        for name, one in measures.items():
            found[name].append(one(lists))
    edges = [(1 - confidence) / 2, (1 + confidence) / 2]
    spread = {name: np.quantile(np.concatenate(parts), edges) for name, parts in found.items()}
    return {
        name: Interval(float(one(whole)[0]), float(spread[name][0]), float(spread[name][1]))
        for name, one in measures.items()
    }


def _draw(positive: NDArray[np.bool_], draws: int, rng: np.random.Generator) -> Array:
    """How often each row is drawn, each class as often as it has rows."""
    weights = np.empty((draws, len(positive)))
    for members in (np.flatnonzero(positive), np.flatnonzero(~positive)):
        n = len(members)
        picked = rng.integers(0, n, (draws, n)) + n * np.arange(draws)[:, None]
        counts = np.bincount(picked.ravel(), minlength=n * draws).reshape(draws, n)
        weights[:, members] = counts
    return weights


def _lists(weights: Array, positive: NDArray[np.bool_], last: NDArray[np.int64]) -> Lists:
    hits = np.cumsum(weights * positive, axis=1)[:, last]
    alarms = np.cumsum(weights * ~positive, axis=1)[:, last]
    zero = np.zeros((len(weights), 1))
    return Lists(np.hstack([zero, hits]), np.hstack([zero, alarms]))
