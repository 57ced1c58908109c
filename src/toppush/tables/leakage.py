"""Columns that alone rank almost perfectly, and so may hold the label (target leakage).

A column is cut into bins: categories, values, or quantiles, and one for missing values. Each bin is
scored by its rate of positives in the other half of the rows, so that an id, with a row in each
bin, has no score. These scores rank the rows.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from toppush.matrices import is_sparse
from toppush.types import Array, Mask, Matrix, Where

MOST_ROWS, FEWEST_ROWS, MOST_VALUES = 10_000, 500, 4_000_000
"""Rows of each class that are checked at most and at least, and the number of entries above which
fewer rows are checked. 50 columns took 0.1 seconds."""
N_BINS = 64
"""Bins of a column of numbers with more different values."""
HIGHEST_AUC = 0.98
"""The highest AUC of a single column that is not suspicious. On 24 raw tables no column that is
known in time was above 0.91, on nslkdd one has 0.962, on breast cancer 0.975; a copy of the label
with 1 % errors has 0.983 or more."""
SHARE, RATIO = 0.2, 1000.0
"""Share of the positives that categories, single values or missing values may not mark alone: they
hold this many times less of the negatives. A legitimate column marked 0.14 at most on the
raw tables. Ranges of numbers are not counted: the highest values of a good column mark many."""
FEWEST = 50.0
"""Negatives that would be expected in such bins, at least, if there was no relation."""


class LeakageWarning(UserWarning):
    """A column alone ranks almost perfectly; it may hold the label.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from toppush import LeakageWarning, TopRanker
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 2)), np.arange(200) % 4 == 0
    >>> X[:, 1] = np.where(y, 7.0, np.nan)  # known for positives only
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     ranker = TopRanker(["forest"]).fit(X, y)
    ...
    >>> any(one.category is LeakageWarning for one in caught)
    True
    """


class SampledColumn(NamedTuple):
    """A column of some rows: NaN is a missing value, and categories are codes."""

    name: Any
    values: Array
    is_category: bool = False


@dataclass(frozen=True)
class Leak:
    """A column that may hold the label."""

    name: Any
    auc: float
    marked: float
    """Share of the positives that its values mark, with hardly a negative among them."""
    by_missing: bool
    """Whether it does so by its missing values alone."""

    def __str__(self) -> str:
        how = " by its missing values" if self.by_missing else ""
        if self.auc >= HIGHEST_AUC:
            return f"{self.name!r} ranks almost perfectly{how} (AUC {self.auc:.3f})"
        return f"{self.name!r} marks {self.marked:.0%} of the positives and no others{how}"


def caution(leaks: Sequence[Leak], remedy: str) -> str:
    """The warning about these columns."""
    return (
        f"Possible target leakage: alone, column {'; '.join(map(str, leaks))}. If this is known "
        f"only after the outcome, or is the outcome itself, {remedy}."
    )


def rows_to_check(positive: Mask, n_columns: int) -> Where:
    """Rows of each class, evenly spaced."""
    most = int(np.clip(MOST_VALUES // max(n_columns, 1), FEWEST_ROWS, MOST_ROWS))
    classes = np.flatnonzero(positive), np.flatnonzero(~positive)
    places = [np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(int) for rows in classes]
    return np.sort(np.concatenate([rows[at] for rows, at in zip(classes, places, strict=True)]))


def leaks_of(columns: Iterable[SampledColumn], positive: Mask) -> list[Leak]:
    """The columns that may hold the label; the rows are those of `rows_to_check`."""
    leaks = []
    for name, values, is_category in columns:
        bins, of_ranges = _bins(values, is_category)
        auc, marked = separation(bins, positive)
        if _is_suspicious(auc, marked):
            missing = separation(np.isnan(values).astype(np.intp), positive)
            marked = missing[1] if of_ranges else marked
            if _is_suspicious(auc, marked):
                leaks.append(Leak(name, auc, marked, _is_suspicious(*missing)))
    return leaks


def leaks_of_matrix(
    X: Matrix, names: Sequence[Any], categories: Collection[int], positive: Mask
) -> list[Leak]:
    """The columns of a matrix that may hold the label; for sparse rows see `leaks_of_sparse`.

    Parameters
    ----------
    X : array or CSR matrix
    names : sequence
        Names of the columns; columns with the same name are reported once.
    categories : collection of int
        Columns that hold codes of categories.
    positive : array of bool
    """
    rows = rows_to_check(positive, X.shape[1])
    sample, side = _safe_indexing(X, rows), positive[rows]
    if is_sparse(X):
        return leaks_of_sparse(sample, names, side)
    columns = (
        SampledColumn(name, sample[:, j].astype(np.float64), j in categories)
        for j, name in enumerate(names)
    )
    return list({leak.name: leak for leak in leaks_of(columns, side)}.values())


def leaks_of_sparse(X: Matrix, names: Sequence[Any], positive: Mask) -> list[Leak]:
    """Columns of a CSR matrix that give the label away by where entries are stored."""
    ones = X.astype(bool).astype(np.float64)
    present = np.stack([ones.T @ side.astype(np.float64) for side in (~positive, positive)], axis=1)
    totals = np.array([(~positive).sum(), positive.sum()], dtype=np.float64)
    rates = present / totals
    aucs = (1.0 + np.abs(rates[:, 1] - rates[:, 0])) / 2.0
    marked = np.zeros(len(aucs))
    for share in (rates, 1.0 - rates):
        pure = (share[:, 0] * RATIO <= share[:, 1]) & (share[:, 1] * totals[0] >= FEWEST)
        marked = np.where(pure, np.maximum(marked, share[:, 1]), marked)
    places = np.flatnonzero((aucs >= HIGHEST_AUC) | (marked >= SHARE))
    return [Leak(names[j], float(aucs[j]), float(marked[j]), False) for j in places.tolist()]


def _is_suspicious(auc: float, marked: float) -> bool:
    return auc >= HIGHEST_AUC or marked >= SHARE


def separation(bins: NDArray[np.intp], positive: Mask) -> tuple[float, float]:
    """AUC of the bins' out-of-fold scores, and the share of positives that they mark."""
    half = np.random.default_rng(0).permutation(len(bins)) % 2
    cells, n_cells = 2 * bins + half, 2 * (int(bins.max(initial=0)) + 1)
    true, false = (np.bincount(cells[side], minlength=n_cells) for side in (positive, ~positive))
    score = _rates(true.astype(np.float64), false.astype(np.float64))
    order = np.argsort(-score, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(score[order]) != 0.0, True))
    n_true, n_false = np.cumsum(true[order])[ends], np.cumsum(false[order])[ends]
    tpr, fpr = n_true / max(n_true[-1], 1), n_false / max(n_false[-1], 1)
    auc = float(np.trapezoid(np.append(0.0, tpr), np.append(0.0, fpr)))
    pure = (fpr * RATIO <= tpr) & (tpr * n_false[-1] >= FEWEST)
    return auc, float(tpr[pure].max(initial=0.0))


def _rates(true: Array, false: Array) -> Array:
    """Rate of positives of each cell in the other half, drawn to their mean by one row."""
    mean = true.sum() / max(true.sum() + false.sum(), 1)
    true, false = (counts.reshape(-1, 2)[:, ::-1].ravel() for counts in (true, false))
    return np.asarray((true + mean) / (true + false + 1.0))


def _bins(values: Array, is_category: bool) -> tuple[NDArray[np.intp], bool]:
    """Bins from 0, missing values have the last; whether they are ranges of numbers."""
    is_missing = np.isnan(values)
    known = values[~is_missing]
    edges = np.unique(known)
    of_ranges = len(edges) > N_BINS and not is_category
    if of_ranges:
        edges = np.unique(np.quantile(known, np.arange(1, N_BINS) / N_BINS, method="lower"))
    # A value that is an edge has a bin of its own: it may be that of many rows.
    sides = [np.searchsorted(edges, known, side=side) for side in ("left", "right")]
    bins = np.full(len(values), 2 * len(edges) + 1)
    bins[~is_missing] = sides[0] + sides[1]
    return bins, of_ranges
