"""What the benchmarks share: timing, tables, and files that say where they were made."""

import csv
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from joblib import cpu_count

RESULTS = Path(__file__).resolve().parent / "results"
PACKAGES = ("toppush", "numpy", "scipy", "scikit-learn")


def machine() -> dict[str, Any]:
    """Processor, cores this process may use, how busy they are, and versions."""
    return {
        "cpu": _cpu_name(),
        "cores": cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
    }


def _cpu_name() -> str:
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def median_seconds(
    work: Callable[[], Any], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Median time of a call, after one that is not counted."""
    work()
    times = []
    for _ in range(repeats):
        began = clock()
        work()
        times.append(clock() - began)
    return median(times)


def report(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; write it to results/<name>.csv and the machine to results/<name>.json."""
    cells = [list(columns), *([_shown(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
    print(save(name, columns, rows))


def save(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Write a table to results/<name>.csv and the machine to results/<name>.json, as returned."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{name}.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    about = json.dumps(machine(), indent=2)
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
