"""Kinds of rows and their products, always float64 whatever the rows are.

A product counts the stored entries it reads, so that a solver can say how often it read the
data; the count is shared with the rows' subsets.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from toppush.designs.arrays import NUMPY, Arrays, namespace
from toppush.system.threads import go_on
from toppush.types import Array, Where

SINGLE_ROWS, SHORT_ROWS = 1 << 13, 1 << 8
"""Rows per float32 product, sparse and dense; the partial sums are added in float64."""
PART_ROWS = 1 << 16
"""Dense rows whose partial sums are held at once."""
USED_ROWS, USED_ENTRIES = 0.25, 1 << 16
"""Share of the entries below which X'u copies the rows whose u is not zero, and the least part."""
GRAM_ENTRIES = 200_000
"""Entries of a part of a Gram matrix: 1.6 MB. Ten times more took 3x as long on nslkdd."""
SPARSE_GRAM = 0.08
"""Share of stored entries below which a sparse product beats a dense one (a9a, 0.11: 1.6x
slower; w8a, 0.04: 6x faster; hiv-ecfp4, 0.02: 8x faster)."""


PART_ENTRIES = 1 << 16
"""Entries of a part of the rows that is brought into another form: 512 KB in float64."""


@dataclass(frozen=True)
class Form:
    """Rows seen as scale x - centre in float64: another view of the same ranking problem.

    Scores that all change by the same amount rank as before, and a power of two changes no digit.
    """

    scale: float = 1.0
    centre: Array | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it leaves every float64 as it is."""
        return self.scale == 1.0 and self.centre is None


PLAIN = Form()


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
    can_shift: bool
    """Whether a form may have a centre: not where zeros are not stored."""

    def scores(self, weights: Array) -> Array:
        """X w."""

    def combine(self, coefficients: Array) -> Array:
        """X' u."""

    def combine_all(self, *coefficients: Array) -> tuple[Array, ...]:
        """X' u for several u, in one read where reading takes long."""

    def curved(self, vector: Array, scale: Array, shift: Any) -> Array:
        """X' diag(scale) (X v - shift), in one read where reading takes long."""

    def gram(self, where: Where, scale: Array) -> tuple[Array, Array]:
        """X' diag(scale) X and X' scale over some of the rows, read once."""

    def subset(self, where: Where) -> "Rows":
        """A copy of some of the rows."""

    def stacked(self, *others: Any) -> "Rows":
        """These rows and, below them, others of the same kind; in float64 if some are."""

    def in_double(self) -> "Rows":
        """The same rows in float64, or these if they are."""

    def in_form(self, form: Form) -> "Rows":
        """A copy in float64 in another form."""

    def parts(self) -> Iterator[tuple[slice, "Rows"]]:
        """All rows, a few at a time and without a copy, with the places they have."""

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

    def inner_products(self, other: Any) -> Array:
        """Of these rows with others of the same kind, as a matrix."""

    def dense(self) -> Array:
        """The rows as a NumPy array."""


class InMemory:
    """What follows from two products where reading the rows twice costs little."""

    room, copy_cost = math.inf, 1.0
    scores: Callable[[Array], Array]
    combine: Callable[[Array], Array]

    def combine_all(self, *coefficients: Array) -> tuple[Array, ...]:
        """X' u for several u."""
        return tuple(self.combine(one) for one in coefficients)

    def curved(self, vector: Array, scale: Array, shift: Any) -> Array:
        """X' diag(scale) (X v - shift)."""
        return self.combine(scale * (self.scores(vector) - shift))


class DenseRows(InMemory):
    """Rows of a dense array; a memory map is read through, never loaded."""

    arrays, can_shift = NUMPY, True

    def __init__(self, X: NDArray[Any], tally: Tally | None = None) -> None:
        self.X, self.is_double = X, X.dtype == np.float64
        self.shape: tuple[int, int] = X.shape
        self.n_entries = X.size
        self.tally = Tally() if tally is None else tally

    def scores(self, weights: Array) -> Array:
        """X w."""
        self.tally.entries += self.n_entries
        return np.asarray(self.X @ weights.astype(self.X.dtype, copy=False), np.float64)

    def combine(self, coefficients: Array) -> Array:
        """X' u; float32 rows are summed a few hundred at a time."""
        self.tally.entries += self.n_entries
        if self.X.dtype == np.float64:
            return np.asarray(coefficients @ self.X)
        total = np.zeros(self.shape[1])
        for start in range(0, self.shape[0], PART_ROWS):
            part = slice(start, start + PART_ROWS)
            total += _in_short_sums(coefficients[part].astype(self.X.dtype), self.X[part])
        return total

    def gram(self, where: Where, scale: Array) -> tuple[Array, Array]:
        """X' diag(scale) X and X' scale over some of the rows."""
        self.tally.entries += len(where) * self.shape[1]

        def take(part: Where) -> Array:
            return self.X[where[part]].astype(np.float64, copy=False)

        return gram_by_parts(take, scale, self.shape[1], GRAM_ENTRIES)

    def subset(self, where: Where) -> Self:
        """A copy of some of the rows."""
        self.tally.entries += len(where) * self.shape[1]
        return type(self)(self.X[where], self.tally)

    def stacked(self, *others: Self) -> Self:
        """These rows and, below them, others."""
        return type(self)(np.vstack([self.X, *(other.X for other in others)]), self.tally)

    def in_double(self) -> Self:
        """The same rows in float64."""
        return self if self.is_double else type(self)(self.matrix(), self.tally)

    def in_form(self, form: Form) -> Self:
        """A copy in float64 in another form."""
        values = self.X.astype(np.float64)
        values *= form.scale
        if form.centre is not None:
            values -= form.centre
        return type(self)(values, self.tally)

    def parts(self) -> Iterator[tuple[slice, Self]]:
        """All rows, a few at a time."""
        step = max(PART_ENTRIES // max(self.shape[1], 1), 1)
        for start in range(0, self.shape[0], step):
            where = slice(start, start + step)
            yield where, type(self)(self.X[where], self.tally)

    def count_entries(self, where: Where) -> int:
        """Stored entries of some of the rows."""
        return len(where) * self.shape[1]

    def squared_norms(self) -> Array:
        """|x|^2 of every row."""
        norms: Array = np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64)
        return norms

    def largest(self) -> float:
        """Greatest size of an entry."""
        return largest_entry(self.X)

    def matrix(self) -> Array:
        """The rows as a float64 array."""
        return self.X.astype(np.float64, copy=False)

    def exact(self) -> "MatrixRows":
        """The same rows in float64."""
        return MatrixRows(self.matrix())


class SparseRows(InMemory):
    """Rows start to stop of a CSR matrix as a view, with the transpose as further views.

    The views are filled by hand: SciPy's constructors copy a slice that is under half its
    base, and `.T` of a view copies on every call.
    """

    arrays, can_shift = NUMPY, False

    def __init__(
        self,
        X: sparse.csr_array,
        start: int = 0,
        stop: int | None = None,
        tally: Tally | None = None,
    ) -> None:
        stop = X.shape[0] if stop is None else stop
        self.shape = (stop - start, int(X.shape[1]))
        self._rows, self.is_double = _row_view(X, start, stop), X.dtype == np.float64
        self._columns = [(0, _transpose_view(self._rows))]
        self.n_entries = len(self._rows.data)
        self.tally = Tally() if tally is None else tally
        if X.dtype == np.float32:
            # A part pays for the d sums it starts from once it holds four entries to each.
            per_row = max(self.n_entries / max(stop - start, 1), 1.0)
            step = max(SINGLE_ROWS, int(4 * X.shape[1] / per_row))
            self._columns = [
                (part - start, _transpose_view(_row_view(X, part, min(part + step, stop))))
                for part in range(start, stop, step)
            ]

    def scores(self, weights: Array) -> Array:
        """X w."""
        self.tally.entries += self.n_entries
        product = self._rows @ weights.astype(self._rows.dtype, copy=False)
        return np.asarray(product, np.float64)

    def combine(self, coefficients: Array) -> Array:
        """X' u; float32 rows are summed a part at a time, and rows of weight zero not read."""
        coefficients = coefficients.astype(self._rows.dtype, copy=False)
        used = np.flatnonzero(coefficients)
        n_used = self.count_entries(used) if len(used) < USED_ROWS * self.shape[0] else np.inf
        if n_used < USED_ROWS * self.n_entries:
            return self._combine_some(used, int(n_used), coefficients)
        self.tally.entries += self.n_entries
        if len(self._columns) == 1:
            return np.asarray(self._columns[0][1] @ coefficients, np.float64)
        total = np.zeros(self.shape[1])
        for first, columns in self._columns:
            total += columns @ coefficients[first : first + columns.shape[1]]
        return total

    def _combine_some(self, used: Where, n_used: int, coefficients: Array) -> Array:
        """X' u over the rows that count, copied out a part at a time."""
        self.tally.entries += n_used
        total, most = np.zeros(self.shape[1]), max(*self.shape, USED_ENTRIES)
        n_parts = max(1, -(-n_used // most))
        if self._rows.dtype == np.float32:
            n_parts = max(n_parts, -(-len(used) // SINGLE_ROWS))
        for part in np.array_split(used, n_parts):
            total += _transpose_view(self._rows[part]) @ coefficients[part]
        return total

    def gram(self, where: Where, scale: Array) -> tuple[Array, Array]:
        """X' diag(scale) X and X' scale over some of the rows; sparse if that is less work."""
        rows = self.subset(where).matrix()
        if rows.nnz <= SPARSE_GRAM * rows.shape[0] * rows.shape[1]:
            gram = (rows.T @ sparse.diags_array(scale) @ rows).toarray()
            return np.asarray(gram), np.asarray(rows.T @ scale)
        take = lambda part: rows[part].toarray()  # noqa: E731
        return gram_by_parts(take, scale, self.shape[1], GRAM_ENTRIES)

    def subset(self, where: Where) -> Self:
        """A copy of some of the rows."""
        copy = type(self)(self._rows[where], tally=self.tally)
        self.tally.entries += copy.n_entries
        return copy

    def stacked(self, *others: Self) -> Self:
        """These rows and, below them, others."""
        parts = [self._rows, *(other._rows for other in others)]
        return type(self)(sparse.vstack(parts, format="csr"), tally=self.tally)

    def in_double(self) -> Self:
        """The same rows in float64."""
        return self if self.is_double else type(self)(self.matrix(), tally=self.tally)

    def in_form(self, form: Form) -> Self:
        """A copy in float64 in another form, which has no centre."""
        copy = sparse.csr_array(self._rows.shape, dtype=np.float64)
        copy.data = self._rows.data.astype(np.float64)
        copy.data *= form.scale
        copy.indices, copy.indptr = self._rows.indices, self._rows.indptr
        return type(self)(copy, tally=self.tally)

    def parts(self) -> Iterator[tuple[slice, Self]]:
        """All rows, a few at a time; a part pays for the d sums that it starts from."""
        pointers, n_rows = self._rows.indptr, self.shape[0]
        step, start = max(PART_ENTRIES, 4 * self.shape[1]), 0
        while start < n_rows:
            stop = int(np.searchsorted(pointers, pointers[start] + step, side="right")) - 1
            stop = min(max(stop, start + 1), n_rows)
            yield slice(start, stop), type(self)(self._rows, start, stop, self.tally)
            start = stop

    def count_entries(self, where: Where) -> int:
        """Stored entries of some of the rows."""
        pointers = self._rows.indptr
        return int((pointers[where + 1] - pointers[where]).sum())

    def squared_norms(self) -> Array:
        """|x|^2 of every row."""
        rows = self._rows
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        squares = np.square(rows.data, dtype=np.float64)
        owners = np.repeat(np.arange(self.shape[0]), np.diff(rows.indptr))
        return np.bincount(owners, squares, self.shape[0]).astype(np.float64, copy=False)

    def largest(self) -> float:
        """Greatest size of an entry."""
        return largest_entry(self._rows.data)

    def matrix(self) -> sparse.csr_array:
        """The rows as a float64 CSR matrix."""
        return self._rows.astype(np.float64, copy=False)

    def exact(self) -> "MatrixRows":
        """The same rows in float64."""
        return MatrixRows(self.matrix())


class MaskedRows:
    """Some of the rows, by products with all of them: no copy, but as much work."""

    def __init__(self, rows: Rows, where: Where) -> None:
        self._all, self._where = rows, where
        self.shape = (len(where), rows.shape[1])
        self.n_entries, self.tally, self.arrays = rows.n_entries, rows.tally, rows.arrays
        self.room, self.copy_cost = rows.room, rows.copy_cost
        self.is_double, self.can_shift = rows.is_double, rows.can_shift

    def scores(self, weights: Array) -> Array:
        """X w."""
        return self._all.scores(weights)[self._where]

    def combine(self, coefficients: Array) -> Array:
        """X' u."""
        return self._all.combine(self._padded(coefficients))

    def combine_all(self, *coefficients: Array) -> tuple[Array, ...]:
        """X' u for several u."""
        return self._all.combine_all(*(self._padded(one) for one in coefficients))

    def curved(self, vector: Array, scale: Array, shift: Any) -> Array:
        """X' diag(scale) (X v - shift)."""
        return self._all.curved(vector, self._padded(scale), shift)

    def _padded(self, coefficients: Array) -> Array:
        padded = self.arrays.zeros(self._all.shape[0])
        padded[self._where] = coefficients
        return padded

    def gram(self, where: Where, scale: Array) -> tuple[Array, Array]:
        """X' diag(scale) X and X' scale over some of the rows."""
        return self._all.gram(self._where[where], scale)

    def subset(self, where: Where) -> Rows:
        """A copy of some of the rows."""
        return self._all.subset(self._where[where])

    def stacked(self, *others: "MaskedRows") -> "MaskedRows":
        """These rows and, below them, others of the same whole."""
        parts = [self._where, *(other._where for other in others)]
        return type(self)(self._all, self.arrays.concatenate(parts))

    def in_double(self) -> Rows:
        """A copy in float64."""
        return self._all.subset(self._where).in_double()

    def in_form(self, form: Form) -> Rows:
        """A copy in float64 in another form."""
        return self._all.subset(self._where).in_form(form)

    def parts(self) -> Iterator[tuple[slice, Rows]]:
        """A copy of the rows."""
        yield slice(0, self.shape[0]), self._all.subset(self._where)

    def count_entries(self, where: Where) -> int:
        """Stored entries of some of the rows."""
        return self._all.count_entries(self._where[where])

    def squared_norms(self) -> Array:
        """|x|^2 of every row."""
        return self._all.squared_norms()[self._where]

    def largest(self) -> float:
        """Greatest size of an entry."""
        return self._all.subset(self._where).largest()

    def matrix(self) -> Any:
        """The rows as a float64 array or CSR matrix."""
        copied: Any = self._all.subset(self._where)
        return copied.matrix()

    def exact(self) -> ExactRows:
        """The same rows in float64."""
        return self._all.subset(self._where).exact()


class PreciseRows:
    """All rows in float64 and in some form, made anew a few at a time for every product."""

    def __init__(self, rows: Rows, form: Form) -> None:
        self._all, self._form = rows, form
        self.shape, self.n_entries, self.tally = rows.shape, rows.n_entries, rows.tally
        self.arrays, self.room, self.copy_cost = rows.arrays, rows.room, rows.copy_cost
        self.is_double, self.can_shift = True, rows.can_shift

    def _parts(self, *coefficients: Array) -> Iterator[tuple[slice, Rows]]:
        """Parts in their form, without those for which all coefficients are zero."""
        look = bool(coefficients) and self.arrays is NUMPY  # elsewhere a look takes longer
        for place, rows in self._all.parts():
            if not look or any(bool(one[place].any()) for one in coefficients):
                yield place, rows.in_form(self._form)

    def scores(self, weights: Array) -> Array:
        """X w."""
        scores = self.arrays.empty(self.shape[0])
        for place, rows in self._parts():
            scores[place] = rows.scores(weights)
        return scores

    def combine(self, coefficients: Array) -> Array:
        """X' u."""
        return self.combine_all(coefficients)[0]

    def combine_all(self, *coefficients: Array) -> tuple[Array, ...]:
        """X' u for several u."""
        totals = tuple(self.arrays.zeros(self.shape[1]) for _ in coefficients)
        for place, rows in self._parts(*coefficients):
            for total, vector in zip(totals, coefficients, strict=True):
                total += rows.combine(vector[place])
        return totals

    def curved(self, vector: Array, scale: Array, shift: Any) -> Array:
        """X' diag(scale) (X v - shift)."""
        total = self.arrays.zeros(self.shape[1])
        for place, rows in self._parts(scale):
            total += rows.curved(vector, scale[place], shift)
        return total

    def gram(self, where: Where, scale: Array) -> tuple[Array, Array]:
        """X' diag(scale) X and X' scale over some of the rows."""
        total = self.arrays.zeros((self.shape[1], self.shape[1]))
        product, spread = self.arrays.zeros(self.shape[1]), self.arrays.zeros(self.shape[0])
        spread[where] = scale
        for place, rows in self._all.parts():
            chosen = self.arrays.flatnonzero(spread[place])
            if len(chosen):
                formed = rows.subset(chosen).in_form(self._form)
                more = formed.gram(self.arrays.flatnonzero(chosen >= 0), spread[place][chosen])
                total += more[0]
                product += more[1]
        return total, product

    def subset(self, where: Where) -> Rows:
        """A copy of some of the rows, in their form."""
        return self._all.subset(where).in_form(self._form)

    def stacked(self, *others: Any) -> Rows:
        """Not for all rows, of which there is one set."""
        raise TypeError("all rows of a block cannot be stacked; copy some of them first.")

    def in_double(self) -> Self:
        """These rows."""
        return self

    def in_form(self, form: Form) -> Rows:
        """A copy in another form."""
        return self._all.in_form(self._form).in_form(form)

    def parts(self) -> Iterator[tuple[slice, Rows]]:
        """Copies of the rows in their form, a few at a time."""
        return self._parts()

    def count_entries(self, where: Where) -> int:
        """Stored entries of some of the rows."""
        return self._all.count_entries(where)

    def squared_norms(self) -> Array:
        """|x|^2 of every row."""
        norms = self.arrays.empty(self.shape[0])
        for place, rows in self._parts():
            norms[place] = rows.squared_norms()
        return norms

    def largest(self) -> float:
        """Greatest size of an entry."""
        return max((rows.largest() for _, rows in self._parts()), default=0.0)

    def exact(self) -> ExactRows:
        """A copy of all rows."""
        return self._all.in_form(self._form).exact()


def precise(rows: Rows, form: Form) -> Rows:
    """Rows whose products are those of float64, in some form; the same rows if they are that."""
    return rows if rows.is_double and form.is_plain else PreciseRows(rows, form)


class MatrixRows:
    """Rows as a float64 array or CSR matrix."""

    def __init__(self, matrix: Any) -> None:
        self._matrix, self._columns = matrix, matrix.T
        self.shape: tuple[int, int] = matrix.shape

    def scores(self, weights: Array) -> Array:
        """X w."""
        return np.asarray(self._matrix @ weights)

    def combine(self, coefficients: Array) -> Array:
        """X' u."""
        return np.asarray(self._columns @ coefficients)

    def subset(self, where: Where) -> "MatrixRows":
        """A copy of some of the rows."""
        return MatrixRows(self._matrix[where])

    def stacked(self, *others: "MatrixRows") -> "MatrixRows":
        """These rows and, below them, others."""
        parts = [self._matrix, *(other._matrix for other in others)]
        if sparse.issparse(self._matrix):
            return MatrixRows(sparse.vstack(parts, format="csr"))
        return MatrixRows(np.vstack(parts))

    def inner_products(self, other: "MatrixRows") -> Array:
        """Of these rows with others, as a matrix."""
        return _as_array(self._matrix @ other._columns)

    def dense(self) -> Array:
        """The rows as an array."""
        return _as_array(self._matrix)


def _as_array(matrix: Any) -> Array:
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix)


def largest_entry(values: NDArray[Any]) -> float:
    """Greatest size of a number, 0 if there is none."""
    return max(float(values.max()), -float(values.min())) if values.size else 0.0


def gram_by_parts(
    take: Callable[[Where], Array], scale: Array, n_features: int, n_entries: int
) -> tuple[Array, Array]:
    """Sums of X' diag(scale) X and X' scale over parts of so many entries.

    Rows of either sign are added apart, as squares of scaled rows: half the work of a product.
    """
    xp = namespace(scale)
    total, product = xp.zeros((n_features, n_features)), xp.zeros(n_features)
    step = max(n_entries // max(n_features, 1), 64)
    for sign in (1.0, -1.0):
        chosen = xp.flatnonzero(scale * sign > 0.0)
        for start in range(0, len(chosen), step):
            go_on()
            part = chosen[start : start + step]
            root = xp.sqrt(abs(scale[part]))
            rows = take(part) * root[:, None]
            total += sign * (rows.T @ rows)
            product += sign * (root @ rows)
    return total, product


def _in_short_sums(coefficients: Array, X: Array) -> Array:
    """X' u in float64 from sums in float32 of few rows: as fast as long ones, and closer."""
    n_whole, n_features = len(X) // SHORT_ROWS * SHORT_ROWS, X.shape[1]
    heads = coefficients[:n_whole].reshape(-1, 1, SHORT_ROWS)
    sums = heads @ X[:n_whole].reshape(-1, SHORT_ROWS, n_features)
    total: Array = sums.sum(axis=(0, 1), dtype=np.float64)
    return total + coefficients[n_whole:] @ X[n_whole:]


def _row_view(X: sparse.csr_array, start: int, stop: int) -> sparse.csr_array:
    """Rows start to stop of X; only the row pointers are new, and not even those from row 0."""
    first, last = X.indptr[start], X.indptr[stop]
    view = sparse.csr_array((stop - start, X.shape[1]), dtype=X.dtype)
    view.data, view.indices = X.data[first:last], X.indices[first:last]
    pointers = X.indptr[start : stop + 1]
    view.indptr = (pointers - first if first else pointers).astype(X.indices.dtype, copy=False)
    return view


def _transpose_view(rows: sparse.csr_array) -> sparse.csc_array:
    view = sparse.csc_array(rows.shape[::-1], dtype=rows.dtype)
    view.data, view.indices, view.indptr = rows.data, rows.indices, rows.indptr
    return view
