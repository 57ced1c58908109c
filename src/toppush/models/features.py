"""What rankers share that are linear in features which they make of the columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from toppush.designs import place
from toppush.folds.splits import some_rows
from toppush.models.base import (
    LABEL,
    LinearRanker,
    TrainingRows,
    decision,
    refuse_elsewhere,
    two_classes,
)
from toppush.models.choice import Scorer
from toppush.models.linear import TopPush
from toppush.models.linear_cv import TopPushCV
from toppush.tables.validation import validated
from toppush.types import Array, Labels, Matrix, Where

TOL = 1e-3
SEARCH_ROWS, OF_EACH_CLASS = 20_000, 1_000
"""Rows that the folds share, evenly taken, and how many of each class if there are. The loss is a
mean over the positives and a top a share of the negatives, so what is good on some of the rows is
good on all."""


class FeatureRanker(LinearRanker):
    """A linear ranker on features of the rows; a subclass makes them with `_features`."""

    lams: Sequence[float] | None
    tops: Sequence[float | str] | None
    scoring: str | Scorer | None
    cv: Any
    n_jobs: int | None
    verbose: int
    lam_: float
    top_: float

    _shared_constraints: ClassVar[dict[str, list[Any]]] = {
        "lams": [None, "array-like"],
        "tops": [None, "array-like"],
        "scoring": [None, str, callable],
        "cv": ["cv_object", HasMethods(["split"])],
        "n_jobs": [None, Interval(Integral, 1, None, closed="left")],
        "verbose": ["verbose"],
        "positive": LABEL,
    }
    _lams: ClassVar[tuple[float, ...]]
    _tops: ClassVar[tuple[float, ...]]
    """What is tried by default."""
    _allow_nan = False
    _batch: ClassVar[int] = 1 << 16
    """Rows that are scored at a time."""

    def _features(self, X: Matrix) -> Matrix:
        raise NotImplementedError

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
        return self._decision(self._rows(X, reset=False))

    def _decision(self, X: Matrix) -> Array:
        """Of rows that were read, some at a time."""
        parts = [X[start : start + self._batch] for start in range(0, X.shape[0], self._batch)]
        return np.concatenate(
            [
                decision(place(self._features(part)), self.coef_[0], self.threshold_)
                for part in parts
            ]
        )

    def _read(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None) -> TrainingRows:
        """Validate what a fit is given."""
        X, y = self._rows(X, y, reset=True)
        rows, classes = place(X), two_classes(y, self.positive)
        weight = None if sample_weight is None else rows.weights(sample_weight)
        return TrainingRows(rows, y, classes, rows.mask(y, classes.tolist()[1]), weight)

    def _rows(self, X: Matrix, y: Any = "no_validation", *, reset: bool) -> Any:
        refuse_elsewhere(self, X=X)
        finite = "allow-nan" if self._allow_nan else True
        return validated(
            self, X, y, reset=reset, accept_sparse="csr", dtype=np.float64, ensure_all_finite=finite
        )

    def _pairs(self) -> "Pairs":
        """What is to be tried, and how."""
        return Pairs(
            self._lams if self.lams is None else self.lams,
            self._tops if self.tops is None else self.tops,
            self.scoring,
            self.cv,
            self.n_jobs,
            self.verbose,
            getattr(self, "_skl_callbacks", ()),
        )

    def _take(self, ranker: TopPush | TopPushCV, given: TrainingRows) -> None:
        """Keep what a linear ranker on the features found."""
        self.classes_, self.coef_ = given.classes, ranker.coef_
        self.threshold_, self.n_iter_ = ranker.threshold_, ranker.n_iter_
        for name in ("solution_", "cv_results_", "best_score_"):
            if hasattr(ranker, name):
                setattr(self, name, getattr(ranker, name))
            elif hasattr(self, name):
                delattr(self, name)
        if isinstance(ranker, TopPushCV):
            self.lam_, self.top_ = ranker.lam_, ranker.top_
        else:
            found = ranker.top_ if isinstance(ranker.top, str) else ranker.top
            self.lam_, self.top_ = float(ranker.lam), found

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._allow_nan
        return tags


class Chooser(TopPushCV):
    """Chooses a pair and leaves its fit to others: of several searches only one pair is fitted."""

    def _fit_best(self, given: TrainingRows) -> None:
        self.classes_ = given.classes


@dataclass(frozen=True)
class Pairs:
    """The lams and tops that are tried, and how cross-validation chooses among them."""

    lams: Sequence[float]
    tops: Sequence[float | str]
    scoring: str | Scorer | None
    cv: Any
    n_jobs: int | None
    verbose: int
    callbacks: Sequence[Any]

    def fit(self, features: Matrix, given: TrainingRows) -> TopPush | TopPushCV:
        """Choose a pair by folds of some of the rows if there are several; fit it to all rows."""
        everything = np.arange(len(given.positive))
        if len(self.lams) == len(self.tops) == 1:
            ranker = self._ranker(self.lams[0], self.tops[0])
            return self._fitted(ranker, features, given, everything)
        where = self._searched(given)
        part = features if len(where) == len(everything) else features[where]
        how = {"n_jobs": self.n_jobs, "verbose": self.verbose, "cv": self.cv}
        chooser = Chooser(self.lams, tops=self.tops, scoring=self.scoring, tol=TOL, **how)
        self._fitted(chooser, part, given, where)
        final = self._ranker(chooser.lam_, chooser.top_)
        self._fitted(final, features, given, everything)
        chooser._keep(final.solution_, chooser.classes_)
        return chooser

    def _ranker(self, lam: float, top: float | str) -> TopPush:
        return TopPush(lam, top=top, tol=TOL, n_jobs=self.n_jobs, verbose=self.verbose)

    def _searched(self, given: TrainingRows) -> Where:
        """The rows that the folds share, in order."""
        n_rows = len(given.positive)
        if not (isinstance(self.cv, Integral) and n_rows > SEARCH_ROWS):
            return np.arange(n_rows)
        return some_rows(given.positive, SEARCH_ROWS, OF_EACH_CLASS)

    def _fitted(
        self, ranker: TopPush | TopPushCV, features: Matrix, given: TrainingRows, where: Where
    ) -> TopPush | TopPushCV:
        if self.callbacks:
            ranker.set_callbacks(*self.callbacks)
        weight = given.sample_weight
        y = given.classes[given.positive[where].astype(int)]  # scorers may name a class
        fitted: TopPush | TopPushCV = ranker.set_params(positive=given.positive_class).fit(
            features, y, None if weight is None else weight[where]
        )
        return fitted
