"""Row blocks of this process, asked in turn or by a pool of threads."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial, reduce
from itertools import pairwise
from operator import add
from threading import RLock
from typing import Any, Self

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import ThreadpoolController

from toppush.designs.arrays import NUMPY, Arrays
from toppush.designs.blocks import Block
from toppush.designs.in_memory import DenseRows, SparseRows, largest_entry
from toppush.designs.protocol import Design, Records
from toppush.designs.rows import ReadTally, Rows, Scaling
from toppush.system.threads import check_cancelled
from toppush.types import Array, Mask, Matrix, Where

ENTRIES_PER_THREAD = 1 << 22
"""Below this many stored entries a second thread costs more than it saves."""
SMALL, HARDLY_SPARSE = 1_000_000, 0.1
"""Entries of a matrix up to which, and density from which, it is stored as an array."""
WIDE = 5_000
"""Columns from which empty ones are looked for."""
USUAL = 2.0**32
"""Rows whose largest entry lies within this factor of 1 keep their size."""
FAR_OFF = 1024.0
"""A column whose middle is this many of its ranges from zero is centred, or loses three digits."""


class BlockDesign(Design):
    """Blocks of this process in the order of the rows, asked in turn."""

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
    def data_passes(self) -> float:
        return (self._entries_read() - self._read_before) / max(self.n_entries, 1)

    def each(self, function: Any, *arguments: Any) -> list[Any]:
        check_cancelled()
        return [function(block, *arguments) for block in self.blocks]

    def sum(self, function: Any, *arguments: Any) -> Any:
        answers = self.each(function, *arguments)
        return answers[0] if len(answers) == 1 else reduce(partial(by_entry, add), answers)

    def max(self, function: Any, *arguments: Any) -> tuple[float, ...]:
        answers = self.each(function, *arguments)
        return answers[0] if len(answers) == 1 else tuple(map(max, zip(*answers, strict=True)))

    def scatter(self, function: Any, vector: Array) -> None:
        first = 0
        for block in self.blocks:
            last = first + block.rows.shape[0]
            function(block, vector[first:last])
            first = last


def quietly(function: Any, block: Block, *arguments: Any) -> Any:
    """`function(block, *arguments)` without NumPy's warnings, which are set for each thread."""
    with np.errstate(all="ignore"):
        return function(block, *arguments)


def by_entry(function: Callable[..., Any], *answers: Any) -> Any:
    """`function` of some answers; named tuples and tuples entry by entry."""
    first = answers[0]
    if isinstance(first, tuple):
        entries = [by_entry(function, *entry) for entry in zip(*answers, strict=True)]
        return type(first)(*entries) if hasattr(first, "_fields") else tuple(entries)
    return function(*answers)


class LocalDesign(BlockDesign):
    """Rows of this process in one block per thread.

    Use it as a context: inside, BLAS runs on one thread per block.

    Parameters
    ----------
    X : array or CSR matrix, float64 or float32
        Its values are never copied, except small matrices that are hardly sparse; its column
        numbers are if they are 64-bit, or if most columns of a wide matrix are empty.
    positive : array of bool
        Which rows are positive.
    sample_weight : array, optional
        Positives count by weight; a row of weight zero is out.
    n_jobs : int, optional
        By default OMP_NUM_THREADS if set, else the cores this process may use.
    """

    def __init__(
        self,
        X: Matrix,
        positive: Mask,
        sample_weight: Array | None = None,
        *,
        n_jobs: int | None = None,
    ) -> None:
        X, self._columns, self._n_columns = *compact(X), int(X.shape[1])
        self.n_jobs = default_threads() if n_jobs is None else n_jobs
        super().__init__(blocks_of(X, positive, sample_weight, self.n_jobs))

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(len(self.blocks)) if len(self.blocks) > 1 else None
        hold_blas()
        return self

    def __exit__(self, *error: object) -> None:
        release_blas()
        if self._pool is not None:
            self._pool.shutdown()

    def widen(self, weights: Array) -> Array:
        if self._columns is None:
            return weights
        wide = np.zeros(self._n_columns)
        wide[self._columns] = weights
        return wide

    def narrow(self, weights: Array) -> Array:
        return weights if self._columns is None else weights[self._columns]

    def each(self, function: Any, *arguments: Any) -> list[Any]:
        check_cancelled()
        if len(self.blocks) == 1:  # asked a hundred times in a small fit
            return [function(self.blocks[0], *arguments)]
        assert self._pool is not None
        others = [
            self._pool.submit(quietly, function, block, *arguments) for block in self.blocks[1:]
        ]
        return [function(self.blocks[0], *arguments), *(other.result() for other in others)]


def default_threads() -> int:
    """OMP_NUM_THREADS, which joblib sets in its workers, or the cores of this process."""
    setting = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return int(setting) if setting.isdigit() and int(setting) > 0 else int(cpu_count())


def compact(X: Matrix) -> tuple[Matrix, Where | None]:
    """X stored so that it is quicker to read, and the columns that are kept if not all.

    A small matrix that is hardly sparse becomes dense. Very wide data lose their empty columns:
    vectors of 3 million features of which 34,000 occur would cost more than the data. Column
    numbers become 32-bit where they fit: a third less to read per product.
    """
    if not sparse.issparse(X):
        return X, None
    n_rows, n_columns = X.shape
    if n_rows * n_columns <= SMALL and X.nnz >= HARDLY_SPARSE * n_rows * n_columns:
        return X.toarray(), None
    if n_columns > max(WIDE, 2 * n_rows):
        used = np.zeros(n_columns, bool)
        used[X.indices] = True
        used[0] |= not used.any()
        columns = np.flatnonzero(used)
        if len(columns) < 0.8 * n_columns:
            places = np.zeros(n_columns, np.int32)
            places[columns] = np.arange(len(columns), dtype=np.int32)
            return _with_indices(X, places[X.indices], len(columns)), columns
    return narrow_indices(X), None


def narrow_indices(X: Matrix) -> Matrix:
    """The same CSR matrix with 32-bit column numbers where they fit."""
    limit = np.iinfo(np.int32).max
    if not sparse.issparse(X) or X.indices.dtype == np.int32 or max(X.shape[1], X.nnz) > limit:
        return X
    return _with_indices(X, X.indices.astype(np.int32), int(X.shape[1]))


def _with_indices(X: Matrix, indices: NDArray[np.int32], n_columns: int) -> Matrix:
    """X with other column numbers; the values are shared."""
    matrix = sparse.csr_array((X.shape[0], n_columns), dtype=X.dtype)
    fits = len(X.data) <= np.iinfo(np.int32).max
    matrix.data, matrix.indices = X.data, indices if fits else indices.astype(np.int64)
    matrix.indptr = X.indptr.astype(matrix.indices.dtype, copy=False)
    return matrix


@cache
def _blas() -> ThreadpoolController:
    """Found once: the search for loaded libraries takes longer than a small fit."""
    return ThreadpoolController()


# Designs of several threads may be open at once, and the limit belongs to the process: the first
# one sets it, the last one restores what was there.
_holding = RLock()  # a garbage collection may release while this thread holds it
_holders: list[Any] = []


def hold_blas(n_jobs: int = 1) -> None:
    """Let BLAS use `n_jobs` threads, unless an open design has set another number."""
    with _holding:
        _holders.append(None if _holders else _blas().limit(limits=n_jobs))


def release_blas() -> None:
    """End one call of `hold_blas`; the last one restores the earlier number."""
    with _holding:
        limit = _holders[0]
        _holders.pop()
        if not _holders:
            limit.restore_original_limits()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread over several designs.

    To be entered before threads that open designs of their own: a limit that is set and
    restored in such threads slowed OpenBLAS down by 3x.
    """
    hold_blas()
    try:
        yield
    finally:
        release_blas()


def ranges(X: Matrix, n_jobs: int) -> list[tuple[int, int]]:
    """Row ranges of about equal numbers of stored entries."""
    n_rows = X.shape[0]
    n_entries = len(X.data) if sparse.issparse(X) else X.size
    n_blocks = max(1, min(n_jobs, n_rows, n_entries // ENTRIES_PER_THREAD))
    goals = np.linspace(0, n_entries if sparse.issparse(X) else n_rows, n_blocks + 1)[1:-1]
    inner = np.searchsorted(X.indptr, goals) if sparse.issparse(X) else goals
    cuts = [0, *(int(cut) for cut in inner), n_rows]
    return [(start, stop) for start, stop in pairwise(cuts) if stop > start]


def blocks_of(X: Matrix, positive: Mask, sample_weight: Array | None, n_blocks: int) -> list[Block]:
    """The rows in at most `n_blocks` blocks, in fewer if the rows are few."""
    return [
        Block(
            rows_of(X, start, stop),
            positive[start:stop],
            None if sample_weight is None else sample_weight[start:stop],
        )
        for start, stop in ranges(X, n_blocks) or [(0, 0)]
    ]


def rows_of(
    X: Matrix, start: int = 0, stop: int | None = None, *, tally: ReadTally | None = None
) -> Rows:
    """Rows start to stop of an array or a CSR matrix, without a copy."""
    if sparse.issparse(X):
        return SparseRows(X, start, stop, tally)
    return DenseRows(X[start:stop], tally)


def well_scaled(X: Matrix) -> tuple[Matrix, Scaling]:
    """Rows in float64, neither huge nor tiny nor far from zero, and how they were scaled.

    The scale is a power of two, which costs no digit; only columns that lie so far from zero that
    the shift is exact are centred. X is read twice, and copied only if it must change.
    """
    if sparse.issparse(X):
        rows: DenseRows | SparseRows = SparseRows(X)
        scaling = Scaling(power_of_two(rows.largest()))
    else:
        rows, scaling = DenseRows(X), dense_scaling(X)
    if not (scaling.is_identity and rows.is_double):
        rows = rows.rescaled(scaling)
    return rows.matrix(), scaling


def dense_scaling(X: NDArray[np.floating]) -> Scaling:
    """The scaling that centres columns far from zero and makes entries of a usual size."""
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    middle = 0.5 * low + 0.5 * high
    far_off = np.abs(middle) > FAR_OFF * (high - low)
    centre: Array = np.where(far_off, middle, 0.0)
    scale = power_of_two(largest_entry(np.stack([low - centre, high - centre])))
    return Scaling(scale, scale * centre if far_off.any() else None)


def power_of_two(largest: float) -> float:
    """The power of two that brings the largest entry to between 1/2 and 1.

    1 if that entry is from 2^-32 to 2^32, where nothing is near overflow, or if all are zero.
    """
    if not largest or 1.0 / USUAL <= largest <= USUAL:
        return 1.0
    return float(np.ldexp(1.0, -int(np.frexp(largest)[1])))
