"""Products of sparse rows in panels, and how much memory a device has left.

torch's own products of sparse rows take too much memory or time for what is done here.
"""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import torch

from toppush.designs.torch.arrays import Tensor

T = TypeVar("T")

GIB = 2.0**30
LEAST_PANEL = 1 << 16
"""Entries of a panel below which still smaller ones would not help."""
ADVICE = (
    "give fewer rows or rows in float32, leave device=None to use the processor, or see "
    "toppush.on_disk for rows that are larger than its memory."
)
PANEL_ENTRIES = 1 << 28
"""Entries of a dense panel of rows: 2 GiB in float64."""
ADDED_ENTRIES = 1 << 26
"""Sparse entries that are worked on at a time: 0.5 GiB for each vector over them."""


def free_bytes(device: Any) -> float:
    """Bytes left for new tensors: all free memory of a GPU, without limit on the processor."""
    if device.type != "cuda":
        return math.inf
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return float(free + unused)


def in_panels(work: Callable[[int], T], entries: int) -> T:
    """`work(entries)`, with a fourth of the entries while the device has no room for a panel."""
    while True:
        try:
            return work(entries)
        except torch.cuda.OutOfMemoryError:
            if entries <= LEAST_PANEL:
                raise
        torch.cuda.empty_cache()  # after `except`, whose error holds on to the tensors
        entries //= 4


def require_room(needed: float, device: Any) -> None:
    """Refuse rows that do not fit, before any is sent."""
    free = free_bytes(device)
    if needed > free:
        raise MemoryError(
            f"X takes {needed / GIB:.3g} GiB, and {device} has {free / GIB:.3g} GiB left; {ADVICE}"
        )


def no_room(taken: float, device: Any) -> MemoryError:
    """The error of a fit that found no room for more than its rows."""
    return MemoryError(
        f"a fit to rows that take {taken / GIB:.3g} GiB found no room for what it works with: "
        f"{device} has {free_bytes(device) / GIB:.3g} GiB left; {ADVICE}"
    )


class CsrEntries(NamedTuple):
    """Sparse rows as in CSR: where each begins, the columns of its entries and their values."""

    pointers: Tensor
    columns: Tensor
    values: Tensor

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return len(self.pointers) - 1

    def matrix(self, n_columns: int) -> Tensor:
        """As a CSR tensor."""
        return torch.sparse_csr_tensor(*self, size=(self.n_rows, n_columns), check_invariants=False)

    def owners(self) -> Tensor:
        """The row of every entry."""
        pointers = self.pointers
        numbers = torch.arange(self.n_rows, device=pointers.device, dtype=pointers.dtype)
        return torch.repeat_interleave(numbers, pointers.diff(), output_size=len(self.values))

    def transposed(self, n_columns: int) -> "CsrEntries":
        """The same entries by columns, those of a column in the order of their rows."""
        columns, order = torch.sort(self.columns, stable=True)
        bounds = torch.arange(n_columns + 1, dtype=columns.dtype, device=columns.device)
        pointers = torch.searchsorted(columns, bounds).to(self.pointers.dtype)
        return CsrEntries(pointers, self.owners()[order], self.values[order])

    def in_parts(self, n_rows: int) -> Iterator[tuple[slice, "CsrEntries"]]:
        """`n_rows` rows at a time, with their places."""
        bounds = [*range(0, self.n_rows, n_rows), self.n_rows]
        starts = [0, len(self.values)]
        if len(bounds) > 2:
            starts = self.pointers[torch.tensor(bounds, device=self.pointers.device)].tolist()
        for (first, last), (begin, end) in zip(pairwise(bounds), pairwise(starts), strict=True):
            pointers = self.pointers[first : last + 1] - begin
            yield (
                slice(first, last),
                CsrEntries(pointers, self.columns[begin:end], self.values[begin:end]),
            )

    def rows_within(self, n_entries: int) -> int:
        """How many rows have about `n_entries` entries."""
        return max(n_entries * self.n_rows // max(len(self.values), 1), 1)


def inner_products(left: CsrEntries, right: CsrEntries) -> Tensor:
    """Products of the rows of two sets, as a dense matrix.

    The smaller set becomes dense panels over the columns that it has entries in, some rows at a
    time; the larger one stays sparse. cuSPARSE's product of two sparse matrices failed at 3,000
    rows of 116 entries among 3 million columns.
    """
    if left.n_rows < right.n_rows:
        return inner_products(right, left).T
    values = left.values
    if not len(values) or not len(right.values):
        return torch.zeros((left.n_rows, right.n_rows), dtype=values.dtype, device=values.device)
    used = torch.unique(right.columns)
    matrix, smaller = _among(used, left).matrix(len(used)), _among(used, right)

    def product(n_entries: int) -> Tensor:
        parts = smaller.in_parts(max(n_entries // len(used), 1))
        return torch.cat([matrix @ _panel(part, len(used)) for _, part in parts], dim=1)

    return in_panels(product, PANEL_ENTRIES)


def _among(used: Tensor, rows: CsrEntries) -> CsrEntries:
    """The rows with their columns numbered among those in use; entries in others become zero."""
    places = torch.searchsorted(used, rows.columns).clamp(max=len(used) - 1)
    values = rows.values * (used[places] == rows.columns)
    return CsrEntries(rows.pointers, places.to(rows.columns.dtype), values)


def _panel(rows: CsrEntries, n_columns: int) -> Tensor:
    """The rows as columns of a dense matrix."""
    values = rows.values
    panel = torch.zeros((n_columns, rows.n_rows), dtype=values.dtype, device=values.device)
    panel[rows.columns.long(), rows.owners().long()] = values
    return panel


def added(rows: CsrEntries, coefficients: Tensor, n_columns: int) -> Tensor:
    """X' u without a transpose: every entry is added to its column.

    Takes several times as long as a product with a stored transpose. Making that takes as long as
    twenty such products, and as much memory as the rows.
    """

    def total(n_entries: int) -> Tensor:
        sums = torch.zeros(n_columns, dtype=torch.float64, device=coefficients.device)
        for where, part in rows.in_parts(rows.rows_within(n_entries)):
            terms = part.values * coefficients[where].index_select(0, part.owners())
            sums.index_add_(0, part.columns, terms.double())
        return sums

    return in_panels(total, ADDED_ENTRIES)
