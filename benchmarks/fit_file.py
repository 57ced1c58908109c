"""Where the CPU seconds of `toppush fit` go on Parquet files, with lam and top given.

    python -m benchmarks.fit_file       # a real table and a synthetic one

Each fit is a process with one thread. "start and saving" is Python with its packages and writing
the model; fits are one to all rows and those that hold out rows, by which scores get a meaning.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from benchmarks.common import report
from benchmarks.data import SHARED

OPTIONS = {
    "bank-marketing": ["--label", "y", "--drop", "duration", "--lam", "0.001", "--top", "5%"],
    "made, 1,000,000 x 50": ["--lam", "0.0001", "--top", "2%"],
}
BY_CPU = (
    "import time, toppush.files.fitting as fitting; fitting.perf_counter = time.process_time; "
    "from toppush.cli import main; main()"
)
STAGES = ["reading", "preparing", "solving", "holding out", "measuring"]


def bank(path):
    """The raw table: ages, jobs, months, and whether a call sold a deposit."""
    given = SHARED / "data" / "tables" / "bank-marketing.csv.gz"
    parquet.write_table(csv.read_csv(given, parse_options=csv.ParseOptions(delimiter=";")), path)


def made(path, n_rows=1_000_000, n_columns=50):
    """Numbers, some with gaps, a column of text and a label that ten of them tell of."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns)).round(3)
    score = X[:, :10] @ rng.normal(size=10) + rng.normal(0, 0.5, n_rows)
    columns = {
        f"x{j}": pa.array(X[:, j], mask=rng.random(n_rows) < 0.01 if j < 20 else None)
        for j in range(n_columns)
    }
    columns["city"] = pa.array(rng.choice(["Lyon", "Oslo", "Rome", "Porto"], n_rows))
    columns["label"] = pa.array(score > np.quantile(score, 0.98))
    parquet.write_table(pa.table(columns), path)


def measure(path, options):
    """CPU seconds of the whole process and of its stages."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    env = os.environ | threads
    command = [sys.executable, "-c", BY_CPU, "fit", str(path), "--json", "--model", "linear"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(
        [*command, "-o", f"{path}.toppush", *options],
        env=env, check=True, capture_output=True, text=True,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"all": total} | json.loads(ran.stdout)["seconds"]


def row(name, size, runs):
    """Medians over the runs, and the share of all that no solver took."""
    spent = {stage: median(run.get(stage, 0.0) for run in runs) for stage in ["all", *STAGES]}
    fits = spent["solving"] + spent["holding out"]
    start = spent["all"] - sum(spent[stage] for stage in STAGES)
    return [name, size, *spent.values(), start, 1.0 - fits / spent["all"]]


def main(repeats):
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for (name, options), make in zip(OPTIONS.items(), (bank, made), strict=True):
            path = Path(folder) / "rows.parquet"
            make(path)
            runs = [measure(path, options) for _ in range(repeats)]
            table.append(row(name, path.stat().st_size / 1e6, runs))
    columns = ["file", "MB", "CPU seconds", *STAGES, "start and saving", "share outside of fits"]
    report("fit-file", columns, table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    main(parser.parse_args().repeats)
