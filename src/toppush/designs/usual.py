"""Rows in float64, neither huge nor tiny nor far from zero, for solvers that need them so.

A power of two costs no digit, and a shift that all rows share is exact where they lie so far off
that they need it.
"""

from typing import cast

import numpy as np
from numpy.typing import NDArray

from toppush.designs.in_memory import DenseRows, SparseRows, largest_entry
from toppush.designs.local import rows_of
from toppush.designs.rows import Scaling
from toppush.types import Array, Matrix

USUAL = 2.0**32
"""Rows whose largest entry lies within this factor of 1 keep their size."""
FAR_OFF = 1024.0
"""A column whose middle is so many of its ranges from zero is centred, or loses three digits."""


def usual_rows(X: Matrix) -> tuple[Matrix, Scaling]:
    """Rows in a usual form, a copy only if they must change, and that form; X is read twice."""
    rows = cast(DenseRows | SparseRows, rows_of(X))
    form = usual_form(X) if rows.can_center else Scaling(usual_scale(rows.largest()))
    return (rows.in_double() if form.is_identity else rows.rescaled(form)).matrix(), form


def usual_form(X: NDArray[np.floating]) -> Scaling:
    """The form in which columns far from zero are centred, and the entries of a usual size."""
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    middle = 0.5 * low + 0.5 * high
    far_off = np.abs(middle) > FAR_OFF * (high - low)
    centre: Array = np.where(far_off, middle, 0.0)
    scale = usual_scale(largest_entry(np.stack([low - centre, high - centre])))
    return Scaling(scale, scale * centre if far_off.any() else None)


def usual_scale(largest: float) -> float:
    """The power of two that brings the largest entry to between 1/2 and 1.

    1 if that entry is of a usual size, from 2^-32 to 2^32, or if all are zero: then nothing is
    near overflow, and nothing need be copied.
    """
    if not largest or 1.0 / USUAL <= largest <= USUAL:
        return 1.0
    return float(np.ldexp(1.0, -int(np.frexp(largest)[1])))
