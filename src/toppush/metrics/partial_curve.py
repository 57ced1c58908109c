"""Curves and heads of ranked lists whose rows lie in several parts, computed from small summaries.

The metrics of `toppush.metrics` do not depend on the order of negatives that no positive separates.
So it suffices to know the positives' scores, and the weight of the negatives at each of these
scores and between them: each part counts its own negatives, and the counts are added.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from toppush.metrics.curve import TopCurve, sorted_curve
from toppush.metrics.ranking import top_recall
from toppush.types import Array, Mask

HEAD_FRACTION = 0.001
"""Fraction of the negatives, at least one, before which `Head.recall` averages recall."""


class ListPart(NamedTuple):
    """Rows of one part of a ranked list."""

    positive: Mask
    scores: Array
    weight: Array


class PositiveScores(NamedTuple):
    """Distinct scores in ascending order, and the weight at each."""

    scores: Array
    weight: Array

    @classmethod
    def of(cls, scores: Array, weight: Array) -> "PositiveScores":
        """The distinct values of some scores."""
        distinct, owner = np.unique(scores, return_inverse=True)
        return cls(distinct, np.bincount(owner, weight, len(distinct)).astype(np.float64))

    @classmethod
    def join(cls, parts: Sequence["PositiveScores"]) -> "PositiveScores":
        """Those of all parts; O(m log m) for m scores."""
        return cls.of(*(np.concatenate(side) for side in zip(*parts, strict=True)))


def positives_of(part: ListPart) -> PositiveScores:
    """Distinct scores of a part's positives."""
    kept = part.positive & (part.weight > 0.0)
    return PositiveScores.of(part.scores[kept], part.weight[kept])


class NegativeCounts(NamedTuple):
    """Negatives at the 2 m + 1 places around m scores: below, at the first, between, ...

    Their weight at each place, and their lowest score there, or infinity.
    """

    weight: Array
    lowest: Array

    @classmethod
    def join(cls, parts: Sequence["NegativeCounts"]) -> "NegativeCounts":
        """Counts of all parts."""
        weights, lowest = zip(*parts, strict=True)
        return cls(np.sum(weights, axis=0), np.min(lowest, axis=0))


def count_negatives(part: ListPart, scores: Array) -> NegativeCounts:
    """Count a part's negatives around scores in ascending order; O(rows log m)."""
    kept = ~part.positive & (part.weight > 0.0)
    negatives, weight = part.scores[kept], part.weight[kept]
    place = np.searchsorted(scores, negatives, side="left")
    place = place + np.searchsorted(scores, negatives, side="right")
    size = 2 * len(scores) + 1
    lowest = np.full(size, np.inf)
    np.minimum.at(lowest, place, negatives)
    return NegativeCounts(np.bincount(place, weight, size).astype(np.float64), lowest)


def joined_curve(positives: PositiveScores, negatives: NegativeCounts) -> TopCurve:
    """The curve, in which negatives that no positive separates are one point."""
    size = len(negatives.weight)
    weights, thresholds = np.zeros(size), negatives.lowest.copy()
    weights[1::2], thresholds[1::2] = positives.weight, positives.scores
    filled = np.flatnonzero((weights > 0.0) | (negatives.weight > 0.0))[::-1]
    return TopCurve(
        np.append(0.0, np.cumsum(weights[filled])),
        np.append(0.0, np.cumsum(negatives.weight[filled])),
        np.append(np.inf, thresholds[filled]),
    )


class Head(NamedTuple):
    """The rows that decide recall before the first negatives, and the weight of the whole list.

    They are the first negatives, and the positives above the last of them.
    """

    positive: Mask
    scores: Array
    weight: Array
    n_pos: float
    n_neg: float

    @classmethod
    def of(cls, positive: Mask, scores: Array, weight: Array | None, n_false: float) -> Self:
        """The head of a list down to its n_false-th negative; linear in the rows if unweighted."""
        weights = np.ones(len(scores)) if weight is None else weight
        counted = weights > 0.0
        negative = ~positive & counted
        lowest = _score_of(scores[negative], None if weight is None else weight[negative], n_false)
        kept = counted & np.where(positive, scores > lowest, scores >= lowest)
        n_pos = float(weights[positive].sum())
        return cls(positive[kept], scores[kept], weights[kept], n_pos, float(weights.sum()) - n_pos)

    @classmethod
    def join(cls, heads: Sequence["Head"]) -> Self:
        """The head of the list of all rows; each must contain the negatives of the whole head."""
        rows = zip(*(head[:3] for head in heads), strict=True)
        positive, scores, weight = map(np.concatenate, rows)
        n_pos, n_neg = sum(head.n_pos for head in heads), sum(head.n_neg for head in heads)
        return cls(positive, scores, weight, n_pos, n_neg)

    def recall(self) -> float:
        """Mean recall before the first `HEAD_FRACTION` of all negatives, at least one."""
        if not self.positive.any():
            return 0.0
        if self.positive.all():
            return 1.0
        reached = float(self.weight[self.positive].sum()) / self.n_pos
        curve = sorted_curve(self.positive, self.scores, self.weight)
        return reached * float(top_recall.of(curve, n_false=first_negatives(self.n_neg)))


def first_negatives(n_neg: float) -> float:
    """Number of negatives in the head of a list."""
    return max(1.0, HEAD_FRACTION * n_neg)


def _score_of(negatives: Array, weight: Array | None, n_false: float) -> float:
    """Score of the n_false-th negative by weight, or of the last."""
    if not len(negatives):
        return -np.inf
    if weight is None:
        place = len(negatives) - min(len(negatives), int(np.ceil(n_false)))
        return float(np.partition(negatives, place)[place])
    order = np.argsort(-negatives, kind="stable")
    place = int(np.searchsorted(np.cumsum(weight[order]), n_false))
    return float(negatives[order[min(place, len(order) - 1)]])
