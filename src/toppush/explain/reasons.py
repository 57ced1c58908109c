"""Why a row has its rank, in columns and contributions.

A row is compared with the highest-ranked negatives of the training rows, which it has to pass: the
contribution of a column to its score less the mean contribution to theirs. It is compared with the
next row above it in the list: columns in which that row is ahead hold it back. And it is compared
with the mean of the training rows: a row may rank where it does by what it shares with the
negatives at the top.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing

from toppush.explain.columns import OTHER, ColumnContributions, Values
from toppush.types import Array, Mask, Matrix, Where

NEGLIGIBLE = 1e-3
"""Fraction of the largest contribution below which others are not reported."""


@dataclass(frozen=True)
class Reason:
    """The contribution of a column to the rank of a row, less that to those it is compared with.

    The column is "(other)" for the part of base models that cannot attribute their scores; the
    value is None if it is missing, and empty for "(other)".
    """

    column: str
    value: str | None
    contribution: float

    @property
    def label(self) -> str:
        """The column and its value, such as "age = 61" or "age is missing"."""
        if self.column == OTHER:
            return OTHER
        return f"{self.column} {'is missing' if self.value is None else f'= {self.value}'}"

    def __str__(self) -> str:
        """Short form, such as "age 61 (+0.4)"."""
        value = "" if self.column == OTHER else f" {_shown(self.value)}"
        return f"{self.column}{value} ({self.contribution:+.2g})"


def _shown(value: str | None) -> str:
    return "missing" if value is None else value


@dataclass(frozen=True)
class Explanation:
    """Why a row has its rank.

    Attributes
    ----------
    row : int
        Its number among the rows passed, from 0.
    score : float
    difference : float
        Its score less the mean score of those it is compared with: the sum of all contributions.
    raised_by, lowered_by : tuple of Reason
        The columns with the largest positive and negative contributions, the largest first.
    above_average : tuple of Reason
        The columns that raise it most above the mean of the training rows; they may raise the
        negatives too. Empty if the ranker has no such mean.
    held_back : tuple of Reason
        The columns in which the row next above it is most ahead.
    above : int or None
        The number of that row.
    is_typical : bool
        Whether its score is nearer to those it is compared with than to the mean.
    """

    row: int
    score: float
    difference: float
    raised_by: tuple[Reason, ...]
    lowered_by: tuple[Reason, ...]
    above_average: tuple[Reason, ...]
    held_back: tuple[Reason, ...]
    above: int | None
    is_typical: bool = False

    @property
    def main(self) -> tuple[Reason, ...]:
        """What raises it; else, for a typical row, what raises it above the mean."""
        return self.raised_by or (self.above_average if self.is_typical else ())

    def __str__(self) -> str:
        text = ", ".join(map(str, self.main))
        if not self.raised_by and self.main:
            text = f"like the top negatives by {text}"
        elif not self.raised_by:
            text = "no column raises it"
            text += f", lowered by {self.lowered_by[0]}" if self.lowered_by else ""
        return text + (f"; behind the row above by {self.held_back[0]}" if self.held_back else "")

    def flat(self, n_columns: int | None = None) -> dict[str, str | float | None]:
        """A row of a table: why, why_1_column, why_1_value, why_1_contribution and so on.

        Then held_back_column, held_back_value and held_back_contribution.
        """
        count = len(self.raised_by) if n_columns is None else n_columns
        raised: list[Reason | None] = [*self.raised_by[:count], *[None] * count][:count]
        reasons = {f"why_{place}": reason for place, reason in enumerate(raised, 1)}
        reasons["held_back"] = self.held_back[0] if self.held_back else None
        cells: dict[str, str | float | None] = {"why": str(self)}
        for name, reason in reasons.items():
            for part in ("column", "value", "contribution"):
                cells[f"{name}_{part}"] = getattr(reason, part, None)
        return cells


@dataclass(frozen=True)
class Difference:
    """A column in which two rows differ, its values, and its part in the difference of scores."""

    column: str
    value: str | None
    other: str | None
    contribution: float

    def __str__(self) -> str:
        values = f" {_shown(self.value)} against {_shown(self.other)}"
        values = "" if self.column == OTHER else values
        return f"{self.column}{values} ({self.contribution:+.2g})"


@dataclass(frozen=True)
class Pair:
    """Why one row ranks above another: the scores of both and the columns that differ most.

    `rest` is the contribution of all other columns to the difference of the scores.
    """

    score: float
    other: float
    differences: tuple[Difference, ...]
    rest: float

    def __str__(self) -> str:
        return ", ".join(map(str, self.differences)) or "no column makes a difference"


class Explainer:
    """Explains the rows of a list from its top down, in batches."""

    def __init__(self, columns: ColumnContributions, reference: Array, n_columns: int) -> None:
        self.columns, self.reference, self.n_columns = columns, reference, n_columns
        self.usual = columns.usual
        self._last: tuple[int, Array] | None = None
        """The row that was explained last, and its contributions."""

    def __call__(
        self, X: Matrix, rows: Where, scores: Array, first: Mask | None = None
    ) -> Iterator[Explanation]:
        """The next rows of the list, with their numbers; `first` marks rows that begin a list."""
        amounts = self.columns.of_features(X)
        contributions = self.columns.summed(amounts)
        cells = Values(X, self.columns.names, self.columns.of_terms(X, amounts))
        for place, (row, score) in enumerate(zip(rows, scores, strict=True)):
            if first is not None and first[place]:
                self._last = None
            own = contributions[place]
            yield self._explained(own, cells, place, int(row), float(score))
            self._last = int(row), own

    def _explained(
        self, own: Array, cells: Values, place: int, row: int, score: float
    ) -> Explanation:
        names = self.columns.all_names

        def reasons(amounts: Array, sign: int) -> tuple[Reason, ...]:
            return tuple(
                Reason(names[at], cells(place, at, sign), float(amounts[at]))
                for at in where_largest(sign * amounts[: len(names)], self.n_columns)
            )

        above, ahead = (None, own) if self._last is None else self._last
        usual = own if self.usual is None else self.usual
        return Explanation(
            row,
            score,
            score - float(self.reference.sum()),
            raised_by=reasons(own - self.reference, +1),
            lowered_by=reasons(own - self.reference, -1),
            above_average=reasons(own - usual, +1),
            held_back=reasons(own - ahead, -1),
            above=above,
            is_typical=bool(score > (self.reference.sum() + usual.sum()) / 2),
        )


def where_largest(sizes: Array, limit: int) -> Where:
    """Places of the largest entries, greatest first, without negligible ones."""
    order = np.argsort(-sizes, kind="stable")[:limit]
    return np.asarray(order[sizes[order] > NEGLIGIBLE * np.abs(sizes).max(initial=0.0)])


def explain(
    ranker: BaseEstimator,
    X: Matrix,
    n_columns: int = 3,
    *,
    against: Matrix = None,
    names: Sequence[str] | None = None,
) -> list[Explanation]:
    """Why each row has its rank among these rows; in the order of X.

    Parameters
    ----------
    ranker : fitted ranker, or pipeline that ends with one
    X : array, sparse matrix, data frame or Arrow table
    n_columns : int, default=3
        Largest number of columns of each kind of reason.
    against : rows, optional
        Rows to compare with, by their mean. By default the highest-ranked negatives of the training
        rows where the ranker has them (`reference_`); else the rows of X.
    names : sequence of str, optional
        Of the columns, where the rows have none; by default x0, x1, ...
    """
    X = X if hasattr(X, "shape") else np.asarray(X)
    columns = ColumnContributions.of(ranker, names)
    scores = np.asarray(columns.estimator.decision_function(X), np.float64)
    order = np.argsort(-scores, kind="stable")
    explainer = Explainer(columns, reference_for(columns, X, against), n_columns)
    listed: list[Explanation] = []
    for part in columns.parts(len(order)):
        rows = order[part]
        listed += explainer(_safe_indexing(X, rows), rows.tolist(), scores[rows])
    return sorted(listed, key=lambda explanation: explanation.row)


def reference_for(columns: ColumnContributions, X: Matrix, against: Matrix = None) -> Array:
    """Mean contributions to compare with: of `against`, the ranker's own, or of the rows."""
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
    """Why the row x ranks above the row y; exchanging them changes the signs.

    Parameters
    ----------
    ranker : fitted ranker, or pipeline that ends with one
    x, y : rows
        An array, or a data frame, table or matrix of one row.
    n_columns : int, default=3
    names : sequence of str, optional
        As for `explain`.
    """
    columns = ColumnContributions.of(ranker, names)
    rows = [_single_row(row) for row in (x, y)]
    parts = [columns.of_features(row) for row in rows]
    first, second = (columns.summed(amounts)[0] for amounts in parts)
    apart = first - second
    cells, others = (
        Values(row, columns.names, columns.of_terms(row, amounts))
        for row, amounts in zip(rows, parts, strict=True)
    )
    labels = columns.all_names
    amounts = apart[: len(labels)]
    largest = where_largest(np.abs(amounts), n_columns)
    differences = tuple(
        Difference(labels[at], cells(0, at), others(0, at), float(amounts[at])) for at in largest
    )
    scores = [float(columns.estimator.decision_function(row)[0]) for row in rows]
    return Pair(scores[0], scores[1], differences, float(apart.sum() - amounts[largest].sum()))


def _single_row(row: Matrix) -> Matrix:
    row = np.asarray(row)[None, :] if np.ndim(row) == 1 else row
    if row.shape[0] != 1:
        raise ValueError(f"a pair consists of single rows, and one of them has {row.shape[0]}.")
    return row
