"""Rows that lie between two others: some columns of the one, all others of the other."""

import numpy as np
from scipy import sparse

from toppush.types import Array, Matrix, Where


def sliceable(rows: Matrix) -> Matrix:
    """An array, or a CSR array, of which rows can be taken."""
    return sparse.csr_array(rows) if sparse.issparse(rows) else np.asarray(rows)


def between(start: Array, end: Array, order: Where, like: Matrix) -> Matrix:
    """From one row to another, column after column: what comes after each step but the last.

    Sparse if `like` is; then only columns in which either row has an entry are looked at.
    """
    if not sparse.issparse(like):
        return _between(start, end, order)
    stored = np.flatnonzero((start != 0) | (end != 0))
    few = _between(start[stored], end[stored], np.searchsorted(stored, order))
    found = sparse.csr_array(few)
    parts = (found.data, stored[found.indices], found.indptr)
    return sparse.csr_array(parts, shape=(len(few), len(start)))


def _between(start: Array, end: Array, order: Where) -> Array:
    n_rows = max(len(order) - 1, 0)
    found = np.repeat(start[None, :], n_rows, axis=0)
    gone_over = np.tri(n_rows, len(order), dtype=bool)
    found[:, order] = np.where(gone_over, end[order], start[order])
    return found


def stacked(parts: list[Matrix]) -> Matrix:
    """The rows of several arrays, or of several sparse ones."""
    if sparse.issparse(parts[0]):
        return sparse.csr_array(sparse.vstack(parts, format="csr"))
    return np.concatenate(parts)
