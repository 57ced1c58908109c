"""CSV and TSV through pyarrow, with malformed lines found.

pyarrow parses hundreds of MB a second, but with threads it does not say at which line it stopped,
and it takes a quote that is never closed for the start of a long value. So quotes are counted on
the way, and after an error a second, slow reading finds the place.
"""

import csv
import io
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from toppush.io.errors import DataError
from toppush.io.files import UNREADABLE, open_bytes

DELIMITERS = ",\t;|"
MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL"]
"""Texts that stand for a missing value in a CSV file."""
BLOCK = 1 << 22
"""Bytes parsed at a time when streaming."""
Schema = Mapping[str, pa.DataType]


def header(path: Path) -> list[str]:
    """The names in the first line, each of which must be there once."""
    names = next(csv.reader([_first_line(path)], delimiter=_delimiter(path)), [])
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


def read(path: Path, texts: Collection[str]) -> pa.Table:
    """The whole table, types found from all rows; columns in `texts` are read as text."""
    names = header(path)
    types = {name: pa.string() for name in texts}
    with _counted(path) as source, _explained(path, types):
        table = arrow_csv.read_csv(
            source, parse_options=_parsing(path), convert_options=_converting(types)
        )
    _require_closed(source, path)
    if _names(table) != names:
        raise DataError(
            "the names of the columns do not end with the first line; close its quotation marks.",
            file=path,
            line=1,
        )
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
            convert_options=_converting(schema, include_columns=list(schema)),
        )
    _require_closed(source, path)


def find_value(path: Path, column: str, wrong: Callable[[str], bool]) -> dict[str, Any]:
    """File, line and column of the first value of a column that is `wrong`."""
    for line, names, row in _Rows(path):
        number = names.index(column)
        if number < len(row) and wrong(row[number]):
            return {"file": path, "line": line, "column": f"{number + 1} ({column})"}
    return {"file": path, "column": column}


def find_fault(path: Path, schema: Schema, otherwise: str) -> DataError:
    """The first malformed line, read one by one; `otherwise` is the reason if none is."""
    rows = _Rows(path)
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
                if complaint := _complaint(value, schema.get(name)):
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
    """A file that counts the quotes that are read from it."""

    def __init__(self, path: Path) -> None:
        self._file = open_bytes(path)
        self.quotes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.quotes += data.count(b'"')
        return data

    def close(self) -> None:
        self._file.close()
        super().close()


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


def _parsing(path: Path) -> Any:
    return arrow_csv.ParseOptions(delimiter=_delimiter(path), newlines_in_values=True)


def _converting(types: Schema, **options: Any) -> Any:
    return arrow_csv.ConvertOptions(
        column_types=types, null_values=MISSING, strings_can_be_null=True, **options
    )


def _delimiter(path: Path) -> str:
    """The one of comma, tab, semicolon and bar that the first line holds most often."""
    return max(DELIMITERS, key=_first_line(path).count)


def _first_line(path: Path) -> str:
    try:
        with _text(path) as text:
            return text.readline()
    except UNREADABLE as error:
        raise DataError(f"cannot be read: {error}.", file=path) from None


def _text(path: Path) -> io.TextIOWrapper:
    """Text of a file, bytes that are not UTF-8 kept as surrogates."""
    raw: Any = open_bytes(path)
    return io.TextIOWrapper(raw, "utf-8-sig", errors="surrogateescape", newline="")


def _complaint(value: str, wanted: pa.DataType | None) -> str | None:
    """What is wrong with a value, if anything."""
    if not value.isascii() and any("\udc80" <= letter <= "\udcff" for letter in value):
        return "the text is not UTF-8; save the file as UTF-8."
    if wanted is None or value in MISSING:
        return None
    if pa.types.is_boolean(wanted) and value.lower() not in ("true", "false", "0", "1"):
        return f"{value!r} is neither true nor false, as the column was when the model was fitted."
    if pa.types.is_floating(wanted) and not _is_number(value):
        return f"{value!r} is not a number, and the column held numbers when the model was fitted."
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text
