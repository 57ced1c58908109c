"""NumPy's files: NPZ, an archive of arrays, and NPY, an array that is mapped into memory."""

from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
from scipy import sparse

from toppush.files.arrow_values import all_finite
from toppush.files.readers.base import Batch, LoadedRows, MatrixReader, Needs
from toppush.system.reading import DataError, require_file
from toppush.types import Array, Labels, Matrix, Where

BATCH_BYTES = 1 << 25
"""Bytes of a matrix that are scored at a time."""
DEFAULT_LABEL = {"npz": "y", "npy": "-1"}
ENDS = {"0": slice(1, None), "-1": slice(None, -1)}
"""Columns that are left when the first or the last one holds the labels."""
SPARSE_PARTS = {"data", "indices", "indptr", "shape"}


class _NumpyReader(MatrixReader):
    """A matrix that is there as a whole."""

    unreadable = (Exception,)  # damage makes parsers of Python literals and zips raise anything

    def _sliced(self, X: Matrix, labels: Labels, width: int) -> Iterator[Batch]:
        if X.shape[1] != width:
            raise DataError(
                f"has {X.shape[1]} columns, and the model was fitted with {width}.", file=self.path
            )
        step = max(1, BATCH_BYTES // (8 * width))
        for start in range(0, X.shape[0], step):
            part = native(X[start : start + step])
            some = None if labels is None else labels[start : start + step]
            yield Batch(part, part.shape[0], some, None, 0)

    def _whole(self, X: Matrix) -> Matrix:
        """All rows, if every value is finite."""
        X = native(X)
        require_finite(X, self.path)
        return X

    def _mapped(self, path: Path) -> Array:
        """A NumPy array in a file, read when it is used."""
        with self.readable(path):
            found = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(found, np.ndarray):
            found.close()
            raise DataError("is an archive of arrays; read it with --format npz.", file=path)
        return found


class NpzReader(_NumpyReader):
    """NumPy's archive: X (or the parts of a CSR matrix as SciPy saves them) and y."""

    def load(self, label: str | None, drop: Collection[str], texts: Collection[str]) -> LoadedRows:
        """All rows with their labels."""
        self._refuse_names(drop=drop, categorical=texts)
        key = label or DEFAULT_LABEL["npz"]
        X, labels = self._arrays(key)
        if labels is None:
            raise DataError(
                f"holds no array {key!r} of labels; name it with --label.", file=self.path
            )
        X = self._whole(X)
        return LoadedRows(X, labels, None, {"width": X.shape[1], "key": key})

    def batches(self, needs: Needs) -> Iterator[Batch]:
        """The rows in order, some at a time."""
        width = self._width(needs)
        named = None if needs.label is None else needs.label[0]
        key = named or needs.layout.get("key") or DEFAULT_LABEL["npz"]
        X, labels = self._arrays(key)
        if needs.label is not None and labels is None:
            raise DataError(f"holds no array {key!r} of labels.", file=self.path)
        yield from self._sliced(X, labels, width)

    def _arrays(self, key: str) -> tuple[Matrix, Labels]:
        """The matrix, and the labels if they are there."""
        with self.readable(), np.load(self.file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
            labels = arrays.get(key)
            if set(arrays) >= SPARSE_PARTS:
                parts = (arrays["data"], arrays["indices"], arrays["indptr"])
                X = sparse.csr_array(parts, shape=tuple(arrays["shape"]))
                X.check_format(full_check=True)
            elif "X" in arrays:
                X = arrays["X"]
            else:
                raise DataError(
                    f"holds neither X nor the parts of a CSR matrix, but {sorted(arrays)}.",
                    file=self.path,
                )
        require_matrix(X, labels, self.path)
        return X, labels


class NpyReader(_NumpyReader):
    """A memory-mapped NumPy array; labels are its first or last column, or another file."""

    def load(self, label: str | None, drop: Collection[str], texts: Collection[str]) -> LoadedRows:
        """All rows with their labels."""
        self._refuse_names(drop=drop, categorical=texts)
        label = label or DEFAULT_LABEL["npy"]
        X, labels = self._parts(label)
        X = self._whole(X)
        return LoadedRows(X, labels, None, {"width": X.shape[1], "label": label})

    def batches(self, needs: Needs) -> Iterator[Batch]:
        """The rows in order, some at a time; a column of labels is left out if there is one."""
        width = self._width(needs)
        X, labels, label = self._mapped(self.path), None, needs.layout.get("label")
        if needs.label is not None:
            X, labels = self._parts(needs.label[0] or label or DEFAULT_LABEL["npy"])
        elif label in ENDS and X.ndim == 2 and X.shape[1] == width + 1:
            X = X[:, ENDS[label]]
        require_matrix(X, labels, self.path)
        yield from self._sliced(X, labels, width)

    def _parts(self, label: str) -> tuple[Matrix, Labels]:
        X = self._mapped(self.path)
        if label.endswith(".npy"):
            labels = self._mapped(require_file(Path(label)))
        elif label in ENDS:
            require_matrix(X, None, self.path)
            labels, X = X[:, int(label)], X[:, ENDS[label]]
        else:
            raise DataError(
                f"--label is {label!r}; of a matrix it is 0 or -1, the first or last column, or "
                "another .npy file.",
                file=self.path,
            )
        require_matrix(X, labels, self.path)
        return X, np.asarray(labels)


def native(X: Matrix) -> Matrix:
    """A matrix in this machine's byte order and a precision that solvers know, copied if need be.

    >>> native(np.array([[1, 2]], ">i4")).dtype.isnative
    True
    """
    kind = X.dtype
    wanted = np.dtype(np.float64) if kind.itemsize > 8 or kind == np.float16 else kind
    with np.errstate(over="ignore"):  # what is too large for it is infinite, and refused as such
        return X.astype(wanted.newbyteorder("="), copy=False)


def require_finite(X: Matrix, path: Path) -> None:
    """Refuse gaps and infinite values in a matrix: how many in which columns, and the first row."""
    step = max(1, BATCH_BYTES // (8 * X.shape[1]))
    bad: Counter[int] = Counter()
    row = None
    for start in range(0, X.shape[0], step):
        part = X[start : start + step]
        if all_finite(part if isinstance(part, np.ndarray) else part.data):
            continue
        rows, columns = _not_finite(part)
        row = start + int(rows.min()) + 1 if row is None else row
        bad.update(columns.tolist())
    if bad:
        shown = ", ".join(f"{column} ({n:,})" for column, n in sorted(bad.items())[:20])
        raise DataError(
            f"is the first of {bad.total():,} values that are NaN or infinite, in columns {shown}"
            f"{', ...' * (len(bad) > 20)} (counted from 0); a matrix has no gaps that could be "
            "filled: mend or drop these rows.",
            file=path,
            row=row,
        )


def _not_finite(X: Matrix) -> tuple[Where, Where]:
    """Rows and columns of the values that are not finite."""
    if isinstance(X, np.ndarray):
        return np.nonzero(~np.isfinite(X))  # type: ignore[return-value]
    entries = X.tocoo()
    bad = ~np.isfinite(entries.data)
    return entries.row[bad], entries.col[bad]


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
