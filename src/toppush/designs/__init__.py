"""Row blocks and who runs them."""

from typing import Any, Protocol

from toppush.designs.blocks import Block
from toppush.designs.local import LocalDesign
from toppush.losses import Array

__all__ = ["Block", "Design", "LocalDesign"]


class Design(Protocol):
    """Row blocks, and a way to ask all of them at once."""

    n_features: int
    n_pos: int
    n_neg: int
    total_cost: float
    memory: dict[str, Any]
    """Sums over the rows that outlive a solve."""

    @property
    def passes(self) -> float:
        """Reads of the whole data so far."""

    def each(self, function: Any, *arguments: Any) -> list[Any]:
        """Every block's answer, in the order of the rows."""

    def sum(self, function: Any, *arguments: Any) -> Any:
        """The answers added up."""

    def max(self, function: Any, *arguments: Any) -> tuple[float, ...]:
        """The greatest of each entry of the answers."""

    def widen(self, weights: Array) -> Array:
        """Weights over all columns of X from those over the columns that are in use."""

    def narrow(self, weights: Array) -> Array:
        """Weights over the columns that are in use."""

    def scatter(self, function: Any, vector: Array) -> None:
        """Hand each block its part of a vector over all rows."""

    def gather(self, function: Any) -> Array:
        """One vector over all rows from the blocks' parts."""
