"""Rankers side by side: mean and deviation of their measures over splits or folds."""

from typing import TYPE_CHECKING

from toppush.cli import common

if TYPE_CHECKING:
    from rich.table import Table

    from toppush.types import Array

    Values = dict[str, dict[str, Array]]
    """Ranker -> measure -> value in each split."""

DECIDES = "AP"


def side_by_side(values: "Values", seconds: dict[str, float]) -> "Table":
    """A row for each ranker."""
    titles, *rows = cells(values, seconds)
    return common.table(*titles, rows=rows)


def cells(values: "Values", seconds: dict[str, float]) -> list[list[str]]:
    """Titles and rows; last, in how many splits the first had the higher and the lower AP."""
    first = next(iter(values), None)
    measures = [] if first is None else list(values[first])
    rows = [
        [
            name,
            *(_spread(one[measure]) for measure in measures),
            f"{seconds[name]:.1f}",
            "" if name == first else _won(values, str(first), name),
        ]
        for name, one in values.items()
    ]
    return [["held out", *measures, "s", "won"], *rows]


def _spread(values: "Array") -> str:
    """Mean and deviation, short enough for four in 80 letters."""
    return f"{values.mean():.3f}±{values.std(ddof=1):.2f}".replace("±0.", "±.")


def _won(values: "Values", first: str, other: str) -> str:
    ours, theirs = values[first][DECIDES], values[other][DECIDES]
    return f"{(ours > theirs).sum()}:{(ours < theirs).sum()}"


def as_json(values: "Values") -> dict[str, dict[str, list[float]]]:
    """The same as plain numbers."""
    return {
        name: {measure: list(map(float, one)) for measure, one in measures.items()}
        for name, measures in values.items()
    }
