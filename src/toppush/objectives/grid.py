"""The push from a grid of scores, for rows that are too many to be compared in pairs.

Each row's weight is shared between the two grid points beside its score, by how near they are.
Sums over all pairs are then convolutions of the two classes' weights along the grid, and a row
reads its gradient and curvature off the line between its two points. Both errors are of second
order: with points h apart they are at most h^2 / 8 times a second derivative, and h is 1/16 of
the smoothing (of 1, if that is less). Gradients of all rows still sum to zero. Cost: a few passes
over the rows and FFTs over the grid. Rows on several workers give the same sums.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toppush.objectives.gaps import Scores, Spread, without_gaps
from toppush.objectives.level import depth_of, level, parts_in_top, sigmoid
from toppush.objectives.pairs import CURVATURE_FLOOR, Push, check_classes
from toppush.objectives.rows import LabelledRows
from toppush.objectives.teams import ALONE, Team
from toppush.types import Array, Where

STEPS_PER_SCALE = 16
"""Grid points per unit of the narrower of the two sigmoids."""
CHUNK = 2**14
"""Rows at a time: a million take 14 ms so, and 28 in one piece."""
MOST_POINTS = 2**16
"""A grid has no more; over a range that asks for more its points are further apart."""
WIDE = 512.0
"""Range beyond which gaps in it are shortened."""


@dataclass(frozen=True)
class Grid:
    """Equally spaced scores."""

    low: float
    width: float
    n_points: int

    @classmethod
    def over(cls, low: float, high: float, finest: float) -> "Grid":
        """A grid over a range, as fine as asked where `MOST_POINTS` allow it."""
        width = max(finest, (high - low) / (MOST_POINTS - 2))
        return cls(low, width, int((high - low) / width) + 2)

    @property
    def points(self) -> Array:
        """The scores."""
        return self.low + self.width * np.arange(self.n_points, dtype=np.float64)


class Placed(NamedTuple):
    """Where rows lie: each between two grid points of its class."""

    cell: Where
    """Twice the number of the point below, and 1 more for positives."""
    part: Array
    """How far on the way to the next point."""


class Masses(NamedTuple):
    """What lies on the grid's points, over all workers."""

    negatives: Array
    positives: Array
    weight_of_negatives: float
    n_negatives: float
    """Those of weight above 0."""


class Tables(NamedTuple):
    """Gradient and curvature of a row of weight 1 at each point, by class as `Placed.cell`."""

    gradient: Array
    curvature: Array


def push_on_grid(
    scores: Scores, rows: LabelledRows, top: float, smoothing: float, team: Team = ALONE
) -> Push:
    """Gradient and curvature of the push, the sums over all pairs being taken on a grid."""
    given = Spread(scores, *shared_range(scores, team))
    given = without_gaps(given, WIDE, max(1.0, smoothing), team)
    grid = Grid.over(given.low, given.high, min(1.0, smoothing) / STEPS_PER_SCALE)
    tables = tabulate(grid, weigh(given.scores, rows, grid, team), top, smoothing)
    return Push(*read_off(tables, given.scores, rows, grid))


def shared_range(scores: Scores, team: Team = ALONE) -> tuple[float, float]:
    """Least and greatest score over all workers."""
    with team.together():
        ends = _range_of(scores)
    low, high = team.greatest(ends).tolist()
    return -low, high


def _range_of(scores: Scores) -> Array:
    if not len(scores):
        return np.array([-np.inf, -np.inf])
    low, high = float(scores.min()), float(scores.max())
    if not np.isfinite(high - low):
        raise ValueError(
            "The objective was given scores that are infinite or not numbers; look at base or "
            "init scores, and at the learning rate."
        )
    return np.array([-low, high])


def place(scores: Scores, kind: Where, grid: Grid) -> Placed:
    """Which points each row lies between."""
    part = np.subtract(scores, grid.low, dtype=np.float64)
    part *= 1.0 / grid.width
    cell = part.astype(np.intp)
    part -= cell
    cell *= 2
    cell += kind
    return Placed(cell, part)


def weigh(scores: Scores, rows: LabelledRows, grid: Grid, team: Team = ALONE) -> Masses:
    """Weight at each point over all workers, a row's being shared between the two beside it."""
    whole, moved = np.zeros(2 * grid.n_points), np.zeros(2 * grid.n_points)
    for some in _chunks(len(scores)):
        cell, part = place(scores[some], rows.kind[some], grid)
        weight = None if rows.weight is None else rows.weight[some]
        whole += np.bincount(cell, weight, len(whole))
        moved += np.bincount(cell, part if weight is None else weight * part, len(whole))
    whole -= moved
    whole[2:] += moved[:-2]
    total = team.add(np.append(whole, [rows.weight_of_negatives, rows.n_negatives]))
    return Masses(total[:-2:2], total[1:-2:2], float(total[-2]), float(total[-1]))


def _chunks(n_rows: int) -> Iterator[slice]:
    """Runs of rows that stay in the processor's cache from one operation to the next."""
    return (slice(first, first + CHUNK) for first in range(0, n_rows, CHUNK))


def tabulate(grid: Grid, masses: Masses, top: float, smoothing: float) -> Tables:
    """What a row of weight 1 is given at each point of the grid."""
    share = _shares(grid, masses, top, smoothing)
    both = np.stack([masses.positives, share * masses.negatives])
    (on_negatives, on_positives), (bend, bend_of_positives) = _sums_over_pairs(grid, both)
    gradient = np.stack([share * on_negatives, on_positives - 1.0], axis=1)
    curvature = np.stack([share * bend, bend_of_positives], axis=1)
    np.maximum(curvature, 0.0, out=curvature)  # rounding of an FFT may leave -1e-17
    return Tables(gradient.ravel(), curvature.ravel() + CURVATURE_FLOOR)


def _shares(grid: Grid, masses: Masses, top: float, smoothing: float) -> Array:
    """Part in the top of a negative of weight 1 at each point."""
    mass, points = masses.negatives, grid.points
    check_classes(float(masses.positives.sum()), masses.weight_of_negatives)
    depth = depth_of(top, masses.weight_of_negatives, masses.n_negatives)
    found = level(points, mass, depth, smoothing)
    parts = parts_in_top(points, found, smoothing)
    return np.asarray(parts / float(mass @ parts))


def _sums_over_pairs(grid: Grid, masses: Array) -> Array:
    """Of each kernel (sigmoid of a difference, its slope) and each mass their convolution."""
    length = 1 << (2 * grid.n_points - 2).bit_length()
    sums = _kernels(length, grid.width)[:, None] * np.fft.rfft(masses, length)
    return np.fft.irfft(sums, length)[..., : grid.n_points]


@lru_cache(maxsize=4)
def _kernels(length: int, width: float) -> NDArray[np.complex128]:
    """Transforms of the two kernels; rounds of a fit ask for few different ones."""
    steps = np.arange(length, dtype=np.float64)
    steps[length // 2 :] -= length
    slope = sigmoid(steps * width)
    return np.fft.rfft(np.stack([slope, slope * sigmoid(-steps * width)]))


def read_off(
    tables: Tables, scores: Scores, rows: LabelledRows, grid: Grid
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Gradient and curvature of each row, on the line between two points, times its weight."""
    found = np.empty((2, len(scores)), dtype=np.float32)
    lines = [(table, _rises(table)) for table in (tables.gradient, tables.curvature)]
    for some in _chunks(len(scores)):
        cell, part = place(scores[some], rows.kind[some], grid)
        for (table, rise), out in zip(lines, found[:, some], strict=True):
            on_line = np.take(rise, cell, mode="clip")
            on_line *= part
            on_line += np.take(table, cell, mode="clip")
            out[:] = on_line if rows.weight is None else on_line * rows.weight[some]
    return found[0], found[1]


def _rises(table: Array) -> Array:
    """From each point to the next of the same class."""
    rise = np.zeros_like(table)
    rise[:-2] = table[2:] - table[:-2]
    return rise
