"""A design whose block is on a device: floats come back once per question."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from toppush.designs.block_design import Answer, BlockDesign, by_entry
from toppush.designs.blocks import Block
from toppush.designs.torch.arrays import Tensor
from toppush.types import Array


class TorchDesign(BlockDesign):
    """Rows on a device in one block; labels and weights are brought there."""

    def __init__(self, rows: Any, positive: Any, sample_weight: Any | None = None) -> None:
        xp = rows.arrays
        weight = None if sample_weight is None else xp.asarray(sample_weight)
        super().__init__([Block(rows, xp.asarray(positive), weight)], xp)

    def sum(self, function: Callable[..., Answer], *arguments: object) -> Answer:
        return fetched(super().sum(function, *arguments))

    def max(
        self, function: Callable[..., tuple[float, ...]], *arguments: object
    ) -> tuple[float, ...]:
        found: tuple[float, ...] = fetched(function(self.blocks[0], *arguments))
        return found

    def scatter(self, function: Callable[..., object], vector: Array) -> None:
        super().scatter(function, self.arrays.asarray(vector))

    def gather(self, function: Callable[..., Array], *arguments: object) -> Array:
        return self.arrays.to_host(function(self.blocks[0], *arguments))

    def widen(self, weights: Any) -> Array:
        return self.arrays.to_host(weights)

    def narrow(self, weights: Array) -> Any:
        return self.arrays.asarray(np.asarray(weights, np.float64))


def fetched(answer: Answer) -> Answer:
    """The answer with its numbers as floats, brought over together; vectors stay."""
    waiting: list[Tensor] = []
    by_entry(lambda entry: waiting.append(entry) if _is_number(entry) else None, answer)
    if not waiting:
        return answer
    found = iter(torch.stack([number.double() for number in waiting]).tolist())
    whole: Answer = by_entry(lambda entry: next(found) if _is_number(entry) else entry, answer)
    return whole


def _is_number(entry: Any) -> bool:
    return isinstance(entry, torch.Tensor) and entry.ndim == 0
