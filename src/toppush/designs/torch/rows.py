"""Rows in torch's tensors, on a GPU or wherever torch has them, and the design of them.

Everything of row length and every vector with an entry per feature stays on the device. A sum
over the rows comes back as floats, all of an answer's in one transfer.
"""

import math
import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from scipy import sparse

from toppush.designs.arrays import Arrays
from toppush.designs.blocks import Block
from toppush.designs.local import BlockDesign, by_entry
from toppush.designs.placing import HostRows, scores_of
from toppush.designs.rows import ReadTally, Rows, Scaling, exact_rows_in, gram_by_parts
from toppush.designs.torch.arrays import Tensor, arrays_on
from toppush.designs.torch.panels import (
    CsrEntries,
    added,
    free_bytes,
    inner_products,
    no_room,
    require_room,
)
from toppush.types import Array, Where

SINGLE_ROWS = 1 << 20
"""Rows per float32 product; the partial sums are added in float64."""
GRAM_ENTRIES = 1 << 28
"""Entries of a part of a Gram matrix: 2 GiB in float64."""
PART_ENTRIES = 1 << 24
"""Entries of a part of the rows that is scaled: 128 MB in float64."""
MANY, SORTING, TRANSPOSE_SHARE = 1 << 26, 32, 0.75
"""Entries from which on the room for a transpose is asked for, bytes that putting an entry in order
takes on the way, and the share of free memory that all of it may take."""
COPIES = 4
"""Copies of an entry that a copy of a row may come to: by rows and by columns, while it grows."""
LEAST_EXACT = 1000
"""Rows of which copies and products are kept in any case: 50 MB; without them fits stall."""
USED = (torch.float64, torch.float32)

with warnings.catch_warnings():  # torch says once in a process that its CSR tensors are new
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 0], [], [], size=(1, 1))


class TorchRows(Rows, HostRows):
    """What dense and sparse rows on a device share."""

    library = "torch"
    n_entries: int
    values: Tensor

    def __init__(self, values: Tensor, tally: ReadTally | None) -> None:
        self.values, self.n_entries = values, values.numel()
        self.is_double = values.dtype == torch.float64
        self.arrays = arrays_on(values.device)
        self.tally = ReadTally() if tally is None else tally

    @property
    def dtype(self) -> Any:
        """The entries' type."""
        return self.values.dtype

    @property
    def n_bytes(self) -> int:
        """What the entries take."""
        return self.n_entries * int(self.values.element_size())

    @property
    def second_copy(self) -> int:
        """Bytes of a transpose that is still to be made."""
        return 0

    def scores_of_all(self, weights: Array) -> Array:
        return scores_of(self, weights)

    def largest(self) -> float:
        low, high = torch.aminmax(self.values) if self.n_entries else (0.0, 0.0)
        return max(float(high), -float(low))

    def design(
        self, positive: Any, sample_weight: Any | None = None, *, n_jobs: int | None = None
    ) -> "TorchDesign":
        return TorchDesign(self, positive, sample_weight)


class DenseTensorRows(TorchRows):
    """Rows of a dense tensor."""

    can_center = True

    def __init__(self, X: Tensor, tally: ReadTally | None = None) -> None:
        super().__init__(X, tally)
        self.shape: tuple[int, int] = (X.shape[0], X.shape[1])

    def scores(self, weights: Tensor) -> Tensor:
        self.tally.entries += self.n_entries
        return (self.values @ weights.to(self.dtype)).double()

    def combine(self, coefficients: Tensor) -> Tensor:
        """X' u; float32 rows are summed a million at a time."""
        self.tally.entries += self.n_entries
        if self.dtype == torch.float64:
            return self.values.T @ coefficients
        total, coefficients = self.arrays.zeros(self.shape[1]), coefficients.to(self.dtype)
        for start in range(0, self.shape[0], SINGLE_ROWS):
            part = slice(start, start + SINGLE_ROWS)
            total += self.values[part].T @ coefficients[part]
        return total

    def gram(self, where: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        self.tally.entries += len(where) * self.shape[1]
        return gram_by_parts(
            lambda part: self.values[where[part]].double(), scale, self.shape[1], GRAM_ENTRIES
        )

    def subset(self, where: Tensor | Where) -> Self:
        self.tally.entries += len(where) * self.shape[1]
        return type(self)(self.values[self.arrays.asarray(where)], self.tally)

    def squared(self) -> Self:
        return type(self)(self.values.square(), self.tally)

    def scaled(self, columns: Tensor) -> Self:
        return type(self)(self.values * columns)

    def count_entries(self, where: Tensor) -> int:
        return len(where) * self.shape[1]

    def squared_norms(self) -> Tensor:
        return self.values.double().square().sum(dim=1)

    def exact(self) -> Self:
        return type(self)(self.values.double())

    def stacked(self, *others: Self) -> Self:
        values = torch.cat([self.values, *(other.values for other in others)])
        return type(self)(values, self.tally)

    def rescaled(self, scaling: Scaling) -> Self:
        values = self.values.double() * scaling.scale
        return type(self)(values if scaling.centre is None else values - scaling.centre, self.tally)

    def parts(self) -> Iterator[tuple[slice, Self]]:
        step = max(PART_ENTRIES // self.shape[1], 1)
        for start in range(0, self.shape[0], step):
            where = slice(start, start + step)
            yield where, type(self)(self.values[where], self.tally)

    def inner_products(self, other: Self) -> Tensor:
        return self.values @ other.values.T

    def dense(self) -> Array:
        return self.arrays.to_host(self.values)


class SparseTensorRows(TorchRows):
    """Rows of a CSR tensor, and its transpose as a second one once X' u is needed.

    A product with the transpose of a CSR tensor takes 30 times as long as one with a stored
    transpose. Without room for that, or where rows are used for one product only, every entry is
    added to its column instead. No column may occur twice in a row.
    """

    can_center = False

    def __init__(
        self,
        entries: CsrEntries,
        n_columns: int,
        tally: ReadTally | None = None,
        once: bool = False,
    ) -> None:
        super().__init__(entries.values, tally)
        self.shape = (entries.n_rows, n_columns)
        self._entries, self._pointers, self._once = entries, entries.pointers, once
        self._matrix = entries.matrix(n_columns)

    @cached_property
    def _transpose(self) -> Tensor:
        return self._entries.transposed(self.shape[1]).matrix(self.shape[0])

    @property
    def n_bytes(self) -> int:
        return super().n_bytes + self.n_entries * int(self._pointers.element_size())

    @property
    def second_copy(self) -> int:
        return self.n_bytes if self._keeps_transpose else 0

    @cached_property
    def _keeps_transpose(self) -> bool:
        """Whether there is room for a second copy, and for what making it takes."""
        if self._once or self.n_entries < MANY:
            return not self._once
        takes = self.n_bytes + SORTING * self.n_entries
        return bool(takes <= TRANSPOSE_SHARE * free_bytes(self.values.device))

    def scores(self, weights: Tensor) -> Tensor:
        self.tally.entries += self.n_entries
        if not self.n_entries:
            return self.arrays.zeros(self.shape[0])
        return (self._matrix @ weights.to(self.dtype)).double()

    def combine(self, coefficients: Tensor) -> Tensor:
        self.tally.entries += self.n_entries
        if not self.n_entries:
            return self.arrays.zeros(self.shape[1])
        if self._keeps_transpose:
            return (self._transpose @ coefficients.to(self.dtype)).double()
        return added(self._entries, coefficients.to(self.dtype), self.shape[1])

    def gram(self, where: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        return gram_by_parts(
            lambda part: self.subset(where[part])._filled(), scale, self.shape[1], GRAM_ENTRIES
        )

    def dense(self) -> Array:
        return self.arrays.to_host(self._filled())

    def _filled(self) -> Tensor:
        """The rows as a dense float64 tensor."""
        dense, (_, columns, values) = self.arrays.zeros(self.shape), self._entries
        dense[self._entries.owners().long(), columns.long()] = values.double()
        return dense

    def subset(self, where: Tensor | Where) -> Self:
        where = self.arrays.asarray(where)
        starts = self._pointers[where]
        lengths = self._pointers[where + 1] - starts
        pointers = _bounds(lengths, self._pointers.dtype)
        n_entries = int(pointers[-1])
        ahead = torch.repeat_interleave(starts - pointers[:-1], lengths, output_size=n_entries)
        at = ahead + torch.arange(n_entries, device=ahead.device)
        self.tally.entries += n_entries
        chosen = CsrEntries(pointers, self._entries.columns[at], self.values[at])
        return type(self)(chosen, self.shape[1], self.tally)

    def squared(self) -> Self:
        """Values are copied, and so are those of the transpose if there is one."""
        squares = type(self)(
            self._with(self.values.square()), self.shape[1], self.tally, self._once
        )
        if "_transpose" in vars(self):
            known = self._transpose
            parts = known.crow_indices(), known.col_indices(), known.values().square()
            squares._transpose = CsrEntries(*parts).matrix(self.shape[0])
        return squares

    def scaled(self, columns: Tensor) -> Self:
        values = self.values * columns[self._entries.columns.long()]
        return type(self)(self._with(values), self.shape[1])

    def count_entries(self, where: Tensor) -> int:
        return int((self._pointers[where + 1] - self._pointers[where]).sum())

    def squared_norms(self) -> Tensor:
        if not self.n_entries:
            return self.arrays.zeros(self.shape[0])
        squares = self._with(self.values.double().square()).matrix(self.shape[1])
        return squares @ self.arrays.broadcast_to(1.0, self.shape[1])

    def _with(self, values: Tensor) -> CsrEntries:
        """The same entries with other values."""
        return self._entries._replace(values=values)

    def exact(self) -> Self:
        return type(self)(self._with(self.values.double()), self.shape[1])

    def stacked(self, *others: Self) -> Self:
        parts = [self._entries, *(other._entries for other in others)]
        lengths = torch.cat([part.pointers.diff() for part in parts])
        joined = CsrEntries(
            _bounds(lengths, self._pointers.dtype),
            torch.cat([part.columns for part in parts]),
            torch.cat([part.values for part in parts]),
        )
        return type(self)(joined, self.shape[1], self.tally)

    def rescaled(self, scaling: Scaling) -> Self:
        """A scaled copy in float64; there is no centre."""
        values = self.values.double() * scaling.scale
        return type(self)(self._with(values), self.shape[1], self.tally, self._once)

    def parts(self) -> Iterator[tuple[slice, Self]]:
        n_rows = self._entries.rows_within(PART_ENTRIES)
        for where, part in self._entries.in_parts(n_rows):
            yield where, type(self)(part, self.shape[1], self.tally, once=True)

    def inner_products(self, other: Self) -> Tensor:
        return inner_products(self._entries, other._entries)


def _bounds(lengths: Tensor, dtype: Any) -> Tensor:
    """Where rows of these lengths begin, and where the last ends."""
    pointers = torch.zeros(len(lengths) + 1, dtype=dtype, device=lengths.device)
    pointers[1:] = lengths.cumsum(0)
    return pointers


class TorchDesign(BlockDesign):
    """Rows on a device in one block; labels and weights are copied to it.

    Where its memory is short, fewer rows are copied, and fewer enter a preconditioner.
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

    def sum(self, function: Any, *arguments: Any) -> Any:
        return fetched(super().sum(function, *arguments), self.arrays)

    def max(self, function: Any, *arguments: Any) -> tuple[float, ...]:
        floats: tuple[float, ...] = fetched(super().max(function, *arguments), self.arrays)
        return floats

    def top_of(self, function: Any, count: int) -> tuple[float, float]:
        numbers = function(self.blocks[0])
        greatest = torch.topk(numbers, min(count + 1, len(numbers)), sorted=False).values
        lowest = greatest.amin()  # the first that is not of the top
        level, excess = self.arrays.floats([lowest, (greatest - lowest).sum()])
        return level + excess / count, level

    def scatter(self, function: Any, vector: Array) -> None:
        super().scatter(function, self.arrays.asarray(vector))

    def gather(self, function: Any, *arguments: Any) -> Array:
        return self.arrays.to_host(function(self.blocks[0], *arguments))

    def widen(self, weights: Any) -> Array:
        return self.arrays.to_host(weights)

    def narrow(self, weights: Array) -> Any:
        return self.arrays.asarray(np.asarray(weights, np.float64))


def _room(free: float, rows: Any) -> float:
    """Entries that copies of rows may take; without limit if every row may be copied."""
    wanted = COPIES * rows.n_bytes
    return math.inf if free >= wanted else max(free, 0.0) / wanted * rows.n_entries


def fetched(answer: Any, arrays: Arrays) -> Any:
    """The answer with its numbers as floats, fetched together; vectors stay."""
    waiting: list[Tensor] = []
    by_entry(lambda entry: waiting.append(entry) if _is_number(entry) else None, answer)
    if not waiting:
        return answer
    numbers = iter(arrays.floats(waiting))
    return by_entry(lambda entry: next(numbers) if _is_number(entry) else entry, answer)


def _is_number(entry: Any) -> bool:
    return isinstance(entry, torch.Tensor) and entry.ndim == 0


def place(X: Any, device: str | None) -> TorchRows:
    """Rows of an array, a CSR matrix or a tensor on a device; a tensor stays where it is."""
    where = None if device is None else _device(device)
    if sparse.issparse(X):
        return _place_csr(X, where)
    if isinstance(X, torch.Tensor):
        return _place_tensor(X.detach(), where)
    with warnings.catch_warnings():  # a read-only array: nothing here writes to it
        warnings.simplefilter("ignore")
        values = torch.as_tensor(np.asarray(X))
        return DenseTensorRows(_moved([values], where)[0])


def _moved(parts: list[Tensor], device: Any) -> list[Tensor]:
    """Tensors on a device, all or none of them."""
    if device is None:
        return parts
    away = [part for part in parts if part.device != device]
    require_room(sum(part.numel() * part.element_size() for part in away), device)
    return [part.to(device) for part in parts]


def _device(name: str) -> Any:
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device={name!r}, but torch {torch.__version__} finds no CUDA device; "
            "leave device=None to use the processor."
        )
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def _place_csr(X: Any, device: Any) -> SparseTensorRows:
    """A SciPy matrix, its repeated entries added up and its numbers in 32 bits if they fit."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    fits = max(X.nnz, *X.shape) < np.iinfo(np.int32).max
    index_type = torch.int32 if fits else torch.int64
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pointers, columns, values = (
            torch.as_tensor(part) for part in (X.indptr, X.indices, X.data)
        )
    parts = _moved([pointers.to(index_type), columns.to(index_type), values], device)
    return SparseTensorRows(CsrEntries(*parts), X.shape[1])


def _place_tensor(X: Tensor, device: Any) -> TorchRows:
    if X.ndim != 2 or not X.shape[0] or not X.shape[1]:
        raise ValueError(
            f"X must be a tensor of two dimensions with rows and columns, found {tuple(X.shape)}."
        )
    X = X if X.dtype in USED else X.double()
    rows: TorchRows
    if X.layout == torch.strided:
        rows = DenseTensorRows(_moved([X], device)[0])
    else:
        X = X if X.layout == torch.sparse_csr else X.to_sparse_csr()
        fits = max(X.values().numel(), *X.shape) < np.iinfo(np.int32).max
        numbers = [
            part.to(torch.int32) if fits else part for part in (X.crow_indices(), X.col_indices())
        ]
        entries = CsrEntries(*_moved([*numbers, X.values()], device))
        rows = SparseTensorRows(entries, X.shape[1])
    _require_finite(rows.values)
    return rows


def _require_finite(values: Tensor) -> None:
    """Refuse NaN and infinity, which the sum shows unless it overflows."""
    if not torch.isfinite(values.sum()) and not torch.isfinite(values).all():
        raise ValueError("Input X contains NaN or infinity; fill or drop such entries first.")
