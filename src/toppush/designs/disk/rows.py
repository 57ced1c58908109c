"""Rows on disk: every product reads them in blocks, one block ahead, within a memory limit.

Everything of row length stays in memory, and so do the few rows that a solver copies while there is
room. A thread reads the next block into one of two buffers while products use the other.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from copy import copy
from typing import NamedTuple, Self, cast

import numpy as np
from scipy import sparse

from toppush.designs.arrays import NUMPY
from toppush.designs.blocks import Block
from toppush.designs.disk.files import Buffer, Run, Source
from toppush.designs.in_memory import DenseRows
from toppush.designs.local import BlockDesign, default_threads, hold_blas, release_blas, rows_of
from toppush.designs.placing import HostRows
from toppush.designs.rows import (
    UNSCALED,
    ByParts,
    ExactRows,
    ReadTally,
    Rows,
    Scaling,
    exact_rows_in,
    precise,
)
from toppush.system.memory import resident
from toppush.types import Array, Mask, Matrix, Where

BLOCK, SMALLEST_BLOCK = 32 << 20, 1 << 20
"""Bytes of a block: usual and least."""
BLOCKS_HELD = 5
"""Blocks that memory must have room for: two buffers, and intermediate results of products."""
SKIPPED = 1 << 16
"""Bytes between two wanted rows above which they are skipped rather than read too."""
ROW_VECTORS, POSITIVE_VECTORS, SCORE_VECTORS = 10, 6, 5
"""Vectors in memory at most: per row and per positive in a fit, per row in scoring."""
FEATURE_VECTORS, FEATURE_MATRICES = 40, 7
"""The same per feature, and matrices of pairs of features where they are formed."""
WORKSPACE = 32 << 20
"""Bytes for everything else: libraries on first use, small objects."""


class Plan(NamedTuple):
    """How the memory that is left is used, in bytes."""

    block: int
    room: int
    """For copies of rows."""


class OnDisk(HostRows):
    """Rows in files that are fitted and scored without loading them, from `toppush.on_disk.open`.

    Attributes
    ----------
    shape : (int, int)
    dtype : numpy.dtype
    memory_limit : int
        Bytes of memory that the process may use.
    bytes_read : int
        Read so far, by all fits and scorings.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush import on_disk
    >>> np.save("rows.npy", np.zeros((500, 3)))
    >>> rows = on_disk.open("rows.npy", memory_limit="4GiB")
    >>> rows.shape, rows.dtype
    ((500, 3), dtype('float64'))
    """

    library = "disk"

    def __init__(self, source: Source, memory_limit: int) -> None:
        self.source, self.memory_limit = source, memory_limit
        self.shape, self.dtype, self.n_entries = source.shape, source.dtype, source.n_entries
        self.is_double, self.bytes_read = source.dtype == np.float64, 0

    def __repr__(self) -> str:
        return f"<{self.shape[0]} x {self.shape[1]} rows of {self.dtype} on disk>"

    def on_device(self, device: str) -> Self:
        raise ValueError(
            f"device={device!r}, but X is {self!r}, which is read by this process; leave "
            "device=None, or load the rows and give an array."
        )

    def design(
        self, positive: Mask, sample_weight: Array | None = None, *, n_jobs: int | None = None
    ) -> "DiskDesign":
        return DiskDesign(self, positive, sample_weight)

    def subset(self, where: Where) -> Rows:
        with self._reader() as reader:
            return DiskRows(self, reader, 0).subset(where)

    def scores_of_all(self, weights: Array) -> Array:
        with self._reader() as reader:
            return precise(DiskRows(self, reader, 0), UNSCALED).scores(weights)

    def scores_of_some(self, where: Where, fits: Iterable[tuple[Array, float]]) -> list[Array]:
        return [self.scores_of_all(weights)[where] - threshold for weights, threshold in fits]

    def _reader(self) -> "DiskReader":
        plan = self.plan(SCORE_VECTORS * self.shape[0], 2 * self.shape[1])
        return DiskReader(self, plan.block)

    def plan(self, n_row_numbers: int, n_feature_numbers: int) -> Plan:
        """Sizes within the limit, or a refusal."""
        vectors = 8 * (n_row_numbers + n_feature_numbers)
        in_use = resident() + WORKSPACE
        widest = self.source.widest * self.source.entry_bytes
        left = self.memory_limit - in_use - vectors - self.source.resident_bytes
        block = max(min(BLOCK, left // (2 * BLOCKS_HELD)), SMALLEST_BLOCK, widest)
        if left < BLOCKS_HELD * block:
            least = self.memory_limit - left + BLOCKS_HELD * max(SMALLEST_BLOCK, widest)
            raise ValueError(
                f"memory_limit={shown(self.memory_limit)} is too small for {self.shape[0]} rows of "
                f"{self.shape[1]} columns: {shown(in_use)} are in use, vectors and matrices take "
                f"{shown(vectors + self.source.resident_bytes)} and blocks to read into "
                f"{shown(BLOCKS_HELD * block)}; give at least {shown(least)}, or fewer rows."
            )
        return Plan(block, left - BLOCKS_HELD * block)


class DiskReader:
    """Reads blocks, one ahead; used as a context."""

    def __init__(self, on_disk: OnDisk, block: int) -> None:
        self._on_disk, self._source = on_disk, on_disk.source
        self._most = block // self._source.entry_bytes

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._reading = stack.enter_context(copy(self._source))
            self._pool = stack.enter_context(ThreadPoolExecutor(1, "toppush-read"))
            self._buffers = [self._source.buffer(self._most) for _ in range(2)]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._buffers = []
        self._stack.close()

    def all_runs(self) -> list[list[Run]]:
        """All rows, a run for each block."""
        return [[run] for run in self._cut(0, self._source.shape[0])]

    def runs_with(self, where: Where) -> list[list[Run]]:
        """Runs that hold some rows, in order, as many to a block as fit."""
        if not len(where):
            return []
        ends, starts = self._source.entries_before(where[:-1] + 1), where[1:]
        apart = (self._source.entries_before(starts) - ends) * self._source.entry_bytes
        breaks = np.flatnonzero(apart > SKIPPED)
        first, last = where[np.append(0, breaks + 1)], where[np.append(breaks, -1)] + 1
        blocks: list[list[Run]] = [[]]
        held = 0
        for run in zip(first.tolist(), last.tolist(), strict=True):
            for start, stop in self._cut(*run):
                bounds = self._source.entries_before(np.array([start, stop]))
                length = int(bounds[1] - bounds[0])
                if blocks[-1] and held + length > self._most:
                    blocks.append([])
                    held = 0
                blocks[-1].append((start, stop))
                held += length
        return blocks

    def _cut(self, start: int, stop: int) -> Iterator[Run]:
        while start < stop:
            end = min(self._source.rows_within(start, self._most), stop)
            yield start, end
            start = end

    def stream(self, blocks: Sequence[list[Run]]) -> Iterator[tuple[list[Run], Matrix]]:
        """The rows of each block in turn; they are valid until the next one."""
        waiting = self._pool.submit(self._fill, blocks[0], self._buffers[0]) if blocks else None
        for number, runs in enumerate(blocks, start=1):
            assert waiting is not None
            matrix = waiting.result()
            if number < len(blocks):
                buffer = self._buffers[number % 2]
                waiting = self._pool.submit(self._fill, blocks[number], buffer)
            yield runs, matrix

    def _fill(self, runs: list[Run], buffer: Buffer) -> Matrix:
        matrix = self._reading.read(runs, buffer)
        n_entries = matrix.nnz if sparse.issparse(matrix) else matrix.size
        self._on_disk.bytes_read += n_entries * self._source.entry_bytes
        return matrix


class DiskRows(ByParts):
    """All rows of a source; each method reads the rows it needs once."""

    arrays = NUMPY

    def __init__(self, on_disk: OnDisk, reader: DiskReader, room: int) -> None:
        self._source, self._reader = on_disk.source, reader
        self.shape, self.n_entries, self.tally = on_disk.shape, on_disk.n_entries, ReadTally()
        self.room = room / self._source.entry_bytes
        self.copy_cost = 1.0 if self._source.is_dense else 2.0
        self.is_double, self.can_center = on_disk.is_double, self._source.is_dense
        self._checked = False

    def _parts(self, *coefficients: Array) -> Iterator[tuple[slice, Rows]]:
        """All rows, block by block, with a check of the entries the first time."""
        for ((start, stop),), matrix in self._reader.stream(self._reader.all_runs()):
            if not self._checked:
                require_sound(matrix, start)
            yield slice(start, stop), rows_of(matrix, tally=self.tally)
        self._checked = True

    def _chosen(self, where: Where) -> Iterator[tuple[slice, Where, Rows]]:
        """Some rows in rising order: which of them, their places in a block, and the block."""
        first = 0
        for runs, matrix in self._reader.stream(self._reader.runs_with(where)):
            numbers = np.concatenate([np.arange(*run) for run in runs])
            last = first + int(np.searchsorted(where[first:], runs[-1][1]))
            at = np.searchsorted(numbers, where[first:last])
            yield slice(first, last), at, rows_of(matrix, tally=self.tally)
            first = last

    def gram(self, where: Where, scale: Array) -> tuple[Array, Array]:
        order = None if _rising(where) else np.argsort(where)
        where, scale = (where, scale) if order is None else (where[order], scale[order])
        total, product = np.zeros((self.shape[1], self.shape[1])), np.zeros(self.shape[1])
        for part, at, rows in self._chosen(where):
            more = rows.gram(at, scale[part])
            total += more[0]
            product += more[1]
        return total, product

    def subset(self, where: Where) -> Rows:
        if not _rising(where):
            numbers, back = np.unique(where, return_inverse=True)
            return self.subset(numbers).subset(back)
        if self._source.is_dense:
            values = np.empty((len(where), self.shape[1]), self._source.dtype)
            for part, at, rows in self._chosen(where):
                values[part] = cast(DenseRows, rows.subset(at)).X
            return rows_of(values, tally=self.tally)
        parts = [rows.subset(at) for _, at, rows in self._chosen(where)]
        if not parts:
            _, rows = next(self._parts())
            return rows.subset(where)
        return parts[0] if len(parts) == 1 else parts[0].stacked(*parts[1:])

    def rescaled(self, scaling: Scaling) -> Rows:
        return self.subset(np.arange(self.shape[0])).rescaled(scaling)

    def parts(self) -> Iterator[tuple[slice, Rows]]:
        for block, rows in self._parts():
            for part, few in rows.parts():
                stop = min(block.start + part.stop, block.stop)
                yield slice(block.start + part.start, stop), few

    def count_entries(self, where: Where) -> int:
        before = self._source.entries_before
        return int((before(where + 1) - before(where)).sum())

    def exact(self) -> ExactRows:
        return self.subset(np.arange(self.shape[0])).exact()


def _rising(where: Where) -> bool:
    return bool(np.all(where[1:] > where[:-1]))


def require_sound(matrix: Matrix, first: int) -> None:
    """Refuse numbers that are not finite, and column numbers that do not exist."""
    values = matrix.data if sparse.issparse(matrix) else matrix
    last = first + matrix.shape[0] - 1
    if not math.isfinite(float(values.sum())) and not np.isfinite(values).all():
        raise ValueError(
            f"Input X contains NaN or infinity in rows {first} to {last}; "
            "fill or drop such entries first."
        )
    if sparse.issparse(matrix) and len(matrix.indices):
        low, high = int(matrix.indices.min()), int(matrix.indices.max())
        if low < 0 or high >= matrix.shape[1]:
            raise ValueError(
                f"rows {first} to {last} name column {low if low < 0 else high}, and there are "
                f"{matrix.shape[1]}; give n_features, or write the files again."
            )


class DiskDesign(BlockDesign):
    """Rows on disk as one block; entering it opens the files."""

    most_formed: float = 1000

    def __init__(self, on_disk: OnDisk, positive: Mask, sample_weight: Array | None) -> None:
        n_rows, n_features = on_disk.shape
        formed = n_features <= self.most_formed
        plan = on_disk.plan(
            ROW_VECTORS * n_rows + POSITIVE_VECTORS * int(np.count_nonzero(positive)),
            FEATURE_VECTORS * n_features + formed * FEATURE_MATRICES * n_features**2,
        )
        self._reader = DiskReader(on_disk, plan.block)
        exact = 0 if formed else plan.room // 3
        rows = DiskRows(on_disk, self._reader, plan.room - exact)
        super().__init__([Block(rows, positive, sample_weight)])
        self.most_exact = exact_rows_in(exact, self.n_entries / n_rows)

    def __enter__(self) -> Self:
        self._reader.__enter__()
        # One core is left to the reader, because idle BLAS threads wait busily.
        hold_blas(max(1, default_threads() - 1))
        return self

    def __exit__(self, *error: object) -> None:
        release_blas()
        self._reader.__exit__(*error)


def shown(n_bytes: float) -> str:
    """Bytes in a readable unit."""
    for unit in ("bytes", "KiB", "MiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.4g} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.4g} GiB"
