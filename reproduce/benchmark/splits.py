"""The data of the benchmark, and its splits: two thirds of the rows to train, one third to test.

Rows are split at random within each class, by groups where a table has any, and by time where it
has any: a window of the rows in order of time, its first two thirds to train. The windows of the
splits begin at different times.
"""

import os
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing

from reproduce import datasets
from reproduce.datasets import RawTable
from reproduce.protocol import TEST_SHARE
from toppush.matrices import dense, for_engine, is_thin
from toppush.types import Mask, Where

PROTOCOL = 2
"""Part of every record; goes up when the rows of a split would change."""
DENSE = 0.1
"""LIBSVM files with a greater share of nonzero entries are read as dense arrays."""
WINDOW = 0.6
"""Fraction of the rows in a window of time."""
GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it, without their whole part, are spread evenly over [0, 1], however many."""
MATRICES = [name for name in datasets.names() if name in datasets.CATALOGUE]
MATRICES.remove("news20-label10")  # the rows of news20-forsale with another label


class Split(NamedTuple):
    """Rows to fit and rows to score, as a user would pass them: a data frame, array or CSR."""

    X: Any
    y: Mask
    X_test: Any
    y_test: Mask


def set_names(directory: str | os.PathLike[str] | None) -> list[str]:
    """All data sets of the benchmark: raw tables that are there, then LIBSVM files."""
    tables = datasets.table_names(directory)
    return [*tables, *(name for name in MATRICES if name not in tables)]


def load(name: str, directory: str | os.PathLike[str] | None) -> RawTable:
    """A raw table, or a data set of the catalogue as an array or a CSR matrix."""
    if name in datasets.table_names(directory):
        return datasets.load_table(name, directory)
    loaded = datasets.load(name, directory)
    # Not every competitor takes sparse arrays; all take sparse matrices.
    return RawTable(for_engine(loaded.X) if is_thin(loaded.X, DENSE) else dense(loaded.X), loaded.y)


def split(table: RawTable, number: int, most_rows: int) -> Split:
    """A split of at most `most_rows` rows, training and test together."""
    parts = places(table, number, most_rows)
    (X, X_test), (y, y_test) = ([_safe_indexing(x, p) for p in parts] for x in (table.X, table.y))
    if y.all() or not y.any() or y_test.all() or not y_test.any():
        raise ValueError(f"split {number} has one class; allow more than {most_rows} rows.")
    return Split(X, y, X_test, y_test)


def places(table: RawTable, number: int, most_rows: int) -> tuple[Where, Where]:
    """Which rows train and which test."""
    rng, n_rows = np.random.default_rng(number), table.y.size
    if table.times is not None:
        return _cut(_window(table.times, number, most_rows, rng), table.times)
    if table.groups is not None:
        codes = np.unique(table.groups, return_inverse=True)[1]
        order = rng.permutation(codes.max() + 1)[codes]
        return _cut(np.argsort(order, kind="stable")[:most_rows], order)
    n_test = round(TEST_SHARE * min(n_rows, most_rows))
    train, test = train_test_split(
        np.arange(n_rows),
        train_size=min(n_rows, most_rows) - n_test,
        test_size=n_test,
        stratify=table.y,
        random_state=number,
    )
    return train, test


def _window(times: Where, number: int, most_rows: int, rng: np.random.Generator) -> Where:
    """Rows of a window in order of time; if they are too many, some of them at random."""
    n_rows = times.size
    width = round(WINDOW * n_rows)
    start = round(number * GOLDEN % 1.0 * (n_rows - width))
    window = np.argsort(times, kind="stable")[start : start + width]
    return window[np.sort(rng.permutation(width)[:most_rows])]


def _cut(rows: Where, keys: Where) -> tuple[Where, Where]:
    """The first two thirds of rows in order of their keys, and the others with greater keys."""
    n_train = rows.size - round(TEST_SHARE * rows.size)
    train, test = rows[:n_train], rows[n_train:]
    return np.sort(train), np.sort(test[keys[test] > keys[train[-1]]])
