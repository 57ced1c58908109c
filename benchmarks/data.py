"""The data sets of the benchmarks: real ones from a directory, and made ones of real sizes."""

import lzma
import os
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from sklearn.preprocessing import MaxAbsScaler

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("TOPPUSH_SHARED", ROOT.parent / "shared"))
CACHE = Path(__file__).resolve().parent / ".cache"

# name -> file, number of features, whether the columns are scaled here
FILES = {
    "diabetes": ("diabetes/diabetes_scale.svm.xz", 8, False),
    "spambase": ("spambase/spambase.svm.xz", 57, True),
    "w8a": ("w8a/w8a.svm.xz", 300, False),
    "nslkdd": ("nslkdd/nslkdd.svm.xz", 121, True),
    "news20 (part)": ("news20-forsale/news20-train-label7.svm.xz", 62061, False),
    "real-sim (sample)": ("real-sim/real-sim-sample3000.svm.xz", 20958, False),
    "url (sample)": ("url/url-sample.svm.xz", 3231961, False),
    "a9a": ("a9a/a9a.svm.xz", 123, False),
    "ijcnn1": ("ijcnn1/ijcnn1.svm.xz", 22, False),
    "mammography": ("mammography/mammography.svm.xz", 6, False),
    "hiv-ecfp4": ("hiv-ecfp4/hiv-ecfp4.svm.xz", 2048, False),
}


def load(name):
    """X (CSR, 32-bit indices) and y (bool) of a real or made data set."""
    if name.startswith("made"):
        return made(name)
    CACHE.mkdir(exist_ok=True)
    cached = CACHE / f"{name.split()[0]}.npz"
    if not cached.exists():
        np.savez(cached, **_read(*FILES[name]))
    parts = np.load(cached)
    X = sparse.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=parts["shape"])
    return X, parts["y"]


def _read(file, n_features, scale):
    path = SHARED / "data" / file
    if not path.exists():
        raise SystemExit(f"{path} is not there; set TOPPUSH_SHARED to the folder that holds data/.")
    with lzma.open(path, "rb") as handle:
        X, y = load_svmlight_file(handle, n_features=n_features, zero_based=False)
    X = sparse.csr_array(MaxAbsScaler().fit_transform(X) if scale else X)
    return {
        "data": X.data,
        "indices": X.indices.astype(np.int32),
        "indptr": X.indptr.astype(np.int32),
        "shape": X.shape,
        "y": y > 0,
    }


MADE = {
    # rows, columns, stored entries a row, share of positives
    "made like real-sim": (72_309, 20_958, 51, 22_238 / 72_309),
    "made like url": (2_396_130, 3_231_961, 116, 792_145 / 2_396_130),
}


def made(name, *, n_rows=None, seed=0):
    """Sparse data with the sizes of a real set: power-law columns, a few that carry the class."""
    full, n_columns, per_row, share = MADE[name]
    n_rows = full if n_rows is None else n_rows
    rng = np.random.default_rng(seed)
    y = rng.random(n_rows) < share
    indices = np.empty(n_rows * per_row, np.int32)
    step = 200_000
    for first in range(0, n_rows, step):
        last = min(first + step, n_rows)
        uniform = rng.random((last - first, per_row), dtype=np.float32)
        columns = (n_columns * uniform**3).astype(np.int32)  # density falls as column^(-2/3)
        told, part = y[first:last, None], columns[:, : per_row // 4]
        part[:] = np.where(told, part | 1, part & ~1)  # a quarter of the entries tell the class
        noisy = rng.random(last - first) < 0.1
        part[noisy] ^= rng.integers(0, 2, (int(noisy.sum()), 1), dtype=np.int32)
        np.minimum(columns, n_columns - 1, out=columns)
        columns.sort(axis=1)
        indices[first * per_row : last * per_row] = columns.ravel()
    data = np.full(n_rows * per_row, 1.0 / np.sqrt(per_row))
    indptr = np.arange(0, n_rows * per_row + 1, per_row, dtype=np.int64)
    if indptr[-1] < 2**31:
        indptr = indptr.astype(np.int32)
    X = sparse.csr_array((n_rows, n_columns))
    X.data, X.indices = data, indices.astype(indptr.dtype, copy=False)
    X.indptr = indptr
    return X, y
