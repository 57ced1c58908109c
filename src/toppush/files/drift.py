"""Drift of the columns, scores and precision of a file, read in batches with bounded memory."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from toppush.files.readers import FileOrReader, reading
from toppush.files.readers.base import Reader, TableReader
from toppush.files.reference import (
    MOST_COLUMNS,
    column_name,
    monitored,
    profiles_of_table,
    read_fitted,
    read_profile,
)
from toppush.files.scoring import ScoringNotes, placed, positives, require_rows
from toppush.files.sources import ModelSource, ScoredRows, ScoreSource, Wanted
from toppush.matrices import ColumnReader
from toppush.modelfile.model import UNSCALED, Model, read_as
from toppush.monitor.drift import Limits
from toppush.monitor.profile import CategoryProfile, ColumnProfile, NumberProfile, ScoreCounts
from toppush.monitor.verdict import Checked, ColumnNow, verdict
from toppush.system.errors import ModelError, absent
from toppush.system.reading import DataError
from toppush.tables.column_types import Category, Column, Counts, Text
from toppush.tables.columns import learn, texts_of
from toppush.tables.ids import id_like
from toppush.tables.labels import are_there, caution_blanks
from toppush.tables.rows import Batch, Needs
from toppush.thresholds.calibration import ScoreScale
from toppush.types import Array, Mask


class ColumnTally:
    """Counts of a column's new values in the bins of its profile, and of missing values."""

    def __init__(self, before: ColumnProfile, column: Column | None = None) -> None:
        self.before, self.counts, self.missing = before, before.nothing(), 0
        self._bins = None
        if isinstance(before, CategoryProfile) and isinstance(column, Category):
            bins = {category: place for place, category in enumerate(before.categories)}
            codes = [bins.get(category, len(bins)) for category in column.categories]
            self._bins = np.array([*codes, len(bins) + 1])  # the last is that of -1: unknown

    def add(self, values: Array, missing: Mask | None) -> None:
        """Count values: numbers, or codes of categories (-1: unknown)."""
        known = values if missing is None else values[~missing]
        self.missing += len(values) - len(known)
        if isinstance(self.before, NumberProfile):
            self.counts += self.before.sketch.count(known)
        elif self._bins is not None:
            self.counts += np.bincount(self._bins[known], minlength=len(self.counts))

    def now(self, name: str) -> ColumnNow:
        """The column with its counts."""
        return ColumnNow(name, self.before, self.counts, float(self.missing))


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
    """Drift of columns, scores and precision in a file of rows since a model was fitted.

    The file is read once, in batches; memory does not grow with it.

    Parameters
    ----------
    model : Model
        By `files.fit`, which keeps a profile of each training column.
    path : path, or a reader that is open
    label : str, optional
        Column of the labels; that of the model.
    labels : bool, optional
        Whether to read labels; by default those of a table if the column is there. A row without a
        label, which may not be known yet, counts for all but the precision.
    limits : Limits, optional
        Sizes from which a change counts.
    kind : str, optional
        The file format, if the ending does not say.
    seen : ScoringNotes, optional
        Filled with the numbers of rows, missing values and unknown categories.

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
    profile, scale = read_profile(model.about), model.scale
    if scale is None:
        raise ModelError(UNSCALED)
    notes = seen or ScoringNotes()
    columns = {column.name: column for column in (model.columns.columns_ if model.columns else [])}
    tallies = {name: ColumnTally(before, columns.get(name)) for name, before in profile.items()}
    fitted = NumberProfile(read_fitted(model.about), 0.0)
    fitted_counts = fitted.nothing()
    counts, labelled_counts, positive_counts = np.zeros((3, 2 * len(scale.sketch.knots) + 1))
    with reading(path, kind) as file:
        if labels is None:
            column = label or model.about.get("label", {}).get("column")
            labels = label is not None or (column is not None and column in file.names)
        for batch in file.batches(model.needs(labels=labels, label=label)):
            with placed(file, notes):
                scores = model.decision_function(batch.X, notes.counts)
                _count_columns(model, tallies, batch)
                counts += scale.sketch.count(scores)
                fitted_counts += fitted.sketch.count(scores)
                if labels:
                    known, positive = _labels(model, batch, notes)
                    labelled_counts += scale.sketch.count(scores[known])
                    positive_counts += scale.sketch.count(scores[known][positive])
            notes.rows += batch.n_rows
            notes.ignored += batch.ignored
        require_rows(notes, file)
    caution_blanks(notes.counts.blanks, model.about.get("label", {}).get("column"))
    scored = ScoreCounts(scale, counts, fitted=fitted.sketch, fitted_counts=fitted_counts)
    if labelled_counts.any():
        scored = replace(scored, labelled=labelled_counts, positives=positive_counts)
    now = [tally.now(name) for name, tally in tallies.items()]
    left_out = int(model.about["profile"].get("left_out", 0))
    return replace(verdict(now, scored, limits or Limits()), left_out=left_out)


def _labels(model: Model, batch: Batch, notes: ScoringNotes) -> tuple[Mask, Mask]:
    """Which rows have a label, and which of those are positive."""
    known = are_there(batch.labels)
    if known.all():
        return known, positives(model, batch.labels, notes)
    labels = batch.labels
    labels = labels[known] if isinstance(labels, np.ndarray) else labels.filter(pa.array(known))
    try:
        return known, positives(model, labels, notes)
    except DataError as error:  # its row is counted among those with a label
        if error.row is not None:
            error.row = int(np.flatnonzero(known)[error.row - 1]) + 1
        raise


def _count_columns(model: Model, tallies: dict[str, ColumnTally], batch: Batch) -> None:
    """Count the values of a batch."""
    if model.columns is not None:
        for column in model.columns.columns_:
            for name, data in monitored(column, column.cells(batch.X)).items():
                if name in tallies:
                    tallies[name].add(*data)
        return
    columns = ColumnReader(batch.X)
    for number in range(batch.X.shape[1]):
        if (tally := tallies.get(column_name(number + model.first))) is not None:
            values = columns.entries(number, skip_zeros=False)[1]
            missing = np.isnan(values)
            tally.add(values, missing if missing.any() else None)


# ---- two files


def check_against(
    source: ScoreSource,
    before: str | Path,
    now: str | Path,
    *,
    label: str | None = None,
    positive: str | None = None,
    labels: bool | None = None,
    limits: Limits | None = None,
    kind: str | None = None,
) -> Checked:
    """Drift between two files that are scored by the same source.

    For columns of scores, other estimators, models without a profile, and to compare this month
    with the last. Of tables, all columns are compared but labels, scores, and those that look like
    ids or names; of matrices the scores alone. Scores and the columns of `before` are held in
    memory. If a model names its features, only these are compared.

    Parameters
    ----------
    source : ScoreSource
        The scores; `files.sources.open_source` makes one.
    before, now : path
        `before` should be rows that the source was not fitted to.
    label, positive : str, optional
        Column of the labels, and which label is positive, where the source does not know.
    labels : bool, optional
        Whether to read labels; by default if both tables have the column.
    limits : Limits, optional
    kind : str, optional
        The file format, if the endings do not say.
    """
    if label is None and isinstance(source, ModelSource):
        own_label = source.model.about.get("label", {}).get("column")
    else:
        own_label = label
    if labels is None:
        labels = all(_has_labels(path, own_label, kind) for path in (before, now))
    wanted = Wanted(label, positive, labelled=labels)
    old, new = (_scored(source, path, wanted, kind) for path in (before, now))
    # Without labels nothing is known of the precision.
    old_positive = old.positive if labels else np.zeros(len(old.scores), bool)
    scale = ScoreScale.learn(old_positive, old.scores)
    counts = scale.sketch.count(new.scores)
    scores = ScoreCounts(scale, counts)
    if labels:
        scores = ScoreCounts(scale, counts, counts, scale.sketch.count(new.scores[new.positive]))
    columns = _columns_now(source, before, now, own_label, kind)
    return verdict(columns, scores, limits or Limits())


def _has_labels(path: str | Path, label: str | None, kind: str | None) -> bool:
    with reading(path, kind) as file:
        return (label or file.usual_label) in file.names


def _scored(source: ScoreSource, path: str | Path, wanted: Wanted, kind: str | None) -> ScoredRows:
    with reading(path, kind) as file:
        if source.was_fitted_to(file):
            warnings.warn(
                f"the model was fitted to {file.path}, so its scores and its precision there "
                "are optimistic; compare with rows that it was not fitted to.",
                stacklevel=3,
            )
    with reading(path, kind) as file:
        return source.read(file, wanted)


def _columns_now(
    source: ScoreSource, before: str | Path, now: str | Path, label: str | None, kind: str | None
) -> list[ColumnNow]:
    """The features of the table `before`, with counts of their values in `now`."""
    with reading(before, kind) as file:
        if not isinstance(file, TableReader):
            return []
        others = getattr(source, "column", None), label or file.usual_label
        table = file.columns(source.features(file.names, *others))
    columns = _learned(table)
    by_name = {column.name: column for column in columns}
    profiles = profiles_of_table(table, columns, np.arange(len(table)), np.ones(len(table)))
    tallies = {name: ColumnTally(profile, by_name.get(name)) for name, profile in profiles}
    if tallies:
        with reading(now, kind) as file:
            _count_file(columns, tallies, file)
    return [tally.now(name) for name, tally in tallies.items()]


def _learned(table: pa.Table) -> list[Column]:
    """Columns of numbers, dates, categories or text that are not constant."""
    columns: list[Column] = []
    texts = texts_of(table)
    ids = id_like(table, texts)
    for name in table.column_names:
        if name in ids or table[name].null_count == len(table):
            continue
        try:
            if name in texts:
                learned: list[Column] = [Text.learned(name, table[name], Counts())]
            else:
                learned = learn(name, table[name], False, Counts())
        except DataError:  # names or mixed values
            continue
        columns += [column for column in learned if not column.constant]
    return columns


def _count_file(columns: list[Column], tallies: dict[str, ColumnTally], file: Reader) -> None:
    """Count the values of a file, batch by batch."""
    columns = columns[:MOST_COLUMNS]
    schema = {column.source: read_as(column) for column in columns}
    if gone := absent(schema, file.names):
        raise file.error(f"has no {gone}, which the rows before had.")
    rows = 0
    for batch in file.batches(Needs(schema, {}, None)):
        for column in columns:
            try:
                for name, data in monitored(column, column.cells(batch.X)).items():
                    if name in tallies:
                        tallies[name].add(*data)
            except DataError as error:
                raise file.placed(error, after=rows) from None
        rows += batch.n_rows
