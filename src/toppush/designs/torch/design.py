"""A design whose block is on a device: floats come back once per question."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from toppush.designs.arrays import Arrays
from toppush.designs.block_design import Answer, BlockDesign, by_entry
from toppush.designs.blocks import Block
from toppush.designs.rows import exact_rows_in
from toppush.designs.torch.arrays import Tensor
from toppush.designs.torch.memory import free_bytes, no_room
from toppush.types import Array

COPIES = 4
"""Copies of an entry that a copy of a row may come to: by rows and by columns, while it grows."""

LEAST_EXACT = 1000
"""Rows of which copies and products are kept in any case: 50 MB, and without them fits stall."""


class TorchDesign(BlockDesign):
    """Rows on a device in one block; labels and weights are brought there.

    Where its memory is short, fewer rows are copied out, and fewer enter a preconditioner.
    """

    def __init__(self, rows: Any, positive: Any, sample_weight: Any | None = None) -> None:
        xp = rows.arrays
        weight = None if sample_weight is None else xp.asarray(sample_weight)
        free = free_bytes(rows.values.device) - rows.second_copy
        rows.room = _room(free / 2, rows)
        super().__init__([Block(rows, xp.asarray(positive), weight)], xp)
        fitting = exact_rows_in(free / 4, rows.n_entries / rows.shape[0])
        self.most_exact = max(fitting, LEAST_EXACT)

    def __exit__(self, *error: Any) -> None:
        if isinstance(error[1], torch.cuda.OutOfMemoryError):
            rows: Any = self.blocks[0].original
            raise no_room(rows.n_bytes, rows.values.device) from error[1]

    def sum(self, function: Callable[..., Answer], *arguments: object) -> Answer:
        return fetched(super().sum(function, *arguments), self.arrays)

    def max(
        self, function: Callable[..., tuple[float, ...]], *arguments: object
    ) -> tuple[float, ...]:
        found: tuple[float, ...] = fetched(function(self.blocks[0], *arguments), self.arrays)
        return found

    def top_of(self, function: Callable[..., Tensor], count: int) -> tuple[float, float]:
        numbers = function(self.blocks[0])
        greatest = torch.topk(numbers, min(count + 1, len(numbers)), sorted=False).values
        lowest = greatest.amin()  # the first that is not of the top
        level, excess = self.arrays.floats([lowest, (greatest - lowest).sum()])
        return level + excess / count, level

    def scatter(self, function: Callable[..., object], vector: Array) -> None:
        super().scatter(function, self.arrays.asarray(vector))

    def gather(self, function: Callable[..., Array], *arguments: object) -> Array:
        return self.arrays.to_host(function(self.blocks[0], *arguments))

    def widen(self, weights: Any) -> Array:
        return self.arrays.to_host(weights)

    def narrow(self, weights: Array) -> Any:
        return self.arrays.asarray(np.asarray(weights, np.float64))


def _room(free: float, rows: Any) -> float:
    """Entries that copies of rows may take; without limit if every row may be copied."""
    wanted = COPIES * rows.n_bytes
    return math.inf if free >= wanted else max(free, 0.0) / wanted * rows.n_entries


def fetched(answer: Answer, arrays: Arrays) -> Answer:
    """The answer with its numbers as floats, brought over together; vectors stay."""
    waiting: list[Tensor] = []
    by_entry(lambda entry: waiting.append(entry) if _is_number(entry) else None, answer)
    if not waiting:
        return answer
    found = iter(arrays.floats(waiting))
    whole: Answer = by_entry(lambda entry: next(found) if _is_number(entry) else entry, answer)
    return whole


def _is_number(entry: Any) -> bool:
    return isinstance(entry, torch.Tensor) and entry.ndim == 0
