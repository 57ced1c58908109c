"""Readers of every format, a module each; `reading` opens the one for a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toppush.files.readers.arrow import ArrowReader, ParquetReader
from toppush.files.readers.base import Reader
from toppush.files.readers.csv import CsvReader
from toppush.files.readers.libsvm import LibsvmReader
from toppush.files.readers.numpy_arrays import NpyReader, NpzReader
from toppush.system.reading import kind_of, require_file
from toppush.tables.loaded import LoadedRows, Needs

__all__ = ["READERS", "FileOrReader", "LoadedRows", "Needs", "Reader", "reading"]

READERS: dict[str, type[Reader]] = {
    "csv": CsvReader,
    "parquet": ParquetReader,
    "arrow": ArrowReader,
    "libsvm": LibsvmReader,
    "npz": NpzReader,
    "npy": NpyReader,
}
FileOrReader = str | Path | Reader
"""A file, or the reader that has it open."""


@contextmanager
def reading(rows: FileOrReader, kind: str | None = None) -> Iterator[Reader]:
    """The reader of a file, by its ending or the kind that is named; one that is open stays so."""
    if isinstance(rows, Reader):
        yield rows
        return
    path = require_file(Path(rows))
    kind = kind_of(path, kind)
    with READERS[kind](path, kind) as reader:
        yield reader
