"""The tables of the pages, as Markdown from result files.

    python -m benchmarks.summary speed          # or certify, selection, ranker, ...

`python -m benchmarks.pages` puts them into the pages. A table that `TABLES` does not name is the
file benchmarks/results/NAME.csv as it is, to three digits.
"""

import csv
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from benchmarks.common import RESULTS

EVIDENCE = RESULTS.parent.parent / "results"
Rows = list[dict[str, "Number | Empty | str"]]
Grid = list[list[str]]
"""A table as it is shown: the first row holds the titles."""


class Number(float):
    """A number of a file; without a form it is shown as written.

    Two forms of its own: `.3s` has no zero before the dot, `r` has three digits and no exponent.
    """

    def __new__(cls, text: str) -> "Number":
        found = super().__new__(cls, text)
        found.text = text
        return found

    def __format__(self, form: str) -> str:
        if form.endswith("s"):
            return re.sub(r"^([+-]?)0\.", r"\1.", format(float(self), form[:-1] + "f"))
        if form == "r":
            return format(float(self), ",.0f" if abs(self) >= 1000 else ".3g")
        return format(float(self), form).replace("%", " %") if form else self.text


class Empty(str):
    """A cell that says nothing, in any form."""

    def __format__(self, form: str) -> str:
        return ""


def cell(text: str) -> "Number | Empty | str":
    """What a cell of a file holds."""
    try:
        return Empty() if text in ("", "nan") else Number(text)
    except ValueError:
        return text


@cache
def _read(path: Path) -> Rows:
    with path.open(encoding="utf-8") as file:
        return [{name: cell(text) for name, text in row.items()} for row in csv.DictReader(file)]


def read(name: str, folder: Path | None = None) -> Rows:
    """The rows of a result file, of benchmarks/results unless another folder is named."""
    return _read((folder or RESULTS) / f"{name}.csv")


def grid(rows: Iterable[dict[str, object]], forms: dict[str, str]) -> Grid:
    """Titles, and under each what its form makes of a row."""
    lines = [[form.format_map(row) for form in forms.values()] for row in rows]
    return [list(forms), *([_unless_bare(one) for one in line] for line in lines)]


def _unless_bare(text: str) -> str:
    """Nothing where a form had only empty cells to show."""
    return text if re.search(r"\w", text) else ""


def as_is(name: str, folder: Path = EVIDENCE) -> Grid:
    """A file whose cells are texts to be shown."""
    rows = read(name, folder)
    return [list(rows[0]), *([f"{one}" for one in row.values()] for row in rows)]


def of(name: str, forms: dict[str, str]) -> Callable[[], Grid]:
    """A table with a line for each row of a file."""
    return lambda: grid(read(name), forms)


def top_of(row: dict[str, object]) -> str:
    """A share of the negatives in per cent, a count as it is."""
    return {"0.01": "1 %"}.get(f"{row['top']}", f"{row['top']}")


def plain(name: str) -> Grid:
    """A file of benchmarks/results, numbers to three digits."""
    rows = read(name)
    shown = [
        [f"{one:.3g}" if isinstance(one, Number) else one for one in row.values()] for row in rows
    ]
    return [list(rows[0]), *shown]


def group(rows: Rows, *keys: str) -> dict[tuple[str, ...], Rows]:
    """Rows by the texts of some columns, in the order in which they come."""
    found: dict[tuple[str, ...], Rows] = {}
    for row in rows:
        found.setdefault(tuple(f"{row[key]}" for key in keys), []).append(row)
    return found


def markdown(table: Grid) -> str:
    """The table as it stands in a page."""
    head, *rows = table
    lines = [head, ["---"] * len(head), *rows]
    return (
        "\n".join("| " + " | ".join(line) + " |" for line in lines)
        .replace("| --- ", "|---")
        .replace("--- |\n", "---|\n")
    )


def table(name: str) -> str:
    """The Markdown of a table by its name."""
    from benchmarks.tables import TABLES

    make: Callable[[], Grid] = TABLES.get(name, lambda: plain(name))
    return markdown(make())


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(table(name), end="\n\n")
