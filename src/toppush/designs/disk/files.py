"""Files that hold rows, and reading some of the rows into a buffer.

A run is a range of rows that are stored one after another. A read takes several runs, in the order
of the rows, and returns one matrix over the buffer: a dense array or a CSR matrix.
"""

import os
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from scipy import sparse

from toppush.types import Matrix, Where

Run = tuple[int, int]
Buffer = Any

FLOAT_TYPES = (np.dtype(np.float64), np.dtype(np.float32))


class Source(Protocol):
    """Rows in files; a copy of it, used as a context, reads them."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    is_dense: bool
    n_entries: int
    entry_bytes: int
    """Bytes of an entry in a buffer."""
    widest: int
    """Stored entries of the longest row."""
    resident_bytes: int
    """Bytes that the source itself keeps in memory."""

    def entries_before(self, rows: Where) -> Where:
        """Stored entries of the rows before these ones."""

    def rows_within(self, first: int, n_entries: int) -> int:
        """The end of the longest run from a row with at most `n_entries`, or of one row."""

    def buffer(self, n_entries: int) -> Buffer:
        """Memory for a read of `n_entries`."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...

    def read(self, runs: Sequence[Run], buffer: Buffer) -> Matrix:
        """The rows of some runs, over the buffer."""


class Stored(NamedTuple):
    """Where an array lies in a file."""

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def load(self) -> NDArray[Any]:
        """All of it."""
        with FileIO(self.path) as file:
            array = np.empty(self.shape, self.dtype)
            read_into(array, file, self.offset)
        return array


def find_array(path: Path, offset: int = 0) -> Stored:
    """The array of an NPY file, or of a part of a file from an offset."""
    with path.open("rb") as file:
        file.seek(offset)
        shape, by_columns, dtype = _read_header(file, path)
        stored = Stored(path, file.tell(), shape, dtype)
    if by_columns and sum(length > 1 for length in shape) > 1:
        raise ValueError(
            f"{path} is stored by columns, and rows cannot be read one after another; save it "
            "with numpy.save(path, numpy.ascontiguousarray(X))."
        )
    needed = stored.offset + int(np.prod(shape)) * dtype.itemsize
    if os.path.getsize(path) < needed:
        raise ValueError(f"{path} should hold {needed} bytes and is shorter; write it again.")
    return stored


def _read_header(file: BinaryIO, path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        return read(file)
    except ValueError as error:
        raise ValueError(f"{path} is no NPY file: {error}") from error


def read_into(array: NDArray[Any], file: FileIO, offset: int) -> None:
    """Fill an array with what a file holds from an offset, without another copy."""
    if not array.size:
        return
    rest = memoryview(array.data).cast("B")
    file.seek(offset)
    while rest:
        n_read = file.readinto(rest)
        if not n_read:
            raise OSError(f"{file.name!r} ended {len(rest)} bytes early; was it changed?")
        rest = rest[n_read:]


def require_used(dtype: np.dtype[Any], what: Path) -> None:
    """Refuse types of numbers other than float32 and float64."""
    if dtype not in FLOAT_TYPES:
        raise ValueError(
            f"{what} holds {dtype}; rows on disk must be float32 or float64 in this machine's "
            "byte order. Convert them once, block by block."
        )


class ByEntries:
    """Rows whose entries are stored one after another, in files that are open in a context."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    n_entries: int
    resident_bytes = 0
    _paths: tuple[Path, ...]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._files = [stack.enter_context(FileIO(path)) for path in self._paths]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()


class EvenRows:
    """Rows with an entry for every column."""

    is_dense = True
    shape: tuple[int, int]

    def entries_before(self, rows: Where) -> Where:
        return np.asarray(rows, np.int64) * self.shape[1]

    def rows_within(self, first: int, n_entries: int) -> int:
        return min(first + max(n_entries // self.shape[1], 1), self.shape[0])


class DenseFile(EvenRows, ByEntries):
    """An NPY file, stored by rows."""

    def __init__(self, array: Stored) -> None:
        require_used(array.dtype, array.path)
        if len(array.shape) != 2 or not all(array.shape):
            raise ValueError(f"{array.path} has shape {array.shape}; rows and columns are needed.")
        self.shape = (array.shape[0], array.shape[1])
        self.dtype, self.entry_bytes = array.dtype, array.dtype.itemsize
        self.n_entries, self.widest = self.shape[0] * self.shape[1], self.shape[1]
        self._array, self._paths = array, (array.path,)

    def buffer(self, n_entries: int) -> NDArray[Any]:
        return np.empty((max(n_entries // self.shape[1], 1), self.shape[1]), self.dtype)

    def read(self, runs: Sequence[Run], buffer: NDArray[Any]) -> NDArray[Any]:
        end, row_bytes = 0, self.shape[1] * self.entry_bytes
        for start, stop in runs:
            part = buffer[end : end + stop - start]
            read_into(part, self._files[0], self._array.offset + start * row_bytes)
            end += stop - start
        return buffer[:end]


class SparseFile(ByEntries):
    """The three arrays of a CSR matrix; where rows begin is kept in memory."""

    is_dense = False

    def __init__(self, parts: dict[str, Stored], n_columns: int) -> None:
        data, indices = parts["data"], parts["indices"]
        require_used(data.dtype, data.path)
        self._data, self._indices, self._paths = data, indices, (data.path, indices.path)
        self.pointers: Where = parts["indptr"].load()
        self.shape = (len(self.pointers) - 1, n_columns)
        self.dtype, self.n_entries = data.dtype, int(self.pointers[-1])
        self.entry_bytes = data.dtype.itemsize + indices.dtype.itemsize
        self.resident_bytes = self.pointers.nbytes
        self._require_csr()
        self.widest = int(np.diff(self.pointers).max(initial=0))

    def _require_csr(self) -> None:
        whole = self._data.shape == self._indices.shape == (self.n_entries,)
        rising = self.pointers[0] == 0 and bool(np.all(np.diff(self.pointers) >= 0))
        integers = {self._indices.dtype.kind, self.pointers.dtype.kind} == {"i"}
        if not (whole and rising and integers):
            raise ValueError(
                f"{self._data.path} and its indices and indptr are no CSR matrix: data and indices "
                "must be as long as the last of indptr says, and indptr must rise from 0."
            )

    def entries_before(self, rows: Where) -> Where:
        return self.pointers[rows]

    def rows_within(self, first: int, n_entries: int) -> int:
        goal = self.pointers[first] + n_entries
        end = int(np.searchsorted(self.pointers, goal, side="right")) - 1
        return min(max(end, first + 1), self.shape[0])

    def buffer(self, n_entries: int) -> tuple[NDArray[Any], NDArray[Any]]:
        return np.empty(n_entries, self.dtype), np.empty(n_entries, self._indices.dtype)

    def read(self, runs: Sequence[Run], buffer: tuple[NDArray[Any], ...]) -> sparse.csr_array:
        end, lengths = 0, [np.zeros(1, self._indices.dtype)]
        for start, stop in runs:
            first, last = int(self.pointers[start]), int(self.pointers[stop])
            arrays = zip(buffer, self._files, (self._data, self._indices), strict=True)
            for target, file, stored in arrays:
                part = target[end : end + last - first]
                read_into(part, file, stored.offset + first * stored.dtype.itemsize)
            lengths.append(np.diff(self.pointers[start : stop + 1]))
            end += last - first
        pointers = np.cumsum(np.concatenate(lengths), dtype=self._indices.dtype)
        matrix = sparse.csr_array((len(pointers) - 1, self.shape[1]), dtype=self.dtype)
        matrix.data, matrix.indices = buffer[0][:end], buffer[1][:end]
        matrix.indptr = pointers
        return matrix


def find_csr(path: Path, n_features: int | None) -> SparseFile:
    """A CSR matrix in a folder of NPY files, or in a file that `scipy.sparse.save_npz` wrote."""
    parts = _folder(path) if path.is_dir() else _archive(path)
    missing = {"data", "indices", "indptr"} - set(parts)
    if missing:
        raise ValueError(
            f"{path} lacks {', '.join(sorted(missing))}; a CSR matrix needs the arrays data, "
            "indices and indptr."
        )
    if n_features is None and "shape" not in parts:
        raise ValueError(f"{path} has no shape.npy; give n_features, the number of columns.")
    columns = int(parts["shape"].load()[1]) if n_features is None else n_features
    return SparseFile(parts, columns)


def _folder(path: Path) -> dict[str, Stored]:
    files = {name: path / f"{name}.npy" for name in ("data", "indices", "indptr", "shape")}
    return {name: find_array(file) for name, file in files.items() if file.exists()}


def _archive(path: Path) -> dict[str, Stored]:
    """The arrays of an NPZ file that is not compressed, where they lie in it."""
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        if "format" in members:
            _require_csr_format(archive, path)
        parts = {}
        for name in {"data", "indices", "indptr", "shape"} & set(members):
            if members[name].compress_type != zipfile.ZIP_STORED:
                raise ValueError(
                    f"{path} is compressed, and parts of it cannot be read; save it with "
                    "scipy.sparse.save_npz(path, X, compressed=False)."
                )
            file.seek(members[name].header_offset + 26)
            lengths = np.frombuffer(file.read(4), "<u2")
            parts[name] = find_array(path, members[name].header_offset + 30 + int(lengths.sum()))
    return parts


def _require_csr_format(archive: zipfile.ZipFile, path: Path) -> None:
    with archive.open("format.npy") as member:
        name = npy.read_array(member).item()
    name = name.decode() if isinstance(name, bytes) else str(name)
    if name != "csr":
        raise ValueError(f"{path} holds a {name} matrix; save X.tocsr().")
