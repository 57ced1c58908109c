"""What the layers above may ask of rows, wherever they are."""

from typing import Any, Protocol, runtime_checkable

from toppush.designs.arrays import Arrays
from toppush.designs.records import Records
from toppush.types import Array


class Design(Protocol):
    """Row blocks, and a way to ask all of them at once."""

    n_features: int
    n_pos: int
    n_neg: int
    total_cost: float
    known: Records
    """What solvers know of the rows, in the form that they have; it outlives a solve."""
    in_use_by: int | None
    """The thread of the solve under way."""
    arrays: Arrays
    """The operations that fit the vectors with an entry per feature."""
    most_exact: float
    """Rows of which a solver may keep copies in float64 and all products among them."""
    most_formed: float
    """Features up to which a solver may keep matrices of features by features."""

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
