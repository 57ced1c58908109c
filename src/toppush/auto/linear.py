"""Linear rankers whose form of columns and strength of penalty the folds choose."""

import itertools
import warnings
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from toppush.auto.quality import Judge
from toppush.folds.cross_fitted import (
    Fold,
    Turn,
    folds_of,
    in_order,
    in_turn,
    nested,
    require_two_of_each,
    scored_in_turn,
    some_rows,
    top_mean,
    weights_of,
    within,
)
from toppush.matrices import dense, is_sparse, stored, times
from toppush.models.base import (
    LABEL,
    DegenerateWarning,
    Ranker,
    refuse_elsewhere,
    two_classes,
    unchanged_on_failure,
)
from toppush.models.curves import Curves
from toppush.models.linear import TopPush
from toppush.system.threads import check_cancelled
from toppush.tables.validation import validated
from toppush.types import Array, Labels, Mask, Matrix, Where

TOP = 0.01
"""Share of the negatives that makes the top, by which scores are shifted."""
Penalty = tuple[float, float]
PENALTIES: dict[str, tuple[Penalty, ...]] = {
    "logistic": ((1e2, TOP), (1.0, TOP), (1e-2, TOP)),
    "push": ((1e-1, 0.1), (1e-3, TOP)),
}
"""What is tried: penalties of half the squared weights, beside the sum of log losses or beside a
mean, and shares of the negatives that are pushed against."""
MOST_STEPS = 100
FEW_NUMBERS, FEW_ENTRIES = 200, 1_000_000
"""Numbers that columns become, and entries of all rows, up to which Newton's method is faster."""
TINY, LARGEST_STEP, STILL = 1e-9, 5.0, 1e-3
"""Of that method: what keeps its matrix regular, and the greatest change of a weight in a step
that is taken, and at which it ends."""
READING: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": np.float64,
    "ensure_all_finite": "allow-nan",
}
"""How rows are checked."""
PIECES = 8
SEARCH_ROWS = 5_000
"""Rows by which form and strength are chosen, of both classes as they come."""
FEW_OF_A_CLASS = 250
"""Rows of the rarer class, of those, up to which settings are chosen by fits that did not see the
judged rows. With more of them the folds' own fits do, at half the cost: the optimism that this
leaves falls with the number of rows."""
FEW_COLUMNS = 2_000
"""Columns of sparse rows up to which they may bend."""
TOL = 1e-1
"""Of the push: on most sets an early end ranks other rows better than the optimum does."""


class TopLinear(Ranker):
    """Linear ranker on the columns or on a curve for each, as the folds say.

    Parameters
    ----------
    loss : {"logistic", "push"}, default="logistic"
        Logistic regression, or `TopPush`.
    form : {"auto", "scaled", "straight", "curves"}, default="auto"
        Columns divided by their largest entry; columns over their range, their most common value
        apart; or curves over their quantiles. "auto" lets the folds choose.
    categorical_features : list of int, optional
        Columns that hold categories, by number.
    cv : int, splitter or iterable of (train, held-out) pairs, optional
        By default four folds, drawn anew.
    random_state : int, RandomState or None, default=0
        What draws the folds.
    verbose : int, default=0
        Without effect.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    form_, penalty_ : str, list of two numbers
        What the folds chose: the form, the penalty, and the share of negatives that is pushed
        against.
    coef_ : array of shape (1, n_numbers)
        Weights of the numbers that columns become.
    out_of_fold_ : array of shape (n_samples,)
        Scores of the training rows by weights that were fitted to other rows, with the form and
        penalty that other rows chose, less the threshold.
    threshold_ : float
        Mean of the greatest of these scores of negatives, 1 % of them.
    classes_ : array of shape (2,)
        The second class is the positive one.
    n_features_in_ : int
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [StrOptions(set(PENALTIES))],
        "form": [StrOptions({"auto", "scaled", "straight", "curves"})],
        "categorical_features": ["array-like", None],
        "cv": ["cv_object"],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "positive": LABEL,
    }

    form_: str
    coef_: Array
    threshold_: float

    def __init__(
        self,
        loss: str = "logistic",
        *,
        form: str = "auto",
        categorical_features: Any = None,
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        positive: object = None,
    ) -> None:
        self.loss = loss
        self.form = form
        self.categorical_features = categorical_features
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.positive = positive

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the form and the strength, then learn the weights.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Numbers; NaN is a missing value.
        y : array-like of shape (n_samples,)
            Two classes, of which `positive` names the one to rank first.
        sample_weight : array-like of shape (n_samples,), optional
            Counts relative to the mean weight; a row of weight 0 is left out.

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            rows, folds = self._read_training(X, y, sample_weight)
            tried = self._try(rows, folds)
            form, penalty = tried.settings[tried.best]
            made = Features.of(rows, form)
            scores = tried.unseen(self.loss, rows, folds)
            weights, shift = fit_weights(self.loss, made.matrix, rows, penalty)
            self.form_, self.penalty_ = form, list(penalty)
            self.coef_ = (weights * made.factor)[None, :]
            self.curves_ = None if made.curves is None else made.curves.arrays()
            above = top_mean(scores[~rows.positive], TOP)
            self.threshold_ = shift + above
            self.out_of_fold_ = scores - above
        return self

    def decision_function(self, X: Matrix) -> Array:
        """Scores less the threshold; higher ranks first.

        Only the order counts; a score above 0 exceeds that of the top training negatives and is
        not a decision.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
        """
        check_is_fitted(self)
        return np.asarray(self._numbers(X) @ self.coef_[0] - self.threshold_)

    def contributions(self, X: Matrix) -> Array:
        """What each column adds to a row's score; the last column is the rest.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_features + 1)
            Rows sum to `decision_function`.
        """
        check_is_fitted(self)
        numbers = self._numbers(X)
        if self.curves_ is None:
            found = dense(times(numbers, self.coef_[0]))
        else:
            found = dense(numbers @ self._curves.per_column(self.coef_[0]))
        return np.column_stack([found, np.full(len(found), -self.threshold_)])

    def _numbers(self, X: Matrix) -> Matrix:
        """What the columns of rows to score become."""
        refuse_elsewhere(self, X=X)
        X = validated(self, X, reset=False, **READING)
        return X if self.curves_ is None else self._curves.transform(X)

    @property
    def _curves(self) -> Curves:
        assert self.curves_ is not None
        return Curves.from_arrays(self.curves_)

    def _read_training(
        self, X: Matrix, y: Labels, sample_weight: ArrayLike | None
    ) -> tuple["Rows", list[Fold]]:
        refuse_elsewhere(self, X=X)
        X, y = validated(self, X, y, **READING)
        self.classes_ = two_classes(y, self.positive)
        weight = weights_of(sample_weight, X)
        counted = np.arange(len(y)) if weight is None else np.flatnonzero(weight > 0)
        positive = np.asarray(y == self.classes_[1])
        require_two_of_each(positive[counted], self.classes_)
        categorical = np.zeros(X.shape[1], bool)
        categorical[[] if self.categorical_features is None else self.categorical_features] = True
        rows = Rows(X, positive, weight, categorical)
        return rows, folds_of(self.cv, y, positive, counted, self.random_state)

    def _try(self, rows: "Rows", folds: list[Fold]) -> "Tried":
        """Scores of some held-out rows by each form and penalty, and again for each turn."""
        where = some_rows(rows.positive, SEARCH_ROWS)
        some, parts = rows.part(where), [within(fold, where) for fold in folds]
        turns = [
            Turn(turn.fold, *within((turn.choosing, turn.judged), where))
            for turn in in_turn(folds, rows.positive)
        ]
        settings, lists, inner = [], [], []
        inner_folds = [self._inner(parts, turn, some.positive) for turn in turns]
        for form in self._forms(rows):
            matrix = Features.of(some, form).matrix
            for penalty in PENALTIES[self.loss]:
                settings.append((form, penalty))
                fits = Fits(self.loss, matrix, some, penalty)
                lists.append(fits.held_scores(parts))
                inner.append([fits.held_scores(own) for own in inner_folds])
        return Tried(settings, np.array(lists), np.array(inner), some)

    def _inner(self, folds: list[Fold], turn: Turn, positive: Mask) -> list[Fold]:
        """Folds that choose in a turn, see `FEW_OF_A_CLASS`."""
        if min(positive.sum(), (~positive).sum()) <= FEW_OF_A_CLASS:
            return nested(folds, turn, positive)
        return [(train, np.intersect1d(held, turn.choosing)) for train, held in folds]

    def _forms(self, rows: "Rows") -> list[str]:
        """Forms that are tried."""
        if self.form != "auto":
            return [self.form]
        if not is_sparse(rows.X):
            return ["straight", "curves"]
        binary = len(np.unique(stored(rows.X)[:10_000])) < 2
        return ["scaled"] if binary or rows.X.shape[1] > FEW_COLUMNS else ["scaled", "curves"]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # `predict` marks the very top, not the classes
        tags.input_tags.allow_nan = True
        return tags


@dataclass(frozen=True)
class Rows:
    """Training rows, and what is known of them."""

    X: Matrix
    positive: Mask
    weight: Array | None
    categorical: Mask

    @property
    def mass(self) -> Array:
        """Weights, 1 if none were given."""
        return np.ones(len(self.positive)) if self.weight is None else self.weight

    def part(self, where: Where, X: Matrix | None = None) -> "Rows":
        """Some of them, as they are or as `X` has them."""
        weight = None if self.weight is None else self.weight[where]
        X = self.X if X is None else X
        return Rows(X[where], self.positive[where], weight, self.categorical)


@dataclass(frozen=True)
class Features:
    """What columns become, and how."""

    matrix: Matrix
    curves: Curves | None
    factor: Array | float = 1.0
    """By which a weight of the matrix becomes one of the columns."""

    @classmethod
    def of(cls, rows: Rows, form: str) -> "Features":
        """From training rows; no labels are asked, so folds may share it."""
        if form == "scaled":
            largest = np.ravel(dense(abs(rows.X).max(axis=0)))
            factor = 1.0 / np.where(largest > 0.0, largest, 1.0)
            return cls(times(rows.X, factor), None, factor)
        pieces = PIECES if form == "curves" else 0
        curves = Curves.of(rows.X, rows.weight, pieces, rows.categorical)
        return cls(curves.transform(rows.X), curves)


@dataclass(frozen=True)
class Tried:
    """Scores of some held-out rows by each setting, a form and a penalty."""

    settings: list[tuple[str, Penalty]]
    lists: Array
    """A row of scores for each setting."""
    inner: Array
    """The same for each turn, by fits that did not see the rows that it judges."""
    rows: "Rows"

    @property
    def best(self) -> int:
        """The setting with the best ranking of all rows."""
        return self._best(self.lists)

    def best_in(self, turn: int) -> int:
        """The setting with the best ranking of the rows that choose in a turn."""
        return self._best(self.inner[:, turn])

    def _best(self, lists: Array) -> int:
        known = ~np.isnan(lists[0])
        judge = Judge(self.rows.positive[known], self.rows.mass[known])
        return int(np.argmax(np.round(judge(lists[:, known]), 12)))

    def unseen(self, loss: str, rows: "Rows", folds: list[Fold]) -> Array:
        """Scores of all held-out rows by settings chosen without them, spread as by the best."""
        matrix_of = cache(lambda form: Features.of(rows, form).matrix)
        best, turns = self.best, itertools.count()

        def scores_by(place: int, turn: Turn) -> Array:
            if len(self.lists[place]) == len(rows.positive):
                return np.asarray(self.lists[place][turn.judged])
            form, penalty = self.settings[place]
            fold = folds[turn.fold][0], turn.judged
            return Fits(loss, matrix_of(form), rows, penalty).held_scores([fold])[turn.judged]

        def score(turn: Turn) -> Array:
            place = self.best_in(next(turns))
            scores = scores_by(place, turn)
            return scores if place == best else in_order(scores_by(best, turn), scores)

        return scored_in_turn(folds, rows.positive, score)


class Fits:
    """Fits of one penalty to parts of the rows, each made once."""

    def __init__(self, loss: str, matrix: Matrix, rows: Rows, penalty: Penalty) -> None:
        self._loss, self._matrix, self._rows, self._penalty = loss, matrix, rows, penalty
        self._scores: dict[bytes, Array] = {}

    def held_scores(self, folds: list[Fold]) -> Array:
        """Scores of the held-out rows by weights that did not see them, NaN of others."""
        n_rows = len(self._rows.positive)
        total, times = np.zeros(n_rows), np.zeros(n_rows)
        for train, held in folds:
            total[held] += self._scores_by(train)[held]
            times[held] += 1
        with np.errstate(invalid="ignore"):
            return np.asarray(total / times)

    def _scores_by(self, train: Where) -> Array:
        """Scores of all rows by a fit to some; two folds share the fit without either of them."""
        train = np.sort(train)
        if (key := train.tobytes()) not in self._scores:
            check_cancelled()
            rows = self._rows.part(train, self._matrix)
            weights, shift = fit_weights(self._loss, rows.X, rows, self._penalty)
            self._scores[key] = np.asarray(self._matrix @ weights) - shift
        return self._scores[key]


def fit_weights(loss: str, matrix: Matrix, rows: Rows, penalty: Penalty) -> tuple[Array, float]:
    """Weights of the numbers that columns have become, and the mean score of negatives.

    Scores of the rows have deviation 1: those of fits that push differ in size from fold to fold.
    """
    weights = _weights(loss, matrix, rows, penalty)
    scores = matrix @ weights
    spread = float(scores.std()) or 1.0
    return weights / spread, float(scores[~rows.positive].mean()) / spread


def _weights(loss: str, matrix: Matrix, rows: Rows, penalty: Penalty) -> Array:
    if loss == "push":
        lam, top = penalty
        return _coefficients(TopPush(lam, top=top, tol=TOL, n_jobs=1), matrix, rows)
    if matrix.shape[1] <= FEW_NUMBERS and matrix.shape[0] * matrix.shape[1] <= FEW_ENTRIES:
        return _newton(dense(matrix), rows.positive, rows.mass, penalty[0])
    model = LogisticRegression(C=1.0 / penalty[0], max_iter=MOST_STEPS, tol=1e-3)
    return _coefficients(model, matrix, rows)


def _coefficients(model: Any, matrix: Matrix, rows: Rows) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (ConvergenceWarning, DegenerateWarning))
        model.fit(matrix, rows.positive, sample_weight=rows.weight)
    return np.asarray(model.coef_[0], np.float64)


def _newton(Z: Array, positive: Mask, mass: Array, strength: float) -> Array:
    """Logistic regression with an intercept by Newton's method, for few numbers.

    scikit-learn's takes 4 ms for 500 rows, most of it not in the sums, and folds ask 20 times.
    """
    Z = np.column_stack([Z, np.ones(len(Z))])
    ridge = np.append(np.full(Z.shape[1] - 1, strength), 0.0)
    weights = np.zeros(Z.shape[1])
    for _ in range(MOST_STEPS):
        share = expit(Z @ weights)
        slope = Z.T @ (mass * (share - positive)) + ridge * weights
        scaled = Z * np.sqrt(mass * share * (1.0 - share))[:, None]
        bend = scaled.T @ scaled + np.diag(ridge + TINY)  # half the work of two different factors
        step = np.linalg.solve(bend, slope)
        weights -= step / max(1.0, float(np.abs(step).max()) / LARGEST_STEP)
        if np.abs(step).max() < STILL:
            break
    return weights[:-1]
