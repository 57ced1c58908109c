"""Functions that treat arrays and sparse matrices alike."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from toppush.types import Array, Matrix, Where


def is_sparse(X: Matrix) -> bool:
    """Whether X is a sparse matrix, in which a shift of all rows would store every entry."""
    return bool(sparse.issparse(X))


def entries_per_row(X: Matrix) -> float:
    """Stored entries of a row, on average and at least 1."""
    stored = X.nnz if sparse.issparse(X) else X.size
    return max(float(stored) / max(int(X.shape[0]), 1), 1.0)


def stored(X: Matrix) -> Array:
    """The entries that are stored: all of an array."""
    return np.asarray(X.data if sparse.issparse(X) else X)


def is_thin(X: Matrix, share: float) -> bool:
    """Whether rows are sparse and at most a share of their entries is not zero."""
    return bool(sparse.issparse(X) and X.nnz <= share * X.shape[0] * X.shape[1])


def times(X: Matrix, factor: Array) -> Matrix:
    """Each column by its factor."""
    return X @ sparse.diags_array(factor) if sparse.issparse(X) else X * factor


def in_single(X: Matrix) -> Matrix:
    """Rows in single precision."""
    entries = stored(X).astype(np.float32)
    if not sparse.issparse(X):
        return entries
    return sparse.csr_matrix((entries, X.indices, X.indptr), shape=X.shape)


def column_sizes(X: Matrix) -> Array:
    """Greatest magnitude in each column, missing values aside."""
    sizes = np.zeros(X.shape[1])
    if sparse.issparse(X):
        np.fmax.at(sizes, X.indices, np.abs(X.data))
        return sizes
    rows = np.asarray(X)
    if not len(rows):
        return sizes
    ends = [end.reduce(rows, axis=0).astype(np.float64) for end in (np.fmax, np.fmin)]
    return np.asarray(np.fmax(sizes, np.fmax(ends[0], -ends[1])))


def dense(X: Matrix) -> Matrix:
    """An array as it is, and a sparse matrix of few rows as an array."""
    return X.toarray() if sparse.issparse(X) else X


def for_engine(X: Matrix) -> Matrix:
    """As engines of boosted trees take rows: an array as it is, a sparse array as a matrix."""
    return sparse.csr_matrix(X) if sparse.issparse(X) else X


def common_columns(X: Matrix, least: int) -> Where | None:
    """Columns of a sparse matrix in which at least `least` rows have an entry; None of an array."""
    if not sparse.issparse(X):
        return None
    return np.flatnonzero(np.bincount(X.indices, minlength=X.shape[1]) >= least)


def sliceable(rows: Matrix) -> Matrix:
    """An array, or a CSR array, of which rows can be taken."""
    return sparse.csr_array(rows) if sparse.issparse(rows) else np.asarray(rows)


def stacked(parts: list[Matrix]) -> Matrix:
    """The rows of several arrays, or of several sparse ones."""
    if sparse.issparse(parts[0]):
        return sparse.csr_array(sparse.vstack(parts, format="csr"))
    return np.concatenate(parts)


class ColumnValues(NamedTuple):
    """Distinct values of a column, the weight of each, and whether some are missing."""

    values: Array
    mass: Array
    missing: bool

    @classmethod
    def of(cls, stored: Array, weight: Array, n_zeros: int, zeros: float) -> "ColumnValues":
        """Of entries with their weights, and of zeros that are not stored."""
        known = ~np.isnan(stored)
        values, where = np.unique(stored[known], return_inverse=True)
        mass = np.zeros(len(values)) + np.bincount(where, weight[known], minlength=len(values))
        if n_zeros:
            at = int(np.searchsorted(values, 0.0))
            if at == len(values) or values[at] != 0.0:
                values, mass = np.insert(values, at, 0.0), np.insert(mass, at, 0.0)
            mass[at] += zeros
        return cls(values, mass, not known.all())


class ColumnReader:
    """Column after column of an array or a sparse matrix."""

    def __init__(self, X: Matrix) -> None:
        self._n_rows, self._X = X.shape[0], X
        self._sparse: Any = sparse.csc_array(X) if sparse.issparse(X) else None
        if self._sparse is not None:
            self._sparse.sum_duplicates()

    def entries(self, column: int, *, skip_zeros: bool) -> tuple[Where, Array]:
        """Rows and their values; zeros that are not stored may be left out."""
        if self._sparse is None:
            return np.arange(self._n_rows), np.asarray(self._X[:, column])
        rows, stored = self._stored(column)
        if skip_zeros:
            return rows, stored
        values = np.zeros(self._n_rows)
        values[rows] = stored
        return np.arange(self._n_rows), values

    def values(self, column: int, weight: Array) -> ColumnValues:
        """The distinct values of a column and their weights."""
        if self._sparse is None:
            return ColumnValues.of(self._X[:, column], weight, 0, 0.0)
        rows, stored = self._stored(column)
        return ColumnValues.of(
            stored,
            weight[rows],
            self._n_rows - len(rows),
            float(weight.sum() - weight[rows].sum()),
        )

    def _stored(self, column: int) -> tuple[Where, Array]:
        part = slice(*self._sparse.indptr[column : column + 2])
        return self._sparse.indices[part], self._sparse.data[part]
