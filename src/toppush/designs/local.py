"""Row blocks of arrays in this process, asked by a pool of threads."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, reduce
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import ThreadpoolController

from toppush.designs.blocks import Block, DenseRows, Rows, SparseRows
from toppush.losses import Array

Matrix = Any
"""A dense array or a CSR matrix."""

ENTRIES_PER_THREAD = 1 << 18
"""Below this many stored entries a second thread costs more than it saves."""


class LocalDesign:
    """Rows of this process in one block per thread.

    Use it as a context: inside, BLAS runs on one thread per block.

    Parameters
    ----------
    X : array or CSR matrix, float64 or float32
        Never copied, except that 64-bit indices are narrowed to 32 bits where they fit.
    positive : array of bool
        Which rows are positive.
    sample_weight : array, optional
        Positives count by weight; a row of weight zero is out.
    n_threads : int, optional
        By default OMP_NUM_THREADS if set, else the cores this process may use.
    """

    def __init__(
        self,
        X: Matrix,
        positive: NDArray[np.bool_],
        sample_weight: Array | None = None,
        *,
        n_threads: int | None = None,
    ) -> None:
        X = narrow_indices(X)
        self.n_features = int(X.shape[1])
        self.n_threads = default_threads() if n_threads is None else n_threads
        self.blocks = [
            Block(
                _rows(X, start, stop),
                positive[start:stop],
                None if sample_weight is None else sample_weight[start:stop],
            )
            for start, stop in _ranges(X, self.n_threads)
        ]
        self.n_pos = sum(block.n_pos for block in self.blocks)
        self.n_neg = sum(block.n_neg for block in self.blocks)
        self.total_cost = sum(block.total_cost for block in self.blocks)

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(len(self.blocks)) if len(self.blocks) > 1 else None
        self._limits = _blas().limit(limits=1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._limits.restore_original_limits()
        if self._pool is not None:
            self._pool.shutdown()

    def each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """`function(block, *arguments)` of every block, in the order of the rows."""
        if len(self.blocks) == 1:
            return [function(self.blocks[0], *arguments)]
        assert self._pool is not None
        others = [self._pool.submit(function, block, *arguments) for block in self.blocks[1:]]
        return [function(self.blocks[0], *arguments), *(other.result() for other in others)]

    def sum(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The blocks' answers added up in a fixed order; tuples entry by entry."""
        return reduce(add, self.each(function, *arguments))

    def max(self, function: Callable[..., Any], *arguments: Any) -> tuple[float, ...]:
        """The greatest of each entry of the blocks' answers."""
        answers: Iterable[tuple[float, ...]] = zip(*self.each(function, *arguments), strict=True)
        return tuple(max(entry) for entry in answers)

    def scatter(self, function: Callable[..., Any], vector: Array) -> None:
        """`function(block, its part)` of a vector over all rows."""
        first = 0
        for block in self.blocks:
            last = first + block.rows.shape[0]
            function(block, vector[first:last])
            first = last

    def gather(self, function: Callable[..., Any]) -> Array:
        """The blocks' vectors over their rows as one over all rows."""
        return np.concatenate(self.each(function))


def add(one: Any, other: Any) -> Any:
    """Sum of two answers; named tuples and tuples entry by entry."""
    if isinstance(one, tuple):
        entries = [add(mine, yours) for mine, yours in zip(one, other, strict=True)]
        return type(one)(*entries) if hasattr(one, "_fields") else tuple(entries)
    return one + other


def default_threads() -> int:
    """OMP_NUM_THREADS, which joblib sets in its workers, or the cores of this process."""
    setting = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return int(setting) if setting.isdigit() and int(setting) > 0 else int(cpu_count())


def narrow_indices(X: Matrix) -> Matrix:
    """The same matrix with 32-bit indices where they fit: a third less to read per product."""
    if not sparse.issparse(X):
        return X
    limit = np.iinfo(np.int32).max
    if X.indices.dtype == np.int32 or max(X.shape[1], len(X.data)) > limit:
        return X
    narrow = sparse.csr_array(X.shape, dtype=X.dtype)
    narrow.data, narrow.indices = X.data, X.indices.astype(np.int32)
    narrow.indptr = X.indptr.astype(np.int32)
    return narrow


@cache
def _blas() -> ThreadpoolController:
    """Found once: the search for loaded libraries takes longer than a small fit."""
    return ThreadpoolController()


def _ranges(X: Matrix, n_threads: int) -> list[tuple[int, int]]:
    """Row ranges of about equal numbers of stored entries."""
    n_rows = X.shape[0]
    n_entries = len(X.data) if sparse.issparse(X) else X.size
    n_blocks = max(1, min(n_threads, n_rows, n_entries // ENTRIES_PER_THREAD))
    goals = np.linspace(0, n_entries if sparse.issparse(X) else n_rows, n_blocks + 1)[1:-1]
    inner = np.searchsorted(X.indptr, goals) if sparse.issparse(X) else goals
    cuts = [0, *(int(cut) for cut in inner), n_rows]
    return [(start, stop) for start, stop in pairwise(cuts) if stop > start]


def _rows(X: Matrix, start: int, stop: int) -> Rows:
    return SparseRows(X, start, stop) if sparse.issparse(X) else DenseRows(X[start:stop])
