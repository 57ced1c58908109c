"""What rankers share: validation of rows and labels, scores, predictions and warnings."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from toppush import metrics
from toppush.designs import Design, PlacedRows, backend_of, is_placed, place
from toppush.designs.arrays import namespace, to_host
from toppush.explain.contributions import linear_contributions
from toppush.metrics.positive_class import choose, refuse_blanks
from toppush.models.progress import CallbackSupportMixin, FitTasks
from toppush.problem.objective import TopProblem
from toppush.problem.solution import Solution
from toppush.solvers import zero_is_optimal
from toppush.tables.validation import validated
from toppush.types import Array, Labels, Mask, Matrix

if TYPE_CHECKING:
    from toppush.explain.reasons import Explanation, Pair

DTYPES = [np.float64, np.float32]
LABEL: list[Any] = [None, str, Real, "boolean"]
"""The types of `positive`."""
CALLBACKS = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")
"""Attributes in which scikit-learn keeps its callbacks during a fit."""
TIE = 8
"""Multiple of the rounding error within which a score ties with the threshold."""


class DegenerateWarning(UserWarning):
    """Weights of zero are optimal, or no worse than the solution: the ranking may be noise.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from toppush import DegenerateWarning, TopPush
    >>> X, y = np.array([[0.0], [1.0], [0.5]]), np.array([0, 0, 1])  # the positive lies between
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     ranker = TopPush().fit(X, y)
    ...
    >>> caught[0].category is DegenerateWarning
    True
    """


class Ranker(ClassifierMixin, BaseEstimator):
    """What rankers of two classes share: predictions and quality, from their scores.

    A subclass sets `classes_` in `fit` and defines `decision_function`; for explanations also
    `contributions`: what each column adds to a row's score, and the rest in a last column.
    """

    classes_: NDArray[Any]

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """Cached for each class: 36 us of a fit that takes 1.5 ms."""
        names: list[str] = super()._get_param_names()
        return names

    @property
    def positive_class_(self) -> Any:
        """The class that is ranked first, the second of `classes_`."""
        return self.classes_.tolist()[1]

    @property
    def _n_explained(self) -> int:
        """Number of rows whose contributions are computed without being requested."""
        return 2000

    def decision_function(self, X: Matrix) -> Array:
        """Scores less the threshold; higher ranks first."""
        raise NotImplementedError

    def explain(
        self, X: Matrix, n_columns: int = 3, *, against: Matrix = None
    ) -> list["Explanation"]:
        """Explain the position of each row in the ranking of these rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
        n_columns : int, default=3
            Maximum number of columns to name.
        against : rows, optional
            Rows with whose mean each row is compared, such as the highest-ranked negatives of the
            training rows; by default `reference_` if there is one, else X.

        Returns
        -------
        list of Explanation
            In the order of X; `toppush.explain.reasons` has their fields.
        """
        from toppush.explain.reasons import explain  # a tenth of `import toppush.TopPush`

        return explain(self, X, n_columns, against=against)

    def explain_pair(self, x: Matrix, y: Matrix, n_columns: int = 3) -> "Pair":
        """Explain why the row x ranks above the row y.

        Parameters
        ----------
        x, y : one row each
        n_columns : int, default=3

        Returns
        -------
        Pair
        """
        from toppush.explain.reasons import explain_pair

        return explain_pair(self, x, y, n_columns)

    def predict(self, X: Matrix) -> NDArray[Any]:
        """The positive class for rows that score above 0, else the other; see `threshold_`."""
        above = self.decision_function(X) > 0.0
        return np.where(above, self.classes_[1:], self.classes_[:1])

    def score(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None = None) -> float:
        """Average precision of the ranking of X."""
        scores = self.decision_function(X)
        return metrics.average_precision(
            y, scores, sample_weight=sample_weight, pos_label=self.classes_[1]
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags


class LinearRanker(CallbackSupportMixin, Ranker):
    """What linear rankers of two classes share.

    A subclass sets `coef_`, `threshold_` and `classes_` in `fit`.
    """

    coef_: Array
    threshold_: float
    n_iter_: int
    solution_: Solution

    @property
    def intercept_(self) -> Array:
        """Minus the threshold, so that a positive decision is a score above it."""
        return np.array([-self.threshold_])

    def decision_function(self, X: Matrix) -> Array:
        """Scores w.x less the threshold; higher ranks first, and a tie with it is exactly 0.

        Only the order counts. A score above 0 exceeds that of the top training negatives, which
        few rows may do: it is not a decision. Use the first rows of the ranking, or a threshold
        from held-out rows, see `toppush.thresholds.guarantees`.

        Parameters
        ----------
        X : array, sparse matrix, torch tensor or Dask collection of shape (n_samples, n_features)
            A tensor is scored on its device.

        Returns
        -------
        array of shape (n_samples,)
            A NumPy array, or a Dask array if X is of Dask; `predict` likewise.
        """
        check_is_fitted(self)
        return decision(read_rows(self, X), self.coef_[0], self.threshold_)

    def contributions(self, X: Matrix) -> Array:
        """Weight times value of each column, and minus the threshold in the last.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_features + 1)
            Rows sum to `decision_function`.
        """
        check_is_fitted(self)
        refuse_elsewhere(self, X=X)
        rows = validated(self, X, accept_sparse="csr", dtype=DTYPES, reset=False, any_size=True)
        return linear_contributions(rows, self.coef_[0], self.threshold_)

    def _keep(self, solution: Solution, classes: NDArray[Any]) -> None:
        """Set the fitted attributes that come from a solution."""
        self.classes_ = classes
        self.solution_ = solution
        self.coef_ = solution.weights[None, :]
        self.threshold_ = solution.threshold
        self.n_iter_ = solution.n_iter


def decision(rows: PlacedRows, weights: Array, threshold: float) -> Array:
    """X w less the threshold; differences within the rounding error of the product are 0.

    The same row's product may round differently here than it did in the fit.
    """
    scores = rows.scores_of_all(weights)
    decisions = scores - threshold
    eps = np.finfo(np.float64 if rows.is_double else np.float32).eps
    decisions[np.abs(decisions) <= TIE * eps * (np.abs(scores) + abs(threshold))] = 0.0
    return decisions


@contextmanager
def unchanged_on_failure(estimator: BaseEstimator) -> Iterator[None]:
    """Restore an estimator whose fit fails or is interrupted.

    What explanations stored about an earlier fit is deleted. scikit-learn tears down its callbacks.
    """
    before = dict(vars(estimator))
    for name in ("reference_", "usual_"):
        vars(estimator).pop(name, None)
    try:
        yield
    except BaseException:
        now = vars(estimator)
        of_callbacks = {name: now[name] for name in CALLBACKS if name in now}
        vars(estimator).clear()
        vars(estimator).update(before | of_callbacks)
        raise


def warn_if_unfinished(solution: Solution) -> None:
    """Warn of a solve that ended early."""
    if not solution.status.success:
        warnings.warn(
            f"{solution.status.value} After {solution.n_iter} iterations the objective is "
            f"{solution.upper:.6g} and the optimum is not below {solution.lower:.6g} "
            f"(relative gap {solution.relative_gap:.2g}).",
            ConvergenceWarning,
            stacklevel=5,
        )


def warn_about(solution: Solution, problem: TopProblem, tol: float, *, searched: bool) -> None:
    """Warn of a solve that ended early or whose weights are no better than zero.

    `searched` says whether `top` was "auto".
    """
    at_zero = problem.at_zero()
    warn_if_unfinished(solution)
    if zero_is_optimal(solution, problem, tol):
        warnings.warn(
            f"Weights of zero are optimal: the objective there is {at_zero:.6g} and nothing is "
            f"below {solution.lower:.6g}. No direction puts the positives above the {problem.k} "
            f"highest of {problem.design.n_neg} negatives often enough to pay, and "
            "what ranks these rows is only the direction in which a solution would lie. "
            + advice(problem, searched=searched),
            DegenerateWarning,
            stacklevel=4,
        )
    elif solution.upper >= at_zero:
        warnings.warn(
            f"These weights are no better than zero: objective {solution.upper:.6g}, at zero "
            f"{at_zero:.6g}, and the optimum may be as low as {solution.lower:.6g}. Lower tol to "
            "come closer to it. " + advice(problem, searched=searched),
            DegenerateWarning,
            stacklevel=4,
        )


def advice(problem: TopProblem, *, searched: bool) -> str:
    """Advice where weights of zero are optimal, for Python and the command line."""
    if searched or problem.k == problem.design.n_neg:
        return "More negatives at the top do not help; find columns that tell the classes apart."
    return (
        'Let more negatives share the top: top="auto" (TopPushCV: tops=["auto"], command line: '
        "--top auto) finds the fewest for which there is a solution. A lower lam helps only if "
        "the optimum is close to, not at, zero."
    )


@dataclass(frozen=True)
class TrainingRows:
    """The validated arguments of a fit."""

    rows: PlacedRows
    y: Labels
    classes: NDArray[Any]
    positive: Mask
    sample_weight: Array | None

    @property
    def positive_class(self) -> Any:
        """The class that is ranked first."""
        return self.classes.tolist()[1]

    def design(self, n_jobs: int | None) -> Design:
        """The rows as blocks, a context manager."""
        return self.rows.design(self.positive, self.sample_weight, n_jobs=n_jobs)

    def tasks(self, estimator: BaseEstimator, max_iter: int | None) -> FitTasks | None:
        """The fit's tasks if there are callbacks; `max_iter` is None if unknown."""
        if not getattr(estimator, "_skl_callbacks", None):
            return None
        return FitTasks(estimator, self.rows.original, self.y, self.classes, max_iter)


def read_training(
    estimator: BaseEstimator,
    X: Matrix,
    y: Labels,
    sample_weight: ArrayLike | None,
    device: str | None = None,
) -> TrainingRows:
    """Validate the arguments of a fit; X is copied only to another type or device."""
    if is_placed(X):
        rows = place(X, device)
        validate_data(estimator, rows.template, skip_check_array=True)
        y = rows.labels(y)
    else:
        X, y = validated(estimator, X, y, accept_sparse="csr", dtype=DTYPES, any_size=True)
        rows = place(X, device)
    classes = two_classes(y, getattr(estimator, "positive", None))
    weight = None if sample_weight is None else rows.weights(sample_weight)
    return TrainingRows(rows, y, classes, rows.mask(y, classes.tolist()[1]), weight)


def read_rows(estimator: BaseEstimator, X: Matrix) -> PlacedRows:
    """Validate rows to score, wherever they are."""
    if is_placed(X):
        rows = place(X)
        validate_data(estimator, rows.template, reset=False, skip_check_array=True)
        return rows
    return place(
        validated(estimator, X, accept_sparse="csr", dtype=DTYPES, reset=False, any_size=True)
    )


def refuse_elsewhere(estimator: BaseEstimator, **arguments: Any) -> None:
    """Refuse arguments of a fit that are not in this process."""
    for name, vector in arguments.items():
        if (backend := backend_of(vector)) is not None:
            raise ValueError(
                f"{type(estimator).__name__} works on arrays in memory, and {name} is "
                f"{backend.name}. Make an array of it ({backend.to_array}) if it fits, or use "
                "TopPush, which fits such rows where they are."
            )


def two_classes(y: Labels, positive: object = None) -> NDArray[Any]:
    """The negative and the positive class, by `toppush.metrics.positive_class`."""
    try:
        classes = to_host(namespace(y).unique(y))
    except TypeError:
        raise ValueError(
            "y holds labels that cannot be compared, such as strings and None; relabel them."
        ) from None
    labels = classes.tolist()
    refuse_blanks(labels)
    if len(classes) > 2:
        kind = type_of_target(np.repeat(classes, 2), input_name="y", raise_unknown=True)
        if kind != "multiclass":
            raise ValueError(
                f"Unknown label type: {kind}. y must hold two classes, such as 0 and 1; "
                "round or relabel it."
            )
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"{len(classes)} classes, {classes[:5]!r} first; relabel y as one against the rest."
        )
    if len(classes) < 2:
        raise ValueError(f"y needs two classes, found one class, {classes!r}; add rows of another.")
    chosen = choose(labels, lambda label: int(to_host((y == label).sum())), positive)
    return classes if chosen == labels[1] else classes[::-1].copy()


def require_both(design: Design, classes: NDArray[Any]) -> None:
    """Refuse weights that leave a class without rows."""
    for count, label in ((design.n_neg, classes[0]), (design.n_pos, classes[1])):
        if not count:
            raise ValueError(
                f"every row of class {label} has sample_weight 0, so y has one class left; "
                "give some of them a weight."
            )
