"""The data sets of the benchmarks: real ones from a directory, and made ones of real sizes."""

import os
from pathlib import Path

import numpy as np
from scipy import sparse

from reproduce import datasets

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("TOPPUSH_SHARED", ROOT.parent / "shared"))
DATA = SHARED / "data" if SHARED.exists() else None
CACHE = Path(__file__).resolve().parent / ".cache"

# What the tables call them -> names in reproduce.datasets.
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
OTHER_FILES = {"hiva": "hiva", "cover": "cover"}
RAW_TABLES = ("bank-marketing", "give-me-some-credit")
FEW_COLUMNS = 70
"""Up to which rows that trees take are dense."""
MADE = {
    "made like real-sim": "made-real-sim",
    "made like url": "made-url",
    "degenerate, like real-sim": "degenerate-real-sim",
    "degenerate, like url": "degenerate-url",
}


def load(name):
    """X (CSR, 32-bit indices) and y (bool) of a real or made data set; real ones are cached."""
    if name in MADE:
        return made(name)
    CACHE.mkdir(exist_ok=True)
    cached = CACHE / f"{name.split()[0]}.npz"
    if not cached.exists():
        found = datasets.load((FILES | OTHER_FILES)[name], DATA)
        X = found.scaled()
        arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
        np.savez(cached, **arrays, y=found.y)
    parts = np.load(cached)
    X = sparse.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=parts["shape"])
    return X, parts["y"]


def load_frame(name):
    """A raw table as a data frame with strings as categories, and y (bool)."""
    table = datasets.load_table(name, DATA)
    strings = table.X.select_dtypes(exclude="number").columns
    return table.X.astype(dict.fromkeys(strings, "category")), table.y


def load_for_trees(name):
    """X and y (bool) as trees take them: a data frame, an array, or a sparse matrix."""
    if name in RAW_TABLES:
        return load_frame(name)
    X, y = load(name)
    return (X.toarray() if X.shape[1] <= FEW_COLUMNS else sparse.csr_matrix(X)), np.asarray(y)


def made(name, **given):
    """Sparse data with the sizes of a real set."""
    return datasets.made(MADE[name], **given)
