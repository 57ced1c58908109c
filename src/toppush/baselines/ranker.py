"""The estimator that the baselines share: validate, build the blocks, solve, record."""

import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval

from toppush.designs import LocalDesign, LocalRows, Scaling
from toppush.designs.local import well_scaled
from toppush.models.base import (
    LABEL,
    DegenerateWarning,
    LinearRanker,
    TrainingRows,
    read_training,
    refuse_elsewhere,
    require_both,
    unchanged_on_failure,
    warn_if_unfinished,
)
from toppush.models.progress import FitObserver
from toppush.problem.solution import Iteration, Solution
from toppush.solvers.driver import Callback, unscale
from toppush.types import Array, Labels, Matrix

Constraints = dict[str, list[object]]

POSITIVE: list[object] = [Interval(Real, 0, None, closed="neither")]
COUNT: list[object] = [Interval(Integral, 1, None, closed="left")]
SHARED: Constraints = {
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_iter": COUNT,
    "n_jobs": [None, *COUNT],
    "positive": LABEL,
}


class Task(NamedTuple):
    """The arguments of a baseline's solver: well-scaled rows."""

    design: LocalDesign
    training: TrainingRows
    rows: LocalRows
    """The scaled rows of the design."""
    scaling: Scaling
    callback: Callback | None

    @property
    def row_weights(self) -> Array:
        """The weight of each row, 1 if there are none."""
        weight = self.training.sample_weight
        return np.ones(len(self.training.positive)) if weight is None else weight

    def ridge(self, lam: float) -> float:
        """The penalty on the weights of scaled rows: lam scale^2, or an error if it overflows."""
        scale = self.scaling.scale
        penalty = float(lam) * scale * scale
        if not np.finfo(np.float64).tiny <= penalty < np.inf:
            raise ValueError(
                f"X has entries of size {1.0 / scale:.1g}, which overflow with a penalty of "
                f"{lam:.3g} on the weights; scale the features first, such as by MaxAbsScaler."
            )
        return penalty


class BaselineRanker(LinearRanker):
    """A published linear ranker; a subclass defines `_solve` and `fit`."""

    tol: float
    max_iter: int
    n_jobs: int | None
    verbose: int = 0

    _remedy: ClassVar[str] = "Lower lam, or raise C, to let the losses count for more."
    """Advice if the weights are no better than zero."""

    def _solve(self, task: Task) -> tuple[Solution, float]:
        """The solution for the design's features, and the objective of weights of zero."""
        raise NotImplementedError

    def _most_steps(self) -> int | None:
        """Maximum number of iterations, None if unknown."""
        return self.max_iter

    def _fit(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None) -> Self:
        with unchanged_on_failure(self):
            training = read_local_rows(self, X, y, sample_weight)
            tasks = training.tasks(self, self._most_steps())
            observer = FitObserver(self.verbose, self.tol, tasks)
            solution, at_zero = self._solve_scaled(training, observer.watch)
            observer.end(solution)
            self._keep(solution, training.classes)
        warn_if_unfinished(solution)
        self._warn_if_zero(at_zero)
        if tasks is not None:
            tasks.end()
        return self

    def _solve_scaled(
        self, training: TrainingRows, callback: Callback | None
    ) -> tuple[Solution, float]:
        """The solution for the original rows, computed on well-scaled rows.

        The problems depend on differences of scores alone, so a shift of all rows changes nothing.
        """
        X, scaling = well_scaled(training.rows.original)
        rows = LocalRows(X)
        design = rows.design(training.positive, training.sample_weight, n_jobs=self.n_jobs)

        def unscaled(history: tuple[Iteration, ...], weights: Array, threshold: float) -> bool:
            assert callback is not None
            return callback(history, *unscale(scaling, weights, threshold))

        # Solvers discard what overflows.
        with design, np.errstate(over="ignore", invalid="ignore"):
            require_both(design, training.classes)
            report = None if callback is None else unscaled
            solution, at_zero = self._solve(Task(design, training, rows, scaling, report))
        weights = design.widen(solution.weights)
        weights, threshold = unscale(scaling, weights, solution.threshold)
        return replace(solution, weights=weights, threshold=threshold), at_zero

    def _warn_if_zero(self, at_zero: float) -> None:
        solution = self.solution_
        near = solution.upper >= at_zero or solution.lower >= at_zero * (1.0 - self.tol)
        if solution.status.success and near:
            warnings.warn(
                f"The weights are no better than zero: objective {solution.upper:.6g}, at zero "
                f"{at_zero:.6g}, optimum at least {solution.lower:.6g}. The order of the scores "
                f"means little. {self._remedy}",
                DegenerateWarning,
                stacklevel=5,
            )


def read_local_rows(
    estimator: LinearRanker, X: Matrix, y: Labels, sample_weight: ArrayLike | None
) -> TrainingRows:
    """Validate the arguments of a fit, which must be in this process."""
    refuse_elsewhere(estimator, X=X, y=y, sample_weight=sample_weight)
    return read_training(estimator, X, y, sample_weight)


class WeightedRanker(BaselineRanker):
    """A baseline whose problem supports sample weights."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            In memory or memory-mapped. It is copied if it is not of float64, if its entries are
            huge or tiny, or if a column lies far from zero.
        y : array of shape (n_samples,)
            Two classes, of which `positive` names the one to rank first.
        sample_weight : array of shape (n_samples,), optional
            Their meaning is described in the class; a row of weight 0 is left out.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)
