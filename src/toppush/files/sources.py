"""Sources of scores for the rows of a file: a model, an estimator, or a column of the file."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from toppush.files.readers.base import Reader, TableReader
from toppush.files.scoring import ScoringNotes, joined, labelled_rows, scored
from toppush.metrics import auc
from toppush.metrics.positive_class import LATER, RARER, classes_of, final_step
from toppush.metrics.scoring import scores_of
from toppush.modelfile.foreign import is_foreign, load_estimator
from toppush.modelfile.model import Model
from toppush.modelfile.saving import load
from toppush.system.errors import ModelError, listed
from toppush.system.reading import DataError
from toppush.tables import arrow_values as arrow
from toppush.tables.labels import LabelRule, Value, caution_blanks, choose, count, count_blanks
from toppush.tables.rows import Layout, Needs, feature_columns
from toppush.tables.strings import is_number
from toppush.types import Array, Labels, Mask, Matrix


class Wanted(NamedTuple):
    """What is read from a file in addition to the scores."""

    label: str | None = None
    """Column of the labels, if not the usual one."""
    positive: str | None = None
    """The label to rank first, if the user names it."""
    strings: tuple[str, ...] = ()
    """Further columns, read as strings: an id, groups."""
    numbers: tuple[str, ...] = ()
    """Further columns, read as numbers: amounts, weights."""
    labelled: bool = True
    """Whether labels are read."""
    rows: bool = False
    """Whether the labelled rows themselves are returned, as the source takes them."""


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """The rows of a file in its order: scores, which rows are positive, further columns.

    Attributes
    ----------
    scores : array of shape (n_rows,)
        The highest is the top of the ranking.
    columns : pyarrow.Table or None
        The further columns.
    seen : ScoringNotes
        Counts of missing and unknown values.
    labels : (LabelRule, array of bool) or None
        Use `label` and `positive` to read them.
    """

    scores: Array
    columns: pa.Table | None
    seen: ScoringNotes
    labels: tuple[LabelRule, Mask] | None = None
    rows: Matrix = None
    """The rows that were scored, if they are wanted."""

    @property
    def label(self) -> LabelRule:
        """Which label is positive, and why."""
        return self._labels[0]

    @property
    def positive(self) -> Mask:
        """Which rows are positive."""
        return self._labels[1]

    @property
    def _labels(self) -> tuple[LabelRule, Mask]:
        if self.labels is None:
            raise DataError("the rows have no labels.")
        return self.labels

    def numbers(self, name: str) -> Array:
        """A further column as finite numbers."""
        return finite_numbers(self.columns, name)

    def strings(self, name: str) -> pa.Array:
        """A further column as strings, null where missing."""
        return arrow.as_strings(arrow.whole(self.columns[name]))  # type: ignore[index]


class ScoreSource(ABC):
    """A source of scores for the rows of a file."""

    name: str
    """Its name in messages."""
    lower_is_better: bool = False

    def read(self, file: Reader, wanted: Wanted) -> ScoredRows:
        """Scores of all rows of an open file, and what else is wanted from it."""
        try:
            rows = self._read(file, wanted)
        except DataError as error:
            raise error if error.file is not None else file.placed(error) from None
        return replace(rows, scores=-rows.scores) if self.lower_is_better else rows

    @abstractmethod
    def _read(self, file: Reader, wanted: Wanted) -> ScoredRows: ...

    @property
    def own_features(self) -> list[str] | None:
        """Names of the columns that it scores by; None if unknown or without names."""
        return None

    def features(self, names: Iterable[str], *others: str | None) -> list[str]:
        """The features among the columns of a table, see `feature_columns`; never the label."""
        known = self.own_features
        return feature_columns(names if known is None else known, *others)

    def was_fitted_to(self, file: Reader) -> bool:
        """Whether it is known to have been fitted to this file; call it before rows are read."""
        return False


def open_source(
    model: Path | None,
    *,
    scores: str | None = None,
    lower_is_better: bool = False,
    trusted: Collection[str] = (),
) -> ScoreSource:
    """The source of scores: a named column, else a model file or a skops file."""
    if scores is not None:
        return ColumnSource(scores, lower_is_better)
    if model is None:
        raise ValueError("neither a model nor a column of scores is named.")
    if is_foreign(model):
        return EstimatorSource(load_estimator(model, trusted), lower_is_better)
    return ModelSource(load(model))


# ---- a column of the file


@dataclass
class ColumnSource(ScoreSource):
    """A column of the file that holds scores."""

    column: str
    lower_is_better: bool = False

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.column

    def _read(self, file: Reader, wanted: Wanted) -> ScoredRows:
        label = wanted.label or file.usual_label
        if wanted.labelled and label == self.column:
            raise DataError(f"column {label!r} cannot hold both the scores and the labels.")
        names = [self.column, *wanted.strings, *wanted.numbers, *[label] * wanted.labelled]
        strings = [name for name in wanted.strings if name != self.column]
        table = file.columns(names, strings)
        scores = finite_numbers(table, self.column)
        labels = None
        if wanted.labelled:
            caution_blanks(count_blanks(table[label]), label)
            rule = choose(count(table[label], label), label, wanted.positive)
            labels = rule, rule.positives(table[label])
        return ScoredRows(scores, _further(table, wanted), ScoringNotes(len(table)), labels)


# ---- a model file of this package


@dataclass
class ModelSource(ScoreSource):
    """A model file of this package."""

    model: Model
    name: str = "the model"

    def _read(self, file: Reader, wanted: Wanted) -> ScoredRows:
        seen, model = ScoringNotes(), self.model
        if wanted.rows and wanted.labelled:
            X, positive, columns = labelled_rows(
                model,
                file,
                label=wanted.label,
                columns=wanted.strings,
                numbers=wanted.numbers,
                seen=seen,
            )
            scores = model.decision_function(X)
            return ScoredRows(scores, columns, seen, (model.label, positive), X)
        needs = model.needs(
            labels=wanted.labelled, label=wanted.label, carry=wanted.strings, numbers=wanted.numbers
        )
        parts = list(scored(model, file, needs, seen))
        scores = np.concatenate([part.scores for part in parts])
        carried = [part.carried for part in parts if part.carried is not None]
        columns = pa.Table.from_batches(carried) if carried else None
        if not wanted.labelled:
            return ScoredRows(scores, columns, seen)
        positive = np.concatenate([part.positive for part in parts if part.positive is not None])
        return ScoredRows(scores, columns, seen, (model.label, positive))

    @property
    def own_features(self) -> list[str] | None:
        return list(self.model.needs().schema) or None

    def was_fitted_to(self, file: Reader) -> bool:
        known = self.model.about.get("data", {}).get("fingerprint")
        return known is not None and file.fingerprint() == known


# ---- any fitted estimator


@dataclass
class EstimatorSource(ScoreSource):
    """A fitted estimator or pipeline of this or any other package."""

    estimator: Any
    lower_is_better: bool = False

    @property
    def name(self) -> str:  # type: ignore[override]
        return type(final_step(self.estimator)).__name__

    def _read(self, file: Reader, wanted: Wanted) -> ScoredRows:
        rows, labels, columns = self._rows(file, wanted)
        rule, known = None, None
        if wanted.labelled:
            rule = self._rule(labels, wanted.label or file.usual_label, wanted.positive)
            known = rule, rule.positives(labels)
        scores = self._scores(rows, rule)
        kept = rows if wanted.rows else None
        return ScoredRows(scores, columns, ScoringNotes(rows.shape[0]), known, kept)

    def _rows(self, file: Reader, wanted: Wanted) -> tuple[Matrix, Labels, pa.Table | None]:
        """Rows as the estimator takes them, labels, and further columns."""
        if not isinstance(file, TableReader):
            return *self._matrix(file, wanted), None
        names = self.own_features
        label = wanted.label or file.usual_label
        others = (*wanted.strings, *wanted.numbers, *[label] * wanted.labelled)
        taken = feature_columns(file.names, label, *others) if names is None else names
        strings = [name for name in wanted.strings if names is None or name not in names]
        table = file.columns(list(dict.fromkeys((*taken, *others))), strings)
        # LightGBM and XGBoost take strings as categories of pandas only.
        coded = hasattr(self.estimator, "booster_") or hasattr(self.estimator, "get_booster")
        rows = as_rows(table.select(taken), named=names is not None, coded=coded)
        return rows, table[label] if wanted.labelled else None, _further(table, wanted)

    def _matrix(self, file: Reader, wanted: Wanted) -> tuple[Matrix, Labels]:
        if (names := self.own_features) is not None:
            raise DataError(f"has no column names, and the estimator needs {listed(names, 5)}.")
        if (width := getattr(self.estimator, "n_features_in_", None)) is None:
            raise ModelError(f"{self.name} does not say how many columns it was fitted on.")
        label = (wanted.label, pa.float64()) if wanted.labelled else None
        needs = Needs({}, Layout(width=int(width)), label, wanted.strings, wanted.numbers)
        parts = list(file.batches(needs))
        if not parts:
            raise DataError("the file holds no rows.")
        labels = np.concatenate([part.labels for part in parts]) if wanted.labelled else None
        return joined([part.X for part in parts]), labels

    @property
    def own_features(self) -> list[str] | None:
        """The columns that it was fitted on, if they had names; one may be the label."""
        names = getattr(self.estimator, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def _rule(self, labels: Labels, column: str, positive: str | None) -> LabelRule:
        """Which label is positive, among the classes of the estimator if they are known."""
        caution_blanks(count_blanks(labels), column)
        counts, classes = count(labels, column), self._classes()
        known = classes is not None and set(counts) <= set(classes)
        if classes is None or (positive is not None and not known):
            return choose(counts, column, positive)
        if not known or (positive is None and len(classes) != 2):
            raise DataError(
                f"labels are {listed(counts, 5)}, and the estimator was fitted to the classes "
                f"{listed(classes, 5)}; name the positive label with --positive.",
                column=column,
            )
        rule = choose({label: counts[label] for label in classes}, column, positive)
        if rule.why in (RARER, LATER) and len(counts) < len(classes):
            raise DataError(
                f"every label is {listed(counts, 1)}, so none is the rarer of the classes "
                f"{listed(classes, 5)}; name the positive label with --positive.",
                column=column,
            )
        return rule

    def _classes(self) -> list[Value] | None:
        """Its classes, as labels are read from files: strings or floating-point numbers."""
        classes = classes_of(self.estimator)
        if classes is None:
            return None
        return [label.strip() if isinstance(label, str) else float(label) for label in classes]

    def positive_class(self, rule: LabelRule) -> Any:
        """The estimator's class for the positive label; None if there is none."""
        own, classes = classes_of(self.estimator), self._classes()
        if own is None or classes is None or rule.positive not in classes:
            return None
        return own[classes.index(rule.positive)]

    def _scores(self, rows: Matrix, rule: LabelRule | None) -> Array:
        positive = None if rule is None else self.positive_class(rule)
        with warnings.catch_warnings():
            # Without pandas rows have no names; their columns are still in the order of the fit.
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
            try:
                scores = scores_of(self.estimator, rows, positive)
            except DataError:
                raise
            except Exception as error:  # an estimator of another package may raise anything
                reason = next(iter(str(error).splitlines()), "")  # not the engine's stack trace
                raise ModelError(
                    f"{self.name} cannot score these rows: {type(error).__name__}: {reason}"
                ) from None
        finite = np.isfinite(scores)
        if not finite.all():
            row = int(np.argmin(finite)) + 1
            raise DataError("has no finite score; correct its values.", row=row)
        return scores


def as_rows(table: pa.Table, *, named: bool, coded: bool = False) -> Matrix:
    """A table as an estimator takes it: a pandas data frame if names count, else a matrix.

    With `coded`, strings become categories of pandas.
    """
    if not named or find_spec("pandas") is None:
        columns = ((name, arrow.whole(table[name])) for name in table.column_names)
        return np.column_stack([arrow.as_floats(name, column) for name, column in columns])
    frame = table.to_pandas()
    if coded:
        strings = [field.name for field in table.schema if arrow.is_string(field.type)]
        frame = frame.astype(dict.fromkeys(strings, "category"))
    for name in frame.columns[frame.dtypes.map(lambda kind: kind.kind == "O")]:
        # pyarrow gives None for a missing value, and encoders were fitted to NaN.
        frame[name] = frame[name].where(frame[name].notna(), np.nan)
    return frame


# ---- shared


def finite_numbers(table: pa.Table, name: str) -> Array:
    """A column as numbers, all of them finite."""
    column = arrow.whole(table[name])
    kind = arrow.value_type(column.type)
    if not arrow.is_numeric(kind):
        example = ""
        if arrow.is_string(kind):
            strings = (text for text in arrow.as_strings(column).to_pylist() if text)
            wrong = next((text for text in strings if not is_number(text)), None)
            example = "" if wrong is None else f" (for example {wrong!r})"
        raise DataError(f"holds {kind}{example}, and numbers are needed.", column=name)
    numbers = arrow.as_floats(name, column)
    finite = np.isfinite(numbers)
    if not finite.all():
        row = int(np.argmin(finite))
        wrong = "is missing" if np.isnan(numbers[row]) else f"is {numbers[row]}"
        raise DataError(
            f"the number {wrong}, as in {int((~finite).sum()):,} of {len(finite):,} rows; put a "
            "finite number there, or drop the rows.",
            row=row + 1,
            column=name,
        )
    return numbers


def _further(table: pa.Table, wanted: Wanted) -> pa.Table | None:
    """The further columns that are wanted, if any."""
    names = list(dict.fromkeys((*wanted.strings, *wanted.numbers)))
    return table.select(names) if names else None


def caution_scores(positive: Mask, scores: Array) -> None:
    """Warn of scores that hardly order the rows, or order them the wrong way round."""
    distinct = np.unique(scores[:100_000]).size
    if distinct <= 2:
        warnings.warn(
            f"the scores have {distinct} different value{'s' * (distinct > 1)}: are they predicted "
            "classes? Tied rows count as in random order; take probabilities or scores.",
            stacklevel=2,
        )
    n_pos, n_neg = int(positive.sum()), int((~positive).sum())
    if not n_pos or not n_neg:
        return
    area, error = auc(positive, scores), ((n_pos + n_neg + 1) / (12 * n_pos * n_neg)) ** 0.5
    if area < 0.5 - 3 * error:
        warnings.warn(
            f"positives score below negatives in {1 - area:.0%} of the pairs. If a low score means "
            "positive, add --lower-is-better; if the other label is positive, name it with "
            "--positive.",
            stacklevel=2,
        )
