"""Ranking quality of `toppush fit` by two source trees: what a change cost on real data sets.

    git worktree add ../before <commit>
    python -m benchmarks.ranker_before_after ../before/src
    python -m benchmarks.ranker_before_after ../before/src --data hotel_bookings a9a --splits 3

Each split is written to files, and both trees run `toppush fit` and `toppush rank` on them, in
processes of their own with one thread: the commands that a user would type; columns that a fit
refuses are named with --categorical, as the message says, and a fit that fails has no figures. Raw
tables are split by time or by group where `tables.json` names such a column, at random otherwise.
At most MOST_ROWS rows of a data set are used. The table shows the mean over the splits.
"""

import argparse
import csv
import fnmatch
import gzip
import json
import lzma
import os
import re
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from benchmarks.common import recall_before, report
from benchmarks.data import FILES, OTHER_FILES, ROOT, SHARED
from reproduce.datasets import CATALOGUE
from toppush.metrics import average_precision, positives_at_top

MOST_ROWS = 9_000
TRAIN_SHARE = 2 / 3
REFUSED = re.compile(r"--categorical (.+?)(?:,? or | to keep )")
METRICS = {
    "average precision": average_precision,
    "recall at 10 false positives": lambda y, scores: recall_before(y, scores, 10),
    "Pos@Top": positives_at_top,
}
COLUMNS = [
    "data", "splits", *(f"{name} {side}" for name in METRICS for side in ("before", "after")),
    "CPU s before", "CPU s after", "CPU after / before",
]  # fmt: skip


@dataclass
class Data:
    """Rows as they stand in a file, and what a user would say of them."""

    header: list[str] | None
    rows: list
    positive: np.ndarray
    options: list[str]
    groups: np.ndarray | None = None
    times: np.ndarray | None = None


def raw_table(name: str) -> Data:
    """A table of the shared folder, every cell as its publisher has it."""
    about = json.loads((SHARED / "data/tables/tables.json").read_text())[name]
    path = SHARED / "data/tables" / about["file"]
    opener = lzma.open if path.suffix == ".xz" else gzip.open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        separator = ";" if file.readline().count(";") > 3 else ","
        file.seek(0)
        header, *rows = csv.reader(file, delimiter=separator)
    place = header.index(about["label"])
    rows = [row for row in rows if row[place] != ""]
    options = ["--label", about["label"], "--positive", about["positive"]]
    for column in header:
        if any(fnmatch.fnmatchcase(column, pattern) for pattern in about["drop"]):
            options += ["--drop", column]
    by = {}
    for role, option in (("group", "--groups"), ("time", "--time")):
        if (column := about[role]) is not None:
            options += [option, column]
            by[role] = np.array([row[header.index(column)] for row in rows])
    if "time" in by:
        by["time"] = sortable(by["time"])
        for row, time in zip(rows, by["time"], strict=True):
            row[header.index(about["time"])] = str(time)
    positive = np.array([row[place] == about["positive"] for row in rows])
    return Data(header, rows, positive, options, by.get("group"), by.get("time"))


def libsvm_file(name: str) -> Data:
    """A LIBSVM file of the shared folder, line by line."""
    entry = CATALOGUE[(FILES | dict(zip(OTHER_FILES, OTHER_FILES, strict=True)))[name]]
    paths = [SHARED / "data" / entry.name / f"{one.files[0]}.xz" for one in entry.sources]
    with lzma.open(next(path for path in paths if path.exists()), "rt") as file:
        rows = [line for line in file if line.strip()]
    positive = np.array([float(line.split()[0]) > 0 for line in rows])
    return Data(None, rows, positive, [])


def some(data: Data, rng: np.random.Generator) -> Data:
    """At most MOST_ROWS rows at random; whole groups where rows have groups."""
    n_rows = len(data.rows)
    if n_rows <= MOST_ROWS:
        return data
    keys = (
        np.arange(n_rows) if data.groups is None else np.unique(data.groups, return_inverse=True)[1]
    )
    order = rng.permutation(keys.max() + 1)[keys]
    return part(data, np.sort(np.argsort(order, kind="stable")[:MOST_ROWS]))


def part(data: Data, where: np.ndarray) -> Data:
    """Some of the rows."""
    groups, times = (
        None if values is None else values[where] for values in (data.groups, data.times)
    )
    rows = [data.rows[place] for place in where]
    return Data(data.header, rows, data.positive[where], data.options, groups, times)


def split(data: Data, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows to rank: by time, by group, or at random within each class."""
    if data.times is not None:
        order = np.argsort(data.times, kind="stable")
    elif data.groups is not None:
        codes = np.unique(data.groups, return_inverse=True)[1]
        order = np.argsort(rng.permutation(codes.max() + 1)[codes], kind="stable")
    else:
        places = np.arange(len(data.rows))
        seed = int(rng.integers(2**31))
        train, held = train_test_split(
            places, train_size=TRAIN_SHARE, stratify=data.positive, random_state=seed
        )
        return train, held
    cut = round(TRAIN_SHARE * len(order))
    return order[:cut], order[cut:]


def sortable(times: np.ndarray) -> np.ndarray:
    """Times as numbers, or as dates."""
    try:
        return times.astype(np.int64)
    except ValueError:
        return pd.to_datetime(times).to_numpy().astype("datetime64[s]")


def write(path: Path, data: Data) -> Path:
    """The rows as CSV, or as LIBSVM where there is no header."""
    with path.open("w", encoding="utf-8", newline="") as file:
        if data.header is None:
            file.writelines(data.rows)
        else:
            csv.writer(file).writerows([data.header, *data.rows])
    return path


def run(
    source: Path,
    folder: Path,
    data: Data,
    held: np.ndarray,
    train: Path,
    test: Path,
    options: list[str],
) -> list[float]:
    """Metrics of the ranked rows, and CPU seconds of the fit."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    env = os.environ | threads | {"PYTHONPATH": str(source.resolve())}
    model, ranked = folder / "model.toppush", folder / "ranked.csv"

    def toppush(*words: object) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "toppush", *map(str, words)]
        done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    seconds, refused = None, set()
    while seconds is None:
        kept = [word for column in sorted(refused) for word in ("--categorical", column)]
        try:
            seconds = toppush("fit", train, "-o", model, *data.options, *kept, *options)
        except RuntimeError as error:
            if not (more := set(REFUSED.findall(str(error))) - refused):
                print(f"{source}: {str(error).splitlines()[-1]}", flush=True)
                return [np.nan] * (len(METRICS) + 1)
            refused |= more
    toppush("rank", model, test, "-o", ranked)
    with ranked.open(newline="") as file:
        found = list(csv.DictReader(file))
    scores = np.empty(len(held))
    scores[[int(row["row"]) - 1 for row in found]] = [float(row["score"]) for row in found]
    y = data.positive[held]
    return [*(float(metric(y, scores)) for metric in METRICS.values()), seconds]


def main() -> None:
    """Print and save a row for each data set."""
    tables = list(json.loads((SHARED / "data/tables/tables.json").read_text()))
    names = [*tables, *FILES, *OTHER_FILES]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="the other tree's src")
    parser.add_argument("--data", nargs="+", default=names, choices=names)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--effort", default="normal")
    given = parser.parse_args()
    sides, rows = [given.before, ROOT / "src"], []
    for name in given.data:
        found = []
        for number in range(given.splits):
            rng = np.random.default_rng(number)
            data = some(raw_table(name) if name in tables else libsvm_file(name), rng)
            train, held = split(data, rng)
            with tempfile.TemporaryDirectory() as path:
                folder, ending = Path(path), "svm" if data.header is None else "csv"
                files = [
                    write(folder / f"{role}.{ending}", part(data, where))
                    for role, where in (("train", train), ("test", held))
                ]
                found.append(
                    [
                        run(source, folder, data, held, *files, ["--effort", given.effort])
                        for source in sides
                    ]
                )
        before, after = np.mean(found, axis=0)
        pairs = [value for both in zip(before, after, strict=True) for value in both]
        rows.append([name, given.splits, *pairs, after[-1] / before[-1]])
        print(name, " ".join(f"{value:.3f}" for value in pairs), flush=True)
    report("ranker-before-after", COLUMNS, rows)


if __name__ == "__main__":
    main()
