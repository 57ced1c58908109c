"""Rows whose labels, weights and scores are in this process, and those that are there too."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from toppush.designs.arrays import NUMPY, namespace, to_host
from toppush.designs.local import LocalDesign, default_threads, rows_of
from toppush.designs.protocol import PlacedRows, T
from toppush.designs.rows import UNSCALED, Rows
from toppush.designs.views import precise
from toppush.metrics.weights import checked_weights
from toppush.types import Array, Labels, Mask, Matrix, Where

ENTRIES_PER_FIT = 1 << 18
"""Below this many stored entries fits at the same time only wait for each other."""


class HostRows(PlacedRows):
    """Vectors over the rows are NumPy's, checked and split as scikit-learn does."""

    @abstractmethod
    def subset(self, where: Where) -> Rows:
        """Some of the rows."""

    def labels(self, y: Labels) -> Any:
        from sklearn.utils.validation import check_consistent_length, column_or_1d

        y = column_or_1d(y, warn=True) if namespace(y) is NUMPY else y
        check_consistent_length(self, y)
        return y

    def weights(self, sample_weight: Any) -> Array:
        from sklearn.utils.validation import _check_sample_weight

        return checked_weights(_check_sample_weight(to_host(sample_weight), self, dtype=np.float64))

    def mask(self, labels: Any, wanted: Any) -> Mask:
        return to_host(labels == wanted)

    def scores_of_some(self, where: Where, fits: Iterable[tuple[Array, float]]) -> list[Array]:
        rows = self.subset(where)
        return [scores_of(rows, weights) - threshold for weights, threshold in fits]

    def map_parts(self, function: Callable[..., T], vectors: Sequence[Any], *more: Any) -> list[T]:
        return [function(*vectors, *more)]

    def folds(self, cv: Any, positive: Mask) -> list[tuple[Where, Where]]:
        from sklearn.model_selection import check_cv

        return list(check_cv(cv, positive, classifier=True).split(self._to_split(), positive))

    def _to_split(self) -> Matrix:
        """What a splitter sees of the rows."""
        return np.empty(self.shape[0])

    def masked_weights(self, where: Where, sample_weight: Array | None) -> Array:
        weight = np.zeros(self.shape[0])
        weight[where] = 1.0 if sample_weight is None else sample_weight[where]
        return weight

    def require_gathered_scores(self, asked: str, instead: str) -> None:
        """They are here."""


class LocalRows(HostRows):
    """Rows of an array or a CSR matrix that scikit-learn has checked."""

    library = ""

    def __init__(self, X: Matrix, entries_per_fit: int = ENTRIES_PER_FIT) -> None:
        self._X, self._entries_per_fit = X, entries_per_fit
        self.shape, self.is_double = X.shape, X.dtype == np.float64

    @cached_property
    def _rows(self) -> Rows:
        return rows_of(self._X)

    @property
    def template(self) -> Matrix:
        return self._X

    original = template

    def design(
        self, positive: Mask, sample_weight: Array | None = None, *, n_jobs: int | None = None
    ) -> LocalDesign:
        return LocalDesign(self._X, positive, sample_weight, n_jobs=n_jobs)

    def subset(self, where: Where) -> Rows:
        return self._rows.subset(where)

    def scores_of_all(self, weights: Array) -> Array:
        return scores_of(self._rows, weights)

    def _to_split(self) -> Matrix:
        return self._X

    def n_concurrent_fits(self, n_fits: int, n_jobs: int | None) -> int:
        threads = default_threads() if n_jobs is None else n_jobs
        return max(1, min(threads, n_fits, self._rows.n_entries // self._entries_per_fit))


def scores_of(rows: Rows, weights: Array) -> Array:
    """X w as a float64 NumPy array, with the products of float64."""
    return to_host(precise(rows, UNSCALED).scores(rows.arrays.asarray(weights)))
