"""Linear rankers whose column representation and penalty are chosen by cross-validation."""

import itertools
import warnings
from collections.abc import Iterator
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
from sklearn.utils._param_validation import Interval, StrOptions

from toppush.auto.search import CachedFits, SettingSearch, TunedRanker, WeightedRows
from toppush.folds.scores import (
    in_order,
    location_and_scale,
    scored_in_turn,
)
from toppush.folds.splits import Folds, Turn
from toppush.matrices import dense, is_sparse, stored, times
from toppush.models.base import LABEL, DegenerateWarning, unchanged_on_failure
from toppush.models.cross_fitted import TOP
from toppush.models.curves import Curves
from toppush.models.linear import TopPush
from toppush.thresholds.probabilities import calibrate
from toppush.types import Array, Labels, Mask, Matrix, Where

Penalty = tuple[float, float]
PENALTIES: dict[str, tuple[Penalty, ...]] = {
    "logistic": ((1e2, TOP), (1.0, TOP), (1e-2, TOP)),
    "push": ((1e-1, 0.1), (1e-3, TOP)),
    "terms": ((3.0, TOP), (0.5, TOP), (0.05, TOP)),
}
"""The grid of each loss: the factor of half the squared weights, against the sum of log losses or
against a mean loss, and the share of negatives in the top of `TopPush`. "terms" is the log loss of
unscaled columns: scaling would undo the weights of terms of text."""
MOST_STEPS = 100
FEW_NUMBERS, FEW_ENTRIES = 200, 1_000_000
"""LinearFeatures, and entries of all rows, up to which Newton's method is faster."""
TINY, LARGEST_STEP, STILL = 1e-9, 5.0, 1e-3
"""Of that method: added to the diagonal of its matrix, the greatest change of a weight in a step,
and the change at which it ends."""
PIECES = 8
FEW_COLUMNS = 2_000
"""Columns of sparse rows up to which curves are tried."""
TOL = 1e-1
"""Of `TopPush`: on most data sets stopping early ranks new rows better than the optimum does."""


class TopLinear(TunedRanker):
    """Linear ranker on the columns or on a curve of each, chosen by cross-validation.

    Parameters
    ----------
    loss : {"logistic", "push"}, default="logistic"
        Logistic regression, or `TopPush`.
    form : {"auto", "scaled", "straight", "curves", "unscaled"}, default="auto"
        Representation of the columns: divided by their largest entry; over their range, with the
        most common value apart; or as curves over their quantiles. "auto" cross-validates these.
        "unscaled" leaves them as they are, for weights of terms of text; the loss is logistic.
    categorical_features : list of int, optional
        Positions of categorical columns.
    cv : int, splitter or iterable of (train, held-out) pairs, optional
        By default four shuffled folds.
    random_state : int, RandomState or None, default=0
        Shuffles the folds.
    verbose : int, default=0
        Without effect.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    form_, penalty_ : str, list of two numbers
        The chosen representation, penalty, and share of negatives in the top.
    coef_ : array of shape (1, n_features_out)
        Weights of the features made of the columns.
    out_of_fold_ : array of shape (n_samples,)
        Scores of the training rows by weights that were fitted to other rows, with the settings
        that other rows chose, less the threshold.
    threshold_ : float
        Score above which the expected F1 score of new rows is greatest; scores are less this.
    calibration_ : Calibration
        Probabilities of scores, see `toppush.thresholds.probabilities`.
    classes_ : array of shape (2,)
        The second class is the positive one.
    n_features_in_ : int
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [StrOptions({"logistic", "push"})],
        "form": [StrOptions({"auto", "scaled", "straight", "curves", "unscaled"})],
        "categorical_features": ["array-like", None],
        "cv": ["cv_object"],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "positive": LABEL,
    }

    form_: str
    coef_: Array

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
        self.loss, self.form, self.categorical_features = loss, form, categorical_features
        self.cv, self.n_jobs, self.random_state = cv, n_jobs, random_state
        self.verbose, self.positive = verbose, positive

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the representation and the penalty, then learn the weights.

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
            search = self._search(rows, folds)
            form, penalty = search.settings[search.best]
            features = LinearFeatures.of(rows, form)
            scores = self._unseen(search, rows, folds)
            weights, shift = fit_weights(self._grid, features.matrix, rows, penalty)
            self.form_, self.penalty_ = form, list(penalty)
            self.coef_ = (weights * features.factor)[None, :]
            self.curves_ = None if features.curves is None else features.curves.arrays()
            above, self.calibration_ = calibrate(rows.positive, scores, rows.weight)
            self.threshold_ = shift + above
            self.out_of_fold_ = scores - above
        return self

    @property
    def _grid(self) -> str:
        """The name of its losses and penalties in `PENALTIES`."""
        return "terms" if self.form == "unscaled" else self.loss

    def _score(self, X: Matrix) -> Array:
        return np.asarray(X @ self.coef_[0])

    def _contributions(self, X: Matrix) -> Array:
        if self.curves_ is None:
            added = dense(times(X, self.coef_[0]))
        else:
            added = dense(X @ self._curves.per_column(self.coef_[0]))
        return np.column_stack([added, np.zeros(len(added))])

    def _read(self, X: Matrix) -> Matrix:
        """The features of rows to score."""
        X = super()._read(X)
        return X if self.curves_ is None else self._curves.transform(X)

    @property
    def _curves(self) -> Curves:
        assert self.curves_ is not None
        return Curves.from_arrays(self.curves_)

    def _tried(self, rows: WeightedRows) -> Iterator[tuple[tuple[str, Penalty], CachedFits]]:
        for form in self._forms(rows):
            matrix = LinearFeatures.of(rows, form).matrix
            for penalty in PENALTIES[self._grid]:
                yield (form, penalty), self._fits(matrix, rows, penalty)

    def _fits(self, matrix: Matrix, rows: WeightedRows, penalty: Penalty) -> CachedFits:
        def scores_by(train: Where) -> Array:
            some = rows.part(train, matrix)
            weights, shift = fit_weights(self._grid, some.X, some, penalty)
            return np.asarray(matrix @ weights) - shift

        return CachedFits(scores_by)

    def _unseen(self, search: SettingSearch, rows: WeightedRows, folds: Folds) -> Array:
        """Scores of all held-out rows by settings chosen without them."""
        matrix_of = cache(lambda form: LinearFeatures.of(rows, form).matrix)
        best, turns = search.best, itertools.count()

        def scores_by(place: int, turn: Turn) -> Array:
            if len(search.scores[place]) == len(rows.positive):
                return np.asarray(search.scores[place][turn.judged])
            form, penalty = search.settings[place]
            fold = folds[turn.fold][0], turn.judged
            fits = self._fits(matrix_of(form), rows, penalty)
            return fits.held_scores([fold], len(rows.positive))[turn.judged]

        def score(turn: Turn) -> Array:
            place = search.best_in(next(turns))
            scores = scores_by(place, turn)
            return scores if place == best else in_order(scores_by(best, turn), scores)

        return scored_in_turn(folds, rows.positive, score)

    def _forms(self, rows: WeightedRows) -> list[str]:
        """The representations to try."""
        if self.form != "auto":
            return [self.form]
        if not is_sparse(rows.X):
            return ["straight", "curves"]
        binary = len(np.unique(stored(rows.X)[:10_000])) < 2
        return ["scaled"] if binary or rows.X.shape[1] > FEW_COLUMNS else ["scaled", "curves"]


@dataclass(frozen=True)
class LinearFeatures:
    """The features made of the columns, and how."""

    matrix: Matrix
    curves: Curves | None
    factor: Array | float = 1.0
    """Ratio of the weight of a column to that of its feature."""

    @classmethod
    def of(cls, rows: WeightedRows, form: str) -> "LinearFeatures":
        """From training rows; no labels are used, so folds may share it."""
        if form == "unscaled":
            return cls(rows.X, None)
        if form == "scaled":
            largest = np.ravel(dense(abs(rows.X).max(axis=0)))
            factor = 1.0 / np.where(largest > 0.0, largest, 1.0)
            return cls(times(rows.X, factor), None, factor)
        pieces = PIECES if form == "curves" else 0
        curves = Curves.of(rows.X, rows.weight, pieces, rows.categorical)
        return cls(curves.transform(rows.X), curves)


def fit_weights(
    loss: str, matrix: Matrix, rows: WeightedRows, penalty: Penalty
) -> tuple[Array, float]:
    """Weights of the features, and the mean score of negatives.

    Scores are scaled to standard deviation 1: those of `TopPush` differ in size between folds.
    """
    weights = _weights(loss, matrix, rows, penalty)
    center, scale = location_and_scale(matrix @ weights, rows.positive)
    return weights / scale, center / scale


def _weights(loss: str, matrix: Matrix, rows: WeightedRows, penalty: Penalty) -> Array:
    if loss == "push":
        lam, top = penalty
        return _coefficients(TopPush(lam, top=top, tol=TOL, n_jobs=1), matrix, rows)
    if loss == "terms":  # liblinear is several times faster than the default there
        sparse_log = LogisticRegression(C=1.0 / penalty[0], solver="liblinear", tol=1e-2)
        return _coefficients(sparse_log, matrix, rows)
    if matrix.shape[1] <= FEW_NUMBERS and matrix.shape[0] * matrix.shape[1] <= FEW_ENTRIES:
        return _newton(dense(matrix), rows.positive, rows.mass, penalty[0])
    model = LogisticRegression(C=1.0 / penalty[0], max_iter=MOST_STEPS, tol=1e-3)
    return _coefficients(model, matrix, rows)


def _coefficients(model: Any, matrix: Matrix, rows: WeightedRows) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (ConvergenceWarning, DegenerateWarning))
        model.fit(matrix, rows.positive, sample_weight=rows.weight)
    return np.asarray(model.coef_[0], np.float64)


def _newton(Z: Array, positive: Mask, mass: Array, strength: float) -> Array:
    """Logistic regression with an intercept by Newton's method, for few features.

    scikit-learn's takes 4 ms for 500 rows, most of it overhead, and a search fits it 20 times.
    """
    Z = np.column_stack([Z, np.ones(len(Z))])
    ridge = np.append(np.full(Z.shape[1] - 1, strength), 0.0)
    weights = np.zeros(Z.shape[1])
    for _ in range(MOST_STEPS):
        share = expit(Z @ weights)
        gradient = Z.T @ (mass * (share - positive)) + ridge * weights
        scaled = Z * np.sqrt(mass * share * (1.0 - share))[:, None]
        hessian = scaled.T @ scaled + np.diag(
            ridge + TINY
        )  # half the work of two different factors
        step = np.linalg.solve(hessian, gradient)
        weights -= step / max(1.0, float(np.abs(step).max()) / LARGEST_STEP)
        if np.abs(step).max() < STILL:
            break
    return weights[:-1]
