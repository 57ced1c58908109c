"""Base classes of the readers. A file is opened once, by a reader that the commands pass on.

Rows are read as a whole to fit a model, or batch by batch to score with it.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, ClassVar, Self

import pyarrow as pa

from toppush.system.errors import BadColumns, absent, listed
from toppush.system.reading import DataError, fingerprint_of, unpacked
from toppush.tables.arrow_values import refuse_nested
from toppush.tables.rows import Batch, LoadedRows, Needs, Schema, feature_columns


class Reader(ABC):
    """An open file of rows, which are read once."""

    unreadable: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    """What the library that reads the file raises when it is damaged."""
    usual_label: ClassVar[str] = "label"
    """Name of the column of labels by default."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = path, kind
        with self.readable():
            self.file = self._open()

    def _open(self) -> BinaryIO:
        return self.path.open("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    @contextmanager
    def readable(self, path: Path | None = None) -> Iterator[None]:
        """Raise errors of damaged files as `DataError`, naming this file or another."""
        try:
            yield
        except DataError:
            raise
        except self.unreadable as error:
            raise DataError(f"cannot be read: {error}", file=path or self.path) from None

    def fingerprint(self) -> str:
        """A digest of the file; call it before its rows are read."""
        return fingerprint_of(self.file)

    def error(self, message: str, **place: int | str) -> DataError:
        """An error about the file."""
        return DataError(message, file=self.path, **place)  # type: ignore[arg-type]

    def placed(self, error: DataError, *, after: int = 0) -> DataError:
        """The same error with its place in the file; `after` rows came before the batch."""
        if isinstance(error, BadColumns):
            placed = [self.placed(part, after=after) for part in error.errors]
            return BadColumns(placed, error.names, self.path)
        return self._placed(error.at(self.path, after=after))

    def _placed(self, error: DataError) -> DataError:
        """The error with a place that users of the format understand, such as a line."""
        return error

    @property
    def names(self) -> list[str]:
        """The column names of a table; a matrix has none."""
        return []

    def columns(self, names: Collection[str], strings: Collection[str] = ()) -> pa.Table:
        """Some columns of all rows; a text format reads those in `strings` as strings."""
        raise self.error(
            f"a {self.kind} file has no column names, and {listed(names, 5)} is wanted of it; "
            "put it into a table such as CSV or Parquet."
        )

    @abstractmethod
    def require(self, names: Collection[str], used: Collection[str | None] = ()) -> None:
        """Refuse names of absent columns; columns in `used` are not suggested instead."""

    @abstractmethod
    def load(
        self, label: str | None, drop: Collection[str], strings: Collection[str]
    ) -> LoadedRows:
        """All rows with their labels; a text format reads columns in `strings` as strings."""

    @abstractmethod
    def batches(self, needs: Needs) -> Iterator[Batch]:
        """The rows in order, batch by batch."""


class TextReader(Reader):
    """A text file, plain or compressed."""

    @cached_property
    def content(self) -> BinaryIO:
        """The decompressed file."""
        return unpacked(self.path, self.file)


class TableReader(Reader):
    """Rows with named columns."""

    @abstractmethod
    def table(self, drop: Collection[str] = (), strings: Collection[str] = ()) -> pa.Table:
        """The table without the columns in `drop`."""

    @abstractmethod
    def stream(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        """The columns of a schema; a text format also reads them as the types of the schema."""

    def load(
        self, label: str | None, drop: Collection[str], strings: Collection[str]
    ) -> LoadedRows:
        label = label or self.usual_label
        self.require((label, *drop, *strings))
        table = self._rows(drop, strings)
        if label not in table.column_names:
            raise self.error(f"the column of labels, {label!r}, is dropped.")
        features = feature_columns(table.column_names, label)
        return LoadedRows(table.select(features), table[label], label, {})

    def columns(self, names: Collection[str], strings: Collection[str] = ()) -> pa.Table:
        self.require(names)
        table = self._rows(feature_columns(self.names, *names), strings)
        self._refuse_nested(table, strings)
        return table

    def _rows(self, drop: Collection[str], strings: Collection[str]) -> pa.Table:
        table = self.table(drop, strings)
        if not len(table):
            raise self.error("holds no rows.")
        return table

    def batches(self, needs: Needs) -> Iterator[Batch]:
        if not needs.schema:
            raise self.error(
                "has named columns, and the model was fitted on a matrix without names."
            )
        wanted = dict.fromkeys(needs.carry, pa.large_string())
        wanted |= dict.fromkeys(needs.numbers, pa.float64())
        carried_names = list(dict.fromkeys((*needs.carry, *needs.numbers)))
        if needs.label is not None and needs.label[0] is not None:
            if needs.label[0] in needs.schema:
                raise self.error(
                    "is a feature of the model, so it cannot be the label as well; name the "
                    "column of the labels with --label.",
                    column=needs.label[0],
                )
            wanted[needs.label[0]] = needs.label[1]
        wanted |= needs.schema
        self.require(wanted)
        for batch in self.stream(wanted):
            self._refuse_nested(batch, needs.carry)
            labels = None if needs.label is None else batch.column(needs.label[0])
            carried = batch.select(carried_names) if carried_names else None
            yield Batch(batch.select(list(needs.schema)), len(batch), labels, carried, 0)

    def _refuse_nested(self, rows: pa.Table | pa.RecordBatch, names: Collection[str]) -> None:
        for name in names:
            try:
                refuse_nested(name, rows.schema.field(name).type)
            except DataError as error:
                raise self.placed(error) from None

    def require(self, names: Collection[str], used: Collection[str | None] = ()) -> None:
        """Refuse names of absent columns, all of them at once."""
        if gone := absent(names, self.names, used):
            raise self.error(f"has no {gone}; its columns are {listed(self.names, 20)}.")


class MatrixReader(Reader):
    """Rows with numbered columns."""

    def require(self, names: Collection[str], used: Collection[str | None] = ()) -> None:
        """Refuse any name: a matrix has none."""
        if names:
            raise self.error(
                f"a {self.kind} file has no column names, and {', '.join(names)} is asked for."
            )

    def _refuse_names(self, **options: Collection[str]) -> None:
        for option, names in options.items():
            if names:
                raise self.error(
                    f"a {self.kind} file has no column names, and --{option} names "
                    f"{', '.join(names)}."
                )

    def _width(self, needs: Needs) -> int:
        """Number of columns of a model that was fitted to a matrix."""
        if needs.schema:
            first = next(iter(needs.schema))
            raise self.error(f"has no column names, and the model needs {first!r} and others.")
        self._refuse_names(columns=needs.carry)
        if needs.numbers:
            self.columns(needs.numbers)
        return int(needs.layout["width"])
