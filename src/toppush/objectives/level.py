"""The smoothed top of the negatives: a level, and what part each negative has in the top.

p_j = c_j sigmoid((f_j - s) / delta) / k over negatives of weight c_j, with the level s at which
these sum to one. Letters: delta -> smoothing, k -> depth (in units of weight), s -> level.
"""

import math

import numpy as np
from scipy.special import expit

from toppush.metrics.curve import SLACK
from toppush.types import Array

MOST_STEPS = 200
"""Newton takes about five; halving alone ends within these."""
CLOSE, ROUNDING = 1e-10, 1e-15
"""Newton's last step, in units of the smoothing and of the level; its error is their square."""


def sigmoid(at: Array) -> Array:
    """1 / (1 + exp(-at)), to the last digit on both sides and without overflow."""
    return np.asarray(expit(at))


def depth_of(top: float, weight: float, n_rows: float) -> float:
    """Weight of the negatives that make the top: an int is a count, a float a share of them all.

    A share is not rounded to whole rows, but is at least one row of mean weight.
    """
    is_count = isinstance(top, int | np.integer)
    depth = float(top) if is_count else max(top * weight, weight / n_rows)
    allowed = 1 <= depth <= weight * SLACK if is_count else 0.0 < top <= 1.0
    if not allowed:
        raise ValueError(
            f"top={top!r} is out of range for negatives of weight {weight:g}; "
            f"give a count from 1 to {math.floor(weight)}, or a share above 0 and at most 1.0."
        )
    return min(depth, weight)


def level(scores: Array, weights: Array, depth: float, smoothing: float) -> float:
    """The s at which weights @ sigmoid((scores - s) / smoothing) is `depth`; -inf for all weight.

    Newton on the logit of the share above s, which is straight where scores tie, kept within the
    bounds that the least and the greatest score give and halving these where a step leaves them.
    """
    total = float(weights.sum())
    if depth * SLACK >= total:
        return -math.inf
    wanted = math.log(float(depth) / (total - float(depth)))
    low, high = (float(end) - smoothing * wanted for end in (scores.min(), scores.max()))
    at = min(max(_lowest_of_top(scores, weights, depth), low), high)
    for _ in range(MOST_STEPS):
        off, slope = _logit_of_share(at, scores, weights, smoothing)
        off -= wanted
        low, high = (at, high) if off > 0 else (low, at)
        step = off / slope if slope > 0 else math.inf
        new = at + step if low < at + step < high else 0.5 * (low + high)
        if abs(new - at) <= CLOSE * smoothing + ROUNDING * abs(at):
            return new
        at = new
    return at


def _lowest_of_top(scores: Array, weights: Array, depth: float) -> float:
    """The least score of the `depth` greatest, where a top that is not smoothed would begin."""
    order = np.argsort(-scores)
    place = int(np.searchsorted(np.cumsum(weights[order]), depth))
    return float(scores[order[min(place, len(order) - 1)]])


def _logit_of_share(
    at: float, scores: Array, weights: Array, smoothing: float
) -> tuple[float, float]:
    """Logit of the share of weight above a level, and how fast it falls."""
    above = sigmoid((scores - at) / smoothing)
    below = sigmoid((at - scores) / smoothing)
    mass_above, mass_below = float(weights @ above), float(weights @ below)
    if not (mass_above > 0 and mass_below > 0):
        return (math.inf if mass_above > 0 else -math.inf), 0.0
    fall = float(weights @ (above * below)) / smoothing
    return math.log(mass_above / mass_below), fall * (1 / mass_above + 1 / mass_below)


def parts_in_top(scores: Array, level: float, smoothing: float) -> Array:
    """sigmoid((scores - level) / smoothing): all of them 1 where the level is -inf."""
    return np.ones_like(scores) if level == -math.inf else sigmoid((scores - level) / smoothing)
