"""Risks of a ranking as functions of the scores, with their cuts for the solver.

Positives' scores s_i (i = 1..m), negatives' scores t_j (j = 1..n), t_(r) the r-th highest of
them. A cut costs O((m + n) log(m + n)); pairs are never formed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toppush.solvers.cutting_plane import Cut
from toppush.types import Array, Where


def weigh_across(
    table: Array, table_weights: Array, needles: Array, needle_weights: Array
) -> tuple[Array, Array]:
    """For each needle the weight of the table below it, for each entry that of needles above.

    The table rises, the needles are in any order: O((k + l) log k) for k entries, l needles.
    """
    places = np.searchsorted(table, needles, side="left")
    below = np.append(0.0, np.cumsum(table_weights))[places]
    counts = np.bincount(places, weights=needle_weights, minlength=len(table) + 1)
    return below, counts[::-1].cumsum()[::-1][1:]


@dataclass(frozen=True)
class PairHinge:
    """sum_i sum_j c_i u_j (1 - s_i + t_j)_+, with c and u the rows' shares of their class."""

    positive_shares: Array
    negative_shares: Array

    def cut(self, positives: Array, negatives: Array) -> Cut:
        """Pairs within the margin, counted after a sort of the smaller class."""
        limits, costs, shares = positives - 1.0, self.positive_shares, self.negative_shares
        if len(positives) <= len(negatives):
            within_negatives, within_positives = _weigh_pairs(limits, costs, negatives, shares)
        else:
            within_positives, within_negatives = _weigh_pairs(-negatives, shares, -limits, costs)
        weights = costs * within_positives
        return Cut(float(weights.sum()), -weights, shares * within_negatives)


def _weigh_pairs(
    entries: Array, entry_weights: Array, needles: Array, needle_weights: Array
) -> tuple[Array, Array]:
    """`weigh_across` with the table in any order."""
    rising = np.argsort(entries)
    below, above = weigh_across(entries[rising], entry_weights[rising], needles, needle_weights)
    return below, _scatter(above, rising, len(entries))


@dataclass(frozen=True)
class OrderedHinge:
    """1/m sum_i sum_r v_r (1 - s_i + t_(r))_+, the shares v falling with the rank r.

    The hinge rises with t, so for every positive its r-th largest pair loss belongs to the r-th
    highest negative: one sort serves all positives. Ranks past the last share cost nothing.
    """

    rank_shares: Array

    def cut(self, positives: Array, negatives: Array) -> Cut:
        """Pairs within the margin among the highest negatives."""
        top = highest(negatives, len(self.rank_shares))
        costs = np.full(len(positives), 1.0 / len(positives))
        within, passed = weigh_across(-negatives[top], self.rank_shares, 1.0 - positives, costs)
        weights = costs * within
        on_negatives = _scatter(self.rank_shares * passed, top, len(negatives))
        return Cut(float(weights.sum()), -weights, on_negatives)


@dataclass(frozen=True)
class PartialAreaHinge:
    """Structural hinge of the area over the negatives of ranks low + 1 to high.

        max over r of 1/(m (high - low)) sum_i [ (r_i - low)_+ - sum_{k <= r_i} (s_i - t_(k)) ]

    where r_i <= high says how many of the `high` best negatives a ranking puts above positive i.
    With low = 0 it is the mean pair hinge against those negatives.
    """

    low: int
    high: int

    def cut(self, positives: Array, negatives: Array) -> Cut:
        """The worst ranking: each r_i by two binary searches."""
        top = highest(negatives, self.high)
        counts = self._worst_counts(positives, negatives[top])
        scale = 1.0 / (len(positives) * (self.high - self.low))
        offset = scale * float(np.maximum(counts - self.low, 0).sum())
        # A negative of rank k lies above the positives with more than k - 1 above them.
        passed = np.bincount(counts, minlength=self.high + 1)[::-1].cumsum()[::-1][1:]
        on_positives = np.asarray(-scale * counts, np.float64)
        return Cut(offset, on_positives, _scatter(scale * passed, top, len(negatives)))

    def _worst_counts(self, positives: Array, top: Array) -> Where:
        """Each positive's best count; the gain rises and falls once up to `low`, once past it."""
        before, within = top[: self.low][::-1], top[self.low :][::-1]
        few = self.low - np.searchsorted(before, positives, side="right")
        many = self.high - np.searchsorted(within, positives - 1.0, side="right")
        sums = np.append(0.0, np.cumsum(top))
        gain_few = sums[few] - few * positives
        gain_many = sums[many] - many * positives + (many - self.low)
        return np.where(gain_many > gain_few, many, few)


@dataclass(frozen=True)
class AveragePrecisionHinge:
    """Structural hinge of 1 - average precision.

        max over rankings of 1 - AP - 2/(m n) sum of (s_i - t_j) over negatives j above i

    In a worst ranking both classes keep the order of their scores; negative j (by rank) goes
    above the positives from i_j on, where i_j maximises

        sum_{i >= i_j} [ i / ((i + j)(i + j - 1)) + 2/n (t_j - s_i) ],

    and i_j rises with j (Yue et al. 2007). The sum is differences of harmonic numbers and of
    running sums of scores, so a value costs O(1); divide and conquer over j evaluates
    O((m + n) log n) of them where the published search evaluates m n.
    """

    def cut(self, positives: Array, negatives: Array) -> Cut:
        """The worst ranking."""
        n_pos, n_neg = len(positives), len(negatives)
        best, worst = np.argsort(-positives), np.argsort(-negatives)
        first = _places(positives[best], negatives[worst])
        counts = np.bincount(first, minlength=n_pos + 2)[1:-1].cumsum()
        offset = float(np.mean(counts / (np.arange(1, n_pos + 1) + counts)))
        scale = 2.0 / (n_pos * n_neg)
        on_positives = _scatter(-scale * counts, best, n_pos)
        on_negatives = _scatter(scale * (n_pos + 1 - first), worst, n_neg)
        return Cut(offset, on_positives, on_negatives)


def _places(positives: Array, negatives: Array) -> Where:
    """The i_j of every negative j, 1 to m + 1, scores falling; halves the stride of j per round."""
    n_pos, n_neg = len(positives), len(negatives)
    gains = _Gains.of(positives, negatives)
    places = np.empty(n_neg + 2, np.intp)
    places[0], places[-1] = 1, n_pos + 1
    stride = 1 << (n_neg.bit_length() - 1)
    while stride:
        ranks = np.arange(stride, n_neg + 1, 2 * stride)
        ends = places[ranks - stride], places[np.minimum(ranks + stride, n_neg + 1)]
        places[ranks] = _best_places(gains, ranks, *ends)
        stride //= 2
    return places[1:-1]


def _best_places(gains: "_Gains", ranks: Where, first: Where, last: Where) -> Where:
    """For each rank, the first place from `first` to `last` with the greatest gain."""
    lengths = last - first + 1
    starts = np.append(0, np.cumsum(lengths)[:-1])
    owner = np.repeat(np.arange(len(ranks)), lengths)
    places = np.arange(len(owner)) - (starts - first)[owner]
    gain = gains.at(ranks[owner], places)
    winners = np.flatnonzero(gain == np.maximum.reduceat(gain, starts)[owner])
    return places[winners[np.searchsorted(owner[winners], np.arange(len(ranks)))]]


@dataclass(frozen=True)
class _Gains:
    """Gain of putting the negative of rank j above the positives from place i on."""

    harmonic: Array
    negatives: Array
    positives_sum: Array

    @classmethod
    def of(cls, positives: Array, negatives: Array) -> "_Gains":
        size = len(positives) + len(negatives)
        harmonic = np.append(0.0, np.cumsum(1.0 / np.arange(1, size + 1)))
        return cls(harmonic, negatives, np.append(0.0, np.cumsum(positives)))

    def at(self, ranks: Where, places: Where) -> Array:
        """The sum over i from `places` to m, i / ((i+j)(i+j-1)) = j/(i+j) - (j-1)/(i+j-1)."""
        n_pos, n_neg = len(self.positives_sum) - 1, len(self.negatives)
        harmonic, before = self.harmonic, places + ranks - 1
        loss = ranks * (harmonic[n_pos + ranks] - harmonic[before]) - (ranks - 1) * (
            harmonic[n_pos + ranks - 1] - harmonic[np.maximum(before - 1, 0)]
        )
        lead = (n_pos + 1 - places) * self.negatives[ranks - 1]
        lead -= self.positives_sum[-1] - self.positives_sum[places - 1]
        return np.asarray(loss + (2.0 / n_neg) * lead)


def highest(scores: Array, count: int) -> Where:
    """Where the `count` highest scores are, the highest first."""
    if count == 1:  # 6 us against 230 where 33,000 scores are parted
        return np.array([np.argmax(scores)])
    if count < len(scores):
        top = np.argpartition(scores, len(scores) - count)[-count:]
        return top[np.argsort(-scores[top])]
    return np.argsort(-scores)


def _scatter(values: NDArray[Any], where: Where, size: int) -> Array:
    """An array of zeros with the values at some positions."""
    scattered = np.zeros(size)
    scattered[where] = values
    return scattered
