"""A ranker that adds up a curve of each column."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from toppush.matrices import dense
from toppush.models.base import unchanged_on_failure
from toppush.models.choice import Scorer
from toppush.models.curves import Column, Curves
from toppush.models.features import FeatureRanker
from toppush.types import Array, Labels, Mask, Matrix


class Curve(NamedTuple):
    """What a column adds to the score, less its mean over the training rows.

    Attributes
    ----------
    name : str
        The column's name, or its number.
    values, contribution : array
        Points of the curve; between two of them it goes on, beyond the ends it stays level.
    missing : float
        The contribution of a missing value; 0 if no training row has one.
    is_categorical : bool
        Whether the points are categories, with nothing between them.
    """

    name: str
    values: Array
    contribution: Array
    missing: float
    is_categorical: bool


class TopPushAdditive(FeatureRanker):
    """Ranker that adds up one curve per column and puts positives above the highest negatives.

    The score is sum_j f_j(x_j). Each f_j is piecewise linear in the ranks of the column's values,
    so heavy tails do no harm, and missing values have a level of their own. The problem is that
    of `TopPush` in the curves' heights, with a penalty on their roughness: convex, and solved with
    a certificate. lam and top are chosen by cross-validation as in `TopPushCV`, from grids that
    suit the curves. The curves' knots use no labels, so the folds share them.

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
        Columns whose numbers are codes of categories: a mask, positions, or names. Each category
        has a level.
    scoring : str or callable, default="average_precision"
        By what the folds choose, as for `TopPushCV`, whose own rule is None.
    cv : int, splitter or iterable, default=5
        Folds. If an int, they share at most about 20,000 rows, evenly taken of both classes; the
        chosen pair is then fitted on all rows.
    n_jobs : int, optional
        Folds at a time, and threads of the final fit.
    verbose : int, default=0
        1 shows a line that counts the folds' fits, and one that follows the final fit.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    curves_ : list of Curve
        What each column adds to the score, to show.
    offset_ : float
        The score of a row whose columns all contribute nothing: the mean over the training rows.
    lam_, top_, best_score_, cv_results_
        As `TopPushCV`; with one lam and one top only the first two.
    coef_ : array of shape (1, n_numbers)
        Weights of the numbers that the curves are made of.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FeatureRanker._shared_constraints,
        "n_pieces": [Interval(Integral, 1, None, closed="left")],
        "categorical_features": [None, "array-like"],
    }
    # Features have sizes near 1, so that the same few pairs do for all tables. Tops below 0.05
    # were behind on every set tried, in average precision and at the head of the list.
    _lams = (10.0, 1.0, 0.1, 0.01, 0.001)
    _tops = (0.05, 0.1, 0.3)
    _allow_nan = True

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
            Numbers; NaN is a missing value. A value that half of a column's rows or more share
            costs nothing, so a sparse matrix stays sparse.
        y : array of shape (n_samples,)
            Two classes, of which `positive` names the one to rank first.
        sample_weight : array of shape (n_samples,), optional
            As for `TopPush`; the knots count the weights of both classes.

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            given = self._read(X, y, sample_weight)
            rows, categorical = given.rows.original, self._categorical()
            curves = Curves.of(rows, given.sample_weight, int(self.n_pieces), categorical)
            if not len(curves.means):
                raise ValueError(
                    f"each of the {rows.shape[1]} columns of X holds one value only, so no row can "
                    "rank above another; add columns that differ between rows."
                )
            features = curves.transform(rows)
            self._take(self._pairs().fit(features, given), given)
            self._keep_curves(curves)
        return self

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
        features = self._features(self._rows(X, reset=False))
        curves, weights = self._curves, self.coef_[0]
        by_column = curves.per_column(weights)
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

    def _features(self, X: Matrix) -> sparse.csr_array:
        return self._curves.transform(X)

    def _keep_curves(self, curves: Curves) -> None:
        self.values_ = [column.values for column in curves.columns]
        self.levels_ = np.array([column.levels for column in curves.columns])
        self.common_ = np.array([column.common for column in curves.columns])
        self.missing_ = np.array([column.missing for column in curves.columns])
        self.means_ = curves.means

    @property
    def _curves(self) -> Curves:
        parts = zip(self.values_, self.levels_, self.common_, self.missing_, strict=True)
        columns = [
            Column(values, int(levels), float(common), bool(missing))
            for values, levels, common, missing in parts
        ]
        return Curves(columns, self.means_)

    def _curve(self, j: int) -> Curve:
        curves = self._curves
        column, part = curves.columns[j], slice(*curves.starts[j : j + 2])
        values = column.values
        if column.has_common:
            values = np.sort(np.append(values, column.common))
        one = Curves([column], curves.means[part])
        weights = self.coef_[0][part]
        points = np.append(values, np.nan)[:, None]
        heights = one.transform(points) @ weights - one.means @ weights
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
        """Which columns hold categories."""
        mask = np.zeros(self.n_features_in_, bool)
        given = self.categorical_features
        if given is None or not len(given):
            return mask
        asked = np.asarray(given)
        if asked.dtype == bool:
            if len(asked) != len(mask):
                raise ValueError(
                    f"categorical_features is a mask of {len(asked)} columns, and X has "
                    f"{len(mask)}; give one entry per column, or positions."
                )
            return asked
        for one in asked.tolist():
            mask[self._position(one)] = True
        return mask
