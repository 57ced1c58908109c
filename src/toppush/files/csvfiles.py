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
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakSet

import pyarrow as pa
from pyarrow import csv as arrow_csv

from toppush.files.errors import DataError
from toppush.files.files import UNREADABLE, open_bytes

DELIMITERS = ",\t;|"
NOT_UTF8 = (
    "the text is not UTF-8; save the file as UTF-8 (iconv -f latin1 -t utf-8 OLD > NEW; a "
    'spreadsheet calls it "CSV UTF-8").'
)
UTF16 = ("\udcff\udcfe", "\udcfe\udcff")
"""How a file of UTF-16 begins, read as UTF-8."""
MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL"]
"""Texts that stand for a missing value in a CSV file."""
BLOCK = 1 << 22
"""Bytes parsed at a time when streaming."""
HEX_PREFIX = re.compile(rb"0[xX]")
HEXADECIMAL = re.compile(r"[+-]?0[xX][0-9a-fA-F]+")
DECIMAL_COMMA, DECIMAL_POINT = re.compile(r"[+-]?\d+,\d+"), re.compile(r"[+-]?\d+\.\d+")
QUOTED = re.compile(r'"[^"]*"')
LONGEST_HEADER = 1 << 20
SNIFFED = 1000
"""Rows in which decimal commas are looked for."""
Schema = Mapping[str, pa.DataType]


def header(path: Path) -> list[str]:
    """The names in the first line, each of which must be there once.

    A name in quotes may go on in the next line.
    """
    names = _first_row(path)
    if not names:
        raise DataError("the file is empty, or begins with an empty line.", file=path, line=1)
    for number, name in enumerate(names, 1):
        if complaint := _complaint(name, None):
            raise DataError(complaint, file=path, line=1, column=number)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        number = names.index(twice, names.index(twice) + 1) + 1
        raise DataError(
            f"the column name {twice!r} is there twice; rename one.",
            file=path,
            line=1,
            column=number,
        )
    if all(_is_number(name) for name in names):
        raise DataError(
            f"the first line holds numbers only, {names[0]!r} first; add a line with the names of "
            "the columns.",
            file=path,
            line=1,
        )
    return names


def _first_row(path: Path) -> list[str]:
    try:
        with _text(path) as text:
            return next(csv.reader(text, delimiter=_delimiter(path)), [])
    except csv.Error:
        raise DataError(
            "the names of the columns do not end; close their quotation marks.", file=path, line=1
        ) from None
    except UNREADABLE as error:
        raise DataError(f"cannot be read: {error}.", file=path) from None


def read(path: Path, texts: Collection[str], drop: Collection[str] = ()) -> pa.Table:
    """The table but some columns, types found from all rows; `texts` are read as text."""
    names = header(path)
    types = {name: pa.string() for name in texts}
    with _counted(path) as source, _explained(path, types):
        table = arrow_csv.read_csv(
            source, parse_options=_parsing(path), convert_options=_converting(path, types)
        )
    _require_closed(source, path)
    if _names(table) != names:
        raise DataError(
            "the names of the columns do not end with the first line; close its quotation marks.",
            file=path,
            line=1,
        )
    table = table.drop_columns(list(drop))
    for field in table.schema:
        if pa.types.is_binary(field.type):
            place = find_value(path, field.name, lambda text: bool(_complaint(text, None)))
            raise DataError(NOT_UTF8, **place)
    if source.hexadecimal:
        _refuse_hexadecimal(path, table)
    return table


def _names(table: pa.Table) -> list[str] | None:
    """Names of the columns, or None if one is no text."""
    try:
        return list(table.column_names)
    except UnicodeDecodeError:
        return None


def stream(path: Path, schema: Schema, *, block: int = BLOCK) -> Iterator[pa.RecordBatch]:
    """Record batches of some columns, converted to the given types; memory is a few blocks."""
    with _counted(path) as source, _explained(path, schema):
        yield from arrow_csv.open_csv(
            source,
            read_options=arrow_csv.ReadOptions(block_size=block),
            parse_options=_parsing(path),
            convert_options=_converting(path, schema, include_columns=list(schema)),
        )
    _require_closed(source, path)


def find_value(path: Path, column: str, wrong: Callable[[str], bool]) -> dict[str, Any]:
    """File, line and column of the first value of a column that is `wrong`."""
    found = _find_cell(path, lambda name, value: name == column and wrong(value))
    return found[0] if found is not None else {"file": path, "column": column}


def _find_cell(
    path: Path, wrong: Callable[[str, str], bool]
) -> tuple[dict[str, Any], str, str] | None:
    """Place, column name and value of the first cell that is `wrong`, if any."""
    with suppress(csv.Error):  # quotes that pyarrow reads, and the standard library does not
        for line, names, row in _Rows(path):
            for number, (name, value) in enumerate(zip(names, row, strict=False), 1):
                if wrong(name, value):
                    place = {"file": path, "line": line, "column": f"{number} ({name})"}
                    return place, name, value
    return None


def find_fault(path: Path, schema: Schema, otherwise: str) -> DataError:
    """The first malformed line, read one by one; `otherwise` is the reason if none is."""
    rows, point = _Rows(path), _decimal_point(path)
    try:
        for line, names, row in rows:
            if len(row) != len(names):
                return DataError(
                    f"{len(names)} values are expected, as in the header, and {len(row)} found; "
                    "mend the line.",
                    file=path,
                    line=line,
                    column=min(len(row), len(names)) + 1,
                )
            for number, (name, value) in enumerate(zip(names, row, strict=True), 1):
                if complaint := _complaint(value, schema.get(name), point):
                    place = f"{number} ({name})"
                    return DataError(complaint, file=path, line=line, column=place)
    except csv.Error as error:
        return DataError(
            f"{error}; close its quotes or mend it.", file=path, line=rows.line, column=1
        )
    except UNREADABLE as error:
        return DataError(f"cannot be read: {error}.", file=path)
    return DataError(f"cannot be read: {otherwise}", file=path)


class _Rows:
    """Line number, column names and values of each row, by the standard library."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line = 1
        """Line at which the row that is being read begins."""

    def __iter__(self) -> Iterator[tuple[int, list[str], list[str]]]:
        with _text(self.path) as text:
            reader = csv.reader(text, delimiter=_delimiter(self.path), strict=True)
            names = next(reader, [])
            self.line = reader.line_num + 1
            for row in reader:
                if row:  # pyarrow skips empty lines too
                    yield self.line, names, row
                self.line = reader.line_num + 1


class _Counted(io.RawIOBase):
    """A file that counts the quotes that are read from it, and looks for hexadecimal numbers."""

    held: ClassVar[WeakSet["_Counted"]] = WeakSet()
    """Those that someone still holds, perhaps a thread of pyarrow."""

    def __init__(self, path: Path) -> None:
        self._file = open_bytes(path)
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


@contextmanager
def _counted(path: Path) -> Iterator[_Counted]:
    source = _Counted(path)
    try:
        yield source
    finally:
        source.close()


@contextmanager
def _explained(path: Path, schema: Schema) -> Iterator[None]:
    """Turn pyarrow's error into one that names file, line and column."""
    try:
        yield
    except (pa.ArrowException, *UNREADABLE) as error:
        raise find_fault(path, schema, str(error)) from None


def _require_closed(source: _Counted, path: Path) -> None:
    """Refuse a quote that is never closed: the rest of the file would be one value."""
    if source.quotes % 2 == 0:
        return
    rows = _Rows(path)
    try:
        for _ in rows:
            pass
    except csv.Error as error:
        raise DataError(
            f"a quote is not closed ({error}); close it or double it.", file=path, line=rows.line
        ) from None


def _refuse_hexadecimal(path: Path, table: pa.Table) -> None:
    """Refuse whole numbers such as 0x10, which pyarrow takes for 16 here and for a text there."""
    whole = {field.name for field in table.schema if pa.types.is_integer(field.type)}
    found = _find_cell(
        path, lambda name, value: name in whole and bool(HEXADECIMAL.fullmatch(value))
    )
    if found is not None:
        place, name, value = found
        raise DataError(
            f"{value!r} is a hexadecimal number; write it with decimal digits, or name it with "
            f"--categorical {name} to keep it as a text.",
            **place,
        )


def _parsing(path: Path) -> Any:
    return arrow_csv.ParseOptions(delimiter=_delimiter(path), newlines_in_values=True)


def _converting(path: Path, types: Schema, **options: Any) -> Any:
    return arrow_csv.ConvertOptions(
        column_types=types,
        null_values=MISSING,
        strings_can_be_null=True,
        decimal_point=_decimal_point(path),
        **options,
    )


def _decimal_point(path: Path) -> str:
    """A comma, if one is in numbers of the first rows, no point is, and it parts no values."""
    if _delimiter(path) == ",":
        return "."
    try:
        cells = [cell for _, _, row in islice(_Rows(path), SNIFFED) for cell in row]
    except (csv.Error, *UNREADABLE):  # found again, and told, when the rows are read
        return "."
    if any(DECIMAL_POINT.fullmatch(cell) for cell in cells):
        return "."
    return "," if any(DECIMAL_COMMA.fullmatch(cell) for cell in cells) else "."


def _delimiter(path: Path) -> str:
    """The one of comma, tab, semicolon and bar that the header holds most often outside quotes."""
    return max(DELIMITERS, key=QUOTED.sub("", _header_text(path)).count)


def _header_text(path: Path) -> str:
    """The first line, and those after it in which its quotes go on."""
    try:
        with _text(path) as text:
            found = text.readline()
            while (
                found.count('"') % 2 and len(found) < LONGEST_HEADER and (line := text.readline())
            ):
                found += line
            return found
    except UNREADABLE as error:
        raise DataError(f"cannot be read: {error}.", file=path) from None


def _text(path: Path) -> io.TextIOWrapper:
    """Text of a file, bytes that are not UTF-8 kept as surrogates."""
    raw: Any = open_bytes(path)
    return io.TextIOWrapper(raw, "utf-8-sig", errors="surrogateescape", newline="")


def _complaint(value: str, wanted: pa.DataType | None, decimal_point: str = ".") -> str | None:
    """What is wrong with a value, if anything."""
    if not value.isascii() and any("\udc80" <= letter <= "\udcff" for letter in value):
        return NOT_UTF8.replace("latin1", "utf-16") if value[:2] in UTF16 else NOT_UTF8
    if wanted is None or value in MISSING:
        return None
    if pa.types.is_boolean(wanted) and value.lower() not in ("true", "false", "0", "1"):
        return f"{value!r} is neither true nor false, as the column was when the model was fitted."
    if pa.types.is_floating(wanted) and not _is_number(value.replace(decimal_point, ".")):
        return f"{value!r} is not a number, and the column held numbers when the model was fitted."
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text
