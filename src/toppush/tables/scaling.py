"""Scalers of the columns, as scikit-learn has them."""

from typing import Any

import numpy as np
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from toppush.matrices import column_sizes
from toppush.types import Array, Matrix

SCALES = ("maxabs", "standard", "none")


def scaler_of(scale: str, *, copy: bool) -> MaxAbsScaler | StandardScaler | None:
    """The scaler by its name; `copy` if it may not write over the rows that it is given."""
    if scale == "maxabs":
        return MaxAbsScaler(copy=copy)
    if scale == "standard":
        # A shift of all rows changes no ranking, and would fill sparse rows.
        return StandardScaler(copy=copy, with_mean=False)
    if scale != "none":
        raise ValueError(f"scale is {scale!r}; give one of {', '.join(SCALES)}.")
    return None


def fit_transform(step: Any, X: Matrix) -> Matrix:
    """As the step has it; a dense matrix is not copied to find the sizes of its columns."""
    if isinstance(step, MaxAbsScaler) and isinstance(X, np.ndarray):
        sizes = column_sizes(X)
        if np.isfinite(sizes).all():
            return by_sizes(step, sizes.astype(X.dtype), len(X)).transform(X)
    return step.fit_transform(X)


def by_sizes(scaler: MaxAbsScaler, sizes: Array, n_rows: int) -> MaxAbsScaler:
    """A scaler as if it had been fitted to so many rows with these greatest sizes of columns."""
    scaler.fit(sizes[None, :])
    scaler.n_samples_seen_ = n_rows
    return scaler
