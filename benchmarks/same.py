"""The same answer whatever holds the rows: blocks, threads, a memory map, disk, Dask, a GPU.

python -m benchmarks.same                         # all ways that this machine has
python -m benchmarks.same --ways gpu --results DIR

Every way fits the same problem to the same small gap; a row of the table says by how much its
objective and weights differ from those of one block. Single precision goes to a gap of 1e-5.
"""

import argparse
import tempfile
import time
import traceback
import warnings
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
from scipy import sparse

from benchmarks import common
from benchmarks.data import load
from toppush import TopPush, on_disk

SETS = ("w8a", "nslkdd", "news20 (part)")
PROBLEMS = ({"lam": 0.1, "top": 1}, {"lam": 0.01, "top": 0.01})
FORMED, SINGLE = 1000, 1e-5


def fitted(X, y, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TopPush(**given).fit(X, y).solution_


# ---- ways: contexts that take a CSR matrix and give X and further parameters of TopPush


@contextmanager
def one_block(X):
    yield X, {"n_threads": 1}


@contextmanager
def blocks(X, n_threads=7):
    with mock.patch("toppush.designs.local.ENTRIES_PER_THREAD", 1):
        yield X, {"n_threads": n_threads}


@contextmanager
def threads(X):
    with blocks(X, 2) as found:
        yield found


def saved(X, folder):
    """The parts of a CSR matrix as NPY files."""
    for name in ("data", "indices", "indptr"):
        np.save(folder / f"{name}.npy", getattr(X, name))
    np.save(folder / "shape.npy", X.shape)


@contextmanager
def memory_map(X):
    with tempfile.TemporaryDirectory() as name:
        saved(X, Path(name))
        parts = (
            np.load(Path(name) / f"{part}.npy", mmap_mode="r")
            for part in ("data", "indices", "indptr")
        )
        yield sparse.csr_array(tuple(parts), shape=X.shape), {"n_threads": 1}


@contextmanager
def disk(X):
    with tempfile.TemporaryDirectory() as name:
        saved(X, Path(name))
        yield on_disk.open(name, memory_limit="4GiB"), {}


@contextmanager
def dask_cluster(X):
    import dask
    import dask.array as da

    from benchmarks.cluster import workers

    with workers(4):
        cuts = np.linspace(0, X.shape[0], 9).astype(int)
        parts = [X[start:stop] for start, stop in pairwise(cuts)]
        yield (
            da.concatenate(
                [
                    da.from_delayed(dask.delayed(part), part.shape, part.dtype, meta=X[:0])
                    for part in parts
                ]
            ),
            {},
        )


@contextmanager
def gpu(X):
    yield X, {"device": "cuda"}


WAYS = {
    "one block": one_block,
    "7 blocks": blocks,
    "2 threads": threads,
    "memory map": memory_map,
    "disk": disk,
    "dask": dask_cluster,
    "gpu": gpu,
}


def compare(name, ways):
    """A row for every way and problem."""
    X, y = load(name)
    tol = 1e-12 if X.shape[1] <= FORMED else 1e-11
    for given in PROBLEMS:
        reference = fitted(X, y, n_threads=1, tol=tol, **given)
        for way in ways:
            for kind in (np.float64, np.float32):
                with ExitStack() as stack:
                    rows, more = stack.enter_context(WAYS[way](X.astype(kind)))
                    began = time.perf_counter()
                    found = fitted(
                        rows, y, tol=tol if kind is np.float64 else SINGLE, **given, **more
                    )
                    seconds = time.perf_counter() - began
                size = np.linalg.norm(reference.weights)
                yield [
                    name, given["lam"], given["top"], way, np.dtype(kind).name,
                    abs(found.upper / reference.upper - 1.0),
                    np.linalg.norm(found.weights - reference.weights) / size,
                    found.relative_gap, found.n_iter, seconds,
                ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ways", default=",".join(WAYS), help="with commas")
    parser.add_argument("--results", type=Path, help="folder for the table")
    parser.add_argument("--name", default="same", help="of the table")
    given = parser.parse_args()
    common.RESULTS = given.results or common.RESULTS
    columns = ["data", "lam", "top", "way", "type", "objective off", "weights off", "gap",
               "iterations", "seconds"]  # fmt: skip
    rows = []
    for way in given.ways.split(","):
        for name in SETS:
            try:
                rows += compare(name, [way])
            except Exception:
                traceback.print_exc()
    common.report(given.name, columns, rows)


if __name__ == "__main__":
    main()
