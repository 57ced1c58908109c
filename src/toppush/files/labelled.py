"""All rows of a labelled file at once, for what cannot be made from a stream."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from toppush.files.errors import DataError
from toppush.files.models import Model
from toppush.files.ranking import Scored
from toppush.files.sources import source


class LabelledRows(NamedTuple):
    """Rows as the model's pipeline takes them, which are positive, and columns carried along."""

    X: Any
    positive: NDArray[np.bool_]
    carried: pa.Table | None


def labelled_rows(
    model: Model,
    path: str | Path,
    *,
    label: str | None = None,
    kind: str | None = None,
    columns: tuple[str, ...] = (),
    seen: Scored | None = None,
) -> LabelledRows:
    """Read a whole file; memory is that of its rows. What is met in it goes to `seen`."""
    file, rule = source(path, kind), model.label
    parts, positive, carried, n_rows = [], [], [], 0
    for batch in file.batches(model.needs(labels=True, label=label, carry=columns)):
        try:
            positive.append(rule.positives(batch.labels))
            if seen is not None:
                model.look(batch.X, seen.counts)
        except DataError as error:
            row = None if error.row is None else error.row + n_rows
            raise DataError(error.message, file=file.path, row=row, column=error.column) from None
        parts.append(batch.X)
        carried += [] if batch.carried is None else [batch.carried]
        n_rows += batch.n_rows
    if not parts:
        raise DataError("the file holds no rows.", file=file.path)
    if seen is not None:
        seen.rows = n_rows
        seen.counts.caution()
    shown = pa.Table.from_batches(carried) if carried else None
    return LabelledRows(_joined(parts), np.concatenate(positive), shown)


def _joined(parts: list[Any]) -> Any:
    """One table or matrix from the parts of a file."""
    if isinstance(parts[0], pa.RecordBatch):
        return pa.Table.from_batches(parts)
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return sparse.csr_array(sparse.vstack(parts, format="csr"))
