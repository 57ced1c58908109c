"""Float columns of an Arrow file, also known as Feather; nothing else imports pyarrow."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toppush.designs.disk.files import EvenRows, Run, require_used


class ArrowFile(EvenRows):
    """Columns of one float type, read a record batch at a time."""

    def __init__(self, path: Path, columns: Sequence[str] | None) -> None:
        self._path = path
        with self._batches(None) as batches:
            schema: Any = batches.schema
        names = schema.names if columns is None else list(columns)
        missing = sorted(set(names) - set(schema.names))
        if missing or not names:
            raise ValueError(f"{path} has no columns {missing}; it has {schema.names[:10]}.")
        types = {schema.field(name).type for name in names}
        if len(types) > 1:
            raise ValueError(
                f"{path} has columns of types {sorted(map(str, types))}; name those of one float "
                "type by columns=."
            )
        require_used(np.dtype(types.pop().to_pandas_dtype()), path)
        self.dtype: np.dtype[Any] = np.dtype(schema.field(names[0]).type.to_pandas_dtype())
        self._names, self._fields = names, [schema.get_field_index(name) for name in names]
        self._bounds = np.cumsum([0, *self._batch_lengths()])
        self.shape = (int(self._bounds[-1]), len(names))
        if not self.shape[0]:
            raise ValueError(f"{path} has no rows.")
        self.n_entries, self.widest = self.shape[0] * self.shape[1], self.shape[1]
        self.entry_bytes = self.dtype.itemsize
        # A batch, what it was decompressed from, and the one that is read next.
        self.resident_bytes = (
            3 * int(np.diff(self._bounds).max()) * self.shape[1] * self.entry_bytes
        )
        self._latest: tuple[int, Any] = (-1, None)

    def _batches(self, fields: list[int] | None) -> Any:
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        pool = pa.system_memory_pool()
        return pa.ipc.open_file(pa.OSFile(str(self._path)), options=options, memory_pool=pool)

    def _batch_lengths(self) -> Iterator[int]:
        """Rows of each batch, by reading one column."""
        with self._batches(self._fields[:1]) as batches:
            for number in range(batches.num_record_batches):
                yield batches.get_batch(number).num_rows

    def buffer(self, n_entries: int) -> NDArray[Any]:
        """Memory for a read of `n_entries`, one column after another."""
        return np.empty((self.shape[1], max(n_entries // self.shape[1], 1)), self.dtype)

    def __enter__(self) -> Self:
        self._open = self._batches(self._fields)
        return self

    def __exit__(self, *error: object) -> None:
        self._latest = (-1, None)
        self._open.__exit__(*error)

    def read(self, runs: Sequence[Run], buffer: NDArray[Any]) -> NDArray[Any]:
        """The rows of some runs; only batches with some of them are read."""
        end = 0
        for start, stop in runs:
            while start < stop:
                number = int(np.searchsorted(self._bounds, start, side="right")) - 1
                first, last = int(self._bounds[number]), min(stop, int(self._bounds[number + 1]))
                part = buffer[:, end : end + last - start]
                self._copy(number, start - first, last - start, part)
                end, start = end + last - start, last
        return buffer[:, :end].T

    def _copy(self, number: int, first: int, length: int, target: NDArray[Any]) -> None:
        """Copy rows of a batch, which is read unless it was the last one."""
        if self._latest[0] != number:
            self._latest = (-1, None)  # let go of the last batch first
            self._latest = number, self._open.get_batch(number)
        batch = self._latest[1]
        for place, name in enumerate(self._names):
            column = batch.column(batch.schema.get_field_index(name)).slice(first, length)
            if column.null_count:
                raise ValueError(
                    f"column {name!r} of {self._path} has missing values; fill or drop them."
                )
            target[place] = column.to_numpy(zero_copy_only=True)
