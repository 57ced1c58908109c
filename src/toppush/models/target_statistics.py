"""Target statistics: categories as their smoothed share of positives, and as their count.

Each fold model has its own shares, learned from the rows that it is trained on. Trees grown on
shares that contain a row's own label would trust rare categories, so a training row gets the share
among the other parts of the training rows; held-out and new rows get the share among all of them.
Counts need no labels, and all fold models use the same.
"""

from collections.abc import Sequence

import numpy as np
from sklearn.utils import check_random_state

from toppush.folds.splits import Fold
from toppush.tables.frames import Categories
from toppush.types import Array, Mask, Where

PRIOR_WEIGHT = 10.0
"""Weight of the share of positives in all training rows, in the share of each category."""
N_PARTS = 5
"""Parts of the training rows, each encoded by the others."""

Tables = dict[int, Array]
"""Position of a categorical column -> array of shape (1 + n_folds, n_categories + 1): the logarithm
of 1 + the count of each category, then its share of positives for each fold model. The last entry
is for missing and unknown categories."""


def learn_tables(
    X: Array, categories: Categories, positive: Mask, weight: Array | None, folds: Sequence[Fold]
) -> Tables:
    """Counts of categories, and their shares of positives in the training rows of each fold."""
    weight = np.ones(len(positive)) if weight is None else weight
    tables = {}
    for column, known in sorted(categories.items()):
        codes, n_codes = codes_of(X[:, column], len(known)), len(known) + 1
        counts = _sums(codes, weight, n_codes)
        shares = [
            smoothed_shares(codes[train], positive[train], weight[train], n_codes)
            for train, _ in folds
        ]
        tables[column] = np.stack([np.log1p(counts), *shares])
    return tables


def encoded(X: Array, tables: Tables, number: int) -> Array:
    """Rows with the shares of a fold model in place of codes, and columns of counts after them."""
    width = X.shape[1]
    rows = np.empty((len(X), width + len(tables)))
    rows[:, :width] = X
    for place, (column, table) in enumerate(tables.items(), width):
        codes = codes_of(X[:, column], table.shape[1] - 1)
        rows[:, column], rows[:, place] = table[1 + number, codes], table[0, codes]
    return rows


def encoded_for_training(
    X: Array,
    tables: Tables,
    number: int,
    train: Where,
    positive: Mask,
    weight: Array | None,
    seed: int,
) -> Array:
    """Rows as `encoded`, the training rows of the fold model by shares in their other parts."""
    rows = encoded(X, tables, number)
    positive, part = positive[train], parts_of(positive[train], seed)
    weight = np.ones(len(train)) if weight is None else weight[train]
    for column, table in tables.items():
        codes = codes_of(X[train, column], table.shape[1] - 1)
        rows[train, column] = shares_of_others(codes, positive, weight, table.shape[1], part)
    return rows


def by_source(values: Array, tables: Tables) -> Array:
    """Values of encoded columns added up over the columns that they are made of."""
    width = values.shape[-1] - len(tables)
    sums = values[..., :width].copy()
    sums[..., list(tables)] += values[..., width:]
    return sums


def sources(width: int, tables: Tables) -> Where:
    """The column that each encoded column is made of."""
    return np.array([*range(width), *tables])


def codes_of(values: Array, n_categories: int) -> Where:
    """Codes of a column's values; a missing one has the code after the last."""
    return np.where(np.isnan(values), n_categories, values).astype(np.intp)


def parts_of(positive: Mask, seed: int) -> Where:
    """A part of the rows for each row, drawn at random, with equally many positives in each."""
    order = check_random_state(seed).permutation(len(positive))
    order = order[np.argsort(positive[order], kind="stable")]
    part = np.empty(len(positive), np.intp)
    part[order] = np.arange(len(positive)) % N_PARTS
    return part


def smoothed_shares(codes: Where, positive: Mask, weight: Array, n_codes: int) -> Array:
    """Share of positives of each category, with the share in all rows as prior."""
    sums, counts = (_sums(codes, values, n_codes) for values in (weight * positive, weight))
    return _smoothed(sums, counts, positive, weight)


def shares_of_others(
    codes: Where, positive: Mask, weight: Array, n_codes: int, part: Where
) -> Array:
    """For each row the share of positives of its category in the other parts.

    The prior is the share in all rows, so it does not tell the parts apart.
    """
    cells, others = part * n_codes + codes, 1.0 - np.eye(N_PARTS)

    sums, counts = (
        others @ _sums(cells, values, N_PARTS * n_codes).reshape(N_PARTS, n_codes)
        for values in (weight * positive, weight)
    )
    return np.asarray(_smoothed(sums, counts, positive, weight)[part, codes])


def _smoothed(sums: Array, counts: Array, positive: Mask, weight: Array) -> Array:
    prior = np.average(positive, weights=weight)
    return np.asarray((sums + PRIOR_WEIGHT * prior) / (counts + PRIOR_WEIGHT))


def _sums(codes: Where, values: Array, n_codes: int) -> Array:
    """Sum of the values of each code."""
    return np.asarray(np.bincount(codes, values, n_codes), np.float64)
