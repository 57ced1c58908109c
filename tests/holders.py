"""Every way to hold rows, in one list: the laws of `test_design_laws.py` run over all of it.

A new backend is a line in `HOLDERS`: a name, a function from an array and a folder to what a user
would give as X, and what `TopPush` is told beside it.
"""

import gc
import tracemalloc
import warnings
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from toppush import TopPush, on_disk
from toppush.designs import in_memory, local, place
from toppush.designs.disk import rows as disk

CHUNK = 70
"""Rows of a partition."""


def made(kind, rng, n_rows=300, n_columns=12, share=0.3):
    """Classes that overlap, such that no top has weights of zero as its solution."""
    positive = rng.random(n_rows) < share
    X = rng.normal(size=(n_rows, n_columns))
    X[positive, :4] += 2.0
    if kind == "dense":
        return X, positive
    X[rng.random(X.shape) < 0.5] = 0.0
    return sparse.csr_array(X), positive


# Fits.


def solved(X, y, sample_weight=None, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=UserWarning)
        return TopPush(**given).fit(X, y, sample_weight).solution_


def check_same(one, other, rel=1e-9):
    """Two solutions, up to the rounding of sums; a cluster keeps no dual."""
    assert (one.n_iter, one.status) == (other.n_iter, other.status)
    assert one.upper == pytest.approx(other.upper, rel=rel)
    assert one.lower == pytest.approx(other.lower, rel=rel)
    assert one.threshold == pytest.approx(other.threshold, rel=rel, abs=rel)
    assert type(one.weights) is type(one.dual) is np.ndarray
    assert_allclose(one.weights, other.weights, rtol=0, atol=rel * np.linalg.norm(other.weights))
    if one.dual.size:
        assert_allclose(one.dual, other.dual, rtol=0, atol=1e3 * rel * np.abs(other.dual).max())


def peak_of(work):
    """Bytes beyond those at the start; NumPy tells tracemalloc of its arrays."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


# Arrays and matrices in memory.


def memory_mapped(X, folder):
    path = folder / "mapped.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def with_wide_indices(X):
    wide = sparse.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    return wide


def with_duplicates(X):
    """Each entry as two halves."""
    tidy = sparse.csr_array(X)
    halves = np.repeat(tidy.data / 2.0, 2), np.repeat(tidy.indices, 2)
    return sparse.csr_array((*halves, 2 * tidy.indptr), tidy.shape)


def unsorted(X):
    """Each row's entries in reverse."""
    tidy = sparse.csr_array(X)
    order = np.concatenate(
        [np.arange(stop - 1, start - 1, -1) for start, stop in pairwise(tidy.indptr)]
    )
    mixed = sparse.csr_array((tidy.data[order], tidy.indices[order], tidy.indptr), tidy.shape)
    assert not mixed.has_sorted_indices
    return mixed


# Files.


def write_arrow(path, X, rows_per_batch=37, **options):
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow, the extra [files]")
    from pyarrow import feather

    table = pa.table({f"column {number}": X[:, number] for number in range(X.shape[1])})
    feather.write_feather(table, path, chunksize=rows_per_batch, **options)


def saved(X, folder, form=None):
    """A file of the rows, opened with memory enough."""
    form = form or ("folder" if sparse.issparse(X) else "npy")
    path = folder / f"rows.{form}"
    if form == "npy":
        np.save(path, X)
    elif form == "npz":
        sparse.save_npz(path, sparse.csr_array(X), compressed=False)
    elif form == "arrow":
        write_arrow(path, X)
    else:
        path.mkdir()
        X = sparse.csr_array(X)
        for name in ("data", "indices", "indptr"):
            np.save(path / f"{name}.npy", getattr(X, name))
        np.save(path / "shape.npy", X.shape)
    return on_disk.open(path, "64GiB")


# Tensors.


def tensor(X, device="cpu", dtype=None):
    import torch

    if not sparse.issparse(X):
        return torch.tensor(X, dtype=dtype, device=device)
    parts = (torch.tensor(part, device=device) for part in (X.indptr, X.indices))
    return torch.sparse_csr_tensor(
        *parts, torch.tensor(X.data, dtype=dtype, device=device), X.shape
    )


def devices():
    """Those that torch has; the processor also without torch, for its tests to skip by name."""
    if find_spec("torch") is None:
        return ["cpu"]
    import torch

    return ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


# Partitions.


def lazy(X, chunk=CHUNK):
    """X as a Dask array, its blocks CSR matrices if it is one."""
    import dask.array as da

    if not sparse.issparse(X):
        return da.from_array(X, chunks=(chunk, -1))
    return da.from_array(X.toarray(), chunks=(chunk, -1)).map_blocks(sparse.csr_matrix)


def lazy_frame(X):
    import dask.dataframe as dd
    import pandas as pd

    names = [f"c{number}" for number in range(X.shape[1])]
    return dd.from_pandas(pd.DataFrame(X, columns=names), npartitions=4)


# All of them.


class Holder(NamedTuple):
    """A way to hold rows.

    Attributes
    ----------
    hold : callable
        What a user gives as X, from an array of float64 or float32 and a folder.
    options : dict
        Of `TopPush`.
    dtype : type
        Of the array.
    needs : str
        What must be installed.
    """

    name: str
    hold: object
    options: dict = {"n_jobs": 1}  # noqa: RUF012 - never changed
    dtype: type = np.float64
    needs: str = "numpy"

    @property
    def is_single(self):
        return self.dtype == np.float32

    @property
    def in_memory(self):
        return self.needs == "numpy"

    def held(self, X, folder):
        return self.hold(X.astype(self.dtype), folder)


def _both(name, hold, **about):
    """A way for float64 and for float32."""
    return [
        Holder(name, hold, **about),
        Holder(f"{name} float32", hold, dtype=np.float32, **about),
    ]


def as_csr(X, folder=None):
    return sparse.csr_array(X)


def on_device(device):
    """Arrays that `device=` puts there, and tensors that are there."""
    given, about = {"device": device}, {"options": {}, "needs": "torch"}
    return [
        Holder(f"dense, device={device}", lambda X, folder: X, given, needs="torch"),
        Holder(f"CSR, device={device}", as_csr, given, needs="torch"),
        *_both(f"tensor on {device}", lambda X, folder: tensor(X, device), **about),
        *_both(f"CSR tensor on {device}", lambda X, folder: tensor(as_csr(X), device), **about),
    ]


HOLDERS = [
    *_both("dense C", lambda X, folder: np.ascontiguousarray(X)),
    *_both("dense F", lambda X, folder: np.asfortranarray(X)),
    Holder("dense with strides", lambda X, folder: np.repeat(X, 2, axis=0)[::2]),
    *_both("dense in 5 blocks", lambda X, folder: X, options={"n_jobs": 5}),
    *_both("memory-mapped", memory_mapped),
    *_both("CSR array", as_csr),
    *_both("CSR in 5 blocks", as_csr, options={"n_jobs": 5}),
    Holder("CSR in 20 blocks", as_csr, {"n_jobs": 20}),
    Holder("CSR matrix", lambda X, folder: sparse.csr_matrix(X)),
    Holder("CSR int64", lambda X, folder: with_wide_indices(X)),
    Holder("CSR unsorted", lambda X, folder: unsorted(X)),
    Holder("CSR with duplicates", lambda X, folder: with_duplicates(X)),
    *_both("NPY file", lambda X, folder: saved(X, folder, "npy"), needs="file"),
    *_both("CSR folder", lambda X, folder: saved(X, folder, "folder"), needs="file"),
    *_both("NPZ file", lambda X, folder: saved(X, folder, "npz"), needs="file"),
    *_both("Arrow file", lambda X, folder: saved(X, folder, "arrow"), needs="file"),
    *(holder for device in devices() for holder in on_device(device)),
    *_both("Dask array", lambda X, folder: lazy(X), options={}, needs="distributed"),
    *_both("Dask CSR", lambda X, folder: lazy(as_csr(X)), options={}, needs="distributed"),
    Holder("Dask frame", lambda X, folder: lazy_frame(X), {}, needs="distributed"),
]

VARIANTS = {
    "dense F", "dense F float32", "dense with strides", "dense in 5 blocks float32",
    "memory-mapped float32", "CSR in 5 blocks float32", "CSR in 20 blocks", "CSR matrix",
    "CSR int64", "CSR unsorted", "CSR folder float32", "NPZ file", "NPZ file float32",
    "Arrow file float32", "Dask array float32", "Dask CSR", "Dask CSR float32", "Dask frame",
}  # fmt: skip
"""Those that differ from another only in the layout or the type of their rows: what holds of
products runs on them in every test run, whole fits are long."""


def small_parts(monkeypatch):
    """Sums in many parts of few rows: any block pays, and sparse stays sparse."""
    monkeypatch.setattr(local, "ENTRIES_PER_THREAD", 1)
    monkeypatch.setattr(local, "SMALL", 0)
    monkeypatch.setattr(in_memory, "SINGLE_ROWS", 7)
    monkeypatch.setattr(in_memory, "SHORT_ROWS", 7)
    monkeypatch.setattr(in_memory, "GRAM_ENTRIES", 840)
    monkeypatch.setattr(disk, "BLOCK", 6000)
    monkeypatch.setattr(disk, "SMALLEST_BLOCK", 6000)
    monkeypatch.setattr(disk, "SKIPPED", 200)
    if find_spec("torch") is not None:
        from toppush.designs.torch import rows as torch_rows

        monkeypatch.setattr(torch_rows, "SINGLE_ROWS", 70)
        monkeypatch.setattr(torch_rows, "GRAM_ENTRIES", 840)
        monkeypatch.setattr(torch_rows, "PART_ENTRIES", 840)


@contextmanager
def opened(X, positive, sample_weight=None, n_jobs=None, device=None):
    """The design that a fit would work on."""
    rows = place(X, device)
    weight = None if sample_weight is None else rows.weights(sample_weight)
    mask = rows.mask(rows.labels(positive), True)
    with rows.design(mask, weight, n_jobs=n_jobs) as design:
        yield design
