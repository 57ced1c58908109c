"""Rows in files larger than memory, to be fitted and scored within a memory limit.

>>> import numpy as np
>>> from toppush import TopPush, on_disk
>>> np.save("rows.npy", np.eye(50))
>>> rows = on_disk.open("rows.npy", memory_limit="4GiB")
>>> TopPush(top=0.5).fit(rows, np.arange(50) < 25).predict(rows)[:3]
array([ True,  True,  True])
"""

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from toppush.designs.disk.files import DenseFile, Source, find_array, find_csr
from toppush.designs.disk.rows import OnDisk
from toppush.system.extras import needs

__all__ = ["OnDisk", "open"]

UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def open(  # called as on_disk.open
    path: str | PathLike[str],
    memory_limit: int | str,
    *,
    columns: Sequence[str] | None = None,
    n_features: int | None = None,
) -> OnDisk:
    """Rows of a file, as X of `TopPush.fit`, `decision_function` and `predict`.

    Every product reads the rows from disk in blocks, one ahead. About ten vectors of row length
    stay in memory, and so do the rows that a fit copies, as long as they fit.

    Parameters
    ----------
    path : path
        An NPY file stored by rows; a folder with data.npy, indices.npy, indptr.npy and
        shape.npy, or a file that `scipy.sparse.save_npz(path, X, compressed=False)` wrote; or an
        Arrow (Feather) file with columns of one float type, which needs pyarrow
        (`toppush[files]`). float32 or float64.
    memory_limit : int or str
        Bytes of memory that this process may use in all, such as "2GiB" or "500MB".
    columns : sequence of str, optional
        Which columns of an Arrow file, in this order; by default all.
    n_features : int, optional
        Number of columns of a CSR folder without shape.npy.

    Returns
    -------
    OnDisk

    Examples
    --------
    >>> import numpy as np
    >>> from toppush import TopPush, on_disk
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(500, 3)), np.arange(500) < 50
    >>> X[y] += 2.0
    >>> np.save("rows.npy", X)
    >>> rows = on_disk.open("rows.npy", memory_limit="4GiB")
    >>> TopPush(top=0.1).fit(rows, y).decision_function(rows).shape
    (500,)
    """
    where = Path(path)
    if not where.exists():
        raise FileNotFoundError(f"there is no file or folder {where}.")
    return OnDisk(_source(where, columns, n_features), read_bytes(memory_limit))


def _source(path: Path, columns: Sequence[str] | None, n_features: int | None) -> Source:
    if path.is_dir() or path.suffix == ".npz":
        return find_csr(path, n_features)
    if path.suffix in (".arrow", ".feather", ".ipc"):
        try:
            from toppush.designs.disk.arrow import ArrowFile
        except ImportError as error:
            otherwise = ", or save the rows as NPY."
            raise ImportError(needs(str(path), "pyarrow") + otherwise) from error
        return ArrowFile(path, columns)
    return DenseFile(find_array(path))


def read_bytes(size: int | str) -> int:
    """The bytes that "2GiB", "500 MB" or a number means."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(?:b|bytes)?\s*", str(size).lower())
    if match is None or float(match[1]) <= 0.0:
        raise ValueError(
            f'memory_limit={size!r} is no size; give bytes, or a string such as "2GiB" or "500MB".'
        )
    return int(float(match[1]) * (1024 if match[3] else 1000) ** UNITS[match[2]])
