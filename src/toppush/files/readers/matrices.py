"""Matrices: NPZ, an archive of arrays; NPY, an array mapped into memory; LIBSVM text."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from toppush.files.readers.base import MatrixReader, TextReader
from toppush.system import libsvm
from toppush.system.errors import absent, listed
from toppush.system.reading import DataError, require_file
from toppush.tables.arrow_values import all_finite
from toppush.tables.rows import Batch, Layout, LoadedRows, Needs
from toppush.types import Array, Labels, Matrix

BATCH_BYTES = 1 << 25
"""Bytes of a matrix that are scored at a time."""
WITHOUT_END = {"0": slice(1, None), "-1": slice(None, -1)}
"""Columns that are left when the first or the last one holds the labels."""
SPARSE_PARTS = {"data", "indices", "indptr", "shape"}


class LibsvmReader(MatrixReader, TextReader):
    """LIBSVM text, plain or compressed; columns count from 0 if a 0 occurs, else from 1."""

    def load(
        self, label: str | None, drop: Collection[str], strings: Collection[str]
    ) -> LoadedRows:
        self._refuse_names(drop=drop, categorical=strings, label=[label] if label else [])
        X, y, first = libsvm.read_open(self.content, self.path)
        if not len(y):
            raise self.error("holds no rows.")
        return LoadedRows(X, y, None, {"width": X.shape[1], "first": first})

    def batches(self, needs: Needs) -> Iterator[Batch]:
        width, first = self._width(needs), int(needs.layout.get("first", 1))
        for entries, y in libsvm.blocks(self.content, self.path, lowest=first):
            X, beyond = libsvm.aligned(entries, first, width)
            yield Batch(X, X.shape[0], y, None, beyond)


class _NumpyReader(MatrixReader):
    """A matrix in a file of NumPy."""

    unreadable = (Exception,)  # damage makes parsers of Python literals and zips raise anything
    label: ClassVar[str]
    """Where the labels are by default."""
    remembered: ClassVar[Literal["key", "label"]]
    """The entry of a layout that says where the labels were."""

    @abstractmethod
    def _arrays(self, label: str) -> tuple[Matrix, Labels]:
        """The matrix without its labels, and the labels."""

    @abstractmethod
    def _unlabelled(self, label: str, width: int) -> Matrix:
        """A matrix of `width` columns; a column of labels next to them is left out."""

    def load(
        self, label: str | None, drop: Collection[str], strings: Collection[str]
    ) -> LoadedRows:
        self._refuse_names(drop=drop, categorical=strings)
        label = label or self.label
        X, labels = self._arrays(label)
        X = native(X)
        require_finite(X, self.path)
        layout = Layout(width=X.shape[1])
        layout[self.remembered] = label
        return LoadedRows(X, labels, None, layout)

    def batches(self, needs: Needs) -> Iterator[Batch]:
        width, known = self._width(needs), needs.layout.get(self.remembered, self.label)
        if needs.label is None:
            X, labels = self._unlabelled(known, width), None
        else:
            X, labels = self._arrays(needs.label[0] or known)
        require_matrix(X, labels, self.path)
        if X.shape[1] != width:
            raise self.error(f"has {X.shape[1]} columns, and the model was fitted with {width}.")
        step = max(1, BATCH_BYTES // (8 * width))
        for start in range(0, X.shape[0], step):
            part = native(X[start : start + step])
            part_labels = None if labels is None else labels[start : start + step]
            yield Batch(part, part.shape[0], part_labels, None, 0)


class NpzReader(_NumpyReader):
    """NumPy's archive: X (or the parts of a CSR matrix as SciPy saves them) and y."""

    label, remembered = "y", "key"
    usual_label = "y"

    def columns(self, names: Collection[str], strings: Collection[str] = ()) -> pa.Table:
        arrays = self._content()
        if gone := absent(names, arrays):
            raise self.error(f"has no {gone}; its arrays are {listed(sorted(arrays), 20)}.")
        shapes = {name: arrays[name].shape for name in names}
        if any(len(shape) != 1 for shape in shapes.values()) or len(set(shapes.values())) != 1:
            raise self.error(f"arrays of one length are needed, and there are {shapes}.")
        with self.readable():
            return pa.table({name: _native_numbers(arrays[name]) for name in names})

    def _arrays(self, label: str) -> tuple[Matrix, Labels]:
        arrays = self._content()
        X = self._matrix(arrays)
        if label not in arrays:
            raise self.error(f"holds no array {label!r} of labels; name it with --label.")
        require_matrix(X, arrays[label], self.path)
        return X, arrays[label]

    def _unlabelled(self, label: str, width: int) -> Matrix:
        return self._matrix(self._content())

    def _content(self) -> dict[str, NDArray[Any]]:
        with self.readable(), np.load(self.file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        for name, content in arrays.items():
            if not isinstance(content, np.ndarray):  # NumPy gives other files as their bytes
                raise self.error(f"holds {name!r}, which is not an array; write it with np.savez.")
        return arrays

    def _matrix(self, arrays: dict[str, NDArray[Any]]) -> Matrix:
        if not set(arrays) >= SPARSE_PARTS:
            if "X" in arrays:
                return arrays["X"]
            raise self.error(
                f"holds neither X nor the parts of a CSR matrix, but {sorted(arrays)}."
            )
        with self.readable():
            # SciPy has no sparse matrices of half precision or of another byte order.
            parts = (_native_numbers(arrays["data"]), arrays["indices"], arrays["indptr"])
            X = sparse.csr_array(parts, shape=tuple(arrays["shape"]))
            X.check_format(full_check=True)
        return X


class NpyReader(_NumpyReader):
    """A memory-mapped NumPy array; labels are its first or last column, or another file."""

    label, remembered = "-1", "label"

    def _arrays(self, label: str) -> tuple[Matrix, Labels]:
        X = self._mapped(self.path)
        if label.endswith(".npy"):
            labels = self._mapped(require_file(Path(label)))
        elif label in WITHOUT_END:
            require_matrix(X, None, self.path)
            labels, X = X[:, int(label)], X[:, WITHOUT_END[label]]
        else:
            raise self.error(
                f"--label is {label!r}; of a matrix it is 0 or -1, the first or last column, or "
                "another .npy file."
            )
        require_matrix(X, labels, self.path)
        return X, np.asarray(labels)

    def _unlabelled(self, label: str, width: int) -> Matrix:
        X = self._mapped(self.path)
        has_labels = label in WITHOUT_END and X.ndim == 2 and X.shape[1] == width + 1
        return X[:, WITHOUT_END[label]] if has_labels else X

    def _mapped(self, path: Path) -> Array:
        """A memory-mapped NumPy array."""
        with self.readable(path):
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):
            array.close()
            raise DataError("is an archive of arrays; read it with --format npz.", file=path)
        return array


def _native_numbers(array: NDArray[Any]) -> NDArray[Any]:
    return native(array) if array.dtype.kind in "biuf" else array


def native(X: Matrix) -> Matrix:
    """A matrix in this machine's byte order and a precision that solvers know, copied if needed.

    >>> import numpy as np
    >>> from toppush.files.readers.matrices import native
    >>> native(np.array([[1, 2]], ">i4")).dtype.isnative
    True
    """
    kind = X.dtype
    wanted = np.dtype(np.float64) if kind.itemsize > 8 or kind == np.float16 else kind
    with np.errstate(over="ignore"):  # numbers too large for it become infinite, and are refused
        return X.astype(wanted.newbyteorder("="), copy=False)


def require_finite(X: Matrix, path: Path) -> None:
    """Refuse NaN and infinite values in a matrix, naming the columns and the first row."""
    step = max(1, BATCH_BYTES // (8 * X.shape[1]))
    bad: Counter[int] = Counter()
    row = None
    for start in range(0, X.shape[0], step):
        part = X[start : start + step]
        if all_finite(part if isinstance(part, np.ndarray) else part.data):
            continue
        entries = sparse.coo_array(part)
        wrong = ~np.isfinite(entries.data)
        row = start + int(entries.row[wrong].min()) + 1 if row is None else row
        bad.update(entries.col[wrong].tolist())
    if bad:
        shown = ", ".join(f"{column} ({n:,})" for column, n in sorted(bad.items())[:20])
        raise DataError(
            f"is the first of {bad.total():,} values that are NaN or infinite, in columns {shown}"
            f"{', ...' * (len(bad) > 20)} (counted from 0); missing values of a matrix are not "
            "filled: correct or drop these rows.",
            file=path,
            row=row,
        )


def require_matrix(X: Matrix, labels: Labels, path: Path) -> None:
    """Refuse arrays that are not a matrix of real numbers with a label a row."""
    if X.ndim != 2 or not all(X.shape) or X.dtype.kind not in "biuf":
        raise DataError(
            f"holds an array of shape {X.shape} and type {X.dtype}; a matrix of real numbers is "
            "needed.",
            file=path,
        )
    if labels is not None and labels.shape != X.shape[:1]:
        raise DataError(f"has {X.shape[0]} rows and labels of shape {labels.shape}.", file=path)
