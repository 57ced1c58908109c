"""Tables with named columns: CSV, Parquet and Arrow files, whole or as a stream of batches."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from toppush.files import csvfiles
from toppush.files.csvfiles import Schema
from toppush.files.errors import DataError, absent

BATCH = 1 << 16
"""Rows of a Parquet file read at a time."""


def names(path: Path, kind: str) -> list[str]:
    """The column names of a table file, each of which must be there once."""
    if kind == "csv":
        return csvfiles.header(path)
    with _readable(path):
        found: list[str] = _schema(path, kind).names
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"the column name {twice!r} is there twice; rename one.", file=path)
    return found


def read(path: Path, kind: str, *, drop: Collection[str], texts: Collection[str]) -> pa.Table:
    """The whole table but some columns; of a CSV file the columns `texts` are read as text."""
    found = names(path, kind)
    require_columns((*drop, *texts), found, path)
    if kind == "csv":
        return csvfiles.read(path, texts, drop)
    kept = [name for name in found if name not in drop]
    with _readable(path):
        if kind == "parquet":
            return parquet.read_table(path, columns=kept)
        batches = list(_arrow_batches(path))
        return pa.Table.from_batches(batches, _schema(path, kind)).select(kept)


def stream(path: Path, kind: str, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Record batches of the columns of a schema, of which a CSV file takes the types too."""
    found = names(path, kind)
    require_columns(schema, found, path)
    if kind == "csv":
        yield from csvfiles.stream(path, schema)
        return
    with _readable(path):
        if kind == "parquet":
            with parquet.ParquetFile(path) as file:
                yield from file.iter_batches(batch_size=BATCH, columns=list(schema))
        else:
            yield from (batch.select(list(schema)) for batch in _arrow_batches(path))


def require_columns(names: Iterable[str], found: Collection[str], path: Path) -> None:
    """Refuse names of columns that are not there, all of them at once."""
    if gone := absent(names, found):
        raise DataError(f"has no {gone}; its columns are {_listed(found)}.", file=path)


def _listed(found: Collection[str], most: int = 20) -> str:
    shown = ", ".join(repr(name) for name in list(found)[:most])
    return shown + f" and {len(found) - most} more" * (len(found) > most)


def _schema(path: Path, kind: str) -> pa.Schema:
    if kind == "parquet":
        return parquet.read_schema(path)
    with pa.memory_map(str(path)) as source:
        return _arrow_reader(source).schema


def _arrow_reader(source: pa.NativeFile) -> pa.RecordBatchReader | pa.RecordBatchFileReader:
    """A reader of an Arrow file (Feather is one) or of an Arrow stream."""
    try:
        return pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source)


def _arrow_batches(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(path)) as source:
        reader = _arrow_reader(source)
        counted = hasattr(reader, "num_record_batches")
        numbers = range(reader.num_record_batches) if counted else ()
        for batch in (reader.get_batch(i) for i in numbers) if counted else reader:
            batch.validate(full=True)  # offsets of an altered file may point anywhere
            yield batch


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Name the file in what pyarrow says of it."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"cannot be read: {error}", file=path) from None
