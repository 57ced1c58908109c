"""Rows that repeat, read once: half of w8a's rows do."""

import numpy as np
from scipy import sparse

from toppush.types import Array, Mask, Matrix, Where

WORTH = 0.9
"""Rows are merged if at most this share remains: to find out takes two reads of the data."""


def merge_repeats(
    X: Matrix, positive: Mask, weight: Array | None
) -> tuple[Matrix, Mask, Array | None]:
    """Equal CSR rows of one class as one, with the sum of their weights; the same sums over rows.

    Rows are equal if they store the same entries in the same order. What repeats little, or is
    no CSR matrix, comes back as it is.
    """
    if not sparse.issparse(X) or X.format != "csr":
        return X, positive, weight
    order, is_new = _in_groups(X, positive)
    if np.count_nonzero(is_new) > WORTH * len(order):
        return X, positive, weight
    first, group = order[is_new], np.cumsum(is_new) - 1
    each = None if weight is None else weight[order]
    return X[first], positive[first], np.bincount(group, each).astype(np.float64)


def _in_groups(X: Matrix, positive: Mask) -> tuple[Where, Mask]:
    """An order in which equal rows follow one another, and where others begin in it."""
    mark = X @ np.random.default_rng(0).normal(size=X.shape[1])  # equal for equal rows
    order = np.lexsort((mark, positive))
    is_new = np.ones(len(order), bool)
    length = np.diff(X.indptr)[order]
    mark, side = mark[order], positive[order]
    alike = (mark[1:] == mark[:-1]) & (side[1:] == side[:-1]) & (length[1:] == length[:-1])
    later = np.flatnonzero(alike) + 1
    if len(order) - len(later) <= WORTH * len(order):
        is_new[later] = ~_equal(X, order[later - 1], order[later])
    return order, is_new


def _equal(X: Matrix, some: Where, others: Where) -> Mask:
    """Whether rows store the same entries, those of a pair being as many."""
    length = np.diff(X.indptr)[some]
    pair = np.repeat(np.arange(len(some)), length)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(length) - length, length)
    here, there = X.indptr[some][pair] + within, X.indptr[others][pair] + within
    differ = (X.indices[here] != X.indices[there]) | (X.data[here] != X.data[there])
    n_differ = np.bincount(pair, differ, minlength=len(some))
    return np.asarray(n_differ == 0.0)
