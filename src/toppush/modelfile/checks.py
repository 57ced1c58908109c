"""Checks of a pipeline that was read from a model file, before it is used.

A forged degree, count or width would make rows of any length out of a short file. So the widest
row within the pipeline is computed from the fitted attributes of its steps before it scores a row.
"""

import contextlib
import warnings
from collections.abc import Callable, Collection, Sized
from typing import Any

import numpy as np
import pyarrow as pa
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
from toppush.modelfile.model import Model
from toppush.system.errors import ModelError
from toppush.system.reading import DataError
from toppush.tables.column_types import Category, Date, Elapsed, Number, Text
from toppush.tables.columns import FORMS, WAYS, Columns
from toppush.tables.dates import ORDERS
from toppush.tables.text import Terms

FREE_COLUMNS = 1 << 19
"""Columns that a row may have in a pipeline of any size."""
TABLES_OF_SCALARS = ("kernel_params", "kw_args", "inv_kw_args", "transformer_weights")
"""Parameters that hold others; arrays among these would make rows of their length."""
FAR, UNKNOWN = 1e30, "\0unknown"
"""Values that training rows did not hold, in all likelihood."""
SELECTIVE = (
    ColumnTransformer,
    FeatureUnion,
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    Pipeline,
    PolynomialFeatures,
    SimpleImputer,
    TargetEncoder,
)
"""Steps that may refuse a row of ones, or that make hundreds of bytes for each of its products."""


def require_working(model: Model) -> None:
    """Refuse a model that cannot score synthetic rows.

    No synthetic row suits every encoder and column selection, so scoring starts after the last
    of them.
    """
    selective = [
        place
        for place, (_, step) in enumerate(model.pipeline.steps)
        if step == "passthrough" or isinstance(step, SELECTIVE)
    ]
    working = Model(model.pipeline[selective[-1] + 1 :]) if selective else model
    if working.columns is not None:
        known, odd = _synthetic_rows(working.columns)
        working.decision_function(known)
        with contextlib.suppress(DataError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            working.decision_function(odd)
        return
    row = np.ones((1, working.pipeline.n_features_in_))
    row[:, list(getattr(model.ranker, "dates_", {}))] = np.nan  # a number is no date
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        working.decision_function(row)


def _synthetic_rows(columns: Columns) -> list[pa.RecordBatch]:
    """A row of values that the model knows, and three of missing, unknown and extreme values."""
    known, odd = {}, {}
    for column in columns.columns_:
        name = column.source if isinstance(column, Date) else column.name
        if isinstance(column, Number) and column.format is None and not isinstance(column, Date):
            known[name] = pa.array([column.fill], pa.float64())
            odd[name] = pa.array([None, FAR, -FAR], pa.float64())
            continue
        typical: str | None
        if isinstance(column, Date):
            typical, extremes = "2000-01-01", ["0001-01-01", "9999-12-31"]
        elif isinstance(column, Number):
            typical, extremes = "1", [UNKNOWN, f"{FAR}"]
        elif isinstance(column, Text):
            typical, extremes = next(iter(column.terms.names), None), [UNKNOWN, UNKNOWN]
        else:
            typical, extremes = next(iter(column.categories), None), [UNKNOWN, UNKNOWN]
        known[name] = pa.array([typical], pa.string())
        odd[name] = pa.array([None, *extremes], pa.string())
    return [pa.RecordBatch.from_pydict(cells) for cells in (known, odd)]


def require_bounded(pipeline: Pipeline, parts: Collection[Any], n_bytes: int) -> None:
    """Refuse a pipeline whose rows get longer than a file of `n_bytes` accounts for.

    `parts` are all estimators and sparse matrices in it, however deep.
    """
    most = FREE_COLUMNS + n_bytes // np.dtype(np.float64).itemsize
    for part in parts:
        if not is_sparse(part):
            _require_bounded_step(part, most)
            continue
        if part.format != "csr" or part.shape[1] > most:
            raise ModelError(f"it holds a sparse matrix {part.format} of shape {part.shape}.")
        part.check_format(full_check=True)
    _width_after(Pipeline(pipeline.steps[:-1]), None, most)


def _require_bounded_step(step: BaseEstimator, most: int) -> None:
    """Refuse forged parameters of an estimator, and rows of more than `most` columns."""
    width = getattr(step, "n_features_in_", 1)
    whole = isinstance(width, (int, np.integer)) and not isinstance(width, bool)
    if not whole or not 0 < width <= most:
        raise ModelError(f"it asks for rows of {width!r} columns, and the most is {most:,}.")
    if type(step).__module__.startswith("sklearn."):
        if hasattr(step, "_parameter_constraints"):
            step._validate_params()
        for name in TABLES_OF_SCALARS:
            table = getattr(step, name, None) or {}
            if any(np.ndim(value) or isinstance(value, (dict, list)) for value in table.values()):
                raise ModelError(f"it holds parameters that are no scalars: {list(table)!r}.")
    if isinstance(step, Columns):
        _require_columns(step)
    if type(step) in WIDTHS and hasattr(step, "n_features_in_"):
        _width_after(step, int(width), most)
    if getattr(step, "n_jobs", None) is not None:
        raise ModelError(f"its {type(step).__name__} starts processes; a model starts none.")


def _require_columns(columns: Columns) -> None:
    """Refuse columns of a table that are not described by the right types."""
    for column in columns.columns_:
        types: dict[str, type | tuple[type, ...]] = {"name": str, "had_missing": bool}
        if isinstance(column, Category):
            types |= {"coded": bool, "categories": list}
        elif isinstance(column, Text):
            types |= {"terms": Terms}
        elif isinstance(column, Number):
            types |= {"boolean": bool, "keep_nan": bool}
            types |= dict.fromkeys(("fill", "low", "high"), (int, float))
            types |= dict.fromkeys(("of", "part", "order"), str) if isinstance(column, Date) else {}
        if isinstance(column, Elapsed):
            types |= {"since": str, "since_order": str}
        wrong = [name for name, kind in types.items() if not isinstance(vars(column)[name], kind)]
        orders = {vars(column).get(name, "") for name in ("order", "since_order")}
        since = column.since if isinstance(column, Elapsed) else None
        if since is not None and since not in {each.source for each in columns.columns_}:
            wrong.append("since")
        if not orders <= {"", *ORDERS}:
            wrong.append("order")
        categories = vars(column).get("categories", [])
        if not wrong and isinstance(column, Text) and not column.terms.is_valid:
            wrong = ["terms"]
        if wrong or not all(isinstance(value, str) for value in categories):
            raise ModelError(f"its column {column.name!r} is not described as it should be.")
    if columns.form not in FORMS or columns.missing not in WAYS:
        raise ModelError("its columns are read in a way that is not known.")


# ---- widths


def _width_after(step: Any, width: int | None, most: int) -> int:
    """Columns that a row has at most after a step; refused if more than `most`.

    The width before it is what the step was fitted to, or else what the previous step makes.
    """
    if isinstance(step, str) or step is None:  # "drop" or "passthrough"
        return 0 if step == "drop" else width or 0
    width = int(getattr(step, "n_features_in_", width or 0))
    if isinstance(step, Pipeline):
        for _, part in step.steps:
            width = _width_after(part, width or None, most)
    elif isinstance(step, FeatureUnion):
        width = sum(_width_after(part, width, most) for _, part in step.transformer_list)
    elif isinstance(step, ColumnTransformer):
        known = getattr(step, "_transformer_to_input_indices", {})
        width = sum(
            _width_after(part, max(_count(columns, width), len(known.get(name, ()))), most)
            for name, part, columns in step.transformers_
        )
    elif type(step) in WIDTHS:
        width = WIDTHS[type(step)](step, width)
    else:
        raise ModelError(f"it holds a step {type(step).__name__}, which prepares no rows.")
    if width > most:
        raise ModelError(
            f"its {type(step).__name__} makes {width:,} columns, and the most is {most:,}."
        )
    return width


def _count(columns: Any, width: int) -> int:
    """How many columns a selection has at most."""
    if isinstance(columns, slice):
        return width
    return len(columns) if isinstance(columns, Sized) and not isinstance(columns, str) else 1


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
    return width + (0 if indicator is None else len(indicator.features_))


def _kernel(step: Nystroem, width: int) -> int:
    count = step.components_.shape[0]
    if step.components_.shape != (count, width) or step.normalization_.shape != (count, count):
        raise ModelError("its Nystroem has weights of other shapes than its components.")
    return int(count)


def _targets(step: TargetEncoder, width: int) -> int:
    return _encoded(step, width) * (len(step.classes_) if step.target_type_ == "multiclass" else 1)


def _splines(step: SplineTransformer, width: int) -> int:
    n_splines = {spline.c.shape[1] for spline in step.bsplines_}
    if len(n_splines) != 1 or any(spline.k != step.degree for spline in step.bsplines_):
        raise ModelError("its splines are not of one shape.")
    count = int(width * n_splines.pop())
    if step.n_features_out_ + width * (1 - step.include_bias) != count:
        raise ModelError("its splines have other outputs than they say.")
    return count


def _products(step: PolynomialFeatures, width: int) -> int:
    """Products of at most `degree` columns, counted until there are too many for any file."""
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
        lambda step, width: width,
    ),
    Columns: lambda step, width: step._width,
    KBinsDiscretizer: _binned,
    KNNImputer: _imputed,
    MissingIndicator: lambda step, width: len(step.features_),
    Nystroem: _kernel,
    OneHotEncoder: _one_hot,
    OrdinalEncoder: _encoded,
    PolynomialFeatures: _products,
    SimpleImputer: _imputed,
    SplineTransformer: _splines,
    TargetEncoder: _targets,
}  # fmt: skip
"""Columns after each step that a model may hold, by the number of columns before it."""
