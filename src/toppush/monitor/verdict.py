"""What has moved, in all: every column and the scores judged together."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from toppush.monitor.drift import Change, Limits, judged
from toppush.monitor.profile import Before, Cell, Numbers, Scores, TopPart
from toppush.types import Array

__all__ = ["Checked", "CheckedColumn", "ColumnNow", "headline", "sentences", "verdict"]

MOST_NAMED = 8

GROUPS = {
    "columns": ("values", "gaps", "unknown texts", "range"),
    "scores": ("scores", "top"),
    "precision": ("precision",),
}
"""What a change can be of, and the changes that are of it."""


@dataclass(frozen=True, eq=False)
class ColumnNow:
    """A column: what was kept of it, and counts of now in the same places."""

    name: str
    before: Before
    counts: Array
    gaps: float


@dataclass(frozen=True)
class CheckedColumn:
    """What became of a column.

    Attributes
    ----------
    name, kind : str
        Its kind is "number" or "text".
    values : int
        Rows that have a value now.
    distance : float
        Greatest difference of the shares up to a value (Kolmogorov and Smirnov); of texts half the
        sum of all differences.
    changes : list of Change
    cells : list of Cell
        Shares of its values before and now.
    """

    name: str
    kind: str
    values: int
    distance: float
    changes: list[Change]
    cells: list[Cell]

    @property
    def moved(self) -> list[str]:
        """What of it has moved."""
        return [one.what for one in self.changes if one.moved]

    def change(self, what: str) -> Change | None:
        """A change by what it is of."""
        return next((one for one in self.changes if one.what == what), None)

    @property
    def psi(self) -> float:
        """The index of its values."""
        found = self.change("values")
        return 0.0 if found is None else found.effect


@dataclass(frozen=True)
class Checked:
    """What has moved since a model was fitted.

    Attributes
    ----------
    rows : int
    columns : list of CheckedColumn
        The most moved first.
    scores : list of Change
        Of the scores, of the rows at the top, and of the precision there if labels are known.
    parts : list of TopPart
        The top of the list, and all of it.
    cells : list of Cell
        Share of the rows by percentile score.
    labelled : bool
    limits : Limits
    left_out : int
        Columns of which the model keeps no summary.
    """

    rows: int
    columns: list[CheckedColumn]
    scores: list[Change]
    parts: list[TopPart]
    cells: list[Cell]
    labelled: bool
    limits: Limits
    left_out: int = 0

    @property
    def changes(self) -> list[Change]:
        """All of them, of columns and of scores."""
        return [*self.scores, *(change for one in self.columns for change in one.changes)]

    def moved(self, *groups: str) -> list[Change]:
        """Changes that count, of some groups ("columns", "scores", "precision") or of all."""
        wanted = [what for group in groups or GROUPS for what in GROUPS[group]]
        return [one for one in self.changes if one.moved and one.what in wanted]

    def as_json(self) -> dict[str, object]:
        """Plain numbers and texts."""
        return asdict(self) | {
            "moved": [asdict(one) for one in self.moved()],
            "columns": [asdict(one) | {"moved": one.moved} for one in self.columns],
            "cells": [one._asdict() for one in self.cells],
        }


def verdict(columns: Sequence[ColumnNow], scores: Scores, limits: Limits) -> Checked:
    """Compare, and judge all changes together.

    Parameters
    ----------
    columns : sequence of ColumnNow
    scores : Scores
    limits : Limits
    """
    of_columns = [
        [replace(change, column=one.name) for change in one.before.changes(
            one.counts, one.gaps, limits)]
        for one in columns
    ]  # fmt: skip
    of_scores = scores.changes(limits)
    every = judged([*of_scores, *(one for some in of_columns for one in some)], limits.alpha)
    rest = iter(every[len(of_scores) :])
    found = [
        _checked(one, [next(rest) for _ in some])
        for one, some in zip(columns, of_columns, strict=True)
    ]
    found.sort(key=lambda one: (-len(one.moved), -max(map(_size, one.changes), default=0.0)))
    return Checked(
        round(float(scores.counts.sum())),
        found,
        every[: len(of_scores)],
        scores.parts(),
        scores.cells(),
        scores.hits is not None,
        limits,
    )


def _checked(now: ColumnNow, changes: list[Change]) -> CheckedColumn:
    kind = "number" if isinstance(now.before, Numbers) else "text"
    values, distance = round(float(now.counts.sum())), now.before.distance(now.counts)
    return CheckedColumn(now.name, kind, values, distance, changes, now.before.cells(now.counts))


def _size(change: Change) -> float:
    """A change in units of what counts."""
    return change.effect / change.limit if change.limit > 0.0 else change.effect


def headline(found: Checked) -> str:
    """What moved, in one short sentence."""
    said = []
    if found.moved("precision"):
        said.append("precision at the top")
    if found.moved("scores"):
        said.append("the scores")
    if names := _columns(found.moved("columns")):
        said.append(f"{len(names):,} of {len(found.columns):,} columns")
    if said:
        return f"Moved: {', '.join(said)}."
    return f"Nothing moved: {len(found.columns):,} columns and the scores are as before."


def sentences(found: Checked) -> list[str]:
    """What moved, the precision first; what is large but may be luck; what is not watched."""
    moved = found.moved()
    said = [_of_scores(one) for one in reversed(moved) if one.column is None]
    if names := _columns(moved):
        said.append(f"Columns that moved: {_first(names)}.")
    doubtful = [one for one in found.changes if one.is_large and not one.moved]
    if doubtful:
        listed = dict.fromkeys(f"{one.column or 'the list'} ({one.what})" for one in doubtful)
        said.append(f"Large, but perhaps luck in {found.rows:,} rows: {_first(list(listed))}.")
    if found.left_out:
        said.append(f"{found.left_out:,} more columns are not watched.")
    return said


def _columns(changes: Sequence[Change]) -> list[str]:
    return list(dict.fromkeys(one.column for one in changes if one.column is not None))


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + ", ..." * (len(names) > MOST_NAMED)


def _of_scores(change: Change) -> str:
    """A change of the scores or of the precision, told."""
    if change.what == "scores" or change.before is None or change.now is None:
        return (
            "The scores moved: percentile scores are not evenly distributed any more "
            f"(PSI {change.effect:.3f})."
        )
    if change.what == "top":
        return (
            f"The top moved: {change.now:.2%} of the rows have a percentile score above "
            f"{change.percentile:.4g}, where {change.before:.2%} of the rows before had."
        )
    return (
        f"Precision at the top fell: {change.now:.1%} of the rows with a percentile score "
        f"above {change.percentile:.4g} are positive, where {change.before:.1%} were expected."
    )
