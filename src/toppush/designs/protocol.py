"""What the layers above may ask of rows, wherever they are."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

from toppush.designs.arrays import Arrays
from toppush.types import Array, Labels, Mask

T = TypeVar("T")
Record = TypeVar("Record")


class Records(dict[type, Any]):
    """What solvers keep of rows: one record at most of each type, by that type."""

    def of(self, record_type: type[Record]) -> Record:
        """The record of this type, made on first use."""
        record: Record = self[record_type]  # asked a hundred times in a small fit
        return record

    def __missing__(self, record_type: type[Record]) -> Record:
        return self.keep(record_type())

    def find(self, record_type: type[Record]) -> Record | None:
        """The record of this type if there is one."""
        record: Record | None = self.get(record_type)
        return record

    def keep(self, record: Record) -> Record:
        """Store a record in place of the earlier one of its type."""
        self[type(record)] = record
        return record

    def take(self, record_type: type[Record]) -> Record | None:
        """Remove the record of this type and return it, if there is one."""
        record: Record | None = self.pop(record_type, None)
        return record


class Design(Protocol):
    """Row blocks, and a way to ask all of them at once; used as a context."""

    n_features: int
    n_pos: int
    n_neg: int
    total_cost: float
    known: Records
    """What solvers know of the rows as they are scaled now; it outlives a solve."""
    in_use_by: int | None = None
    """The thread of the solve under way."""
    arrays: Arrays
    """The operations that fit the vectors with an entry per feature."""
    most_exact: float = math.inf
    """Rows of which a solver may keep copies in float64 and all products among them."""
    most_formed: float = math.inf
    """Features up to which a solver may keep matrices of features by features."""

    def __enter__(self) -> Self:
        """Let the blocks be asked."""
        return self

    def __exit__(self, *error: Any) -> None:
        """Release what that took."""
        return None

    @property
    def data_passes(self) -> float:
        """Reads of the whole data so far; a product with X or X' is one."""

    def each(self, function: Any, *arguments: Any) -> list[Any]:
        """`function(block, *arguments)` of every block, in the order of the rows."""

    def apply(self, function: Any, *arguments: Any) -> None:
        """Call it for every block without an answer; it may wait for the next question."""
        self.each(function, *arguments)

    def sum(self, function: Any, *arguments: Any) -> Any:
        """The answers added up in a fixed order, tuples by entry; their numbers come as floats."""

    def max(self, function: Any, *arguments: Any) -> tuple[float, ...]:
        """The greatest of each entry of the answers."""

    def top_of(self, function: Any, count: int) -> tuple[float, float] | None:
        """Mean of the `count` greatest of the blocks' numbers, and a level that attains it.

        None where that is no faster than sums over the numbers for several levels.
        """
        return None

    def widen(self, weights: Array) -> Array:
        """Weights over all columns of X, as a NumPy array, from those over the ones in use."""
        return weights

    def narrow(self, weights: Array) -> Array:
        """Weights over the columns that are in use, from a NumPy array."""
        return weights

    def scatter(self, function: Any, vector: Array) -> None:
        """Hand each block its part of a vector over all rows."""

    def gather(self, function: Any, *arguments: Any) -> Array:
        """One vector over all rows from the blocks' parts, as a NumPy array."""
        return np.concatenate(self.each(function, *arguments))

    def over_rows(self, function: Any, *arguments: Any) -> Array:
        """The same for a result of the fit; empty if the rows are in other processes."""
        return self.gather(function, *arguments)


class PlacedRows(ABC):
    """All rows of a fit: what an estimator asks of them, wherever they are.

    A vector with an entry per row (labels, weights, scores) is a NumPy array, or lazy where this
    process holds no rows.
    """

    shape: tuple[int, int]
    is_double: bool
    """Whether they are float64."""
    library: ClassVar[str]
    """The library that holds them, a key of `BACKENDS`; empty for arrays of this process."""

    @property
    def template(self) -> Any:
        """What scikit-learn reads the names and number of columns from."""
        return self

    @property
    def original(self) -> Any:
        """The rows as the user passed them, for callbacks."""
        return self

    def on_device(self, device: str) -> "PlacedRows":
        """The same rows on a device, or a refusal."""
        return self

    @abstractmethod
    def design(
        self, positive: Any, sample_weight: Any | None = None, *, n_jobs: int | None = None
    ) -> "Design":
        """The rows as blocks, to be entered."""

    @abstractmethod
    def labels(self, y: Labels) -> Any:
        """A label for each row, or a refusal."""

    @abstractmethod
    def weights(self, sample_weight: Any) -> Any:
        """A weight for each row, or a refusal."""

    @abstractmethod
    def mask(self, labels: Any, wanted: Any) -> Mask:
        """Which rows have the wanted label."""

    @abstractmethod
    def scores_of_all(self, weights: Array) -> Array:
        """X w in float64."""

    @abstractmethod
    def scores_of_some(self, where: Any, fits: Iterable[tuple[Array, float]]) -> list[Array]:
        """X w less the threshold over some rows, for weights and threshold of each fit."""

    @abstractmethod
    def map_parts(self, function: Callable[..., T], vectors: Sequence[Any], *more: Any) -> list[T]:
        """`function(parts of the vectors, *more)`, for each part that the rows lie in."""

    @abstractmethod
    def folds(self, cv: Any, positive: Mask) -> list[tuple[Any, Any]]:
        """Which rows each fold trains on and which it holds out."""

    @abstractmethod
    def masked_weights(self, where: Any, sample_weight: Any | None) -> Any:
        """The weights of some rows, and zero for all others."""

    @abstractmethod
    def require_gathered_scores(self, option: str, instead: str) -> None:
        """Refuse an option that needs all scores in this process, unless they are here."""

    def n_concurrent_fits(self, n_fits: int, n_jobs: int | None) -> int:
        """How many of `n_fits` fits to subsets of these rows should run at the same time."""
        return 1
