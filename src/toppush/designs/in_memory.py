"""Rows of dense arrays and of CSR matrices in this process."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from toppush.designs import grams
from toppush.designs.arrays import NUMPY
from toppush.designs.rows import ReadTally, Rows, Scaling, gram_by_parts
from toppush.matrices import dense
from toppush.types import Array, Matrix, Where

SINGLE_ROWS, SHORT_ROWS = 1 << 13, 1 << 8
"""Rows per float32 product, sparse and dense; the partial sums are added in float64."""
PART_ROWS = 1 << 16
"""Dense rows whose partial sums are held at once."""
USED_ROWS, USED_ENTRIES = 0.25, 1 << 16
"""Share of the entries below which X'u copies the rows whose u is not zero, and the least part."""
GRAM_ENTRIES = 200_000
"""Entries of a part of a Gram matrix: 1.6 MB. Ten times more took 3x as long on nslkdd."""
PART_ENTRIES = 1 << 16
"""Entries of a part of the rows that is scaled: 512 KB in float64."""


class DenseRows(Rows):
    """Rows of a dense array; a memory map is read through, never loaded."""

    arrays, can_center = NUMPY, True

    def __init__(self, X: NDArray[Any], tally: ReadTally | None = None) -> None:
        self.X, self.is_double = X, X.dtype == np.float64
        self.shape: tuple[int, int] = X.shape
        self.n_entries = X.size
        self.tally = ReadTally() if tally is None else tally

    def scores(self, weights: Array) -> Array:
        self.tally.entries += self.n_entries
        return np.asarray(self.X @ weights.astype(self.X.dtype, copy=False), np.float64)

    def combine(self, coefficients: Array) -> Array:
        """X' u; float32 rows are summed a few hundred at a time."""
        self.tally.entries += self.n_entries
        if self.X.dtype == np.float64:
            return np.asarray(coefficients @ self.X)
        total = np.zeros(self.shape[1])
        for start in range(0, self.shape[0], PART_ROWS):
            part = slice(start, start + PART_ROWS)
            total += _in_short_sums(coefficients[part].astype(self.X.dtype), self.X[part])
        return total

    def gram(self, where: Where, scale: Array) -> tuple[Array, Array]:
        self.tally.entries += len(where) * self.shape[1]
        return gram_by_parts(
            lambda part: self.X[where[part]].astype(np.float64, copy=False),
            scale,
            self.shape[1],
            GRAM_ENTRIES,
        )

    def subset(self, where: Where) -> Self:
        self.tally.entries += len(where) * self.shape[1]
        return type(self)(self.X[where], self.tally)

    def stacked(self, *others: Self) -> Self:
        return type(self)(np.vstack([self.X, *(other.X for other in others)]), self.tally)

    def rescaled(self, scaling: Scaling) -> Self:
        values = self.X.astype(np.float64)
        values *= scaling.scale
        if scaling.centre is not None:
            values -= scaling.centre
        return type(self)(values, self.tally)

    def parts(self) -> Iterator[tuple[slice, Self]]:
        step = max(PART_ENTRIES // max(self.shape[1], 1), 1)
        for start in range(0, self.shape[0], step):
            where = slice(start, start + step)
            yield where, type(self)(self.X[where], self.tally)

    def squared(self) -> Self:
        return type(self)(np.square(self.X), self.tally)

    def count_entries(self, where: Where) -> int:
        return len(where) * self.shape[1]

    def squared_norms(self) -> Array:
        norms: Array = np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64)
        return norms

    def largest(self) -> float:
        return largest_entry(self.X)

    def matrix(self) -> Array:
        """The rows as a float64 array."""
        return self.X.astype(np.float64, copy=False)

    def exact(self) -> "MatrixRows":
        return MatrixRows(self.matrix())


class SparseRows(Rows):
    """Rows start to stop of a CSR matrix as a view, with the transpose as further views.

    The views are filled by hand: SciPy's constructors copy a slice that is under half its
    base, and `.T` of a view copies on every call.
    """

    arrays, can_center = NUMPY, False

    def __init__(
        self,
        X: sparse.csr_array,
        start: int = 0,
        stop: int | None = None,
        tally: ReadTally | None = None,
    ) -> None:
        stop = X.shape[0] if stop is None else stop
        self.shape = (stop - start, int(X.shape[1]))
        self._rows, self.is_double = _row_view(X, start, stop), X.dtype == np.float64
        self._columns = [(0, _transpose_view(self._rows))]
        self.n_entries = len(self._rows.data)
        self.tally = ReadTally() if tally is None else tally
        if X.dtype == np.float32:
            # A part pays for the d sums it starts from once it holds four entries to each.
            per_row = max(self.n_entries / max(stop - start, 1), 1.0)
            step = max(SINGLE_ROWS, int(4 * X.shape[1] / per_row))
            self._columns = [
                (part - start, _transpose_view(_row_view(X, part, min(part + step, stop))))
                for part in range(start, stop, step)
            ]

    def scores(self, weights: Array) -> Array:
        self.tally.entries += self.n_entries
        product = self._rows @ weights.astype(self._rows.dtype, copy=False)
        return np.asarray(product, np.float64)

    def combine(self, coefficients: Array) -> Array:
        """X' u; float32 rows are summed a part at a time, and rows of coefficient zero not read."""
        coefficients = coefficients.astype(self._rows.dtype, copy=False)
        used = np.flatnonzero(coefficients != 0.0)  # the mask makes it four times faster
        n_used = self.count_entries(used) if len(used) < USED_ROWS * self.shape[0] else np.inf
        if n_used < USED_ROWS * self.n_entries:
            return self._combine_some(used, int(n_used), coefficients)
        self.tally.entries += self.n_entries
        if len(self._columns) == 1:
            return np.asarray(self._columns[0][1] @ coefficients, np.float64)
        total = np.zeros(self.shape[1])
        for first, columns in self._columns:
            total += columns @ coefficients[first : first + columns.shape[1]]
        return total

    def _combine_some(self, used: Where, n_used: int, coefficients: Array) -> Array:
        """X' u over the rows with a coefficient, copied a part at a time."""
        self.tally.entries += n_used
        total, most = np.zeros(self.shape[1]), max(*self.shape, USED_ENTRIES)
        n_parts = max(1, -(-n_used // most))
        if self._rows.dtype == np.float32:
            n_parts = max(n_parts, -(-len(used) // SINGLE_ROWS))
        for part in np.array_split(used, n_parts):
            total += _transpose_view(self._rows[part]) @ coefficients[part]
        return total

    def gram(self, where: Where, scale: Array) -> tuple[Array, Array]:
        """X' diag(scale) X and X' scale over some of the rows, by the cheapest way."""
        rows = self.subset(where).matrix()
        return grams.gram(rows, scale), np.asarray(_transpose_view(rows) @ scale)

    def gram_again(self, where: Where, scale: Array) -> Array:
        if self._pairs is None or len(where) < USED_ROWS * self.shape[0]:
            return self.gram(where, scale)[0]
        known, weights = where < len(self._pairs), np.zeros(len(self._pairs))
        weights[where[known]] = scale[known]
        self.tally.entries += self.count_entries(where[known])
        gram = self._pairs.gram(weights)
        return gram if known.all() else gram + self.gram(where[~known], scale[~known])[0]

    @cached_property
    def _pairs(self) -> grams.PairProducts | None:
        """Products of the entries in each of the first rows, if keeping them pays."""
        return grams.kept_of(self.matrix())

    def subset(self, where: Where) -> Self:
        copy = type(self)(self._rows[where], tally=self.tally)
        self.tally.entries += copy.n_entries
        return copy

    def stacked(self, *others: Self) -> Self:
        parts = [self._rows, *(other._rows for other in others)]
        whole = type(self)(sparse.vstack(parts, format="csr"), tally=self.tally)
        if (known := vars(self).get("_pairs")) is not None:
            whole._pairs = grams.kept_of(whole.matrix(), known)
        return whole

    def rescaled(self, scaling: Scaling) -> Self:
        """A scaled copy in float64; there is no centre."""
        values = self._rows.data.astype(np.float64)
        values *= scaling.scale
        return type(self)(_with_values(self._rows, values), tally=self.tally)

    def parts(self) -> Iterator[tuple[slice, Self]]:
        """All rows, a few at a time; a part pays for the d sums that it starts from."""
        pointers, n_rows = self._rows.indptr, self.shape[0]
        step, start = max(PART_ENTRIES, 4 * self.shape[1]), 0
        while start < n_rows:
            stop = int(np.searchsorted(pointers, pointers[start] + step, side="right")) - 1
            stop = min(max(stop, start + 1), n_rows)
            yield slice(start, stop), type(self)(self._rows, start, stop, self.tally)
            start = stop

    def squared(self) -> Self:
        """A copy of the values alone, and of none if every entry is 0 or 1."""
        rows = self._summed()
        squares = np.square(rows.data)
        if np.array_equal(squares, rows.data):
            return self
        return type(self)(_with_values(rows, squares), tally=self.tally)

    def _summed(self) -> sparse.csr_array:
        """The rows with what is stored for one entry added up."""
        if self._rows.has_canonical_format:
            return self._rows
        copy = self._rows.copy()
        copy.sum_duplicates()
        return copy

    def count_entries(self, where: Where) -> int:
        pointers = self._rows.indptr
        return int((pointers[where + 1] - pointers[where]).sum())

    def squared_norms(self) -> Array:
        rows = self._summed()
        squares = _with_values(rows, np.square(rows.data, dtype=np.float64))
        return np.asarray(squares @ np.ones(self.shape[1]))

    def largest(self) -> float:
        return largest_entry(self._rows.data)

    def matrix(self) -> sparse.csr_array:
        """The rows as a float64 CSR matrix."""
        return self._rows.astype(np.float64, copy=False)

    def exact(self) -> "MatrixRows":
        return MatrixRows(self.matrix())


class MatrixRows:
    """Rows as a float64 array or CSR matrix."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix, self._columns = matrix, matrix.T
        self.shape: tuple[int, int] = matrix.shape

    def scores(self, weights: Array) -> Array:
        return np.asarray(self._matrix @ weights)

    def combine(self, coefficients: Array) -> Array:
        return np.asarray(self._columns @ coefficients)

    def subset(self, where: Where) -> "MatrixRows":
        return MatrixRows(self._matrix[where])

    def stacked(self, *others: "MatrixRows") -> "MatrixRows":
        parts = [self._matrix, *(other._matrix for other in others)]
        if sparse.issparse(self._matrix):
            return MatrixRows(sparse.vstack(parts, format="csr"))
        return MatrixRows(np.vstack(parts))

    def scaled(self, columns: Array) -> "MatrixRows":
        if not sparse.issparse(self._matrix):
            return MatrixRows(self._matrix * columns)
        values = self._matrix.data * columns[self._matrix.indices]
        return MatrixRows(_with_values(self._matrix, values))

    def inner_products(self, other: "MatrixRows") -> Array:
        return np.asarray(dense(self._matrix @ other._columns))

    def dense(self) -> Array:
        return np.asarray(dense(self._matrix))


def largest_entry(values: NDArray[Any]) -> float:
    """Greatest magnitude of a number, 0 if there is none."""
    return max(float(values.max()), -float(values.min())) if values.size else 0.0


def _in_short_sums(coefficients: Array, X: Array) -> Array:
    """X' u in float64 from sums in float32 of few rows: as fast as long ones, and closer."""
    n_whole, n_features = len(X) // SHORT_ROWS * SHORT_ROWS, X.shape[1]
    heads = coefficients[:n_whole].reshape(-1, 1, SHORT_ROWS)
    sums = heads @ X[:n_whole].reshape(-1, SHORT_ROWS, n_features)
    total: Array = sums.sum(axis=(0, 1), dtype=np.float64)
    return total + coefficients[n_whole:] @ X[n_whole:]


def _row_view(X: sparse.csr_array, start: int, stop: int) -> sparse.csr_array:
    """Rows start to stop of X; only the row pointers are new, and not even those from row 0."""
    first, last = X.indptr[start], X.indptr[stop]
    view = sparse.csr_array((stop - start, X.shape[1]), dtype=X.dtype)
    view.data, view.indices = X.data[first:last], X.indices[first:last]
    pointers = X.indptr[start : stop + 1]
    view.indptr = (pointers - first if first else pointers).astype(X.indices.dtype, copy=False)
    return view


def _with_values(rows: sparse.csr_array, values: NDArray[Any]) -> sparse.csr_array:
    """Rows that share all but the values."""
    copy = sparse.csr_array(rows.shape, dtype=values.dtype)
    copy.data, copy.indices, copy.indptr = values, rows.indices, rows.indptr
    return copy


def _transpose_view(rows: sparse.csr_array) -> sparse.csc_array:
    view = sparse.csc_array(rows.shape[::-1], dtype=rows.dtype)
    view.data, view.indices, view.indptr = rows.data, rows.indices, rows.indptr
    return view
