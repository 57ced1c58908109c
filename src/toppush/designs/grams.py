"""X' diag(s) X of CSR rows: by the cheapest of three ways, or from stored products of pairs.

A row of c entries adds c^2 products. For rows that are needed with many s, such as the working set
of the Newton method, those products are made once, as columns of a matrix P with a row for each
entry of the result, and every further answer is one product P s.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from toppush.designs.rows import gram_by_parts
from toppush.system.threads import check_cancelled
from toppush.types import Array

DENSE, HALF_DENSE, SPARSE = (0.028, 2.0), (0.3, 1.5), (2.0, 20.0)
"""Nanoseconds, on one core of 2023: for each product of a dense square, and for each entry of its
dense rows; the same where one side stays sparse; for each product of sparse rows, and for each
entry of their result."""
PART_ENTRIES = 200_000
"""Entries of dense rows at a time: 1.6 MB. Ten times more took 3x as long on nslkdd."""
MOST_PAIRS = 1 << 22
"""Products that are kept, in 50 MB."""
KEPT = 4.5
"""Nanoseconds for each product that is kept, with its share of making it; the sum takes 1.5."""


def gram(rows: sparse.csr_array, scale: Array) -> Array:
    """X' diag(scale) X of float64 rows."""
    costs = _costs(rows)
    return min(costs, key=costs.__getitem__)(rows, scale)


def _costs(rows: sparse.csr_array) -> dict[Callable[[sparse.csr_array, Array], Array], float]:
    """Estimated nanoseconds of each way."""
    (n_rows, width), lengths = rows.shape, np.diff(rows.indptr).astype(np.float64)
    squares, n_dense = float(lengths @ lengths), n_rows * width
    return {
        _by_dense: DENSE[0] * n_dense * width + DENSE[1] * n_dense,
        _by_half_dense: HALF_DENSE[0] * rows.nnz * width + HALF_DENSE[1] * n_dense,
        _by_sparse: SPARSE[0] * squares + SPARSE[1] * min(squares, width**2),
    }


def _by_dense(rows: sparse.csr_array, scale: Array) -> Array:
    return gram_by_parts(lambda part: rows[part].toarray(), scale, rows.shape[1], PART_ENTRIES)[0]


def _by_half_dense(rows: sparse.csr_array, scale: Array) -> Array:
    n_rows, width = rows.shape
    total, step = np.zeros((width, width)), max(PART_ENTRIES // width, 64)
    for start in range(0, n_rows, step):
        check_cancelled()
        part = rows[start : start + step]
        total += part.T @ (part.toarray() * scale[start : start + step, None])
    return total


def _by_sparse(rows: sparse.csr_array, scale: Array) -> Array:
    scaled = sparse.csr_array(rows.shape)
    scaled.indices, scaled.indptr = rows.indices, rows.indptr
    scaled.data = rows.data * np.repeat(scale, np.diff(rows.indptr))
    return np.asarray((rows.T @ scaled).toarray(order="C"))


def kept_of(rows: sparse.csr_array, known: "PairProducts | None" = None) -> "PairProducts | None":
    """Products of as many of the first rows as fit into `MOST_PAIRS`, `known` being the first ones.

    None if rows are so full that it does not pay for about ten answers.
    """
    lengths, n_known = np.diff(rows.indptr).astype(np.float64), 0 if known is None else len(known)
    sums = np.cumsum(lengths * (lengths + 1.0)) / 2.0
    fits = rows.shape[1] ** 2 <= np.iinfo(np.int32).max
    if not (fits and len(sums) and KEPT * sums[-1] < min(_costs(rows).values())):
        return None
    n_kept = int(np.searchsorted(sums, MOST_PAIRS, side="right"))
    if known is None:
        return PairProducts.of(rows[:n_kept])
    return known.joined(PairProducts.of(rows[n_known:n_kept])) if n_kept > n_known else known


class PairProducts:
    """Products of every pair of entries in a row, kept for sums with any weights of the rows."""

    def __init__(self, width: int, stored: "_Stored", starts: NDArray[Any]) -> None:
        self._width, self._stored, self._starts = width, stored, starts

    def __len__(self) -> int:
        """Number of their rows."""
        return len(self._starts) - 1

    @classmethod
    def of(cls, rows: sparse.csr_array) -> "PairProducts":
        """Of float64 rows; about 10 ns for each pair, of which an answer takes 1.5."""
        lengths, width = np.diff(rows.indptr), rows.shape[1]
        entries = np.arange(rows.nnz)
        firsts = np.repeat(rows.indptr[:-1], lengths)
        partners = entries - firsts + 1  # each with those before it in its row, and with itself
        left = np.repeat(entries, partners)
        starts = np.append(0, np.cumsum(partners))
        right = np.arange(starts[-1]) - np.repeat(starts[:-1] - firsts, partners)
        values = rows.data[left] * rows.data[right]
        values[left == right] *= 0.5  # the sum is added to its transpose
        places = rows.indices[left].astype(np.int32) * np.int32(width) + rows.indices[right]
        return cls(width, _Stored(values, places), starts[rows.indptr])

    def joined(self, other: "PairProducts") -> "PairProducts":
        """The products of these rows and, after them, of others."""
        n_mine, n_theirs = int(self._starts[-1]), int(other._starts[-1])
        stored = self._stored.followed(n_mine, other._stored, n_theirs)
        starts = np.concatenate([self._starts, n_mine + other._starts[1:]])
        return PairProducts(self._width, stored, starts)

    def gram(self, scale: Array) -> Array:
        """X' diag(scale) X, with a scale for every row."""
        half: Array = (self._matrix() @ scale).reshape(self._width, self._width)
        return half + half.T

    def _matrix(self) -> sparse.csc_array:
        """A column for each row; SciPy's constructor would check its parts."""
        count, stored = int(self._starts[-1]), self._stored
        matrix = sparse.csc_array((self._width**2, len(self)))
        matrix.data, matrix.indices = stored.values[:count], stored.places[:count]
        matrix.indptr = self._starts.astype(np.int32)
        return matrix


class _Stored:
    """Values and their places in arrays with room for more."""

    def __init__(self, values: Array, places: NDArray[Any]) -> None:
        self.values, self.places, self.used = values, places, len(values)

    def followed(self, n_mine: int, other: "_Stored", n_theirs: int) -> "_Stored":
        """The first of these and then those of another, in these arrays if there is room."""
        size, stored = n_mine + n_theirs, self
        if n_mine < self.used or size > len(self.values):
            stored = _Stored(np.empty(2 * size), np.empty(2 * size, self.places.dtype))
            stored.values[:n_mine] = self.values[:n_mine]
            stored.places[:n_mine] = self.places[:n_mine]
        stored.values[n_mine:size] = other.values[:n_theirs]
        stored.places[n_mine:size] = other.places[:n_theirs]
        stored.used = size
        return stored
