"""Scores far apart, brought so near that one fine grid holds them all.

Where no row has a score for longer than 40 scales, sigmoids of differences across are 0 or 1 to
the last digit of a double, and stay so when that gap is shortened to 40 scales.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toppush.objectives.teams import Team
from toppush.types import Array

Scores = NDArray[np.floating]
N_CELLS = 2**16
SATURATED = 40.0
"""exp(-40) is 4e-18."""


class Spread(NamedTuple):
    """Scores, and the range that those of all workers lie in."""

    scores: Scores
    low: float
    high: float

    @property
    def width(self) -> float:
        """From the least to the greatest score."""
        return self.high - self.low


def without_gaps(given: Spread, wide: float, scale: float, team: Team) -> Spread:
    """The same scores with gaps shortened, if they spread over more than `wide`."""
    while given.width > wide:
        closer = _shorten(given, SATURATED * scale, team)
        if closer.width > 0.5 * given.width:
            return closer
        given = closer
    return given


def _shorten(given: Spread, gap: float, team: Team) -> Spread:
    """Drop the cells of the range that are empty and so far above a row.

    The highest scores stay as they are, and keep their digits.
    """
    step = given.width / (N_CELLS - 1)
    cell = ((given.scores - given.low) / step).astype(np.intp)
    occupied = team.greatest((np.bincount(cell, minlength=N_CELLS) > 0).astype(np.float64))
    number = np.arange(N_CELLS)
    since_row = number - np.maximum.accumulate(np.where(occupied > 0, number, 0))
    kept = since_row <= np.ceil(gap / step)
    dropped_above: Array = np.cumsum(~kept[::-1])[::-1] * step
    return Spread(given.scores + dropped_above[cell], given.high - kept.sum() * step, given.high)
