"""CSV and TSV through pyarrow, with the places of malformed lines.

pyarrow parses hundreds of MB a second, but with threads it does not say at which line it stopped,
and it takes a quote that is never closed for the start of a long value. So quotes are counted while
it reads, and after an error a second, slow pass finds the place.
"""

import atexit
import csv
import io
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, ClassVar, NamedTuple, TypedDict
from weakref import WeakSet

import pyarrow as pa
from pyarrow import csv as arrow_csv

from toppush.files.readers.base import TableReader, TextReader
from toppush.system.errors import repeated
from toppush.system.reading import UNREADABLE, DataError, opened_text, text_of
from toppush.tables.rows import Schema, feature_columns
from toppush.tables.strings import MixedColumn, is_number

DELIMITERS = ",\t;|"
BLOCK = 1 << 22
"""Bytes parsed at a time when streaming."""
MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL"]
"""Strings that stand for a missing value in a CSV file."""
HEX_PREFIX = re.compile(rb"0[xX]")
HEXADECIMAL = re.compile(r"[+-]?0[xX][0-9a-fA-F]+")
DECIMAL_POINT = re.compile(r"[+-]?\d+\.\d+")
DECIMAL_COMMA = re.compile(r"[+-]?(?:\d+,(?!\d{3}$)\d+|(?:0\d*|\d{4,}),\d{3})")
"""A comma that does not separate thousands, as it may in 1,234."""
QUOTED = re.compile(r'"[^"]*"')
LONGEST_HEADER = 1 << 20
SNIFFED = 1000
"""Rows in which decimal commas are searched for."""
NOT_UTF8 = (
    "the text is not UTF-8; save the file as UTF-8 (iconv -f latin1 -t utf-8 OLD > NEW; a "
    'spreadsheet calls it "CSV UTF-8").'
)
UTF16 = ("\udcff\udcfe", "\udcfe\udcff")
"""How a UTF-16 file begins, read as UTF-8."""


class Dialect(NamedTuple):
    """What the first lines of a file show of its syntax."""

    names: list[str]
    delimiter: str
    decimal_point: str


class Place(TypedDict, total=False):
    """Where a value stands."""

    file: Path
    line: int
    column: int | str


class CsvReader(TableReader, TextReader):
    """A text table whose values are separated by a comma, a tab, a semicolon or a bar."""

    block = BLOCK

    @cached_property
    def dialect(self) -> Dialect:
        """Column names, delimiter and decimal mark, from the first lines."""
        text = text_of(self.content)
        try:
            dialect = _sniffed(text)
        except csv.Error:
            raise self.error(
                "the names of the columns do not end; close their quotation marks.", line=1
            ) from None
        except UNREADABLE as error:
            raise self.error(f"cannot be read: {error}.") from None
        finally:
            text.detach()
        self.content.seek(0)
        return dialect

    @cached_property
    def names(self) -> list[str]:
        names = self.dialect.names
        if not names:
            raise self.error("the file is empty, or begins with an empty line.", line=1)
        for number, name in enumerate(names, 1):
            if wrong := complaint(name, None):
                raise self.error(wrong, line=1, column=number)
        if twice := repeated(names):
            number, name = twice
            message = f"the column name {name!r} is there twice; rename one."
            raise self.error(message, line=1, column=number)
        if all(is_number(name.strip()) for name in names):
            raise self.error(
                f"the first line holds numbers only, {names[0]!r} first; add a line with the names "
                "of the columns.",
                line=1,
            )
        return names

    @property
    def slow(self) -> "SlowReader":
        """A second pass over the file, which finds places."""
        return SlowReader(self.path, self.dialect)

    def _placed(self, error: DataError) -> DataError:
        """The error with the line of its row, or of the string that it names among numbers."""
        if isinstance(error, MixedColumn):
            place = self.slow.find_value(str(error.column), error.text.__eq__)
            return DataError(error.message, **place)
        line = None if error.row is None else self.slow.line_of(error.row)
        if line is None:
            return error
        return DataError(error.message, file=self.path, line=line, column=error.column)

    def table(self, drop: Collection[str] = (), strings: Collection[str] = ()) -> pa.Table:
        names, types = self.names, {name: pa.string() for name in strings}
        with self._counted(types) as source:
            table = arrow_csv.read_csv(
                source, parse_options=self._parsing(), convert_options=self._converting(types)
            )
        try:
            intact = table.column_names == names
        except UnicodeDecodeError:
            intact = False
        if not intact:
            raise self.error(
                "the names of the columns do not end with the first line; close its quotation "
                "marks.",
                line=1,
            )
        table = table.select(feature_columns(names, *drop))
        for field in table.schema:
            if pa.types.is_binary(field.type):
                place = self.slow.find_value(field.name, lambda text: bool(complaint(text, None)))
                raise DataError(NOT_UTF8, **place)
        if source.hexadecimal:
            self._refuse_hexadecimal(table)
        return table

    def stream(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        with self._counted(schema) as source:
            yield from arrow_csv.open_csv(
                source,
                read_options=arrow_csv.ReadOptions(block_size=self.block),
                parse_options=self._parsing(),
                convert_options=self._converting(schema, include_columns=list(schema)),
            )

    @contextmanager
    def _counted(self, schema: Schema) -> Iterator["_CountedFile"]:
        """The content for pyarrow, whose errors get a place; quotes must be closed at its end."""
        try:
            with closing(_CountedFile(self.content)) as source:
                yield source
        except (pa.ArrowException, *UNREADABLE) as error:
            raise self.slow.find(schema, str(error)) from None
        if source.quotes % 2:
            self.slow.refuse_open_quote()

    def _parsing(self) -> arrow_csv.ParseOptions:
        return arrow_csv.ParseOptions(delimiter=self.dialect.delimiter, newlines_in_values=True)

    def _converting(
        self, types: Schema, include_columns: Collection[str] = ()
    ) -> arrow_csv.ConvertOptions:
        return arrow_csv.ConvertOptions(
            column_types=types,
            null_values=MISSING,
            strings_can_be_null=True,
            decimal_point=self.dialect.decimal_point,
            include_columns=include_columns,
        )

    def _refuse_hexadecimal(self, table: pa.Table) -> None:
        """Refuse whole numbers such as 0x10, which pyarrow reads as 16 or as a string."""
        whole = {field.name for field in table.schema if pa.types.is_integer(field.type)}
        cell = self.slow.find_cell(
            lambda name, value: name in whole and bool(HEXADECIMAL.fullmatch(value))
        )
        if cell is not None:
            place, name, value = cell
            raise DataError(
                f"{value!r} is a hexadecimal number; write it with decimal digits, or name it with "
                f"--categorical {name} to keep it as a string.",
                **place,
            )


def _sniffed(text: io.TextIOWrapper) -> Dialect:
    """The dialect, from the first lines of a text."""
    header = _header_lines(text)
    delimiter = max(DELIMITERS, key=QUOTED.sub("", "".join(header)).count)
    lines = chain(header, text)
    names = next(csv.reader(lines, delimiter=delimiter), [])
    return Dialect(names, delimiter, _decimal_point(lines, delimiter))


def _header_lines(text: io.TextIOWrapper) -> list[str]:
    """The first line, and those after it in which its quotes go on."""
    header: list[str] = []
    quotes = size = 0
    while (quotes % 2 or not header) and size < LONGEST_HEADER and (line := text.readline()):
        header.append(line)
        quotes, size = quotes + line.count('"'), size + len(line)
    return header


def _decimal_point(lines: Iterator[str], delimiter: str) -> str:
    """A comma if numbers of the first rows have one, none has a point, and it is no delimiter."""
    if delimiter == ",":
        return "."
    try:
        rows = islice(csv.reader(lines, delimiter=delimiter, strict=True), SNIFFED)
        cells = [cell for row in rows for cell in row]
    except (csv.Error, *UNREADABLE):  # reported when the rows are read
        return "."
    if any(DECIMAL_POINT.fullmatch(cell) for cell in cells):
        return "."
    return "," if any(DECIMAL_COMMA.fullmatch(cell) for cell in cells) else "."


class _CountedFile(io.RawIOBase):
    """A file that counts the quotes that are read from it, and looks for hexadecimal numbers."""

    held: ClassVar[WeakSet["_CountedFile"]] = WeakSet()
    """Objects that still have a reference, perhaps in a thread of pyarrow."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.quotes = 0
        self.hexadecimal, self._last = False, b""
        self.held.add(self)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.quotes += data.count(b'"')
        self.hexadecimal = self.hexadecimal or bool(HEX_PREFIX.search(self._last + data))
        self._last = data[-1:]
        return data

    def close(self) -> None:
        self._file.close()
        super().close()


@atexit.register
def _wait_for_threads() -> None:
    """Wait at most a second until pyarrow's threads have released their files.

    A release while the interpreter shuts down aborts the process: exit code 134 in about every
    second run that ended soon after a file.
    """
    for _ in range(1000):
        if not _CountedFile.held:
            break
        time.sleep(0.001)


# ---- places of errors


class SlowReader:
    """Reads a CSV file again with the standard library, row by row, to find places of errors.

    It opens the file again: a thread of pyarrow may still hold the first one.
    """

    def __init__(self, path: Path, dialect: Dialect) -> None:
        self.path, self.dialect = path, dialect
        self.line = 1
        """Line at which the current row begins."""

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
        """The line at which a row, counted from 1, begins; None if there is none."""
        with suppress(csv.Error, *UNREADABLE):
            for number, (line, _, _) in enumerate(self.rows(), 1):
                if number == row:
                    return line
        return None

    def find_value(self, column: str, wrong: Callable[[str], bool]) -> Place:
        """Place of the first value of a column that is `wrong`."""
        cell = self.find_cell(lambda name, value: name == column and wrong(value))
        return cell[0] if cell is not None else Place(file=self.path, column=column)

    def find(self, schema: Schema, otherwise: str) -> DataError:
        """What is wrong with the first malformed line; `otherwise` is the reason if none is."""
        try:
            for line, names, row in self.rows():
                if (error := self._row_error(line, names, row, schema)) is not None:
                    return error
        except csv.Error as error:
            return DataError(
                f"{error}; close its quotes or correct it.",
                file=self.path,
                line=self.line,
                column=1,
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

    def _row_error(
        self, line: int, names: list[str], row: list[str], schema: Schema
    ) -> DataError | None:
        if len(row) != len(names):
            return DataError(
                f"{len(names)} values are expected, as in the header, and {len(row)} found; "
                "correct the line.",
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
