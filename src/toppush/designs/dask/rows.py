"""Dask arrays and data frames as rows of a fit."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from numbers import Integral
from types import SimpleNamespace
from typing import Any, cast

import dask
import dask.array as da
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from toppush.designs.arrays import Arrays, register
from toppush.designs.dask.design import DaskDesign
from toppush.designs.dask.workers import Lazy, have_own_processes, on_workers
from toppush.designs.protocol import PlacedRows, T
from toppush.types import Array, Matrix, Where


def place(X: Any, device: str | None = None) -> "DaskRows":
    """Rows of a Dask array or data frame.

    Examples
    --------
    >>> import dask.array as da
    >>> from toppush import cluster
    >>> cluster.place(da.ones((100, 3), chunks=(50, 3))).lazy.numblocks
    (2, 1)
    """
    rows = DaskRows(X)
    return rows if device is None else rows.on_device(device)


class DaskRows(PlacedRows):
    """Rows of a Dask array or data frame, each partition holding whole rows.

    Attributes
    ----------
    lazy : dask.array.Array
        Its blocks are NumPy arrays or SciPy sparse matrices.
    template : array or data frame without rows
        What scikit-learn reads the names and number of columns from.

    Examples
    --------
    >>> import dask.array as da
    >>> from toppush import cluster
    >>> rows = cluster.place(da.ones((100, 3), chunks=(50, 3)))
    >>> rows.shape
    (100, 3)
    """

    library = "dask"
    template: Any = None

    def __init__(self, X: Lazy) -> None:
        self.template = getattr(X, "_meta", None) if hasattr(X, "columns") else None
        self._frame = X if hasattr(X, "columns") else None
        if not isinstance(X, da.Array):
            if not hasattr(X, "to_dask_array"):
                raise TypeError(
                    f"X is a {type(X).__name__} of Dask; give a Dask array or data frame."
                )
            X = _as_array(X)
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, found {X.ndim}.")
        if len(X.chunks[1]) > 1:
            raise ValueError(
                f"X is chunked along its columns, into {X.chunks[1]}; every partition must hold "
                "whole rows: use X.rechunk({1: -1})."
            )
        self.lazy = X
        self.shape: tuple[Any, int] = (X.shape[0], int(X.shape[1]))
        self.is_double = X.dtype != np.float32
        if self.template is None:
            self.template = np.empty((0, self.shape[1]))

    def on_device(self, device: str) -> "DaskRows":
        raise ValueError(f"device={device!r} is for one machine, and X is a Dask collection.")

    def labels(self, y: Any) -> Lazy:
        return self._aligned(y, "y")

    def weights(self, sample_weight: Any) -> Lazy:
        return self._aligned(sample_weight, "sample_weight")

    def _aligned(self, vector: Any, name: str) -> Lazy:
        """A vector with an entry per row as a Dask array in the partitions of X."""
        vector = aligned(self.lazy, vector, name, "X")
        self.shape = (self.lazy.shape[0], self.shape[1])
        return vector

    def mask(self, labels: Lazy, wanted: Any) -> Lazy:
        return labels == wanted

    def masked_weights(self, where: Lazy, sample_weight: Lazy | None) -> Lazy:
        return where * (1.0 if sample_weight is None else sample_weight)

    def require_gathered_scores(self, option: str, instead: str) -> None:
        raise ValueError(
            f"{option} would need all scores in one place; for a Dask collection {instead}."
        )

    def design(
        self,
        positive: Lazy,
        sample_weight: Lazy | None = None,
        *,
        n_jobs: int | None = None,
    ) -> DaskDesign:
        return DaskDesign(self.lazy, positive, sample_weight)

    def subset(self, where: Lazy) -> "DaskRows":
        """Some of the rows; `where` a Dask array of bool."""
        return DaskRows(
            da.blockwise(
                _taken,
                "ij",
                self.lazy,
                "ij",
                self._aligned(where, "where"),
                "i",
                dtype=self.lazy.dtype,
                align_arrays=False,
                meta=self.lazy._meta,
                adjust_chunks={"i": lambda _: np.nan},
            )
        )

    def subset_of(self, vector: Lazy, where: Lazy) -> Lazy:
        """The entries of a vector for some of the rows; `where` a Dask array of bool."""
        lengths = tuple([np.nan] * vector.numblocks[0])
        return da.map_blocks(_taken, vector, where, dtype=vector.dtype, chunks=(lengths,))

    def take(self, where: Sequence[Where]) -> Matrix:
        """Rows as an array or matrix of this process, by their places in each partition."""
        pairs = zip(self.lazy.to_delayed()[:, 0], where, strict=True)
        parts = (dask.delayed(_taken)(part, places) for part, places in pairs if len(places))
        rows = dask.compute(*parts)
        return sparse.vstack(rows, format="csr") if sparse.issparse(rows[0]) else np.vstack(rows)

    @property
    def has_own_processes(self) -> bool:
        """Whether no two workers share a process."""
        return have_own_processes()

    def scores_of_all(self, weights: Array) -> Lazy:
        return self.lazy.map_blocks(
            _scores, np.asarray(weights), drop_axis=1, dtype=np.float64, meta=np.empty(0)
        )

    def scores_of_some(self, where: Lazy, fits: Iterable[tuple[Array, float]]) -> list[Lazy]:
        rows = self.subset(where)
        return [rows.scores_of_all(weights) - threshold for weights, threshold in fits]

    def _parts(self) -> list[Any]:
        """The rows of each partition as the user passed them: arrays, matrices or data frames."""
        frame = self._frame
        return list(self.lazy.to_delayed()[:, 0] if frame is None else frame.to_delayed())

    def ask(self, function: Callable[[Any], T]) -> list[T]:
        """`function(rows)` for each partition, computed by the workers."""
        return on_workers(function, self._parts())

    def transform(self, function: Callable[[Any], Matrix], width: int) -> "DaskRows":
        """`function(rows)` of each partition as rows with `width` columns; lazily."""
        return DaskRows(self._mapped(function, width))

    def scored_by(self, function: Callable[[Any], Array]) -> Lazy:
        """A number for each row, by a function of the rows of a partition; lazily."""
        return self._mapped(partial(_scored, function))

    def _mapped(self, function: Callable[[Any], Matrix], *columns: int) -> Lazy:
        sent = dask.delayed(function)  # once for all partitions
        parts = zip(self._parts(), self.lazy.chunks[0], strict=True)
        return da.concatenate(
            [da.from_delayed(sent(part), (length, *columns), np.float64) for part, length in parts]
        )

    def persist(self) -> "DaskRows":
        """The same rows, computed and held by the workers."""
        return DaskRows(self.lazy.persist())

    def map_parts(self, function: Callable[..., T], vectors: Sequence[Any], *more: Any) -> list[T]:
        n_parts = self.lazy.numblocks[0]
        parts = [[None] * n_parts if vector is None else vector.to_delayed() for vector in vectors]
        sent = dask.delayed(function)
        return list(dask.compute(*(sent(*part, *more) for part in zip(*parts, strict=True))))

    def folds(self, cv: Any, positive: Lazy) -> list[tuple[Lazy, Lazy]]:
        n_folds = self.number_of_folds(cv)
        numbers = self.numbered_in_turn(positive, n_folds, n_folds)
        return [(numbers != fold, numbers == fold) for fold in range(n_folds)]

    def number_of_folds(self, cv: Any) -> int:
        """The number of folds that `cv` is, or a refusal."""
        if not isinstance(cv, Integral):
            raise ValueError(
                f"cv={cv!r} would need all labels in one place; for a Dask collection give "
                "the number of folds."
            )
        return int(cv)

    def numbered_in_turn(self, positive: Lazy, n_numbers: int, n_folds: int) -> Lazy:
        """Numbers from 0 to `n_numbers` - 1 for the rows of each class in turn, lazily.

        The turn goes from the first partition to the last. Fewer than `n_folds` rows of a class
        are refused.
        """
        # Negatives and positives of each part.
        counts = np.array(on_workers(partial(np.bincount, minlength=2), positive.to_delayed()))
        before = np.vstack([np.zeros((1, 2), int), np.cumsum(counts, axis=0)[:-1]])
        if counts.sum(axis=0).min() < n_folds:
            raise ValueError(
                f"n_splits={n_folds} cannot be greater than the number of members in each class, "
                f"{counts.sum(axis=0).tolist()}; give fewer folds."
            )
        lazy = da.from_array(before, chunks=(1, 2))
        return da.blockwise(
            _numbered, "i", positive, "i", lazy, "ij", n_numbers, None, dtype=int,
            concatenate=True, align_arrays=False, meta=np.empty(0, int),
        )  # fmt: skip


def _numbered(positive: ArrayLike, before: Where, n_numbers: int) -> Where:
    """The numbers of the rows of a part, after `before` rows of each class."""
    positive = np.asarray(positive, bool)
    numbers = np.empty(len(positive), int)
    for side, first in zip((~positive, positive), before.reshape(-1), strict=True):
        numbers[side] = (first + np.arange(np.count_nonzero(side))) % n_numbers
    return numbers


def aligned(rows: Lazy, vector: Any, name: str, of: str) -> Lazy:
    """A vector as a Dask array in the partitions of `rows`, which errors call `of`.

    If it has other partitions, the rows are counted, and `rows` keeps the count.
    """
    vector = as_lazy_vector(vector, name)
    unknown = np.isnan(rows.shape[0]) or np.isnan(vector.shape[0])
    if unknown and vector.numblocks[0] == rows.numblocks[0]:
        return vector  # the workers compare the lengths
    for lazy in (rows, vector):
        if np.isnan(lazy.shape[0]):
            lazy.compute_chunk_sizes()  # in place
    if vector.shape[0] != rows.shape[0]:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"{of} has {rows.shape[0]} rows and {name} {vector.shape[0]}."
        )
    return vector.rechunk((rows.chunks[0],))


def _as_array(collection: Lazy) -> Lazy:
    """A data frame or a series as an array, without Dask's warning about strings."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Dask currently has limited support")
        return collection.to_dask_array()


def as_lazy_vector(vector: Any, name: str) -> Lazy:
    """A Dask array of one dimension from an array, or from an array or series of Dask."""
    if hasattr(vector, "to_dask_array"):
        vector = _as_array(vector)
    if not isinstance(vector, da.Array):
        vector = da.from_array(np.asarray(vector), chunks=-1)
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector[:, 0]
    if vector.ndim != 1:
        raise ValueError(f"{name} must have one dimension, found shape {vector.shape}.")
    return vector


def _taken(X: Matrix, where: ArrayLike) -> Matrix:
    return X[np.asarray(where)]


def _scored(function: Callable[[Any], Array], X: Any) -> Array:
    return np.asarray(function(X), np.float64) if X.shape[0] else np.empty(0)


def _scores(X: Matrix, weights: Array) -> Array:
    return np.asarray(X @ weights, np.float64)


def _unique(vector: Lazy) -> NDArray[Any]:
    """The distinct values, or some of them if they are many."""
    return np.unique(np.concatenate(on_workers(_few_unique, vector.to_delayed())))


def _few_unique(vector: ArrayLike) -> NDArray[Any]:
    return np.unique(np.asarray(vector))[:10]


LAZY = cast(
    Arrays, SimpleNamespace(unique=_unique, to_host=lambda vector: np.asarray(vector.compute()))
)
register(da.Array, lambda _: LAZY)
