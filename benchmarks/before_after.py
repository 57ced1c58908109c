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
import time
import warnings
from pathlib import Path

from benchmarks.common import report
from benchmarks.data import FILES, ROOT, load

TOL = 1e-3
LEAST_FITS, LEAST_SECONDS = 5, 1.0
COLUMNS = [
    "data", "before ms", "after ms", "after / before", "iterations before", "after",
    "passes before", "after",
]  # fmt: skip


def measure(name: str, lam: float, top: float) -> dict[str, float]:
    """Least CPU time of a fit by the toppush that this process imports."""
    from toppush import TopPush

    X, y = load(name)
    warnings.simplefilter("ignore")
    fitted = TopPush(lam, top=top, tol=TOL).fit(X, y)
    seconds, began = [], time.process_time()
    while len(seconds) < LEAST_FITS or time.process_time() - began < LEAST_SECONDS:
        start = time.process_time()
        fitted = TopPush(lam, top=top, tol=TOL).fit(X, y)
        seconds.append(time.process_time() - start)
    passes = fitted.solution_.history[-1].data_passes
    return {"seconds": min(seconds), "n_iter": fitted.n_iter_, "passes": passes}


def run(source: Path, name: str, lam: float, top: float) -> dict[str, float]:
    """The same in a process of its own that imports from `source`."""
    command = [sys.executable, "-m", "benchmarks.before_after", "--measure", name]
    command += ["--lam", str(lam), "--top", str(top)]
    paths = os.pathsep.join([str(source.resolve()), str(ROOT)])
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    env = os.environ | threads | {"PYTHONPATH": paths}
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print and save a row for each data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", nargs="?", type=Path, help="the other tree's src")
    parser.add_argument("--data", nargs="+", default=list(FILES), choices=list(FILES))
    parser.add_argument("--lam", type=float, default=1.0)
    parser.add_argument("--top", default="1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    top = float(given.top) if "." in given.top else int(given.top)
    if given.measure is not None:
        print(json.dumps(measure(given.measure, given.lam, top)))
        return
    if given.before is None:
        parser.error("name the src folder of the tree to compare with")
    rows = []
    for name in given.data:
        sides = {"before": given.before, "after": ROOT / "src"}
        found = {side: [] for side in sides}
        for _ in range(given.rounds):
            for side, source in sides.items():
                found[side].append(run(source, name, given.lam, top))
        before, after = (min(one["seconds"] for one in found[side]) for side in sides)
        counts = [found[side][0][key] for key in ("n_iter", "passes") for side in sides]
        rows.append([name, 1e3 * before, 1e3 * after, after / before, *counts])
        print(f"{name}: {after / before:.3f}", flush=True)
    report("before-after", COLUMNS, rows)


if __name__ == "__main__":
    main()
