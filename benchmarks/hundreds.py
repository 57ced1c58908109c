"""Fits of tables with hundreds of columns and sparse rows, beside LIBLINEAR and another tree.

    python -m benchmarks.hundreds                         # 100,000 rows, 565 columns
    python -m benchmarks.hundreds --before ../before/src

CPU seconds of one thread, the least of several fits; every tree in a process of its own.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse

from benchmarks.common import report
from benchmarks.data import ROOT

FILLED = [0.01, 0.05, 0.11, 0.2]
SETTINGS = [(1.0, 1), (0.01, 1), (0.001, 0.01)]
REPEATS = 3


def made(filled, n_rows=100_000, n_columns=565):
    """Sparse rows, of which a linear score and some noise tell a twentieth apart."""
    rng = np.random.default_rng(0)
    X = sparse.random_array(
        (n_rows, n_columns), density=filled, format="csr", rng=rng, data_sampler=rng.standard_normal
    )
    noise = rng.normal(0, 0.3 * np.sqrt(filled * n_columns), n_rows)
    score = X @ rng.normal(size=n_columns) + noise
    return sparse.csr_array(X), score > np.quantile(score, 0.95)


def least(estimator, X, y):
    """CPU seconds of the fastest of several fits, and the fitted estimator."""
    seconds = []
    for _ in range(REPEATS):
        began = time.process_time()
        estimator.fit(X, y)
        seconds.append(time.process_time() - began)
    return min(seconds), estimator


def measure(filled):
    """Seconds and iterations of each setting by the toppush that this process imports."""
    from sklearn.linear_model import LogisticRegression

    from toppush import TopPush

    warnings.simplefilter("ignore")
    X, y = made(filled)
    found = []
    for lam, top in SETTINGS:
        ours, fitted = least(TopPush(lam, top=top, tol=1e-3, n_threads=1), X, y)
        found.append([ours, fitted.n_iter_])
    theirs, _ = least(LogisticRegression(solver="liblinear"), X, y)
    return {"ours": found, "liblinear": theirs}


def run(source, filled):
    """The same in a process of its own that imports from `source`."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    env = os.environ | threads | {"PYTHONPATH": os.pathsep.join([str(source.resolve()), str(ROOT)])}
    command = [sys.executable, "-m", "benchmarks.hundreds", "--one", str(filled)]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main(before):
    table = []
    for filled in FILLED:
        now = run(ROOT / "src", filled)
        then = None if before is None else run(before, filled)
        for at, (lam, top) in enumerate(SETTINGS):
            seconds, n_iter = now["ours"][at]
            earlier = None if then is None else then["ours"][at][0]
            table.append([filled, lam, top, n_iter, earlier, seconds, now["liblinear"]])
            print(*table[-1], flush=True)
    columns = ["filled", "lam", "top", "iterations", "before, s", "seconds", "liblinear, s"]
    report("hundreds", columns, table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="the src folder of another tree")
    parser.add_argument("--one", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is None:
        main(given.before)
    else:
        print(json.dumps(measure(given.one)))
