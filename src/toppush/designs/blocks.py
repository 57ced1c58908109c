"""Rows where they live: a block holds some rows and everything of row length.

A block answers with d-vectors and numbers, so whoever asks never sees how many rows there
are, whether they are sparse, or on which machine. Products are float64 whatever the rows are.
"""

from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from toppush.losses import Array

SINGLE_ROWS = 1 << 13
"""Rows per float32 product; the partial sums are added in float64."""


class Rows(Protocol):
    """A range of rows of X, not copied."""

    shape: tuple[int, int]

    def scores(self, weights: Array) -> Array:
        """X w."""

    def combine(self, coefficients: Array) -> Array:
        """X' u."""


class DenseRows:
    """Rows of a dense array; a memory map is read through, never loaded."""

    def __init__(self, X: NDArray[Any]) -> None:
        self.X = X
        self.shape = X.shape

    def scores(self, weights: Array) -> Array:
        """X w."""
        return np.asarray(self.X @ weights.astype(self.X.dtype, copy=False), np.float64)

    def combine(self, coefficients: Array) -> Array:
        """X' u; float32 rows are summed a few thousand at a time."""
        if self.X.dtype == np.float64:
            return np.asarray(coefficients @ self.X)
        total = np.zeros(self.shape[1])
        for start in range(0, self.shape[0], SINGLE_ROWS):
            part = slice(start, start + SINGLE_ROWS)
            total += coefficients[part].astype(self.X.dtype) @ self.X[part]
        return total


class SparseRows:
    """Rows of a CSR matrix as a view, with the transpose as further views.

    The views are filled by hand: SciPy's constructors copy a slice that is under half its
    base, and `.T` of a view copies on every call.
    """

    def __init__(self, X: sparse.csr_array, start: int, stop: int) -> None:
        self.shape = (stop - start, int(X.shape[1]))
        self._rows = _row_view(X, start, stop)
        self._columns = [(0, _transpose_view(self._rows))]
        if X.dtype == np.float32:
            # A part pays for the d sums it starts from once it holds four entries to each.
            per_row = max(len(self._rows.data) / max(stop - start, 1), 1.0)
            step = max(SINGLE_ROWS, int(4 * X.shape[1] / per_row))
            self._columns = [
                (part - start, _transpose_view(_row_view(X, part, min(part + step, stop))))
                for part in range(start, stop, step)
            ]

    def scores(self, weights: Array) -> Array:
        """X w."""
        product = self._rows @ weights.astype(self._rows.dtype, copy=False)
        return np.asarray(product, np.float64)

    def combine(self, coefficients: Array) -> Array:
        """X' u; float32 rows are summed a part at a time."""
        coefficients = coefficients.astype(self._rows.dtype, copy=False)
        total = np.zeros(self.shape[1])
        for first, columns in self._columns:
            total += columns @ coefficients[first : first + columns.shape[1]]
        return total


def _row_view(X: sparse.csr_array, start: int, stop: int) -> sparse.csr_array:
    """Rows start to stop of X; only the row pointers are new, and not even those from row 0."""
    first, last = X.indptr[start], X.indptr[stop]
    view = sparse.csr_array((stop - start, X.shape[1]), dtype=X.dtype)
    view.data, view.indices = X.data[first:last], X.indices[first:last]
    pointers = X.indptr[start : stop + 1]
    view.indptr = (pointers - first if first else pointers).astype(X.indices.dtype, copy=False)
    return view


def _transpose_view(rows: sparse.csr_array) -> sparse.csc_array:
    view = sparse.csc_array(rows.shape[::-1], dtype=rows.dtype)
    view.data, view.indices, view.indptr = rows.data, rows.indices, rows.indptr
    return view


class Block:
    """Some rows, which of them are positive or negative, and what solvers keep per row.

    Attributes
    ----------
    rows : Rows
    cost : array
        Weight of each positive's loss.
    scores : (Array, Array)
        Scores of the positives and of the negatives, set by `score`.
    state : SimpleNamespace
        Row-length vectors of the solver at work.
    """

    def __init__(
        self,
        rows: Rows,
        positive: NDArray[np.bool_],
        sample_weight: Array | None = None,
    ) -> None:
        kept = positive, ~positive
        self.rows = rows
        self.cost: Array = np.broadcast_to(1.0, int(positive.sum()))
        if sample_weight is not None:
            kept = positive & (sample_weight > 0), ~positive & (sample_weight > 0)
            self.cost = sample_weight[kept[0]]
        self._where = tuple(_indices(side) for side in kept)
        self.state = SimpleNamespace()
        self.scores: tuple[Array, Array] = (np.empty(0), np.empty(0))

    @property
    def n_pos(self) -> int:
        """Positives of weight above zero."""
        return len(self._where[0])

    @property
    def n_neg(self) -> int:
        """Negatives of weight above zero."""
        return len(self._where[1])

    @property
    def total_cost(self) -> float:
        """Sum of the positives' weights."""
        return float(self.cost.sum())

    def split(self, vector: Array) -> tuple[Array, Array]:
        """The positives' and the negatives' entries of a vector over all rows."""
        return vector[self._where[0]], vector[self._where[1]]

    def join(self, on_positives: Array | float, on_negatives: Array | float) -> Array:
        """A vector over all rows; rows of weight zero get 0."""
        vector = np.zeros(self.rows.shape[0])
        vector[self._where[0]] = on_positives
        vector[self._where[1]] = on_negatives
        return vector

    def push(self, on_positives: Array, on_negatives: Array) -> Array:
        """X+'a - X-'b."""
        signed = self.join(0.0, on_negatives)
        np.negative(signed, out=signed)
        signed[self._where[0]] = on_positives
        return self.rows.combine(signed)

    def score(self, weights: Array) -> None:
        """Score every row and keep the scores."""
        self.scores = self.split(self.rows.scores(weights))


def _indices(mask: NDArray[np.bool_]) -> NDArray[Any]:
    indices = np.flatnonzero(mask)
    return indices.astype(np.int32) if mask.size < np.iinfo(np.int32).max else indices
