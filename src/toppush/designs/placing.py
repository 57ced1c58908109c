"""Where rows are worked on, and the design that does it."""

from typing import Any

from toppush.designs.arrays import NUMPY, to_host
from toppush.designs.local import LocalDesign, rows_of
from toppush.designs.protocol import Placed, Spread
from toppush.designs.rows import PLAIN, Rows
from toppush.designs.views import precise
from toppush.types import Array


def is_placed(X: Any) -> bool:
    """Whether rows are already somewhere else than in an array of this process."""
    return _library(X) in ("torch", "dask") or isinstance(X, Placed)


def _library(X: Any) -> str:
    return type(X).__module__.partition(".")[0]


def place(X: Any, device: str | None = None) -> Any:
    """Rows where a fit works on them.

    X itself if it is an array or a CSR matrix and no device is named; else its rows on that
    device, or on the one that holds the tensor, or on the workers that hold Dask's partitions.
    """
    if device is None and (isinstance(X, Placed) or not is_placed(X)):
        return X
    if _library(X) == "dask" or isinstance(X, Spread):
        return _place_on_cluster(X, device)
    if isinstance(X, Placed) and X.arrays is NUMPY:
        raise ValueError(
            f"device={device!r}, but X is {X!r}, which is read by this process; leave device=None, "
            "or load the rows and give an array."
        )
    try:
        from toppush.designs import torch
    except ImportError as error:
        raise ImportError(
            f"device={device!r} needs torch: pip install 'toppush[gpu]', or leave device=None."
        ) from error
    return torch.place(X, device)


def _place_on_cluster(X: Any, device: str | None) -> Any:
    try:
        from toppush.designs import dask
    except ImportError as error:
        raise ImportError(
            "X is a Dask collection, and fits on it need dask and distributed: "
            "pip install 'toppush[dask]'."
        ) from error
    if device is not None:
        raise ValueError(f"device={device!r} is for one machine, and X is a Dask collection.")
    return dask.place(X)


def open_design(
    X: Any, positive: Any, sample_weight: Any | None = None, *, n_threads: int | None = None
) -> Any:
    """The design for rows that went through `place`, as a context."""
    if isinstance(X, Placed):
        return X.design(positive, sample_weight)
    return LocalDesign(X, positive, sample_weight, n_threads=n_threads)


def some_rows(X: Any, where: Any) -> Any:
    """A copy of some rows of what went through `place`."""
    rows: Any = X if isinstance(X, Placed) else rows_of(X)
    return rows.subset(where)


def score(X: Any, weights: Array) -> Array:
    """X w as a float64 NumPy array; X an array, a CSR matrix or rows on a device."""
    rows: Rows = X if hasattr(X, "scores") else rows_of(X)
    return to_host(precise(rows, PLAIN).scores(rows.arrays.asarray(weights)))
