"""scikit-learn estimators: validate, build the problem, solve, record."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from toppush import metrics
from toppush.arrays import Array, namespace, to_host
from toppush.callbacks import CallbackSupportMixin, FitTasks, fit_tasks
from toppush.checkpoints import Checkpoint
from toppush.designs import Design, Spread, is_placed, open_design, place, score
from toppush.losses import LOSSES
from toppush.problems import TopPushProblem, count_top
from toppush.progress import LiveLine, Watch
from toppush.solutions import Iteration, Solution
from toppush.solvers import SOLVERS, automatic_top, solve, zero_is_optimal

Matrix = Any
"""An array, sparse matrix, data frame or tensor; validated on entry, so no type says more."""
Labels = Any

DTYPES = [np.float64, np.float32]
TIE = 8
"""Units of rounding within which a score ties with the threshold."""


AUTO_TOL = 1e-3
"""How much the optimum must beat weights of zero for top="auto" to count it as a solution."""


class DegenerateWarning(UserWarning):
    """Weights of zero are optimal, or better than those found: the ranking may be noise."""


class LinearRanker(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """What linear rankers of two classes share: scores, predictions, quality.

    A subclass sets `coef_`, `threshold_` and `classes_` in `fit`.
    """

    coef_: Array
    threshold_: float
    n_iter_: int
    solution_: Solution
    classes_: NDArray[Any]

    @property
    def intercept_(self) -> Array:
        """Minus the threshold, so that a positive decision is a score above it."""
        return np.array([-self.threshold_])

    def decision_function(self, X: Matrix) -> Array:
        """Scores w.x less the threshold; higher ranks first, and a tie with it is exactly 0.

        Parameters
        ----------
        X : array, sparse matrix, torch tensor or Dask collection of shape (n_samples, n_features)
            A tensor is scored where it is.

        Returns
        -------
        array of shape (n_samples,)
            A NumPy array, or a Dask array if X is of Dask; `predict` likewise.
        """
        check_is_fitted(self)
        X = read_matrix(self, X, reset=False)
        if isinstance(X, Spread):
            lazy: Array = X.per_row(decision, self.coef_[0], self.threshold_)
            return lazy
        return decision(X, self.coef_[0], self.threshold_)

    def predict(self, X: Matrix) -> NDArray[Any]:
        """The positive class for rows that score above the threshold, else the other."""
        above = self.decision_function(X) > 0.0
        return np.where(above, self.classes_[1:], self.classes_[:1])

    def score(self, X: Matrix, y: Labels, sample_weight: Any | None = None) -> float:
        """Average precision of the ranking of X."""
        scores = self.decision_function(X)
        return metrics.average_precision(
            y, scores, sample_weight=sample_weight, pos_label=self.classes_[1]
        )

    def _keep(self, solution: Solution, classes: NDArray[Any]) -> None:
        """Set the fitted attributes that come from a solution."""
        self.classes_ = classes
        self.solution_ = solution
        self.coef_ = solution.weights[None, :]
        self.threshold_ = solution.threshold
        self.n_iter_ = solution.n_iter

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags


class TopPush(LinearRanker):
    """Linear ranker that puts positives above the highest negatives.

    Minimises lam/2 |w|^2 + mean_i l(T(w) - w.x_i) over the positives x_i, where T(w) is the mean
    of the `top` greatest scores of negatives; `top=1`, the greatest, is the paper's problem. The
    default solver reads the data some tens of times, and proves how close it came.

    Parameters
    ----------
    lam : float, default=1.0
        Strength of the penalty on the weights.
    top : int, float or "auto", default=1
        How many negatives count as the top: a count if an int, a share of the negatives if a
        float (`top=1` is one negative, `top=1.0` all of them). "auto" takes the fewest for which
        the problem has a solution better than zero, up to a factor of 1.2; the search costs a few
        fits. A fit says if not even all of them have one.
    loss : {"truncated_quadratic", "logistic", "exponential"}
    solver : {"newton", "paper"}, default="newton"
        "newton" is an interior-point method that ends with a proof of its accuracy; "paper" is
        the accelerated dual method of Li, Jin and Zhou (2014).
    tol : float, default=1e-4
        "newton" ends when upper and lower bound of the objective agree to this share; "paper"
        when the dual objective changes by less than this share.
    max_iter : int, default=10000
    n_threads : int, optional
        Threads over blocks of rows; by default all cores, or OMP_NUM_THREADS if set.
    device : str, optional
        Where torch is to hold the rows and do the work, such as "cuda"; it needs
        `toppush[gpu]`. By default the rows stay where they are: arrays with NumPy, a tensor
        on its device.
    warm_start : bool, default=False
        Begin at the last fit's solution if the rows are as many.
    checkpoint : path, optional
        A file that keeps the progress of "newton" about once a second. A fit of the same problem
        that finds it goes on from there; a fit that ends removes it.
    verbose : int, default=0
        1 shows a line that follows the fit.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
    intercept_ : array of shape (1,)
        Minus `threshold_`.
    threshold_ : float
        T(w) on the training rows.
    classes_ : array of shape (2,)
        The second class is the positive one.
    top_ : int
        The number of negatives that counted as the top.
    n_iter_ : int
    solution_ : Solution
        The weights with upper and lower bound of the objective, and how the solve ended.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)
        If X has column names that are strings.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MaxAbsScaler
    >>> from toppush import TopPush
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ranker = make_pipeline(MaxAbsScaler(), TopPush(lam=0.01)).fit(X, y)
    >>> round(ranker.score(X, y), 2)
    1.0

    References
    ----------
    N. Li, R. Jin, Z.-H. Zhou. Top Rank Optimization in Linear Time. NIPS 2014.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "lam": [Interval(Real, 0, None, closed="neither")],
        "top": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="right"),
            StrOptions({"auto"}),
        ],
        "loss": [StrOptions(set(LOSSES))],
        "solver": [StrOptions(set(SOLVERS))],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_threads": [None, Interval(Integral, 1, None, closed="left")],
        "device": [None, str],
        "warm_start": ["boolean"],
        "checkpoint": [None, str, PathLike],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        lam: float = 1.0,
        *,
        top: float | str = 1,
        loss: str = "truncated_quadratic",
        solver: str = "newton",
        tol: float = 1e-4,
        max_iter: int = 10_000,
        n_threads: int | None = None,
        device: str | None = None,
        warm_start: bool = False,
        checkpoint: str | PathLike[str] | None = None,
        verbose: int = 0,
    ) -> None:
        self.lam = lam
        self.top = top
        self.loss = loss
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_threads = n_threads
        self.device = device
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels, sample_weight: Any | None = None) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : array, sparse matrix, data frame or tensor of shape (n_samples, n_features)
            float64 and float32 are used as they are, dense or CSR, in memory, memory-mapped, in
            files (`toppush.on_disk.open`), as a torch tensor on any device, or as a Dask array or
            data frame whose partitions the workers of the running client hold.
        y : array, tensor or Dask array of shape (n_samples,)
            Two classes; the greater one is positive.
        sample_weight : array of shape (n_samples,), optional
            A positive's weight scales its loss. A negative counts whole or, with weight
            zero, not at all: the top of the list is made of rows, not of weight.

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            X, y, classes, positive, sample_weight = read_placed_rows(
                self, X, y, sample_weight, self.device
            )
            tasks = fit_tasks(self, X, y, classes, max_iter=self.max_iter)
            with open_design(X, positive, sample_weight, n_threads=self.n_threads) as design:
                require_both(design, classes)
                problem = TopPushProblem(design, LOSSES[self.loss], float(self.lam))
                if self.top == "auto":
                    k = automatic_top(problem, tol=max(self.tol, AUTO_TOL))
                else:
                    k = count_top(self.top, design.n_neg)
                problem = replace(problem, k=k)
                saved = self._checkpoint(problem)
                start = None if saved is None else saved.start()
                following = Following(self.verbose, self.tol, tasks, saved)
                solution = solve(
                    problem,
                    solver=self.solver,
                    tol=self.tol,
                    max_iter=self.max_iter,
                    start=self._start(X.shape[0]) if start is None else start,
                    watch=following.watch,
                )
                following.end(solution)
                solution = solution if saved is None else saved.finish(solution)
            self.top_ = k
            self._keep(solution, classes)
        warn_about(solution, problem, self.tol, searched=self.top == "auto")
        if tasks is not None:
            tasks.end()
        return self

    def _checkpoint(self, problem: TopPushProblem) -> Checkpoint | None:
        """The file that keeps the progress, if one is wanted."""
        if self.checkpoint is None:
            return None
        if self.solver != "newton":
            raise ValueError(
                f"checkpoint={str(self.checkpoint)!r} needs solver='newton', found "
                f"{self.solver!r}, whose state has an entry per row; leave checkpoint=None."
            )
        return Checkpoint(self.checkpoint, problem)

    def _start(self, n_rows: int) -> Solution | None:
        """The last solution if it is wanted and fits."""
        last: Solution | None = getattr(self, "solution_", None)
        if not self.warm_start or last is None:
            return None
        # A fit on a cluster has no dual, and the Newton method needs none.
        by_weights = self.solver == "newton" and not last.dual.size
        fits = by_weights or last.dual.size == n_rows
        return last if fits and last.weights.size == self.n_features_in_ else None


def decision(X: Matrix, weights: Array, threshold: float) -> Array:
    """X w less the threshold; what lies within the product's rounding of it is 0.

    The same row's product may round differently here than it did in the fit.
    """
    scores = score(X, weights)
    found = scores - threshold
    unit = np.finfo(str(X.dtype).rpartition(".")[2]).eps
    found[np.abs(found) <= TIE * unit * (np.abs(scores) + abs(threshold))] = 0.0
    return found


@contextmanager
def unchanged_on_failure(estimator: BaseEstimator) -> Iterator[None]:
    """A fit that fails or is interrupted leaves the fitted attributes as they were."""
    before = {name: value for name, value in vars(estimator).items() if name.endswith("_")}
    try:
        yield
    except BaseException:
        for name in [name for name in vars(estimator) if name.endswith("_")]:
            delattr(estimator, name)
        for name, value in before.items():
            setattr(estimator, name, value)
        raise


class Following:
    """Who follows a solve: the live line if `verbose`, the checkpoint, the callbacks' tasks."""

    def __init__(
        self, verbose: int, tol: float, tasks: FitTasks | None, saved: Checkpoint | None = None
    ) -> None:
        self._line = LiveLine(tol) if verbose else None
        self._tasks, self._saved = tasks, saved

    @property
    def watch(self) -> Watch | None:
        """What a solver is to call, if anybody follows."""
        anybody = self._line is not None or self._tasks is not None or self._saved is not None
        return self._note if anybody else None

    def _note(self, history: tuple[Iteration, ...], weights: Array, threshold: float) -> bool:
        if self._line is not None:
            self._line(history)
        if self._saved is not None:
            self._saved.note(history, weights, threshold)
        return self._tasks is not None and self._tasks.iteration(weights, threshold)

    def end(self, solution: Solution) -> None:
        """Show for good how the solve ended."""
        if self._line is not None:
            self._line.close(solution.history)


def warn_about(solution: Solution, problem: TopPushProblem, tol: float, *, searched: bool) -> None:
    """Say when a solve ended early, or when its weights mean little; `searched` for a top."""
    at_zero = problem.at_zero()
    if not solution.status.success:
        warnings.warn(
            f"{solution.status.value} After {solution.n_iter} iterations the objective is "
            f"{solution.upper:.6g} and the optimum is not below {solution.lower:.6g} "
            f"(relative gap {solution.relative_gap:.2g}).",
            ConvergenceWarning,
            stacklevel=4,
        )
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


def advice(problem: TopPushProblem, *, searched: bool) -> str:
    """What to do where weights of zero are optimal, in Python and at the command line."""
    if searched or problem.k == problem.design.n_neg:
        return "More negatives at the top do not help; find columns that tell the classes apart."
    return (
        'Let more negatives share the top: top="auto" (TopPushCV: tops=["auto"], command line: '
        "--top auto) finds the fewest for which there is a solution. A lower lam helps only if "
        "the optimum is close to, not at, zero."
    )


class TrainingRows(NamedTuple):
    """What a fit is given, validated."""

    X: Matrix
    y: NDArray[Any]
    classes: NDArray[Any]
    positive: NDArray[np.bool_]
    sample_weight: Array | None


def read_rows(
    estimator: BaseEstimator, X: Matrix, y: Labels, sample_weight: Any | None
) -> TrainingRows:
    """Validate what a fit is given; X is copied only if it is of another type."""
    X, y = validate_data(estimator, X, y, accept_sparse="csr", dtype=DTYPES)
    return _with_labels(X, y, sample_weight)


def read_placed_rows(
    estimator: BaseEstimator, X: Matrix, y: Labels, sample_weight: Any | None, device: str | None
) -> TrainingRows:
    """The same for rows that may be elsewhere, or are to go to a device."""
    if is_placed(X):
        X = read_matrix(estimator, place(X, device))
        if isinstance(X, Spread):
            return _with_lazy_labels(X, y, sample_weight)
        y = y if is_placed(y) else column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        return _with_labels(X, y, sample_weight)
    rows = read_rows(estimator, X, y, sample_weight)
    return rows._replace(X=place(rows.X, device))


def read_matrix(estimator: BaseEstimator, X: Matrix, *, reset: bool = True) -> Matrix:
    """Validate rows alone, wherever they are."""
    if is_placed(X):
        X = place(X)
        template = X.template if isinstance(X, Spread) else X
        validate_data(estimator, template, reset=reset, skip_check_array=True)
        return X
    return validate_data(estimator, X, accept_sparse="csr", dtype=DTYPES, reset=reset)


def _with_labels(X: Matrix, y: Any, sample_weight: Any | None) -> TrainingRows:
    classes, positive = two_classes(y)
    if sample_weight is not None:
        sample_weight = _check_sample_weight(
            to_host(sample_weight), X, dtype=np.float64, ensure_non_negative=True
        )
    return TrainingRows(X, y, classes, positive, sample_weight)


def _with_lazy_labels(X: Spread, y: Any, sample_weight: Any | None) -> TrainingRows:
    y = X.aligned(y, "y")
    classes, positive = two_classes(y)
    if sample_weight is not None:
        sample_weight = X.aligned(sample_weight, "sample_weight")
    return TrainingRows(X, y, classes, positive, sample_weight)


def two_classes(y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The two classes in order, and which rows are of the greater one."""
    classes = to_host(namespace(y).unique(y))
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
    return classes, y == classes.tolist()[1]


def require_both(design: Design, classes: NDArray[Any]) -> None:
    """Refuse weights that leave a class without rows."""
    for count, label in ((design.n_neg, classes[0]), (design.n_pos, classes[1])):
        if not count:
            raise ValueError(
                f"every row of class {label} has sample_weight 0, so y has one class left; "
                "give some of them a weight."
            )
