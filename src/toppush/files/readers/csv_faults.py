"""Where a CSV file is wrong: a second reading, slow and row by row, after an error.

It opens the file again: what pyarrow was given may still be held by one of its threads.
"""

import csv
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypedDict

import pyarrow as pa

from toppush.system.reading import UNREADABLE, DataError, opened_text
from toppush.tables.arrow_values import is_number
from toppush.tables.loaded import Schema

NOT_UTF8 = (
    "the text is not UTF-8; save the file as UTF-8 (iconv -f latin1 -t utf-8 OLD > NEW; a "
    'spreadsheet calls it "CSV UTF-8").'
)
UTF16 = ("\udcff\udcfe", "\udcfe\udcff")
"""How a file of UTF-16 begins, read as UTF-8."""
MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL"]
"""Texts that stand for a missing value in a CSV file."""


class Dialect(NamedTuple):
    """What the first lines of a file say of the others."""

    names: list[str]
    delimiter: str
    decimal_point: str


class Place(TypedDict, total=False):
    """Where a value stands."""

    file: Path
    line: int
    column: int | str


class Faults:
    """A file read again, by the standard library."""

    def __init__(self, path: Path, dialect: Dialect) -> None:
        self.path, self.dialect = path, dialect
        self.line = 1
        """Line at which the row that is being read begins."""

    def rows(self) -> Iterator[tuple[int, list[str], list[str]]]:
        """Line number, column names and values of each row."""
        with opened_text(self.path) as text:
            reader = csv.reader(text, delimiter=self.dialect.delimiter, strict=True)
            names = next(reader, [])
            self.line = reader.line_num + 1
            for row in reader:
                if row:  # pyarrow skips empty lines too
                    yield self.line, names, row
                self.line = reader.line_num + 1

    def find_cell(self, wrong: Callable[[str, str], bool]) -> tuple[Place, str, str] | None:
        """Place, column name and value of the first cell that is `wrong`, if any."""
        with suppress(csv.Error):  # quotes that pyarrow reads, and the standard library does not
            for line, names, row in self.rows():
                for number, (name, value) in enumerate(zip(names, row, strict=False), 1):
                    if wrong(name, value):
                        return self._place(line, number, name), name, value
        return None

    def line_of(self, row: int) -> int | None:
        """The line at which a row, counted from 1, begins; None if it is not found."""
        with suppress(csv.Error, *UNREADABLE):
            for number, (line, _, _) in enumerate(self.rows(), 1):
                if number == row:
                    return line
        return None

    def find_value(self, column: str, wrong: Callable[[str], bool]) -> Place:
        """Place of the first value of a column that is `wrong`."""
        found = self.find_cell(lambda name, value: name == column and wrong(value))
        return found[0] if found is not None else Place(file=self.path, column=column)

    def find(self, schema: Schema, otherwise: str) -> DataError:
        """What is wrong with the first malformed line; `otherwise` is the reason if none is."""
        try:
            for line, names, row in self.rows():
                if (error := self._complaint(line, names, row, schema)) is not None:
                    return error
        except csv.Error as error:
            return DataError(
                f"{error}; close its quotes or mend it.", file=self.path, line=self.line, column=1
            )
        except UNREADABLE as error:
            return DataError(f"cannot be read: {error}.", file=self.path)
        return DataError(f"cannot be read: {otherwise}", file=self.path)

    def refuse_open_quote(self) -> None:
        """Refuse a quote that is never closed: the rest of the file would be one value."""
        try:
            for _ in self.rows():
                pass
        except csv.Error as error:
            raise DataError(
                f"a quote is not closed ({error}); close it or double it.",
                file=self.path,
                line=self.line,
            ) from None

    def _complaint(
        self, line: int, names: list[str], row: list[str], schema: Schema
    ) -> DataError | None:
        if len(row) != len(names):
            return DataError(
                f"{len(names)} values are expected, as in the header, and {len(row)} found; "
                "mend the line.",
                file=self.path,
                line=line,
                column=min(len(row), len(names)) + 1,
            )
        for number, (name, value) in enumerate(zip(names, row, strict=True), 1):
            if wrong := complaint(value, schema.get(name), self.dialect.decimal_point):
                return DataError(wrong, **self._place(line, number, name))
        return None

    def _place(self, line: int, number: int, name: str) -> Place:
        return Place(file=self.path, line=line, column=f"{number} ({name})")


def complaint(value: str, wanted: pa.DataType | None, decimal_point: str = ".") -> str | None:
    """What is wrong with a value, if anything."""
    if not value.isascii() and any("\udc80" <= letter <= "\udcff" for letter in value):
        return NOT_UTF8.replace("latin1", "utf-16") if value[:2] in UTF16 else NOT_UTF8
    if wanted is None or value in MISSING:
        return None
    if pa.types.is_boolean(wanted) and value.lower() not in ("true", "false", "0", "1"):
        return f"{value!r} is neither true nor false, as the column was when the model was fitted."
    if pa.types.is_floating(wanted) and not is_number(value.replace(decimal_point, ".").strip()):
        return f"{value!r} is not a number, and the column held numbers when the model was fitted."
    return None
