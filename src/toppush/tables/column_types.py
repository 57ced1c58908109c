"""Types of columns: numbers, a part of dates, categories, or text; counts of unusual values."""

import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from toppush.system.reading import DataError
from toppush.tables import arrow_values as arrow
from toppush.tables.dates import PARTS, date_part, days_between
from toppush.tables.strings import NumberFormat
from toppush.tables.text import Terms, as_texts, lengths_of
from toppush.types import Array, Mask

LARGER = 1000.0
"""A value that exceeds the largest of training by this factor has another unit, or is wrong."""
FIRST = PARTS[0]
"""The part of dates that is always there, and marks their missing values."""


@dataclass
class Counts:
    """Missing, unknown and unusually large values of rows, by column."""

    missing: Counter[str] = field(default_factory=Counter)
    unseen: Counter[str] = field(default_factory=Counter)
    """Unknown categories."""
    unread: Counter[str] = field(default_factory=Counter)
    """Strings that are no numbers, in columns of number strings; also counted as missing."""
    larger: dict[str, float] = field(default_factory=dict)
    """Greatest ratio of a value to the largest of training, where it exceeds `LARGER`."""
    blanks: int = 0
    """Labels that were read without the blanks around them."""

    def note_larger(self, name: str, ratio: float) -> None:
        """Keep the greatest ratio of a column."""
        self.larger[name] = max(self.larger.get(name, 0.0), ratio)

    def caution(self) -> None:
        """Warn of columns with values far larger than in training."""
        if self.larger:
            shown = ", ".join(f"{name} ({ratio:.3g} times)" for name, ratio in self.larger.items())
            warnings.warn(
                f"values are far larger than any that the model was fitted to, and may decide the "
                f"order alone, in column {shown}. Is the unit another?",
                stacklevel=3,
            )


class ColumnData(NamedTuple):
    """A column's numbers, or codes of its categories (-1: none), and where values are missing.

    Of text the values are a CSR array: the number of characters and the weights of terms.
    """

    values: NDArray[Any]
    missing: Mask | None


@dataclass(frozen=True)
class Number:
    """A column of numbers or of true and false."""

    name: str
    fill: float
    had_missing: bool
    """Whether training values were missing."""
    boolean: bool = False
    """Whether it held true and false."""
    low: float = -np.inf
    high: float = np.inf
    """The range of its training values."""
    keep_nan: bool = False
    """Whether missing values stay NaN, without an indicator."""
    decimal: str = ""
    """The decimal mark of number strings; "" if the column holds numbers."""
    unit: str = ""
    """The unit of number strings, such as "%"."""

    @property
    def source(self) -> str:
        """The column of the table that it is made of."""
        return self.name

    @property
    def format(self) -> NumberFormat | None:
        """The format of number strings."""
        return NumberFormat(self.decimal, self.unit) if self.decimal else None

    @property
    def marks_missing(self) -> bool:
        """Whether it represents the missing values of its source."""
        return True

    @property
    def has_unit(self) -> bool:
        """Whether far larger values may be due to another unit."""
        return True

    @property
    def has_indicator(self) -> bool:
        """Whether its last output is 1 where a value is missing."""
        return self.had_missing and self.marks_missing and not self.keep_nan

    @property
    def width(self) -> int:
        """Number of outputs."""
        return 1 + self.has_indicator

    def outputs(self) -> list[str]:
        """Names of its outputs."""
        return [self.name] + [f"{self.name} is missing"] * self.has_indicator

    @property
    def constant(self) -> bool:
        """Whether it held one value in every row."""
        return self.low == self.high and not (self.had_missing and self.marks_missing)

    def cells(self, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        """The cells of rows that it is read from."""
        return arrow.whole(rows[self.source])

    def read(self, column: pa.Array, counts: Counts) -> ColumnData:
        """Values, with missing ones filled; infinite numbers are refused."""
        values, missing = self.floats(column), None
        if self.format is not None and (wrong := arrow.count_unread(column, values)):
            counts.unread[self.source] += wrong
        if not arrow.all_finite(values):
            missing, infinite = np.isnan(values), np.isinf(values)
            if infinite.any():
                row = int(np.argmax(infinite)) + 1
                raise DataError("is infinite; correct or drop the row.", row=row, column=self.name)
            if self.marks_missing:
                counts.missing[self.source] += int(np.count_nonzero(missing))
            if not self.keep_nan:
                values = np.where(missing, self.fill, values)
        largest = max(abs(self.low), abs(self.high))
        if self.has_unit and values.size and 0.0 < largest < np.inf:
            size = max(float(np.fmax.reduce(values)), -float(np.fmin.reduce(values)))
            if size > LARGER * largest:
                counts.note_larger(self.name, size / largest)
        return ColumnData(values, missing)

    def floats(self, column: pa.Array) -> Array:
        """Its values, NaN where missing."""
        if self.format is not None and arrow.is_string(arrow.value_type(column.type)):
            return arrow.parsed_numbers(column, self.format)
        return arrow.as_floats(self.name, column)


@dataclass(frozen=True)
class Date(Number):
    """A part of the dates of a column, such as the month."""

    of: str = ""
    part: str = FIRST
    order: str = ""
    """Order of year, month and day in date strings, see `date_order`; "" for 2024-01-31."""

    @property
    def source(self) -> str:
        return self.of

    @property
    def marks_missing(self) -> bool:
        return self.part == FIRST

    @property
    def has_unit(self) -> bool:
        return False

    def floats(self, column: pa.Array) -> Array:
        return date_part(arrow.as_dates(self.source, column, self.order), self.part)


@dataclass(frozen=True)
class Elapsed(Date):
    """Days from the date of another column to the date of its source."""

    since: str = ""
    since_order: str = ""

    def cells(self, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        later, earlier = (arrow.whole(rows[name]) for name in (self.of, self.since))
        days = days_between(
            arrow.as_dates(self.since, earlier, self.since_order),
            arrow.as_dates(self.of, later, self.order),
        )
        return pa.array(days, from_pandas=True)

    def floats(self, column: pa.Array) -> Array:
        return arrow.as_floats(self.name, column)


@dataclass(frozen=True)
class Category:
    """A column of categories."""

    name: str
    categories: list[str]
    had_missing: bool
    coded: bool = False
    """Whether its one output is the code of the category: NaN if missing, the last if unknown."""

    @property
    def source(self) -> str:
        return self.name

    @property
    def has_indicator(self) -> bool:
        return self.had_missing and not self.coded

    @property
    def width(self) -> int:
        return 1 if self.coded else len(self.categories) + self.had_missing

    def outputs(self) -> list[str]:
        if self.coded:
            return [self.name]
        named = [f"{self.name}={category}" for category in self.categories]
        return named + [f"{self.name} is missing"] * self.had_missing

    @property
    def constant(self) -> bool:
        return len(self.categories) == 1 and not self.had_missing

    def cells(self, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        """The cells of rows that it is read from."""
        return arrow.whole(rows[self.source])

    def read(self, column: pa.Array, counts: Counts) -> ColumnData:
        """Codes of the categories, -1 where unknown or missing."""
        arrow.refuse_type(self.name, arrow.value_type(column.type))
        known = pa.array(self.categories, pa.large_string())
        codes = pc.index_in(arrow.as_strings(column), value_set=known)
        if not codes.null_count:
            return ColumnData(codes.to_numpy(), None)
        missing = arrow.missing_strings(column)
        n_missing = int(np.count_nonzero(missing))
        if n_missing:
            counts.missing[self.name] += n_missing
        if codes.null_count > n_missing:
            counts.unseen[self.name] += codes.null_count - n_missing
        return ColumnData(codes.fill_null(-1).to_numpy(), missing if n_missing else None)


@dataclass(frozen=True)
class Text:
    """A column of free text: its number of characters, and the weights of its terms."""

    name: str
    terms: Terms
    had_missing: bool

    @property
    def source(self) -> str:
        return self.name

    @property
    def has_indicator(self) -> bool:
        return False

    @property
    def width(self) -> int:
        return 1 + len(self.terms)

    def outputs(self) -> list[str]:
        return [self.characters, *(f"{self.name}: {term}" for term in self.terms.names)]

    @property
    def characters(self) -> str:
        """The name of its number of characters."""
        return f"{self.name} (characters)"

    @property
    def constant(self) -> bool:
        return not len(self.terms)

    def cells(self, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        """The cells of rows that it is read from."""
        return arrow.whole(rows[self.source])

    @classmethod
    def learned(cls, name: str, column: pa.ChunkedArray, counts: Counts) -> "Text":
        """The terms of training values."""
        column = arrow.whole(column)
        strings = as_texts(arrow.as_strings(column).to_pylist())
        missing = arrow.missing_strings(column)
        counts.missing[name] += int(np.count_nonzero(missing))
        return cls(name, Terms.of(strings), bool(missing.any()))

    def read(self, column: pa.Array, counts: Counts) -> ColumnData:
        """The weights as a CSR array; missing text is empty."""
        strings, missing = self.strings(column), arrow.missing_strings(column)
        if missing.any():
            counts.missing[self.name] += int(np.count_nonzero(missing))
        lengths = sparse.csr_array(lengths_of(strings)[:, None])
        weights = sparse.hstack([lengths, self.terms.transform(strings)], format="csr")
        return ColumnData(weights, missing if missing.any() else None)

    def strings(self, column: pa.Array) -> list[str]:
        """The values; missing ones are empty."""
        arrow.refuse_type(self.name, arrow.value_type(column.type))
        return as_texts(arrow.as_strings(column).to_pylist())


Column = Number | Category | Text
"""A date is a number."""
