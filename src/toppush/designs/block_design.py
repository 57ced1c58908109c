"""Blocks of this process, asked one after another."""

import math
from collections.abc import Callable, Iterable
from functools import reduce
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np

from toppush.designs.arrays import NUMPY, Arrays
from toppush.designs.blocks import Block
from toppush.designs.records import Records
from toppush.system.threads import go_on
from toppush.types import Array

Answer = TypeVar("Answer")
"""What a block says."""


class BlockDesign:
    """What all designs whose blocks are in this process share.

    Use it as a context, in which the blocks can be asked.

    Parameters
    ----------
    blocks : list of Block
        In the order of the rows.
    arrays : Arrays
        The operations that fit the vectors with an entry per feature.
    """

    most_exact = math.inf
    """Rows of which a solver may keep copies in float64 and all products among them."""
    most_formed = math.inf
    """Features up to which a solver may keep matrices of features by features."""

    def __init__(self, blocks: list[Block], arrays: Arrays = NUMPY) -> None:
        self.blocks, self.arrays = blocks, arrays
        for before, block in pairwise(blocks):
            block.first_negative = before.first_negative + before.n_neg
        self.known = Records()
        self.in_use_by: int | None = None
        self.n_features = blocks[0].rows.shape[1]
        self.n_entries = sum(block.rows.n_entries for block in blocks)
        self.n_pos = sum(block.n_pos for block in blocks)
        self.n_neg = sum(block.n_neg for block in blocks)
        self.total_cost = sum(block.total_cost for block in blocks)
        self._read_before = self._entries_read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to give back."""

    def _entries_read(self) -> int:
        return sum(block.rows.tally.entries for block in self.blocks)

    @property
    def passes(self) -> float:
        return (self._entries_read() - self._read_before) / max(self.n_entries, 1)

    def widen(self, weights: Array) -> Array:
        return weights

    def narrow(self, weights: Array) -> Array:
        return weights

    def each(self, function: Callable[..., Answer], *arguments: object) -> list[Answer]:
        go_on()
        return [function(block, *arguments) for block in self.blocks]

    def tell(self, function: Callable[..., object], *arguments: object) -> None:
        self.each(function, *arguments)

    def sum(self, function: Callable[..., Answer], *arguments: object) -> Answer:
        return reduce(add, self.each(function, *arguments))

    def max(
        self, function: Callable[..., tuple[float, ...]], *arguments: object
    ) -> tuple[float, ...]:
        answers: Iterable[tuple[float, ...]] = zip(*self.each(function, *arguments), strict=True)
        return tuple(max(entry) for entry in answers)

    def scatter(self, function: Callable[..., object], vector: Array) -> None:
        first = 0
        for block in self.blocks:
            last = first + block.rows.shape[0]
            function(block, vector[first:last])
            first = last

    def gather(self, function: Callable[..., Array], *arguments: object) -> Array:
        return np.concatenate(self.each(function, *arguments))

    def over_rows(self, function: Callable[..., Array], *arguments: object) -> Array:
        return self.gather(function, *arguments)


def quietly(function: Callable[..., Answer], block: Block, *arguments: object) -> Answer:
    """`function(block, *arguments)` in a thread of its own, where overflow is no news either.

    Whoever asks says what becomes of numbers beyond all bounds; NumPy tells threads apart.
    """
    with np.errstate(all="ignore"):
        return function(block, *arguments)


def add(one: Any, other: Any) -> Any:
    """Sum of two answers; named tuples and tuples entry by entry."""
    if isinstance(one, tuple):
        entries = [add(mine, yours) for mine, yours in zip(one, other, strict=True)]
        return type(one)(*entries) if hasattr(one, "_fields") else tuple(entries)
    return one + other
