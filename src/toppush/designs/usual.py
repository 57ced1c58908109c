"""Rows in float64, neither huge nor tiny nor far from zero, for solvers that need them so.

A power of two costs no digit, and a shift that all rows share is exact where they lie so far off
that they need it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from toppush.types import Array

USUAL = 2.0**32
"""Rows whose largest entry lies within this factor of 1 keep their size."""
FAR_OFF = 1024.0
"""A column whose middle is so many of its ranges from zero is centred, or loses three digits."""


class UsualRows(NamedTuple):
    """scale (X - center); X itself where that is usual already."""

    X: Any
    scale: float
    center: Array | None


def usual_rows(X: Any) -> UsualRows:
    """Read an array or a sparse matrix once or twice; copy it only if it must change."""
    X, center = X.astype(np.float64, copy=False), None if sparse.issparse(X) else _center(X)
    centred = X if center is None else X - center
    scale = power_of_two_scale(centred.data if sparse.issparse(centred) else centred)
    return UsualRows(centred if scale == 1.0 else centred * scale, scale, center)


def power_of_two_scale(entries: NDArray[Any]) -> float:
    """The power of two that brings the largest entry to between 1/2 and 1.

    1 if that entry is of a usual size, from 2^-32 to 2^32, or if all are zero: then nothing is
    near overflow, and nothing need be copied.
    """
    largest = max(float(np.max(entries, initial=0.0)), -float(np.min(entries, initial=0.0)))
    if not largest or 1.0 / USUAL <= largest <= USUAL:
        return 1.0
    return float(np.ldexp(1.0, -int(np.frexp(largest)[1])))


def _center(X: NDArray[Any]) -> Array | None:
    """The middles of the columns that are far from zero, else 0; None if no column is."""
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    middle = 0.5 * low + 0.5 * high
    far_off = np.abs(middle) > FAR_OFF * (high - low)
    return np.where(far_off, middle, 0.0) if far_off.any() else None
