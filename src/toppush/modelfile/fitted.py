"""A fitted pipeline together with what is known of it."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline

from toppush.explain.reasons import Explanation, Pair, explain, explain_pair
from toppush.export.linear import LinearScore, fold, larger, largest
from toppush.modeltypes import kind_of
from toppush.modeltypes.base import About, Kind, Ranker
from toppush.system.errors import ModelError
from toppush.system.reading import DataError
from toppush.tables.column_types import Category, Column, Counts, Date
from toppush.tables.columns import Columns, sizes_named
from toppush.tables.labels import NAMED, LabelRule
from toppush.tables.rows import Needs
from toppush.thresholds.calibration import ScoreScale
from toppush.types import Array, Matrix

UNSCALED = (
    "No percentile scores and no calibrated probabilities: the model was fitted on a cluster or "
    "made from a pipeline; fit it again with `toppush fit` to have them."
)


@dataclass
class Model:
    """A fitted pipeline with its label, its training summary and its certificate.

    Parameters
    ----------
    pipeline : sklearn Pipeline
        Its last step is a fitted ranker, such as `TopPush`.
    about : dict
        What is known of the fit: "label", "data", "fit", "certificate", "versions" and so on;
        what JSON can hold.

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

    @property
    def ranker(self) -> Ranker:
        """The last step."""
        return self.pipeline[-1]  # type: ignore[no-any-return]

    @property
    def kind(self) -> Kind:
        """What kind of model it is."""
        found = kind_of(self.ranker)
        if found is None:
            raise ModelError(f"a model ends with a ranker of toppush, and not {self.ranker!r}.")
        return found

    @cached_property
    def linear(self) -> LinearScore | None:
        """The pipeline as one linear score, if it is one."""
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
    def is_member(self) -> bool:
        """Whether it is one of several that make a model, for an export."""
        return bool(self.about.get("is_member"))

    def member(self, ranker: Ranker) -> "Model":
        """The model with another ranker in the place of the last step, for an export."""
        return Model(Pipeline([*self.pipeline.steps[:-1], ("ranker", ranker)]), {"is_member": True})

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
        """What scores mean, or None if the model was made without."""
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
        """Calibrated probabilities: the share of positives to expect at such scores.

        None if the model does not know, as `scale_text` says.
        """
        return None if self.scale is None else self.scale.probability(scores)

    @property
    def scale_text(self) -> str:
        """Why there are no percentile scores or no probabilities; empty if there are."""
        return UNSCALED if self.scale is None else self.scale.why

    def decision_function(self, rows: Matrix, counts: Counts | None = None) -> Array:
        """Scores of rows: a table, record batch or data frame, or a matrix as it was fitted on.

        Only the order counts; a score above 0 exceeds that of the top training negatives and is
        not a decision. Missing values and unknown categories are added to `counts`. Linear models
        take one pass over the values.
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
            raise DataError("has no finite score; mend its values.", row=int(np.argmin(finite)) + 1)
        return scores

    def _scores(self, rows: Matrix, counts: Counts) -> Array:
        if self.columns is not None and _is_batch(rows):
            return self._of_table(self.columns, rows, counts)
        self.look(rows, counts)
        if self.columns is None and self.linear is not None:
            return self.linear(rows, counts)
        return self.pipeline.decision_function(rows)  # type: ignore[no-any-return]

    def _of_table(self, columns: Columns, batch: pa.RecordBatch, counts: Counts) -> Array:
        """Scores of a batch, whose values are read once."""
        if self.linear is not None:
            return self.linear(batch, counts)
        rows = columns.matrix(batch, counts)
        return self.pipeline[1:].decision_function(rows)  # type: ignore[no-any-return]

    def look(self, rows: Matrix, counts: Counts) -> None:
        """Add gaps, unknown texts and columns far larger than in training to `counts`."""
        if self.columns is not None and _is_batch(rows):
            self.columns.read(rows, counts)
        elif self.columns is None and (known := largest(self.pipeline.steps)) is not None:
            for column, ratio in larger(rows, known):
                counts.note_larger(f"number {column + self.first}", ratio)

    def explain(
        self, rows: Matrix, n_columns: int = 3, *, against: Matrix = None
    ) -> list[Explanation]:
        """Why each row stands where it does in the list of these rows.

        Parameters
        ----------
        rows : table, record batch or data frame, or a matrix as it was fitted on
        n_columns : int, default=3
            How many columns are named at most.
        against : rows, optional
            What rows are compared with in the mean; by default the highest-ranked negatives of the
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
        """Why the row x stands above the row y.

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

    @property
    def numbered(self) -> list[str]:
        """What the columns of a matrix are called, by their numbers in the file."""
        return [f"number {self.first + place}" for place in range(self.pipeline.n_features_in_)]

    @property
    def first(self) -> int:
        """Number of a matrix's first column in its file."""
        return int(self.about.get("layout", {}).get("first", 0))

    def needs(
        self,
        *,
        labels: bool = False,
        label: str | None = None,
        carry: tuple[str, ...] = (),
        numbers: tuple[str, ...] = (),
    ) -> Needs:
        """What a file must give to be scored, with labels if they are wanted."""
        known = self.columns.columns_ if self.columns else []
        schema = {one.source: read_as(one) for one in known}
        wanted = (label or self.label.column, self.label.type) if labels else None
        return Needs(schema, self.about.get("layout", {}), wanted, carry, numbers)


def _sliceable(rows: Matrix) -> Matrix:
    """Rows of which some can be taken."""
    return pa.Table.from_batches([rows]) if _is_batch(rows) else rows


def read_as(column: Column) -> pa.DataType:
    """What the values of a column are in a file that does not say."""
    if isinstance(column, Category | Date) or column.format is not None:
        return pa.string()
    return pa.bool_() if column.boolean else pa.float64()


def _is_batch(rows: Matrix) -> bool:
    return isinstance(rows, pa.RecordBatch)
