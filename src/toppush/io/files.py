"""Files: what kind they are, opening compressed ones, writing without leaving halves."""

import bz2
import gzip
import hashlib
import lzma
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from toppush.io.errors import DataError

OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
UNREADABLE = (EOFError, OSError, lzma.LZMAError, zlib.error)
"""What reading a damaged or truncated file may raise."""
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".svm": "libsvm",
    ".libsvm": "libsvm",
    ".svmlight": "libsvm",
    ".npz": "npz",
    ".npy": "npy",
}
KINDS = tuple(dict.fromkeys(SUFFIXES.values()))
TEXT = {"csv", "libsvm"}
"""Kinds that may be compressed as a whole."""
PART = 1 << 20
"""Bytes from each end of a file that its fingerprint reads."""


def kind_of(path: Path, wanted: str | None = None) -> str:
    """The format of a file: the one wanted, or by its name's ending."""
    if wanted is not None:
        return wanted
    packed = path.suffix.lower() in OPENERS
    ending = (path.with_suffix("") if packed else path).suffix.lower()
    kind = SUFFIXES.get(ending)
    if kind is None:
        raise DataError(
            f"the ending {''.join(path.suffixes[-2:])!r} is none of {', '.join(SUFFIXES)}; name "
            f"the format ({', '.join(KINDS)}) with --format.",
            file=path,
        )
    if packed and kind not in TEXT:
        raise DataError(f"a {kind} file is read as it is; unpack it first.", file=path)
    return kind


def open_bytes(path: Path) -> BinaryIO:
    """Open a plain, gz, bz2 or xz file for reading."""
    opener = OPENERS.get(path.suffix.lower(), open)
    file: BinaryIO = opener(path, "rb")
    return file


def require_file(path: Path) -> Path:
    """The path, if a file is there."""
    if not path.is_file():
        raise DataError("there is no such file.", file=path)
    return path


def fingerprint(path: Path) -> str:
    """A short digest of a file's size, its first and its last MiB."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(PART)
        file.seek(max(0, size - PART))
        digest = hashlib.blake2b(b"%d:" % size + head + file.read(PART), digest_size=16)
    return digest.hexdigest()


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A path to write to; `path` is replaced when that is complete, and kept on any failure."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Make a rename outlast a power cut, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
