"""Growth with the number of rows, and one fit of url's size.

python -m benchmarks.size rows       # 10^4 to 10^7 rows of 20 dense float32 features
python -m benchmarks.size url        # 2,396,130 x 3,231,961 with 116 entries a row
python -m benchmarks.size url --rows 200000
"""

import argparse
import resource
import sys
import time
import warnings
from statistics import median

import numpy as np

from benchmarks.common import report
from benchmarks.data import load, made


def rows(n_jobs):
    """Median seconds of a fit for each number of rows, and the slope of the logarithms."""
    from toppush import TopPush

    table = []
    for n_rows in (10**4, 10**5, 10**6, 10**7):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n_rows, 20), dtype=np.float32)
        y = X[:, 0] + X[:, 1] + 1.5 * rng.standard_normal(n_rows, dtype=np.float32) > 3.5
        times = []
        for _ in range(5 if n_rows < 10**7 else 3):
            began = time.perf_counter()
            found = TopPush(1.0, top=0.01, tol=1e-3, n_jobs=n_jobs).fit(X, y).solution_
            times.append(time.perf_counter() - began)
        table.append([n_rows, median(times), found.history[-1].data_passes, found.relative_gap])
        print(*table[-1], flush=True)
    slope = np.polyfit(np.log([row[0] for row in table]), np.log([row[1] for row in table]), 1)[0]
    report("rows", ["rows", "seconds", "passes", "relative gap"], table)
    print(f"\nslope of log seconds against log rows: {slope:.3f}")


def threads():
    """Seconds with one and two threads, and how far the weights differ."""
    from toppush import TopPush

    local = sys.modules["toppush.designs.local"]
    local.ENTRIES_PER_THREAD = 1  # two blocks also where one would be the default

    def ranker(solver, n_jobs):
        return TopPush(0.1, solver=solver, n_jobs=n_jobs, max_iter=50)

    table = []
    sets = {"nslkdd": load("nslkdd"), "made like real-sim": made("made like real-sim")}
    for name, (X, y) in sets.items():
        for solver in ("newton", "paper"):
            found, seconds = {}, {}
            for n_jobs in (1, 2):
                times = []
                for _ in range(3):
                    began = time.perf_counter()
                    model = ranker(solver, n_jobs).fit(X, y)
                    times.append(time.perf_counter() - began)
                again = ranker(solver, n_jobs).fit(X, y)
                assert np.array_equal(model.coef_, again.coef_), "a repeated fit differs"
                found[n_jobs], seconds[n_jobs] = model.coef_, median(times)
            apart = np.abs(found[1] - found[2]).max() / np.abs(found[1]).max()
            table.append([name, solver, seconds[1], seconds[2], seconds[1] / seconds[2], apart])
            print(*table[-1], flush=True)
    columns = ["data", "solver", "1 thread", "2 threads", "speed-up", "largest difference"]
    report("threads", columns, table)


def url(n_rows, n_jobs):
    """One fit compared with one product with X and one with X', and the peak memory."""
    from toppush import TopPush

    X, y = made("made like url", n_rows=n_rows)
    arrays = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**30
    v, u, XT = np.ones(X.shape[1]), np.ones(X.shape[0]), X.T
    times = []
    for _ in range(3):
        began = time.perf_counter()
        X @ v
        XT @ u
        times.append(time.perf_counter() - began)
    pair, before = median(times), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"CSR {arrays:.2f} GiB, pair of products {pair:.2f} s, resident {before:.2f} GiB",
        flush=True,
    )
    began = time.perf_counter()
    found = TopPush(1.0, tol=1e-3, n_jobs=n_jobs, verbose=1).fit(X, y).solution_
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    columns = [
        "rows", "CSR GiB", "pair seconds", "fit seconds", "ratio", "passes", "relative gap",
        "peak GiB", "peak / CSR",
    ]  # fmt: skip
    row = [
        X.shape[0], arrays, pair, seconds, seconds / pair, found.history[-1].data_passes,
        found.relative_gap, peak, peak / arrays,
    ]  # fmt: skip
    report("url-size", columns, [row])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["rows", "threads", "url"])
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what == "rows":
        rows(options.threads)
    elif options.what == "threads":
        threads()
    else:
        url(options.rows, options.threads)
