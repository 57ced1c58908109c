"""Row blocks and who runs them."""

from typing import Any, Protocol, runtime_checkable

from toppush.arrays import NUMPY, Array, Arrays, to_host
from toppush.designs.base import FORMED
from toppush.designs.blocks import Block, only_asks
from toppush.designs.local import LocalDesign, rows_of
from toppush.designs.rows import PLAIN, Form, Rows, precise

__all__ = [
    "FORMED",
    "PLAIN",
    "Block",
    "Design",
    "Form",
    "LocalDesign",
    "Placed",
    "Spread",
    "is_placed",
    "only_asks",
    "open_design",
    "place",
    "precise",
    "score",
    "some_rows",
]


class Design(Protocol):
    """Row blocks, and a way to ask all of them at once."""

    n_features: int
    n_pos: int
    n_neg: int
    total_cost: float
    memory: dict[str, Any]
    """Sums over the rows that outlive a solve."""
    arrays: Arrays
    """The operations that fit the vectors with an entry per feature."""
    most_exact: float
    """Rows of which a solver may keep copies in float64 and all products among them."""

    @property
    def passes(self) -> float:
        """Reads of the whole data so far."""

    def each(self, function: Any, *arguments: Any) -> list[Any]:
        """Every block's answer, in the order of the rows."""

    def tell(self, function: Any, *arguments: Any) -> None:
        """Ask every block where no answer is wanted; it may wait for the next question."""

    def sum(self, function: Any, *arguments: Any) -> Any:
        """The answers added up; their numbers come as floats."""

    def max(self, function: Any, *arguments: Any) -> tuple[float, ...]:
        """The greatest of each entry of the answers."""

    def widen(self, weights: Array) -> Array:
        """Weights over all columns of X, as a NumPy array, from those over the ones in use."""

    def narrow(self, weights: Array) -> Array:
        """Weights over the columns that are in use, from a NumPy array."""

    def scatter(self, function: Any, vector: Array) -> None:
        """Hand each block its part of a vector over all rows."""

    def gather(self, function: Any, *arguments: Any) -> Array:
        """One vector over all rows from the blocks' parts, as a NumPy array."""

    def over_rows(self, function: Any, *arguments: Any) -> Array:
        """The same of a result that is only to be handed back; empty if rows are elsewhere."""


@runtime_checkable
class Placed(Protocol):
    """All rows of a fit, put where they are to be worked on; they know their own design."""

    shape: tuple[int, int]
    arrays: Arrays

    def design(self, positive: Any, sample_weight: Any | None = None) -> Any:
        """The rows as blocks."""

    def subset(self, where: Any) -> Any:
        """A copy of some of the rows."""

    def scores(self, weights: Any) -> Any:
        """X w."""


@runtime_checkable
class Spread(Placed, Protocol):
    """Rows over many machines, of which this process holds none; vectors over them are lazy."""

    template: Any
    """An array or data frame with the same columns and no rows."""

    def aligned(self, vector: Any, name: str) -> Any:
        """A vector with an entry per row, in the rows' partitions."""

    def per_row(self, function: Any, *arguments: Any) -> Any:
        """A vector over the rows: `function(some rows, *arguments)` of every part."""

    def of_parts(self, function: Any, vectors: Any, *arguments: Any) -> list[Any]:
        """`function(some rows, their parts of the vectors, *arguments)` of every part."""

    def folds(self, positive: Any, n_folds: int) -> list[tuple[Any, Any]]:
        """Which rows each fold trains on and which it holds out, every class dealt out evenly."""


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
        from toppush.designs import gpu
    except ImportError as error:
        raise ImportError(
            f"device={device!r} needs torch: pip install 'toppush[gpu]', or leave device=None."
        ) from error
    return gpu.place(X, device)


def _place_on_cluster(X: Any, device: str | None) -> Any:
    try:
        from toppush.designs import cluster
    except ImportError as error:
        raise ImportError(
            "X is a Dask collection, and fits on it need dask and distributed: "
            "pip install 'toppush[dask]'."
        ) from error
    if device is not None:
        raise ValueError(f"device={device!r} is for one machine, and X is a Dask collection.")
    return cluster.place(X)


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
