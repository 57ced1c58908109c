"""Rows that were read from a file, and what is needed from a file that is scored."""

from collections.abc import Iterable
from typing import NamedTuple, TypedDict

import pyarrow as pa

from toppush.types import Labels, Matrix

Schema = dict[str, pa.DataType]


class Layout(TypedDict, total=False):
    """What scoring another file needs to know of a matrix that a model was fitted to."""

    width: int
    first: int
    """The number of the first column of a LIBSVM file."""
    key: str
    """Of an NPZ file, the array of labels."""
    label: str
    """Of an NPY file, the column or the file of labels."""


class LoadedRows(NamedTuple):
    """Training rows with their labels."""

    X: Matrix
    """A table or a matrix."""
    labels: Labels
    label: str | None
    """Name of the column of labels, if it has one."""
    layout: Layout


class Batch(NamedTuple):
    """Some rows to score."""

    X: Matrix
    n_rows: int
    labels: Labels
    carried: pa.RecordBatch | None
    """Columns that are only carried along."""
    ignored: int
    """Entries in columns that the model does not know."""


class Needs(NamedTuple):
    """What is wanted from a file that is scored."""

    schema: Schema
    """Columns of the model, by name; empty for a matrix."""
    layout: Layout
    label: tuple[str | None, pa.DataType] | None
    """Column and type of the labels, if they are wanted."""
    carry: tuple[str, ...] = ()
    """Columns to hand on, which a text gives as texts."""
    numbers: tuple[str, ...] = ()
    """Columns to hand on as numbers."""


def feature_columns(names: Iterable[str], *others: str | None) -> list[str]:
    """The columns of a table that are features: all but the others.

    Those are the label, sample weights, groups, times, dropped columns, and columns that are only
    carried along; None stands for one that there is not.
    """
    left_out = set(others)
    return [name for name in names if name not in left_out]
