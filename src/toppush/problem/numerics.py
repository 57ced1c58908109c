"""The mean of a list's top and the nearest point of the dual's domain, found from sums alone.

No search holds the rows: each takes a function that answers for all rows at once, wherever they
live, and needs a handful of rounds; a bound on the rounds holds for any input.

The domain is a >= 0, b >= 0, sum a = sum b, and b_j <= (sum a) / k for the top-k family. The
nearest point is a = (point - shift)_+ on the positives' side and b = clip(point + lift, 0, cap)
on the negatives', with shift = lift and no cap when k = 1. Paper: gamma -> shift.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from toppush.designs.arrays import namespace, number
from toppush.types import Array

MAX_ROUNDS = 300
ROUNDING = 8 * float(np.finfo(np.float64).eps)
Answer = tuple[float, float, float]
MIN_SCALE, MAX_SCALE = 1e-290, 1e290
FEWEST = 1e-3
"""Least rate at which the positives' mass may be taken to fall, where rounding leaves none."""


def root(
    ask: Callable[[float], Answer],
    low: float,
    high: float,
    guess: float,
    *,
    tolerance: float = ROUNDING,
) -> float:
    """Where a non-increasing function crosses zero between `low` and `high`.

    `ask(level)` gives the function's value, its slope (<= 0) and the size of the terms that
    cancel in the value, which sets what rounding can resolve. Newton's step is taken while it
    stays inside the bracket and halves the value; otherwise the bracket is halved in the order
    of floating-point numbers, which ends after 64 halvings whatever the scale. A piecewise
    linear function is solved exactly, in about five rounds. It ends when the value is at most
    `tolerance` times that size, or a step would be lost in the level's rounding.
    """
    level, previous = min(max(guess, low), high), np.inf
    for _ in range(MAX_ROUNDS):
        value, slope, size = ask(level)
        step = -value / slope if slope < 0.0 else np.nan
        if abs(value) <= tolerance * size or abs(step) <= ROUNDING * abs(level):
            return min(max(level + step, low), high) if np.isfinite(step) else level
        low, high = (level, high) if value > 0.0 else (low, level)
        newton = level + step
        if not low < newton < high or abs(value) > 0.5 * previous:
            newton, value = halfway(low, high), np.inf  # Newton may try again from there
        if newton in (low, high):
            return newton
        level, previous = newton, abs(value)
    return level


def halfway(low: float, high: float) -> float:
    """The middle of two floats in the order of all floats: 0 lies half-way from -inf to inf."""
    order = (_ordinal(low) + _ordinal(high)) // 2
    bits = np.int64(order if order >= 0 else -order)
    size = float(bits.view(np.float64))
    return size if order >= 0 else -size


def _ordinal(number: float) -> int:
    bits = int(np.float64(abs(number)).view(np.int64))
    return bits if number >= 0.0 else -bits


def top_mean(
    ask: Callable[[float], tuple[float, float]],
    k: float,
    low: float,
    high: float,
    *,
    guess: float | None = None,
) -> tuple[float, float]:
    """Mean of the k greatest of some numbers between `low` and `high`, and a level attaining it.

    `ask(level)` gives the sum of (number - level)_+ and how many numbers lie above `level`.
    The mean is the least value of level + sum (number - level)_+ / k over the level, a convex
    piecewise linear function; the two tangents that bracket its minimum meet at the next
    level, and every third round halves the bracket instead.
    """
    excess, above = ask(low)
    if above <= k:
        return low + excess / k, low
    left, right = (low, low + excess / k, 1.0 - above / k), (high, high, 1.0)
    for n_round in range(MAX_ROUNDS):
        level = _meeting(left, right)
        least = left[1] + left[2] * (level - left[0])
        if min(left[1], right[1]) - least <= ROUNDING * max(abs(low), abs(high)):
            break
        if n_round == 0 and guess is not None:
            level = guess
        elif n_round % 3 == 2:
            level = 0.5 * (left[0] + right[0])
        if not left[0] < level < right[0]:
            if n_round == 0 and guess is not None:
                continue
            break
        excess, above = ask(level)
        value, slope = level + excess / k, 1.0 - above / k
        if slope == 0.0:
            return value, level
        if slope < 0.0:
            left = (level, value, slope)
        else:
            right = (level, value, slope)
    return min((left[1], left[0]), (right[1], right[0]))


def _meeting(left: tuple[float, float, float], right: tuple[float, float, float]) -> float:
    """Where the tangents (at, value, slope) on the two sides of a minimum cross."""
    (at, value, slope), (other, other_value, other_slope) = left, right
    return at + (other_value - value - other_slope * (other - at)) / (slope - other_slope)


class Landing(NamedTuple):
    """The three numbers that fix the nearest point."""

    shift: float
    lift: float
    cap: float


class Clipped(NamedTuple):
    """Sums over clip(entry + lift, 0, cap): its total, who is inside, who is above."""

    mass: float
    n_free: float
    n_capped: float
    excess: float
    """What the cap cuts off: the sum of (entry + lift - cap)_+."""


class Extent(NamedTuple):
    """Where the entries to project lie."""

    top_positive: float
    """Greatest entry of the positives' side; infinite if no shift brings its mass to zero."""
    top_negative: float
    low_negative: float
    capacity: float = np.inf
    """Mass that the positives' side cannot exceed."""


class Sides(Protocol):
    """Sums over the two sides of the point to project, wherever the entries live."""

    def extent(self) -> Extent:
        """Greatest and least entries."""

    def positives(self, shift: float) -> tuple[float, float]:
        """Mass sum a(shift), and how fast it falls as shift grows."""

    def negatives(self, lift: float, cap: float) -> Clipped:
        """Mass sum clip(entry + lift, 0, cap) and its parts."""


def find_landing(sides: Sides, k: int = 1, *, guess: float = 0.0) -> Landing:
    """Shift, lift and cap of the nearest point; about five rounds of sums for k = 1.

    For k > 1 it is a search for the cap, where each cap costs a search for the shift and one
    for the lift that give both sides the mass k cap. The squared distance is convex in that
    mass, with slope lift - shift - excess / k.
    """
    extent = sides.extent()
    if k == 1:
        return _find_uncapped(sides, extent, guess)
    if extent.top_positive + _negatives_top_mean(sides, extent, k) <= 0.0:
        return Landing(extent.top_positive, -extent.top_negative, 0.0)
    shift = lift = guess

    def pull(cap: float) -> tuple[float, float, float]:
        nonlocal shift, lift
        shift = _shift_for(sides, extent, k * cap, shift)
        lift = _lift_for(sides, extent, k * cap, cap, lift)
        fall = max(sides.positives(shift)[1], FEWEST)
        _, n_free, n_capped, excess = sides.negatives(lift, cap)
        lift_rise = (k - n_capped) / n_free if n_free else 0.0
        slope = k / fall + lift_rise * (1.0 - n_capped / k) + n_capped / k
        # The last term is how far the shift and the lift are known, the mass being rounded.
        size = abs(shift) + abs(lift) + excess / k + k * cap / min(fall, n_free or 1.0)
        return shift + excess / k - lift, -slope, size

    start = 0.5 * max(sides.positives(shift)[0], sides.negatives(lift, np.inf).mass) / k
    cap = root(pull, 0.0, extent.capacity / k, max(start, np.finfo(float).tiny))
    pull(cap)
    return Landing(shift, lift, cap)


def _find_uncapped(sides: Sides, extent: Extent, guess: float) -> Landing:
    def imbalance(shift: float) -> tuple[float, float, float]:
        mass, fall = sides.positives(shift)
        other, n_free, _, _ = sides.negatives(shift, np.inf)
        return mass - other, -fall - n_free, mass + other

    low = -extent.top_negative
    shift = root(imbalance, low, max(low, extent.top_positive), guess)
    return Landing(shift, shift, np.inf)


def _negatives_top_mean(sides: Sides, extent: Extent, k: int) -> float:
    def above(level: float) -> tuple[float, float]:
        mass, n_free, _, _ = sides.negatives(-level, np.inf)
        return mass, n_free

    return top_mean(above, k, extent.low_negative, extent.top_negative)[0]


def _shift_for(sides: Sides, extent: Extent, mass: float, guess: float) -> float:
    """The shift that leaves the positives' side with this mass."""

    def surplus(shift: float) -> tuple[float, float, float]:
        found, fall = sides.positives(shift)
        return found - mass, -fall, found + mass

    def log_surplus(shift: float) -> tuple[float, float, float]:
        found, fall = sides.positives(shift)
        if found <= 0.0:
            return -np.inf, 0.0, 1.0
        return float(np.log(found / mass)), -fall / found, 1.0

    # A response that never reaches zero falls like an exponential: a line in its logarithm.
    ask = log_surplus if extent.top_positive == np.inf else surplus
    return root(ask, -np.inf, extent.top_positive, guess)


def _lift_for(sides: Sides, extent: Extent, mass: float, cap: float, guess: float) -> float:
    """The lift that gives the negatives' side this mass; it falls as minus the lift grows."""

    def surplus(drop: float) -> tuple[float, float, float]:
        found, n_free, _, _ = sides.negatives(-drop, cap)
        return found - mass, -n_free, found + mass

    return -root(surplus, extent.low_negative - cap, extent.top_negative, -guess)


def project(positives: Array, negatives: Array, k: int = 1) -> tuple[Array, Array]:
    """Nearest a >= 0, b >= 0 with sum a = sum b and, for k > 1, b_j <= (sum a) / k.

    Exact up to rounding, ties included; linear time for any order and any scale.

    Parameters
    ----------
    positives, negatives : array of float
        The point to project; finite, neither side empty.
    k : int
        At most the number of negatives; 1 needs no cap.

    Returns
    -------
    a, b : array of float64
    """
    positives, negatives = np.asarray(positives, float), np.asarray(negatives, float)
    if not positives.size or not negatives.size:
        raise ValueError(
            f"both sides need entries, found {positives.size} and {negatives.size}; "
            "a projection onto equal sums has no meaning for an empty side."
        )
    if not 1 <= k <= negatives.size:
        raise ValueError(f"k must be 1 to {negatives.size} (the number of negatives), found {k}.")
    size = float(np.max(np.abs([*_ends(positives), *_ends(negatives)])))
    if not np.isfinite(size):
        raise ValueError("the point to project has NaN or infinite entries; remove them.")
    if size and not MIN_SCALE < size < MAX_SCALE:
        # Sums would overflow or lose digits; a power of two loses none.
        exponent = int(np.frexp(size)[1])
        a, b = project(np.ldexp(positives, -exponent), np.ldexp(negatives, -exponent), k)
        return np.ldexp(a, exponent, out=a), np.ldexp(b, exponent, out=b)
    landing = find_landing(ArraySides(positives, negatives), k)
    a, b = positives - landing.shift, negatives + landing.lift
    return np.maximum(a, 0.0, out=a), np.clip(b, 0.0, landing.cap, out=b)


def _ends(entries: Array) -> tuple[float, float]:
    return float(entries.min()), float(entries.max())


@dataclass(frozen=True)
class ArraySides:
    """The two sides as arrays of this process."""

    on_positives: Array
    on_negatives: Array

    def extent(self) -> Extent:
        """Greatest and least entries."""
        low, high = _ends(self.on_negatives)
        return Extent(float(self.on_positives.max()), high, low)

    def positives(self, shift: float) -> tuple[float, float]:
        """Sum and number of the entries above `shift`, as (entry - shift)_+."""
        return mass_above(self.on_positives, shift)

    def negatives(self, lift: float, cap: float) -> Clipped:
        """Sums of clip(entry + lift, 0, cap)."""
        return clipped_mass(self.on_negatives, lift, cap)


def chunks(*vectors: Array) -> list[tuple[Array, ...]]:
    """The vectors in step, a cacheful at a time where that counts."""
    step, size = namespace(vectors[0]).chunk, len(vectors[0])
    if size <= step:
        return [vectors] if size else []
    return [tuple(vector[at : at + step] for vector in vectors) for at in range(0, size, step)]


def mass_above(entries: Array, level: float) -> tuple[float, float]:
    """Sum of (entry - level)_+, and how many entries lie above the level."""
    xp, mass, count = namespace(entries), 0.0, 0.0
    for (chunk,) in chunks(entries):
        above = xp.maximum(chunk - level, 0.0)
        mass += number(above.sum())
        count += number(xp.count_nonzero(above))
    return mass, count


def clipped_mass(entries: Array, lift: float, cap: float) -> Clipped:
    """Sums of clip(entry + lift, 0, cap)."""
    mass, count = mass_above(entries, -lift)
    if cap == np.inf:
        return Clipped(mass, count, 0.0, 0.0)
    excess, n_capped = mass_above(entries, cap - lift)
    return Clipped(mass - excess, count - n_capped, n_capped, excess)


UNIT = 0.5 * float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)
"""More than what underflows in a sum."""
SUMMED = 256
"""Roundings in NumPy's sum of a vector, which adds halves, and in the few steps around it."""


def grown(n_roundings: float, unit: float = UNIT) -> float:
    """Relative error after this many roundings and a few more."""
    total = (n_roundings + 16.0) * unit
    return total / (1.0 - total)
