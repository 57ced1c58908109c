"""A linear pipeline as one weight for each value: scaling folded into the weights.

score(row) = sum over columns of (weight x value, or the part of its text) - threshold.
Scoring a batch is then one product with a matrix, or a running sum over the columns of a table.
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
from toppush.tables.column_types import LARGER, Category, Counts, Number
from toppush.tables.columns import Columns
from toppush.types import Array, Matrix


@dataclass(frozen=True)
class ColumnPart:
    """What one column adds to the score."""

    column: Number | Category
    weights: Array
    """One weight of a number, or the part of each text and a last 0 for texts not known."""
    gap: float
    """What a gap adds to that of its fill."""


@dataclass(frozen=True)
class LinearScore:
    """Weights over the values that the rows come with."""

    weights: Array
    """Of each output of `columns`, or of each column of a matrix."""
    threshold: float
    columns: Columns | None
    """How a table is read, if rows come as one."""

    def parts(self) -> list[ColumnPart]:
        """What each column of a table adds."""
        assert self.columns is not None
        found = []
        for one, offset in zip(self.columns.columns_, self.columns.offsets(), strict=True):
            own = self.weights[offset : offset + one.width]
            gap = float(own[-1]) if one.has_indicator else 0.0
            own = own[:-1] if one.has_indicator else own
            found.append(
                ColumnPart(one, own if isinstance(one, Number) else np.append(own, 0.0), gap)
            )
        return found

    def __call__(self, rows: Matrix, counts: Counts) -> Array:
        """Scores less the threshold; a tie with it is exactly 0, as in the ranker."""
        if self.columns is None:
            scores = np.asarray(rows @ self.weights, np.float64)
        else:
            scores = self._of_table(self.columns, rows, counts)
        decision = scores - self.threshold
        rounding = TIE * np.finfo(np.float64).eps * (np.abs(scores) + abs(self.threshold))
        decision[np.abs(decision) <= rounding] = 0.0
        return decision

    def _of_table(self, columns: Columns, batch: pa.RecordBatch, counts: Counts) -> Array:
        scores = np.zeros(len(batch))
        term = np.empty(len(batch))
        for part, (values, gaps) in zip(self.parts(), columns.read(batch, counts), strict=True):
            if isinstance(part.column, Number):
                np.multiply(values, part.weights[0], out=term)
            else:
                np.take(part.weights, values, out=term, mode="wrap")  # -1 is the last, 0
            scores += term
            if gaps is not None and part.gap:
                scores += part.gap * gaps
        return scores


def fold(steps: list[tuple[str, BaseEstimator]]) -> LinearScore | None:
    """The pipeline's steps as one linear score, or None if they are not linear in the values."""
    *before, (_, ranker) = steps
    columns = before[0][1] if before and isinstance(before[0][1], Columns) else None
    if not isinstance(ranker, (TopPush, TopPushCV)):
        return None
    weights = ranker.coef_[0].astype(np.float64)
    found = scaling([step for _, step in before[columns is not None :]], len(weights))
    if found is None:
        return None
    factor, shift = found
    return LinearScore(weights * factor, float(ranker.threshold_ + shift @ weights), columns)


def scaling(scalers: list[BaseEstimator], width: int) -> tuple[Array, Array] | None:
    """Factor and shift of x -> factor x - shift, or None if a step is not a scaler known here."""
    if not all(isinstance(scaler, (MaxAbsScaler, StandardScaler)) for scaler in scalers):
        return None
    factor, shift = np.ones(width), np.zeros(width)
    for scaler in scalers:
        mean = scaler.mean_ if getattr(scaler, "with_mean", False) else 0.0
        scale = 1.0 if scaler.scale_ is None else scaler.scale_
        factor, shift = factor / scale, (shift + mean) / scale
    return factor, shift


def largest(steps: list[tuple[str, BaseEstimator]]) -> Array | None:
    """A size that no training value of a column exceeds, if the first step is a scaler."""
    first = steps[0][1]
    if isinstance(first, MaxAbsScaler):
        return np.asarray(first.max_abs_)
    if isinstance(first, StandardScaler) and first.var_ is not None:
        return np.asarray(np.sqrt((first.var_ + first.mean_**2) * np.max(first.n_samples_seen_)))
    return None


def larger(rows: Matrix, known: Array) -> list[tuple[int, float]]:
    """Columns with a value far above the known size, and how many times as large it is."""
    limit = np.where(known > 0.0, LARGER * known, np.inf)
    sizes = column_sizes(rows)
    columns = np.flatnonzero(sizes > limit)
    return [(int(column), float(sizes[column] / known[column])) for column in columns]
