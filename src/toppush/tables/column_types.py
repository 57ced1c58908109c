"""What a column of a table is: numbers, a part of dates, or texts from a list."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toppush.system.reading import DataError
from toppush.tables import arrow_values as arrow
from toppush.tables.counts import LARGER, Counts
from toppush.tables.dates import PARTS, date_part
from toppush.tables.number_strings import NumberFormat
from toppush.types import Array, Mask

FIRST = next(iter(PARTS))
"""The part of dates that is always there, and stands for their gaps."""


class Cells(NamedTuple):
    """A column's numbers, or places among its texts (-1: none), and where its gaps are."""

    values: NDArray[Any]
    gaps: Mask | None


@dataclass(frozen=True)
class Number:
    """A column of numbers or of true and false."""

    name: str
    fill: float
    gaps: bool
    """Whether it had any when fitted."""
    flag: bool = False
    """Whether it held true and false."""
    low: float = -np.inf
    high: float = np.inf
    """The range of its values when fitted."""
    kept: bool = False
    """Whether gaps stay gaps: NaN, without an output of their own."""
    decimal: str = ""
    """The decimal mark of numbers written as text; "" if the column holds numbers."""
    unit: str = ""
    """The unit of numbers written as text, such as "%"."""

    @property
    def source(self) -> str:
        """The column of the table that it is made of."""
        return self.name

    @property
    def format(self) -> NumberFormat | None:
        """How its numbers are written, if they are text."""
        return NumberFormat(self.decimal, self.unit) if self.decimal else None

    @property
    def marks(self) -> bool:
        """Whether its last output marks gaps."""
        return self.gaps and not self.kept

    @property
    def width(self) -> int:
        """How many outputs it has."""
        return 1 + self.marks

    def outputs(self) -> list[str]:
        """Names of its outputs."""
        return [self.name] + [f"{self.name} is missing"] * self.marks

    @property
    def constant(self) -> bool:
        """Whether it held one value in every row."""
        return self.low == self.high and not self.gaps

    def read(self, column: pa.Array, counts: Counts) -> Cells:
        """Values with gaps filled; numbers that are not finite are refused."""
        values, gaps = self.floats(column), None
        if self.format is not None and (wrong := arrow.n_unread(column, values)):
            counts.unread[self.source] += wrong
        if not arrow.all_finite(values):
            gaps, infinite = np.isnan(values), np.isinf(values)
            if infinite.any():
                row = int(np.argmax(infinite)) + 1
                raise DataError("is infinite; mend or drop the row.", row=row, column=self.name)
            self._count(gaps, counts)
            if not self.kept:
                values = np.where(gaps, self.fill, values)
        self._compare(values, counts)
        return Cells(values, gaps)

    def floats(self, column: pa.Array) -> Array:
        """Its values, NaN where there is none."""
        if self.format is not None and arrow.is_text(arrow.value_type(column.type)):
            return arrow.parsed_numbers(column, self.format)
        return arrow.as_floats(self.name, column)

    def _count(self, gaps: Mask, counts: Counts) -> None:
        counts.missing[self.source] += int(np.count_nonzero(gaps))

    def _compare(self, values: Array, counts: Counts) -> None:
        """Note values that are far larger than any when fitted."""
        known = max(abs(self.low), abs(self.high))
        if not values.size or not 0.0 < known < np.inf:
            return
        size = max(float(np.fmax.reduce(values)), -float(np.fmin.reduce(values)))
        if size > LARGER * known:
            counts.note_larger(self.name, size / known)


@dataclass(frozen=True)
class Date(Number):
    """A part of the dates of a column, such as the month; the first part stands for their gaps."""

    of: str = ""
    part: str = FIRST

    @property
    def source(self) -> str:
        return self.of

    @property
    def marks(self) -> bool:
        return super().marks and self.part == FIRST

    @property
    def constant(self) -> bool:
        return self.low == self.high and not (self.gaps and self.part == FIRST)

    def floats(self, column: pa.Array) -> Array:
        return date_part(arrow.as_dates(self.source, column), self.part)

    def _count(self, gaps: Mask, counts: Counts) -> None:
        if self.part == FIRST:
            super()._count(gaps, counts)


@dataclass(frozen=True)
class Category:
    """A column of texts from a list."""

    name: str
    texts: list[str]
    gaps: bool
    coded: bool = False
    """Whether its one output is the place of the text, NaN for none, the end for one unknown."""

    @property
    def source(self) -> str:
        return self.name

    @property
    def marks(self) -> bool:
        return self.gaps and not self.coded

    @property
    def width(self) -> int:
        return 1 if self.coded else len(self.texts) + self.gaps

    def outputs(self) -> list[str]:
        if self.coded:
            return [self.name]
        named = [f"{self.name}={text}" for text in self.texts]
        return named + [f"{self.name} is missing"] * self.gaps

    @property
    def constant(self) -> bool:
        return len(self.texts) == 1 and not self.gaps

    def read(self, column: pa.Array, counts: Counts) -> Cells:
        """Places of the texts in the list."""
        arrow.refuse_type(self.name, arrow.value_type(column.type))
        found = pc.index_in(
            arrow.texts_of(column), value_set=pa.array(self.texts, pa.large_string())
        )
        if not found.null_count:
            return Cells(found.to_numpy(), None)
        gaps = arrow.no_text(column)
        n_missing = int(np.count_nonzero(gaps))
        if n_missing:
            counts.missing[self.name] += n_missing
        if found.null_count > n_missing:
            counts.unseen[self.name] += found.null_count - n_missing
        return Cells(found.fill_null(-1).to_numpy(), gaps if n_missing else None)


Column = Number | Category
"""A date is a number."""
