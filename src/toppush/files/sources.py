"""Where rows come from: a table with named columns, or a matrix with numbered ones.

Both are read whole to fit a model, or batch by batch to score with it.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from scipy import sparse

from toppush.files import libsvm, tables
from toppush.files.arrays import all_finite
from toppush.files.errors import DataError
from toppush.files.files import kind_of, require_file

BATCH_BYTES = 1 << 25
"""Bytes of a memory-mapped matrix that are scored at a time."""
DEFAULT_LABEL = {"npz": "y", "npy": "-1"}
ENDS = {"0": slice(1, None), "-1": slice(None, -1)}
"""Columns that are left when the first or the last one holds the labels."""
SPARSE_PARTS = {"data", "indices", "indptr", "shape"}


class Rows(NamedTuple):
    """Training rows with their labels."""

    X: Any
    labels: Any
    label: str | None
    """Name of the column of labels, if it has one."""
    layout: dict[str, Any]
    """What scoring another file needs to know of this one."""


class Batch(NamedTuple):
    """Some rows to score."""

    X: Any
    n_rows: int
    labels: Any
    carried: pa.RecordBatch | None
    """Columns that are only carried along."""
    ignored: int
    """Entries in columns that the model does not know."""


class Needs(NamedTuple):
    """What is wanted from a file that is scored."""

    schema: dict[str, pa.DataType]
    """Columns of the model, by name; empty for a matrix."""
    layout: dict[str, Any]
    label: tuple[str | None, pa.DataType] | None
    """Column and type of the labels, if they are wanted."""
    carry: tuple[str, ...] = ()


class Source(Protocol):
    """A file of rows."""

    path: Path
    kind: str

    def load(self, label: str | None, drop: Collection[str], texts: Collection[str]) -> Rows:
        """All rows with their labels."""

    def batches(self, needs: Needs) -> Iterator[Batch]:
        """The rows in order, some at a time."""


def column_names(path: Path, kind: str | None = None) -> list[str]:
    """The column names of a table file; a matrix has none."""
    file = source(path, kind)
    return tables.names(file.path, file.kind) if isinstance(file, TableSource) else []


def source(path: str | Path, kind: str | None = None) -> Source:
    """The reader for a file, by its ending or the kind that is named."""
    path = require_file(Path(path))
    kind = kind_of(path, kind)
    matrices: dict[str, Any] = {"libsvm": LibsvmSource, "npz": NpzSource, "npy": NpySource}
    found: Source = matrices.get(kind, TableSource)(path, kind)
    return found


@dataclass(frozen=True)
class TableSource:
    """CSV, Parquet or Arrow."""

    path: Path
    kind: str

    def load(self, label: str | None, drop: Collection[str], texts: Collection[str]) -> Rows:
        """All rows with their labels."""
        label = label or "label"
        found = tables.names(self.path, self.kind)
        tables.require_columns((label, *drop, *texts), found, self.path)
        table = tables.read(self.path, self.kind, drop=drop, texts=texts)
        if not len(table):
            raise DataError("holds no rows.", file=self.path)
        if label not in table.column_names:
            raise DataError(f"the column of labels, {label!r}, is dropped.", file=self.path)
        return Rows(table.drop_columns([label]), table[label], label, {})

    def batches(self, needs: Needs) -> Iterator[Batch]:
        """The rows in order, some at a time."""
        if not needs.schema:
            raise DataError(
                "has named columns, and the model was fitted on a matrix without names.",
                file=self.path,
            )
        extra = dict.fromkeys(needs.carry, pa.large_string())
        if needs.label is not None and needs.label[0] is not None:
            extra[needs.label[0]] = needs.label[1]
        for batch in tables.stream(self.path, self.kind, extra | needs.schema):
            labels = None if needs.label is None else batch.column(needs.label[0])
            carried = batch.select(list(needs.carry)) if needs.carry else None
            yield Batch(batch, len(batch), labels, carried, 0)


class _MatrixSource:
    """What formats without column names share."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = path, kind

    def _refuse_names(self, **names: Collection[str]) -> None:
        for option, given in names.items():
            if given:
                raise DataError(
                    f"a {self.kind} file has no column names, and --{option} gives "
                    f"{', '.join(given)}.",
                    file=self.path,
                )

    def _matching(self, needs: Needs) -> int:
        """How many columns the model has, if it is one of a matrix."""
        if needs.schema:
            first = next(iter(needs.schema))
            raise DataError(
                f"has no column names, and the model needs {first!r} and others.", file=self.path
            )
        self._refuse_names(columns=needs.carry)
        return int(needs.layout["width"])

    def _sliced(self, X: Any, labels: Any, width: int) -> Iterator[Batch]:
        if X.shape[1] != width:
            raise DataError(
                f"has {X.shape[1]} columns, and the model was fitted with {width}.", file=self.path
            )
        step = max(1, BATCH_BYTES // (8 * width))
        for start in range(0, X.shape[0], step):
            part = native(X[start : start + step])
            some = None if labels is None else labels[start : start + step]
            yield Batch(part, part.shape[0], some, None, 0)


class LibsvmSource(_MatrixSource):
    """LIBSVM text, plain or compressed; column numbers count from 0 if a 0 occurs, else from 1."""

    def load(self, label: str | None, drop: Collection[str], texts: Collection[str]) -> Rows:
        """All rows with their labels."""
        self._refuse_names(drop=drop, categorical=texts, label=[label] if label else [])
        X, y, first = libsvm.read(self.path)
        return Rows(X, y, None, {"width": X.shape[1], "first": first})

    def batches(self, needs: Needs) -> Iterator[Batch]:
        """The rows in order, some at a time; entries in unknown columns are counted."""
        width, first = self._matching(needs), int(needs.layout.get("first", 1))
        for part in libsvm.blocks(self.path, lowest=first):
            X, beyond = libsvm.aligned(part.X, first, width)
            yield Batch(X, X.shape[0], part.y, None, beyond)


class NpzSource(_MatrixSource):
    """NumPy's archive: X (or the parts of a CSR matrix as SciPy saves them) and y."""

    def load(self, label: str | None, drop: Collection[str], texts: Collection[str]) -> Rows:
        """All rows with their labels."""
        self._refuse_names(drop=drop, categorical=texts)
        key = label or DEFAULT_LABEL["npz"]
        X, labels = self._arrays(key)
        if labels is None:
            raise DataError(
                f"holds no array {key!r} of labels; name it with --label.", file=self.path
            )
        X = native(X)
        require_finite(X, self.path)
        return Rows(X, labels, None, {"width": X.shape[1], "key": key})

    def batches(self, needs: Needs) -> Iterator[Batch]:
        """The rows in order, some at a time."""
        width = self._matching(needs)
        named = None if needs.label is None else needs.label[0]
        key = named or needs.layout.get("key") or DEFAULT_LABEL["npz"]
        X, labels = self._arrays(key)
        if needs.label is not None and labels is None:
            raise DataError(f"holds no array {key!r} of labels.", file=self.path)
        yield from self._sliced(X, labels, width)

    def _arrays(self, key: str) -> tuple[Any, Any]:
        """The matrix, and the labels if they are there."""
        with (
            _readable(self.path),
            self.path.open("rb") as file,
            np.load(file, allow_pickle=False) as archive,
        ):
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


class NpySource(_MatrixSource):
    """A memory-mapped NumPy array; labels are its first or last column, or another file."""

    def load(self, label: str | None, drop: Collection[str], texts: Collection[str]) -> Rows:
        """All rows with their labels."""
        self._refuse_names(drop=drop, categorical=texts)
        label = label or DEFAULT_LABEL["npy"]
        X, labels = self._parts(label)
        X = native(X)
        require_finite(X, self.path)
        return Rows(X, labels, None, {"width": X.shape[1], "label": label})

    def batches(self, needs: Needs) -> Iterator[Batch]:
        """The rows in order, some at a time; a column of labels is left out if there is one."""
        width = self._matching(needs)
        X, labels, label = mapped(self.path), None, needs.layout.get("label")
        if needs.label is not None:
            X, labels = self._parts(needs.label[0] or label or DEFAULT_LABEL["npy"])
        elif label in ENDS and X.ndim == 2 and X.shape[1] == width + 1:
            X = X[:, ENDS[label]]
        require_matrix(X, labels, self.path)
        yield from self._sliced(X, labels, width)

    def _parts(self, label: str) -> tuple[Any, Any]:
        X = mapped(self.path)
        if label.endswith(".npy"):
            labels = mapped(require_file(Path(label)))
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


def native(X: Any) -> Any:
    """A matrix in this machine's byte order and a precision that solvers know, copied if need be.

    >>> native(np.array([[1, 2]], ">i4")).dtype.isnative
    True
    """
    kind = X.dtype
    wanted = np.dtype(np.float64) if kind.itemsize > 8 or kind == np.float16 else kind
    with np.errstate(over="ignore"):  # what is too large for it is infinite, and refused as such
        return X.astype(wanted.newbyteorder("="), copy=False)


def require_finite(X: Any, path: Path) -> None:
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


def _not_finite(X: Any) -> tuple[Any, Any]:
    """Rows and columns of the values that are not finite."""
    if isinstance(X, np.ndarray):
        return np.nonzero(~np.isfinite(X))  # type: ignore[return-value]
    entries = X.tocoo()
    bad = ~np.isfinite(entries.data)
    return entries.row[bad], entries.col[bad]


def mapped(path: Path) -> Any:
    """A NumPy array in a file, read when it is used."""
    with _readable(path):
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(found, np.ndarray):
        found.close()
        raise DataError("is an archive of arrays; read it with --format npz.", file=path)
    return found


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Name the file in what NumPy says of it."""
    try:
        yield
    except DataError:
        raise
    except (
        Exception
    ) as error:  # damage makes its parsers of Python literals and zips raise anything
        raise DataError(f"cannot be read: {error}", file=path) from None


def require_matrix(X: Any, labels: Any, path: Path) -> None:
    """Refuse arrays that are not a matrix of real numbers with a label a row."""
    if X.ndim != 2 or not all(X.shape) or X.dtype.kind not in "biuf":
        raise DataError(
            f"holds an array of shape {X.shape} and type {X.dtype}; a matrix of real numbers is "
            "needed.",
            file=path,
        )
    if labels is not None and labels.shape != X.shape[:1]:
        raise DataError(f"has {X.shape[0]} rows and labels of shape {labels.shape}.", file=path)
