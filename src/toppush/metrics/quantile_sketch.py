"""How values are spread: some of them, with the share of all that is below each and up to it.

A few hundred numbers stand for millions of rows. Points of scores are read off them, and what has
moved since is found by counting new values between them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from toppush.types import Array

__all__ = ["Spread", "effective_rows", "even_levels", "top_levels", "translated"]

EXACT = 20
"""Rows at the top of a list of which each has a level of its own."""
STEP = 1.12
"""Below those, each level is so many times as far from the top as the one before."""
LOWER = 50
"""Even levels of the lower half."""
DIGITS = 7
"""Significant ones of a share that is kept."""


@dataclass(frozen=True)
class Spread:
    """Some of the values in rising order, with the share of all below each and up to it.

    Attributes
    ----------
    knots : array
        Values, rising. All different ones, if they are few; else those at some levels, the lowest
        and the highest among them.
    below, upto : array
        Share of the weight that is below a knot; and at it or below.
    rows : float
        How many rows the shares come from; with weights, how many they are worth.
    """

    knots: Array
    below: Array
    upto: Array
    rows: float

    @classmethod
    def of(cls, values: Array, weight: Array | None = None, *, levels: Array) -> Self:
        """The spread of values, none of them NaN, with knots at these shares; O(n log n)."""
        weights = np.ones(len(values)) if weight is None else np.asarray(weight, np.float64)
        counted = weights > 0.0
        found, mass = masses(values[counted], weights[counted])
        return cls.of_mass(found, mass, effective_rows(weights), levels=levels)

    @classmethod
    def of_mass(cls, values: Array, mass: Array, rows: float, *, levels: Array) -> Self:
        """The spread of different values, rising, from what each of them weighs."""
        sums = np.cumsum(np.asarray(mass, np.float64))
        upto = sums / (sums[-1] if len(sums) else 1.0)
        kept, last = np.arange(len(values)), len(values) - 1
        if len(values) > len(levels):
            at = np.searchsorted(upto, np.asarray(levels) * (1.0 - 1e-12))
            kept = np.unique(np.r_[0, np.minimum(at, last), last])
        return cls(values[kept], np.append(0.0, upto)[kept], upto[kept], rows)

    def share_below(self, values: Array) -> Array:
        """Share of the weight below each value, half of that at it; 0 to 1, never falling.

        Between two knots it rises evenly.
        """
        values = np.asarray(values, np.float64)
        at = np.searchsorted(self.knots, values, side="left")
        inside = np.minimum(at, len(self.knots) - 1)
        tied = self.knots[inside] == values
        middle = (self.below[inside] + self.upto[inside]) / 2.0
        edges = np.stack([self.below, self.upto], axis=1).ravel()
        between = np.interp(values, np.repeat(self.knots, 2), edges, left=0.0, right=1.0)
        return np.asarray(np.where(tied, middle, between))

    def value_at(self, shares: Array) -> Array:
        """The values that have such shares below them: undoes `share_below`."""
        edges = np.stack([self.below, self.upto], axis=1).ravel()
        return np.interp(shares, edges, np.repeat(self.knots, 2))

    def count(self, values: Array) -> Array:
        """How many values lie below the first knot, at it, between it and the second, and so on."""
        at = np.searchsorted(self.knots, values, side="left")
        tied = self.knots[np.minimum(at, len(self.knots) - 1)] == values
        return np.bincount(2 * at + tied, minlength=2 * len(self.knots) + 1).astype(np.float64)

    def shares(self) -> Array:
        """Share of the weight in each of the places that `count` counts."""
        edges = np.stack([self.below, self.upto], axis=1).ravel()
        return np.diff(edges, prepend=0.0, append=1.0)

    def distance(self, counts: Array) -> float:
        """Greatest difference of the shares up to a value, of counts as `count` gives them."""
        now = np.cumsum(counts) / max(float(counts.sum()), 1.0)
        return float(np.abs(now - np.cumsum(self.shares())).max()) if counts.any() else 0.0

    def as_json(self) -> dict[str, object]:
        """Plain numbers."""
        shares = {"below": rounded(self.below), "upto": rounded(self.upto)}
        return {"knots": self.knots.tolist(), **shares, "rows": self.rows}

    @classmethod
    def from_json(cls, known: Mapping[str, object]) -> Self:
        """Undo `as_json`; refuse what is no spread."""
        knots, below, upto = (numbers(known.get(name), name) for name in ("knots", "below", "upto"))
        sound = 0 < len(knots) == len(below) == len(upto) and (np.diff(knots) > 0.0).all()
        edges = np.stack([below, upto], axis=1).ravel() if sound else np.array([1.0, 0.0])
        if (np.diff(edges, prepend=0.0, append=1.0) < 0.0).any():
            raise ValueError("a spread has rising knots and rising shares, and these are none.")
        return cls(knots, below, upto, float(numbers([known.get("rows")], "rows")[0]))


def even_levels(count: int) -> Array:
    """Levels that are equally far apart, from 0 to 1."""
    return np.linspace(0.0, 1.0, count + 1)


def top_levels(rows: int) -> Array:
    """Levels for a ranked list: every row of its first few, ever fewer below, rising.

    The k-th row from the top is at most 12 % from a level as seen from the top.
    """
    steps = int(np.ceil(np.log(max(rows, 2)) / np.log(STEP)))
    places = np.unique(np.r_[np.arange(EXACT), np.rint(EXACT * STEP ** np.arange(steps))])
    places = places[places < rows / 2]
    return np.unique(np.r_[np.linspace(0.0, 0.5, LOWER), 1.0 - places / rows])


def translated(values: Array, source: Spread, target: Spread) -> Array:
    """Values of one spread as those of another that have the same share below them.

    Between two knots they go evenly; beyond the ends they go on, in units of the range from the
    middle to that end.
    """
    found = np.interp(values, source.knots, target.value_at(source.share_below(source.knots)))
    for end, beyond in ((-1, values > source.knots[-1]), (0, values < source.knots[0])):
        reach = [
            one.knots[end] - float(one.value_at(np.array([0.5]))[0]) for one in (source, target)
        ]
        factor = reach[1] / reach[0] if reach[0] else 1.0
        further = target.knots[end] + factor * (values - source.knots[end])
        found = np.where(beyond, further, found)
    return np.asarray(found)


def masses(values: Array, weights: Array) -> tuple[Array, Array]:
    """The different values, rising, and what each of them weighs in all."""
    if len(weights) and (weights == weights[0]).all():  # a sort takes a fifth of an argsort
        found, counts = np.unique(values, return_counts=True)
        return found, np.asarray(counts * weights[0], np.float64)
    found, place = np.unique(values, return_inverse=True)
    return found, np.bincount(place, weights, len(found)).astype(np.float64)


def effective_rows(weights: Array) -> float:
    """How many equal rows weights are worth: the square of their sum over the sum of squares."""
    squares = float(np.sum(weights**2))
    return float(np.sum(weights)) ** 2 / squares if squares > 0.0 else 0.0


def numbers(given: object, name: str) -> Array:
    """A list of finite numbers, or an error that names it."""
    listed = given if isinstance(given, list) else [None]
    if all(isinstance(one, (int, float)) for one in listed):
        found = np.array(listed, np.float64)
        if np.isfinite(found).all():
            return found
    raise ValueError(f"{name!r} is no list of finite numbers.")


def rounded(shares: Array) -> list[float]:
    """Shares with the digits that are worth keeping; 1 stays 1."""
    return [float(f"{share:.{DIGITS}g}") for share in shares.tolist()]
