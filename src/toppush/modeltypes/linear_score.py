"""A linear pipeline as one weight for each value: the scaling is folded into the weights.

score(row) = sum over columns of (weight x value, or the weight of its category) - threshold.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from toppush.matrices import column_sizes
from toppush.models.base import TIE
from toppush.models.linear import TopPush
from toppush.models.linear_cv import TopPushCV
from toppush.system.errors import ModelError
from toppush.tables.column_types import LARGER, Category, Column, Counts, Number, Text
from toppush.tables.columns import Columns
from toppush.types import Array, Matrix


@dataclass(frozen=True)
class ColumnPart:
    """The term of one column in the score."""

    column: Column
    weights: Array
    """The weight of a number; one for each category and a last 0 for unknown ones; or one for each
    output of text."""
    missing: float
    """Added where the value is missing, besides the weight of what it is filled with."""


@dataclass(frozen=True)
class LinearScore:
    """Weights of the values as they come in the rows."""

    weights: Array
    """One for each output of `columns`, or for each column of a matrix."""
    threshold: float
    columns: Columns | None
    """How a table is read; None if rows are a matrix."""

    def parts(self) -> list[ColumnPart]:
        """The term of each column of a table."""
        assert self.columns is not None
        parts = []
        for column, offset in zip(self.columns.columns_, self.columns.offsets(), strict=True):
            weights, missing = self.weights[offset : offset + column.width], 0.0
            if column.has_indicator:
                weights, missing = weights[:-1], float(weights[-1])
            if isinstance(column, Category):
                weights = np.append(weights, 0.0)
            parts.append(ColumnPart(column, weights, missing))
        return parts

    def __call__(self, rows: Matrix, counts: Counts) -> Array:
        """Scores minus the threshold; ties with it are exactly 0, as in the ranker."""
        if self.columns is None:
            scores = np.asarray(rows @ self.weights, np.float64)
        else:
            scores = self._scores_of_table(self.columns, rows, counts)
        decision = scores - self.threshold
        rounding = TIE * np.finfo(np.float64).eps * (np.abs(scores) + abs(self.threshold))
        decision[np.abs(decision) <= rounding] = 0.0
        return decision

    def _scores_of_table(self, columns: Columns, batch: pa.RecordBatch, counts: Counts) -> Array:
        scores, term = np.zeros(len(batch)), np.empty(len(batch))
        for part, (values, missing) in zip(self.parts(), columns.read(batch, counts), strict=True):
            if isinstance(part.column, Number):
                np.multiply(values, part.weights[0], out=term)
            elif isinstance(part.column, Text):
                term = values @ part.weights
            else:
                np.take(part.weights, values, out=term, mode="wrap")  # -1 is the last, 0
            scores += term
            if missing is not None and part.missing:
                scores += part.missing * missing
        return scores


def fold(steps: list[tuple[str, BaseEstimator]]) -> LinearScore | None:
    """The pipeline's steps as one linear score, or None if they are not linear in the values."""
    *before, (_, ranker) = steps
    columns = before[0][1] if before and isinstance(before[0][1], Columns) else None
    if not isinstance(ranker, (TopPush, TopPushCV)):
        return None
    weights = ranker.coef_[0].astype(np.float64)
    scaled = scaling([step for _, step in before[columns is not None :]], len(weights))
    if scaled is None:
        return None
    factor, shift = scaled
    return LinearScore(weights * factor, float(ranker.threshold_ + shift @ weights), columns)


def scaling(scalers: list[BaseEstimator], width: int) -> tuple[Array, Array] | None:
    """Factor and shift of x -> factor x - shift; None if a step is not a known scaler."""
    if not all(isinstance(scaler, (MaxAbsScaler, StandardScaler)) for scaler in scalers):
        return None
    factor, shift = np.ones(width), np.zeros(width)
    for scaler in scalers:
        mean = scaler.mean_ if getattr(scaler, "with_mean", False) else 0.0
        scale = 1.0 if scaler.scale_ is None else scaler.scale_
        factor, shift = factor / scale, (shift + mean) / scale
    return factor, shift


def refuse_text(columns: Columns | None, export: str) -> None:
    """Refuse free text, whose terms an export does not know."""
    if columns is not None and columns.texts:
        names = ", ".join(text.name for text in columns.texts)
        raise ModelError(
            f"{export} does not support the free text of column {names}; drop it and fit again."
        )


def larger(steps: list[tuple[str, BaseEstimator]], rows: Matrix) -> list[tuple[int, float]]:
    """Columns of a matrix with a value far above the training values, and how many times larger.

    None are reported unless the first step is a scaler, which knows the training values.
    """
    first = steps[0][1]
    if isinstance(first, MaxAbsScaler):
        known = np.asarray(first.max_abs_)
    elif isinstance(first, StandardScaler) and first.var_ is not None:
        known = np.sqrt((first.var_ + first.mean_**2) * np.max(first.n_samples_seen_))
    else:
        return []
    limit = np.where(known > 0.0, LARGER * known, np.inf)
    sizes = column_sizes(rows)
    columns = np.flatnonzero(sizes > limit)
    return [(int(column), float(sizes[column] / known[column])) for column in columns]
