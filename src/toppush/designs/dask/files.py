"""Files in parts, read by the workers: X and y as collections of Dask."""

from collections.abc import Sequence
from glob import glob
from os import PathLike, fspath
from typing import Any

import dask
import dask.array as da
import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from toppush.designs.dask.workers import Lazy

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


def read_parquet(
    paths: Paths, *, label: str, columns: Sequence[str] | None = None
) -> tuple[Lazy, Lazy]:
    """Rows of Parquet files as a Dask data frame, a partition for each file or row group.

    Parameters
    ----------
    paths : path or sequence of paths
        Files, a folder of them, or a pattern such as "part-*.parquet".
    label : str
        The column that becomes y.
    columns : sequence of str, optional
        The columns of X, in this order; by default all others.

    Returns
    -------
    X : Dask data frame
    y : Dask series
    """
    import dask.dataframe as dd

    given = fspath(paths) if isinstance(paths, str | PathLike) else [fspath(one) for one in paths]
    frame = dd.read_parquet(given)
    wanted = [label, *(columns or [])]
    if missing := [name for name in wanted if name not in frame.columns]:
        raise ValueError(f"{paths} has no column {missing[0]!r}; it has {list(frame.columns)}.")
    chosen = [name for name in frame.columns if name != label] if columns is None else columns
    return frame[list(chosen)], frame[label]


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
        Files, or a pattern such as "part-*.svm". They are read by the workers, so every worker
        must see them under these names.
    n_features : int, optional
        Columns of X. If it is not given, the files are read once more to find it.
    zero_based : bool, default=False
        Whether the first column is called 0.
    dtype : default=float64

    Returns
    -------
    X, y : Dask arrays
    """
    if isinstance(paths, str | PathLike):
        names = sorted(glob(fspath(paths)))
    else:
        names = [fspath(path) for path in paths]
    if not names:
        raise FileNotFoundError(f"no file matches {paths!r}.")
    if n_features is None:
        widths = dask.compute(*(dask.delayed(_width)(name, zero_based) for name in names))
        n_features = max(widths)
    parts = [dask.delayed(_read, nout=2)(name, n_features, zero_based, dtype) for name in names]
    meta = sparse.csr_matrix((0, 0), dtype=dtype)
    rows = [da.from_delayed(X, (np.nan, n_features), dtype, meta) for X, _ in parts]
    labels = [da.from_delayed(y, (np.nan,), np.float64) for _, y in parts]
    return da.concatenate(rows), da.concatenate(labels)


def _read(name: str, n_features: int | None, zero_based: bool, dtype: Any) -> tuple[Any, Any]:
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(name, n_features=n_features, zero_based=zero_based, dtype=dtype)
    return X, y


def _width(name: str, zero_based: bool) -> int:
    return int(_read(name, None, zero_based, np.float32)[0].shape[1])
