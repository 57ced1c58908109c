"""Basis functions of a curve for each column, on which a linear ranker works.

A value is placed at u in [0, 1] among the quantiles of its column, so heavy tails do not matter.
Its features are u itself and the hats of a binary division of [0, 1] (Schauder's functions): one
hat over all of it, two over its halves, and so on. Of each division at most one is not 0, so a
row has about log2(n_pieces) + 1 features for a column. The hats shrink with their width, so a
penalty on their weights is one on the roughness of the curve; hats of one width lack this.

The value that at least half of the rows share has no features, so a sparse column stays sparse; all
others have a 1 there. Missing values have a 1 of their own. What the training rows do not have, a
first missing value or an unknown category, gets the mean of the column's features.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from toppush.folds.splits import with_mean_one
from toppush.matrices import ColumnReader, ColumnValues, entries_per_row
from toppush.types import Array, Mask, Matrix, Where

PER_PIECE = 8
"""Quantiles within a piece, between which values are interpolated."""
SPREAD = 2.0
"""Size of the features of numeric columns, relative to indicators, which are 1."""
CHUNK = 1 << 20
"""FeatureEntries that are transformed at a time."""


class FeatureEntries(NamedTuple):
    """FeatureEntries of a sparse matrix."""

    rows: Where
    columns: Where
    data: Array


@dataclass(frozen=True)
class ColumnBasis:
    """The features of a column.

    Attributes
    ----------
    values : array
        Increasing: quantiles of a numeric column, or the categories.
    levels : int
        Number of divisions of [0, 1]; -1 for categories.
    common : float
        The value without features, NaN if there is none.
    missing : bool
        Whether missing values have a feature.
    """

    values: Array
    levels: int
    common: float
    missing: bool

    @classmethod
    def of(cls, held: ColumnValues, pieces: int, *, categorical: bool) -> "ColumnBasis":
        """From the training values; with 0 pieces a straight line over their range."""
        distinct, mass, common = held.values, held.mass, np.nan
        if len(distinct) > 1 and mass.max() >= 0.5 * mass.sum():
            most = int(np.argmax(mass))
            common = float(distinct[most])
            distinct, mass = np.delete(distinct, most), np.delete(mass, most)
        if categorical:
            return cls(distinct, -1, common, held.missing)
        if not pieces:
            return cls(
                distinct[[0, -1]] if len(distinct) > 1 else distinct, 0, common, held.missing
            )
        shown = _quantiles(distinct, mass, PER_PIECE * pieces)
        cells = min(max(len(shown) - 1, 1), pieces)
        return cls(shown, int(np.ceil(np.log2(cells))), common, held.missing)

    @property
    def has_common(self) -> bool:
        """Whether there is a value without features."""
        return not np.isnan(self.common)

    @property
    def width(self) -> int:
        """Number of features."""
        return self._curve_width + self.missing

    @property
    def _curve_width(self) -> int:
        if self.levels < 0:
            return len(self.values)
        return self.has_common + ((1 << self.levels) if len(self.values) > 1 else 0)

    def is_unseen(self, values: Array) -> Mask:
        """Missing values and categories that the training rows do not have."""
        missing = np.isnan(values)
        unseen = missing & (not self.missing)
        if self.levels < 0:
            unseen |= ~missing & ~np.isin(values, self.values) & (values != self.common)
        return unseen

    def entries(self, values: Array) -> FeatureEntries:
        """The features of some rows; unseen values have none."""
        is_missing = np.isnan(values)
        rows = np.flatnonzero(~is_missing & (values != self.common))
        parts = (self._categories if self.levels < 0 else self._curve)(rows, values[rows])
        if self.missing:
            missing = np.flatnonzero(is_missing)
            parts.append(_ones(missing, self._curve_width))
        return FeatureEntries(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _categories(self, rows: Where, values: Array) -> list[FeatureEntries]:
        level = np.searchsorted(self.values, values)
        level[level == len(self.values)] = 0
        known = self.values[level] == values if len(self.values) else np.zeros(len(level), bool)
        return [FeatureEntries(rows[known], level[known], np.ones(int(known.sum())))]

    def _curve(self, rows: Where, values: Array) -> list[FeatureEntries]:
        parts = [_ones(rows, 0)] if self.has_common else [_ones(rows[:0], 0)]
        if len(self.values) < 2:
            return parts
        place = np.interp(values, self.values, np.linspace(0.0, 1.0, len(self.values)))
        size, first = SPREAD if len(self.values) > 2 else 1.0, int(self.has_common)
        parts.append(FeatureEntries(rows, np.full(len(rows), first), size * place))
        for level in range(self.levels):
            n_hats = 1 << level
            hat = np.minimum((place * n_hats).astype(np.int64), n_hats - 1)
            height = 1.0 - np.abs(2.0 * (place * n_hats - hat) - 1.0)
            parts.append(FeatureEntries(rows, first + n_hats + hat, size / (2 * n_hats) * height))
        return parts


def _ones(rows: Where, column: int) -> FeatureEntries:
    return FeatureEntries(rows, np.full(len(rows), column), np.ones(len(rows)))


def _quantiles(distinct: Array, mass: Array, n_cells: int) -> Array:
    """Distinct quantiles of equal mass; all values if they are few."""
    if len(distinct) <= n_cells:
        return distinct
    below = np.cumsum(mass)
    where = np.searchsorted(below, below[-1] * np.linspace(0.0, 1.0, n_cells + 1))
    return np.asarray(distinct[np.unique(np.minimum(where, len(distinct) - 1))])


@dataclass(frozen=True)
class Curves:
    """The features of all columns, and their means over the training rows."""

    columns: Sequence[ColumnBasis]
    means: Array

    @classmethod
    def of(cls, X: Matrix, weight: Array | None, pieces: int, categorical: Mask) -> "Curves":
        """From the training rows; no labels are used, so folds may share it."""
        kept = np.ones(X.shape[0]) if weight is None else with_mean_one(weight)
        read = ColumnReader(X[kept > 0.0])
        kept = kept[kept > 0.0]
        columns = [
            ColumnBasis.of(read.values(j, kept), pieces, categorical=bool(categorical[j]))
            for j in range(X.shape[1])
        ]
        starts = np.zeros(sum(column.width for column in columns))
        means = kept @ cls(columns, starts).transform(X if weight is None else X[weight > 0.0])
        return cls(columns, means / kept.sum())

    @property
    def starts(self) -> Where:
        """The position of the first feature of each column, and the number of all features."""
        return np.concatenate([[0], np.cumsum([column.width for column in self.columns])])

    @property
    def owners(self) -> Where:
        """The column of each feature."""
        return np.repeat(np.arange(len(self.columns)), np.diff(self.starts))

    def per_column(self, weights: Array) -> sparse.csr_array:
        """The weights with a column for each column of X."""
        shape = (len(weights), len(self.columns))
        return sparse.csr_array((weights, (np.arange(len(weights)), self.owners)), shape=shape)

    def arrays(self) -> dict[str, Any]:
        """Plain arrays, for `from_arrays`."""
        return {
            "values": np.concatenate([column.values for column in self.columns]),
            "sizes": np.array([len(column.values) for column in self.columns]),
            "levels": np.array([column.levels for column in self.columns]),
            "common": np.array([column.common for column in self.columns]),
            "missing": np.array([column.missing for column in self.columns]),
            "means": self.means,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> "Curves":
        """The curves of which `arrays` were made."""
        values = np.split(arrays["values"], np.cumsum(arrays["sizes"])[:-1])
        parts = zip(values, arrays["levels"], arrays["common"], arrays["missing"], strict=True)
        columns = [
            ColumnBasis(own, int(levels), float(common), bool(missing))
            for own, levels, common, missing in parts
        ]
        return cls(columns, arrays["means"])

    def transform(self, X: Matrix) -> sparse.csr_array:
        """The features of all rows, computed for a part of the rows at a time."""
        step = max(int(CHUNK / entries_per_row(X)), 1)
        parts = [self._transform(X[i : i + step]) for i in range(0, max(X.shape[0], 1), step)]
        return parts[0] if len(parts) == 1 else sparse.vstack(parts, format="csr")

    def _transform(self, X: Matrix) -> sparse.csr_array:
        read, parts, unseen = ColumnReader(X), [], []
        for j, (column, start) in enumerate(zip(self.columns, self.starts[:-1], strict=True)):
            rows, values = read.entries(j, skip_zeros=column.common == 0.0)
            entries = column.entries(values)
            parts.append(FeatureEntries(rows[entries.rows], entries.columns + start, entries.data))
            unseen.append(_ones(rows[column.is_unseen(values)], j))
        features = _matrix(parts, (X.shape[0], len(self.means)))
        if not any(len(entries.rows) for entries in unseen):
            return features
        return features + _matrix(unseen, X.shape) @ self._mean_rows()

    def _mean_rows(self) -> sparse.csr_array:
        """A row for each column with the means of its features."""
        return sparse.csr_array(
            (self.means, np.arange(len(self.means)), self.starts),
            shape=(len(self.columns), len(self.means)),
        )


def _matrix(parts: Sequence[FeatureEntries], shape: tuple[int, ...]) -> sparse.csr_array:
    """A CSR matrix without stored zeros."""
    rows, columns, data = (np.concatenate(part) for part in zip(*parts, strict=True))
    kept = data != 0.0
    index = np.int32 if max(shape) < np.iinfo(np.int32).max else np.int64
    where = rows[kept].astype(index), columns[kept].astype(index)
    return sparse.csr_array((data[kept], where), shape=shape)
