"""Both classes' scores as two vectors on the driver, and products with the rows where they are."""

from typing import NamedTuple

import numpy as np

from toppush.designs import Block, Design, read_only
from toppush.designs.arrays import to_host
from toppush.problem.pairwise import Sides
from toppush.types import Array


class Spread(NamedTuple):
    """X'BX over all rows, and where the rows of each kind have their weight."""

    matrix: Array
    positives: Array
    negatives: Array
    top: Array


class TwoSides:
    """Vectors of row length leave the blocks, rows never do; products are those of float64.

    Attributes
    ----------
    cost : array
        Weights of the positives, which sum to 1.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        signs = design.gather(_signs)
        self._where = np.flatnonzero(signs > 0.0), np.flatnonzero(signs < 0.0)
        self._n_rows = len(signs)
        cost, _ = self.split(design.gather(_costs))
        self.cost = cost / cost.sum()

    @property
    def n_rows(self) -> int:
        """Rows that count."""
        return len(self._where[0]) + len(self._where[1])

    def scores(self, weights: Array) -> Sides:
        """X w."""
        return self.split(self.design.gather(_scores, self.design.arrays.asarray(weights)))

    def lengths(self) -> Sides:
        """|x| of every row."""
        return self.split(self.design.gather(_lengths))

    def combine(self, on_positives: Array, on_negatives: Array) -> Array:
        """X+'u + X-'v."""
        self.design.scatter(_receive, self.join(on_positives, on_negatives))
        return to_host(self.design.sum(_combine))

    def spread(self, on_positives: Array, on_negatives: Array, top: Array) -> Spread:
        """X'BX with weights of the positives, and of the negatives in two parts."""
        self.design.scatter(_receive, self.join(on_positives, on_negatives))
        self.design.scatter(_receive_top, self.join(0.0, top))
        return Spread(*(to_host(part) for part in self.design.sum(_spread)))

    def split(self, vector: Array) -> Sides:
        """The positives' and the negatives' entries of a vector over all rows."""
        return vector[self._where[0]], vector[self._where[1]]

    def join(self, on_positives: Array | float, on_negatives: Array | float) -> Array:
        """A vector over all rows; rows of weight zero get 0."""
        vector = np.zeros(self._n_rows)
        vector[self._where[0]], vector[self._where[1]] = on_positives, on_negatives
        return vector

    def handed_back(self, on_positives: Array, on_negatives: Array) -> Array:
        """The same as a result; empty where rows are elsewhere."""
        self.design.scatter(_receive, self.join(on_positives, on_negatives))
        return self.design.over_rows(_received)


# What follows runs in the blocks. What they receive is used by the next question and by none
# after it, so a block that is made anew need not be told again.


class Received:
    """A block's part of vectors over all rows."""

    rows: Array
    top: Array


@read_only
def _signs(block: Block) -> Array:
    return block.join(1.0, -1.0)


@read_only
def _costs(block: Block) -> Array:
    return block.join(block.cost, 0.0)


@read_only
def _scores(block: Block, weights: Array) -> Array:
    return block.precise_rows.scores(weights)


@read_only
def _lengths(block: Block) -> Array:
    return block.arrays.sqrt(block.precise_rows.squared_norms())


@read_only
def _receive(block: Block, part: Array) -> None:
    block.work.of(Received).rows = part


@read_only
def _receive_top(block: Block, part: Array) -> None:
    block.work.of(Received).top = part


@read_only
def _received(block: Block) -> Array:
    return block.work.of(Received).rows


@read_only
def _combine(block: Block) -> Array:
    return block.precise_rows.combine(_received(block))


@read_only
def _spread(block: Block) -> Spread:
    given, rows = block.work.of(Received), block.precise_rows
    on_positives, on_negatives = block.split(given.rows)
    scale = given.rows + given.top
    where = block.arrays.flatnonzero(scale)
    matrix, _ = rows.gram(where, scale[where])
    means = (block.join(on_positives, 0.0), block.join(0.0, on_negatives), given.top)
    return Spread(matrix, *rows.combine_all(*means))
