"""The curve of a ranked list that lies in parts, from its positives' scores and counts alone.

No measure of `toppush.metrics` asks in which order negatives stand that no positive separates.
So it is enough to know the positives' scores, and for each gap between two of them, and for each
of them, the weight of the negatives there: each part counts its own, and the counts add up.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from toppush.metrics.curve import TopCurve
from toppush.types import Array, Mask


class ListPart(NamedTuple):
    """Rows of one part of a list."""

    positive: Mask
    scores: Array
    weight: Array


class PositiveScores(NamedTuple):
    """Distinct scores, rising, and the weight at each."""

    scores: Array
    weight: Array

    @classmethod
    def of(cls, scores: Array, weight: Array) -> "PositiveScores":
        """The distinct ones of some scores."""
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

    Attributes
    ----------
    weight : array of shape (2 m + 1,)
    lowest : array of shape (2 m + 1,)
        Least score of a negative at each place, or infinity.
    """

    weight: Array
    lowest: Array

    @classmethod
    def join(cls, parts: Sequence["NegativeCounts"]) -> "NegativeCounts":
        """Counts of all parts."""
        return cls(
            np.sum([part.weight for part in parts], axis=0),
            np.min([part.lowest for part in parts], axis=0),
        )


def count_negatives(part: ListPart, scores: Array) -> NegativeCounts:
    """Where a part's negatives lie among rising scores; O(rows log m)."""
    kept = ~part.positive & (part.weight > 0.0)
    negatives, weight = part.scores[kept], part.weight[kept]
    place = np.searchsorted(scores, negatives, side="left")
    place = place + np.searchsorted(scores, negatives, side="right")
    size = 2 * len(scores) + 1
    lowest = np.full(size, np.inf)
    np.minimum.at(lowest, place, negatives)
    return NegativeCounts(np.bincount(place, weight, size).astype(np.float64), lowest)


def curve_of(positives: PositiveScores, negatives: NegativeCounts) -> TopCurve:
    """The curve, a run of negatives that no positive separates being one point of it."""
    size = len(negatives.weight)
    hits, thresholds = np.zeros(size), negatives.lowest.copy()
    hits[1::2], thresholds[1::2] = positives.weight, positives.scores
    filled = np.flatnonzero((hits > 0.0) | (negatives.weight > 0.0))[::-1]
    return TopCurve(
        np.append(0.0, np.cumsum(hits[filled])),
        np.append(0.0, np.cumsum(negatives.weight[filled])),
        np.append(np.inf, thresholds[filled]),
    )
