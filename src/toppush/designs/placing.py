"""Putting rows where a fit works on them, and those of this process."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from toppush.designs.arrays import NUMPY, namespace, to_host
from toppush.designs.local import LocalDesign, default_threads, rows_of
from toppush.designs.protocol import PlacedRows, T
from toppush.designs.rows import UNSCALED, Rows, precise
from toppush.metrics.positive_class import checked_weights
from toppush.system.extras import needs
from toppush.types import Array, Labels, Mask, Matrix, Where

ENTRIES_PER_FIT = 1 << 18
"""Below this many stored entries fits at the same time only wait for each other."""


class HostRows(PlacedRows):
    """Rows over which vectors are NumPy arrays, checked and split as scikit-learn does."""

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

    def require_gathered_scores(self, option: str, instead: str) -> None:
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


@dataclass(frozen=True)
class Backend:
    """A library that holds rows outside of the arrays of this process."""

    name: str
    """What users call such rows."""
    to_array: str
    """What makes an array of such rows."""
    module: str
    """The module with `place(X, device)`, which makes `PlacedRows`; imported on first use."""
    missing: str = ""
    """What to say if it cannot be imported."""

    def place(self, X: Any, device: str | None) -> PlacedRows:
        """Rows where they are, or on the device."""
        try:
            module = import_module(self.module)
        except ImportError as error:
            raise ImportError(self.missing.format(device=device)) from error
        placed: PlacedRows = module.place(X, device)
        return placed


BACKENDS = {
    "torch": Backend(
        "a torch tensor",
        "X.numpy(force=True)",
        "toppush.designs.torch",
        needs("device={device!r}", "torch") + ", or leave device=None.",
    ),
    "dask": Backend(
        "a Dask collection",
        "X.compute()",
        "toppush.designs.dask",
        needs("a fit on a Dask collection", "dask", "distributed"),
    ),
    "disk": Backend("rows on disk", "numpy.load", "toppush.designs.disk"),
}
"""By the first name of the module of what users give, or by `PlacedRows.library`."""


def backend_of(X: Any) -> Backend | None:
    """The library that holds rows or a vector over them; None for an array of this process."""
    own = isinstance(X, PlacedRows)
    return BACKENDS.get(X.library if own else type(X).__module__.partition(".")[0])


def is_placed(X: Any) -> bool:
    """Whether scikit-learn need not check the rows: they are placed or of another library."""
    return isinstance(X, PlacedRows) or backend_of(X) is not None


def place(X: Any, device: str | None = None) -> PlacedRows:
    """Rows where a fit works on them.

    Those of an array or a CSR matrix stay in it, unless a device is named; those of a tensor
    on the device that holds it, and Dask's partitions on the workers that hold them.
    """
    if isinstance(X, PlacedRows):
        return X if device is None else X.on_device(device)
    backend = backend_of(X) or (None if device is None else BACKENDS["torch"])
    return LocalRows(X) if backend is None else backend.place(X, device)
