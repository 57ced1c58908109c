"""Made data with the statistics of real sets, for runs at their scale."""

import numpy as np
from scipy import sparse

from toppush.datasets.reading import LabelledMatrix

MADE = {
    # rows, columns, stored entries a row, share of positives
    "made-real-sim": (72_309, 20_958, 51, 22_238 / 72_309),
    "made-url": (2_396_130, 3_231_961, 116, 792_145 / 2_396_130),
}
ROWS_AT_A_TIME = 200_000


def made(name: str, *, n_rows: int | None = None, seed: int = 0) -> LabelledMatrix:
    """Sparse rows with the sizes of a real set: power-law columns, a few that carry the class.

    Parameters
    ----------
    name : {"made-real-sim", "made-url"}
    n_rows : int, optional
        By default as many as the real set has.
    seed : int
    """
    full, n_columns, per_row, share = MADE[name]
    n_rows = full if n_rows is None else n_rows
    rng = np.random.default_rng(seed)
    y = rng.random(n_rows) < share
    indices = np.empty(n_rows * per_row, np.int32)
    for first in range(0, n_rows, ROWS_AT_A_TIME):
        last = min(first + ROWS_AT_A_TIME, n_rows)
        uniform = rng.random((last - first, per_row), dtype=np.float32)
        columns = (n_columns * uniform**3).astype(np.int32)  # density falls as column^(-2/3)
        told, part = y[first:last, None], columns[:, : per_row // 4]
        part[:] = np.where(told, part | 1, part & ~1)  # a quarter of the entries tell the class
        noisy = rng.random(last - first) < 0.1
        part[noisy] ^= rng.integers(0, 2, (int(noisy.sum()), 1), dtype=np.int32)
        np.minimum(columns, n_columns - 1, out=columns)
        columns.sort(axis=1)
        indices[first * per_row : last * per_row] = columns.ravel()
    indptr = np.arange(0, n_rows * per_row + 1, per_row, dtype=np.int64)
    if indptr[-1] < 2**31:
        indptr = indptr.astype(np.int32)
    X = sparse.csr_array((n_rows, n_columns))
    X.data = np.full(n_rows * per_row, 1.0 / np.sqrt(per_row))
    X.indices, X.indptr = indices.astype(indptr.dtype, copy=False), indptr
    return LabelledMatrix(X, y)
