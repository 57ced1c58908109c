"""Scores by any fitted estimator or pipeline."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

from toppush.explain.scores import scores_of
from toppush.files.readers.base import Reader, TableReader
from toppush.files.scoring import ScoringNotes, joined
from toppush.files.sources.base import ScoredRows, Source, Wanted, further
from toppush.metrics.positive import LATER, RARER, classes_of, final_step
from toppush.system.errors import ModelError, listed
from toppush.system.reading import DataError
from toppush.tables import arrow_values as arrow
from toppush.tables.labels import LabelRule, Value, caution_blanks, choose, count, count_blanks
from toppush.tables.loaded import Layout, Needs, feature_columns
from toppush.types import Array, Labels, Matrix

BOOSTERS = ("booster_", "get_booster")
"""By what the classes of LightGBM and XGBoost are known."""
NO_NAMES = "X does not have valid feature names"


@dataclass
class EstimatorSource(Source):
    """A fitted estimator or pipeline, ours or anyone's."""

    estimator: Any
    lower_is_better: bool = False

    @property
    def name(self) -> str:  # type: ignore[override]
        return type(final_step(self.estimator)).__name__

    def _read(self, file: Reader, wanted: Wanted) -> ScoredRows:
        rows, labels, columns = self._rows(file, wanted)
        n_rows = rows.shape[0]
        found = None
        if wanted.labelled:
            rule = self._rule(labels, wanted.label or file.usual_label, wanted.positive)
            found = rule, rule.positives(labels)
        scores = self._scores(rows, None if found is None else found[0])
        kept = rows if wanted.rows else None
        return ScoredRows(scores, columns, ScoringNotes(n_rows), found, kept)

    def _rows(self, file: Reader, wanted: Wanted) -> tuple[Matrix, Labels, pa.Table | None]:
        """Rows as the estimator takes them, labels, and further columns."""
        if not isinstance(file, TableReader):
            return *self._matrix(file, wanted), None
        names = self.own_features
        label = wanted.label or file.usual_label
        besides = (*wanted.texts, *wanted.numbers, *[label] * wanted.labelled)
        taken = feature_columns(file.names, label, *besides) if names is None else names
        texts = [name for name in wanted.texts if names is None or name not in names]
        table = file.columns(list(dict.fromkeys((*taken, *besides))), texts=texts)
        rows = as_rows(table.select(taken), named=names is not None, coded=self._codes_texts())
        return rows, table[label] if wanted.labelled else None, further(table, wanted)

    def _matrix(self, file: Reader, wanted: Wanted) -> tuple[Matrix, Labels]:
        if (names := self.own_features) is not None:
            raise DataError(f"has no column names, and the estimator needs {listed(names, 5)}.")
        if (width := getattr(self.estimator, "n_features_in_", None)) is None:
            raise ModelError(f"{self.name} does not say how many columns it was fitted on.")
        label = (wanted.label, pa.float64()) if wanted.labelled else None
        needs = Needs({}, Layout(width=int(width)), label, wanted.texts, wanted.numbers)
        parts = list(file.batches(needs))
        if not parts:
            raise DataError("the file holds no rows.")
        labels = np.concatenate([part.labels for part in parts]) if wanted.labelled else None
        return joined([part.X for part in parts]), labels

    def _codes_texts(self) -> bool:
        """Whether texts must be categories of pandas, as LightGBM and XGBoost take them."""
        return any(hasattr(self.estimator, name) for name in BOOSTERS)

    @property
    def own_features(self) -> list[str] | None:
        """The columns that it was fitted on, if they had names; one may be the label."""
        names = getattr(self.estimator, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def _rule(self, labels: Labels, column: str, positive: str | None) -> LabelRule:
        """Which label is positive; of an estimator's classes, whether DATA has both or not."""
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
        rule = choose({one: counts[one] for one in classes}, column, positive)
        if rule.why in (RARER, LATER) and len(counts) < len(classes):
            raise DataError(
                f"every label is {listed(counts, 1)}, so none is the rarer of the classes "
                f"{listed(classes, 5)}; name the positive label with --positive.",
                column=column,
            )
        return rule

    def _classes(self) -> list[Value] | None:
        """Its classes, as labels are read from files: texts or floating-point numbers."""
        classes = classes_of(self.estimator)
        if classes is None:
            return None
        return [one.strip() if isinstance(one, str) else float(one) for one in classes]

    def positive_class(self, rule: LabelRule) -> Any:
        """The estimator's own class that the positive label is; None if it names it otherwise."""
        own, classes = classes_of(self.estimator), self._classes()
        if own is None or classes is None or rule.positive not in classes:
            return None
        return own[classes.index(rule.positive)]

    def _scores(self, rows: Matrix, rule: LabelRule | None) -> Array:
        positive = None if rule is None else self.positive_class(rule)
        with _unnamed_rows_allowed(), _explained(self.name):
            scores = scores_of(self.estimator, rows, positive)
        require_finite_scores(scores)
        return scores


def as_rows(table: pa.Table, *, named: bool, coded: bool = False) -> Matrix:
    """A table as an estimator takes it: a data frame of pandas if names count, else a matrix.

    With `coded`, texts become categories.
    """
    if not named or find_spec("pandas") is None:
        columns = ((name, arrow.whole(table[name])) for name in table.column_names)
        return np.column_stack([arrow.as_floats(name, column) for name, column in columns])
    frame = table.to_pandas()
    if coded:
        texts = [field.name for field in table.schema if arrow.is_text(field.type)]
        frame = frame.astype(dict.fromkeys(texts, "category"))
    for name in frame.columns[frame.dtypes.map(lambda kind: kind.kind == "O")]:
        # None is what pyarrow puts into a gap, NaN what encoders were fitted to.
        frame[name] = frame[name].where(frame[name].notna(), np.nan)
    return frame


def require_finite_scores(scores: Array) -> None:
    """Refuse scores that have no place in a list."""
    finite = np.isfinite(scores)
    if not finite.all():
        raise DataError("has no finite score; mend its values.", row=int(np.argmin(finite)) + 1)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """What an estimator complains of, as a sentence."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # an estimator of anyone may raise anything
        said = next(iter(str(error).splitlines()), "")  # engines add where in their own code
        raise ModelError(
            f"{name} cannot score these rows: {type(error).__name__}: {said}"
        ) from None


@contextmanager
def _unnamed_rows_allowed() -> Iterator[None]:
    """Without pandas rows have no names, and columns are in the order of the fit all the same."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", NO_NAMES, UserWarning)
        yield
