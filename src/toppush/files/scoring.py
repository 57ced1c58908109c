"""Scores and labels of a file, in its order: batch by batch, or all of its rows at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from toppush.files.readers import FileOrReader, reading
from toppush.files.readers.base import Reader
from toppush.matrices import stacked
from toppush.modelfile.model import Model
from toppush.system.reading import DataError
from toppush.tables.column_types import Counts
from toppush.tables.labels import caution_blanks, count_blanks
from toppush.tables.rows import Needs
from toppush.types import Array, Labels, Mask, Matrix


@dataclass
class ScoringNotes:
    """Counts of what was unusual while a file was scored."""

    rows: int = 0
    counts: Counts = field(default_factory=Counts)
    ignored: int = 0
    """Entries in columns that the model does not know."""


class ScoredBatch(NamedTuple):
    """Scores of a batch, and columns that are carried along."""

    scores: Array
    positive: Mask | None
    carried: pa.RecordBatch | None


class LabelledFile(NamedTuple):
    """Rows as the model's pipeline takes them, which are positive, and columns carried along."""

    X: Matrix
    positive: Mask
    carried: pa.Table | None


def scored(model: Model, file: Reader, needs: Needs, notes: ScoringNotes) -> Iterator[ScoredBatch]:
    """Scores of each batch, and its positives if labels are wanted; `notes` are filled."""
    for batch in file.batches(needs):
        with placed(file, notes):
            scores = model.decision_function(batch.X, notes.counts)
            positive = None if needs.label is None else positives(model, batch.labels, notes)
        yield ScoredBatch(scores, positive, batch.carried)
        notes.rows += batch.n_rows
        notes.ignored += batch.ignored
    require_rows(notes, file)
    caution(model, notes)


def positives(model: Model, labels: Labels, notes: ScoringNotes) -> Mask:
    """Which rows of a batch are positive; blanks around labels are counted."""
    notes.counts.blanks += count_blanks(labels)
    return model.label.positives(labels)


def caution(model: Model, notes: ScoringNotes) -> None:
    """Warn of what was unusual in the rows of a file."""
    notes.counts.caution()
    caution_blanks(notes.counts.blanks, model.about.get("label", {}).get("column"))


def labelled(
    model: Model,
    path: FileOrReader,
    *,
    label: str | None = None,
    kind: str | None = None,
    seen: ScoringNotes | None = None,
) -> tuple[Mask, Array]:
    """Which rows of a file are positive, and their scores, both in its order.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from toppush import files, metrics
    >>> load_breast_cancer(as_frame=True).frame.to_csv("train.csv", index=False)
    >>> model = files.fit("train.csv", label="target", lam=0.01, top=0.1)
    >>> y, scores = files.labelled(model, "train.csv")
    >>> round(metrics.average_precision(y, scores), 2)
    1.0
    """
    needs = model.needs(labels=True, label=label)
    with reading(path, kind) as file:
        parts = list(scored(model, file, needs, seen or ScoringNotes()))
    positive = np.concatenate([part.positive for part in parts if part.positive is not None])
    return positive, np.concatenate([part.scores for part in parts])


def labelled_rows(
    model: Model,
    path: FileOrReader,
    *,
    label: str | None = None,
    kind: str | None = None,
    columns: tuple[str, ...] = (),
    numbers: tuple[str, ...] = (),
    seen: ScoringNotes | None = None,
) -> LabelledFile:
    """Read a whole file into memory; unusual values are counted if `seen` is given."""
    parts, positive, notes = [], [], seen or ScoringNotes()
    with reading(path, kind) as file:
        needs = model.needs(labels=True, label=label, carry=columns, numbers=numbers)
        for batch in file.batches(needs):
            with placed(file, notes):
                positive.append(positives(model, batch.labels, notes))
                if seen is not None:
                    model.count_unusual(batch.X, seen.counts)
            parts.append(batch)
            notes.rows += batch.n_rows
        require_rows(notes, file)
    caution(model, notes)
    carried = [part.carried for part in parts if part.carried is not None]
    table = pa.Table.from_batches(carried) if carried else None
    return LabelledFile(joined([part.X for part in parts]), np.concatenate(positive), table)


@contextmanager
def placed(file: Reader, notes: ScoringNotes) -> Iterator[None]:
    """Name the file, and the line or the row in it, in an error about rows of a batch."""
    try:
        yield
    except DataError as error:
        raise file.placed(error, after=notes.rows) from None


def require_rows(notes: ScoringNotes, file: Reader) -> None:
    """Refuse a file without rows."""
    if not notes.rows:
        raise file.error("the file holds no rows.")


def joined(parts: list[Matrix]) -> Matrix:
    """One table or matrix from the parts of a file."""
    if isinstance(parts[0], pa.RecordBatch):
        return pa.Table.from_batches(parts)
    return stacked(parts)
