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
from toppush.solvers.driver import Callback
from toppush.solvers.scaling import unscale
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
    """What a solver of a baseline is given: the rows in a usual form."""

    design: LocalDesign
    given: TrainingRows
    rows: LocalRows
    """Those of the design."""
    form: Scaling
    """In which they are."""
    watch: Callback | None

    @property
    def row_weights(self) -> Array:
        """A weight for each row."""
        weight = self.given.sample_weight
        return np.ones(len(self.given.positive)) if weight is None else weight

    def ridge(self, lam: float) -> float:
        """What lam/2 |w|^2 is to the solver's weights: lam scale^2.

        Refused if it is no number of full precision.
        """
        scale = self.form.scale
        found = float(lam) * scale * scale
        if not np.finfo(np.float64).tiny <= found < np.inf:
            raise ValueError(
                f"X has entries of size {1.0 / scale:.1g}, which beside a penalty of {lam:.3g} on "
                "the weights overflow; scale the features first, such as by MaxAbsScaler."
            )
        return found


class BaselineRanker(LinearRanker):
    """Fit of a published linear ranker; a subclass gives `_solve`, and its `fit`."""

    tol: float
    max_iter: int
    n_jobs: int | None
    verbose: int = 0

    _remedy: ClassVar[str] = "Lower lam, or raise C, to let the losses count for more."
    """What to do if the weights are no better than zero."""

    def _solve(self, task: Task) -> tuple[Solution, float]:
        """The solution over the design's features, and the objective of weights of zero."""
        raise NotImplementedError

    def _most_steps(self) -> int | None:
        """Iterations that callbacks hear of at most, None if that is open."""
        return self.max_iter

    def _fit(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None) -> Self:
        with unchanged_on_failure(self):
            given = read_local_rows(self, X, y, sample_weight)
            tasks = given.tasks(self, self._most_steps())
            observer = FitObserver(self.verbose, self.tol, tasks)
            solution, at_zero = self._solve_usual(given, observer.watch)
            observer.end(solution)
            self._keep(solution, given.classes)
        warn_if_unfinished(solution)
        self._warn_if_zero(at_zero)
        if tasks is not None:
            tasks.end()
        return self

    def _solve_usual(self, given: TrainingRows, watch: Callback | None) -> tuple[Solution, float]:
        """The solution for the rows as given, found on rows in a usual form.

        The problems see differences of scores alone, so a shift of all rows changes nothing.
        """
        X, form = well_scaled(given.rows.original)
        rows = LocalRows(X)
        design = rows.design(given.positive, given.sample_weight, n_jobs=self.n_jobs)
        # What overflows proves nothing, and no solver keeps it.
        with design, np.errstate(over="ignore", invalid="ignore"):
            require_both(design, given.classes)
            found, at_zero = self._solve(Task(design, given, rows, form, watched(watch, form)))
        weights, threshold = unscale(form, design.widen(found.weights), found.threshold)
        return replace(found, weights=weights, threshold=threshold), at_zero

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


def watched(watch: Callback | None, form: Scaling) -> Callback | None:
    """A watcher that is told of the rows as they were given."""
    if watch is None:
        return None

    def tell(history: tuple[Iteration, ...], weights: Array, threshold: float) -> bool:
        return watch(history, *unscale(form, weights, threshold))

    return tell


def read_local_rows(
    estimator: LinearRanker, X: Matrix, y: Labels, sample_weight: ArrayLike | None
) -> TrainingRows:
    """Validate what a baseline is given; it is in this process, or refused."""
    refuse_elsewhere(estimator, X=X, y=y, sample_weight=sample_weight)
    return read_training(estimator, X, y, sample_weight)


class WeightedRanker(BaselineRanker):
    """A ranker whose problem says what the weight of a row means."""

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
            See the class for what a weight means; a row of weight zero is out.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)
