"""CSV and TSV through pyarrow, with malformed lines found.

pyarrow parses hundreds of MB a second, but with threads it does not say at which line it stopped,
and it takes a quote that is never closed for the start of a long value. So quotes are counted on
the way, and after an error a second, slow reading finds the place.
"""

import atexit
import csv
import io
import re
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import chain, islice
from typing import BinaryIO, ClassVar
from weakref import WeakSet

import pyarrow as pa
from pyarrow import csv as arrow_csv

from toppush.files.readers.base import TableReader, TextReader
from toppush.files.readers.csv_faults import MISSING, NOT_UTF8, Dialect, Faults, complaint
from toppush.system.errors import repeated
from toppush.system.reading import UNREADABLE, DataError, text_of
from toppush.tables.arrow_values import is_number
from toppush.tables.categories import MixedColumn
from toppush.tables.loaded import Schema

DELIMITERS = ",\t;|"
BLOCK = 1 << 22
"""Bytes parsed at a time when streaming."""
HEX_PREFIX = re.compile(rb"0[xX]")
HEXADECIMAL = re.compile(r"[+-]?0[xX][0-9a-fA-F]+")
DECIMAL_POINT = re.compile(r"[+-]?\d+\.\d+")
DECIMAL_COMMA = re.compile(r"[+-]?(?:\d+,(?!\d{3}$)\d+|(?:0\d*|\d{4,}),\d{3})")
"""A comma that does not separate thousands, as it may in 1,234."""
QUOTED = re.compile(r'"[^"]*"')
LONGEST_HEADER = 1 << 20
SNIFFED = 1000
"""Rows in which decimal commas are looked for."""


class CsvReader(TableReader, TextReader):
    """A table as text: values parted by a comma, a tab, a semicolon or a bar."""

    block = BLOCK

    @cached_property
    def dialect(self) -> Dialect:
        """The names in the header, what parts values and what marks decimals; read once."""
        text = text_of(self.content)
        try:
            found = _sniffed(text)
        except csv.Error:
            raise self.error(
                "the names of the columns do not end; close their quotation marks.", line=1
            ) from None
        except UNREADABLE as error:
            raise self.error(f"cannot be read: {error}.") from None
        finally:
            text.detach()
        self.content.seek(0)
        return found

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
            said = f"the column name {name!r} is there twice; rename one."
            raise self.error(said, line=1, column=number)
        if all(is_number(name.strip()) for name in names):
            raise self.error(
                f"the first line holds numbers only, {names[0]!r} first; add a line with the names "
                "of the columns.",
                line=1,
            )
        return names

    @property
    def faults(self) -> Faults:
        """A second, slow reading."""
        return Faults(self.path, self.dialect)

    def _placed(self, error: DataError) -> DataError:
        """The error with the line of its row, or of the string that it names among numbers."""
        if not isinstance(error, MixedColumn):
            line = None if error.row is None else self.faults.line_of(error.row)
            if line is None:
                return error
            return DataError(error.message, file=self.path, line=line, column=error.column)
        place = self.faults.find_value(str(error.column), error.text.__eq__)
        return DataError(error.message, **place)

    def table(self, drop: Collection[str] = (), texts: Collection[str] = ()) -> pa.Table:
        names, types = self.names, {name: pa.string() for name in texts}
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
        left_out = set(drop)
        table = table.select([name for name in names if name not in left_out])
        for field in table.schema:
            if pa.types.is_binary(field.type):
                place = self.faults.find_value(field.name, lambda text: bool(complaint(text, None)))
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
    def _counted(self, schema: Schema) -> Iterator["_Counted"]:
        """The content for pyarrow, whose errors are explained; quotes must be closed at its end."""
        try:
            with closing(_Counted(self.content)) as source:
                yield source
        except (pa.ArrowException, *UNREADABLE) as error:
            raise self.faults.find(schema, str(error)) from None
        if source.quotes % 2:
            self.faults.refuse_open_quote()

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
        """Refuse whole numbers such as 0x10: pyarrow takes it for 16 here and for a text there."""
        whole = {field.name for field in table.schema if pa.types.is_integer(field.type)}
        found = self.faults.find_cell(
            lambda name, value: name in whole and bool(HEXADECIMAL.fullmatch(value))
        )
        if found is not None:
            place, name, value = found
            raise DataError(
                f"{value!r} is a hexadecimal number; write it with decimal digits, or name it with "
                f"--categorical {name} to keep it as a text.",
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
    found: list[str] = []
    quotes = size = 0
    while (quotes % 2 or not found) and size < LONGEST_HEADER and (line := text.readline()):
        found.append(line)
        quotes, size = quotes + line.count('"'), size + len(line)
    return found


def _decimal_point(lines: Iterator[str], delimiter: str) -> str:
    """A comma, if one is in numbers of the first rows, no point is, and it parts no values."""
    if delimiter == ",":
        return "."
    try:
        rows = islice(csv.reader(lines, delimiter=delimiter, strict=True), SNIFFED)
        cells = [cell for row in rows for cell in row]
    except (csv.Error, *UNREADABLE):  # found again, and told, when the rows are read
        return "."
    if any(DECIMAL_POINT.fullmatch(cell) for cell in cells):
        return "."
    return "," if any(DECIMAL_COMMA.fullmatch(cell) for cell in cells) else "."


class _Counted(io.RawIOBase):
    """A file that counts the quotes that are read from it, and looks for hexadecimal numbers."""

    held: ClassVar[WeakSet["_Counted"]] = WeakSet()
    """Those that someone still holds, perhaps a thread of pyarrow."""

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
def _let_go() -> None:
    """Wait until pyarrow's threads have let go of their files, at most a second.

    One that lets go while the interpreter shuts down aborts the process: exit code 134 in about
    every second run that ended soon after a file.
    """
    for _ in range(1000):
        if not _Counted.held:
            break
        time.sleep(0.001)
