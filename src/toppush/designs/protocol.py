"""What the layers above may ask of rows, wherever they are."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

from toppush.designs.arrays import Arrays
from toppush.designs.records import Records
from toppush.types import Array, Labels, Mask

T = TypeVar("T")


class Design(Protocol):
    """Row blocks, and a way to ask all of them at once; used as a context."""

    n_features: int
    n_pos: int
    n_neg: int
    total_cost: float
    known: Records
    """What solvers know of the rows, in the form that they have; it outlives a solve."""
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
        """Give back what that took."""
        return None

    @property
    def passes(self) -> float:
        """Reads of the whole data so far; a product with X or X' is one."""

    def each(self, function: Any, *arguments: Any) -> list[Any]:
        """`function(block, *arguments)` of every block, in the order of the rows."""

    def apply(self, function: Any, *arguments: Any) -> None:
        """Ask every block where no answer is wanted; it may wait for the next question."""
        self.each(function, *arguments)

    def sum(self, function: Any, *arguments: Any) -> Any:
        """The answers added up in a fixed order, tuples by entry; their numbers come as floats."""

    def max(self, function: Any, *arguments: Any) -> tuple[float, ...]:
        """The greatest of each entry of the answers."""

    def top_of(self, function: Any, count: int) -> tuple[float, float] | None:
        """Mean of the `count` greatest of the blocks' numbers, and a level that attains it.

        None where one look at all numbers is no faster than sums over them for some levels.
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
        """The same of a result that is only to be handed back; empty if rows are elsewhere."""
        return self.gather(function, *arguments)


class PlacedRows(ABC):
    """All rows of a fit, put where they are worked on: all that an estimator asks of them.

    A vector with an entry per row (labels, weights, scores) is a NumPy array, or lazy where this
    process holds no row; who asks need not know.
    """

    shape: tuple[int, int]
    is_double: bool
    """Whether they are float64."""
    library: ClassVar[str]
    """Whose rows they are, a key of `BACKENDS`; empty for arrays of this process."""

    @property
    def template(self) -> Any:
        """What tells scikit-learn of the columns."""
        return self

    @property
    def original(self) -> Any:
        """The rows as callbacks are shown them."""
        return self

    def on_device(self, device: str) -> "PlacedRows":
        """The same rows for who names a device."""
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
    def require_gathered_scores(self, asked: str, instead: str) -> None:
        """Refuse what needs all scores in one place, unless they are."""

    def n_concurrent_fits(self, n_fits: int, n_jobs: int | None) -> int:
        """How many of some fits to different rows of these are to run at the same time."""
        return 1
