"""A ranker that adds up a curve of each column."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from toppush.designs import place
from toppush.folds.splits import some_rows
from toppush.matrices import dense
from toppush.models.base import (
    LABEL,
    LinearRanker,
    TrainingRows,
    decision,
    refuse_elsewhere,
    two_classes,
    unchanged_on_failure,
)
from toppush.models.curves import ColumnBasis, Curves
from toppush.models.linear import TopPush
from toppush.models.linear_cv import TopPushCV
from toppush.models.search import Scorer
from toppush.tables.validation import validated
from toppush.types import Array, Labels, Mask, Matrix, Where

TOL = 1e-3
SEARCH_ROWS, OF_EACH_CLASS = 20_000, 1_000
"""Rows that the folds share, evenly taken, and how many of each class if there are. The loss is a
mean over the positives and a top a share of the negatives, so what is good on some of the rows is
good on all."""
LAMS, TOPS = (10.0, 1.0, 0.1, 0.01, 0.001), (0.05, 0.1, 0.3)
"""The default grid. Features have sizes near 1, so it suits all tables. Tops below 0.05 were behind
on every data set tried, in average precision and at the top of the ranking."""
BATCH = 1 << 16
"""Rows that are scored at a time."""


class Curve(NamedTuple):
    """What a column adds to the score, less its mean over the training rows.

    Attributes
    ----------
    name : str
        The column's name, or its number.
    values, contribution : array
        Points of the curve, linear between them and constant beyond the ends.
    missing : float
        The contribution of a missing value; 0 if no training row has one.
    is_categorical : bool
        Whether the points are categories.
    """

    name: str
    values: Array
    contribution: Array
    missing: float
    is_categorical: bool


class TopPushAdditive(LinearRanker):
    """Additive ranker: one curve per column, fitted to rank positives above the highest negatives.

    The score is sum_j f_j(x_j). Each f_j is piecewise linear in the quantiles of the column, so
    heavy tails do no harm, and missing values have a value of their own. The problem is that of
    `TopPush` with a penalty on the roughness of the curves: convex, and solved with a certified
    optimality gap. lam and top are chosen by cross-validation as in `TopPushCV`. The knots use no
    labels, so the folds share them.

    Parameters
    ----------
    lams : sequence of float, optional
        Strengths of the penalty; by default 10, 1, 0.1, 0.01 and 0.001.
    tops : sequence of int, float or "auto", optional
        Counts or shares of the negatives, as for `TopPushCV`; by default 0.05, 0.1 and 0.3. One lam
        and one top are fitted without folds.
    n_pieces : int, default=8
        Pieces of a curve, rounded up to a power of two.
    categorical_features : sequence of bool, int or str, optional
        Columns with codes of categories: a mask, positions, or names.
    scoring : str or callable, default="average_precision"
        The metric of the cross-validation, as for `TopPushCV`, whose own rule is None.
    cv : int, splitter or iterable, default=5
        Folds. If an int, they share at most about 20,000 rows of both classes in proportion; the
        chosen pair is then fitted on all rows.
    n_jobs : int, optional
        Folds at a time, and threads of the final fit.
    verbose : int, default=0
        If 1, show progress.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    curves_ : list of Curve
        What each column adds to the score.
    offset_ : float
        The score of a row whose columns all contribute nothing: the mean over the training rows.
    lam_, top_, best_score_, cv_results_
        As `TopPushCV`; with one lam and one top only the first two.
    coef_ : array of shape (1, n_features_out)
        Weights of the basis functions of the curves.
    solution_ : Solution
        Bounds of the objective on all rows.
    threshold_, classes_, n_iter_, n_features_in_, feature_names_in_
        As `TopPush`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from toppush import TopPushAdditive
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ranker = TopPushAdditive([0.1], tops=[0.1]).fit(X, y)
    >>> round(ranker.score(X, y), 2)
    1.0
    >>> ranker.contributions(X).shape
    (569, 31)
    """

    values_: list[Array]
    levels_: Any
    common_: Array
    missing_: Mask
    means_: Array

    lam_: float
    top_: float

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "lams": [None, "array-like"],
        "tops": [None, "array-like"],
        "n_pieces": [Interval(Integral, 1, None, closed="left")],
        "categorical_features": [None, "array-like"],
        "scoring": [None, str, callable],
        "cv": ["cv_object", HasMethods(["split"])],
        "n_jobs": [None, Interval(Integral, 1, None, closed="left")],
        "verbose": ["verbose"],
        "positive": LABEL,
    }

    def __init__(
        self,
        lams: Sequence[float] | None = None,
        *,
        tops: Sequence[float | str] | None = None,
        n_pieces: int = 8,
        categorical_features: Sequence[Any] | None = None,
        scoring: str | Scorer | None = "average_precision",
        cv: Any = 5,
        n_jobs: int | None = None,
        verbose: int = 0,
        positive: object = None,
    ) -> None:
        self.lams, self.tops, self.n_pieces = lams, tops, n_pieces
        self.categorical_features, self.scoring = categorical_features, scoring
        self.cv, self.n_jobs, self.verbose = cv, n_jobs, verbose
        self.positive = positive

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the curves.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Numbers; NaN is a missing value. A value that at least half of a column's rows share
            has no features, so a sparse matrix stays sparse.
        y : array of shape (n_samples,)
            Two classes, of which `positive` names the one to rank first.
        sample_weight : array of shape (n_samples,), optional
            As for `TopPush`; the knots use the weights of both classes.

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            X, y = self._rows(X, y, reset=True)
            rows, classes = place(X), two_classes(y, self.positive)
            weight = None if sample_weight is None else rows.weights(sample_weight)
            positive = rows.mask(y, classes.tolist()[1])
            training = TrainingRows(rows, y, classes, positive, weight)
            curves = Curves.of(rows.original, weight, int(self.n_pieces), self._categorical())
            if not len(curves.means):
                raise ValueError(
                    f"each of the {X.shape[1]} columns of X holds one value only, so no row can "
                    "rank above another; add columns that differ between rows."
                )
            features = curves.transform(rows.original)
            self._take(self._fit_linear(features, training), training)
            self.values_ = [column.values for column in curves.columns]
            self.levels_ = np.array([column.levels for column in curves.columns])
            self.common_ = np.array([column.common for column in curves.columns])
            self.missing_ = np.array([column.missing for column in curves.columns])
            self.means_ = curves.means
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
        X, curves = self._rows(X, reset=False), self._curves
        parts = [X[start : start + BATCH] for start in range(0, X.shape[0], BATCH)]
        weights, threshold = self.coef_[0], self.threshold_
        return np.concatenate(
            [decision(place(curves.transform(part)), weights, threshold) for part in parts]
        )

    def contributions(self, X: Matrix) -> Array:
        """What each column adds to a row's score; the last column is the rest, `offset_`.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_features + 1)
            Rows sum to `decision_function`.
        """
        check_is_fitted(self)
        curves = self._curves
        features = curves.transform(self._rows(X, reset=False))
        by_column = curves.per_column(self.coef_[0])
        added = dense(features @ by_column) - curves.means @ by_column
        return np.column_stack([added, np.full(len(added), self.offset_)])

    def curve(self, column: int | str) -> Curve:
        """What a column adds to the score, by its name or position.

        Parameters
        ----------
        column : int or str

        Returns
        -------
        Curve
        """
        check_is_fitted(self)
        return self._curve(self._position(column))

    @property
    def curves_(self) -> list[Curve]:
        """The curves of all columns."""
        return [self._curve(column) for column in range(self.n_features_in_)]

    @property
    def offset_(self) -> float:
        """The score of a row whose columns contribute nothing."""
        return float(self.means_ @ self.coef_[0] - self.threshold_)

    def _rows(self, X: Matrix, y: Any = "no_validation", *, reset: bool) -> Any:
        refuse_elsewhere(self, X=X)
        return validated(
            self,
            X,
            y,
            reset=reset,
            accept_sparse="csr",
            dtype=np.float64,
            ensure_all_finite="allow-nan",
        )

    def _fit_linear(self, features: Matrix, training: TrainingRows) -> TopPush | TopPushCV:
        """Cross-validate several pairs on some of the rows; fit the best to all."""
        lams = LAMS if self.lams is None else self.lams
        tops = TOPS if self.tops is None else self.tops
        settings: dict[str, Any] = {"tol": TOL, "n_jobs": self.n_jobs, "verbose": self.verbose}
        n_rows = len(training.positive)
        everything = np.arange(n_rows)
        if len(lams) == len(tops) == 1:
            ranker = TopPush(lams[0], top=tops[0], **settings)
            return self._fitted(ranker, features, training, everything)
        where = self._searched(training.positive)
        part = features if len(where) == n_rows else features[where]
        chooser = PairChooser(lams, tops=tops, scoring=self.scoring, cv=self.cv, **settings)
        self._fitted(chooser, part, training, where)
        final = TopPush(chooser.lam_, top=chooser.top_, **settings)
        self._fitted(final, features, training, everything)
        chooser._keep(final.solution_, chooser.classes_)
        return chooser

    def _searched(self, positive: Mask) -> Where:
        """The rows that the folds share, in order."""
        if not (isinstance(self.cv, Integral) and len(positive) > SEARCH_ROWS):
            return np.arange(len(positive))
        return some_rows(positive, SEARCH_ROWS, OF_EACH_CLASS)

    def _fitted(
        self, ranker: TopPush | TopPushCV, features: Matrix, training: TrainingRows, where: Where
    ) -> TopPush | TopPushCV:
        if callbacks := getattr(self, "_skl_callbacks", ()):
            ranker.set_callbacks(*callbacks)
        weight = training.sample_weight
        y = training.classes[training.positive[where].astype(int)]  # scorers may name a class
        fitted: TopPush | TopPushCV = ranker.set_params(positive=training.positive_class).fit(
            features, y, None if weight is None else weight[where]
        )
        return fitted

    def _take(self, ranker: TopPush | TopPushCV, training: TrainingRows) -> None:
        """Keep the fitted attributes of a linear ranker on the features."""
        self.classes_, self.coef_ = training.classes, ranker.coef_
        self.threshold_, self.n_iter_ = ranker.threshold_, ranker.n_iter_
        for name in ("solution_", "cv_results_", "best_score_"):
            if hasattr(ranker, name):
                setattr(self, name, getattr(ranker, name))
            elif hasattr(self, name):
                delattr(self, name)
        if isinstance(ranker, TopPushCV):
            self.lam_, self.top_ = ranker.lam_, ranker.top_
        else:
            top = ranker.top_ if isinstance(ranker.top, str) else ranker.top
            self.lam_, self.top_ = float(ranker.lam), top

    @property
    def _curves(self) -> Curves:
        parts = zip(self.values_, self.levels_, self.common_, self.missing_, strict=True)
        columns = [
            ColumnBasis(values, int(levels), float(common), bool(missing))
            for values, levels, common, missing in parts
        ]
        return Curves(columns, self.means_)

    def _curve(self, j: int) -> Curve:
        curves = self._curves
        column, part = curves.columns[j], slice(*curves.starts[j : j + 2])
        values = column.values
        if column.has_common:
            values = np.sort(np.append(values, column.common))
        alone = Curves([column], curves.means[part])
        weights = self.coef_[0][part]
        points = np.append(values, np.nan)[:, None]
        heights = alone.transform(points) @ weights - alone.means @ weights
        names = getattr(self, "feature_names_in_", None)
        name = str(j) if names is None else str(names[j])
        return Curve(name, values, heights[:-1], float(heights[-1]), column.levels < 0)

    def _position(self, column: int | str) -> int:
        names = list(getattr(self, "feature_names_in_", []))
        if column in names:
            return names.index(column)
        if isinstance(column, Integral) and -self.n_features_in_ <= column < self.n_features_in_:
            return int(column) % self.n_features_in_
        known = f", or one of {', '.join(map(str, names[:5]))}, ..." if names else ""
        raise ValueError(
            f"column={column!r} is not among the {self.n_features_in_} columns of the fit; give a "
            f"position from 0{known}."
        )

    def _categorical(self) -> Mask:
        """Which columns are categorical."""
        mask = np.zeros(self.n_features_in_, bool)
        if self.categorical_features is None or not len(self.categorical_features):
            return mask
        asked = np.asarray(self.categorical_features)
        if asked.dtype == bool:
            if len(asked) != len(mask):
                raise ValueError(
                    f"categorical_features is a mask of {len(asked)} columns, and X has "
                    f"{len(mask)}; give one entry per column, or positions."
                )
            return asked
        for column in asked.tolist():
            mask[self._position(column)] = True
        return mask

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class PairChooser(TopPushCV):
    """Chooses a pair without the final fit, which is to all rows."""

    def _fit_best(self, training: TrainingRows) -> None:
        self.classes_ = training.classes
