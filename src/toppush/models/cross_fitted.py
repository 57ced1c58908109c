"""What rankers share whose fit scores each training row by models that did not see it."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from toppush.folds.scores import FoldScores
from toppush.folds.splits import require_two_of_each, weights_of
from toppush.models.base import Ranker, refuse_elsewhere, two_classes
from toppush.tables.validation import validated
from toppush.thresholds.probabilities import Calibration, calibrate
from toppush.types import Array, Labels, Mask, Matrix, Where

READING: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": np.float64,
    "ensure_all_finite": "allow-nan",
}
"""How rows of numbers are validated."""
TOP = 0.01
"""Share of the negatives that is the top by default."""


class CountedRows(NamedTuple):
    """The class and weight of each row, and which rows have a weight above 0."""

    positive: Mask
    weight: Array | None
    counted: Where


class CrossFitted(Ranker):
    """A ranker with out-of-fold scores.

    A subclass gives `_score` and `_contributions`, of rows as `_read` validates them and before the
    threshold is subtracted. One that keeps its models in another form than predicts gives `_load`.
    """

    threshold_: float
    calibration_: Calibration
    out_of_fold_: Array | None
    second_scores_: Array | None
    expected_scores_: Array | None
    _loaded: list[Any] | None = None

    def decision_function(self, X: Matrix) -> Array:
        """Scores less the threshold; higher ranks first.

        `predict` gives the positive class for scores above 0.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
        """
        self._require_fitted()
        return np.asarray(self._score(self._read(X)) - self.threshold_)

    def predict_proba(self, X: Matrix) -> Array:
        """Calibrated probabilities of both classes, learned from out-of-fold scores.

        They order rows as `decision_function` does.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, 2)
            Columns in the order of `classes_`: the positive class is the second.
        """
        scores = self.decision_function(X)
        return self.calibration_.of_both_classes(scores)

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
        self._require_fitted()
        added = self._contributions(self._read(X))
        added[:, -1] -= self.threshold_
        return added

    def _score(self, X: Matrix) -> Array:
        raise NotImplementedError

    def _contributions(self, X: Matrix) -> Array:
        raise NotImplementedError

    def _require_fitted(self) -> None:
        check_is_fitted(self)

    def _read(self, X: Matrix) -> Matrix:
        """Rows to score, validated."""
        refuse_elsewhere(self, X=X)
        return validated(self, X, reset=False, **READING)

    def _load(self) -> list[Any]:
        raise NotImplementedError

    def _models(self) -> list[Any]:
        """The models that predict, loaded once."""
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def _read_classes(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None) -> CountedRows:
        """Validate classes and weights, and set `classes_`."""
        self.classes_ = two_classes(y, self.positive)
        weight = weights_of(sample_weight, X)
        counted = np.arange(len(y)) if weight is None else np.flatnonzero(weight > 0)
        positive = np.asarray(y == self.classes_[1])
        require_two_of_each(positive[counted], self.classes_)
        return CountedRows(positive, weight, counted)

    def _keep_scores(
        self,
        scores: FoldScores,
        positive: Mask,
        weight: Array | None,
        where: Where,
        n_rows: int,
    ) -> None:
        """Set threshold and calibration, and scores of some training rows less the threshold."""
        self.threshold_, self.calibration_ = calibrate(positive, scores.expected, weight)
        per_row = np.full((3, n_rows), np.nan)
        per_row[:, where] = np.asarray(scores) - self.threshold_
        self.out_of_fold_, self.second_scores_, self.expected_scores_ = per_row

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_loaded"}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
