"""Columns in the units of a network."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from toppush.matrices import dense
from toppush.types import Array, Matrix

PART_ROWS = 2048
"""Rows made dense at once."""


@dataclass(frozen=True)
class Columns:
    """Each column less its mean, over its deviation, its far ends drawn in by asinh."""

    mean: Array
    scale: Array

    @classmethod
    def of(cls, X: Matrix) -> Self:
        """Read X twice, some rows at a time."""
        parts = [slice(at, at + PART_ROWS) for at in range(0, X.shape[0], PART_ROWS)]
        total = sum(dense(X[part]).sum(axis=0, dtype=np.float64) for part in parts)
        mean = np.asarray(total / X.shape[0])
        squares = sum(((dense(X[part]) - mean) ** 2).sum(axis=0) for part in parts)
        scale = np.sqrt(squares / X.shape[0])
        usual = scale > 1e-12 * np.abs(mean)
        return cls(mean, np.where(usual, scale, 1.0))

    def transform(self, rows: Matrix) -> Array:
        """Dense rows in these units."""
        return np.asarray(np.arcsinh((rows - self.mean) / self.scale))
