"""A fitted pipeline together with the record about its fit."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline

from toppush.explain.reasons import Explanation, Pair, explain, explain_pair
from toppush.modeltypes import model_type_of
from toppush.modeltypes.base import About, ModelType, RankerLike
from toppush.modeltypes.linear_score import LinearScore, fold, larger
from toppush.system.errors import ModelError
from toppush.system.reading import DataError
from toppush.tables.column_types import Category, Column, Counts, Date, Text
from toppush.tables.columns import Columns, sizes_named
from toppush.tables.labels import NAMED, LabelRule
from toppush.tables.rows import Needs
from toppush.thresholds.calibration import ScoreScale
from toppush.thresholds.probabilities import Calibration
from toppush.types import Array, Matrix

UNSCALED = (
    "No percentile scores{more}: the model was fitted on a cluster or made from a pipeline; fit it "
    "again with `toppush fit` to have them."
)


@dataclass
class Model:
    """A fitted pipeline with its label, its training summary and its certificate.

    Parameters
    ----------
    pipeline : sklearn Pipeline
        Its last step is a fitted ranker, such as `TopPush`.
    about : dict
        The record about the fit: "label", "data", "fit", "certificate", "versions" and so on, as
        JSON can hold it.

    Examples
    --------
    >>> from sklearn.pipeline import Pipeline
    >>> from sklearn.datasets import load_breast_cancer
    >>> from toppush import TopPush, files
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> pipeline = Pipeline([("ranker", TopPush(0.01).fit(X, y))])
    >>> files.Model(pipeline).decision_function(X).shape
    (569,)
    """

    pipeline: Pipeline
    about: About = field(default_factory=dict)
    is_base_model: bool = False
    """Whether it is exported as a base model of another."""

    @property
    def ranker(self) -> RankerLike:
        """The last step."""
        return self.pipeline[-1]  # type: ignore[no-any-return]

    @property
    def model_type(self) -> ModelType:
        """The model type of the ranker."""
        model_type = model_type_of(self.ranker)
        if model_type is None:
            raise ModelError(f"a model ends with a ranker of toppush, and not {self.ranker!r}.")
        return model_type

    @cached_property
    def linear(self) -> LinearScore | None:
        """The pipeline as one linear score, if it is linear in the values."""
        return fold(self.pipeline.steps)

    @property
    def positive_class_(self) -> Any:
        """The label that is ranked first."""
        return self.label.positive if "label" in self.about else self.ranker.classes_.tolist()[1]

    @property
    def columns(self) -> Columns | None:
        """How a table is read, or None if rows are a matrix."""
        first = self.pipeline[0]
        return first if isinstance(first, Columns) else None

    @property
    def first(self) -> int:
        """Number of a matrix's first column in its file."""
        return int(self.about.get("layout", {}).get("first", 0))

    @property
    def numbered(self) -> list[str]:
        """Names of the columns of a matrix, by their numbers in the file."""
        return [f"number {self.first + place}" for place in range(self.pipeline.n_features_in_)]

    def base_model(self, ranker: RankerLike) -> "Model":
        """The model with a base model in place of its ranker, for an export."""
        return Model(Pipeline([*self.pipeline.steps[:-1], ("ranker", ranker)]), is_base_model=True)

    @property
    def label(self) -> LabelRule:
        """Which label is the positive one."""
        if "label" not in self.about:
            raise ModelError("the model does not say which label is positive.")
        known = self.about["label"]
        why = known.get("why", NAMED)
        return LabelRule(known["column"], known["positive"], tuple(known["others"]), why)

    @cached_property
    def scale(self) -> ScoreScale | None:
        """Percentiles and probabilities of scores, or None if the model was made without."""
        known = self.about.get("scores")
        if known is None:
            return None
        try:
            return ScoreScale.from_json(known)
        except (AttributeError, TypeError, ValueError) as error:
            raise ModelError(f"what it says of its scores cannot be read: {error}") from None

    def percentile(self, scores: ArrayLike) -> Array | None:
        """Percentile scores, 0 to 100: percent of the training rows that score lower.

        None if the model does not know, as `scale_text` says.
        """
        return None if self.scale is None else self.scale.percentile(scores)

    def probability(self, scores: ArrayLike) -> Array | None:
        """Calibrated probabilities: the expected precision at such scores.

        None if the model does not know, as `scale_text` says.
        """
        return None if self.calibration is None else self.calibration.probability(scores)

    @property
    def calibration(self) -> Calibration | None:
        """Probabilities of scores: of the ranker if it has some, else learned by `fit`."""
        learned = None if self.scale is None else self.scale.calibration
        calibration: Calibration | None = getattr(self.ranker, "calibration_", learned)
        return calibration

    @property
    def scale_text(self) -> str:
        """Why there are no percentile scores or no probabilities; empty if there are."""
        if self.scale is None:
            more = " and no calibrated probabilities" if self.calibration is None else ""
            return UNSCALED.format(more=more)
        return "" if self.calibration is not None else self.scale.why

    def decision_function(self, rows: Matrix, counts: Counts | None = None) -> Array:
        """Scores of rows: a table, record batch or data frame, or a matrix as it was fitted on.

        The ranker's `predict` gives the positive class for scores above 0. Missing values and
        unknown categories are added to `counts`. Linear models take one pass over the values.
        """
        counts = Counts() if counts is None else counts
        try:
            with sizes_named(self.columns, self.first):
                scores = self._scores(rows, counts)
        except (ArithmeticError, AttributeError, LookupError) as error:
            # Steps that cannot be tried when a file is opened may hold anything.
            raise ModelError(f"its steps cannot score these rows ({error!r}).") from error
        finite = np.isfinite(scores)
        if not finite.all():
            row = int(np.argmin(finite)) + 1
            raise DataError("has no finite score; correct its values.", row=row)
        return scores

    def _scores(self, rows: Matrix, counts: Counts) -> Array:
        if self.columns is not None and _is_batch(rows):
            if self.linear is not None:
                return self.linear(rows, counts)
            prepared = self.columns.matrix(rows, counts)
            return self.pipeline[1:].decision_function(prepared)  # type: ignore[no-any-return]
        self.count_unusual(rows, counts)
        if self.columns is None and self.linear is not None:
            return self.linear(rows, counts)
        return self.pipeline.decision_function(rows)  # type: ignore[no-any-return]

    def count_unusual(self, rows: Matrix, counts: Counts) -> None:
        """Add missing values, unknown categories and columns of far larger values to `counts`."""
        if self.columns is not None and _is_batch(rows):
            self.columns.read(rows, counts)
        elif self.columns is None:
            for column, ratio in larger(self.pipeline.steps, rows):
                counts.note_larger(f"number {column + self.first}", ratio)

    def explain(
        self, rows: Matrix, n_columns: int = 3, *, against: Matrix = None
    ) -> list[Explanation]:
        """Why each row has its place in the ranking of these rows.

        Parameters
        ----------
        rows : table, record batch or data frame, or a matrix as it was fitted on
        n_columns : int, default=3
            How many columns are named at most.
        against : rows, optional
            Rows whose mean is the reference; by default the highest-ranked negatives of the
            training rows, which `fit` has learned.

        Returns
        -------
        list of Explanation
            In the order of the rows.
        """
        against = None if against is None else _sliceable(against)
        return explain(
            self.pipeline, _sliceable(rows), n_columns, against=against, names=self.numbered
        )

    def explain_pair(self, x: Matrix, y: Matrix, n_columns: int = 3) -> Pair:
        """Why the row x ranks above the row y.

        Parameters
        ----------
        x, y : tables or matrices of one row
        n_columns : int, default=3

        Returns
        -------
        Pair
        """
        pair = _sliceable(x), _sliceable(y)
        return explain_pair(self.pipeline, *pair, n_columns, names=self.numbered)

    def needs(
        self,
        *,
        labels: bool = False,
        label: str | None = None,
        carry: tuple[str, ...] = (),
        numbers: tuple[str, ...] = (),
    ) -> Needs:
        """What to read of a file that is scored, with labels if they are wanted."""
        columns = self.columns.columns_ if self.columns else []
        schema = {column.source: read_as(column) for column in columns}
        wanted = (label or self.label.column, self.label.type) if labels else None
        return Needs(schema, self.about.get("layout", {}), wanted, carry, numbers)


def read_as(column: Column) -> pa.DataType:
    """The type that a column is read as from files without types."""
    if isinstance(column, Category | Text | Date) or column.format is not None:
        return pa.string()
    return pa.bool_() if column.boolean else pa.float64()


def _is_batch(rows: Matrix) -> bool:
    return isinstance(rows, pa.RecordBatch)


def _sliceable(rows: Matrix) -> Matrix:
    """Rows that can be indexed."""
    return pa.Table.from_batches([rows]) if _is_batch(rows) else rows
