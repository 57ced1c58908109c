"""What a linear score is made of: weights, and what each feature adds to a row's score.

A feature adds w_j (x_j - mean_j) to the score of a row, relative to the mean row; over all
features that sums to the row's score less the score of the mean row.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from toppush.losses import Array

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
    """

    names: Sequence[str]
    weights: Array
    mean: Array
    spread: Array
    rows: Mapping[int, Array]

    def __post_init__(self) -> None:
        sizes = {len(self.names), len(self.weights), len(self.mean), len(self.spread)}
        sizes |= {len(row) for row in self.rows.values()}
        if len(sizes) > 1:
            raise ValueError(
                f"names, weights, mean, spread and rows have lengths {sorted(sizes)}; "
                "each needs one entry per feature."
            )

    @classmethod
    def of(
        cls,
        X: Any,
        weights: ArrayLike,
        names: Sequence[str] | None = None,
        *,
        rows: Iterable[int],
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
        """
        from sklearn.preprocessing import StandardScaler
        from sklearn.utils import check_array

        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        usual = StandardScaler(with_mean=False).fit(X)
        if names is None:
            names = [f"feature {number}" for number in range(1, X.shape[1] + 1)]
        values = {int(row): _row(X, int(row)) for row in rows}
        return cls(names, np.ravel(weights), usual.mean_, np.sqrt(usual.var_), values)

    def contributions(self, row: int) -> Array:
        """What each feature adds to the score of a row, relative to the mean row."""
        return np.asarray(self.weights * (self.rows[row] - self.mean))

    def influence(self) -> Array:
        """|w_j| times the spread of feature j: how far it moves scores apart."""
        return np.asarray(np.abs(self.weights) * self.spread)


def _row(X: Any, row: int) -> Array:
    one = X[[row]]
    dense = one.toarray() if hasattr(one, "toarray") else one
    return np.asarray(dense[0], np.float64)


@dataclass(frozen=True)
class Part:
    """One feature's part in a score."""

    name: str
    value: float | None
    amount: float


def largest_parts(features: Features, row: int, limit: int) -> list[Part]:
    """The features that add most to or take most from a row's score."""
    amounts = features.contributions(row)
    return [
        Part(_name(features, j), float(features.rows[row][j]), float(amounts[j]))
        for j in _largest(np.abs(amounts), limit)
    ]


def mean_parts(features: Features, rows: Sequence[int], limit: int) -> list[Part]:
    """The same on average over some rows."""
    amounts = np.mean([features.contributions(row) for row in rows], axis=0)
    return [
        Part(_name(features, j), None, float(amounts[j])) for j in _largest(np.abs(amounts), limit)
    ]


def _largest(sizes: Array, limit: int) -> Any:
    """Where the largest entries that are not zero are, greatest first."""
    chosen = np.argsort(-sizes, kind="stable")[:limit]
    return chosen[sizes[chosen] > 0]


def _name(features: Features, j: int) -> str:
    """The name of a feature; one that had to be cut stays apart from others cut like it."""
    name = str(features.names[j])
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
    return [
        Weight(
            _name(features, j),
            float(features.weights[j]),
            float(features.mean[j]),
            float(features.spread[j]),
            float(influence[j]),
        )
        for j in _largest(influence, limit)
    ]
