"""Made data with the statistics of real sets, for runs at their scale."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse

from reproduce.datasets.reading import LabelledMatrix
from toppush.types import Mask


class Size(NamedTuple):
    """What made data take over from a real set."""

    n_rows: int
    n_columns: int
    per_row: int
    """Entries drawn for a row; those that meet in a column are added up."""
    share: float
    """Of positives."""
    planted: bool = True
    """Whether the classes follow from weights, so that a ranking problem has an answer."""


REAL_SIM = Size(72_309, 20_958, 51, 22_238 / 72_309)
URL = Size(2_396_130, 3_231_961, 116, 792_145 / 2_396_130)
MADE = {
    "made-real-sim": REAL_SIM,
    "made-url": URL,
    "degenerate-real-sim": REAL_SIM._replace(planted=False),
    "degenerate-url": URL._replace(planted=False),
}
NOISE = 0.15
ROWS_AT_A_TIME = 200_000


def made(
    name: str,
    *,
    n_rows: int | None = None,
    n_columns: int | None = None,
    per_row: int | None = None,
    noise: float = NOISE,
    share: float | None = None,
    seed: int = 0,
) -> LabelledMatrix:
    """Sparse rows with the sizes of a real set, and a signal.

    Rows hold counts in columns whose frequency falls as 1 / column. Each column has a weight drawn
    from the normal distribution; the rows with the highest scores, after noise, are positive. The
    sets named degenerate have no such weights: a quarter of the entries tell the class, rows have
    length 1, and at lam = 1 weights of zero are optimal or nearly so: they say nothing about the
    time of a fit.

    Parameters
    ----------
    name : {"made-real-sim", "made-url", "degenerate-real-sim", "degenerate-url"}
    n_rows, n_columns, per_row : int, optional
        Sizes, and draws of a column for each row; by default as many as the real set has.
    noise : float
        Its deviation in deviations of the scores.
    share : float, optional
        Of positives; by default that of the real set.
    seed : int
    """
    size = MADE[name]
    size = size._replace(
        n_rows=size.n_rows if n_rows is None else n_rows,
        n_columns=size.n_columns if n_columns is None else n_columns,
        per_row=size.per_row if per_row is None else per_row,
        share=size.share if share is None else share,
    )
    rng = np.random.default_rng(seed)
    return _planted(size, noise, rng) if size.planted else _degenerate(size, rng)


def _planted(size: Size, noise: float, rng: np.random.Generator) -> LabelledMatrix:
    weights = rng.normal(size=size.n_columns)
    parts = [_counts(size, stop - start, rng) for start, stop in _parts(size.n_rows)]
    X = parts[0] if len(parts) == 1 else sparse.vstack(parts, format="csr")
    scores = X @ weights
    scores += noise * scores.std() * rng.normal(size=size.n_rows)
    n_pos = round(size.share * size.n_rows)
    y: Mask = np.zeros(size.n_rows, bool)
    y[np.argsort(scores)[size.n_rows - n_pos :]] = True
    return LabelledMatrix(X, y)


def _counts(size: Size, n_rows: int, rng: np.random.Generator) -> sparse.csr_array:
    """How often each column was drawn for each of some rows."""
    uniform = rng.random((n_rows, size.per_row))
    drawn = np.exp(uniform * np.log(size.n_columns)).astype(np.int32)  # from 1 to n_columns
    columns = np.minimum(drawn, size.n_columns) - 1
    pointers = np.arange(0, columns.size + 1, size.per_row, dtype=np.int32)
    counts = sparse.csr_array(
        (np.ones(columns.size), columns.ravel(), pointers), shape=(n_rows, size.n_columns)
    )
    counts.sum_duplicates()
    return counts


def _degenerate(size: Size, rng: np.random.Generator) -> LabelledMatrix:
    n_rows, per_row = size.n_rows, size.per_row
    y = rng.random(n_rows) < size.share
    indices = np.empty(n_rows * per_row, np.int32)
    for first, last in _parts(n_rows):
        uniform = rng.random((last - first, per_row), dtype=np.float32)
        columns = (size.n_columns * uniform**3).astype(np.int32)  # density falls as column^(-2/3)
        told, part = y[first:last, None], columns[:, : per_row // 4]
        part[:] = np.where(told, part | 1, part & ~1)  # a quarter of the entries tell the class
        noisy = rng.random(last - first) < 0.1
        part[noisy] ^= rng.integers(0, 2, (int(noisy.sum()), 1), dtype=np.int32)
        np.minimum(columns, size.n_columns - 1, out=columns)
        columns.sort(axis=1)
        indices[first * per_row : last * per_row] = columns.ravel()
    indptr = np.arange(0, n_rows * per_row + 1, per_row, dtype=np.int64)
    if indptr[-1] < 2**31:
        indptr = indptr.astype(np.int32)
    X = sparse.csr_array((n_rows, size.n_columns))
    X.data = np.full(n_rows * per_row, 1.0 / np.sqrt(per_row))
    X.indices, X.indptr = indices.astype(indptr.dtype, copy=False), indptr
    return LabelledMatrix(X, y)


def _parts(n_rows: int) -> Iterator[tuple[int, int]]:
    """From which row to which, a bounded number of rows at a time."""
    for start in range(0, n_rows, ROWS_AT_A_TIME):
        yield start, min(start + ROWS_AT_A_TIME, n_rows)
