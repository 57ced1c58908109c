"""What rounding can do to a sum at most, by which bounds are rounded outward.

A sum of n products in float64 is off by at most n u / (1 - n u) times the sum of their sizes,
u = 2^-53, in whatever order they are added (Higham, Accuracy and Stability, section 3.1).
"""

import numpy as np

UNIT = 0.5 * float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)
"""More than what underflows in a sum."""
SUMMED = 256
"""Roundings in NumPy's sum of a vector, which adds halves, and in the few steps around it."""


def grown(n_roundings: float, unit: float = UNIT) -> float:
    """Relative error after this many roundings and a few more."""
    total = (n_roundings + 16.0) * unit
    return total / (1.0 - total)
