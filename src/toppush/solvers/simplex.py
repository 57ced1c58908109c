"""A small dense quadratic programme over a simplex, solved exactly by its active set."""

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetrs

from toppush.types import Array

EPS = float(np.finfo(np.float64).eps)


def minimise_on_simplex(gram: Array, linear: Array, total: float, start: Array) -> Array:
    """Minimiser of 1/2 a'G a - q'a over a >= 0, sum a = total.

    Primal active set: solve with the entries in use free, walk towards that point until an entry
    would turn negative and drop it, and once all stay positive let in the entry with the
    steepest descent. The objective falls with every change of the set, so it ends; G may be
    singular. A round solves one linear system as large as the set.

    Parameters
    ----------
    gram : array of shape (k, k)
        G, positive semidefinite.
    linear : array of shape (k,)
    total : float
        Above zero.
    start : array of shape (k,)
        A point to begin at, such as the last minimiser; all zero if there is none.

    Returns
    -------
    array of shape (k,)
    """
    point = start * (total / start.sum()) if start.any() else _best_corner(gram, linear, total)
    used = [int(entry) for entry in np.flatnonzero(point)]
    for _ in range(20 * len(linear) + 100):
        free = _minimise_freely(gram[np.ix_(used, used)], linear[used], total)
        if free.min() > 0.0:
            point[used] = free
            entering = _steepest(gram, linear, point, used)
            if entering is None:
                break
            used.append(entering)
        else:
            point[used] = _walk(point[used], free)
            used = [entry for entry in used if point[entry] > 0.0]
    return np.asarray(point * (total / point.sum()))


def _best_corner(gram: Array, linear: Array, total: float) -> Array:
    corner = np.zeros(len(linear))
    corner[np.argmin(0.5 * total * np.diag(gram) - linear)] = total
    return corner


def _minimise_freely(gram: Array, linear: Array, total: float) -> Array:
    """Minimiser with sum total and signs free.

    A ridge at the level of rounding gives a singular matrix, and one that is lost beside the
    linear part, a far-away answer, whose direction is what counts; one step of refinement takes
    the ridge's error out of a regular one.
    """
    size = len(linear)
    wanted = linear - linear.max()  # the same for every point of this sum
    scale = max(float(np.trace(gram)) / size, EPS * -float(wanted.min()) / total) or 1.0
    matrix = np.ones((size + 1, size + 1))
    matrix[:size, :size], matrix[size, size] = gram / scale, 0.0
    wanted = np.append(wanted / scale, total)
    ridged = matrix.copy()
    ridged[np.arange(size), np.arange(size)] += 64 * EPS
    factors, swaps, _ = dgetrf(ridged)  # four times faster than an inverse of size 100
    answer = dgetrs(factors, swaps, wanted)[0]
    answer += dgetrs(factors, swaps, wanted - matrix @ answer)[0]
    return np.asarray(answer[:size])


def _steepest(gram: Array, linear: Array, point: Array, used: list[int]) -> int | None:
    """The unused entry that would lower the objective fastest, None if none would."""
    pull = gram @ point
    slope = pull - linear
    level = float(slope[used] @ point[used]) / float(point[used].sum())
    entering = int(np.argmin(slope))
    rounding = 8 * EPS * float(np.max(np.abs(pull) + np.abs(linear)))
    return entering if entering not in used and slope[entering] < level - rounding else None


def _walk(here: Array, there: Array) -> Array:
    """As far from here to there as no entry turns negative; the one that stops it becomes 0."""
    falling = np.flatnonzero(there <= 0.0)
    lengths = here[falling] / (here[falling] - there[falling] + np.finfo(float).tiny)
    point = here + lengths.min() * (there - here)
    point[falling[lengths <= lengths.min()]] = 0.0
    return np.asarray(np.maximum(point, 0.0))
