"""Blocks of this process, asked one after another."""

from collections.abc import Callable
from functools import partial, reduce
from itertools import pairwise
from operator import add
from typing import Any, TypeVar

import numpy as np

from toppush.designs.arrays import NUMPY, Arrays
from toppush.designs.blocks import Block
from toppush.designs.protocol import Design
from toppush.designs.records import Records
from toppush.system.threads import check_cancelled
from toppush.types import Array

Answer = TypeVar("Answer")
"""What a block says."""


class BlockDesign(Design):
    """What all designs whose blocks, in the order of the rows, are in this process share."""

    def __init__(self, blocks: list[Block], arrays: Arrays = NUMPY) -> None:
        self.blocks, self.arrays = blocks, arrays
        for before, block in pairwise(blocks):
            block.first_negative = before.first_negative + before.n_neg
        self.known = Records()
        self.n_features = blocks[0].rows.shape[1]
        self.n_entries = sum(block.rows.n_entries for block in blocks)
        self.n_pos = sum(block.n_pos for block in blocks)
        self.n_neg = sum(block.n_neg for block in blocks)
        self.total_cost = sum(block.total_cost for block in blocks)
        self._read_before = self._entries_read()

    def _entries_read(self) -> int:
        return sum(block.rows.tally.entries for block in self.blocks)

    @property
    def passes(self) -> float:
        return (self._entries_read() - self._read_before) / max(self.n_entries, 1)

    def each(self, function: Callable[..., Answer], *arguments: object) -> list[Answer]:
        check_cancelled()
        return [function(block, *arguments) for block in self.blocks]

    def sum(self, function: Callable[..., Answer], *arguments: object) -> Answer:
        answers = self.each(function, *arguments)
        return answers[0] if len(answers) == 1 else reduce(partial(by_entry, add), answers)

    def max(
        self, function: Callable[..., tuple[float, ...]], *arguments: object
    ) -> tuple[float, ...]:
        answers = self.each(function, *arguments)
        return answers[0] if len(answers) == 1 else tuple(map(max, zip(*answers, strict=True)))

    def scatter(self, function: Callable[..., object], vector: Array) -> None:
        first = 0
        for block in self.blocks:
            last = first + block.rows.shape[0]
            function(block, vector[first:last])
            first = last


def quietly(function: Callable[..., Answer], block: Block, *arguments: object) -> Answer:
    """`function(block, *arguments)` in a thread of its own, where overflow is no news either.

    Whoever asks says what becomes of numbers beyond all bounds; NumPy tells threads apart.
    """
    with np.errstate(all="ignore"):
        return function(block, *arguments)


def by_entry(function: Callable[..., Any], *answers: Any) -> Any:
    """`function` of some answers; named tuples and tuples entry by entry."""
    first = answers[0]
    if isinstance(first, tuple):
        entries = [by_entry(function, *entry) for entry in zip(*answers, strict=True)]
        return type(first)(*entries) if hasattr(first, "_fields") else tuple(entries)
    return function(*answers)
