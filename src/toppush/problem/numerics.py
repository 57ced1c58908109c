"""Root finding, the mean of the k greatest, the projection onto the dual's domain, and rounding.

No search holds the rows: each takes a function that returns sums over all rows, wherever they are
stored, and needs a handful of evaluations, with an upper limit for any input.

The dual's domain is a >= 0, b >= 0, sum a = sum b, and b_j <= (sum a) / k for the top-k family.
The projection is a = max(point - alpha, 0) on the positives and b = clip(point + beta, 0, cap) on
the negatives; alpha and beta are the multipliers of the two sums (the paper's gamma). For k = 1
they are equal and there is no cap.

A sum of n products in float64 is off by at most n u / (1 - n u) times the sum of their sizes,
u = 2^-53, in whatever order they are added (Higham, Accuracy and Stability, section 3.1). Bounds
are rounded outward by that much.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from toppush.designs.arrays import namespace, number
from toppush.types import Array

UNIT = 0.5 * float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)
"""More than what underflows in a sum."""
SUMMED = 256
"""Roundings in NumPy's sum of a vector, which adds halves, and in the few steps around it."""
MAX_ROUNDS = 300
ROUNDING = 8 * float(np.finfo(np.float64).eps)
Evaluation = tuple[float, float, float]
MIN_SCALE, MAX_SCALE = 1e-290, 1e290
MIN_RATE = 1e-3
"""Least rate at which the positives' mass falls in alpha, where rounding leaves none."""


def root(
    evaluate: Callable[[float], Evaluation],
    low: float,
    high: float,
    guess: float,
    *,
    tolerance: float = ROUNDING,
) -> float:
    """Where a non-increasing function crosses zero between `low` and `high`.

    `evaluate(level)` gives the function's value, its slope (<= 0) and the size of the terms that
    cancel in the value, which sets what rounding can resolve. Newton's step is taken while it
    stays inside the bracket and halves the value; otherwise the bracket is halved in the order
    of floating-point numbers, which ends after 64 halvings whatever the scale. A piecewise
    linear function is solved exactly, in about five rounds. It ends when the value is at most
    `tolerance` times that size, or a step would be lost in the level's rounding.
    """
    level, previous = min(max(guess, low), high), np.inf
    for _ in range(MAX_ROUNDS):
        value, slope, size = evaluate(level)
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
    """The middle of two floats in the order of all floats: 0 is half-way from -inf to inf."""
    order = (_ordinal(low) + _ordinal(high)) // 2
    bits = np.int64(order if order >= 0 else -order)
    size = float(bits.view(np.float64))
    return size if order >= 0 else -size


def _ordinal(number: float) -> int:
    bits = int(np.float64(abs(number)).view(np.int64))
    return bits if number >= 0.0 else -bits


def top_mean(
    evaluate: Callable[[float], tuple[float, float]],
    k: float,
    low: float,
    high: float,
    *,
    guess: float | None = None,
) -> tuple[float, float]:
    """Mean of the k greatest of some numbers between `low` and `high`, and a level attaining it.

    `evaluate(level)` gives the sum of (number - level)_+ and how many numbers lie above `level`.
    The mean is the least value of level + sum (number - level)_+ / k over the level, a convex
    piecewise linear function; the two tangents that bracket its minimum meet at the next
    level, and every third round halves the bracket instead.
    """
    excess, above = evaluate(low)
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
        excess, above = evaluate(level)
        value, slope = level + excess / k, 1.0 - above / k
        if slope == 0.0:
            return value, level
        if slope < 0.0:
            left = (level, value, slope)
        else:
            right = (level, value, slope)
    return min((left[1], left[0]), (right[1], right[0]))


def _meeting(left: tuple[float, float, float], right: tuple[float, float, float]) -> float:
    """Where two tangents (at, value, slope) on either side of a minimum cross."""
    (at, value, slope), (other, other_value, other_slope) = left, right
    return at + (other_value - value - other_slope * (other - at)) / (slope - other_slope)


class Multipliers(NamedTuple):
    """The three numbers that determine the projection."""

    alpha: float
    beta: float
    cap: float


class Clipped(NamedTuple):
    """Sums over clip(entry + beta, 0, cap): the total, and how many are inside and above."""

    mass: float
    n_free: float
    n_capped: float
    excess: float
    """Sum of (entry + beta - cap)_+."""


class Extent(NamedTuple):
    """The range of the entries to project."""

    top_positive: float
    """Greatest entry of the positives; infinite if no alpha brings their mass to zero."""
    top_negative: float
    low_negative: float
    capacity: float = np.inf
    """Upper limit of the positives' mass."""


class PointSums(Protocol):
    """Sums over both classes' entries of the point to project."""

    def extent(self) -> Extent:
        """Greatest and least entries."""

    def positives(self, alpha: float) -> tuple[float, float]:
        """Mass sum a(alpha), and minus its derivative."""

    def negatives(self, beta: float, cap: float) -> Clipped:
        """Mass sum clip(entry + beta, 0, cap) and its parts."""


def projection_multipliers(sums: PointSums, k: int = 1, *, guess: float = 0.0) -> Multipliers:
    """The multipliers of the projection; about five rounds of sums for k = 1.

    For k > 1 it is a search for the cap, where each cap takes a search for alpha and one for beta
    that give both classes the mass k cap. The squared distance is convex in that mass, with slope
    beta - alpha - excess / k.
    """
    extent = sums.extent()
    if k == 1:
        return _uncapped_multipliers(sums, extent, guess)

    def negatives_above(level: float) -> tuple[float, float]:
        mass, n_free, _, _ = sums.negatives(-level, np.inf)
        return mass, n_free

    top = top_mean(negatives_above, k, extent.low_negative, extent.top_negative)[0]
    if extent.top_positive + top <= 0.0:
        return Multipliers(extent.top_positive, -extent.top_negative, 0.0)
    alpha = beta = guess

    def slope_at(cap: float) -> tuple[float, float, float]:
        nonlocal alpha, beta
        alpha = _alpha_for(sums, extent, k * cap, alpha)
        beta = _beta_for(sums, extent, k * cap, cap, beta)
        fall = max(sums.positives(alpha)[1], MIN_RATE)
        _, n_free, n_capped, excess = sums.negatives(beta, cap)
        beta_rate = (k - n_capped) / n_free if n_free else 0.0
        derivative = k / fall + beta_rate * (1.0 - n_capped / k) + n_capped / k
        # The last term bounds the error of alpha and beta, the mass being rounded.
        size = abs(alpha) + abs(beta) + excess / k + k * cap / min(fall, n_free or 1.0)
        return alpha + excess / k - beta, -derivative, size

    start = 0.5 * max(sums.positives(alpha)[0], sums.negatives(beta, np.inf).mass) / k
    cap = root(slope_at, 0.0, extent.capacity / k, max(start, np.finfo(float).tiny))
    slope_at(cap)
    return Multipliers(alpha, beta, cap)


def _uncapped_multipliers(sums: PointSums, extent: Extent, guess: float) -> Multipliers:
    def imbalance(alpha: float) -> tuple[float, float, float]:
        mass, fall = sums.positives(alpha)
        of_negatives, n_free, _, _ = sums.negatives(alpha, np.inf)
        return mass - of_negatives, -fall - n_free, mass + of_negatives

    low = -extent.top_negative
    alpha = root(imbalance, low, max(low, extent.top_positive), guess)
    return Multipliers(alpha, alpha, np.inf)


def _alpha_for(sums: PointSums, extent: Extent, mass: float, guess: float) -> float:
    """The alpha at which the positives have this mass."""

    def surplus(alpha: float) -> tuple[float, float, float]:
        current, fall = sums.positives(alpha)
        return current - mass, -fall, current + mass

    def log_surplus(alpha: float) -> tuple[float, float, float]:
        current, fall = sums.positives(alpha)
        if current <= 0.0:
            return -np.inf, 0.0, 1.0
        return float(np.log(current / mass)), -fall / current, 1.0

    # A mass that never reaches zero falls like an exponential: a line in its logarithm.
    evaluate = log_surplus if extent.top_positive == np.inf else surplus
    return root(evaluate, -np.inf, extent.top_positive, guess)


def _beta_for(sums: PointSums, extent: Extent, mass: float, cap: float, guess: float) -> float:
    """The beta at which the negatives have this mass; the search is over -beta."""

    def surplus(minus_beta: float) -> tuple[float, float, float]:
        current, n_free, _, _ = sums.negatives(-minus_beta, cap)
        return current - mass, -n_free, current + mass

    return -root(surplus, extent.low_negative - cap, extent.top_negative, -guess)


def project(positives: Array, negatives: Array, k: int = 1) -> tuple[Array, Array]:
    """Nearest a >= 0, b >= 0 with sum a = sum b and, for k > 1, b_j <= (sum a) / k.

    Exact up to rounding, ties included; linear time for any order and any scale.

    Parameters
    ----------
    positives, negatives : array of float
        The point to project; finite, neither class empty.
    k : int
        At most the number of negatives; 1 needs no cap.

    Returns
    -------
    a, b : array of float64
    """
    positives, negatives = np.asarray(positives, float), np.asarray(negatives, float)
    if not positives.size or not negatives.size:
        raise ValueError(
            f"both classes need entries, found {positives.size} and {negatives.size}; "
            "a projection onto equal sums has no meaning for an empty class."
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
    alpha, beta, cap = projection_multipliers(ArraySums(positives, negatives), k)
    a, b = positives - alpha, negatives + beta
    return np.maximum(a, 0.0, out=a), np.clip(b, 0.0, cap, out=b)


def _ends(entries: Array) -> tuple[float, float]:
    return float(entries.min()), float(entries.max())


@dataclass(frozen=True)
class ArraySums:
    """`PointSums` of two NumPy arrays."""

    on_positives: Array
    on_negatives: Array

    def extent(self) -> Extent:
        """Greatest and least entries."""
        low, high = _ends(self.on_negatives)
        return Extent(float(self.on_positives.max()), high, low)

    def positives(self, alpha: float) -> tuple[float, float]:
        """Sum of (entry - alpha)_+, and how many entries are above alpha."""
        return mass_above(self.on_positives, alpha)

    def negatives(self, beta: float, cap: float) -> Clipped:
        """Sums of clip(entry + beta, 0, cap)."""
        return clipped_mass(self.on_negatives, beta, cap)


def chunks(*vectors: Array) -> list[tuple[Array, ...]]:
    """The vectors in parts that fit the cache, all cut at the same places."""
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


def clipped_mass(entries: Array, beta: float, cap: float) -> Clipped:
    """Sums of clip(entry + beta, 0, cap)."""
    mass, count = mass_above(entries, -beta)
    if cap == np.inf:
        return Clipped(mass, count, 0.0, 0.0)
    excess, n_capped = mass_above(entries, cap - beta)
    return Clipped(mass - excess, count - n_capped, n_capped, excess)


def grown(n_roundings: float, unit: float = UNIT) -> float:
    """Relative error after this many roundings and a few more."""
    total = (n_roundings + 16.0) * unit
    return total / (1.0 - total)
