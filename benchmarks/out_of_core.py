"""Fits on a file larger than the memory they may take.

python -m benchmarks.out_of_core --gib 12 --scratch DIR

Makes a file of dense float32 rows in DIR, measures in a fresh process how long it takes to read
it by the same buffers, to take a product with X and with X', and to fit, and deletes it. The
system drops the file's pages before each measurement.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.common import report

N_COLUMNS, POSITIVES, APART, CHUNK = 256, 0.1, 3.0, 1 << 16
COLUMNS = [
    "GiB", "rows", "limit GiB", "read s", "read GB/s", "Xv s", "X'u s", "Xv / read", "X'u / read",
    "fit s", "iterations", "reads", "fit / (reads x read)", "gap", "peak GiB",
]  # fmt: skip


def make(folder, n_rows):
    """Classes some standard deviations apart along a direction; written in chunks."""
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(N_COLUMNS, dtype=np.float32)
    direction *= APART / np.linalg.norm(direction)
    y = rng.random(n_rows) < POSITIVES
    np.save(folder / "y.npy", y)
    with (folder / "rows.npy").open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (n_rows, N_COLUMNS)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n_rows, CHUNK):
            labels = y[start : start + CHUNK]
            rows = rng.standard_normal((len(labels), N_COLUMNS), dtype=np.float32)
            rows[labels] += direction
            rows.tofile(file)
        file.flush()
        os.fsync(file.fileno())


def forget(path):
    """Let the system drop the file's pages."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def say(words):
    """Tell how far it is, apart from the result."""
    print(words, file=sys.stderr, flush=True)


def timed(path, work):
    forget(path)
    began = time.perf_counter()
    answer = work()
    return time.perf_counter() - began, answer


def peak():
    """Most memory held so far, in GiB; ru_maxrss would count the process that began this one."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 2**20


def measure(folder, limit, repeats):
    """One row of the table, as JSON; the process that runs it does nothing else."""
    from toppush import TopPush, on_disk

    path, y = folder / "rows.npy", np.load(folder / "y.npy")
    X = on_disk.open(path, limit)
    v = np.ones(X.shape[1])
    times = {"read": [], "Xv": [], "X'u": []}
    with X.design(y) as design:
        rows = design.blocks[0].rows
        reader = rows._reader
        works = {
            "read": lambda: sum(1 for _ in reader.stream(reader.all_runs())),
            "Xv": lambda: rows.scores(v),
            "X'u": lambda: rows.combine(np.ones(X.shape[0])),
        }
        for _ in range(repeats):
            for name, work in works.items():
                times[name].append(timed(path, work)[0])
                say(f"{name}: {times[name][-1]:.2f} s")
    read, forwards, backwards = (min(times[name]) for name in works)
    before = X.bytes_read
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranker = TopPush(1.0, top=0.01, tol=1e-3)
        seconds, _ = timed(path, lambda: ranker.fit(X, y))
        say(f"fit: {seconds:.2f} s, at most {peak():.2f} GiB")
    found, size = ranker.solution_, path.stat().st_size
    reads = (X.bytes_read - before) / size
    row = [
        size / 2**30, X.shape[0], X.memory_limit / 2**30, read, size / read / 1e9, forwards,
        backwards, forwards / read, backwards / read, seconds, found.n_iter, reads,
        seconds / (reads * read), found.relative_gap, peak(),
    ]  # fmt: skip
    print(json.dumps(row))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=1.0, help="size of the file")
    parser.add_argument("--limit", default="2GiB", help="memory that the fit may take")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scratch", type=Path, default=None, help="where the file is made")
    parser.add_argument("--measure", type=Path, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.measure, options.limit, options.repeats)
        return
    with tempfile.TemporaryDirectory(dir=options.scratch) as name:
        make(Path(name), int(options.gib * 2**30) // (4 * N_COLUMNS))
        command = [
            sys.executable, "-m", "benchmarks.out_of_core", "--measure", name,
            "--limit", options.limit, "--repeats", str(options.repeats),
        ]  # fmt: skip
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    report("out-of-core", COLUMNS, [json.loads(ran.stdout)])


if __name__ == "__main__":
    main()
