"""Rows that are seen through other rows: some of them, or all of them in another form."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Self, cast

from toppush.designs.arrays import NUMPY, Arrays
from toppush.designs.rows import ExactRows, GramAnew, Rows, Scaling
from toppush.types import Array, Where


class MaskedRows(GramAnew):
    """Some of the rows, by products with all of them: no copy, but as much work."""

    def __init__(self, rows: Rows, where: Where) -> None:
        self._all, self._where = rows, where
        self.shape = (len(where), rows.shape[1])
        self.n_entries, self.tally, self.arrays = rows.n_entries, rows.tally, rows.arrays
        self.room, self.copy_cost = rows.room, rows.copy_cost
        self.is_double, self.can_center = rows.is_double, rows.can_center

    def scores(self, weights: Array) -> Array:
        return self._all.scores(weights)[self._where]

    def combine(self, coefficients: Array) -> Array:
        return self._all.combine(self._padded(coefficients))

    def combine_all(self, *coefficients: Array) -> tuple[Array, ...]:
        return self._all.combine_all(*(self._padded(one) for one in coefficients))

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

    def stacked(self, *others: "MaskedRows") -> "MaskedRows":
        parts = [self._where, *(other._where for other in others)]
        return type(self)(self._all, self.arrays.concatenate(parts))

    def in_double(self) -> Rows:
        return self._all.subset(self._where).in_double()

    def rescaled(self, form: Scaling) -> Rows:
        return self._all.subset(self._where).rescaled(form)

    def parts(self) -> Iterator[tuple[slice, Rows]]:
        yield slice(0, self.shape[0]), self._all.subset(self._where)

    def squared(self) -> Rows:
        """Squares are taken anew for every product: all rows are too many to copy."""
        return MaskedRows(cast(Rows, SquaredRows(self._all)), self._where)

    def count_entries(self, where: Where) -> int:
        return self._all.count_entries(self._where[where])

    def squared_norms(self) -> Array:
        return self._all.squared_norms()[self._where]

    def largest(self) -> float:
        return self._all.subset(self._where).largest()

    def exact(self) -> ExactRows:
        return self._all.subset(self._where).exact()


class ByParts(GramAnew, ABC):
    """Products of all rows as sums over parts, each of which is taken once and then gone."""

    shape: tuple[int, int]
    arrays: Arrays

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
        return cast(Rows, SquaredRows(cast(Rows, self)))

    def stacked(self, *others: Rows) -> Rows:
        raise TypeError("all rows of a block cannot be stacked; copy some of them first.")


class SquaredRows(ByParts):
    """Rows with every entry squared, a part at a time for every product; nothing else of them."""

    def __init__(self, rows: Rows) -> None:
        self._all, self.shape, self.n_entries = rows, rows.shape, rows.n_entries
        self.tally, self.arrays, self.is_double = rows.tally, rows.arrays, rows.is_double
        self.room, self.copy_cost, self.can_center = rows.room, rows.copy_cost, False

    def _parts(self, *coefficients: Array) -> Iterator[tuple[slice, Rows]]:
        for place, rows in self._all.parts():
            yield place, rows.squared()


class PreciseRows(ByParts):
    """All rows in float64 and in some form, made anew a few at a time for every product."""

    def __init__(self, rows: Rows, form: Scaling) -> None:
        self._all, self._form = rows, form
        self.shape, self.n_entries, self.tally = rows.shape, rows.n_entries, rows.tally
        self.arrays, self.room, self.copy_cost = rows.arrays, rows.room, rows.copy_cost
        self.is_double, self.can_center = True, rows.can_center

    def _parts(self, *coefficients: Array) -> Iterator[tuple[slice, Rows]]:
        look = bool(coefficients) and self.arrays is NUMPY  # elsewhere a look takes longer
        for place, rows in self._all.parts():
            if not look or any(bool(one[place].any()) for one in coefficients):
                yield place, rows.rescaled(self._form)

    def gram(self, where: Where, scale: Array) -> tuple[Array, Array]:
        total = self.arrays.zeros((self.shape[1], self.shape[1]))
        product, spread = self.arrays.zeros(self.shape[1]), self.arrays.zeros(self.shape[0])
        spread[where] = scale
        for place, rows in self._all.parts():
            chosen = self.arrays.flatnonzero(spread[place])
            if len(chosen):
                formed = rows.subset(chosen).rescaled(self._form)
                more = formed.gram(self.arrays.flatnonzero(chosen >= 0), spread[place][chosen])
                total += more[0]
                product += more[1]
        return total, product

    def subset(self, where: Where) -> Rows:
        return self._all.subset(where).rescaled(self._form)

    def in_double(self) -> Self:
        return self

    def rescaled(self, form: Scaling) -> Rows:
        return self._all.rescaled(self._form).rescaled(form)

    def parts(self) -> Iterator[tuple[slice, Rows]]:
        return self._parts()

    def count_entries(self, where: Where) -> int:
        return self._all.count_entries(where)

    def exact(self) -> ExactRows:
        return self._all.rescaled(self._form).exact()


def precise(rows: Rows, form: Scaling) -> Rows:
    """Rows whose products are those of float64, in some form; the same rows if they are that."""
    return rows if rows.is_double and form.is_identity else PreciseRows(rows, form)
