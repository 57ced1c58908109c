"""What rows are: their products are float64 whatever they are, and count what they read.

The count of the stored entries that were read is shared with the rows' subsets, so that a solver
can say how often it read the data.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from toppush.designs.arrays import Arrays, namespace
from toppush.system.threads import check_cancelled
from toppush.types import Array, Where


@dataclass(frozen=True)
class Scaling:
    """Rows seen as scale x - centre in float64: another view of the same ranking problem.

    Scores that all change by the same amount rank as before, and a power of two changes no digit.
    """

    scale: float = 1.0
    centre: Array | None = None

    @property
    def is_identity(self) -> bool:
        """Whether it leaves every float64 as it is."""
        return self.scale == 1.0 and self.centre is None


UNSCALED = Scaling()


class Tally:
    """Entries read so far."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries = 0


class Rows(Protocol):
    """Some rows of X."""

    shape: tuple[int, int]
    n_entries: int
    tally: Tally
    arrays: Arrays
    """The operations that fit vectors over these rows."""
    room: float
    """Entries that copies of some of the rows may take: infinite where the rows are in memory."""
    copy_cost: float
    """Entries that are held for each entry of a copy while it is made."""
    is_double: bool
    """Whether they are float64."""
    can_center: bool
    """Whether a form may have a centre: not where zeros are not stored."""

    def scores(self, weights: Array) -> Array:
        """X w."""

    def combine(self, coefficients: Array) -> Array:
        """X' u."""

    def combine_all(self, *coefficients: Array) -> tuple[Array, ...]:
        """X' u for several u, in one read where reading takes long."""

    def hessian_product(self, vector: Array, scale: Array, shift: float) -> Array:
        """X' diag(scale) (X v - shift), in one read where reading takes long."""

    def gram(self, where: Where, scale: Array) -> tuple[Array, Array]:
        """X' diag(scale) X and X' scale over some of the rows, read once."""

    def gram_again(self, where: Where, scale: Array) -> Array:
        """The first of these; what is common to answers may be kept, as for rows asked often."""

    def subset(self, where: Where) -> "Rows":
        """A copy of some of the rows."""

    def stacked(self, *others: Any) -> "Rows":
        """These rows and, below them, others of the same kind; in float64 if some are."""

    def in_double(self) -> "Rows":
        """The same rows in float64, or these if they are."""

    def rescaled(self, form: Scaling) -> "Rows":
        """A copy in float64 in another form."""

    def parts(self) -> Iterator[tuple[slice, "Rows"]]:
        """All rows, a few at a time and without a copy, with the places they have."""

    def squared(self) -> "Rows":
        """The same rows with every entry squared, for sums that need not be exact."""

    def count_entries(self, where: Where) -> int:
        """Stored entries of some of the rows."""

    def squared_norms(self) -> Array:
        """|x|^2 of every row."""

    def largest(self) -> float:
        """Greatest size of an entry."""

    def exact(self) -> "ExactRows":
        """The same rows in float64."""


class ExactRows(Protocol):
    """A few rows in float64 that a solver keeps; what it does with them is no read of X."""

    shape: tuple[int, int]

    def scores(self, weights: Array) -> Array:
        """X w."""

    def combine(self, coefficients: Array) -> Array:
        """X' u."""

    def subset(self, where: Where) -> "ExactRows":
        """A copy of some of the rows."""

    def stacked(self, *others: Any) -> "ExactRows":
        """These rows and, below them, others of the same kind."""

    def scaled(self, columns: Array) -> "ExactRows":
        """The same rows with every column multiplied."""

    def inner_products(self, other: Any) -> Array:
        """Of these rows with others of the same kind, as a matrix."""

    def dense(self) -> Array:
        """The rows as a NumPy array."""


class GramAnew:
    """Rows that keep nothing from one Gram matrix to the next."""

    gram: Callable[[Where, Array], tuple[Array, Array]]

    def gram_again(self, where: Where, scale: Array) -> Array:
        return self.gram(where, scale)[0]


class InMemory(GramAnew):
    """What follows from two products where reading the rows twice costs little."""

    room, copy_cost = math.inf, 1.0
    is_double: bool
    scores: Callable[[Array], Array]
    combine: Callable[[Array], Array]
    rescaled: Callable[[Scaling], Any]

    def in_double(self) -> Any:
        return self if self.is_double else self.rescaled(UNSCALED)

    def combine_all(self, *coefficients: Array) -> tuple[Array, ...]:
        return tuple(self.combine(one) for one in coefficients)

    def hessian_product(self, vector: Array, scale: Array, shift: float) -> Array:
        return self.combine(scale * (self.scores(vector) - shift))


def gram_by_parts(
    take: Callable[[Where | slice], Array], scale: Array, n_features: int, n_entries: int
) -> tuple[Array, Array]:
    """Sums of X' diag(scale) X and X' scale over parts of so many entries.

    Rows of either sign are added apart, as squares of scaled rows: half the work of a product.
    """
    xp = namespace(scale)
    step = max(n_entries // max(n_features, 1), 64)
    if len(scale) <= step and not (scale < 0.0).any():
        root = xp.sqrt(scale)
        rows = take(slice(None)) * root[:, None]
        return rows.T @ rows, root @ rows
    total, product = xp.zeros((n_features, n_features)), xp.zeros(n_features)
    for sign, counted in ((1.0, scale > 0.0), (-1.0, scale < 0.0)):
        chosen = xp.flatnonzero(counted)
        for start in range(0, len(chosen), step):
            check_cancelled()
            part = chosen[start : start + step]
            root = xp.sqrt(abs(scale[part]))
            rows = take(part) * root[:, None]
            total += sign * (rows.T @ rows)
            product += sign * (root @ rows)
    return total, product


def exact_rows_in(n_bytes: float, per_row: float) -> float:
    """How many rows fit, at three copies in float64 each and six products with each other."""
    copies = 3.0 * 1.5 * per_row  # column numbers take half of what numbers do
    return max(4.0, (math.sqrt(copies**2 + 24.0 * max(n_bytes, 0.0) / 8.0) - copies) / 12.0)
