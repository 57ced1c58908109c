"""Readers of all formats; `reading` opens the one for a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toppush.files.readers.arrow import ArrowReader, ParquetReader
from toppush.files.readers.base import Reader
from toppush.files.readers.csv import CsvReader
from toppush.files.readers.matrices import LibsvmReader, NpyReader, NpzReader
from toppush.system.reading import format_of, require_file

__all__ = ["READERS", "FileOrReader", "Reader", "reading"]

READERS: dict[str, type[Reader]] = {
    "csv": CsvReader,
    "parquet": ParquetReader,
    "arrow": ArrowReader,
    "libsvm": LibsvmReader,
    "npz": NpzReader,
    "npy": NpyReader,
}
FileOrReader = str | Path | Reader
"""A path, or an open reader."""


@contextmanager
def reading(rows: FileOrReader, kind: str | None = None) -> Iterator[Reader]:
    """The reader of a file, by its ending or the named format; an open reader stays open."""
    if isinstance(rows, Reader):
        yield rows
        return
    path = require_file(Path(rows))
    kind = format_of(path, kind)
    with READERS[kind](path, kind) as reader:
        yield reader
