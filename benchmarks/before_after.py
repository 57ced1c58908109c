"""Fits of TopPush by two source trees in turn, in one run: what a change cost.

    git worktree add ../before <commit>
    python -m benchmarks.before_after ../before/src                 # all real sets
    python -m benchmarks.before_after ../before/src --data w8a a9a --lam 0.01 --top 0.01

Each round runs both trees, each in a process of its own with one thread; a tree's time is the
least CPU time of a fit over all rounds, which other work on the machine disturbs least.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse

ROOT = Path(__file__).resolve().parent.parent
TOL = 1e-3
LEAST_FITS, LEAST_SECONDS = 5, 1.0
COLUMNS = [
    "data", "before ms", "after ms", "after / before", "iterations before", "iterations after",
]  # fmt: skip


def measure(path: Path, lam: float, top: float) -> dict[str, float]:
    """Least CPU time of a fit by the toppush that this process imports."""
    from toppush import TopPush

    with np.load(path) as parts:
        y = parts["y"]
        csr = (parts["data"], parts["indices"], parts["indptr"])
        X = sparse.csr_array(csr, shape=parts["shape"])
    warnings.simplefilter("ignore")
    fitted = TopPush(lam, top=top, tol=TOL).fit(X, y)
    seconds, began = [], time.process_time()
    while len(seconds) < LEAST_FITS or time.process_time() - began < LEAST_SECONDS:
        start = time.process_time()
        fitted = TopPush(lam, top=top, tol=TOL).fit(X, y)
        seconds.append(time.process_time() - start)
    return {"seconds": min(seconds), "n_iter": fitted.n_iter_}


def run(source: Path, path: Path, lam: float, top: float) -> dict[str, float]:
    """The same in a process that imports nothing of this clone but toppush from `source`."""
    command = [sys.executable, __file__, "--measure", str(path), "--lam", str(lam)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    env = os.environ | threads | {"PYTHONPATH": str(source.resolve())}
    done = subprocess.run(
        [*command, "--top", str(top)], env=env, capture_output=True, text=True, check=True
    )
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def compare(name: str, options: argparse.Namespace, top: float, folder: Path) -> list[object]:
    """A row of the table: fits of a data set by both trees in turn."""
    from benchmarks.data import load

    X, y = load(name)
    path = folder / "rows.npz"
    arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    np.savez(path, **arrays, y=y)
    sides = {"before": options.before, "after": ROOT / "src"}
    fits: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(options.rounds):
        for side, source in sides.items():
            fits[side].append(run(source, path, options.lam, top))
    before, after = (min(fit["seconds"] for fit in fits[side]) for side in sides)
    iterations = [fits[side][0]["n_iter"] for side in sides]
    print(f"{name}: {after / before:.3f}", flush=True)
    return [name, 1e3 * before, 1e3 * after, after / before, *iterations]


def main() -> None:
    """Print and save a row for each data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", nargs="?", type=Path, help="the other tree's src")
    parser.add_argument("--data", nargs="+", help="names of data sets; by default all real ones")
    parser.add_argument("--lam", type=float, default=1.0)
    parser.add_argument("--top", default="1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    top = float(options.top) if "." in options.top else int(options.top)
    if options.measure is not None:
        print(json.dumps(measure(options.measure, options.lam, top)))
        return
    if options.before is None:
        parser.error("name the src folder of the tree to compare with")
    from benchmarks.common import report
    from benchmarks.data import FILES

    with tempfile.TemporaryDirectory() as folder:
        names = options.data or list(FILES)
        rows = [compare(name, options, top, Path(folder)) for name in names]
    report("before-after", COLUMNS, rows)


if __name__ == "__main__":
    main()
