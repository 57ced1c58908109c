"""The fits of a whole grid to a fold's training rows, and what its other rows say of them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from toppush.models.base import TrainingRows, require_both
from toppush.models.choice import Judge, Measure
from toppush.models.path import Grid, follow_solvable
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem
from toppush.solvers import zero_is_optimal
from toppush.types import Where


@dataclass(frozen=True)
class FoldFits:
    """What is known of the fits to a fold's training rows, by the numbers of the pairs."""

    measured: Mapping[int, Measure]
    """What the held-out rows say of each."""
    degenerate: frozenset[int]
    """Where the certificate shows that weights of zero are optimal."""
    seconds: float

    def joined(self, other: Self) -> "FoldFits":
        """The fits of both."""
        return FoldFits(
            {**self.measured, **other.measured},
            self.degenerate | other.degenerate,
            self.seconds + other.seconds,
        )


NOTHING = FoldFits({}, frozenset(), 0.0)


def fit_fold(
    given: TrainingRows,
    fold: tuple[Where, Where],
    grid: Grid,
    judge: Judge,
    *,
    numbers: NDArray[np.int_],
    done: Callable[[], None] = lambda: None,
) -> FoldFits:
    """Fit pairs of a grid to a fold's training rows and measure them on the others.

    Rows that the fold does not train on stay where they are and weigh nothing, so no fold
    copies X. `numbers` names the pairs, by top and lam; those below 0 are left out. `done` is
    called after each solve.
    """
    wanted, names = numbers >= 0, numbers[numbers >= 0].tolist()
    began, rows, (train, test) = time.perf_counter(), given.rows, fold
    weight = rows.masked_weights(train, given.sample_weight)
    with rows.design(given.positive, weight, n_jobs=1) as design:
        require_both(design, np.array([False, True]))
        solvable = follow_solvable(design, grid, wanted, done=done)
        fits = [one for row in solvable for one in row if one is not None]
        problem = TopPushProblem(design, LOSSES[grid.loss], 1.0)
        degenerate = [zero_is_optimal(one, problem, grid.tol) for one in fits]
    seconds = time.perf_counter() - began
    held = None if given.sample_weight is None else given.sample_weight[test]
    each = {id(one): one for one in fits}  # one may stand for many pairs
    lists = rows.scores_of_some(test, [(one.weights, one.threshold) for one in each.values()])
    measured = dict(zip(each, judge(rows, given.positive[test], lists, held), strict=True))
    return FoldFits(
        {name: measured[id(one)] for name, one in zip(names, fits, strict=True)},
        frozenset(name for name, zero in zip(names, degenerate, strict=True) if zero),
        seconds,
    )
