"""Contributions of columns to a score: exact for a weighted sum, Shapley values for any other.

A score f attributes f(x) - f(b) to the columns in which the row x differs from a background row b:
the columns are replaced by those of x one after the other, in some order, and each gets the change
of the score. Shapley's value is the mean of that over all orders. Here a few random orders are
used, each also reversed, which makes the value exact wherever at most two columns interact; the
contributions of every order add up to f(x) - f(b), however few orders there are.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing

from toppush.matrices import dense, is_sparse, sliceable, stacked
from toppush.types import Array, Mask, Matrix, Where

Score = Callable[[Matrix], Array]

BACKGROUND, FEWEST = 16, 2
"""Background rows, and their least number for wide rows."""
REFERENCE_ROWS, USUAL_ROWS = 1000, 200
"""Most rows whose mean contributions a fit stores: highest negatives, and all rows."""
STEPS = 20_000
"""Steps for a row, at most; a walk has one for each column in which two rows differ."""
NUMBERS = 1 << 21
"""Values of intermediate rows that are scored at a time, 16 MiB."""
PART_NUMBERS = 1 << 22
"""Contributions that are in memory at a time, 32 MiB."""


class Contributing(Protocol):
    """A ranker with contributions."""

    reference_: Array
    usual_: Array

    def contributions(self, X: Matrix) -> Array: ...
    def decision_function(self, X: Matrix) -> Array: ...


class Walk(NamedTuple):
    """A path from a background row to a row, column by column."""

    row: int
    order: Where
    """The columns in which the two rows differ, in the order in which they are replaced."""
    ends: tuple[float, float]
    """Scores of the background row and of the row."""
    between: Matrix
    """The rows in between."""

    def steps(self, scores: Array) -> Array:
        """Contribution of each column of the order, from the scores of the rows in between."""
        return np.diff(np.concatenate([self.ends[:1], scores, self.ends[1:]]))


def shapley(
    score: Score, rows: Matrix, background: Matrix, *, n_pairs: int = 1, seed: int = 0
) -> Array:
    """Contributions of each column to the scores of rows, by walks from background rows.

    A row is scored about 2 n_pairs n_background n_columns times; columns in which it equals the
    background row cost nothing. The contributions of a row do not depend on the other rows.

    Parameters
    ----------
    score : callable
        From rows to an array of shape (n_rows,).
    rows, background : array or sparse matrix of shape (n, n_columns)
        Rows to explain, and rows to compare them with, such as some of the training rows.
    n_pairs : int, default=1
        Orders for each background row; each is walked forwards and backwards.
    seed : int, default=0

    Returns
    -------
    array of shape (n_rows, n_columns + 1)
        Rows sum to their scores; the last column is the mean score of the background.
    """
    rows, background = sliceable(rows), sliceable(background)
    reached, begun = _scores(score, rows), _scores(score, background)
    result = np.zeros((rows.shape[0], rows.shape[1] + 1))
    result[:, -1] = begun.mean()
    weight = 1.0 / (2 * n_pairs * len(begun))
    for part in _parts(_walks(rows, background, reached, begun, n_pairs, seed)):
        scores = _scores(score, stacked([walk.between for walk in part]))
        ends = np.cumsum([walk.between.shape[0] for walk in part])
        for walk, between_scores in zip(part, np.split(scores, ends[:-1]), strict=True):
            result[walk.row, walk.order] += weight * walk.steps(between_scores)
    return result


def some_background(rows: Matrix, seed: int = 0) -> Matrix:
    """A random sample of background rows: 16, or fewer where rows are wide; dense."""
    n_rows, width = rows.shape
    return np.asarray(dense(sliceable(rows)[background_places(n_rows, width, seed)]), np.float64)


def background_places(n_rows: int, width: int, seed: int = 0) -> Where:
    """Row numbers of the background."""
    count = min(int(np.clip(STEPS // (2 * max(width, 1)), FEWEST, BACKGROUND)), n_rows)
    return np.sort(np.random.default_rng(seed).permutation(n_rows)[:count])


def linear_contributions(rows: Matrix, weights: Array, threshold: float) -> Array:
    """Weight times value for each column, then minus the threshold."""
    result = np.empty((rows.shape[0], len(weights) + 1))
    result[:, :-1] = dense(rows)
    result[:, :-1] *= weights
    result[:, -1] = -threshold
    return result


def highest_negatives(positive: Mask, scores: Array) -> Where:
    """The highest-ranked 1 % of the negatives, from 10 to `REFERENCE_ROWS`, best first.

    Rows without a score (NaN) are left out.
    """
    scores = np.asarray(scores, np.float64)
    known = np.flatnonzero(~np.asarray(positive, bool) & ~np.isnan(scores))
    count = int(np.clip(round(0.01 * len(known)), 10, REFERENCE_ROWS))
    return known[np.argsort(-scores[known], kind="stable")[:count]]


def in_parts(n_rows: int, width: int) -> Iterator[Where]:
    """Row numbers in batches whose contributions fit into memory."""
    size = max(1, PART_NUMBERS // (width + 1))
    return (np.arange(at, min(at + size, n_rows)) for at in range(0, n_rows, size))


def learn_reference(ranker: Contributing, X: Matrix, positive: Mask) -> None:
    """Set the mean contributions that rows are compared with, where a ranker has none yet.

    `reference_` is the mean over the highest-ranked negatives of the training rows, by out-of-fold
    scores where there are any; `usual_` that over all rows or a sample. A ranker without
    contributions gets neither.
    """
    if not hasattr(ranker, "contributions"):
        return
    most = getattr(ranker, "_n_explained", REFERENCE_ROWS)
    if not hasattr(ranker, "usual_"):
        some = evenly(np.arange(len(positive)), min(most, USUAL_ROWS))
        ranker.usual_ = mean_contributions(ranker, _safe_indexing(X, some))
    if not hasattr(ranker, "reference_"):
        scores = getattr(ranker, "out_of_fold_", None)
        scores = ranker.decision_function(X) if scores is None else scores
        some = np.sort(evenly(highest_negatives(positive, scores), most))
        if len(some):
            ranker.reference_ = mean_contributions(ranker, _safe_indexing(X, some))


def evenly(where: Where, most: int) -> Where:
    """At most this many entries, evenly spaced."""
    if len(where) <= most:
        return where
    return where[np.linspace(0, len(where) - 1, most).astype(np.intp)]


def mean_contributions(ranker: Contributing, rows: Matrix) -> Array:
    """Mean contribution of each column over rows, then the rest."""
    n_rows, width = rows.shape
    parts = (_safe_indexing(rows, part) for part in in_parts(n_rows, width))
    total = sum(np.sum(ranker.contributions(part), axis=0) for part in parts)
    return np.asarray(total / n_rows)


def _walks(
    rows: Matrix, background: Matrix, reached: Array, begun: Array, n_pairs: int, seed: int
) -> Iterator[Walk]:
    """Every order forwards and backwards, from every background row to every row."""
    rng = np.random.default_rng(seed)
    shape = (background.shape[0], n_pairs, rows.shape[1])
    orders = np.argsort(rng.random(shape), axis=-1)
    starts = dense(background)
    for row in range(rows.shape[0]):
        values = dense(rows[[row]])[0]
        for start, several, begin in zip(starts, orders, begun, strict=True):
            missing = (start != start) & (values != values)
            differs = (start != values) & ~missing
            for order in several:
                forwards = order[differs[order]]
                for walk in (forwards, forwards[::-1]):
                    ends = float(begin), float(reached[row])
                    yield Walk(row, walk, ends, between(start, values, walk, rows))


def _parts(walks: Iterator[Walk]) -> Iterator[list[Walk]]:
    """Walks in batches that fit into memory, without those between equal rows."""
    part: list[Walk] = []
    size = 0
    for walk in walks:
        if not len(walk.order):
            continue
        part.append(walk)
        size += walk.between.size
        if size >= NUMBERS:
            yield part
            part, size = [], 0
    if part:
        yield part


def _scores(score: Score, rows: Matrix) -> Array:
    return np.asarray(score(rows), np.float64) if rows.shape[0] else np.zeros(0)


def between(start: Array, end: Array, order: Where, like: Matrix) -> Matrix:
    """From one row to another, column after column: what comes after each step but the last.

    Sparse if `like` is; then only columns in which either row has an entry are looked at.
    """
    if not is_sparse(like):
        return _between(start, end, order)
    stored = np.flatnonzero((start != 0) | (end != 0))
    few = _between(start[stored], end[stored], np.searchsorted(stored, order))
    steps = sparse.csr_array(few)
    parts = (steps.data, stored[steps.indices], steps.indptr)
    return sparse.csr_array(parts, shape=(len(few), len(start)))


def _between(start: Array, end: Array, order: Where) -> Array:
    n_rows = max(len(order) - 1, 0)
    rows = np.repeat(start[None, :], n_rows, axis=0)
    passed = np.tri(n_rows, len(order), dtype=bool)
    rows[:, order] = np.where(passed, end[order], start[order])
    return rows
