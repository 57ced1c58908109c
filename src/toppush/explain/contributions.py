"""What each column adds to a score: exactly for a weighted sum, by Shapley values for any other.

A score f shares f(x) - f(b) out among the columns in which the row x differs from a background
row b: the columns go over from b to x one after the other, in some order, and each is given the
step that the score makes. Shapley's value is the mean of that over all orders. Here a few orders
are walked, each also backwards, which makes the value exact wherever no more than two columns act
together; and the steps of every walk add up to f(x) - f(b), however few walks there are.
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
"""Background rows, and how few for wide rows."""
REFERENCE_ROWS, USUAL_ROWS = 1000, 200
"""The most rows whose contributions a fit takes the mean of: negatives of the top, and any."""
STEPS = 20_000
"""Steps to walk for a row, at most; a walk has one for each column in which two rows differ."""
NUMBERS = 1 << 21
"""Values of rows on the way that are scored at a time, 16 MiB."""
PART_NUMBERS = 1 << 22
"""Contributions that are held at a time, 32 MiB."""


class Contributing(Protocol):
    """What can share out its scores."""

    reference_: Array
    usual_: Array

    def contributions(self, X: Matrix) -> Array: ...
    def decision_function(self, X: Matrix) -> Array: ...


class Walk(NamedTuple):
    """From a background row to a row, column by column."""

    row: int
    order: Where
    """The columns in which the two differ, in the order in which they go over."""
    ends: tuple[float, float]
    """Scores of the background row and of the row."""
    between: Matrix
    """The rows on the way."""

    def steps(self, scores: Array) -> Array:
        """What each column of the order adds, given the scores of the rows on the way."""
        return np.diff(np.concatenate([self.ends[:1], scores, self.ends[1:]]))


def shapley(
    score: Score, rows: Matrix, background: Matrix, *, n_pairs: int = 1, seed: int = 0
) -> Array:
    """What each column adds to the scores of some rows, by walks from background rows.

    A row is scored about 2 n_pairs n_background n_columns times; columns in which it equals the
    background row cost nothing. What is said of a row does not depend on the others.

    Parameters
    ----------
    score : callable
        From rows, in the form of `rows`, to an array of shape (n_rows,).
    rows, background : array or sparse matrix of shape (n, n_columns)
        Rows to explain, and rows to compare them with, such as some of the training rows.
    n_pairs : int, default=1
        Orders for each background row; each is walked forwards and backwards.
    seed : int, default=0
        Of the orders.

    Returns
    -------
    array of shape (n_rows, n_columns + 1)
        Rows sum to their scores; the last column is the mean score of the background.
    """
    rows, background = sliceable(rows), sliceable(background)
    reached, begun = _scores(score, rows), _scores(score, background)
    found = np.zeros((rows.shape[0], rows.shape[1] + 1))
    found[:, -1] = begun.mean()
    share = 1.0 / (2 * n_pairs * len(begun))
    for part in _parts(_walks(rows, background, reached, begun, n_pairs, seed)):
        scores = _scores(score, stacked([walk.between for walk in part]))
        ends = np.cumsum([walk.between.shape[0] for walk in part])
        for walk, on_the_way in zip(part, np.split(scores, ends[:-1]), strict=True):
            found[walk.row, walk.order] += share * walk.steps(on_the_way)
    return found


def some_background(rows: Matrix, seed: int = 0) -> Matrix:
    """Rows to compare with, evenly taken: 16, or fewer where rows are wide; dense."""
    n_rows, width = rows.shape
    return np.asarray(dense(sliceable(rows)[background_places(n_rows, width, seed)]), np.float64)


def background_places(n_rows: int, width: int, seed: int = 0) -> Where:
    """Which of so many rows are the background."""
    count = min(int(np.clip(STEPS // (2 * max(width, 1)), FEWEST, BACKGROUND)), n_rows)
    return np.sort(np.random.default_rng(seed).permutation(n_rows)[:count])


def linear_contributions(rows: Matrix, weights: Array, threshold: float) -> Array:
    """Weight times value, and minus the threshold after them."""
    added = np.empty((rows.shape[0], len(weights) + 1))
    added[:, :-1] = dense(rows)
    added[:, :-1] *= weights
    added[:, -1] = -threshold
    return added


def highest_negatives(
    positive: Mask,
    scores: Array,
    *,
    share: float = 0.01,
    least: int = 10,
    most: int = REFERENCE_ROWS,
) -> Where:
    """The negatives of highest score, best first: a share of them within two counts.

    Rows without a score (NaN) are left out.
    """
    scores = np.asarray(scores, np.float64)
    known = np.flatnonzero(~np.asarray(positive, bool) & ~np.isnan(scores))
    count = int(np.clip(round(share * len(known)), least, most))
    return known[np.argsort(-scores[known], kind="stable")[:count]]


def in_parts(n_rows: int, width: int) -> Iterator[Where]:
    """Numbers of rows, as many at a time as have contributions that fit into memory."""
    size = max(1, PART_NUMBERS // (width + 1))
    return (np.arange(at, min(at + size, n_rows)) for at in range(0, n_rows, size))


def learn_reference(ranker: Contributing, X: Matrix, positive: Mask) -> None:
    """Learn what rows are to be compared with, where a ranker does not know it yet.

    `reference_` is the mean contributions of the highest-ranked negatives of the training rows, by
    members that did not see them where there are any; `usual_` that of all rows, or some of them.
    A ranker without contributions learns neither.
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
    """At most so many, at even steps."""
    if len(where) <= most:
        return where
    return where[np.linspace(0, len(where) - 1, most).astype(np.intp)]


def mean_contributions(ranker: Contributing, rows: Matrix) -> Array:
    """What each column adds in the mean over some rows, and the rest after them."""
    n_rows, width = rows.shape
    parts = (_safe_indexing(rows, part) for part in in_parts(n_rows, width))
    total = sum(np.sum(ranker.contributions(part), axis=0) for part in parts)
    return np.asarray(total / n_rows)


def _walks(
    rows: Matrix, background: Matrix, reached: Array, begun: Array, n_pairs: int, seed: int
) -> Iterator[Walk]:
    """Both ways of every order, from every background row to every row."""
    rng = np.random.default_rng(seed)
    shape = (background.shape[0], n_pairs, rows.shape[1])
    orders = np.argsort(rng.random(shape), axis=-1)
    starts = dense(background)
    for row in range(rows.shape[0]):
        values = dense(rows[[row]])[0]
        for start, several, begin in zip(starts, orders, begun, strict=True):
            differs = _differ(values, start)
            for order in several:
                order = order[differs[order]]
                for one in (order, order[::-1]):
                    on_the_way = between(start, values, one, rows)
                    yield Walk(row, one, (float(begin), float(reached[row])), on_the_way)


def _differ(one: Array, other: Array) -> Mask:
    """Where two rows differ; two gaps do not."""
    return np.asarray((one != other) & ((one == one) | (other == other)), bool)


def _parts(walks: Iterator[Walk]) -> Iterator[list[Walk]]:
    """As many walks at a time as may be held; those between equal rows are left out."""
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
