"""Rows read from a file: training rows, batches to score, and columns that are no features."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypedDict, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from toppush.metrics.positive_class import LEAST, MOST, usable
from toppush.system.reading import DataError
from toppush.tables import arrow_values as arrow
from toppush.types import Array, Labels, Mask, Matrix, Where

Schema = dict[str, pa.DataType]
Values = TypeVar("Values")


class Layout(TypedDict, total=False):
    """What scoring another file needs to know of the matrix that a model was fitted to."""

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
    """Columns that are copied to the output."""
    ignored: int
    """Entries in columns that the model does not know."""


class Needs(NamedTuple):
    """What is read from a file that is scored."""

    schema: Schema
    """Columns of the model, by name; empty for a matrix."""
    layout: Layout
    label: tuple[str | None, pa.DataType] | None
    """Column and type of the labels, if they are wanted."""
    carry: tuple[str, ...] = ()
    """Columns to copy to the output; a text format reads them as strings."""
    numbers: tuple[str, ...] = ()
    """Columns to copy to the output as numbers."""


def feature_columns(names: Iterable[str], *others: str | None) -> list[str]:
    """The columns of a table that are features: all but the others.

    The others are the label, weights, groups, times, dropped and copied columns; None is ignored.
    """
    left_out = set(others)
    return [name for name in names if name not in left_out]


# ---- weights, groups, times


@dataclass(frozen=True)
class Roles:
    """Names of the columns of weights, groups and times; None if there is none."""

    sample_weight: str | None = None
    groups: str | None = None
    time: str | None = None

    @property
    def named(self) -> dict[str, str]:
        """Role -> column, of the roles that have a column."""
        return {role: name for role, name in vars(self).items() if name is not None}


NO_ROLES = Roles()


@dataclass(frozen=True)
class RoleValues:
    """Weight, group and time of each row."""

    weight: Array | None = None
    groups: Where | None = None
    """Rows with the same number are of one group."""
    time: Array | None = None

    def of(self, rows: Where) -> "RoleValues":
        """The values of some rows."""
        held = {name: values for name, values in vars(self).items() if values is not None}
        return replace(self, **{name: values[rows] for name, values in held.items()})


NOTHING = RoleValues()
"""Values of rows without such columns."""


def take_roles(rows: LoadedRows, roles: Roles) -> tuple[LoadedRows, RoleValues]:
    """The rows without the columns of weights, groups and times, and the values of these."""
    if not roles.named:
        return rows, NOTHING
    names = [*roles.named.values(), rows.label]
    twice = next((name for name in roles.named.values() if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(
            "is asked for twice, as label, --sample-weight, --groups or --time; name another.",
            column=twice,
        )

    def read(values_of: Callable[[str, pa.Array], Values], name: str | None) -> Values | None:
        return None if name is None else values_of(name, arrow.whole(rows.X[name]))

    values = RoleValues(
        read(_weights, roles.sample_weight), read(_groups, roles.groups), read(_times, roles.time)
    )
    features = feature_columns(rows.X.column_names, *roles.named.values())
    return rows._replace(X=rows.X.select(features)), values


def _weights(name: str, column: pa.Array) -> Array:
    """Finite numbers from 0 on."""
    if not arrow.is_numeric(arrow.value_type(column.type)):
        raise DataError(f"holds {column.type}, and weights are numbers; name another.", column=name)
    weights = arrow.as_floats(name, column)
    why = f"the weight is missing, negative or not 0 and beyond {LEAST:g} to {MOST:g}; correct it."
    _refuse(~usable(weights), name, why)
    if not weights.any():
        raise DataError("all weights are 0; give some rows a weight.", column=name)
    return weights


def _groups(name: str, column: pa.Array) -> Where:
    """A number for each group."""
    arrow.refuse_nested(name, column.type)
    _refuse(column.is_null().to_numpy(zero_copy_only=False), name, "the group is missing; name it.")
    groups: Where = pc.dictionary_encode(arrow.decoded(column)).indices.to_numpy()
    return groups


def _times(name: str, column: pa.Array) -> Array:
    """Numbers that rise with the time; dates as microseconds since 1970."""
    kind = arrow.value_type(column.type)
    if arrow.is_numeric(kind):
        times = arrow.as_floats(name, column)
    else:
        order = None
        if arrow.is_string(kind):
            strings = pc.unique(arrow.as_strings(column)).to_pylist()
            order = arrow.order_of_dates([text for text in strings if text])
        dates = arrow.as_dates(name, column, order or "")
        since = dates.astype("datetime64[us]").astype(np.int64).astype(np.float64)
        times = np.where(np.isnat(dates), np.nan, since)
    _refuse(~np.isfinite(times), name, "the time is missing; give one, or drop the row.")
    return times


def _refuse(wrong: Mask, name: str, message: str) -> None:
    if wrong.any():
        raise DataError(message, row=int(np.argmax(wrong)) + 1, column=name)
