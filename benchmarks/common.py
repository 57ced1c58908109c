"""What the benchmarks share: tables, and files that say where they were made."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.results import machine
from reproduce.tables import Table
from toppush.system.writing import write_text
from toppush.types import Array, Mask

RESULTS = Path(__file__).resolve().parent / "results"


def recall_before(y: Mask, scores: Array, count: int) -> float:
    """Share of the positives above the negative in this place of the list."""
    negatives = np.sort(scores[~y])[::-1]
    return float(np.mean(scores[y] > negatives[min(count, len(negatives)) - 1]))


def report(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table and the machine, and save both."""
    show(columns, rows)
    print(save(name, columns, rows))


def show(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table."""
    cells = [list(columns), *([_shown(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def save(
    name: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    extra: dict[str, Any] | None = None,
) -> str:
    """Write a table to results/<name>.csv and the machine to results/<name>.json."""
    RESULTS.mkdir(exist_ok=True)
    write_text(RESULTS / f"{name}.csv", Table(name, name, columns, rows).csv())
    about = json.dumps({**machine(), **(extra or {})}, indent=2)
    (RESULTS / f"{name}.json").write_text(about + "\n")
    return about


def saved(name: str) -> list[dict[str, str]]:
    """The rows of a table that an earlier run wrote, none if there is none."""
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return []
    with path.open() as file:
        return list(csv.DictReader(file))


def _shown(cell: Any) -> str:
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)
