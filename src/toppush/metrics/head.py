"""The head of a ranked list: the rows that decide recall before its first negatives.

Heads of several lists can be joined into that of the list of all their rows, without keeping
all rows.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from toppush.metrics.curve import curve_of
from toppush.metrics.ranking import top_recall
from toppush.types import Array, Mask

SHARE = 0.001
"""Of the negatives: recall is averaged before the first so many, and before one at least."""


class Head(NamedTuple):
    """Rows of a list down to some negative, and what the whole list weighs.

    Attributes
    ----------
    positive, scores, weight : array
        The first negatives, and the positives above the last of them.
    n_pos, n_neg : float
        Weight of all positives and of all negatives of the list.
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
        counts = weights > 0.0
        negative = ~positive & counts
        reach = _reach(scores[negative], None if weight is None else weight[negative], n_false)
        kept = counts & np.where(positive, scores > reach, scores >= reach)
        n_pos = float(weights[positive].sum())
        return cls(positive[kept], scores[kept], weights[kept], n_pos, float(weights.sum()) - n_pos)

    @classmethod
    def join(cls, heads: Sequence["Head"]) -> Self:
        """The head of the list of all rows; each must reach as far as is asked of the whole."""
        rows = zip(*(head[:3] for head in heads), strict=True)
        positive, scores, weight = (np.concatenate(one) for one in rows)
        n_pos, n_neg = sum(head.n_pos for head in heads), sum(head.n_neg for head in heads)
        return cls(positive, scores, weight, n_pos, n_neg)

    def recall(self) -> float:
        """Mean recall before the first `SHARE` of all negatives, and before one at least."""
        if not self.positive.any():
            return 0.0
        if self.positive.all():
            return 1.0
        found = float(self.weight[self.positive].sum()) / self.n_pos
        curve = curve_of(self.positive, self.scores, self.weight)
        return found * float(top_recall.of(curve, n_false=first_negatives(self.n_neg)))


def first_negatives(n_neg: float) -> float:
    """How many negatives make the head of a list."""
    return max(1.0, SHARE * n_neg)


def _reach(negatives: Array, weight: Array | None, n_false: float) -> float:
    """Score of the n_false-th negative by weight, or of the last."""
    if not len(negatives):
        return -np.inf
    if weight is None:
        place = len(negatives) - min(len(negatives), int(np.ceil(n_false)))
        return float(np.partition(negatives, place)[place])
    order = np.argsort(-negatives, kind="stable")
    place = int(np.searchsorted(np.cumsum(weight[order]), n_false))
    return float(negatives[order[min(place, len(order) - 1)]])
