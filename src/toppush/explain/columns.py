"""Contributions of the columns of a table, where the last step of a pipeline sees features.

A column may become several features, as a string does, or a number with missing values; their
contributions are added and reported for the column. `sources` traces features to columns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils import _safe_indexing

from toppush.explain.contributions import REFERENCE_ROWS, evenly, in_parts, mean_contributions
from toppush.tables.text import Terms, shortened
from toppush.types import Array, Matrix, Where

OTHER = "(other)"
"""Name for the part of the scores that base models cannot attribute to columns."""
MOST_WORDS = 5
"""Words of free text that are named."""
WHOLE = 1e15
"""Up to which whole numbers are written without an exponent."""


class TextContributions(NamedTuple):
    """The terms of a column of free text, and what they add to the scores of rows."""

    terms: Terms
    amounts: Matrix
    """A row for each row, a column for each term."""

    def words(self, row: int, text: str, sign: int) -> str:
        """The words of a row that add most to its score, or with `sign` -1 take most from it."""
        added = self.terms.by_word(text, self.amounts[[row]])
        ordered = sorted(added, key=lambda word: -sign * added[word])
        most = max(map(abs, added.values()), default=0.0)
        named = [word for word in ordered[:MOST_WORDS] if sign * added[word] > 0.1 * most]
        return ", ".join(repr(shortened(word)) for word in named) or repr(shortened(text))


@dataclass(frozen=True, eq=False)
class ColumnContributions:
    """A fitted ranker or pipeline, the names of its columns, and the column of each feature.

    `owners` has the place in `names` of each feature of the pipeline's last step.
    """

    estimator: BaseEstimator
    names: Sequence[str]
    owners: Where

    @classmethod
    def of(cls, estimator: BaseEstimator, names: Sequence[str] | None = None) -> Self:
        """For a fitted ranker or pipeline; `names` is used where the rows have no names."""
        estimator = getattr(estimator, "best_estimator_", estimator)
        before, final = parted(estimator)
        if not hasattr(final, "contributions"):
            raise ValueError(
                f"{type(final).__name__} has no contributions of columns; "
                "toppush.explain.contributions.shapley computes them for any score."
            )
        first = final if before is None else before
        width = int(first.n_features_in_)
        made_of = list(range(width)) if before is None else sources(before, width)
        if made_of is None:
            steps = " → ".join(type(step).__name__ for step in estimator[:-1])
            raise ValueError(
                f"the columns of the features after {steps} are not known; explain rankers that "
                "see single columns."
            )
        called = getattr(first, "feature_names_in_", names)
        if called is None:
            called = [f"x{place}" for place in range(width)]
        return cls(estimator, [str(name) for name in called], np.asarray(made_of))

    @classmethod
    def explains(cls, estimator: BaseEstimator, width: int) -> bool:
        """Whether a fitted ranker's scores are sums of contributions of `width` columns."""
        try:
            columns = cls.of(estimator)
        except ValueError:
            return False
        return len(columns.names) == width == len(columns.all_names)

    @property
    def all_names(self) -> list[str]:
        """The columns, and `OTHER` if a part of the scores cannot be attributed to them."""
        return [*self.names, *[OTHER] * bool(getattr(self.final, "unexplained_", None))]

    @property
    def final(self) -> Any:
        """The ranker."""
        return parted(self.estimator)[1]

    def prepared(self, X: Matrix) -> Matrix:
        """Rows as the ranker sees them."""
        before, _ = parted(self.estimator)
        return X if before is None else before.transform(X)

    def contributions(self, X: Matrix) -> Array:
        """Contribution of each column to the scores of rows, then the rest."""
        return self.summed(self.of_features(X))

    def of_features(self, X: Matrix) -> Array:
        """Contribution of each feature of the ranker to the scores of rows, then the rest."""
        return np.asarray(self.final.contributions(self.prepared(X)))

    def of_terms(self, X: Matrix, amounts: Array) -> dict[int, TextContributions]:
        """Place of each column of free text -> contributions of its terms to the scores of rows.

        `amounts` are those of the features.
        """
        before, final = parted(self.estimator)
        if before is None:
            texts = getattr(final, "text_terms_", {})
            by_text = final.text_contributions(X) if texts else {}
            return {place: TextContributions(texts[place], by_text[place]) for place in texts}
        first = before[0]
        if not hasattr(first, "term_places"):
            return {}
        names = list(self.names)
        return {
            names.index(text.name): TextContributions(
                text.terms, sparse.csr_array(amounts[:, places])
            )
            for text, places in zip(first.texts, first.term_places(), strict=True)
        }

    @property
    def own_reference(self) -> Array | None:
        """Contributions of the ranker's own reference, if it has one."""
        return self._own("reference_")

    @property
    def usual(self) -> Array | None:
        """Mean contributions over the training rows, if the ranker has them."""
        return self._own("usual_")

    def _own(self, name: str) -> Array | None:
        own = getattr(self.final, name, None)
        if own is None or np.shape(own) != (len(self.owners) + 1,):
            return None
        return np.asarray(self.summed(np.asarray(own)[None, :])[0])

    def mean(self, X: Matrix) -> Array:
        """Mean contributions over rows, or a sample where they are expensive."""
        most = getattr(self.final, "_n_explained", REFERENCE_ROWS)
        some = _safe_indexing(X, evenly(np.arange(X.shape[0]), most))
        mean = mean_contributions(self.final, self.prepared(some))
        return np.asarray(self.summed(mean[None, :])[0])

    def summed(self, amounts: Array) -> Array:
        """Contributions of columns from those of features; the last entry, the rest, stays."""
        if len(self.owners) == len(self.names) and (np.diff(self.owners) == 1).all():
            return amounts
        owner = (np.ones(len(self.owners)), (np.arange(len(self.owners)), self.owners))
        shape = (len(self.owners), len(self.names))
        of_columns = amounts[:, :-1] @ sparse.csr_array(owner, shape=shape)
        return np.column_stack([of_columns, amounts[:, -1]])

    def parts(self, n_rows: int) -> list[Where]:
        """Row numbers in batches that may be explained at once."""
        return list(in_parts(n_rows, len(self.owners)))


def parted(estimator: BaseEstimator) -> tuple[Pipeline | None, BaseEstimator]:
    """The steps before the ranker, or None, and the ranker."""
    if not isinstance(estimator, Pipeline):
        return None, estimator
    return (estimator[:-1] if len(estimator) > 1 else None), estimator[-1]


class Values:
    """The values of rows as strings; columns of tables are read when they are needed."""

    def __init__(
        self,
        X: Matrix,
        names: Sequence[str],
        of_terms: Mapping[int, TextContributions] | None = None,
    ) -> None:
        self._X, self._names, self._of_terms = X, names, of_terms or {}
        self._columns: dict[int, Any] = {}

    def __call__(self, row: int, column: int, sign: int = 1) -> str | None:
        """The value of a row in a column; None if it is missing, empty for `OTHER`.

        Of free text the words that add most to the score, or with `sign` -1 take most from it.
        """
        if column in self._of_terms:
            text = self._value(row, column)
            return text and self._of_terms[column].words(row, text, sign)
        return self._value(row, column)

    def _value(self, row: int, column: int) -> str | None:
        if column == len(self._names):
            return ""
        if not (hasattr(self._X, "column_names") or hasattr(self._X, "columns")):
            return as_string(self._X[row, column])
        if column not in self._columns:
            self._columns[column] = self._column(self._names[column])
        return as_string(self._columns[column][row])

    def _column(self, name: str) -> Any:
        if hasattr(self._X, "column_names"):  # of Arrow
            return self._X[name].to_pylist()
        names = [str(column) for column in self._X.columns]
        return np.asarray(_safe_indexing(self._X, names.index(name), axis=1), dtype=object)


def as_string(value: object) -> str | None:
    """A value as a user would type it; None if it is missing."""
    try:
        if value is None or value != value:
            return None
    except TypeError:  # pandas.NA
        return None
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    if isinstance(value, Real) and not isinstance(value, Integral):
        number = float(value)
        whole = number.is_integer() and abs(number) < WHOLE
        return f"{number:.0f}" if whole else f"{number:.6g}"
    return str(value)


def _divided(step: BaseEstimator) -> Array | float:
    return 1.0 if step.scale_ is None else 1.0 / step.scale_


FACTORS: dict[type, Callable[[BaseEstimator], Array | float]] = {
    MaxAbsScaler: _divided,
    StandardScaler: _divided,
    RobustScaler: _divided,
    MinMaxScaler: lambda step: step.scale_,
}
"""Steps that map x to a x - b feature by feature, and their a."""


def before_scaling(prepare: Pipeline | None, weights: Array) -> tuple[Pipeline | None, Array]:
    """The steps before the final scaling, and the weights of their features.

    w (a x - b) differs from (w a) x by a constant.
    """
    steps = list(prepare) if prepare is not None else []
    while steps and type(steps[-1]) in FACTORS and not getattr(steps[-1], "clip", False):
        step = steps.pop()
        weights = weights * FACTORS[type(step)](step)
    return (None if prepare is None or not steps else prepare[: len(steps)]), weights


def sources(step: BaseEstimator, width: int) -> list[int] | None:
    """Column, counted from 0, of each output of a step; None if it is not known."""
    if isinstance(step, Pipeline):
        columns: list[int] = list(range(width))
        for part in step:
            outputs = sources(part, len(columns))
            if outputs is None:
                return None
            columns = [columns[output] for output in outputs]
        return columns
    if isinstance(step, ColumnTransformer):
        return _of_transformers(step)
    if hasattr(step, "feature_sources"):
        return list(step.feature_sources())
    if isinstance(step, OneHotEncoder):
        return np.repeat(np.arange(width), _counts(step)).tolist()
    return list(range(width)) if _keeps_its_columns(step, width) else None


def _counts(step: OneHotEncoder) -> list[int]:
    """Number of features of each column: its categories, rare ones joined, less the dropped."""
    counts = [len(categories) for categories in step.categories_]
    for place, rare in enumerate(getattr(step, "infrequent_categories_", ())):
        counts[place] -= 0 if rare is None else len(rare) - 1
    for place, dropped in enumerate([] if step.drop_idx_ is None else step.drop_idx_):
        counts[place] -= dropped is not None
    return counts


def _of_transformers(step: ColumnTransformer) -> list[int] | None:
    outputs: dict[int, int] = {}
    for name, part, columns in step.transformers_:
        places = range(step.output_indices_[name].start, step.output_indices_[name].stop)
        if not places:
            continue
        inputs = _inputs(step, columns)
        made_of = None if inputs is None else sources(part, len(inputs))
        if inputs is None or made_of is None or len(made_of) != len(places):
            return None
        outputs |= {place: inputs[at] for place, at in zip(places, made_of, strict=True)}
    return [outputs[place] for place in range(len(outputs))]


def _inputs(step: ColumnTransformer, columns: Any) -> list[int] | None:
    """Places of the columns of a transformer, from numbers, flags, names or a slice."""
    if isinstance(columns, slice):
        if isinstance(columns.start, str) or isinstance(columns.stop, str):
            return None
    elif np.ravel(columns).dtype.kind in "UO":
        names = list(step.feature_names_in_)
        return [names.index(name) for name in np.ravel(columns)]
    places: list[int] = np.ravel(np.arange(step.n_features_in_)[columns]).tolist()
    return places


def _keeps_its_columns(step: BaseEstimator, width: int) -> bool:
    """Whether the outputs of a step have the names of its inputs."""
    if step == "passthrough":
        return True
    try:
        named = [str(name) for name in step.get_feature_names_out()]
    except (AttributeError, ValueError):  # a step without names
        return False
    given = getattr(step, "feature_names_in_", [f"x{place}" for place in range(width)])
    return named == [str(name) for name in given]
