"""Sizes that a model file may ask for: those of the arrays that it holds.

A forged degree, count or width would make rows of any length out of a short file. So the widest
row within a pipeline is computed from the fitted attributes of its steps before any row is made.
"""

import os
from collections.abc import Callable, Collection, Sized
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    KernelCenterer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

from toppush.matrices import is_sparse
from toppush.modelfile.archive import LARGEST
from toppush.system.errors import ModelError
from toppush.tables.column_types import Category, Date, Number
from toppush.tables.columns import FORMS, WAYS, Columns

FREE_COLUMNS = 1 << 19
"""Columns that a row may have in a pipeline of any size."""
TABLES_OF_SCALARS = ("kernel_params", "kw_args", "inv_kw_args", "transformer_weights")
"""Parameters that hold others, which might be arrays and would make rows of their length."""


def require_bounded(pipeline: Pipeline, held: Collection[Any], n_bytes: int) -> None:
    """Refuse a pipeline whose rows get longer than a file of `n_bytes` accounts for.

    `held` are all estimators and sparse matrices in it, however deep.
    """
    most = FREE_COLUMNS + n_bytes // np.dtype(np.float64).itemsize
    for thing in held:
        if is_sparse(thing):
            _require_rows(thing, most)
        else:
            _require_sound(thing, most)
    _through(Pipeline(pipeline.steps[:-1]), None, most)


def _require_rows(matrix: Any, most: int) -> None:
    """Refuse a sparse matrix that is not CSR or has entries beyond its ends."""
    if matrix.format != "csr" or matrix.shape[1] > most:
        raise ModelError(f"it holds a sparse matrix {matrix.format} of shape {matrix.shape}.")
    matrix.check_format(full_check=True)


def _require_sound(step: BaseEstimator, most: int) -> None:
    """Refuse forged parameters of an estimator, and columns beyond the most."""
    width = getattr(step, "n_features_in_", 1)
    whole = isinstance(width, (int, np.integer)) and not isinstance(width, bool)
    if not whole or not 0 < width <= most:
        raise ModelError(f"it asks for rows of {width!r} columns, and the most is {most:,}.")
    if type(step).__module__.startswith("sklearn."):
        if hasattr(step, "_parameter_constraints"):
            step._validate_params()
        for name in TABLES_OF_SCALARS:
            _require_scalars(getattr(step, name, None) or {})
    if isinstance(step, Columns):
        _require_columns(step)
    if type(step) in WIDTHS and hasattr(step, "n_features_in_"):
        _through(step, int(width), most)
    if getattr(step, "n_jobs", None) is not None:
        raise ModelError(f"its {type(step).__name__} starts processes; a model starts none.")
    threads = getattr(step, "n_jobs", None)
    if threads is not None and threads > (cores := os.cpu_count() or 1):
        step.n_jobs = cores


def _require_scalars(table: dict[str, Any]) -> None:
    if any(np.ndim(value) or isinstance(value, (dict, list)) for value in table.values()):
        raise ModelError(f"it holds parameters that are no scalars: {list(table)!r}.")


def _require_columns(columns: Columns) -> None:
    """Refuse columns of a table whose descriptions hold anything but what they should."""
    for column in columns.columns_:
        plain: dict[str, type | tuple[type, ...]] = {"name": str, "had_missing": bool}
        if isinstance(column, Category):
            plain |= {"coded": bool, "categories": list}
        elif isinstance(column, Number):
            plain |= {"boolean": bool, "keep_nan": bool}
            plain |= dict.fromkeys(("fill", "low", "high"), (int, float))
            plain |= {"of": str, "part": str} if isinstance(column, Date) else {}
        wrong = [name for name, kind in plain.items() if not isinstance(vars(column)[name], kind)]
        texts = vars(column).get("categories", [])
        if wrong or not all(isinstance(text, str) for text in texts):
            raise ModelError(f"its column {column.name!r} is not described as it should be.")
    if columns.form not in FORMS or columns.missing not in WAYS:
        raise ModelError("its columns are read in a way that is not known.")


# ---- widths


def _through(step: Any, width: int | None, most: int) -> int:
    """Columns that a row has at most after a step, which must be `most` at most.

    The width before it is what the step was fitted to, or else what the one before gives.
    """
    if isinstance(step, str) or step is None:  # "drop" or "passthrough"
        return 0 if step == "drop" else width or 0
    width = int(getattr(step, "n_features_in_", width or 0))
    if isinstance(step, Pipeline):
        for _, part in step.steps:
            width = _through(part, width or None, most)
    elif isinstance(step, FeatureUnion):
        width = sum(_through(part, width, most) for _, part in step.transformer_list)
    elif isinstance(step, ColumnTransformer):
        width = _side_by_side(step, width, most)
    elif type(step) in WIDTHS:
        width = WIDTHS[type(step)](step, width)
    else:
        raise ModelError(f"it holds a step {type(step).__name__}, which prepares no rows.")
    if width > most:
        raise ModelError(
            f"its {type(step).__name__} makes {width:,} columns, and the most is {most:,}."
        )
    return width


def _side_by_side(step: ColumnTransformer, width: int, most: int) -> int:
    known = getattr(step, "_transformer_to_input_indices", {})
    return sum(
        _through(part, max(_count(columns, width), len(known.get(name, ()))), most)
        for name, part, columns in step.transformers_
    )


def _count(columns: Any, width: int) -> int:
    """How many columns a selection has at most."""
    if isinstance(columns, slice):
        return width
    return len(columns) if isinstance(columns, Sized) and not isinstance(columns, str) else 1


def _same(step: Any, width: int) -> int:
    return width


def _encoded(step: OneHotEncoder | OrdinalEncoder | TargetEncoder, width: int) -> int:
    if len(step.categories_) != width:
        raise ModelError(f"its {type(step).__name__} has no categories for {width:,} columns.")
    return width


def _one_hot(step: OneHotEncoder, width: int) -> int:
    _encoded(step, width)
    counts = [len(categories) for categories in step.categories_]
    outputs = step._n_features_outs
    if len(outputs) != len(counts) or any(
        not 0 <= output <= count + 1 for output, count in zip(outputs, counts, strict=True)
    ):
        raise ModelError("its OneHotEncoder has other outputs than categories.")
    return int(sum(outputs))


def _binned(step: KBinsDiscretizer, width: int) -> int:
    return width if step.encode == "ordinal" else _one_hot(step._encoder, width)


def _imputed(step: SimpleImputer | KNNImputer, width: int) -> int:
    indicator = getattr(step, "indicator_", None)
    return width + (0 if indicator is None else _marked(indicator, width))


def _marked(step: MissingIndicator, width: int) -> int:
    return len(step.features_)


def _kernel(step: Nystroem, width: int) -> int:
    count = step.components_.shape[0]
    if step.components_.shape != (count, width) or step.normalization_.shape != (count, count):
        raise ModelError("its Nystroem has weights of other shapes than its components.")
    return int(count)


def _targets(step: TargetEncoder, width: int) -> int:
    return _encoded(step, width) * (len(step.classes_) if step.target_type_ == "multiclass" else 1)


def _splines(step: SplineTransformer, width: int) -> int:
    n_splines = {one.c.shape[1] for one in step.bsplines_}
    if len(n_splines) != 1 or any(one.k != step.degree for one in step.bsplines_):
        raise ModelError("its splines are not of one shape.")
    count = int(width * n_splines.pop())
    if step.n_features_out_ + width * (1 - step.include_bias) != count:
        raise ModelError("its splines have other outputs than they say.")
    return count


def _products(step: PolynomialFeatures, width: int) -> int:
    """All products of at most `degree` columns, counted until there are too many for any file."""
    low, high = (0, step.degree) if np.ndim(step.degree) == 0 else step.degree
    count = term = 1
    for degree in range(1, high + 1):
        if step.interaction_only:
            term = term * (width - degree + 1) // degree
            count += term
        else:
            count = count * (width + degree) // degree
        if max(count, degree) > LARGEST:
            break
    wanted = low, high, count - (not step.include_bias)
    if wanted != (step._min_degree, step._max_degree, step._n_out_full):
        raise ModelError("its PolynomialFeatures has other outputs than its degree makes.")
    if not 0 <= step.n_output_features_ <= step._n_out_full:
        raise ModelError("its PolynomialFeatures has other outputs than its degree makes.")
    return count


WIDTHS: dict[type, Callable[[Any, int], int]] = {
    **dict.fromkeys(
        (
            Binarizer, FunctionTransformer, KernelCenterer, MaxAbsScaler, MinMaxScaler, Normalizer,
            PowerTransformer, QuantileTransformer, RobustScaler, StandardScaler,
            TfidfTransformer,
        ),
        _same,
    ),
    Columns: lambda step, width: step._width,
    KBinsDiscretizer: _binned,
    KNNImputer: _imputed,
    MissingIndicator: _marked,
    Nystroem: _kernel,
    OneHotEncoder: _one_hot,
    OrdinalEncoder: _encoded,
    PolynomialFeatures: _products,
    SimpleImputer: _imputed,
    SplineTransformer: _splines,
    TargetEncoder: _targets,
}  # fmt: skip
"""Columns that a row has after each step that a model may hold, by those that it has before."""
