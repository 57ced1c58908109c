"""Quantile sketches: the distribution of many values, kept as a few hundred numbers.

Percentile scores are computed from the sketch of the scores. Drift is found by counting new values
in the cells between its knots.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from toppush.types import Array

EXACT = 20
"""Rows at the top of a ranking that have a level each."""
STEP = 1.12
"""Ratio of the distances of two levels below those from the top."""
LOWER = 50
"""Evenly spaced levels of the lower half."""
DIGITS = 7
"""Significant digits of the fractions in a file."""


@dataclass(frozen=True)
class QuantileSketch:
    """Some of the values in ascending order, with the fraction of all below each and up to it.

    Attributes
    ----------
    knots : array
        All distinct values if they are few; else those at the levels, the lowest and the highest.
    below, up_to : array
        Fraction of the weight below a knot, and at or below it.
    rows : float
        Effective number of rows.
    """

    knots: Array
    below: Array
    up_to: Array
    rows: float

    @classmethod
    def of(cls, values: Array, weight: Array | None = None, *, levels: Array) -> Self:
        """The sketch of values, none of them NaN, with knots at these levels; O(n log n)."""
        weights = np.ones(len(values)) if weight is None else np.asarray(weight, np.float64)
        counted = weights > 0.0
        distinct, mass = masses(values[counted], weights[counted])
        return cls.of_mass(distinct, mass, effective_rows(weights), levels=levels)

    @classmethod
    def of_mass(cls, values: Array, mass: Array, rows: float, *, levels: Array) -> Self:
        """The sketch of distinct values in ascending order with their total weights."""
        sums = np.cumsum(np.asarray(mass, np.float64))
        up_to = sums / (sums[-1] if len(sums) else 1.0)
        kept, last = np.arange(len(values)), len(values) - 1
        if len(values) > len(levels):
            at = np.searchsorted(up_to, np.asarray(levels) * (1.0 - 1e-12))
            kept = np.unique(np.r_[0, np.minimum(at, last), last])
        return cls(values[kept], np.append(0.0, up_to)[kept], up_to[kept], rows)

    @property
    def edges(self) -> Array:
        """The fractions below and up to each knot, one after the other."""
        return np.stack([self.below, self.up_to], axis=1).ravel()

    def fraction_below(self, values: Array) -> Array:
        """Fraction of the weight below each value, ties by half; linear between two knots."""
        values = np.asarray(values, np.float64)
        at = np.searchsorted(self.knots, values, side="left")
        inside = np.minimum(at, len(self.knots) - 1)
        tied = self.knots[inside] == values
        middle = (self.below[inside] + self.up_to[inside]) / 2.0
        between = np.interp(values, np.repeat(self.knots, 2), self.edges, left=0.0, right=1.0)
        return np.asarray(np.where(tied, middle, between))

    def quantile(self, fractions: Array) -> Array:
        """The values with these fractions below them: the inverse of `fraction_below`."""
        return np.interp(fractions, self.edges, np.repeat(self.knots, 2))

    def count(self, values: Array) -> Array:
        """Number of values in each cell: below the first knot, at it, up to the second, ..."""
        at = np.searchsorted(self.knots, values, side="left")
        tied = self.knots[np.minimum(at, len(self.knots) - 1)] == values
        return np.bincount(2 * at + tied, minlength=2 * len(self.knots) + 1).astype(np.float64)

    def fractions(self) -> Array:
        """Fraction of the weight in each cell of `count`."""
        return np.diff(self.edges, prepend=0.0, append=1.0)

    def distance(self, counts: Array) -> float:
        """Kolmogorov-Smirnov distance from values counted by `count`."""
        now = np.cumsum(counts) / max(float(counts.sum()), 1.0)
        return float(np.abs(now - np.cumsum(self.fractions())).max()) if counts.any() else 0.0

    def as_json(self) -> dict[str, object]:
        """Plain numbers."""
        fractions = {"below": rounded(self.below), "up_to": rounded(self.up_to)}
        return {"knots": self.knots.tolist(), **fractions, "rows": self.rows}

    @classmethod
    def from_json(cls, table: object) -> Self:
        """The inverse of `as_json`; invalid input is refused."""
        if not isinstance(table, Mapping):
            raise ValueError("'sketch' is no table.")
        knots, below, up_to = (
            numbers(table.get(name), name) for name in ("knots", "below", "up_to")
        )
        if not 0 < len(knots) == len(below) == len(up_to) or (np.diff(knots) <= 0.0).any():
            raise ValueError("a quantile sketch needs rising knots with two fractions each.")
        sketch = cls(knots, below, up_to, float(numbers([table.get("rows")], "rows")[0]))
        if (sketch.fractions() < 0.0).any():
            raise ValueError("the fractions of a quantile sketch must rise from 0 to 1.")
        return sketch


def even_levels(count: int) -> Array:
    """Evenly spaced levels from 0 to 1."""
    return np.linspace(0.0, 1.0, count + 1)


def top_levels(rows: int) -> Array:
    """Levels for a ranking: every row of its first few, fewer and fewer below, ascending.

    The distance of the k-th row from the top differs from that of a level by at most 12 %.
    """
    steps = int(np.ceil(np.log(max(rows, 2)) / np.log(STEP)))
    places = np.unique(np.r_[np.arange(EXACT), np.rint(EXACT * STEP ** np.arange(steps))])
    places = places[places < rows / 2]
    return np.unique(np.r_[np.linspace(0.0, 0.5, LOWER), 1.0 - places / rows])


def translated(values: Array, source: QuantileSketch, target: QuantileSketch) -> Array:
    """Values of one sketch as the values of another at the same quantile.

    Linear between two knots; beyond the ends, distances are scaled by the ratio of the ranges from
    the median to that end.
    """
    at_knots = target.quantile(source.fraction_below(source.knots))
    result = np.interp(values, source.knots, at_knots)
    for end, beyond in ((-1, values > source.knots[-1]), (0, values < source.knots[0])):
        reach = [
            sketch.knots[end] - float(sketch.quantile(np.array([0.5]))[0])
            for sketch in (source, target)
        ]
        factor = reach[1] / reach[0] if reach[0] else 1.0
        further = target.knots[end] + factor * (values - source.knots[end])
        result = np.where(beyond, further, result)
    return np.asarray(result)


def masses(values: Array, weights: Array) -> tuple[Array, Array]:
    """The distinct values in ascending order, and the total weight of each."""
    if len(weights) and (weights == weights[0]).all():  # a sort takes a fifth of an argsort
        distinct, counts = np.unique(values, return_counts=True)
        return distinct, np.asarray(counts * weights[0], np.float64)
    distinct, place = np.unique(values, return_inverse=True)
    return distinct, np.bincount(place, weights, len(distinct)).astype(np.float64)


def effective_rows(weights: Array) -> float:
    """Effective number of rows: the square of the sum of the weights over the sum of squares."""
    squares = float(np.sum(weights**2))
    return float(np.sum(weights)) ** 2 / squares if squares > 0.0 else 0.0


def numbers(values: object, name: str) -> Array:
    """A list of finite numbers as an array, or an error that names it."""
    listed = values if isinstance(values, list) else [None]
    if all(isinstance(value, (int, float)) for value in listed):
        array = np.array(listed, np.float64)
        if np.isfinite(array).all():
            return array
    raise ValueError(f"{name!r} is no list of finite numbers.")


def rounded(fractions: Array) -> list[float]:
    """Fractions with the digits that are kept in files; 1 stays 1."""
    return [float(f"{fraction:.{DIGITS}g}") for fraction in fractions.tolist()]
