"""A curve for each column: from its values to a few numbers on which a linear ranker works.

A value is placed at u in [0, 1] among the quantiles of its column, so heavy tails do not matter.
Its numbers are u itself and the hats of a binary division of [0, 1] (Schauder's functions): one
hat over all of it, two over its halves, and so on. Of each division at most one is not 0, so a
row has about log2(n_pieces) + 1 numbers for a column. The hats shrink with their width, and a
penalty on their weights is one on the roughness of the curve, which hats of one width side by
side do not have.

The value that half of the rows or more share has no numbers at all, and so a sparse column stays
sparse; all others have a 1 there. Missing values have a 1 of their own. What the training rows do
not have, a first missing value or an unknown category, takes the mean of the column's numbers.
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
"""Quantiles within a piece, by which values are placed in it."""
SPREAD = 2.0
"""Size of a column of many values beside an indicator, which is 1."""
CHUNK = 1 << 20
"""Entries that are worked on at a time."""


class Cells(NamedTuple):
    """Entries of a matrix: rows, columns, and what stands there."""

    rows: Where
    columns: Where
    data: Array


@dataclass(frozen=True)
class ColumnCurve:
    """How the values of a column become numbers.

    Attributes
    ----------
    values : array
        Increasing; of a curve they lie evenly over [0, 1], of categories each has a level.
    levels : int
        How often [0, 1] is divided; -1 for categories.
    common : float
        The value without numbers, NaN if there is none.
    missing : bool
        Whether missing values have a number.
    """

    values: Array
    levels: int
    common: float
    missing: bool

    @classmethod
    def of(cls, held: ColumnValues, pieces: int, *, categorical: bool) -> "ColumnCurve":
        """From what the training rows hold; without pieces a straight line over their range."""
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
        """Whether some value has no numbers."""
        return not np.isnan(self.common)

    @property
    def width(self) -> int:
        """How many numbers there are."""
        return self._curve_width + self.missing

    @property
    def _curve_width(self) -> int:
        if self.levels < 0:
            return len(self.values)
        return self.has_common + ((1 << self.levels) if len(self.values) > 1 else 0)

    def is_unseen(self, values: Array) -> Mask:
        """Which values the training rows do not have, where none lies between two."""
        gaps = np.isnan(values)
        unseen = gaps & (not self.missing)
        if self.levels < 0:
            unseen |= ~gaps & ~np.isin(values, self.values) & (values != self.common)
        return unseen

    def cells(self, values: Array) -> Cells:
        """The numbers of some rows; unseen values have none."""
        gaps = np.isnan(values)
        rows = np.flatnonzero(~gaps & (values != self.common))
        parts = (self._categories if self.levels < 0 else self._curve)(rows, values[rows])
        if self.missing:
            missing = np.flatnonzero(gaps)
            parts.append(_ones(missing, self._curve_width))
        return Cells(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _categories(self, rows: Where, values: Array) -> list[Cells]:
        level = np.searchsorted(self.values, values)
        level[level == len(self.values)] = 0
        known = self.values[level] == values if len(self.values) else np.zeros(len(level), bool)
        return [Cells(rows[known], level[known], np.ones(int(known.sum())))]

    def _curve(self, rows: Where, values: Array) -> list[Cells]:
        parts = [_ones(rows, 0)] if self.has_common else [_ones(rows[:0], 0)]
        if len(self.values) < 2:
            return parts
        place = np.interp(values, self.values, np.linspace(0.0, 1.0, len(self.values)))
        size, first = SPREAD if len(self.values) > 2 else 1.0, int(self.has_common)
        parts.append(Cells(rows, np.full(len(rows), first), size * place))
        for level in range(self.levels):
            n_hats = 1 << level
            hat = np.minimum((place * n_hats).astype(np.int64), n_hats - 1)
            height = 1.0 - np.abs(2.0 * (place * n_hats - hat) - 1.0)
            parts.append(Cells(rows, first + n_hats + hat, size / (2 * n_hats) * height))
        return parts


def _ones(rows: Where, column: int) -> Cells:
    return Cells(rows, np.full(len(rows), column), np.ones(len(rows)))


def _quantiles(distinct: Array, mass: Array, n_cells: int) -> Array:
    """Distinct quantiles that share the mass evenly; all values if they are few."""
    if len(distinct) <= n_cells:
        return distinct
    below = np.cumsum(mass)
    where = np.searchsorted(below, below[-1] * np.linspace(0.0, 1.0, n_cells + 1))
    return np.asarray(distinct[np.unique(np.minimum(where, len(distinct) - 1))])


@dataclass(frozen=True)
class Curves:
    """The numbers of all columns, side by side.

    `means` are those of the training rows, which unseen values take.
    """

    columns: Sequence[ColumnCurve]
    means: Array

    @classmethod
    def of(cls, X: Matrix, weight: Array | None, pieces: int, categorical: Mask) -> "Curves":
        """From the training rows; no labels are asked, so folds may share it."""
        kept = np.ones(X.shape[0]) if weight is None else with_mean_one(weight)
        read = ColumnReader(X[kept > 0.0])
        kept = kept[kept > 0.0]
        columns = [
            ColumnCurve.of(read.values(j, kept), pieces, categorical=bool(categorical[j]))
            for j in range(X.shape[1])
        ]
        starts = np.zeros(sum(column.width for column in columns))
        means = kept @ cls(columns, starts).transform(X if weight is None else X[weight > 0.0])
        return cls(columns, means / kept.sum())

    @property
    def starts(self) -> Where:
        """Where the numbers of each column begin, and where the last end."""
        return np.concatenate([[0], np.cumsum([column.width for column in self.columns])])

    @property
    def homes(self) -> Where:
        """The column to which each number belongs."""
        return np.repeat(np.arange(len(self.columns)), np.diff(self.starts))

    def per_column(self, weights: Array) -> sparse.csr_array:
        """The weights with a column for each column of X."""
        shape = (len(weights), len(self.columns))
        return sparse.csr_array((weights, (np.arange(len(weights)), self.homes)), shape=shape)

    def arrays(self) -> dict[str, Any]:
        """What `from_arrays` makes the same curves of: plain arrays."""
        return {
            "values": np.concatenate([column.values for column in self.columns]),
            "sizes": np.array([len(column.values) for column in self.columns]),
            "levels": np.array([column.levels for column in self.columns]),
            "common": np.array([column.common for column in self.columns]),
            "missing": np.array([column.missing for column in self.columns]),
            "means": self.means,
        }

    @classmethod
    def from_arrays(cls, given: dict[str, Any]) -> "Curves":
        """What `arrays` returned, as curves again."""
        values = np.split(given["values"], np.cumsum(given["sizes"])[:-1])
        parts = zip(values, given["levels"], given["common"], given["missing"], strict=True)
        columns = [
            ColumnCurve(own, int(levels), float(common), bool(missing))
            for own, levels, common, missing in parts
        ]
        return cls(columns, given["means"])

    def transform(self, X: Matrix) -> sparse.csr_array:
        """The numbers of all rows, a part of the rows at a time."""
        step = max(int(CHUNK / entries_per_row(X)), 1)
        parts = [self._transform(X[i : i + step]) for i in range(0, max(X.shape[0], 1), step)]
        return parts[0] if len(parts) == 1 else sparse.vstack(parts, format="csr")

    def _transform(self, X: Matrix) -> sparse.csr_array:
        read, found, unseen = ColumnReader(X), [], []
        for j, (column, start) in enumerate(zip(self.columns, self.starts[:-1], strict=True)):
            rows, values = read.entries(j, skip_zeros=column.common == 0.0)
            cells = column.cells(values)
            found.append(Cells(rows[cells.rows], cells.columns + start, cells.data))
            unseen.append(_ones(rows[column.is_unseen(values)], j))
        made = _matrix(found, (X.shape[0], len(self.means)))
        if not any(len(cells.rows) for cells in unseen):
            return made
        return made + _matrix(unseen, X.shape) @ self._mean_rows()

    def _mean_rows(self) -> sparse.csr_array:
        """The means of each column's numbers, in a row of its own."""
        return sparse.csr_array(
            (self.means, np.arange(len(self.means)), self.starts),
            shape=(len(self.columns), len(self.means)),
        )


def _matrix(parts: Sequence[Cells], shape: tuple[int, ...]) -> sparse.csr_array:
    """A CSR matrix without stored zeros."""
    rows, columns, data = (np.concatenate(part) for part in zip(*parts, strict=True))
    kept = data != 0.0
    index = np.int32 if max(shape) < np.iinfo(np.int32).max else np.int64
    where = rows[kept].astype(index), columns[kept].astype(index)
    return sparse.csr_array((data[kept], where), shape=shape)
