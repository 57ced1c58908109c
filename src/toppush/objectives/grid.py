"""Gradients of the pairwise loss: from all pairs if they are few, on a grid of scores if many.

On the grid, each row's weight is split between the two grid points next to its score, linearly by
distance. Sums over all pairs are then convolutions of the two classes' weights along the grid, and
a row's gradient and second derivative are interpolated between its two points. Both errors are of
second order: with points h apart they are at most h^2 / 8 times a second derivative, and h is 1/16
of the smoothing (of 1, if that is less). Gradients of all rows still sum to zero. Cost: a few
passes over the rows and FFTs over the grid. Rows on several workers give the same sums.

Where no row has a score over a distance of more than 40 scales, sigmoids of differences across it
are 0 or 1 to the last digit of a double, also after that distance is shortened to 40 scales. This
keeps the range of scores small enough for one fine grid.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toppush.objectives.pairs import (
    HESSIAN_FLOOR,
    Gradients,
    LabelledRows,
    check_classes,
    depth_of,
    gradients_of_all_pairs,
    level,
    parts_in_top,
    sigmoid,
)
from toppush.objectives.workers import SINGLE, Workers
from toppush.types import Array, Where

Scores = NDArray[np.floating]
MOST_PAIRS = 2**14
"""Pairs that take about as long as a grid: a millisecond."""
STEPS_PER_SCALE = 16
"""Grid points per unit of the narrower of the two sigmoids."""
CHUNK = 2**14
"""Rows at a time: a million take 14 ms so, and 28 in one piece."""
MOST_POINTS = 2**16
"""A grid has no more; over a wider range its points are further apart."""
WIDE = 512.0
"""Range beyond which empty parts of it are shortened."""
N_CELLS = 2**16
SATURATED = 40.0
"""exp(-40) is 4e-18."""


def pairwise_gradients(
    scores: Scores,
    rows: LabelledRows,
    *,
    top: float = 0.1,
    smoothing: float = 0.5,
    workers: Workers = SINGLE,
) -> Gradients:
    """Gradient and second derivatives of the pairwise loss at these scores.

    See `toppush.objectives.pairs` for the formula and its scale. Exact up to `MOST_PAIRS` pairs
    of one worker; beyond that within 8e-4 of the greatest gradient of a row of its class and
    weight, in linear time.

    Parameters
    ----------
    scores : array of shape (n_rows,)
        Raw scores of the rows, float64 or float32.
    rows : LabelledRows
        From `label_rows`; made once for a fit.
    top : int or float, default=0.1
        Depth of the top: a count of negatives, or a share of them; in units of weight.
    smoothing : float, default=0.5
        How far below the level, in scores, a negative still counts.
    workers : Workers, optional
        The workers that hold the other rows.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.objectives import label_rows, pairwise_gradients
    >>> result = pairwise_gradients(np.zeros(4), label_rows([0, 1, 0, 1]), top=1)
    >>> result.gradient
    array([ 0.5, -0.5,  0.5, -0.5])
    """
    if workers is SINGLE and rows.n_pairs <= MOST_PAIRS:
        shared_range(scores)
        return gradients_of_all_pairs(np.asarray(scores, dtype=np.float64), rows, top, smoothing)
    return gradients_on_grid(scores, rows, top, smoothing, workers)


class ScoreRange(NamedTuple):
    """Scores, and the range of the scores of all workers."""

    scores: Scores
    low: float
    high: float

    @property
    def width(self) -> float:
        """Length of the range."""
        return self.high - self.low


def without_empty_ranges(
    within: ScoreRange, wide: float, scale: float, workers: Workers
) -> ScoreRange:
    """The same scores with empty parts of their range shortened, if it is wider than `wide`."""
    while within.width > wide:
        closer = _shorten(within, SATURATED * scale, workers)
        if closer.width > 0.5 * within.width:
            return closer
        within = closer
    return within


def _shorten(within: ScoreRange, longest: float, workers: Workers) -> ScoreRange:
    """Drop empty cells of the range that are farther than `longest` above the next row below.

    The highest scores stay as they are, and keep their digits.
    """
    step = within.width / (N_CELLS - 1)
    cell = ((within.scores - within.low) / step).astype(np.intp)
    occupied = workers.greatest((np.bincount(cell, minlength=N_CELLS) > 0).astype(np.float64))
    number = np.arange(N_CELLS)
    since_row = number - np.maximum.accumulate(np.where(occupied > 0, number, 0))
    kept = since_row <= np.ceil(longest / step)
    dropped_above: Array = np.cumsum(~kept[::-1])[::-1] * step
    scores = within.scores + dropped_above[cell]
    return ScoreRange(scores, within.high - kept.sum() * step, within.high)


@dataclass(frozen=True)
class ScoreGrid:
    """Equally spaced scores."""

    low: float
    width: float
    n_points: int

    @classmethod
    def over(cls, low: float, high: float, finest: float) -> "ScoreGrid":
        """A grid over a range with steps of `finest`, or more if `MOST_POINTS` require it."""
        width = max(finest, (high - low) / (MOST_POINTS - 2))
        return cls(low, width, int((high - low) / width) + 2)

    @property
    def points(self) -> Array:
        """The scores."""
        return self.low + self.width * np.arange(self.n_points, dtype=np.float64)


class GridPosition(NamedTuple):
    """The grid points of its class between which each row lies."""

    cell: Where
    """Twice the number of the point below, and 1 more for positives."""
    part: Array
    """Distance from the point below, in grid steps."""


class Masses(NamedTuple):
    """Weight at each grid point, over all workers."""

    negatives: Array
    positives: Array
    weight_of_negatives: float
    n_negatives: float
    """Those of weight above 0."""


def gradients_on_grid(
    scores: Scores, rows: LabelledRows, top: float, smoothing: float, workers: Workers = SINGLE
) -> Gradients:
    """Gradient and second derivatives, with the sums over all pairs computed on a grid."""
    within = ScoreRange(scores, *shared_range(scores, workers))
    within = without_empty_ranges(within, WIDE, max(1.0, smoothing), workers)
    grid = ScoreGrid.over(within.low, within.high, min(1.0, smoothing) / STEPS_PER_SCALE)
    tables = tabulate(grid, weigh(within.scores, rows, grid, workers), top, smoothing)
    return interpolate(tables, within.scores, rows, grid)


def shared_range(scores: Scores, workers: Workers = SINGLE) -> tuple[float, float]:
    """Least and greatest score over all workers."""
    with workers.together():
        ends = _range_of(scores)
    low, high = workers.greatest(ends).tolist()
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


def position(scores: Scores, label: Where, grid: ScoreGrid) -> GridPosition:
    """The grid points next to each score."""
    part = np.subtract(scores, grid.low, dtype=np.float64)
    part *= 1.0 / grid.width
    cell = part.astype(np.intp)
    part -= cell
    cell *= 2
    cell += label
    return GridPosition(cell, part)


def weigh(scores: Scores, rows: LabelledRows, grid: ScoreGrid, workers: Workers = SINGLE) -> Masses:
    """Weight at each point over all workers; each row's is split between its two neighbours."""
    whole, moved = np.zeros(2 * grid.n_points), np.zeros(2 * grid.n_points)
    for some in _chunks(len(scores)):
        cell, part = position(scores[some], rows.label[some], grid)
        weight = None if rows.weight is None else rows.weight[some]
        whole += np.bincount(cell, weight, len(whole))
        moved += np.bincount(cell, part if weight is None else weight * part, len(whole))
    whole -= moved
    whole[2:] += moved[:-2]
    total = workers.add(np.append(whole, [rows.weight_of_negatives, rows.n_negatives]))
    return Masses(total[:-2:2], total[1:-2:2], float(total[-2]), float(total[-1]))


def _chunks(n_rows: int) -> Iterator[slice]:
    """Runs of rows that stay in the processor's cache from one operation to the next."""
    return (slice(first, first + CHUNK) for first in range(0, n_rows, CHUNK))


def tabulate(grid: ScoreGrid, masses: Masses, top: float, smoothing: float) -> Gradients:
    """Gradient and second derivative of a row of weight 1 at each point, as `GridPosition.cell`."""
    points = grid.points
    check_classes(float(masses.positives.sum()), masses.weight_of_negatives)
    depth = depth_of(top, masses.weight_of_negatives, masses.n_negatives)
    parts = parts_in_top(points, level(points, masses.negatives, depth, smoothing), smoothing)
    share = parts / float(masses.negatives @ parts)
    both = np.stack([masses.positives, share * masses.negatives])
    # Convolutions of the sigmoid and of its derivative with the weights of each class.
    length = 1 << (2 * grid.n_points - 2).bit_length()
    sums = _kernels(length, grid.width)[:, None] * np.fft.rfft(both, length)
    first, second = np.fft.irfft(sums, length)[..., : grid.n_points]
    gradient = np.stack([share * first[0], first[1] - 1.0], axis=1)
    hessian = np.stack([share * second[0], second[1]], axis=1)
    np.maximum(hessian, 0.0, out=hessian)  # rounding of an FFT may leave -1e-17
    return Gradients(gradient.ravel(), hessian.ravel() + HESSIAN_FLOOR)


@lru_cache(maxsize=4)
def _kernels(length: int, width: float) -> NDArray[np.complex128]:
    """Transforms of the sigmoid and its derivative; the rounds of a fit need few different ones."""
    steps = np.arange(length, dtype=np.float64)
    steps[length // 2 :] -= length
    first = sigmoid(steps * width)
    return np.fft.rfft(np.stack([first, first * sigmoid(-steps * width)]))


def interpolate(
    tables: Gradients, scores: Scores, rows: LabelledRows, grid: ScoreGrid
) -> Gradients:
    """Gradient and second derivative of each row, linear between two points, times its weight."""
    result = np.empty((2, len(scores)), dtype=np.float32)
    rises = [np.append(table[2:] - table[:-2], [0.0, 0.0]) for table in tables]
    for some in _chunks(len(scores)):
        cell, part = position(scores[some], rows.label[some], grid)
        for table, rise, out in zip(tables, rises, result[:, some], strict=True):
            values = np.take(rise, cell, mode="clip")
            values *= part
            values += np.take(table, cell, mode="clip")
            out[:] = values if rows.weight is None else values * rows.weight[some]
    return Gradients(result[0], result[1])
