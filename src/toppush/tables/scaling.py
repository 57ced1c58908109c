"""Scalers of the columns: those of scikit-learn by name, and that of networks."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from toppush.matrices import column_sizes, dense
from toppush.types import Array, Matrix

SCALES = ("maxabs", "standard", "none")
PART_ROWS = 2048
"""Rows made dense at once."""


def scaler_of(scale: str, *, copy: bool) -> MaxAbsScaler | StandardScaler | None:
    """The scaler with a name; without `copy` it may overwrite the rows."""
    if scale == "maxabs":
        return MaxAbsScaler(copy=copy)
    if scale == "standard":
        # A shift of all rows changes no ranking, and would fill sparse rows.
        return StandardScaler(copy=copy, with_mean=False)
    if scale != "none":
        raise ValueError(f"scale is {scale!r}; give one of {', '.join(SCALES)}.")
    return None


def fit_transform(step: Any, X: Matrix) -> Matrix:
    """The step's own result; a dense matrix is not copied to find the sizes of its columns."""
    if isinstance(step, MaxAbsScaler) and isinstance(X, np.ndarray):
        sizes = column_sizes(X)
        if np.isfinite(sizes).all():
            return by_sizes(step, sizes.astype(X.dtype), len(X)).transform(X)
    return step.fit_transform(X)


def by_sizes(scaler: MaxAbsScaler, sizes: Array, n_rows: int) -> MaxAbsScaler:
    """Fit a scaler to the greatest magnitudes of the columns of `n_rows` rows."""
    scaler.fit(sizes[None, :])
    scaler.n_samples_seen_ = n_rows
    return scaler


@dataclass(frozen=True)
class AsinhScaler:
    """Standardises columns and then takes asinh, which draws in extreme values."""

    mean: Array
    scale: Array

    @classmethod
    def of(cls, X: Matrix) -> Self:
        """Fit in two passes over X, some rows at a time."""
        parts = [slice(at, at + PART_ROWS) for at in range(0, X.shape[0], PART_ROWS)]
        total = sum(dense(X[part]).sum(axis=0, dtype=np.float64) for part in parts)
        mean = np.asarray(total / X.shape[0])
        squares = sum(((dense(X[part]) - mean) ** 2).sum(axis=0) for part in parts)
        scale = np.sqrt(squares / X.shape[0])
        varies = scale > 1e-12 * np.abs(mean)
        return cls(mean, np.where(varies, scale, 1.0))

    def transform(self, rows: Matrix) -> Array:
        """Scaled dense rows."""
        return np.asarray(np.arcsinh((rows - self.mean) / self.scale))
