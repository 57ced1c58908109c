"""What a model keeps of its training columns, so that later rows can be held against them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import numpy as np
import pyarrow as pa
from sklearn.utils import _safe_indexing

from toppush.folds.splits import Folds
from toppush.matrices import ColumnReader
from toppush.metrics.quantile_sketch import QuantileSketch, effective_rows, masses, top_levels
from toppush.modeltypes.base import About, FitRows, ModelType, Ranker
from toppush.modeltypes.out_of_fold import FOLDS, learned_scale
from toppush.monitor.profile import LEVELS, CategoryProfile, ColumnProfile, NumberProfile
from toppush.system.errors import ModelError
from toppush.system.reading import DataError
from toppush.tables.column_types import Column, Counts, Number
from toppush.tables.columns import Columns
from toppush.tables.rows import LoadedRows
from toppush.types import Array, Matrix, Where

MOST_ROWS = 200_000
"""Rows that summaries are taken from, evenly spread over all."""
MOST_COLUMNS = 400
"""Columns that are kept, the first ones: 2 KB each."""
UNWATCHED = (
    "the model does not say what its training columns were like: it was made by a version before "
    "`toppush check`, on a cluster, or from a pipeline; fit it again with `toppush fit`, or name "
    "rows to compare with by --before."
)


def meaning(kind: ModelType, ranker: Ranker, rows: FitRows, X: Matrix, seed: int) -> About:
    """What a model says of its scores.

    Parameters
    ----------
    kind, ranker
        Of the model; the ranker is fitted.
    rows : FitRows
        What is known of the training rows.
    X : matrix
        The training rows as the ranker takes them.
    seed : int
        What shuffles the folds of a ranker that has no scores of rows unseen.
    """
    folds: Folds | None = [] if rows.has_folds else None
    if rows.has_folds:
        with suppress(DataError):  # groups or times too few to part; then there is no share
            folds = rows.folds(FOLDS, seed)
    weight = rows.roles.weight
    scale = learned_scale(
        ranker, kind.refittable(ranker), X, rows.positive, weight, folds=folds, seed=seed
    )
    return scale.as_json()


def watched_rows(ranker: Ranker, given: LoadedRows, rows: FitRows, X: Matrix) -> About:
    """What a model says of its training rows, `given` as they were read, to hold later against."""
    first = given.layout.get("first", 0)
    return watched(given.X, rows.columns, first, ranker, X, rows.roles.weight)


def watched(
    given: Matrix,
    columns: Columns | None,
    first: int,
    ranker: Ranker,
    X: Matrix,
    weight: Array | None = None,
) -> About:
    """A summary of each training column and of the scores, as JSON can hold it.

    Parameters
    ----------
    given : table or matrix
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
    n_rows = given.shape[0]
    some = np.unique(np.linspace(0, n_rows - 1, min(n_rows, MOST_ROWS)).astype(np.intp))
    weights = np.ones(len(some)) if weight is None else np.asarray(weight, np.float64)[some]
    if columns is None:
        found, width = _of_matrix(given, some, weights, first), int(given.shape[1])
    else:
        found, width = of_columns(given, columns.columns_, some, weights), len(columns.columns_)
    kept = {name: one.as_json() for name, one in found}
    scores = ranker.decision_function(X if len(some) == n_rows else _safe_indexing(X, some))
    fitted = QuantileSketch.of(scores, weights, levels=top_levels(len(some)))
    return {"columns": kept, "left_out": width - len(kept), "fitted": fitted.as_json()}


def read_fitted(about: About) -> QuantileSketch:
    """How the scores are spread that a model gives its own training rows."""
    with _readable():
        return QuantileSketch.from_json(about["watched"]["fitted"])


def read_watched(about: About) -> dict[str, ColumnProfile]:
    """The summaries that a model keeps, by name; an error if it has none."""
    known = about.get("watched")
    if known is None:
        raise ModelError(UNWATCHED)
    with _readable():
        return {str(name): _read(one) for name, one in known["columns"].items()}


@contextmanager
def _readable() -> Iterator[None]:
    """What a forged or foreign summary makes of its readers, told as an error of the model."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelError(f"what it says of its columns cannot be read: {error}") from None


def _read(known: Mapping[str, object]) -> ColumnProfile:
    if known["kind"] == "number":
        return NumberProfile.from_json(known)
    if known["kind"] == "category":
        return CategoryProfile.from_json(known)
    raise ValueError(f"there is no column of the kind {known['kind']!r}")


def of_columns(
    table: pa.Table, columns: Sequence[Column], some: Where, weights: Array
) -> Iterator[tuple[str, ColumnProfile]]:
    """What the first few columns of a table hold, by some of its rows."""
    part = table if len(some) == len(table) else table.take(pa.array(some))
    for one in columns[:MOST_COLUMNS]:
        column = part[one.source].combine_chunks()
        values, gaps = one.read(column, Counts())
        known = np.ones(len(column), bool) if gaps is None else ~gaps
        if isinstance(one, Number):
            ends = np.array([one.low, one.high])
            yield one.name, _numbers(values[known], weights[known], weights.sum(), ends)
        else:
            yield one.name, _texts(one.categories, values[known], weights[known], weights.sum())


def _of_matrix(
    X: Matrix, some: Where, weights: Array, first: int
) -> Iterator[tuple[str, ColumnProfile]]:
    """What the columns of a matrix hold."""
    rows, total = ColumnReader(X if len(some) == X.shape[0] else X[some]), float(weights.sum())
    for column in range(min(X.shape[1], MOST_COLUMNS)):
        held = rows.values(column, weights)
        known = float(held.mass.sum())
        gaps = min(max(1.0 - known / total, 0.0), 1.0) if held.missing else 0.0
        if len(held.values):
            count = effective_rows(weights) * (1.0 - gaps)
            spread = QuantileSketch.of_mass(held.values, held.mass, count, levels=LEVELS)
            yield column_name(column + first), NumberProfile(spread, gaps)


def column_name(number: int) -> str:
    """A column that has no name."""
    return f"number {number}"


def _numbers(values: Array, weights: Array, total: float, ends: Array) -> NumberProfile:
    """The summary of numbers; the ends are those of all rows, of which these may be some."""
    gaps = 1.0 - float(weights.sum()) / total
    found, mass = masses(values, weights)
    low, high = ends[:1][ends[:1] < found[0]], ends[1:][ends[1:] > found[-1]]
    hardly = np.full(1, 1e-9 * total)
    mass = np.concatenate([hardly[: len(low)], mass, hardly[: len(high)]])
    found = np.concatenate([low, found, high])
    spread = QuantileSketch.of_mass(found, mass, effective_rows(weights), levels=LEVELS)
    return NumberProfile(spread, min(max(gaps, 0.0), 1.0))


def _texts(texts: list[str], places: Where, weights: Array, total: float) -> CategoryProfile:
    mass = np.bincount(places, weights, len(texts)).astype(np.float64)
    gaps = 1.0 - float(weights.sum()) / total
    return CategoryProfile.of(texts, mass, min(max(gaps, 0.0), 1.0), effective_rows(weights))
