"""A block: some rows, and everything of row length.

A block answers with d-vectors and numbers, so a solver never sees how many rows there are, whether
they are sparse, or on which machine.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from toppush.designs.arrays import NUMPY, namespace, number
from toppush.designs.protocol import Records
from toppush.designs.rows import UNSCALED, MaskedRows, Rows, Scaling, precise
from toppush.types import Array, Mask, Where

Function = TypeVar("Function", bound=Callable[..., Any])

DOUBLE_SHARE, DOUBLE_ENTRIES = 1 / 16, 1 << 20
"""Share of the entries, or number of them, up to which copies are in float64."""
COPIED_SHARE, COPIED_SHARE_OF_MANY, MANY = 0.5, 0.35, 1 << 25
"""Largest share of a block's entries that is copied so that products need not read the rest, and
the same for a block of many entries, where memory counts more."""

WIDE_INDICES = 1 << 20
"""Rows up to which indices have 64 bits, by which NumPy takes and puts entries in half the time."""


def read_only(function: Function) -> Function:
    """Mark a function that changes nothing in a block; it is not repeated for one made again."""
    function.read_only = True  # type: ignore[attr-defined]
    return function


class Block:
    """Some rows, which of them are positive or negative, and what solvers keep per row.

    Attributes
    ----------
    rows : Rows
        As a solver scaled them.
    original : Rows
        As the user passed them.
    arrays : Arrays
        The operations that fit this block's vectors.
    cost : array
        Weight of each positive's loss.
    scores : (Array, Array)
        Scores of the positives and of the negatives, set by `score`.
    sizes : (Array, Array)
        Bounds of the sums of |x_j w_j| in the same scores, set by `score_in_double`.
    work : Records
        Of the solve under way: what solvers hold per row.
    known : Records
        What outlives a solve; it belongs to the rows as they are scaled.
    first_negative : int
        Negatives in the blocks before this one.
    """

    def __init__(self, rows: Rows, positive: Mask, sample_weight: Array | None = None) -> None:
        self.first_negative = 0
        kept = positive, ~positive
        self.rows, self.arrays = rows, rows.arrays
        self.original, self._scaling = rows, UNSCALED
        self.cost: Array = self.arrays.broadcast_to(1.0, int(positive.sum()))
        if sample_weight is not None:
            kept = positive & (sample_weight > 0), ~positive & (sample_weight > 0)
            self.cost = sample_weight[kept[0]]
        self._where = tuple(_indices(side) for side in kept)
        self.work, self.known = Records(), Records()
        self._room = rows.room
        self._outer: list[dict[str, Any]] = []
        self.scores: tuple[Array, Array] = (self.arrays.empty(0), self.arrays.empty(0))
        self.sizes = self.scores

    @property
    def n_pos(self) -> int:
        """Positives of weight above zero."""
        return len(self._where[0])

    @property
    def n_neg(self) -> int:
        """Negatives of weight above zero."""
        return len(self._where[1])

    @property
    def total_cost(self) -> float:
        """Sum of the positives' weights."""
        return float(self.cost.sum())

    def rescale(self, scaling: Scaling) -> None:
        """From now on work on the scaled rows in float64."""
        self._scaling, self.rows = scaling, precise(self.original, scaling)
        self.work, self.known = Records(), Records()

    def begin_solve(self, anew: bool, within: bool) -> None:
        """Prepare for a solve: on the original rows if `anew`, else with what is known.

        A solve within another finds the block as new, until `end_inner_solve`.
        """
        if within:
            self._outer.append(dict(vars(self)))
        if anew:
            self._scaling, self.rows, self.known = UNSCALED, self.original, Records()
            self._room = self._room if within else self.original.room
        self.work = Records()

    def end_inner_solve(self) -> None:
        """Restore the state of the outer solve."""
        vars(self).update(self._outer.pop())

    @property
    def precise_rows(self) -> Rows:
        """The scaled rows, with products in float64."""
        return precise(self.original, self._scaling)

    def sample(self, n_rows: int) -> Rows:
        """About `n_rows` evenly spaced original rows in float64."""
        every = max(self.rows.shape[0] // n_rows, 1)
        some = self.arrays.asarray(np.arange(0, self.rows.shape[0], every))
        return self.original.subset(some).in_double()

    def positive_rows(self, alone: bool = True) -> Rows:
        """The positives; `alone` if products should not read the negatives.

        Copied if they are wanted alone and have a small enough share of the entries, or if
        reading the rows again takes long and the copy takes at most half of the room for copies.
        """
        where, rows = self._where[0], self.rows
        most = rows.room / 2
        if math.isinf(rows.room):
            share = COPIED_SHARE if rows.n_entries < MANY else COPIED_SHARE_OF_MANY
            most = share * rows.n_entries if alone else -1.0
        n_entries = rows.count_entries(where)
        if n_entries > most:
            return MaskedRows(rows, where)
        self._room -= n_entries
        return rows.subset(where)

    def negative_rows(self, where: Where, copied: Rows | None = None) -> Rows:
        """Some of the negatives, numbered among themselves.

        `copied` is a copy of the first of them, if any. The result is a copy if there is room for
        it, in float64 if that is little compared with all rows: sums over them nearly cancel those
        over the positives.
        """
        chosen, rows = self._where[1][where], self.rows
        n_entries = rows.count_entries(chosen)
        takes = n_entries * rows.copy_cost
        if takes > self._room:
            return MaskedRows(rows, chosen)
        if copied is not None:
            return copied.stacked(rows.subset(chosen[copied.shape[0] :]))
        subset = rows.subset(chosen)
        little = n_entries <= max(DOUBLE_SHARE * rows.n_entries, DOUBLE_ENTRIES)
        return subset.in_double() if little and 2 * takes <= self._room else subset

    def fits_twice(self, where: Where) -> bool:
        """Whether there is room for some negatives and a copy of most of them."""
        return 4 * self.rows.count_entries(self._where[1][where]) <= self._room

    def split(self, vector: Array) -> tuple[Array, Array]:
        """The positives' and the negatives' entries of a vector over all rows."""
        return vector[self._where[0]], vector[self._where[1]]

    def join(self, on_positives: Array | float, on_negatives: Array | float) -> Array:
        """A vector over all rows; rows of weight zero get 0."""
        vector = self.arrays.zeros(self.rows.shape[0])
        vector[self._where[0]] = on_positives
        vector[self._where[1]] = on_negatives
        return vector

    def dual_combination(self, on_positives: Array, on_negatives: Array) -> Array:
        """X+'a - X-'b."""
        return self.rows.combine(self._signed(on_positives, on_negatives))

    def _signed(self, on_positives: Array, on_negatives: Array) -> Array:
        signed = self.join(0.0, on_negatives)
        self.arrays.negative(signed, out=signed)
        signed[self._where[0]] = on_positives
        return signed

    def score(self, weights: Array) -> None:
        """Score every row and keep the scores."""
        self.scores = self.split(self.rows.scores(weights))

    def score_in_double(
        self, weights: Array, on_positives: Array, on_negatives: Array
    ) -> tuple[Array, float, float]:
        """Score every row in float64, whatever their type, and keep scores and their sizes.

        Returns X+'a - X-'b, the sum of the lengths of its terms, and how many roundings it has:
        it is summed a few rows at a time, in one read.
        """
        xp, signed = self.arrays, self._signed(on_positives, on_negatives)
        self.scores = self.sizes = (xp.empty(0), xp.empty(0))  # frees the earlier ones
        scores, sizes = xp.empty(len(signed)), xp.empty(len(signed))
        combination, terms, n_parts, most = xp.zeros(self.rows.shape[1]), 0.0, 0, 0
        squares = xp.square(weights)
        norm = xp.sqrt(squares.sum())
        for where, rows in self.original.parts():
            if not (rows.is_double and self._scaling.is_identity):
                rows = rows.rescaled(self._scaling)
            scores[where], lengths = rows.scores(weights), xp.sqrt(rows.squared_norms())
            by_columns = xp.sqrt(self.rows.shape[1] * rows.squared().scores(squares))
            longest = lengths * norm
            sizes[where] = xp.where(by_columns < longest, by_columns, longest)
            combination += rows.combine(signed[where])
            terms += number(abs(signed[where]) @ lengths)
            n_parts, most = n_parts + 1, max(most, rows.shape[0])
        self.scores, self.sizes = self.split(scores), self.split(sizes)
        return combination, terms, float(n_parts + most)


def _indices(mask: Mask) -> Where:
    """Indices of a mask, in 32 bits if the rows are many and in NumPy."""
    xp = namespace(mask)
    indices = xp.flatnonzero(mask)
    narrow = xp is NUMPY and WIDE_INDICES < len(mask) < np.iinfo(np.int32).max
    return indices.astype(np.int32) if narrow else indices
