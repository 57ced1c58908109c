"""Parquet and Arrow files through pyarrow."""

from abc import abstractmethod
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import BinaryIO

import pyarrow as pa
from pyarrow import parquet

from toppush.files.readers.base import TableReader
from toppush.system.errors import repeated
from toppush.tables.arrow_values import plain
from toppush.tables.rows import Schema, feature_columns

BATCH = 1 << 16
"""Rows of a Parquet file read at a time."""


class _ArrowTable(TableReader):
    """A table whose file names the types of its columns."""

    unreadable = (pa.ArrowException, OSError)

    @cached_property
    def names(self) -> list[str]:
        with self.readable():
            names: list[str] = self._schema().names
        if twice := repeated(names):
            raise self.error(f"the column name {twice[1]!r} is there twice; rename one.")
        return names

    @abstractmethod
    def _schema(self) -> pa.Schema: ...


class ParquetReader(_ArrowTable):
    """A Parquet file."""

    def _open(self) -> BinaryIO:
        return pa.OSFile(str(self.path))  # type: ignore[no-any-return]

    def _schema(self) -> pa.Schema:
        return parquet.read_schema(self.file)

    def table(self, drop: Collection[str] = (), strings: Collection[str] = ()) -> pa.Table:
        names = feature_columns(self.names, *drop)
        with self.readable():
            return plain(parquet.read_table(self.file, columns=names))

    def stream(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        with self.readable():
            file = parquet.ParquetFile(self.file)
            yield from map(plain, file.iter_batches(batch_size=BATCH, columns=list(schema)))


class ArrowReader(_ArrowTable):
    """An Arrow file (Feather is one) or an Arrow stream, mapped into memory."""

    def _open(self) -> BinaryIO:
        return pa.memory_map(str(self.path))  # type: ignore[no-any-return]

    def _schema(self) -> pa.Schema:
        return self._reader().schema

    def table(self, drop: Collection[str] = (), strings: Collection[str] = ()) -> pa.Table:
        names = feature_columns(self.names, *drop)
        with self.readable():
            return plain(pa.Table.from_batches(list(self._batches()), self._schema()).select(names))

    def stream(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        with self.readable():
            yield from (plain(batch.select(list(schema))) for batch in self._batches())

    def _reader(self) -> pa.RecordBatchReader | pa.RecordBatchFileReader:
        self.file.seek(0)
        try:
            return pa.ipc.open_file(self.file)
        except pa.ArrowInvalid:
            self.file.seek(0)
            return pa.ipc.open_stream(self.file)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        reader = self._reader()
        if isinstance(reader, pa.RecordBatchFileReader):
            reader = map(reader.get_batch, range(reader.num_record_batches))
        for batch in reader:
            batch.validate(full=True)  # offsets of an altered file may point anywhere
            yield batch
