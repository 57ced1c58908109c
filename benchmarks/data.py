"""The data sets of the benchmarks: real ones from a directory, and made ones of real sizes."""

import os
from pathlib import Path

import numpy as np
from scipy import sparse

from toppush import datasets

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("TOPPUSH_SHARED", ROOT.parent / "shared"))
CACHE = Path(__file__).resolve().parent / ".cache"

# What the tables call them -> names in toppush.datasets.
FILES = {
    "diabetes": "diabetes",
    "spambase": "spambase",
    "w8a": "w8a",
    "nslkdd": "nslkdd",
    "news20 (part)": "news20-forsale",
    "real-sim (sample)": "real-sim",
    "url (sample)": "url",
    "a9a": "a9a",
    "ijcnn1": "ijcnn1",
    "mammography": "mammography",
    "hiv-ecfp4": "hiv-ecfp4",
}
MADE = {"made like real-sim": "made-real-sim", "made like url": "made-url"}


def load(name):
    """X (CSR, 32-bit indices) and y (bool) of a real or made data set; real ones are cached."""
    if name in MADE:
        return made(name)
    CACHE.mkdir(exist_ok=True)
    cached = CACHE / f"{name.split()[0]}.npz"
    if not cached.exists():
        found = datasets.load(FILES[name], SHARED / "data" if SHARED.exists() else None)
        X = found.scaled()
        arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
        np.savez(cached, **arrays, y=found.y)
    parts = np.load(cached)
    X = sparse.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=parts["shape"])
    return X, parts["y"]


def made(name, *, n_rows=None, seed=0):
    """Sparse data with the sizes of a real set."""
    return datasets.made(MADE[name], n_rows=n_rows, seed=seed)
