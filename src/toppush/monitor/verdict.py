"""The result of a drift check: columns and scores tested together, and sentences about them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from toppush.monitor.drift import Change, Limits, judged
from toppush.monitor.profile import Bin, ColumnProfile, NumberProfile, ScoreCounts, TopPart
from toppush.types import Array

MOST_NAMED = 8
GROUPS = {
    "columns": ("values", "missing", "unknown categories", "range"),
    "scores": ("scores", "top"),
    "precision": ("precision",),
}
"""Groups of changes."""


@dataclass(frozen=True, eq=False)
class ColumnNow:
    """The profile of a column, with counts of now in its bins and of missing values."""

    name: str
    before: ColumnProfile
    counts: Array
    missing: float


@dataclass(frozen=True)
class CheckedColumn:
    """Changes of a column of the kind "number" or "category".

    `values` is the number of rows that have one now, `distance` that of Kolmogorov and Smirnov for
    numbers, and the total variation for categories.
    """

    name: str
    kind: str
    values: int
    distance: float
    changes: list[Change]
    bins: list[Bin]

    @property
    def drifted(self) -> list[str]:
        """What drifted, such as "values"."""
        return [change.what for change in self.changes if change.drifted]

    def change(self, what: str) -> Change | None:
        """A change by its `what`."""
        return next((change for change in self.changes if change.what == what), None)

    @property
    def psi(self) -> float:
        """Population stability index of its values."""
        change = self.change("values")
        return 0.0 if change is None else change.effect


@dataclass(frozen=True)
class Checked:
    """What has drifted since a model was fitted.

    `columns` has those with the most drift first, `scores` the changes of the scores, of the
    rows at the top and of the precision there if labels are known, `parts` the top of the list
    and all of it, `bins` the rows by percentile score. `left_out` columns have no profile.
    """

    rows: int
    columns: list[CheckedColumn]
    scores: list[Change]
    parts: list[TopPart]
    bins: list[Bin]
    labelled: bool
    limits: Limits
    left_out: int = 0

    @property
    def changes(self) -> list[Change]:
        """All changes, of columns and of scores."""
        return [*self.scores, *(change for column in self.columns for change in column.changes)]

    def drifted(self, *groups: str) -> list[Change]:
        """Changes that count, of some groups ("columns", "scores", "precision") or of all."""
        wanted = [what for group in groups or GROUPS for what in GROUPS[group]]
        return [change for change in self.changes if change.drifted and change.what in wanted]

    def as_json(self) -> dict[str, object]:
        """Plain numbers and strings."""
        return asdict(self) | {
            "drifted": [asdict(change) for change in self.drifted()],
            "columns": [asdict(column) | {"drifted": column.drifted} for column in self.columns],
            "bins": [each._asdict() for each in self.bins],
        }


def verdict(columns: Sequence[ColumnNow], scores: ScoreCounts, limits: Limits) -> Checked:
    """Compare all columns and the scores with their profiles, and test all changes together."""
    of_scores, of_columns = scores.changes(limits), []
    for column in columns:
        changes = column.before.changes(column.counts, column.missing, limits)
        of_columns.append([replace(change, column=column.name) for change in changes])
    every = judged([*of_scores, *(change for some in of_columns for change in some)], limits.alpha)
    rest = iter(every[len(of_scores) :])
    checked = [
        _checked(column, [next(rest) for _ in changes])
        for column, changes in zip(columns, of_columns, strict=True)
    ]
    checked.sort(key=lambda column: (-len(column.drifted), -max(map(_size, column.changes))))
    return Checked(
        round(float(scores.counts.sum())),
        checked,
        every[: len(of_scores)],
        scores.parts(),
        scores.bins(),
        scores.positives is not None,
        limits,
    )


def _checked(now: ColumnNow, changes: list[Change]) -> CheckedColumn:
    kind = "number" if isinstance(now.before, NumberProfile) else "category"
    values, distance = round(float(now.counts.sum())), now.before.distance(now.counts)
    return CheckedColumn(now.name, kind, values, distance, changes, now.before.bins(now.counts))


def _size(change: Change) -> float:
    """The effect in units of its limit."""
    return change.effect / change.limit if change.limit > 0.0 else change.effect


def headline(checked: Checked) -> str:
    """What drifted, in one short sentence."""
    parts = []
    if checked.drifted("precision"):
        parts.append("precision at the top")
    if checked.drifted("scores"):
        parts.append("the scores")
    if names := _columns(checked.drifted("columns")):
        parts.append(f"{len(names):,} of {len(checked.columns):,} columns")
    if parts:
        return f"Drifted: {', '.join(parts)}."
    return f"No drift: {len(checked.columns):,} columns and the scores are as before."


def sentences(checked: Checked) -> list[str]:
    """What drifted, the precision first, and large changes that are not significant."""
    drifted = checked.drifted()
    lines = [_of_scores(change) for change in reversed(drifted) if change.column is None]
    if names := _columns(drifted):
        lines.append(f"Columns that drifted: {_first(names)}.")
    doubtful = [change for change in checked.changes if change.is_large and not change.drifted]
    if doubtful:
        listed = dict.fromkeys(f"{each.column or 'the list'} ({each.what})" for each in doubtful)
        lines.append(
            f"Large, but not significant in {checked.rows:,} rows: {_first(list(listed))}."
        )
    if checked.left_out:
        lines.append(f"{checked.left_out:,} more columns have no profile.")
    return lines


def _columns(changes: Sequence[Change]) -> list[str]:
    return list(dict.fromkeys(change.column for change in changes if change.column is not None))


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + ", ..." * (len(names) > MOST_NAMED)


def _of_scores(change: Change) -> str:
    """A change of the scores, of the top or of the precision, as a sentence."""
    if change.what == "scores" or change.before is None or change.now is None:
        return (
            "The scores drifted: percentile scores are no longer uniform "
            f"(PSI {change.effect:.3f})."
        )
    if change.what == "top":
        return (
            f"The top drifted: {change.now:.2%} of the rows have a percentile score above "
            f"{change.percentile:.4g}, compared with {change.before:.2%} of the rows before."
        )
    return (
        f"Precision at the top fell: {change.now:.1%} of the rows with a percentile score "
        f"above {change.percentile:.4g} are positive, where {change.before:.1%} were expected."
    )
