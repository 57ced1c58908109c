"""One name for each operation on arrays, of NumPy or of a device.

Code that works on rows gets the operations for its arrays from `namespace`, as in
`xp = namespace(scores); xp.maximum(scores, 0.0)`. They mean what they mean in NumPy. Another
library is added by `register`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.special import expit, wrightomega, xlogy

from toppush.types import Array, Where

CHUNK = 1 << 14
"""Entries per sum: 128 KB, so that what NumPy makes on the way stays in the cache."""

Entry = TypeVar("Entry", bound=np.generic)


class Costs(NamedTuple):
    """Estimated seconds, of which only the ratios matter."""

    read: float
    """A product of sparse rows, for each of their entries."""
    step: float
    """The overhead of a step."""
    vector: float
    """The vector operations of a step, for each entry."""
    factor: float
    """A factor of a matrix, for each multiplication."""
    solve: float
    """A solve by it, for each entry of the matrix."""


class Arrays(Protocol):
    """The operations; numbers are float64 unless said otherwise."""

    chunk: int
    """Entries over which a sum is best taken at a time."""
    costs: Costs

    # made
    def zeros(self, shape: int | tuple[int, ...]) -> Array: ...
    def empty(self, shape: int | tuple[int, ...]) -> Array: ...
    def asarray(self, values: Any) -> Any: ...
    def broadcast_to(self, value: float, shape: int) -> Array: ...

    # put together and chosen from
    def concatenate(self, parts: Sequence[NDArray[Entry]]) -> NDArray[Entry]: ...
    def column_stack(self, columns: Sequence[Array]) -> Array: ...
    def stack(self, rows: Sequence[Array]) -> Array: ...
    def unique(self, values: Any) -> Any: ...
    def flatnonzero(self, values: Any) -> Where: ...
    def where(self, condition: Any, x: Any, y: Any) -> Array: ...

    # entry by entry
    def maximum(self, x: Array, y: Array | float, out: Array | None = None) -> Array: ...
    def clip(self, values: Array, low: float, high: float, out: Array | None = None) -> Array: ...
    def negative(self, values: Array, out: Array | None = None) -> Array: ...
    def square(self, values: Array) -> Array: ...
    def sqrt(self, values: Array) -> Array: ...
    def exp(self, values: Array) -> Array: ...
    def log(self, values: Any) -> Array: ...
    def log1p(self, values: Array) -> Array: ...
    def logaddexp(self, x: float, y: Array) -> Array: ...
    def expit(self, values: Array) -> Array: ...
    def xlogy(self, x: Array, y: Array) -> Array: ...
    def wrightomega(self, values: Array) -> Array: ...
    def isfinite(self, values: Any) -> Any: ...

    # over all entries
    def max(self, values: Array, initial: float) -> Any: ...
    def min(self, values: Array, initial: float) -> Any: ...
    def count_nonzero(self, values: Any) -> Any: ...

    def count_between(self, values: Array, edges: Array) -> Array:
        """How many values lie up to the first of rising edges, up to the next, ..., beyond."""

    # square matrices
    def diagonal(self, matrix: Array) -> Array:
        """As a view to write to."""

    def cholesky(self, matrix: Array) -> tuple[Array, int]:
        """Lower factor, and 0 if there is one."""

    def cholesky_solve(self, factor: Array, right: Array) -> Array:
        """Solution for a vector or for columns."""

    def solver(self, factor: Array) -> Callable[[Array], Array]:
        """A function that solves for one right side after another."""

    def to_host(self, values: Any) -> NDArray[Any]:
        """As a NumPy array."""

    def floats(self, numbers: Sequence[Any]) -> list[float]:
        """Numbers as floats, fetched together."""


def _diagonal(matrix: Array) -> Array:
    entries = matrix.ravel(order="K")
    assert entries.base is not None, "a diagonal to write to is that of a contiguous matrix"
    return entries[:: len(matrix) + 1]


def _cholesky(matrix: Array) -> tuple[Array, int]:
    factor, info = dpotrf(matrix, lower=1)
    return factor, int(info)


def _cholesky_solve(factor: Array, right: Array) -> Array:
    return np.asarray(dpotrs(factor, right, lower=1)[0])


def _count_between(values: Array, edges: Array) -> Array:
    counts = np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1)
    return counts.astype(np.float64)


NUMPY = cast(
    Arrays,
    SimpleNamespace(
        **{
            name: getattr(np, name)
            for name in (
                "zeros", "empty", "asarray", "broadcast_to", "concatenate", "column_stack", "stack",
                "unique", "where", "maximum", "clip", "negative", "square", "sqrt", "exp", "log",
                "log1p", "logaddexp", "isfinite", "count_nonzero",
            )
        },
        # Methods: the functions of these names take longer than small vectors do.
        flatnonzero=lambda values: values.nonzero()[0],
        max=lambda values, initial: values.max(initial=initial),
        min=lambda values, initial: values.min(initial=initial),
        diagonal=_diagonal,
        expit=expit,
        xlogy=xlogy,
        wrightomega=wrightomega,
        cholesky=_cholesky,
        cholesky_solve=_cholesky_solve,
        solver=lambda factor: partial(_cholesky_solve, factor),
        floats=lambda numbers: [float(number) for number in numbers],
        count_between=_count_between,
        chunk=CHUNK,
        costs=Costs(read=1.6e-9, step=1e-4, vector=1e-8, factor=3.3e-11, solve=0.8e-9),  # a core
        to_host=np.asarray,
    ),
)  # fmt: skip

_registered: dict[type, Callable[[Any], Arrays]] = {}


def register(array_type: type, find: Callable[[Any], Arrays]) -> None:
    """Let arrays of another type be used; `find` returns the operations for one of them."""
    _registered[array_type] = find


def namespace(array: Any) -> Arrays:
    """The operations that fit an array."""
    find = _registered.get(type(array))
    return NUMPY if find is None else find(array)


def number(value: Any) -> float:
    """A sum as a float, or unchanged if a design fetches it from a device later."""
    return value if type(value) in _registered else float(value)


def to_host(values: Any) -> NDArray[Any]:
    """As a NumPy array, from any library."""
    return namespace(values).to_host(values)
