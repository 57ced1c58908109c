"""Columns of a table that say something of the rows and are no features: weights, groups, times."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from toppush.metrics.weights import LEAST, MOST, usable
from toppush.system.reading import DataError
from toppush.tables import arrow_values as arrow
from toppush.tables.loaded import LoadedRows, feature_columns
from toppush.types import Array, Mask, Where

Made = TypeVar("Made")


@dataclass(frozen=True)
class Roles:
    """Names of the columns, each None if there is none."""

    sample_weight: str | None = None
    groups: str | None = None
    time: str | None = None

    @property
    def named(self) -> dict[str, str]:
        """Role -> column, of the roles that there are."""
        return {role: name for role, name in vars(self).items() if name is not None}

    def require_distinct(self, label: str | None) -> None:
        """Refuse one column in two roles."""
        names = [*self.named.values(), label]
        twice = next((name for name in self.named.values() if names.count(name) > 1), None)
        if twice is not None:
            raise DataError(
                "is asked for twice, as label, --sample-weight, --groups or --time; name another.",
                column=twice,
            )


NO_ROLES = Roles()


@dataclass(frozen=True)
class RoleValues:
    """What the columns hold, an entry for each row."""

    weight: Array | None = None
    groups: Where | None = None
    """Rows with the same number are of one group."""
    time: Array | None = None

    def of(self, some: Where) -> "RoleValues":
        """Those of some rows."""
        held = {name: values for name, values in vars(self).items() if values is not None}
        return replace(self, **{name: values[some] for name, values in held.items()})


NOTHING = RoleValues()
"""Of rows without such columns."""


def take_roles(rows: LoadedRows, roles: Roles) -> tuple[LoadedRows, RoleValues]:
    """The rows without these columns, and what they held."""
    if not roles.named:
        return rows, NOTHING
    roles.require_distinct(rows.label)
    held = RoleValues(
        _read(_weights, rows.X, roles.sample_weight),
        _read(_groups, rows.X, roles.groups),
        _read(_times, rows.X, roles.time),
    )
    features = feature_columns(rows.X.column_names, *roles.named.values())
    return rows._replace(X=rows.X.select(features)), held


def _read(read: Callable[[str, pa.Array], Made], table: pa.Table, name: str | None) -> Made | None:
    return None if name is None else read(name, arrow.whole(table[name]))


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
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    groups: Where = pc.dictionary_encode(column).indices.to_numpy()
    return groups


def _times(name: str, column: pa.Array) -> Array:
    """Numbers that rise with the time; dates as days."""
    kind = arrow.value_type(column.type)
    if arrow.is_numeric(kind):
        times = arrow.as_floats(name, column)
    else:
        moments = arrow.as_dates(name, column)
        since = moments.astype("datetime64[us]").astype(np.int64).astype(np.float64)
        times = np.where(np.isnat(moments), np.nan, since)
    _refuse(~np.isfinite(times), name, "the time is missing; give one, or drop the row.")
    return times


def _refuse(wrong: Mask, name: str, said: str) -> None:
    if wrong.any():
        raise DataError(said, row=int(np.argmax(wrong)) + 1, column=name)
