"""`toppush rank --limit 1000` on a large CSV compared with pyarrow's own streaming CSV reader.

python -m benchmarks.rank_file                    # 5 GB in the temporary folder, deleted after
python -m benchmarks.rank_file --gigabytes 0.5
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.common import report

N_NUMBERS, BLOCK_ROWS = 18, 200_000
READ = """
import sys, pyarrow as pa
from pyarrow import csv
from toppush.files.readers.csv import BLOCK
kinds = dict(arg.split("=") for arg in sys.argv[2:])
types = {name: pa.string() if kind == "text" else pa.float64() for name, kind in kinds.items()}
convert = csv.ConvertOptions(column_types=types, include_columns=list(types))
reader = csv.open_csv(sys.argv[1], read_options=csv.ReadOptions(block_size=BLOCK),
                      convert_options=convert)
print(sum(len(batch) for batch in reader))
"""


def made_rows(rng):
    """Rows with an id, numbers (some missing), two columns of text and a label."""
    numbers = rng.normal(100.0, 30.0, (BLOCK_ROWS, N_NUMBERS)).round(4)
    city = rng.choice(["Lyon", "Oslo", "Rome", "Porto", "Graz"], BLOCK_ROWS)
    kind = rng.choice([f"kind {i}" for i in range(40)], BLOCK_ROWS)
    score = numbers[:, 0] + numbers[:, 1] + 40 * (city == "Rome") + rng.normal(0, 30, BLOCK_ROWS)
    label = np.where(score > np.quantile(score, 0.98), "yes", "no")
    gap = rng.random(numbers.shape) < 0.01
    lines = []
    for i in range(BLOCK_ROWS):
        cells = ["" if gap[i, j] else repr(float(numbers[i, j])) for j in range(N_NUMBERS)]
        lines.append(",".join([f"row{i}", *cells, city[i], kind[i], label[i]]))
    return "\n".join(lines).encode() + b"\n"


def make(path, size):
    names = ["id", *(f"x{j}" for j in range(N_NUMBERS)), "city", "kind", "label"]
    head, rows = (",".join(names) + "\n").encode(), made_rows(np.random.default_rng(0))
    small = path.with_name("train.csv")
    small.write_bytes(head + rows)
    with path.open("wb") as file:
        file.write(head)
        while file.tell() < size:
            file.write(rows)
    return names, small, path.stat().st_size // len(rows) * BLOCK_ROWS


def measured(command):
    """Seconds, seconds of processor time and peak resident MiB of a command."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command[:3]} failed")
    busy = usage.ru_utime + usage.ru_stime
    return time.perf_counter() - began, busy, usage.ru_maxrss / 1024


def main(size, folder, repeats):
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path, model = Path(place) / "rows.csv", Path(place) / "model.toppush"
        names, small, n_rows = make(path, size)
        toppush = str(Path(sys.executable).with_name("toppush"))
        fitted = [toppush, "fit", str(small), "-o", str(model), "--drop", "id"]
        subprocess.run([*fitted, "--lam", "0.01", "--top", "1%"], check=True)
        kinds = [f"{name}={'number' if name[0] == 'x' else 'text'}" for name in names]
        used = [kind for kind in kinds if not kind.startswith("label")]
        rank = [toppush, "rank", str(model), str(path), "-o", str(model) + ".csv"]
        commands = {
            "pyarrow, all columns": [sys.executable, "-c", READ, str(path), *kinds],
            "pyarrow, the columns that rank reads": [sys.executable, "-c", READ, str(path), *used],
            "toppush rank": [*rank, "--limit", "1000", "--columns", "id"],
        }
        found = {name: [] for name in commands}
        for _ in range(repeats):
            for name, command in commands.items():
                found[name].append(measured(command))
                print(name, *found[name][-1], flush=True)
        bytes_read = path.stat().st_size
    first = min(found["pyarrow, all columns"])[0]
    table = []
    for name, runs in found.items():
        (seconds, busy, _), peak = min(runs), max(peak for _, _, peak in runs)
        size = [bytes_read / 1e9, n_rows]
        table.append([name, *size, seconds, busy, n_rows / seconds, first / seconds, peak])
    columns = [
        "what", "GB", "rows", "best seconds", "processor seconds", "rows/s", "share of pyarrow",
        "peak MiB",
    ]  # fmt: skip
    report("rank-file", columns, table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    main(int(options.gigabytes * 1e9), options.folder, options.repeats)
