"""Fits on a local Dask cluster compared with the threads of the same machine.

python -m benchmarks.cluster                  # all parts
python -m benchmarks.cluster speed            # 10^7 x 100 float32: 2 processes and 2 threads
python -m benchmarks.cluster memory           # the driver's memory at 10^6 and 10^7 rows
python -m benchmarks.cluster --scale 0.001    # a rehearsal

A part that fails says why and the next one runs.
"""

import argparse
import resource
import subprocess
import sys
import time
import traceback
import warnings
from contextlib import contextmanager

import numpy as np

from benchmarks import common

COLUMNS, ROWS, PART = 100, 10**7, 250_000
FIT = {"lam": 1e-3, "tol": 1e-4}
PRELOADED = ["distributed", "dask.array", "benchmarks.data", "toppush.designs.dask"]


@contextmanager
def workers(n_workers):
    """Processes of one thread each, and a client."""
    import dask
    from distributed import Client, LocalCluster
    from distributed.utils import get_mp_context

    # Forked from a process that has imported what they need.
    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    get_mp_context().set_forkserver_preload(PRELOADED)
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def made_part(number, n_rows):
    """Rows of a part, always the same: the classes differ in the first ten columns."""
    rng = np.random.default_rng([7, number])
    positive = rng.random(n_rows) < 0.05
    X = rng.standard_normal((n_rows, COLUMNS), dtype=np.float32)
    X[positive, :10] += 2.0
    return X, positive


def part_sizes(n_rows):
    part = max(1, min(PART, n_rows // 8))
    return [min(part, n_rows - start) for start in range(0, n_rows, part)]


def lazy_rows(n_rows):
    """The synthetic rows as Dask arrays, persisted."""
    import dask
    import dask.array as da
    from distributed import wait

    sizes = part_sizes(n_rows)
    parts = [dask.delayed(made_part, nout=2)(i, size) for i, size in enumerate(sizes)]
    X = da.concatenate(
        [
            da.from_delayed(X, (size, COLUMNS), np.float32)
            for (X, _), size in zip(parts, sizes, strict=True)
        ]
    )
    y = da.concatenate(
        [da.from_delayed(y, (size,), bool) for (_, y), size in zip(parts, sizes, strict=True)]
    )
    X, y = dask.persist(X, y)
    wait([X, y])
    return X, y


def fitted(X, y, **given):
    """Seconds of a fit, and its solution."""
    from toppush import TopPush

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        solution = TopPush(**given).fit(X, y).solution_
    return time.perf_counter() - began, solution


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# ---- parts


def speed(scale):
    """Each side in a process of its own, so that both have all the memory."""
    n_rows = int(ROWS * scale)
    rows = []
    for side in ("threads", "dask"):
        seconds, n_iter, upper, rounds, peak = _in_process("one", side, n_rows)
        rows.append([side, n_rows, seconds, int(n_iter), int(rounds), upper, peak])
    ratio = rows[1][2] / rows[0][2]
    columns = ["side", "rows", "seconds", "iterations", "rounds", "objective", "driver MB"]
    common.report("cluster_speed", columns, rows)
    print(f"dask / threads: {ratio:.2f}")


def memory(scale):
    rows = []
    for n_rows in (int(ROWS * scale / 10), int(ROWS * scale)):
        *_, peak = _in_process("one", "dask", n_rows)
        rows.append([n_rows, peak])
    common.report("cluster_memory", ["rows", "driver's peak MB"], rows)


# ---- a side in its own process


def _in_process(*words):
    """Numbers that a part of this module prints last, run in a fresh process."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.cluster", *map(str, words)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return [float(word) for word in ran.stdout.splitlines()[-1].split()]


def one(side, n_rows):
    """Seconds, iterations, objective, rounds and the process's peak memory of one fit.

    A small fit goes before it, in which both sides import what they need.
    """
    n_rounds = 0
    if side == "threads":
        sizes = part_sizes(n_rows)
        X, y = np.empty((n_rows, COLUMNS), np.float32), np.empty(n_rows, bool)
        for number, size in enumerate(sizes):
            at = sum(sizes[:number])
            X[at : at + size], y[at : at + size] = made_part(number, size)
        fitted(X[:2000], y[:2000], n_jobs=2, **FIT)
        seconds, solution = fitted(X, y, n_jobs=2, **FIT)
    else:
        from toppush.designs.dask import DaskDesign

        with workers(2):
            fitted(*lazy_rows(2000), **FIT)
            X, y = lazy_rows(n_rows)
            close = DaskDesign._close

            def counted(design):
                nonlocal n_rounds
                n_rounds = design._n_rounds
                close(design)

            DaskDesign._close = counted
            seconds, solution = fitted(X, y, **FIT)
    print(seconds, solution.n_iter, solution.upper, n_rounds, peak_mb())


PARTS = {"speed": speed, "memory": memory}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows")
    given = parser.parse_args()
    if given.parts[:1] == ["one"]:
        one(given.parts[1], int(given.parts[2]))
        return
    for name in given.parts or PARTS:
        try:
            PARTS[name](given.scale)
        except Exception:
            traceback.print_exc()


if __name__ == "__main__":
    main()
