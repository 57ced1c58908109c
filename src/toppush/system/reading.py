"""Files to read: their formats, compressed files, fingerprints, and the error `DataError`."""

import bz2
import gzip
import hashlib
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import glob
from os import SEEK_END, PathLike
from pathlib import Path
from typing import BinaryIO

UNPACKERS: dict[str, Callable[[BinaryIO], object]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}
UNREADABLE = (EOFError, OSError, lzma.LZMAError, zlib.error)
"""What reading a damaged or truncated file may raise."""
FORMATS = {
    "csv": (".csv", ".tsv", ".tab"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "libsvm": (".svm", ".libsvm", ".svmlight"),
    "npz": (".npz",),
    "npy": (".npy",),
}
SUFFIXES = {suffix: name for name, suffixes in FORMATS.items() for suffix in suffixes}
TEXT = {"csv", "libsvm"}
"""Formats that may be compressed as a whole."""
PART = 1 << 20
"""Bytes from each end of a file that its fingerprint reads."""


class DataError(ValueError):
    """A file that cannot be used, with the place, what was found there, and what to do.

    Parameters
    ----------
    message : str
        What was found and what to do.
    file : path, optional
    line : int, optional
        Line of a text file, from 1.
    row : int, optional
        Row of the data, from 1, where lines have no meaning.
    column : int or str, optional
        Number from 1 or name of a column, or the position in the line.

    Examples
    --------
    >>> import pandas as pd
    >>> from toppush import files
    >>> pd.DataFrame({"a": [1, 2], "label": ["yes", "yes"]}).to_csv("rows.csv")
    >>> try:
    ...     files.fit("rows.csv")
    ... except files.DataError as error:
    ...     print(str(error).split(";")[0])
    ...
    rows.csv, column label: every label is 'yes'
    """

    def __init__(
        self,
        message: str,
        *,
        file: "str | PathLike[str] | None" = None,
        line: int | None = None,
        row: int | None = None,
        column: int | str | None = None,
    ) -> None:
        self.file, self.line, self.row, self.column = file, line, row, column
        self.message = message
        places = {"": file, "line ": line, "row ": row, "column ": column}
        where = ", ".join(f"{word}{place}" for word, place in places.items() if place is not None)
        super().__init__(f"{where}: {message}" if where else message)

    def at(self, file: "str | PathLike[str] | None", *, after: int = 0) -> "DataError":
        """The same error with the file named and `after` added to its row number."""
        row = None if self.row is None else self.row + after
        return type(self)(self.message, file=file, line=self.line, row=row, column=self.column)


def format_of(path: Path, wanted: str | None = None) -> str:
    """The format of a file: the one wanted, or by its name's ending."""
    if wanted is not None:
        return wanted
    packed = path.suffix.lower() in UNPACKERS
    ending = (path.with_suffix("") if packed else path).suffix.lower()
    file_format = SUFFIXES.get(ending)
    if file_format is None:
        raise DataError(
            f"the ending {''.join(path.suffixes[-2:])!r} is none of {', '.join(SUFFIXES)}; name "
            f"the format ({', '.join(FORMATS)}) with --format.",
            file=path,
        )
    if packed and file_format not in TEXT:
        raise DataError(f"a {file_format} file is read as it is; unpack it first.", file=path)
    return file_format


def unpacked(path: Path, file: BinaryIO) -> BinaryIO:
    """The content of an open file, decompressed if its name ends in gz, bz2 or xz."""
    unpack = UNPACKERS.get(path.suffix.lower())
    return file if unpack is None else unpack(file)  # type: ignore[return-value]


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The content of a file, decompressed."""
    with path.open("rb") as file:
        yield unpacked(path, file)


@contextmanager
def opened_text(path: Path) -> Iterator[io.TextIOWrapper]:
    """The text of a file, decompressed; bytes that are not UTF-8 become surrogates."""
    with opened(path) as file, text_of(file) as text:
        yield text


def text_of(file: BinaryIO) -> io.TextIOWrapper:
    """An open file as text."""
    return io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")


def require_file(path: Path) -> Path:
    """The path, if the file exists."""
    if not path.is_file():
        raise DataError("there is no such file.", file=path)
    return path


def part_paths(where: str | Path) -> list[Path]:
    """The files of a folder or a pattern, by name; of a folder those that may hold rows."""
    folder = Path(where)
    if folder.is_dir():
        paths = sorted(path for path in folder.iterdir() if _holds_rows(path))
        if not paths:
            raise DataError(f"holds no file ending in {', '.join(SUFFIXES)}.", file=folder)
        return paths
    paths = sorted(Path(name) for name in glob(str(where)))
    if not paths:
        raise DataError("there is no such file or folder, and nothing matches it.", file=folder)
    return paths


def _holds_rows(path: Path) -> bool:
    if not path.is_file() or path.name.startswith((".", "_")):
        return False
    try:
        return bool(format_of(path))
    except DataError:
        return False


def fingerprint(path: Path) -> str:
    """A short digest of a file's size, its first and its last MiB."""
    with path.open("rb") as file:
        return fingerprint_of(file)


def fingerprint_of(file: BinaryIO) -> str:
    """The fingerprint of an open file, whose position does not change."""
    was = file.tell()
    file.seek(0, SEEK_END)
    size = file.tell()
    file.seek(0)
    head = file.read(PART)
    file.seek(max(0, size - PART))
    digest = hashlib.blake2b(b"%d:" % size + head + file.read(PART), digest_size=16)
    file.seek(was)
    return digest.hexdigest()
