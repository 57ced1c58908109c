"""Where the time of `toppush fit` goes on a Parquet file of 100 MB.

python -m benchmarks.fit_file                      # both settings
python -m benchmarks.fit_file --megabytes 20
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.common import report

N_NUMBERS = 20
SETTINGS = {"as it comes (lam cv, top cv)": [], "--lam 0.01": ["--lam", "0.01", "--top", "1%"]}


def make(path, size):
    """Numbers with gaps, a column of text and a label, until the file is large enough."""
    import pyarrow as pa
    from pyarrow import parquet

    rng, n_rows = np.random.default_rng(0), size // (8 * N_NUMBERS)
    X = rng.normal(size=(n_rows, N_NUMBERS))
    score = X[:, 0] + X[:, 1] + rng.normal(0, 1.5, n_rows)
    columns = {f"x{j}": pa.array(X[:, j], mask=rng.random(n_rows) < 0.01) for j in range(N_NUMBERS)}
    columns["city"] = pa.array(rng.choice(["Lyon", "Oslo", "Rome", "Porto"], n_rows))
    columns["label"] = pa.array(score > np.quantile(score, 0.98))
    parquet.write_table(pa.table(columns), path)
    return n_rows


def main(size):
    table = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        n_rows = make(path, size)
        for name, options in SETTINGS.items():
            command = [str(Path(sys.executable).with_name("toppush")), "fit", str(path), "--json",
                       "--model", "linear"]  # fmt: skip
            began = time.perf_counter()
            ran = subprocess.run(
                [*command, "-o", str(path) + ".toppush", *options],
                check=True,
                capture_output=True,
                text=True,
            )
            wall = time.perf_counter() - began
            spent = json.loads(ran.stdout)["seconds"]
            start = wall - sum(spent.values())
            outside = 1 - spent["solving"] / wall
            megabytes = path.stat().st_size / 1e6
            table.append([name, megabytes, n_rows, wall, start, *spent.values(), outside])
            print(*table[-1], flush=True)
    columns = [
        "fit", "MB", "rows", "seconds", "start and saving", "reading", "preparing", "solving",
        "measuring", "share outside the solver",
    ]  # fmt: skip
    report("fit-file", columns, table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=100.0)
    main(int(parser.parse_args().megabytes * 1e6))
