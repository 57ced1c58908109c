"""Files: what kind they are, opening compressed ones, telling one from another."""

import bz2
import gzip
import hashlib
import lzma
import zlib
from pathlib import Path
from typing import Any, BinaryIO

from toppush.files.errors import DataError

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


def require_no_training_rows(path: str | Path, about: dict[str, Any]) -> None:
    """Refuse to write over the file that a model was fitted to."""
    path, known = Path(path), about.get("data", {}).get("fingerprint")
    if known is not None and path.is_file() and fingerprint(path) == known:
        raise DataError(
            "these are the rows that the model was fitted to; name another file to write to.",
            file=path,
        )


def fingerprint(path: Path) -> str:
    """A short digest of a file's size, its first and its last MiB."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(PART)
        file.seek(max(0, size - PART))
        digest = hashlib.blake2b(b"%d:" % size + head + file.read(PART), digest_size=16)
    return digest.hexdigest()
