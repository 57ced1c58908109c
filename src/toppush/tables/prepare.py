"""Tables as users have them, as the numbers that base models take."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toppush.tables.dates import date_parts
from toppush.tables.frames import (
    INTEGERS,
    Categories,
    Formats,
    Table,
    TextColumns,
    coded_column,
    warn,
)
from toppush.tables.ids import all_differ, are_ids
from toppush.tables.number_strings import is_missing
from toppush.types import Array, Where


@dataclass(frozen=True)
class Seen:
    """What the columns of some rows hold; of all rows it follows from that of their parts."""

    width: int
    texts: TextColumns
    dates: dict[int, list[str]]

    @classmethod
    def of(cls, X: Any, categorical_features: Any) -> "Seen":
        """From rows."""
        table, texts = Table(X), TextColumns.of(X, categorical_features)
        dates = {
            number: list(date_parts(_as_dates(table.column(number), table.names[number]))[0])
            for number in texts.dates
        }
        return cls(len(table.names), texts, dates)

    @classmethod
    def joined(cls, parts: Sequence["Seen"]) -> "Seen":
        """From the parts of a table."""
        dates: dict[int, list[str]] = {}
        for part in parts:
            for number, names in part.dates.items():
                dates[number] = max(dates.get(number, []), names, key=len)
        texts = TextColumns.joined([part.texts for part in parts])
        return cls(parts[0].width, texts, dict(sorted(dates.items())))

    def settled(self) -> "Columns":
        """What becomes of the columns."""
        return Columns(self.width, *self.texts.settled(), self.dates)


@dataclass(frozen=True)
class Columns:
    """What was learned of a table: categories, formats of numbers, and which columns are dates."""

    width: int
    categories: Categories = field(default_factory=dict)
    """Number of a column -> its categories, in the order of their codes; none of an id."""
    formats: Formats = field(default_factory=dict)
    """Number of a column -> how its numbers are written."""
    dates: dict[int, list[str]] = field(default_factory=dict)
    """Number of a column -> the parts that stand for it."""

    @classmethod
    def of(cls, X: Any, categorical_features: Any) -> "Columns":
        """From training rows."""
        return Seen.of(X, categorical_features).settled()

    def without_ids(self, X: Any, keep: Sequence[int] = ()) -> "Columns":
        """Take ids as empty: nothing learned of them holds for new rows.

        20,000 categories took a linear base model 18 seconds.
        """
        table = Table(X)
        ids = [number for number in self._ids(table) if number not in keep]
        if ids:
            names = [table.names[number] for number in ids]
            warn(
                f"columns {names} have another value in nearly every row, as ids have, so that "
                "nothing can be learned for new rows; they are taken as empty. Drop them before "
                "the fit, or keep one by turning its numbers into floats, or by naming it in "
                "categorical_features."
            )
        formats = {number: how for number, how in self.formats.items() if number not in ids}
        categories = self.categories | {number: [] for number in ids}
        return Columns(self.width, dict(sorted(categories.items())), formats, self.dates)

    def _ids(self, table: Table) -> list[int]:
        """Numbers of the columns that look like ids."""
        integers = [n for n in table.of_type(INTEGERS) if n not in self.categories]
        numbered = [n for n in [*integers, *self.formats] if are_ids(self._column(table, n))]
        named = [n for n, texts in self.categories.items() if all_differ(len(texts), len(table))]
        return sorted([*numbered, *named])

    @staticmethod
    def are_plain(X: Any, categorical_features: Any) -> bool:
        """Whether rows hold numbers alone, without a type of their own for each column."""
        asked = categorical_features is not None and not isinstance(categorical_features, str)
        return not (asked and len(categorical_features)) and not Table(X).has_types

    @property
    def sources(self) -> Where:
        """The column of the table from which each number is made."""
        widths = [len(self.dates.get(number, [0])) for number in range(self.width)]
        return np.repeat(np.arange(self.width), widths)

    @property
    def categorical(self) -> list[int]:
        """Numbers, by place, that are codes of categories."""
        sources = self.sources.tolist()
        return [place for place, source in enumerate(sources) if source in self.categories]

    def numbers(self, X: Any) -> Array:
        """Rows of a table as float64: codes of categories, parts of dates, NaN if missing."""
        table = Table(X)
        parts: list[Array] = []
        for number, name in enumerate(table.names):
            if number in self.dates:
                hour = "hour" in self.dates[number]
                parts.extend(date_parts(_as_dates(table.column(number), name), hour=hour)[1].T)
            else:
                parts.append(self._column(table, number))
        return np.column_stack(parts)

    def _column(self, table: Table, number: int) -> Array:
        return coded_column(table, number, table.names[number], self.categories, self.formats)


def _as_dates(values: NDArray[Any], name: Any) -> NDArray[np.datetime64]:
    """Dates in UTC; missing ones are NaT."""
    if values.dtype.kind == "M":
        return values.astype("datetime64[us]")
    return np.array([_as_date(value, name) for value in values.tolist()], dtype="datetime64[us]")


def _as_date(value: Any, name: Any) -> Any:
    if is_missing(value):
        return np.datetime64("NaT", "us")
    if hasattr(value, "to_timestamp"):  # a period
        value = value.to_timestamp()
    if getattr(value, "tzinfo", None) is not None:
        value = (value - value.utcoffset()).replace(tzinfo=None)
    try:
        return np.datetime64(value)
    except ValueError:
        raise ValueError(
            f"column {name!r} holds {value!r}, which is no date; correct it, or leave it empty."
        ) from None
