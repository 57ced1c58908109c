"""The reference profile: what a model keeps of its training columns and scores, to detect drift."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import numpy as np
import pyarrow as pa
from sklearn.utils import _safe_indexing

from toppush.folds.splits import Folds
from toppush.matrices import ColumnReader
from toppush.metrics.quantile_sketch import QuantileSketch, effective_rows, masses, top_levels
from toppush.modeltypes.base import About, FitRows, ModelType, RankerLike
from toppush.modeltypes.out_of_fold import FOLDS, learned_scale
from toppush.monitor.profile import LEVELS, CategoryProfile, ColumnProfile, NumberProfile
from toppush.system.errors import ModelError
from toppush.system.reading import DataError
from toppush.tables.arrow_values import missing_strings
from toppush.tables.column_types import Column, ColumnData, Counts, Number, Text
from toppush.tables.columns import Columns
from toppush.tables.text import lengths_of
from toppush.types import Array, Matrix, Where

MOST_ROWS = 200_000
"""Rows that profiles are computed from, evenly spaced."""
MOST_COLUMNS = 400
"""Columns that are profiled, the first ones: 2 KB each."""
NO_PROFILE = (
    "the model has no profile of its training columns: it was made by a version before "
    "`toppush check`, on a cluster, or from a pipeline; fit it again with `toppush fit`, or name "
    "rows to compare with by --before."
)


def calibration_record(
    model_type: ModelType, ranker: RankerLike, rows: FitRows, X: Matrix, seed: int
) -> About:
    """Percentiles and calibrated probabilities of the scores of a fitted ranker, for JSON.

    `X` are the training rows as the ranker takes them; `seed` shuffles the folds of a ranker
    without out-of-fold scores.
    """
    folds: Folds | None = [] if rows.has_folds else None
    if rows.has_folds:
        with suppress(DataError):  # too few groups or times to split: no probabilities
            folds = rows.folds(FOLDS, seed)
    refit, weight = model_type.refittable(ranker), rows.roles.weight
    return learned_scale(ranker, refit, X, rows.positive, weight, folds=folds, seed=seed).as_json()


def training_profile(
    table: Matrix,
    columns: Columns | None,
    first: int,
    ranker: RankerLike,
    X: Matrix,
    weight: Array | None = None,
) -> About:
    """A profile of each training column and of the scores, for JSON.

    Parameters
    ----------
    table : table or matrix
        The training rows, as they were read.
    columns : Columns or None
        How a table is read; None of a matrix.
    first : int
        Number of a matrix's first column.
    ranker : fitted ranker
    X : matrix
        The training rows, as it takes them.
    weight : array, optional
        Weights of the rows.
    """
    n_rows = table.shape[0]
    sample = np.unique(np.linspace(0, n_rows - 1, min(n_rows, MOST_ROWS)).astype(np.intp))
    weights = np.ones(len(sample)) if weight is None else np.asarray(weight, np.float64)[sample]
    if columns is None:
        records = _as_json(_profiles_of_matrix(table, sample, weights, first))
        left_out = int(table.shape[1]) - len(records)
    else:
        records = _as_json(profiles_of_table(table, columns.columns_, sample, weights))
        left_out = max(len(columns.columns_) - MOST_COLUMNS, 0)
    scores = ranker.decision_function(X if len(sample) == n_rows else _safe_indexing(X, sample))
    fitted = QuantileSketch.of(scores, weights, levels=top_levels(len(sample)))
    return {"columns": records, "left_out": left_out, "fitted": fitted.as_json()}


def _as_json(profiles: Iterator[tuple[str, ColumnProfile]]) -> About:
    return {name: profile.as_json() for name, profile in profiles}


def read_fitted(about: About) -> QuantileSketch:
    """The distribution of the model's scores of its own training rows."""
    with _readable():
        return QuantileSketch.from_json(about["profile"]["fitted"])


def read_profile(about: About) -> dict[str, ColumnProfile]:
    """The profiles of a model's columns by name; an error if it has none."""
    record = about.get("profile")
    if record is None:
        raise ModelError(NO_PROFILE)
    with _readable():
        return {str(name): _read(column) for name, column in record["columns"].items()}


@contextmanager
def _readable() -> Iterator[None]:
    """Turn what forged or foreign profiles raise into an error of the model."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelError(f"what it says of its columns cannot be read: {error}") from None


def _read(record: Mapping[str, object]) -> ColumnProfile:
    if record["kind"] == "number":
        return NumberProfile.from_json(record)
    if record["kind"] == "category":
        return CategoryProfile.from_json(record)
    raise ValueError(f"there is no column of the kind {record['kind']!r}")


def profiles_of_table(
    table: pa.Table, columns: Sequence[Column], sample: Where, weights: Array
) -> Iterator[tuple[str, ColumnProfile]]:
    """Profiles of the first columns of a table, by a sample of its rows."""
    rows = table if len(sample) == len(table) else table.take(pa.array(sample))
    total = float(weights.sum())
    for column in columns[:MOST_COLUMNS]:
        cells = column.cells(rows)
        if isinstance(column, Text):
            yield from _profiles_of_text(column, cells, weights)
            continue
        values, is_missing = column.read(cells, Counts())
        known = np.ones(len(cells), bool) if is_missing is None else ~is_missing
        values, mass = values[known], weights[known]
        missing = min(max(1.0 - float(mass.sum()) / total, 0.0), 1.0)
        if isinstance(column, Number):
            sketch = _sketch(values, mass, total, np.array([column.low, column.high]))
            yield column.name, NumberProfile(sketch, missing)
        else:
            counts = np.bincount(values, mass, len(column.categories)).astype(np.float64)
            n_rows = effective_rows(mass)
            yield column.name, CategoryProfile.of(column.categories, counts, missing, n_rows)


def monitored(column: Column, cells: pa.Array, *, training: bool = False) -> dict[str, ColumnData]:
    """What is monitored of a column, by name: of text the length, and the unknown words.

    `training` marks cells that the column was learned from.
    """
    if not isinstance(column, Text):
        return {column.name: column.read(cells, Counts())}
    strings, missing = column.strings(cells), missing_strings(cells)
    unknown = column.terms.unseen(strings, training=training)
    return {
        column.characters: ColumnData(lengths_of(strings), missing),
        f"{column.name} (% unknown words)": ColumnData(unknown, missing),
    }


def _profiles_of_text(
    column: Text, cells: pa.Array, weights: Array
) -> Iterator[tuple[str, ColumnProfile]]:
    total = float(weights.sum())
    for name, (values, missing) in monitored(column, cells, training=True).items():
        assert missing is not None
        values, mass = values[~missing], weights[~missing]
        if len(values):
            ends = np.array([values.min(), values.max()])
            part = min(max(1.0 - float(mass.sum()) / total, 0.0), 1.0)
            yield name, NumberProfile(_sketch(values, mass, total, ends), part)


def _sketch(values: Array, weights: Array, total: float, ends: Array) -> QuantileSketch:
    """The quantile sketch of a sample; the ends are those of all rows."""
    distinct, mass = masses(values, weights)
    low, high = ends[:1][ends[:1] < distinct[0]], ends[1:][ends[1:] > distinct[-1]]
    tiny = np.full(1, 1e-9 * total)
    mass = np.concatenate([tiny[: len(low)], mass, tiny[: len(high)]])
    distinct = np.concatenate([low, distinct, high])
    return QuantileSketch.of_mass(distinct, mass, effective_rows(weights), levels=LEVELS)


def _profiles_of_matrix(
    X: Matrix, sample: Where, weights: Array, first: int
) -> Iterator[tuple[str, ColumnProfile]]:
    """Profiles of the first columns of a matrix."""
    rows = ColumnReader(X if len(sample) == X.shape[0] else X[sample])
    total = float(weights.sum())
    for number in range(min(X.shape[1], MOST_COLUMNS)):
        column = rows.values(number, weights)
        known = float(column.mass.sum())
        missing = min(max(1.0 - known / total, 0.0), 1.0) if column.missing else 0.0
        if len(column.values):
            count = effective_rows(weights) * (1.0 - missing)
            sketch = QuantileSketch.of_mass(column.values, column.mass, count, levels=LEVELS)
            yield column_name(number + first), NumberProfile(sketch, missing)


def column_name(number: int) -> str:
    """The name of a column that has only a number."""
    return f"number {number}"
