"""Searches for one number that never hold the rows: they ask for sums, round by round.

Each search takes a function that answers for all rows at once, wherever the rows live, and
needs a handful of rounds; a bound on the rounds holds for any input.
"""

from collections.abc import Callable

import numpy as np

MAX_ROUNDS = 300
ROUNDING = 8 * float(np.finfo(np.float64).eps)

Answer = tuple[float, float, float]


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
