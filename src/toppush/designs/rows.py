"""Rows: products with float64 results that count the entries they read, and views of other rows.

The count is shared with the rows' subsets, so that a solver can say how often it read the data.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self

from toppush.designs.arrays import NUMPY, Arrays, namespace
from toppush.system.threads import check_cancelled
from toppush.types import Array, Where


@dataclass(frozen=True)
class Scaling:
    """Rows x as scale x - centre in float64, which is the same ranking problem.

    Adding a constant to all scores keeps their order, and a power of two changes no digit.
    """

    scale: float = 1.0
    centre: Array | None = None

    @property
    def is_identity(self) -> bool:
        """Whether it leaves every float64 as it is."""
        return self.scale == 1.0 and self.centre is None


UNSCALED = Scaling()


class ReadTally:
    """Entries read so far."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries = 0


class Rows(Protocol):
    """Some rows of X."""

    shape: tuple[int, int]
    n_entries: int
    tally: ReadTally
    arrays: Arrays
    """The operations that fit vectors over these rows."""
    room: float = math.inf
    """Entries that copies of some rows may take: infinite where the rows are in memory."""
    copy_cost: float = 1.0
    """Entries in memory for each entry of a copy while it is made."""
    is_double: bool
    """Whether they are float64."""
    can_center: bool
    """Whether a scaling may have a centre: not where zeros are not stored."""

    def scores(self, weights: Array) -> Array:
        """X w."""

    def combine(self, coefficients: Array) -> Array:
        """X' u."""

    def combine_all(self, *coefficients: Array) -> tuple[Array, ...]:
        """X' u for several u, in one read where reading takes long."""
        return tuple(self.combine(vector) for vector in coefficients)

    def hessian_product(self, vector: Array, scale: Array, shift: float) -> Array:
        """X' diag(scale) (X v - shift), in one read where reading takes long."""
        return self.combine(scale * (self.scores(vector) - shift))

    def gram(self, where: Where, scale: Array) -> tuple[Array, Array]:
        """X' diag(scale) X and X' scale over some of the rows, read once."""

    def gram_again(self, where: Where, scale: Array) -> Array:
        """X' diag(scale) X for rows that are asked often: what answers share may be kept."""
        return self.gram(where, scale)[0]

    def subset(self, where: Where) -> "Rows":
        """A copy of some of the rows."""

    def stacked(self, *others: Any) -> "Rows":
        """These rows and, below them, others of the same type; in float64 if some are."""

    def in_double(self) -> "Rows":
        """The same rows in float64, or these if they are."""
        return self if self.is_double else self.rescaled(UNSCALED)

    def rescaled(self, scaling: Scaling) -> "Rows":
        """A scaled copy in float64."""

    def parts(self) -> Iterator[tuple[slice, "Rows"]]:
        """All rows with their places, a few at a time and without a copy."""

    def squared(self) -> "Rows":
        """The same rows with every entry squared, for sums that need not be exact."""

    def count_entries(self, where: Where) -> int:
        """Stored entries of some of the rows."""

    def squared_norms(self) -> Array:
        """|x|^2 of every row."""

    def largest(self) -> float:
        """Greatest magnitude of an entry."""

    def exact(self) -> "ExactRows":
        """The same rows in float64."""


class ExactRows(Protocol):
    """A few rows in float64 that a solver keeps; what it does with them is no read of X."""

    shape: tuple[int, int]

    def scores(self, weights: Array) -> Array:
        """X w."""

    def combine(self, coefficients: Array) -> Array:
        """X' u."""

    def subset(self, where: Where) -> "ExactRows":
        """A copy of some of the rows."""

    def stacked(self, *others: Any) -> "ExactRows":
        """These rows and, below them, others of the same type."""

    def scaled(self, columns: Array) -> "ExactRows":
        """The same rows with every column multiplied."""

    def inner_products(self, other: Any) -> Array:
        """Products of these rows with others of the same type, as a matrix."""

    def dense(self) -> Array:
        """The rows as a NumPy array."""


class RowsView(Rows):
    """Rows that are seen through other rows, with their attributes."""

    def __init__(self, rows: Rows) -> None:
        self._all, self.shape, self.n_entries = rows, rows.shape, rows.n_entries
        self.tally, self.arrays, self.is_double = rows.tally, rows.arrays, rows.is_double
        self.room, self.copy_cost, self.can_center = rows.room, rows.copy_cost, rows.can_center


class MaskedRows(RowsView):
    """Some of the rows, by products with all of them: no copy, but as much work."""

    def __init__(self, rows: Rows, where: Where) -> None:
        super().__init__(rows)
        self._where, self.shape = where, (len(where), rows.shape[1])

    def scores(self, weights: Array) -> Array:
        return self._all.scores(weights)[self._where]

    def combine(self, coefficients: Array) -> Array:
        return self._all.combine(self._padded(coefficients))

    def combine_all(self, *coefficients: Array) -> tuple[Array, ...]:
        return self._all.combine_all(*(self._padded(vector) for vector in coefficients))

    def hessian_product(self, vector: Array, scale: Array, shift: float) -> Array:
        return self._all.hessian_product(vector, self._padded(scale), shift)

    def _padded(self, coefficients: Array) -> Array:
        padded = self.arrays.zeros(self._all.shape[0])
        padded[self._where] = coefficients
        return padded

    def gram(self, where: Where, scale: Array) -> tuple[Array, Array]:
        return self._all.gram(self._where[where], scale)

    def subset(self, where: Where) -> Rows:
        return self._all.subset(self._where[where])

    def _copy(self) -> Rows:
        return self._all.subset(self._where)

    def stacked(self, *others: "MaskedRows") -> "MaskedRows":
        parts = [self._where, *(other._where for other in others)]
        return type(self)(self._all, self.arrays.concatenate(parts))

    def in_double(self) -> Rows:
        return self._copy().in_double()

    def rescaled(self, scaling: Scaling) -> Rows:
        return self._copy().rescaled(scaling)

    def parts(self) -> Iterator[tuple[slice, Rows]]:
        yield slice(0, self.shape[0]), self._copy()

    def squared(self) -> Rows:
        """Squares are computed again for every product: a copy of all rows is too large."""
        return MaskedRows(squared_rows(self._all), self._where)

    def count_entries(self, where: Where) -> int:
        return self._all.count_entries(self._where[where])

    def squared_norms(self) -> Array:
        return self._all.squared_norms()[self._where]

    def largest(self) -> float:
        return self._copy().largest()

    def exact(self) -> ExactRows:
        return self._copy().exact()


class ByParts(Rows):
    """Products of all rows as sums over parts, each of which is read once and then gone."""

    @abstractmethod
    def _parts(self, *coefficients: Array) -> Iterator[tuple[slice, Rows]]:
        """The parts with their places; those where all coefficients are zero may be left out."""

    def scores(self, weights: Array) -> Array:
        scores = self.arrays.empty(self.shape[0])
        for place, rows in self._parts():
            scores[place] = rows.scores(weights)
        return scores

    def combine(self, coefficients: Array) -> Array:
        return self.combine_all(coefficients)[0]

    def combine_all(self, *coefficients: Array) -> tuple[Array, ...]:
        totals = tuple(self.arrays.zeros(self.shape[1]) for _ in coefficients)
        for place, rows in self._parts(*coefficients):
            for total, vector in zip(totals, coefficients, strict=True):
                total += rows.combine(vector[place])
        return totals

    def hessian_product(self, vector: Array, scale: Array, shift: float) -> Array:
        total = self.arrays.zeros(self.shape[1])
        for place, rows in self._parts(scale):
            total += rows.hessian_product(vector, scale[place], shift)
        return total

    def squared_norms(self) -> Array:
        norms = self.arrays.empty(self.shape[0])
        for place, rows in self._parts():
            norms[place] = rows.squared_norms()
        return norms

    def largest(self) -> float:
        return max((rows.largest() for _, rows in self._parts()), default=0.0)

    def squared(self) -> Rows:
        return squared_rows(self)

    def stacked(self, *others: Rows) -> Rows:
        raise TypeError("all rows of a block cannot be stacked; copy some of them first.")


class SquaredRows(RowsView, ByParts):
    """Rows with every entry squared, a part at a time for every product."""

    def _parts(self, *coefficients: Array) -> Iterator[tuple[slice, Rows]]:
        for place, rows in self._all.parts():
            yield place, rows.squared()


def squared_rows(rows: Rows) -> Rows:
    """Rows of which products and norms can be taken, but no copies."""
    return SquaredRows(rows)  # type: ignore[abstract]


class PreciseRows(RowsView, ByParts):
    """All rows scaled in float64, made again a few at a time for every product."""

    def __init__(self, rows: Rows, scaling: Scaling) -> None:
        super().__init__(rows)
        self._scaling, self.is_double = scaling, True

    def _parts(self, *coefficients: Array) -> Iterator[tuple[slice, Rows]]:
        skip_zeros = bool(coefficients) and self.arrays is NUMPY  # on a device a look takes longer
        for place, rows in self._all.parts():
            if not skip_zeros or any(bool(vector[place].any()) for vector in coefficients):
                yield place, rows.rescaled(self._scaling)

    def gram(self, where: Where, scale: Array) -> tuple[Array, Array]:
        total = self.arrays.zeros((self.shape[1], self.shape[1]))
        product, padded = self.arrays.zeros(self.shape[1]), self.arrays.zeros(self.shape[0])
        padded[where] = scale
        for place, rows in self._all.parts():
            chosen = self.arrays.flatnonzero(padded[place])
            if len(chosen):
                scaled = rows.subset(chosen).rescaled(self._scaling)
                more = scaled.gram(self.arrays.flatnonzero(chosen >= 0), padded[place][chosen])
                total += more[0]
                product += more[1]
        return total, product

    def subset(self, where: Where) -> Rows:
        return self._all.subset(where).rescaled(self._scaling)

    def in_double(self) -> Self:
        return self

    def rescaled(self, scaling: Scaling) -> Rows:
        return self._all.rescaled(self._scaling).rescaled(scaling)

    def parts(self) -> Iterator[tuple[slice, Rows]]:
        return self._parts()

    def count_entries(self, where: Where) -> int:
        return self._all.count_entries(where)

    def exact(self) -> ExactRows:
        return self._all.rescaled(self._scaling).exact()


def precise(rows: Rows, scaling: Scaling) -> Rows:
    """Scaled rows with products in float64; the same rows if they are that already."""
    return rows if rows.is_double and scaling.is_identity else PreciseRows(rows, scaling)


def gram_by_parts(
    take: Callable[[Where | slice], Array], scale: Array, n_features: int, n_entries: int
) -> tuple[Array, Array]:
    """X' diag(scale) X and X' scale, summed over parts of `n_entries` entries.

    Rows of positive and of negative scale are summed apart, as squares of scaled rows, which is
    half the work of a product.
    """
    xp = namespace(scale)
    step = max(n_entries // max(n_features, 1), 64)
    if len(scale) <= step and not (scale < 0.0).any():
        root = xp.sqrt(scale)
        rows = take(slice(None)) * root[:, None]
        return rows.T @ rows, root @ rows
    total, product = xp.zeros((n_features, n_features)), xp.zeros(n_features)
    for sign, counted in ((1.0, scale > 0.0), (-1.0, scale < 0.0)):
        chosen = xp.flatnonzero(counted)
        for start in range(0, len(chosen), step):
            check_cancelled()
            part = chosen[start : start + step]
            root = xp.sqrt(abs(scale[part]))
            rows = take(part) * root[:, None]
            total += sign * (rows.T @ rows)
            product += sign * (root @ rows)
    return total, product


def exact_rows_in(n_bytes: float, per_row: float) -> float:
    """How many rows fit: three copies of each in float64, and six matrices of their products."""
    copies = 3.0 * 1.5 * per_row  # column numbers take half of what numbers do
    return max(4.0, (math.sqrt(copies**2 + 24.0 * max(n_bytes, 0.0) / 8.0) - copies) / 12.0)
