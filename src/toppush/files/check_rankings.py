"""What has drifted between two files of rows, whoever scores them."""

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa

from toppush.files.checking import Tally, tally_of
from toppush.files.readers import reading
from toppush.files.readers.base import Reader, TableReader
from toppush.files.reference import of_columns
from toppush.files.sources import ModelSource, ScoredRows, ScoreSource, Wanted
from toppush.modelfile.model import read_as
from toppush.monitor.drift import Limits
from toppush.monitor.profile import Scores
from toppush.monitor.verdict import Checked, verdict
from toppush.system.errors import absent
from toppush.system.reading import DataError
from toppush.tables.column_types import Column, Counts
from toppush.tables.columns import learn
from toppush.tables.ids import id_like
from toppush.tables.rows import Needs
from toppush.thresholds.calibration import ScoreScale

Tallies = list[tuple[Column, Tally]]


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
    """What has drifted between two files, both scored by the same source.

    For scores of others, estimators of others, models that keep no summaries, and to hold this
    month against the last. Columns are those of a table but labels, scores, and what looks like an
    id or a name; of matrices the scores alone are compared. Scores and the columns of `before` are
    held in memory. Of a model that names its features, only these are compared.

    Parameters
    ----------
    source : ScoreSource
        Who gives the scores; `files.sources.open_source` makes one.
    before, now : path
        `before` should be rows that the source was not fitted to.
    label, positive : str, optional
        Column of the labels, and which label is positive, where the source does not know.
    labels : bool, optional
        Whether to read labels; by default if both tables have the column.
    limits : Limits, optional
    kind : str, optional
        The format, if the endings do not say.
    """
    if labels is None:
        labels = all(_has_labels(source, path, label, kind) for path in (before, now))
    wanted = Wanted(label, positive, labelled=labels)
    old, new = (_scored(source, path, wanted, kind) for path in (before, now))
    scale = _scale(old)
    counts = scale.sketch.count(new.scores)
    scores = Scores(scale, counts)
    if labels:
        hits = scale.sketch.count(new.scores[new.positive])
        scores = Scores(scale, counts, counts, hits)
    tallies = _counted(source, before, now, label, kind)
    return verdict([tally.now(one.name) for one, tally in tallies], scores, limits or Limits())


def _scale(old: ScoredRows) -> ScoreScale:
    """What scores meant; without labels nothing is known of positives."""
    positive = np.zeros(len(old.scores), bool) if old.labels is None else old.positive
    return ScoreScale.learn(positive, old.scores)


def _label(source: ScoreSource, label: str | None) -> str | None:
    if label is None and isinstance(source, ModelSource):
        return source.model.label.column
    return label


def _has_labels(source: ScoreSource, path: str | Path, label: str | None, kind: str | None) -> bool:
    with reading(path, kind) as file:
        return (_label(source, label) or file.usual_label) in file.names


def _scored(source: ScoreSource, path: str | Path, wanted: Wanted, kind: str | None) -> ScoredRows:
    with reading(path, kind) as file:
        if source.was_fitted_to(file):
            warnings.warn(
                f"the model was fitted to {file.path}, so its scores and its precision there "
                "are optimistic; compare with rows that it has not seen.",
                stacklevel=3,
            )
    with reading(path, kind) as file:
        return source.read(file, wanted)


def _counted(
    source: ScoreSource, before: str | Path, now: str | Path, label: str | None, kind: str | None
) -> Tallies:
    """The feature columns of a table before, with the values of now counted in their places."""
    with reading(before, kind) as file:
        if not isinstance(file, TableReader):
            return []
        others = getattr(source, "column", None), _label(source, label) or file.usual_label
        table = file.columns(source.features(file.names, *others))
    columns = _learned(table)
    known = of_columns(table, columns, np.arange(len(table)), np.ones(len(table)))
    by_name = {one.name: one for one in columns}
    tallies = [(by_name[name], tally_of(one, by_name[name])) for name, one in known]
    with reading(now, kind) as file:
        _count_all(tallies, file)
    return tallies


def _learned(table: pa.Table) -> list[Column]:
    """Columns that hold numbers, dates or categories, and not the same in every row."""
    found: list[Column] = []
    ids = id_like(table)
    for name in table.column_names:
        if name in ids or table[name].null_count == len(table):
            continue
        try:
            found += [one for one in learn(name, table[name], False, Counts()) if not one.constant]
        except DataError:  # names, mixed values: nothing that has a spread
            continue
    return found


def _count_all(tallies: Tallies, file: Reader) -> None:
    """Count the values of a file, batch by batch."""
    if not tallies:
        return
    schema = {one.source: read_as(one) for one, _ in tallies}
    if gone := absent(schema, file.names):
        raise file.error(f"has no {gone}, which the rows before had.")
    rows = 0
    for batch in file.batches(Needs(schema, {}, None)):
        for one, tally in tallies:
            try:
                tally.add(*one.read(batch.X.column(one.source), Counts()))
            except DataError as error:
                raise file.placed(error, after=rows) from None
        rows += batch.n_rows
