"""Whether products and fits on a GPU are right, and what the pieces of an iteration take.

python -m benchmarks.gpu_check                              # on a GPU; needs no pytest
python -m benchmarks.gpu_check --device cpu --scale 0.05    # a rehearsal on the processor

The checks are also those of tests/test_gpu.py.
"""

import argparse
import time
import traceback
import warnings
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import torch
from numpy.testing import assert_allclose

from benchmarks.gpu import timed
from reproduce import datasets
from toppush import TopPush
from toppush.designs.torch import panels
from toppush.designs.torch import rows as gpu
from toppush.designs.torch.arrays import arrays_on

HEAVY = 3000
TOL = 1e-4


def rows_like_url(n_rows, n_columns=None, dtype=np.float64):
    """Rows with a signal, and their labels."""
    X, y = datasets.made("made-url", n_rows=n_rows, n_columns=n_columns)
    return X.astype(dtype), y


def solved(X, y, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TopPush(lam=0.1, tol=TOL, **given).fit(X, y).solution_


# ---- checks


def heavy_products(device, scale):
    """Products among heavy rows in millions of columns, with numbers of 32 and of 64 bits."""
    X, _ = rows_like_url(int(HEAVY * scale))
    rows = gpu.place(X, device)
    wide = panels.CsrEntries(*(part.long() for part in rows._entries[:2]), rows.values)
    wide = gpu.SparseTensorRows(wide, X.shape[1])
    some = np.arange(0, X.shape[0], 7)
    for kind in (rows, wide):
        check_products(kind.inner_products(kind), X, X)
        check_products(kind.subset(some).inner_products(kind), X[some], X)


def check_products(found, one, other):
    wanted = (one @ other.T).toarray()
    assert_allclose(found.cpu().numpy(), wanted, rtol=1e-12, atol=1e-12)


def smaller_panels(device, scale):
    """Panels shrink where the device is full: really on a GPU, simulated on the processor."""
    X, _ = rows_like_url(int(HEAVY * scale))
    rows, tried, in_panels = gpu.place(X, device), [], panels.in_panels

    def recorded(work, entries):
        return in_panels(lambda size: tried.append(size) or work(size), entries)

    with patch.object(panels, "in_panels", recorded), nearly_full(device):
        found = rows.inner_products(rows)
    assert len(tried) > 1, "the first panel was not refused"
    check_products(found, X, X)


@contextmanager
def nearly_full(device):
    """Leave a GiB of a GPU; on the processor refuse the first panel."""
    if device == "cuda":
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 2**30) / total)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        return
    panel, refused = panels._panel, [torch.cuda.OutOfMemoryError("no room")]

    def first_refused(*given):
        if refused:
            raise refused.pop()
        return panel(*given)

    with patch.object(panels, "_panel", first_refused):
        yield


def same_optimum(device, scale):
    """A fit to wide rows ends where that of the processor does, of either type and top."""
    for dtype in (np.float64, np.float32):
        X, y = rows_like_url(int(50_000 * scale), int(500_000 * scale), dtype)
        for top in (1, 0.01):
            agree(solved(X, y, top=top, device=device), solved(X, y, top=top))


def agree(one, other):
    assert one.status.name == other.status.name == "CONVERGED", (one.status, other.status)
    assert abs(one.upper - other.upper) <= TOL * other.upper, (one.upper, other.upper)
    assert max(one.lower, other.lower) <= min(one.upper, other.upper) * (1.0 + 1e-9)


def little_room(device, scale):
    """A fit without free memory keeps no copies and finds the same optimum."""
    X, y = rows_like_url(int(10_000 * scale), int(100_000 * scale))
    rows, roomy = gpu.place(X, device), solved(X, y, top=3, device=device)
    none = {"new": lambda device: 0.0}
    with (
        patch.object(gpu, "free_bytes", **none),
        patch.object(gpu, "MANY", 0),
    ):
        agree(solved(rows, y, top=3), roomy)
    assert "_transpose" not in vars(rows), "a copy by columns was kept"


def says_so(device, scale):
    """A fit that finds no room says what to do."""
    X, y = rows_like_url(1000, 5000)

    def refuse(*given):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    with patch.object(gpu.SparseTensorRows, "combine", refuse):
        try:
            solved(X, y, device=device)
            said = ""
        except MemoryError as error:
            said = str(error)
    assert "found no room" in said, "a fit without room ended as if it had some"
    assert "give fewer rows" in said


CHECKS = [heavy_products, smaller_panels, same_optimum, little_room, says_so]


# ---- pieces


def pieces(device, scale):
    """Milliseconds of what an iteration with many heavy negatives is made of."""
    X, _ = rows_like_url(int(HEAVY * scale))
    rows, xp = gpu.place(X, device), arrays_on(torch.device(device))
    products = rows.inner_products(rows)
    xp.diagonal(products)[:] += 1.0
    factor, vector = xp.cholesky(products)[0], xp.zeros(X.shape[0]) + 1.0
    along, solve = xp.zeros(X.shape[1]) + 1.0, xp.solver(factor)
    some = xp.asarray(np.arange(0, X.shape[0], 2))
    return {
        "products among all": lambda: rows.inner_products(rows),
        "products of a tenth": lambda: rows.subset(some[::5]).inner_products(rows),
        "factor": lambda: xp.cholesky(products),
        "inverse of the factor": lambda: xp.solver(factor),
        "solved by the factor": lambda: xp.cholesky_solve(factor, vector),
        "solved by its inverse": lambda: solve(vector),
        "half of the rows": lambda: rows.subset(some),
        "their copy by columns": lambda: rows._entries.transposed(X.shape[1]),
        "X v": lambda: rows.scores(along),
        "X'u": lambda: rows.combine(vector),
        "X'u, entries added": lambda: panels.added(rows._entries, vector, X.shape[1]),
        "a number fetched": lambda: xp.floats([vector[0]]),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows")
    options = parser.parse_args()
    failed = [check.__name__ for check in CHECKS if not passed(check, options)]
    for name, work in pieces(options.device, options.scale).items():
        timed(work, 2)
        print(f"{1e3 * timed(work, 10)[0]:10.3f} ms  {name}", flush=True)
    raise SystemExit(f"failed: {failed}" if failed else 0)


def passed(check, options):
    """Whether a check holds; says how long it took."""
    began = time.perf_counter()
    try:
        check(options.device, options.scale)
    except Exception:
        traceback.print_exc()
        return False
    print(f"{time.perf_counter() - began:8.1f} s  {check.__name__} holds", flush=True)
    return True


if __name__ == "__main__":
    main()
