"""Write the tables of README.md and docs/*.md from result files.

    python -m benchmarks.pages

A table stands between `<!-- table: FILE` ... `-->` and `<!-- end -->`. FILE is a CSV of
benchmarks/results or of results, or several with " + ". The lines that follow say what is shown:

    where COLUMN = VALUE | VALUE    only these rows
    for COLUMN, COLUMN              one line for all rows that agree in these columns
    TITLE: FORM                     a column of the table
    each COLUMN: FORM               a column for each value of this column

A form holds cells as `{COLUMN}` or `{COLUMN:SPEC}`, where SPEC is a format of Python for numbers,
after `mean`, `std`, `min`, `max` or `range` if a line stands for several rows; `{COLUMN:count}` is
the number of rows. Without any form the file is shown as it is, numbers to three digits.
"""

import csv
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ROOT / "benchmarks" / "results", ROOT / "results"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MARKED = re.compile(r"(<!-- table: (.*?)-->\n).*?(<!-- end -->)", re.DOTALL)
CELL = re.compile(r"\{([^{}:]+)(?::([^{}]*))?\}")
OVER_ROWS: dict[str, Callable[[list[float]], list[float]]] = {
    "mean": lambda values: [mean(values)],
    "std": lambda values: [stdev(values)],
    "min": lambda values: [min(values)],
    "max": lambda values: [max(values)],
    "range": lambda values: [min(values), max(values)],
}
Row = dict[str, str]


def renewed(page: str) -> str:
    """The text of a page with its tables as their files are now."""
    return MARKED.sub(lambda found: f"{found[1]}\n{table(found[2])}\n\n{found[3]}", page)


def table(spec: str) -> str:
    """The Markdown of a table."""
    names, *lines = [line.strip() for line in spec.strip().splitlines()]
    rows, keys, forms = [row for name in names.split(" + ") for row in read(name)], [], []
    for line in lines:
        if line.startswith("where "):
            column, values = line.removeprefix("where ").split(" = ", 1)
            rows = [row for row in rows if row[column] in values.split(" | ")]
        elif line.startswith("for "):
            keys = line.removeprefix("for ").split(", ")
        else:
            title, form = line.split(": ", 1)
            forms += columns_of(title, form, rows)
    if not forms:
        forms = [(column, {}, f"{{{column}:}}") for column in rows[0]]
    grid = [[title for title, _, _ in forms], ["---"] * len(forms)]
    grid += [
        [shown(form, matching(group, only)) for _, only, form in forms]
        for group in groups(rows, keys)
    ]
    text = "\n".join("| " + " | ".join(line) + " |" for line in grid)
    return text.replace("| --- ", "|---").replace("--- |\n", "---|\n")


def read(name: str) -> list[Row]:
    """The rows of a result file."""
    path = next(path for folder in FOLDERS if (path := folder / f"{name}.csv").exists())
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def columns_of(title: str, form: str, rows: list[Row]) -> list[tuple[str, Row, str]]:
    """Titles with the rows that each column takes, and its form."""
    if not title.startswith("each "):
        return [(title, {}, form)]
    column = title.removeprefix("each ")
    return [(value, {column: value}, form) for value in dict.fromkeys(row[column] for row in rows)]


def groups(rows: list[Row], keys: list[str]) -> Iterable[list[Row]]:
    """The rows that make a line each."""
    if not keys:
        return [[row] for row in rows]
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return found.values()


def matching(rows: list[Row], only: Row) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in only.items())]


def shown(form: str, rows: list[Row]) -> str:
    """A cell of the table; empty where the file has nothing to show."""
    if not rows or all(row[name] in ("", "nan") for name, _ in CELL.findall(form) for row in rows):
        return ""
    return CELL.sub(lambda found: _value(found[1], found[2], rows), form)


def _value(column: str, spec: str | None, rows: list[Row]) -> str:
    texts = [row[column] for row in rows]
    over, _, rest = (spec or "").partition(" ")
    if over == "count":
        return str(len(texts))
    if over not in OVER_ROWS:
        return _number(texts[0], ".3g" if spec == "" else spec)
    values = OVER_ROWS[over]([float(text) for text in texts if text not in ("", "nan")])
    return " to ".join(dict.fromkeys(_number(str(value), rest) for value in values))


def _number(text: str, spec: str | None) -> str:
    """A number in a format; any other text, and a number without a format, as it is."""
    try:
        return text if spec is None else format(float(text), spec).replace("%", " %")
    except ValueError:
        return text


def main() -> None:
    """Renew the tables of all pages."""
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        if (new := renewed(text)) != text:
            path.write_text(new, encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: tables renewed")


if __name__ == "__main__":
    main()
