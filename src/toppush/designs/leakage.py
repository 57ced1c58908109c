"""Columns that alone rank almost perfectly, and so may hold the label itself."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toppush.types import Array, Mask, Where

MOST_ROWS = 10_000
"""Rows of each class that are looked at, evenly spread over all."""
N_BINS = 64
"""Bins of a column of numbers; each holds a 64th of the rows, or a value that more rows share."""
SMOOTHING = 1.0
"""Rows with the mean rate of positives that are added to those of a bin."""


class Separation(NamedTuple):
    """How well one column alone separates the classes."""

    auc: float
    average_precision: float
    pure: float


def rows_for(positive: Mask) -> Where:
    """Rows to look at: at most `MOST_ROWS` of each class, in their order."""
    classes = np.flatnonzero(positive), np.flatnonzero(~positive)
    return np.sort(np.concatenate([_spread(rows) for rows in classes]))


def _spread(rows: Where) -> Where:
    places = np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(np.intp)
    return rows[places]


def separation(
    values: Array, positive: Mask, negative_weight: float = 1.0, *, is_category: bool = False
) -> Separation:
    bins, n_bins = binned(values, is_category)
    n = len(bins)
    half = np.random.default_rng(0).permutation(n) % 2
    cells = bins * 2 + half
    pos = np.bincount(cells[positive], minlength=2 * n_bins).astype(float)
    neg = np.bincount(cells[~positive], minlength=2 * n_bins) * negative_weight
    other_pos = pos.reshape(-1, 2)[:, ::-1].ravel()
    other_neg = neg.reshape(-1, 2)[:, ::-1].ravel()
    rate = pos.sum() / (pos.sum() + neg.sum())
    score = (other_pos + rate * SMOOTHING) / (other_pos + other_neg + SMOOTHING)
    order = np.argsort(-score, kind="stable")
    score, pos, neg = score[order], pos[order], neg[order]
    ends = np.flatnonzero(np.append(np.diff(score) != 0, True))
    tp, fp = np.cumsum(pos)[ends], np.cumsum(neg)[ends]
    P, N = tp[-1], fp[-1]
    dtp = np.diff(tp, prepend=0.0)
    dfp = np.diff(fp, prepend=0.0)
    auc = float(((tp - dtp / 2) * dfp).sum() / (P * N))
    prec = tp / np.maximum(tp + fp, 1e-300)
    ap = float((dtp * prec).sum() / P)
    pure = float(max([t for t, p in zip(tp, prec) if p >= 0.99], default=0) / P)
    return Separation(auc, ap, pure)


def binned(values: Array, is_category: bool) -> tuple[NDArray[np.intp], int]:
    missing = np.isnan(values)
    known = values[~missing]
    if is_category:
        codes, bins = np.unique(known, return_inverse=True)
        n_bins = len(codes)
    else:
        edges = np.unique(known)
        if len(edges) > N_BINS:
            edges = np.unique(np.quantile(known, np.arange(1, N_BINS) / N_BINS, method="lower"))
            # values equal to an edge have a bin of their own
            bins = np.searchsorted(edges, known, side="left") + np.searchsorted(
                edges, known, side="right"
            )
            n_bins = 2 * len(edges) + 1
        else:
            bins = np.searchsorted(edges, known)
            n_bins = len(edges)
    out = np.full(len(values), n_bins)
    out[~missing] = bins
    return out, n_bins + 1
