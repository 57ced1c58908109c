"""The estimator that the baselines share: validate, build the blocks, solve, record."""

import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from toppush.baselines.given_units import GivenUnits, rescaled_penalty
from toppush.designs import LocalDesign, is_placed
from toppush.designs.usual import usual_rows
from toppush.estimators.base import (
    DegenerateWarning,
    Following,
    LinearRanker,
    TrainingRows,
    read_rows,
    require_both,
    unchanged_on_failure,
)
from toppush.estimators.callbacks import fit_tasks
from toppush.problem.solution import Solution
from toppush.solvers.journal import Watch
from toppush.types import Labels, Matrix

Constraints = dict[str, list[Any]]

POSITIVE: list[Any] = [Interval(Real, 0, None, closed="neither")]
COUNT: list[Any] = [Interval(Integral, 1, None, closed="left")]
SHARED: Constraints = {
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_iter": COUNT,
    "n_threads": [None, *COUNT],
}


TO_ARRAY = {
    "dask": ("a Dask collection", "X.compute()"),
    "torch": ("a torch tensor", "X.numpy(force=True)"),
    "toppush": ("rows on disk", "numpy.load"),
}
"""What rows that are elsewhere are called, and what makes an array of them, by library."""


class Task(NamedTuple):
    """What a solver of a baseline is given."""

    design: LocalDesign
    X: Matrix
    """The rows of the design."""
    positive: Any
    sample_weight: Any | None
    scale: float
    """Weights of the rows as they were given are this times the solver's."""
    watch: Watch | None

    def ridge(self, lam: float) -> float:
        """The penalty on the solver's weights that is lam on those of the rows as given."""
        return rescaled_penalty(float(lam), self.scale)


class BaselineRanker(LinearRanker):
    """Fit of a published linear ranker; a subclass gives `_solve`, and its `fit`."""

    tol: float
    max_iter: int
    n_threads: int | None
    verbose: int = 0

    _remedy: ClassVar[str] = "Lower lam, or raise C, to let the losses count for more."
    """What to do if the weights are no better than zero."""

    def _solve(self, task: Task) -> tuple[Solution, float]:
        """The solution over the design's features, and the objective of weights of zero."""
        raise NotImplementedError

    def _most_steps(self) -> int | None:
        """Iterations that callbacks hear of at most, None if that is open."""
        return self.max_iter

    def _fit(self, X: Matrix, y: Labels, sample_weight: Any | None) -> Self:
        with unchanged_on_failure(self):
            rows = read_local_rows(self, X, y, sample_weight)
            tasks = fit_tasks(self, rows.X, rows.y, rows.classes, max_iter=self._most_steps())
            following = Following(self.verbose, self.tol, tasks)
            solution, at_zero = self._solve_scaled(rows, following.watch)
            following.end(solution)
            self._keep(solution, rows.classes)
        self._warn(at_zero)
        if tasks is not None:
            tasks.end()
        return self

    def _solve_scaled(self, rows: TrainingRows, watch: Watch | None) -> tuple[Solution, float]:
        """The solution for the rows as given, found on rows of a usual size."""
        usual, weight = usual_rows(rows.X), rows.sample_weight
        given = GivenUnits(usual)
        design = LocalDesign(usual.X, rows.positive, weight, n_threads=self.n_threads)
        # What overflows proves nothing, and no solver keeps it.
        with design, np.errstate(over="ignore", invalid="ignore"):
            require_both(design, rows.classes)
            watch = given.watched(watch)
            task = Task(design, usual.X, rows.positive, weight, usual.scale, watch)
            found, at_zero = self._solve(task)
        return given.solution(replace(found, weights=design.widen(found.weights))), at_zero

    def _warn(self, at_zero: float) -> None:
        solution = self.solution_
        if not solution.status.success:
            warnings.warn(
                f"{solution.status.value} After {solution.n_iter} iterations the objective is "
                f"{solution.upper:.6g} and the optimum is not below {solution.lower:.6g} "
                f"(relative gap {solution.relative_gap:.2g}).",
                ConvergenceWarning,
                stacklevel=5,
            )
        elif solution.upper >= at_zero or solution.lower >= at_zero * (1.0 - self.tol):
            warnings.warn(
                f"The weights are no better than zero: objective {solution.upper:.6g}, at zero "
                f"{at_zero:.6g}, optimum at least {solution.lower:.6g}. The order of the scores "
                f"means little. {self._remedy}",
                DegenerateWarning,
                stacklevel=5,
            )


def read_local_rows(
    estimator: LinearRanker, X: Matrix, y: Labels, sample_weight: Any | None
) -> TrainingRows:
    """Validate what a baseline is given; it is in this process, or refused."""
    for name, given in (("X", X), ("y", y), ("sample_weight", sample_weight)):
        if is_placed(given):
            kind, remedy = TO_ARRAY[type(given).__module__.partition(".")[0]]
            raise ValueError(
                f"{type(estimator).__name__} works on arrays in memory, and {name} is {kind}. "
                f"Make an array of it ({remedy}) if it fits, or use TopPush, which fits such rows "
                "where they are."
            )
    return read_rows(estimator, X, y, sample_weight)


class WeightedRanker(BaselineRanker):
    """A ranker whose problem says what the weight of a row means."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels, sample_weight: Any | None = None) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            In memory or memory-mapped. It is copied if it is not of float64, if its entries are
            huge or tiny, or if a column lies far from zero.
        y : array of shape (n_samples,)
            Two classes; the greater one is positive.
        sample_weight : array of shape (n_samples,), optional
            See the class for what a weight means; a row of weight zero is out.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)
