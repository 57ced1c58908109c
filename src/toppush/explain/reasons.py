"""Why a row stands where it does in a list, in columns and amounts.

A row is compared with the highest-ranked negatives of the training rows, which it has to pass: what
a column adds to its score less what it adds to theirs in the mean is the column's lift. It is
compared with the row next above it in the list: columns in which that one is ahead hold it back.
And with usual training rows: a row may be no different from the negatives at the top, and is there
for what they share.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing

from toppush.explain.shares import OTHER, ColumnShares, Values
from toppush.types import Array, Mask, Matrix, Where

NEGLIGIBLE = 1e-3
"""Share of the largest amount below which others are not told."""


@dataclass(frozen=True)
class Reason:
    """A column's part in the place of a row.

    Attributes
    ----------
    column : str
        Or "(other)", for the part of base models that cannot share out their scores.
    value : str or None
        What the row holds there; None if it is missing, empty for "(other)".
    lift : float
        What the column adds to the row's score, less what it adds to those it is compared with.
    """

    column: str
    value: str | None
    lift: float

    @property
    def told(self) -> str:
        """The column and its value, such as "age = 61" or "age is missing"."""
        if self.column == OTHER:
            return OTHER
        return f"{self.column} {'is missing' if self.value is None else f'= {self.value}'}"

    def __str__(self) -> str:
        """The shortest, such as "age 61 (+0.4)"."""
        if self.column == OTHER:
            return f"{OTHER} ({self.lift:+.2g})"
        value = "missing" if self.value is None else self.value
        return f"{self.column} {value} ({self.lift:+.2g})"


@dataclass(frozen=True)
class Explanation:
    """Why a row stands where it does.

    Attributes
    ----------
    row : int
        Its number among the rows given, from 0.
    score : float
    lift : float
        Its score less the mean score of those it is compared with: the sum over all columns.
    lifted, lowered : tuple of Reason
        The columns that lift it most above them, and those that lower it, the largest first.
    above_usual : tuple of Reason
        The columns that lift it most above the mean of the training rows; they may lift the
        negatives too. None where the ranker does not know that mean.
    held_back : tuple of Reason
        The columns in which the row next above it is most ahead.
    above : int or None
        The number of that row.
    alike : bool
        Whether its score is nearer to those it is compared with than to that of usual rows.
    """

    row: int
    score: float
    lift: float
    lifted: tuple[Reason, ...]
    lowered: tuple[Reason, ...]
    above_usual: tuple[Reason, ...]
    held_back: tuple[Reason, ...]
    above: int | None
    alike: bool = False

    @property
    def main(self) -> tuple[Reason, ...]:
        """What lifts it, or where nothing does and it is alike, what lifts it above usual rows."""
        return self.lifted or (self.above_usual if self.alike else ())

    def __str__(self) -> str:
        said = ", ".join(map(str, self.main))
        if not self.lifted and self.main:
            said = f"like the top negatives by {said}"
        elif not self.lifted:
            said = "nothing lifts it"
            said += f", lowered by {self.lowered[0]}" if self.lowered else ""
        return said + (f"; behind the row above by {self.held_back[0]}" if self.held_back else "")

    def flat(self, n_columns: int | None = None) -> dict[str, str | float | None]:
        """A row of a table: why, why_1_column, why_1_value, why_1_lift and so on.

        After them held_back_column, held_back_value and held_back_lift.
        """
        count = len(self.lifted) if n_columns is None else n_columns
        named = {f"why_{at + 1}": _at(self.lifted, at) for at in range(count)}
        named["held_back"] = _at(self.held_back, 0)
        cells: dict[str, str | float | None] = {"why": str(self)}
        for name, reason in named.items():
            for part in ("column", "value", "lift"):
                cells[f"{name}_{part}"] = getattr(reason, part, None)
        return cells


def _at(reasons: Sequence[Reason], place: int) -> Reason | None:
    return reasons[place] if place < len(reasons) else None


@dataclass(frozen=True)
class Difference:
    """A column in which two rows differ, what both hold there, and the part of it in their gap."""

    column: str
    value: str | None
    other: str | None
    lift: float

    def __str__(self) -> str:
        if self.column == OTHER:
            return f"{OTHER} ({self.lift:+.2g})"
        value, other = ("missing" if one is None else one for one in (self.value, self.other))
        return f"{self.column} {value} against {other} ({self.lift:+.2g})"


@dataclass(frozen=True)
class Pair:
    """Why one row stands above another.

    Attributes
    ----------
    score, other : float
        Of the two.
    differences : tuple of Difference
        The columns that set them apart most, either way, the largest first.
    rest : float
        What all other columns add to the difference of the scores.
    """

    score: float
    other: float
    differences: tuple[Difference, ...]
    rest: float

    def __str__(self) -> str:
        return ", ".join(map(str, self.differences)) or "no column sets them apart"


class Explainer:
    """Explains the rows of a list from its top down, some at a time."""

    def __init__(self, columns: ColumnShares, reference: Array, n_columns: int) -> None:
        self.columns, self.reference, self.n_columns = columns, reference, n_columns
        self.usual = columns.usual
        self._last: tuple[int, Array] | None = None
        """The row that was explained last, and what columns add to its score."""

    def __call__(
        self, X: Matrix, rows: Where, scores: Array, first: Mask | None = None
    ) -> Iterator[Explanation]:
        """The next rows of the list, with their numbers; `first` says which begin a new list."""
        added = self.columns.contributions(X)
        cells = Values(X, self.columns.names)
        for place, (row, score) in enumerate(zip(rows, scores, strict=True)):
            if first is not None and first[place]:
                self._last = None
            yield self._one(added[place], cells, place, int(row), float(score))
            self._last = int(row), added[place]

    def _one(self, added: Array, cells: Values, place: int, row: int, score: float) -> Explanation:
        names = self.columns.all_names

        def reasons(amounts: Array, sign: int) -> tuple[Reason, ...]:
            return tuple(
                Reason(names[at], cells(place, at), float(amounts[at]))
                for at in where_largest(sign * amounts[: len(names)], self.n_columns)
            )

        above, ahead = (None, added) if self._last is None else self._last
        usual = added if self.usual is None else self.usual
        return Explanation(
            row,
            score,
            score - float(self.reference.sum()),
            lifted=reasons(added - self.reference, +1),
            lowered=reasons(added - self.reference, -1),
            above_usual=reasons(added - usual, +1),
            held_back=reasons(added - ahead, -1),
            above=above,
            alike=bool(score > (self.reference.sum() + usual.sum()) / 2),
        )


def where_largest(sizes: Array, limit: int) -> Where:
    """Where the largest entries are, greatest first, without those that nobody would see."""
    chosen = np.argsort(-sizes, kind="stable")[:limit]
    return np.asarray(chosen[sizes[chosen] > NEGLIGIBLE * np.abs(sizes).max(initial=0.0)])


def explain(
    ranker: BaseEstimator,
    X: Matrix,
    n_columns: int = 3,
    *,
    against: Matrix = None,
    names: Sequence[str] | None = None,
) -> list[Explanation]:
    """Why each row stands where it does in the list of these rows.

    Parameters
    ----------
    ranker : fitted ranker, or pipeline that ends with one
    X : array, sparse matrix, data frame or Arrow table
    n_columns : int, default=3
        How many columns are named at most, of each kind.
    against : rows, optional
        What rows are compared with in the mean, such as the highest-ranked negatives of the
        training rows, which is the default where the ranker knows them (`reference_`); else it is
        the rows of X.
    names : sequence of str, optional
        Of the columns, where the rows have none; by default x0, x1, ...

    Returns
    -------
    list of Explanation
        In the order of X.
    """
    X = X if hasattr(X, "shape") else np.asarray(X)
    columns = ColumnShares.of(ranker, names)
    scores = np.asarray(columns.estimator.decision_function(X), np.float64)
    order = np.argsort(-scores, kind="stable")
    explainer = Explainer(columns, reference_for(columns, X, against), n_columns)
    found = [
        one
        for part in columns.parts(len(order))
        for one in explainer(
            _safe_indexing(X, order[part]), order[part].tolist(), scores[order[part]]
        )
    ]
    return sorted(found, key=lambda one: one.row)


def reference_for(columns: ColumnShares, X: Matrix, against: Matrix = None) -> Array:
    """What rows are compared with: those given, the ranker's own, or the rows themselves."""
    own = columns.own_reference
    if against is None and own is not None:
        return own
    return columns.mean(X if against is None else against)


def explain_pair(
    ranker: BaseEstimator,
    x: Matrix,
    y: Matrix,
    n_columns: int = 3,
    *,
    names: Sequence[str] | None = None,
) -> Pair:
    """Why the row x stands above the row y; the other way round, amounts change their signs.

    Parameters
    ----------
    ranker : fitted ranker, or pipeline that ends with one
    x, y : one row each
        An array, or a data frame, table or matrix of one row.
    n_columns : int, default=3
    names : sequence of str, optional
        As for `explain`.

    Returns
    -------
    Pair
    """
    columns = ColumnShares.of(ranker, names)
    rows = [_one_row(row) for row in (x, y)]
    one, other = (columns.contributions(row)[0] for row in rows)
    cells, others = (Values(row, columns.names) for row in rows)
    shown = columns.all_names
    lifts = (one - other)[: len(shown)]
    chosen = where_largest(np.abs(lifts), n_columns)
    differences = tuple(
        Difference(shown[at], cells(0, at), others(0, at), float(lifts[at])) for at in chosen
    )
    scores = [float(columns.estimator.decision_function(row)[0]) for row in rows]
    rest = float((one - other).sum() - lifts[chosen].sum())
    return Pair(scores[0], scores[1], differences, rest)


def _one_row(row: Matrix) -> Matrix:
    row = np.asarray(row)[None, :] if np.ndim(row) == 1 else row
    if row.shape[0] != 1:
        raise ValueError(f"a pair is of one row each, and one of them has {row.shape[0]} rows.")
    return row
