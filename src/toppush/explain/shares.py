"""What the columns of a table add to scores, where the last step of a pipeline sees features.

A column may become several features, as a text does, or a number with gaps; what these add is
summed, and told of the column with the value that the row has there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from toppush.explain.contributions import REFERENCE_ROWS, evenly, in_parts, mean_contributions
from toppush.explain.sources import sources
from toppush.types import Array, Matrix, Where

OTHER = "(other)"
"""Name for the part of the scores that base models cannot attribute to columns."""
WHOLE = 1e15
"""Up to which whole numbers are written without an exponent."""


@dataclass(frozen=True, eq=False)
class ColumnShares:
    """A fitted ranker or pipeline, and which column each feature of its last step is made of.

    Attributes
    ----------
    estimator : fitted ranker, or pipeline that ends with one
    names : sequence of str
        Of the columns.
    owners : array of int
        The column, by its place in `names`, of each feature.
    """

    estimator: BaseEstimator
    names: Sequence[str]
    owners: Where

    @classmethod
    def of(cls, estimator: BaseEstimator, names: Sequence[str] | None = None) -> Self:
        """Those of a fitted ranker or pipeline; `names` where the rows have none of their own."""
        estimator = getattr(estimator, "best_estimator_", estimator)
        before, final = parted(estimator)
        if not hasattr(final, "contributions"):
            raise ValueError(
                f"{type(final).__name__} does not tell what columns add to its scores; see "
                "toppush.explain.contributions.shapley, which finds it for any score."
            )
        first = final if before is None else before
        width = int(first.n_features_in_)
        made_of = list(range(width)) if before is None else sources(before, width)
        if made_of is None:
            steps = " → ".join(type(step).__name__ for step in estimator[:-1])
            raise ValueError(
                f"nobody can tell which columns the features after {steps} are made of; explain "
                "rankers that see columns, each by itself."
            )
        called = getattr(first, "feature_names_in_", names)
        if called is None:
            called = [f"x{place}" for place in range(width)]
        return cls(estimator, [str(name) for name in called], np.asarray(made_of))

    @classmethod
    def explains(cls, estimator: BaseEstimator, width: int) -> bool:
        """Whether a fitted ranker's scores are sums of contributions of `width` columns."""
        try:
            found = cls.of(estimator)
        except ValueError:
            return False
        return len(found.names) == width == len(found.all_names)

    @property
    def all_names(self) -> list[str]:
        """The columns, and `OTHER` if a part of the scores cannot be attributed to them."""
        return [*self.names, *[OTHER] * bool(getattr(self.final, "unexplained_", None))]

    @property
    def final(self) -> Any:
        """The ranker."""
        return parted(self.estimator)[1]

    def prepared(self, X: Matrix) -> Matrix:
        """Rows as the ranker takes them."""
        before, _ = parted(self.estimator)
        return X if before is None else before.transform(X)

    def contributions(self, X: Matrix) -> Array:
        """What each column adds to the scores of rows, and the rest after them."""
        return self.summed(self.final.contributions(self.prepared(X)))

    @property
    def own_reference(self) -> Array | None:
        """What columns add for the ranker's own reference, if it has one."""
        return self._own("reference_")

    @property
    def usual(self) -> Array | None:
        """What columns add in the mean over the training rows, if the ranker knows."""
        return self._own("usual_")

    def _own(self, name: str) -> Array | None:
        own = getattr(self.final, name, None)
        if own is None or np.shape(own) != (len(self.owners) + 1,):
            return None
        return np.asarray(self.summed(np.asarray(own)[None, :])[0])

    def mean(self, X: Matrix) -> Array:
        """What columns add in the mean over rows, or some of them where it costs much."""
        most = getattr(self.final, "_n_explained", REFERENCE_ROWS)
        some = _safe_indexing(X, evenly(np.arange(X.shape[0]), most))
        found = mean_contributions(self.final, self.prepared(some))
        return np.asarray(self.summed(found[None, :])[0])

    def summed(self, amounts: Array) -> Array:
        """What columns add, from what features do; the last entry, the rest, stays."""
        if len(self.owners) == len(self.names) and (np.diff(self.owners) == 1).all():
            return amounts
        share = (np.ones(len(self.owners)), (np.arange(len(self.owners)), self.owners))
        shape = (len(self.owners), len(self.names))
        return np.column_stack(
            [amounts[:, :-1] @ sparse.csr_array(share, shape=shape), amounts[:, -1]]
        )

    def parts(self, n_rows: int) -> list[Where]:
        """Numbers of rows, as many at a time as may be explained at once."""
        return list(in_parts(n_rows, len(self.owners)))


def parted(estimator: BaseEstimator) -> tuple[Pipeline | None, BaseEstimator]:
    """The steps before the ranker, if there are any, and the ranker."""
    if not isinstance(estimator, Pipeline):
        return None, estimator
    return (estimator[:-1] if len(estimator) > 1 else None), estimator[-1]


class Values:
    """What rows hold, as text."""

    def __init__(self, X: Matrix, names: Sequence[str]) -> None:
        self._X, self._names = X, names
        self._columns: dict[int, Any] = {}

    @cached_property
    def _is_table(self) -> bool:
        return hasattr(self._X, "column_names") or hasattr(self._X, "columns")

    def __call__(self, row: int, column: int) -> str | None:
        """The value of a row in a column; None if it is missing, and no text for `OTHER`."""
        if column == len(self._names):
            return ""
        if not self._is_table:
            return as_text(self._X[row, column])
        if column not in self._columns:
            self._columns[column] = self._column(self._names[column])
        return as_text(self._columns[column][row])

    def _column(self, name: str) -> Any:
        if hasattr(self._X, "column_names"):  # of Arrow
            return self._X[name].to_pylist()
        names = [str(one) for one in self._X.columns]
        return np.asarray(_safe_indexing(self._X, names.index(name), axis=1), dtype=object)


def as_text(value: object) -> str | None:
    """A value as one would type it; None for a gap."""
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
