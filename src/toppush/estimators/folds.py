"""The fits of a whole grid to a fold's training rows, and what its other rows say of them."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from toppush.estimators.base import TrainingRows, require_both
from toppush.estimators.choice import Judge, Measured
from toppush.estimators.path import Grid, follow, follow_solvable
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem
from toppush.solvers import zero_is_optimal
from toppush.types import Array, Mask, Where


@dataclass(frozen=True)
class FoldFits:
    """What is known of the fits to a fold's training rows, top by top and lam by lam."""

    measured: Measured
    """What the held-out rows say of each."""
    directions: Array | None
    """The weights with length 1, a row for each fit, if they are wanted."""
    degenerate: Mask
    """Where the certificate shows that weights of zero are optimal."""
    n_iter: int
    seconds: float

    def joined(self, other: Self) -> "FoldFits":
        """The fits of both."""
        directions = None
        if self.directions is not None and other.directions is not None:
            directions = np.vstack([self.directions, other.directions])
        return FoldFits(
            [*self.measured, *other.measured],
            directions,
            np.append(self.degenerate, other.degenerate),
            self.n_iter + other.n_iter,
            self.seconds + other.seconds,
        )


def fit_fold(
    given: TrainingRows,
    fold: tuple[Where, Where],
    grid: Grid,
    judge: Judge,
    *,
    directions: bool = False,
    done: Callable[[], None] = lambda: None,
) -> FoldFits:
    """Fit the whole grid to a fold's training rows and measure it on the others.

    Rows that the fold does not train on stay where they are and weigh nothing, so no fold
    copies X. `done` is called after each solve.
    """
    began, rows, (train, test) = time.perf_counter(), given.rows, fold
    weight = rows.only(train, given.sample_weight)
    with rows.design(given.positive, weight, n_threads=1) as design:
        require_both(design, np.array([False, True]))
        path = (follow if directions else follow_solvable)(design, grid, done=done)
        fits = [one for row in path.solutions for one in row]
        problem = TopPushProblem(design, LOSSES[grid.loss], 1.0)
        degenerate = np.array([zero_is_optimal(one, problem, grid.tol) for one in fits])
    seconds = time.perf_counter() - began
    held = None if given.sample_weight is None else given.sample_weight[test]
    lists = rows.scores_of_some(test, [(one.weights, one.threshold) for one in fits])
    return FoldFits(
        judge(rows, given.positive[test], lists, held),
        np.array([unit(one.weights) for one in fits]) if directions else None,
        degenerate,
        sum(one.n_iter for one in fits),
        seconds,
    )


def unit(weights: Array) -> Array:
    """The same direction with length 1; zero stays zero."""
    length = float(np.linalg.norm(weights))
    return np.asarray(weights / length if length else weights)
