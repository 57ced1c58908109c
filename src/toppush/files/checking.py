"""Drift in a file of rows since a model was fitted; read in batches, in bounded memory."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from toppush.files.readers import FileOrReader, reading
from toppush.files.readers.base import Reader
from toppush.files.reference import column_name, read_fitted, read_watched
from toppush.files.scoring import ScoringNotes, placed, positives, require_rows
from toppush.matrices import ColumnReader
from toppush.modelfile.model import UNSCALED, Model
from toppush.monitor.drift import Limits
from toppush.monitor.profile import CategoryProfile, ColumnProfile, NumberProfile, Scores
from toppush.monitor.verdict import Checked, ColumnNow, verdict
from toppush.system.errors import ModelError
from toppush.system.reading import DataError
from toppush.tables.column_types import Category, Column, Counts
from toppush.tables.labels import are_there, caution_blanks
from toppush.tables.rows import Batch
from toppush.types import Array, Mask, Matrix, Where


class Tally:
    """Counts of a column's values in the places of its summary, and of gaps."""

    def __init__(self, before: ColumnProfile, places: Where | None = None) -> None:
        self.before, self.places = before, places
        self.counts, self.gaps = before.nothing(), 0

    def add(self, values: Array, gaps: Mask | None) -> None:
        """Take in some values: numbers, or places of texts in the model's list (-1: unknown)."""
        known = values if gaps is None else values[~gaps]
        self.gaps += len(values) - len(known)
        if isinstance(self.before, NumberProfile):
            self.counts += self.before.sketch.count(known)
        elif self.places is not None:
            self.counts += np.bincount(self.places[known], minlength=len(self.counts))

    def now(self, name: str) -> ColumnNow:
        """The column with what was counted."""
        return ColumnNow(name, self.before, self.counts, float(self.gaps))


def check(
    model: Model,
    path: FileOrReader,
    *,
    label: str | None = None,
    labels: bool | None = None,
    limits: Limits | None = None,
    kind: str | None = None,
    seen: ScoringNotes | None = None,
) -> Checked:
    """What has drifted in a file of rows since a model was fitted: columns, scores, precision.

    The file is read once, in batches; memory does not grow with it.

    Parameters
    ----------
    model : Model
        By `files.fit`, which keeps a summary of each training column.
    path : path, or a reader that is open
    label : str, optional
        Column of the labels; that of the model.
    labels : bool, optional
        Whether to read labels; by default those of a table if the column is there. A row without a
        label, which may not be known yet, counts for all but the precision.
    limits : Limits, optional
        From where on a change counts.
    kind : str, optional
        The format, if the ending does not say.
    seen : ScoringNotes, optional
        Filled with the number of rows, of gaps and of unknown texts.

    Returns
    -------
    Checked

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from toppush import files
    >>> load_breast_cancer(as_frame=True).frame.to_csv("train.csv", index=False)
    >>> model = files.fit("train.csv", label="target", lam=0.01, top=0.1)
    >>> files.check(model, "train.csv").drifted()
    []
    """
    before, scale = read_watched(model.about), model.scale
    if scale is None:
        raise ModelError(UNSCALED)
    notes, tallies = seen or ScoringNotes(), _tallies(model, before)
    fitted = NumberProfile(read_fitted(model.about), 0.0)
    fitted_tally = Tally(fitted)
    counts, known, positives_now = np.zeros((3, 2 * len(scale.sketch.knots) + 1))
    with reading(path, kind) as file:
        labelled = _is_labelled(model, file, label) if labels is None else labels
        for batch in file.batches(model.needs(labels=labelled, label=label)):
            with placed(file, notes):
                scores = model.decision_function(batch.X, notes.counts)
                _add_columns(model, tallies, batch)
                counts += scale.sketch.count(scores)
                fitted_tally.add(scores, None)
                if labelled:
                    there, positive = _labels(model, batch, notes)
                    known += scale.sketch.count(scores[there])
                    positives_now += scale.sketch.count(scores[there][positive])
            notes.rows += batch.n_rows
            notes.ignored += batch.ignored
        require_rows(notes, file)
    caution_blanks(notes.counts.blanks, model.about.get("label", {}).get("column"))
    scored = Scores(scale, counts, fitted=fitted.sketch, fitted_counts=fitted_tally.counts)
    if known.any():
        scored = replace(scored, labelled=known, positives=positives_now)
    columns = [tally.now(name) for name, tally in tallies.items()]
    found = verdict(columns, scored, limits or Limits())
    return replace(found, left_out=int(model.about["watched"].get("left_out", 0)))


def _is_labelled(model: Model, file: Reader, label: str | None) -> bool:
    """Whether a table has the column of labels."""
    wanted = label or model.about.get("label", {}).get("column")
    return label is not None or (wanted is not None and wanted in file.names)


def _labels(model: Model, batch: Batch, seen: ScoringNotes) -> tuple[Mask, Mask]:
    """Which rows have a label, and which of those are positive."""
    there = are_there(batch.labels)
    if there.all():
        return there, positives(model, batch.labels, seen)
    labels = batch.labels
    some = labels[there] if isinstance(labels, np.ndarray) else labels.filter(pa.array(there))
    try:
        return there, positives(model, some, seen)
    except DataError as error:  # its row is counted among those with a label
        if error.row is not None:
            error.row = int(np.flatnonzero(there)[error.row - 1]) + 1
        raise


def _tallies(model: Model, before: dict[str, ColumnProfile]) -> dict[str, Tally]:
    """Nothing counted yet, for each column that the model keeps a summary of."""
    known = {one.name: one for one in (model.columns.columns_ if model.columns else [])}
    return {name: tally_of(one, known.get(name)) for name, one in before.items()}


def tally_of(before: ColumnProfile, column: Column | None) -> Tally:
    """Nothing counted yet of a column; of texts, with their places in its list."""
    if not isinstance(before, CategoryProfile) or not isinstance(column, Category):
        return Tally(before)
    at = {text: place for place, text in enumerate(before.categories)}
    listed = [at.get(text, len(at)) for text in column.categories]
    return Tally(before, np.array([*listed, len(at) + 1]))  # the last one is that of -1: unknown


def _add_columns(model: Model, tallies: dict[str, Tally], batch: Batch) -> None:
    """Count the values of a batch."""
    if model.columns is None:
        _add_matrix(model, tallies, batch.X)
        return
    rows = batch.X
    for one, (values, gaps) in zip(
        model.columns.columns_, model.columns.read(rows, Counts()), strict=True
    ):
        if one.name in tallies:
            tallies[one.name].add(values, gaps)


def _add_matrix(model: Model, tallies: dict[str, Tally], X: Matrix) -> None:
    first = model.about.get("layout", {}).get("first", 0)
    columns = ColumnReader(X)
    for number in range(X.shape[1]):
        tally = tallies.get(column_name(number + first))
        if tally is not None:
            values = columns.entries(number, skip_zeros=False)[1]
            gaps = np.isnan(values)
            tally.add(values, gaps if gaps.any() else None)
