"""What rankers share that are linear in features which they make of the columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from toppush.designs import backend_of, place
from toppush.estimators.base import LinearRanker, TrainingRows, decision, two_classes
from toppush.estimators.cross_validation import TopPushCV
from toppush.estimators.toppush import TopPush
from toppush.types import Array, Labels, Matrix, Where

LAMS = (10.0, 1.0, 0.1, 0.01, 0.001)
TOPS = (0.05, 0.1, 0.3)
"""The features have sizes near 1, so that the same few pairs do for all tables. Tops below 0.05
were behind on every set tried, in average precision and at the head of the list."""
TOL = 1e-3
SEARCH_ROWS, SEARCH_POSITIVES = 20_000, 1_000
"""Rows that the folds share, evenly taken, and how many of them are positive if that many are.
The loss is a mean over the positives and a top a share of the negatives, so a pair that is good
on some of the rows is good on all."""


class FeatureRanker(LinearRanker):
    """A linear ranker on features of the rows; a subclass makes them with `_features`."""

    lams: Sequence[float] | None
    tops: Sequence[float | str] | None
    combine: str
    cv: Any
    n_threads: int | None
    verbose: int
    lam_: float
    top_: float

    _shared_constraints: ClassVar[dict[str, list[Any]]] = {
        "lams": [None, "array-like"],
        "tops": [None, "array-like"],
        "combine": [StrOptions({"best", "average"})],
        "cv": ["cv_object", HasMethods(["split"])],
        "n_threads": [None, Interval(Integral, 1, None, closed="left")],
        "verbose": ["verbose"],
    }
    _allow_nan = False
    _batch: ClassVar[int] = 1 << 16
    """Rows that are scored at a time."""

    def _features(self, X: Matrix) -> Matrix:
        raise NotImplementedError

    def decision_function(self, X: Matrix) -> Array:
        """Scores less the threshold; higher ranks first, above 0 beyond the top negatives.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
        """
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        parts = [X[start : start + self._batch] for start in range(0, X.shape[0], self._batch)]
        return np.concatenate(
            [decision(place(self._features(part)), self.coef_[0], self.threshold_) for part in parts]
        )

    def _read(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None) -> TrainingRows:
        """Validate what a fit is given."""
        X, y = self._rows(X, y, reset=True)
        rows, classes = place(X), two_classes(y)
        weight = None if sample_weight is None else rows.weights(sample_weight)
        return TrainingRows(rows, y, classes, rows.mask(y, classes.tolist()[1]), weight)

    def _rows(self, X: Matrix, y: Any = "no_validation", *, reset: bool) -> Any:
        backend = backend_of(X)
        if backend is not None:
            raise ValueError(
                f"{type(self).__name__} takes arrays, sparse matrices and data frames, and X is "
                f"{backend.called}; give it as an array ({backend.to_array})."
            )
        finite = "allow-nan" if self._allow_nan else True
        return validate_data(
            self, X, y, reset=reset, accept_sparse="csr", dtype=np.float64, ensure_all_finite=finite
        )

    def _pairs(self) -> "Pairs":
        """What is to be tried, and how."""
        return Pairs(
            LAMS if self.lams is None else self.lams,
            TOPS if self.tops is None else self.tops,
            self.combine,
            self.cv,
            self.n_threads,
            self.verbose,
            getattr(self, "_skl_callbacks", ()),
        )

    def _take(self, ranker: TopPush | TopPushCV, given: TrainingRows) -> None:
        """Keep what a linear ranker on the features found."""
        self.classes_, self.coef_ = given.classes, ranker.coef_
        self.threshold_, self.n_iter_ = ranker.threshold_, ranker.n_iter_
        for name in ("solution_", "cv_results_", "best_score_", "members_"):
            vars(self).pop(name, None)
            if hasattr(ranker, name):
                setattr(self, name, getattr(ranker, name))
        self.top_ = ranker.top_
        self.lam_ = ranker.lam_ if isinstance(ranker, TopPushCV) else float(ranker.lam)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._allow_nan
        return tags


@dataclass(frozen=True)
class Pairs:
    """The lams and tops that are tried, and how the folds choose among them."""

    lams: Sequence[float]
    tops: Sequence[float | str]
    combine: str
    cv: Any
    n_threads: int | None
    verbose: int
    callbacks: Sequence[Any]

    @property
    def is_one(self) -> bool:
        """Whether there is nothing to choose."""
        return len(self.lams) == len(self.tops) == 1

    def searched(self, given: TrainingRows) -> Where:
        """The rows that the folds share, in order."""
        n_rows = len(given.positive)
        if self.combine == "average" or not isinstance(self.cv, Integral) or self.is_one:
            return np.arange(n_rows)
        share = min(1.0, SEARCH_ROWS / n_rows)
        some = [
            _evenly(np.flatnonzero(given.positive), share, SEARCH_POSITIVES),
            _evenly(np.flatnonzero(~given.positive), share, SEARCH_POSITIVES),
        ]
        return np.sort(np.concatenate(some))

    def search(self, features: Matrix, given: TrainingRows, where: Where) -> TopPush | TopPushCV:
        """The best pair by the folds of some rows, fitted on these."""
        ranker: TopPush | TopPushCV
        how: dict[str, Any] = {"tol": TOL, "n_threads": self.n_threads, "verbose": self.verbose}
        if self.is_one:
            ranker = TopPush(float(self.lams[0]), top=self.tops[0], **how)
        else:
            how["tol"] = None if self.combine == "average" else TOL
            ranker = TopPushCV(
                self.lams, tops=self.tops, combine=self.combine, cv=self.cv, **how
            )
        return self._fitted(ranker, features, given, where)

    def finish(
        self, found: TopPush | TopPushCV, features: Matrix, given: TrainingRows, where: Where
    ) -> TopPush | TopPushCV:
        """The same pair fitted on all rows."""
        n_rows = len(given.positive)
        if len(where) == n_rows or not isinstance(found, TopPushCV):
            return found
        final = TopPush(
            found.lam_, top=found.top_, tol=TOL, n_threads=self.n_threads, verbose=self.verbose
        )
        self._fitted(final, features, given, np.arange(n_rows))
        found._keep(final.solution_, found.classes_)
        return found

    def _fitted(
        self, ranker: TopPush | TopPushCV, features: Matrix, given: TrainingRows, where: Where
    ) -> TopPush | TopPushCV:
        if self.callbacks:
            ranker.set_callbacks(*self.callbacks)
        y, weight = given.positive[where], given.sample_weight
        part = features if len(where) == features.shape[0] else features[where]
        return ranker.fit(part, y, None if weight is None else weight[where])


def _evenly(where: Where, share: float, at_least: int) -> Where:
    """A share of some rows, but so many if there are, at even steps."""
    n_taken = min(len(where), max(int(round(share * len(where))), at_least))
    return where[np.linspace(0, len(where) - 1, n_taken).astype(np.intp)] if n_taken else where
