"""Tables as users have them, as the numbers that members take."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toppush.designs.dates import date_parts
from toppush.nonlinear.tables import (
    Categories,
    Table,
    categorical_columns,
    categories_of,
    codes_of,
    is_gap,
    joined_categories,
    numbers_of,
)
from toppush.types import Array, Where

NEARLY, FEWEST = 0.99, 50
"""Share of rows with a text of their own from which a column is an id, and rows to say so."""


@dataclass(frozen=True)
class Columns:
    """What was learned of a table: texts of its categories, and which columns are dates."""

    width: int
    categories: Categories = field(default_factory=dict)
    """Number of a column -> its categories, in the order of their codes."""
    dates: dict[int, list[str]] = field(default_factory=dict)
    """Number of a column -> the parts that stand for it."""

    @classmethod
    def of(cls, X: Any, categorical_features: Any) -> "Columns":
        """From training rows."""
        table = Table(X)
        width = len(table.names)
        found = categorical_columns(X, categorical_features)
        dates = {}
        for number in table.dates():
            if number not in found:
                names, _ = date_parts(_as_dates(table.column(number), table.names[number]))
                dates[number] = list(names)
        return cls(width, categories_of(X, found), dates)

    @classmethod
    def joined(cls, parts: Sequence["Columns"]) -> "Columns":
        """What was learned of a table, from its parts."""
        dates = {
            number: max((part.dates[number] for part in parts), key=len)
            for number in parts[0].dates
        }
        return cls(parts[0].width, joined_categories([part.categories for part in parts]), dates)

    def empty_ids(self, X: Any) -> None:
        """Forget texts that differ in nearly every row: 20,000 took a linear member 18 seconds."""
        for number, texts in self.categories.items():
            if len(X) >= FEWEST and len(texts) >= NEARLY * len(X):
                texts.clear()
                warnings.warn(
                    f"column {Table(X).names[number]!r} has another text in nearly every row, so "
                    "nothing can be learned from it; it is taken as empty. Drop it, or name it in "
                    "categorical_features.",
                    UserWarning,
                    stacklevel=6,
                )

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
        """Rows of a table as float64: codes of categories, parts of dates, NaN for gaps."""
        table = Table(X)
        parts: list[Array] = []
        for number, name in enumerate(table.names):
            values = table.column(number)
            if number in self.categories:
                parts.append(codes_of(values, self.categories[number]))
            elif number in self.dates:
                hour = "hour" in self.dates[number]
                parts.extend(date_parts(_as_dates(values, name), hour=hour)[1].T)
            else:
                parts.append(numbers_of(values, name))
        return np.column_stack(parts)


def _as_dates(values: NDArray[Any], name: Any) -> NDArray[np.datetime64]:
    """Dates in UTC; gaps are NaT."""
    if values.dtype.kind == "M":
        return values.astype("datetime64[us]")
    return np.array([_as_date(value, name) for value in values.tolist()], dtype="datetime64[us]")


def _as_date(value: Any, name: Any) -> Any:
    if is_gap(value):
        return np.datetime64("NaT", "us")
    if hasattr(value, "to_timestamp"):  # a period
        value = value.to_timestamp()
    if getattr(value, "tzinfo", None) is not None:
        value = (value - value.utcoffset()).replace(tzinfo=None)
    try:
        return np.datetime64(value)
    except ValueError:
        raise ValueError(
            f"column {name!r} holds {value!r}, which is no date; mend it, or leave it empty."
        ) from None
