"""Validation of rows, with errors that name the columns that hold no numbers."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import validate_data

from toppush.designs.number_texts import is_missing
from toppush.types import Matrix

SHOWN = 5
"""Columns that an error names."""


def validated(estimator: BaseEstimator, X: Matrix, y: Any = "no_validation", **how: Any) -> Any:
    """As scikit-learn's `validate_data`; columns that hold no numbers are named in the error."""
    require_columns(X)
    try:
        return validate_data(estimator, X, y, **how)
    except (TypeError, ValueError) as error:
        if not (columns := not_numeric(X)):
            raise
        shown = ", ".join(f"{name!r} (such as {value!r})" for name, value in columns[:SHOWN])
        more = f" and {len(columns) - SHOWN} more" * (len(columns) > SHOWN)
        raise ValueError(
            f"{type(estimator).__name__} needs numbers, and X holds others in column "
            f"{shown}{more}. Encode them, for example with OneHotEncoder of scikit-learn, or use "
            "TopRanker, which takes strings, categories and dates as they are."
        ) from error


def require_columns(X: Any) -> None:
    """Refuse rows without columns."""
    shape: tuple[int, ...] = tuple(getattr(X, "shape", ()))
    if len(shape) == 2 and shape[1] == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is "
            "required: X has no columns; name or add some."
        )


def not_numeric(X: Any) -> list[tuple[Any, Any]]:
    """Names of the columns that hold strings or dates, each with the first of them."""
    if np.ndim(X) != 2 and len(getattr(X, "shape", ())) != 2:
        return []
    X = X if hasattr(X, "shape") else np.asarray(X)
    names = getattr(X, "column_names", getattr(X, "columns", range(X.shape[1])))
    if getattr(getattr(X, "dtype", None), "kind", "O") not in "OUM":
        return []
    found = ((name, _first_other(X, number)) for number, name in enumerate(names))
    return [(name, value) for name, value in found if value is not None]


def _first_other(X: Any, number: int) -> Any:
    """The first value of a column that is a string or a date, and no number."""
    values = np.asarray(_safe_indexing(X, number, axis=1))
    if values.dtype.kind == "M":
        return str(values[0])
    if values.dtype.kind not in "OU":
        return None
    return next((one for one in values.tolist() if _is_other(one)), None)


def _is_other(value: Any) -> bool:
    if not isinstance(value, str):
        return not is_missing(value) and hasattr(value, "year")
    try:
        float(value)
    except ValueError:
        return True
    return False
