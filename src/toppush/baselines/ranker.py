"""The estimator that the baselines share: validate, build the blocks, solve, record."""

import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from toppush.designs import LocalDesign
from toppush.estimators import (
    DegenerateWarning,
    Labels,
    LinearRanker,
    Matrix,
    TrainingRows,
    read_rows,
    require_both,
    unchanged_on_failure,
)
from toppush.solutions import Solution

Constraints = dict[str, list[Any]]

POSITIVE: list[Any] = [Interval(Real, 0, None, closed="neither")]
COUNT: list[Any] = [Interval(Integral, 1, None, closed="left")]
SHARED: Constraints = {
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_iter": COUNT,
    "n_threads": [None, *COUNT],
}


class BaselineRanker(LinearRanker):
    """Fit of a published linear ranker; a subclass gives `_solve`, and its `fit`."""

    tol: float
    n_threads: int | None

    _remedy: ClassVar[str] = "Lower lam, or raise C, to let the losses count for more."
    """What to do if the weights are no better than zero."""

    def _solve(self, design: LocalDesign, rows: TrainingRows) -> tuple[Solution, float]:
        """The solution over the design's features, and the objective of weights of zero."""
        raise NotImplementedError

    def _fit(self, X: Matrix, y: Labels, sample_weight: Any | None) -> Self:
        with unchanged_on_failure(self):
            rows = read_rows(self, X, y, sample_weight)
            weight, threads = rows.sample_weight, self.n_threads
            with LocalDesign(rows.X, rows.positive, weight, n_threads=threads) as design:
                require_both(design, rows.classes)
                solution, at_zero = self._solve(design, rows)
            self._keep(replace(solution, weights=design.widen(solution.weights)), rows.classes)
        self._warn(at_zero)
        return self

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


class WeightedRanker(BaselineRanker):
    """A ranker whose problem says what the weight of a row means."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels, sample_weight: Any | None = None) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)
            Two classes; the greater one is positive.
        sample_weight : array of shape (n_samples,), optional
            See the class for what a weight means; a row of weight zero is out.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)
