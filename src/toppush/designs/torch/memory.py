"""What a device has room for: smaller plans where it is short, a sentence where none will do."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch

T = TypeVar("T")

GIB = 2.0**30
LEAST_PANEL = 1 << 16
"""Entries of a panel below which still smaller ones would not help."""
ADVICE = (
    "give fewer rows or rows in float32, leave device=None to use the processor, or see "
    "toppush.on_disk for rows that are larger than its memory."
)


def free_bytes(device: Any) -> float:
    """What new tensors may take: all that a GPU has left, without limit on the processor."""
    if device.type != "cuda":
        return math.inf
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return float(free + unused)


def in_panels(work: Callable[[int], T], entries: int) -> T:
    """`work(entries)` in panels of so many entries, or of fewer while the device has no room."""
    while True:
        try:
            return work(entries)
        except torch.cuda.OutOfMemoryError:
            if entries <= LEAST_PANEL:
                raise
        torch.cuda.empty_cache()  # after `except`, whose error holds on to the tensors
        entries //= 4


def require_room(needed: float, device: Any) -> None:
    """Refuse rows that do not fit, before any of them travels."""
    free = free_bytes(device)
    if needed > free:
        raise MemoryError(
            f"X takes {needed / GIB:.3g} GiB, and {device} has {free / GIB:.3g} GiB left; {ADVICE}"
        )


def no_room(taken: float, device: Any) -> MemoryError:
    """What to say of a fit that found no room beside its rows."""
    return MemoryError(
        f"a fit to rows that take {taken / GIB:.3g} GiB found no room for what it works with: "
        f"{device} has {free_bytes(device) / GIB:.3g} GiB left; {ADVICE}"
    )
