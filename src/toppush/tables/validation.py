"""Validation of rows, with errors that name the columns that cannot be used."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import validate_data

from toppush.matrices import column_sizes, stored
from toppush.tables.strings import is_missing
from toppush.types import Array, Matrix

SHOWN = 5
"""Columns that an error names."""
LEAST, MOST = 1e-30, float(np.finfo(np.float32).max)
"""Greatest magnitude of a column, if it is not 0."""


def validated(
    estimator: BaseEstimator,
    X: Matrix,
    y: Any = "no_validation",
    *,
    any_size: bool = False,
    **how: Any,
) -> Any:
    """scikit-learn's `validate_data`, with errors that name the columns that cannot be used.

    These are columns without numbers, and those that `require_sizes` refuses, unless the estimator
    takes numbers of any size.
    """
    require_columns(X)
    try:
        valid = validate_data(estimator, X, y, **how)
    except (TypeError, ValueError) as error:
        if not (columns := _not_numeric(X)):
            raise
        shown = ", ".join(f"{name!r} (such as {value!r})" for name, value in columns[:SHOWN])
        more = f" and {len(columns) - SHOWN} more" * (len(columns) > SHOWN)
        raise ValueError(
            f"{type(estimator).__name__} needs numbers, and X holds others in column "
            f"{shown}{more}. Encode them, for example with OneHotEncoder of scikit-learn, or use "
            "TopRanker, which takes strings, categories and dates as they are."
        ) from error
    if not any_size:
        rows = valid[0] if isinstance(valid, tuple) else valid
        require_sizes(rows, column_names(estimator), training=how.get("reset", True))
    return valid


def column_names(estimator: BaseEstimator) -> Sequence[Any]:
    """Names of the columns of X, else their positions."""
    names = getattr(estimator, "feature_names_in_", None)
    return range(estimator.n_features_in_) if names is None else names.tolist()


def require_sizes(X: Matrix, names: Sequence[Any], *, training: bool = False) -> None:
    """Refuse numbers whose magnitude single precision cannot hold.

    Trees, forests and networks keep numbers in single precision, LightGBM takes what is below
    1e-35 for 0, and squares of 1e155 leave float64. Numbers of new rows may be smaller: compared
    with the training rows they are 0.
    """
    entries = stored(X)
    if entries.size and (
        training
        or np.fmax.reduce(entries, axis=None) > MOST
        or np.fmin.reduce(entries, axis=None) < -MOST
    ):
        refuse_sizes(column_sizes(X), names)


def refuse_sizes(sizes: Array, names: Sequence[Any]) -> None:
    """Refuse training rows by the greatest magnitude in each column, as `require_sizes` does."""
    too_large = sizes > MOST
    wrong = too_large if too_large.any() else (sizes > 0.0) & (sizes < LEAST)
    if wrong.any():
        raise SizeError({int(place): float(sizes[place]) for place in np.flatnonzero(wrong)}, names)


class SizeError(ValueError):
    """Columns whose greatest magnitudes single precision cannot hold, by number."""

    def __init__(self, sizes: Mapping[int, float], names: Sequence[Any]) -> None:
        super().__init__(sizes, names)
        self.sizes, self.names = sizes, names

    def __str__(self) -> str:
        shown = [f"{self.names[place]!r} ({size:.3g})" for place, size in self.sizes.items()]
        more = f" and {len(shown) - SHOWN} more" * (len(shown) > SHOWN)
        return (
            f"the largest magnitude of a column must be 0 or from {LEAST:g} to {MOST:.3g}, "
            f"found column {', '.join(shown[:SHOWN])}{more}. Multiply the column by a "
            "power of ten, or turn numbers that stand for missing values into NaN."
        )


def require_columns(X: Any) -> None:
    """Refuse rows without columns."""
    shape: tuple[int, ...] = tuple(getattr(X, "shape", ()))
    if len(shape) == 2 and shape[1] == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is "
            "required: X has no columns; name or add some."
        )


def _not_numeric(X: Any) -> list[tuple[Any, Any]]:
    """Names of the columns that hold strings or dates, each with the first of them."""
    if np.ndim(X) != 2 and len(getattr(X, "shape", ())) != 2:
        return []
    X = X if hasattr(X, "shape") else np.asarray(X)
    names = getattr(X, "column_names", getattr(X, "columns", range(X.shape[1])))
    if getattr(getattr(X, "dtype", None), "kind", "O") not in "OUM":
        return []
    firsts = ((name, _first_other(X, number)) for number, name in enumerate(names))
    return [(name, value) for name, value in firsts if value is not None]


def _first_other(X: Any, number: int) -> Any:
    """The first value of a column that is a string or a date, and no number."""
    values = np.asarray(_safe_indexing(X, number, axis=1))
    if values.dtype.kind == "M":
        return str(values[0])
    if values.dtype.kind not in "OU":
        return None
    for value in values.tolist():
        if isinstance(value, str):
            try:
                float(value)
            except ValueError:
                return value
        elif not is_missing(value) and hasattr(value, "year"):
            return value
    return None
