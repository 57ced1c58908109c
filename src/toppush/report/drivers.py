"""What a linear score is made of: weights, and what each column adds to a row's score.

A feature adds w_j (x_j - mean_j) to the score of a row, relative to the mean row; over all
features that sums to the row's score less the score of the mean row. What the features of one
column add is told of the column, with the value that the row has there: a text is not told by the
texts that it is not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from toppush.explain.reasons import where_largest
from toppush.matrices import dense
from toppush.types import Array, Matrix

MAX_NAME = 60


@dataclass(frozen=True, eq=False)
class Features:
    """A linear score's weights, the usual values of its features, and some rows.

    Attributes
    ----------
    names : sequence of str
    weights, mean, spread : array of shape (n_features,)
        Weights, and mean and standard deviation of the features over the rows of the report.
    rows : mapping from row number to array of shape (n_features,)
        Values of the rows whose scores are to be explained.
    columns : sequence of str, optional
        The column that each feature is made of; by default each is its own.
    given : mapping from row number to mapping, optional
        Values of the columns in these rows, where they are not the features themselves.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.report import Features
    >>> X = np.array([[1.0, 0.0], [3.0, 4.0]])
    >>> weights = np.array([0.5, -1.0])
    >>> features = Features(["age", "amount"], weights, X.mean(0), X.std(0), {0: X[0]})
    >>> features.influence()
    array([0.5, 2. ])
    """

    names: Sequence[str]
    weights: Array
    mean: Array
    spread: Array
    rows: Mapping[int, Array]
    columns: Sequence[str] | None = None
    given: Mapping[int, Mapping[str, object]] | None = None
    told: str = (
        "The score is a weighted sum, so each column adds a known amount to it: its weight times "
        "how far the row is from the mean row. Values are those of the data, before scaling."
    )

    def __post_init__(self) -> None:
        sizes = {len(self.names), len(self.weights), len(self.mean), len(self.spread)}
        sizes |= {len(row) for row in self.rows.values()}
        sizes |= set() if self.columns is None else {len(self.columns)}
        if len(sizes) > 1:
            raise ValueError(
                f"names, weights, mean, spread, rows and columns have lengths {sorted(sizes)}; "
                "each needs one entry per feature."
            )

    @classmethod
    def of(
        cls,
        X: Matrix,
        weights: ArrayLike,
        names: Sequence[str] | None = None,
        *,
        rows: Iterable[int],
        columns: Sequence[str] | None = None,
        given: Mapping[int, Mapping[str, object]] | None = None,
    ) -> "Features":
        """Read the means, the spreads and some rows off a matrix, dense or sparse.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
        weights : array of shape (n_features,)
        names : sequence of str, optional
            By default "feature 1", "feature 2", ...
        rows : iterable of int
            Rows to explain, see `first_false_alarms`.
        columns, given
            As the attributes.
        """
        from sklearn.preprocessing import StandardScaler
        from sklearn.utils import check_array

        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        usual = StandardScaler(with_mean=False).fit(X)
        if names is None:
            names = numbered(X.shape[1])
        values = {int(row): dense(X[[int(row)]])[0].astype(np.float64) for row in rows}
        moments = usual.mean_, np.sqrt(usual.var_)
        return cls(names, np.ravel(weights), *moments, values, columns, given)

    def contributions(self, row: int) -> Array:
        """What each feature adds to the score of a row, relative to the mean row."""
        return np.asarray(self.weights * (self.rows[row] - self.mean))

    def value(self, row: int, feature: int) -> object:
        """What a row holds in the column of a feature."""
        if self.given is None or self.columns is None:
            return float(self.rows[row][feature])
        return self.given[row][self.columns[feature]]

    def influence(self) -> Array:
        """``|w_j|`` times the spread of feature j: how far it moves scores apart."""
        return np.asarray(np.abs(self.weights) * self.spread)


def numbered(count: int) -> list[str]:
    """Names of features that have none."""
    return [f"feature {number}" for number in range(1, count + 1)]


@dataclass(frozen=True)
class Contribution:
    """One column's part in a score."""

    name: str
    value: object
    """The row's value there; None for the mean of several rows."""
    amount: float


class Explains(Protocol):
    """What can tell what is added to the scores of some rows, by feature."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def columns(self) -> Sequence[str] | None: ...
    @property
    def rows(self) -> Mapping[int, Array]: ...
    @property
    def told(self) -> str: ...

    def contributions(self, row: int) -> Array: ...
    def value(self, row: int, feature: int) -> object: ...


def largest_contributions(features: Explains, limit: int, *rows: int) -> list[Contribution]:
    """The columns that add most to or take most from a row's score, or the mean of several."""
    owned = features.columns or range(len(features.names))
    _, first, owner = np.unique(np.asarray(owned), return_index=True, return_inverse=True)
    amounts = np.mean([features.contributions(row) for row in rows], axis=0)
    total = np.bincount(owner, amounts)
    names = features.columns or features.names
    return [
        Contribution(
            name_of(names, first[at]),
            features.value(rows[0], first[at]) if len(rows) == 1 else None,
            float(total[at]),
        )
        for at in where_largest(np.abs(total), limit)
    ]


def name_of(names: Sequence[str], j: int) -> str:
    """One of the names; one that had to be cut stays apart from others cut like it."""
    name = str(names[j])
    return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}… (feature {j + 1})"


@dataclass(frozen=True)
class Weight:
    """A feature's weight and how far it moves scores apart."""

    name: str
    weight: float
    mean: float
    spread: float
    influence: float


def largest_weights(features: Features, limit: int) -> list[Weight]:
    """The features with the greatest influence."""
    influence = features.influence()
    numbers = np.stack([features.weights, features.mean, features.spread, influence], axis=1)
    largest = where_largest(influence, limit)
    return [Weight(name_of(features.names, j), *numbers[j].tolist()) for j in largest]
