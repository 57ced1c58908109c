"""Files in parts, read by the workers: X and y as collections of Dask."""

from collections.abc import Callable, Iterable, Sequence
from glob import glob
from os import PathLike, fspath
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from toppush.designs.dask.workers import Answer, Lazy, on_workers
from toppush.system import libsvm
from toppush.types import Array, Mask, Matrix

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


class Parts:
    """A file in parts whose rows and labels the workers hold.

    A worker runs `prepare(path, *arguments)` for each path, which returns the rows and the labels
    of that part. The other arguments are sent to the workers once.

    Examples
    --------
    >>> import numpy as np
    >>> from distributed import Client
    >>> from toppush import cluster
    >>> def rows_of(path, n_columns):
    ...     return np.ones((2, n_columns)), np.array([True, False])
    ...
    >>> with Client(processes=False, dashboard_address="127.0.0.1:0"):
    ...     parts = cluster.Parts(rows_of, ["one", "two"], 3)
    ...     parts.ask(np.shape)
    ...
    [(2, 3), (2, 3)]
    """

    def __init__(
        self, prepare: Callable[..., tuple[Matrix, Mask]], paths: Iterable[str], *arguments: object
    ) -> None:
        sent = [dask.delayed(argument) for argument in arguments]
        parts = dask.persist(*(dask.delayed(prepare)(path, *sent) for path in paths))
        self._rows, self._labels = [part[0] for part in parts], [part[1] for part in parts]

    def ask(self, question: Callable[[Matrix], Answer]) -> list[Answer]:
        """`question(rows)` for each part, computed by the workers."""
        return on_workers(question, self._rows)

    def arrays(
        self, lengths: Sequence[int], transform: Callable[[Matrix], Matrix] | None
    ) -> tuple[Lazy, Lazy]:
        """All rows, transformed, and all labels as Dask arrays that the workers hold."""
        rows = self._rows
        (empty,) = on_workers(lambda X: X[:0], rows[:1])
        if transform is not None:
            rows = [dask.delayed(transform)(part) for part in rows]
        X, y = [], []
        for part, labels, length in zip(rows, self._labels, lengths, strict=True):
            X.append(da.from_delayed(part, (length, empty.shape[1]), empty.dtype, empty))
            y.append(da.from_delayed(labels, (length,), bool))
        persisted: tuple[Lazy, Lazy] = dask.persist(da.concatenate(X), da.concatenate(y))
        return persisted


def read_parquet(
    paths: Paths, *, label: str, columns: Sequence[str] | None = None
) -> tuple[Lazy, Lazy]:
    """Rows of Parquet files as a Dask data frame, a partition for each file or row group.

    Parameters
    ----------
    paths : path or sequence of paths
        Files, a folder of them, or a pattern such as ``"part-*.parquet"``.
    label : str
        The column that becomes y.
    columns : sequence of str, optional
        The columns of X, in this order; by default all others.

    Returns
    -------
    X : Dask data frame
    y : Dask series

    Examples
    --------
    >>> from distributed import Client
    >>> from sklearn.datasets import load_breast_cancer
    >>> from toppush import TopPush, cluster
    >>> load_breast_cancer(as_frame=True).frame.to_parquet("rows.parquet")
    >>> with Client(processes=False, dashboard_address="127.0.0.1:0"):
    ...     X, y = cluster.read_parquet("rows.parquet", label="target")
    ...     TopPush(top=0.1).fit(X / X.max(), y).coef_.shape
    ...
    (1, 30)
    """
    import dask.dataframe as dd

    frame = dd.read_parquet(
        fspath(paths) if isinstance(paths, str | PathLike) else [fspath(path) for path in paths]
    )
    wanted = [label, *(columns or [])]
    if missing := [name for name in wanted if name not in frame.columns]:
        raise ValueError(f"{paths} has no column {missing[0]!r}; it has {list(frame.columns)}.")
    if columns is None:
        columns = [name for name in frame.columns if name != label]
    return frame[list(columns)], frame[label]


def read_libsvm(
    paths: Paths,
    *,
    n_features: int | None = None,
    zero_based: bool = False,
    dtype: DTypeLike = np.float64,
) -> tuple[Lazy, Lazy]:
    """Rows of LIBSVM files as a Dask array of CSR blocks, a partition for each file.

    Parameters
    ----------
    paths : path or sequence of paths
        Files, or a pattern such as ``"part-*.svm"``. They are read by the workers, so every worker
        must see them under these names.
    n_features : int, optional
        Columns of X; without it the files are read once more to count them.
    zero_based : bool, default=False
        Whether the first column has the number 0.
    dtype : default=float64

    Returns
    -------
    X, y : Dask arrays

    Examples
    --------
    >>> from distributed import Client
    >>> from sklearn.datasets import dump_svmlight_file, load_breast_cancer
    >>> from toppush import cluster
    >>> dump_svmlight_file(*load_breast_cancer(return_X_y=True), "rows.svm", zero_based=False)
    >>> with Client(processes=False, dashboard_address="127.0.0.1:0"):
    ...     X, y = cluster.read_libsvm("rows.svm", n_features=30)
    ...     X.compute().shape
    ...
    (569, 30)
    """
    if isinstance(paths, str | PathLike):
        names = sorted(glob(fspath(paths)))
    else:
        names = [fspath(path) for path in paths]
    if not names:
        raise FileNotFoundError(f"no file matches {paths!r}.")
    first = int(not zero_based)
    if n_features is None:
        n_features = max(on_workers(_width, names, first))
    parts = [dask.delayed(_read, nout=2)(name, n_features, first, dtype) for name in names]
    meta = sparse.csr_matrix((0, 0), dtype=dtype)
    rows = [da.from_delayed(X, (np.nan, n_features), dtype, meta) for X, _ in parts]
    labels = [da.from_delayed(y, (np.nan,), np.float64) for _, y in parts]
    return da.concatenate(rows), da.concatenate(labels)


def _read(
    name: str, n_features: int, first: int, dtype: DTypeLike
) -> tuple[sparse.csr_matrix, Array]:
    X, y, _ = libsvm.read(Path(name), first=first, width=n_features)
    return sparse.csr_matrix(X, dtype=dtype), y


def _width(name: str, first: int) -> int:
    return int(libsvm.read(Path(name), first=first).X.shape[1])
