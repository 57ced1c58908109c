"""What columns add to scores: weights of a linear score, contributions of other models, reasons.

A feature adds w_j (x_j - mean_j) to the score of a row, relative to the mean row; over all features
that sums to the row's score minus the score of the mean row. Contributions of the features made
from one column are added up and shown with the column's value in that row.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing

from toppush.explain.columns import ColumnContributions
from toppush.explain.contributions import highest_negatives
from toppush.explain.reasons import NEGLIGIBLE, Explainer, Explanation, where_largest
from toppush.matrices import dense
from toppush.report.ranking import Ranking
from toppush.types import Array, Matrix, Where

MAX_NAME = 60
N_CURVES, N_CATEGORIES = 6, 20
SAMPLED = 2000
"""Rows over which the mean size of contributions is taken."""
N_REASON_ROWS, N_BARS = 10, 4


@dataclass(frozen=True, eq=False)
class Features:
    """A linear score's weights, the means of its features, and some rows.

    Attributes
    ----------
    names : sequence of str
    weights, mean, std : array of shape (n_features,)
        Weights, and mean and standard deviation of the features over the rows of the report.
    rows : mapping from row number to array of shape (n_features,)
        Values of the rows whose scores are to be explained.
    columns : sequence of str, optional
        The column that each feature is made from; by default each is its own.
    values : mapping from row number to mapping, optional
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
    std: Array
    rows: Mapping[int, Array]
    columns: Sequence[str] | None = None
    values: Mapping[int, Mapping[str, object]] | None = None
    note: str = (
        "The score is a weighted sum, so each column adds a known amount to it: its weight times "
        "the difference from the mean row. Values are those of the data, before scaling."
    )

    def __post_init__(self) -> None:
        sizes = {len(self.names), len(self.weights), len(self.mean), len(self.std)}
        sizes |= {len(row) for row in self.rows.values()}
        sizes |= set() if self.columns is None else {len(self.columns)}
        if len(sizes) > 1:
            raise ValueError(
                f"names, weights, mean, std, rows and columns have lengths {sorted(sizes)}; "
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
        values: Mapping[int, Mapping[str, object]] | None = None,
    ) -> "Features":
        """Compute means and standard deviations of a matrix, dense or sparse, and copy some rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
        weights : array of shape (n_features,)
        names : sequence of str, optional
            By default "feature 1", "feature 2", ...
        rows : iterable of int
            Rows to explain, see `first_false_alarms`.
        columns, values
            As the attributes.
        """
        from sklearn.preprocessing import StandardScaler
        from sklearn.utils import check_array

        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        scaler = StandardScaler(with_mean=False).fit(X)
        if names is None:
            names = numbered(X.shape[1])
        kept = {int(row): dense(X[[int(row)]])[0].astype(np.float64) for row in rows}
        moments = scaler.mean_, np.sqrt(scaler.var_)
        return cls(names, np.ravel(weights), *moments, kept, columns, values)

    def contributions(self, row: int) -> Array:
        """What each feature adds to the score of a row, relative to the mean row."""
        return np.asarray(self.weights * (self.rows[row] - self.mean))

    def value(self, row: int, feature: int) -> object:
        """The value of a row in the column of a feature."""
        if self.values is None or self.columns is None:
            return float(self.rows[row][feature])
        return self.values[row][self.columns[feature]]

    def influence(self) -> Array:
        """``|w_j|`` times the standard deviation of feature j."""
        return np.asarray(np.abs(self.weights) * self.std)


@dataclass(frozen=True)
class ColumnCurve:
    """The contribution of a column as a function of its value."""

    name: str
    values: Sequence[float] | Sequence[str]
    """Numbers in increasing order, or categories."""
    amounts: Sequence[float]
    missing: float | None = None
    """Contribution of a missing value."""


@dataclass(frozen=True, eq=False)
class Explained:
    """Contributions of columns to the scores of some rows, from a model's `contributions(X)`.

    Attributes
    ----------
    names : sequence of str
        The columns.
    rows : mapping from row number to array of shape (n_columns,)
        What each column adds to the score of a row, relative to the mean row.
    sizes : array of shape (n_columns,)
        Mean absolute contribution over the rows of the report or a sample of them.
    values : mapping from row number to mapping
        Values of the columns in these rows.
    n_rows : int
        Size of that sample.
    curves : sequence of ColumnCurve
        Curves of the most important columns, if their contributions depend on their value alone.
    note : str
        How contributions are computed.
    """

    names: Sequence[str]
    rows: Mapping[int, Array]
    sizes: Array
    values: Mapping[int, Mapping[str, object]]
    n_rows: int = 0
    curves: Sequence[ColumnCurve] = ()
    note: str = ""
    columns: None = None

    def contributions(self, row: int) -> Array:
        """What each column adds to the score of a row."""
        return self.rows[row]

    def value(self, row: int, column: int) -> object:
        """The value of a row in a column."""
        return self.values[row].get(str(self.names[column]))


def numbered(count: int) -> list[str]:
    """Names of features without names."""
    return [f"feature {number}" for number in range(1, count + 1)]


def short_name(names: Sequence[str], j: int) -> str:
    """A name that is cut if it is long; the feature number keeps cut names distinct."""
    name = str(names[j])
    return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}… (feature {j + 1})"


@dataclass(frozen=True)
class Contribution:
    """The contribution of a column to a score."""

    name: str
    value: object
    """The row's value; None for the mean of several rows."""
    amount: float


def largest_contributions(
    features: Features | Explained, limit: int, *rows: int
) -> list[Contribution]:
    """The columns that add most to or take most from a row's score, or the mean of several."""
    owned = features.columns or range(len(features.names))
    _, first, owner = np.unique(np.asarray(owned), return_index=True, return_inverse=True)
    amounts = np.mean([features.contributions(row) for row in rows], axis=0)
    total = np.bincount(owner, amounts)
    names = features.columns or features.names
    return [
        Contribution(
            short_name(names, first[at]),
            features.value(rows[0], first[at]) if len(rows) == 1 else None,
            float(total[at]),
        )
        for at in where_largest(np.abs(total), limit)
    ]


@dataclass(frozen=True)
class Weight:
    """A feature's weight, and its influence: weight times standard deviation."""

    name: str
    weight: float
    mean: float
    std: float
    influence: float


def largest_weights(features: Features, limit: int) -> list[Weight]:
    """The features with the greatest influence."""
    influence = features.influence()
    numbers = np.stack([features.weights, features.mean, features.std, influence], axis=1)
    return [
        Weight(short_name(features.names, j), *numbers[j].tolist())
        for j in where_largest(influence, limit)
    ]


@dataclass(frozen=True)
class Influence:
    """The mean absolute contribution of a column."""

    name: str
    size: float
    share: float


def largest_influences(explained: Explained, limit: int) -> list[Influence]:
    """The columns with the largest mean absolute contribution."""
    sizes = explained.sizes
    shares = sizes / (sizes.sum() or 1.0)
    return [
        Influence(short_name(explained.names, j), float(sizes[j]), float(shares[j]))
        for j in where_largest(sizes, limit)
    ]


def sampled(n_rows: int, rows: Where, limit: int = SAMPLED) -> Where:
    """Numbers of the rows to explain, followed by an even sample of all rows."""
    sample = np.unique(np.linspace(0, n_rows - 1, min(n_rows, limit)).astype(np.int64))
    return np.concatenate([np.asarray(rows, np.int64), sample])


def by_column(amounts: Array, owners: Sequence[str]) -> tuple[list[str], Array]:
    """Contributions of columns from those of the features made from them."""
    names = list(dict.fromkeys(owners))
    place = {name: at for at, name in enumerate(names)}
    total = np.zeros((len(amounts), len(names)))
    np.add.at(total.T, [place[name] for name in owners], amounts.T)
    return names, total


def largest_curves(
    ranker: Any,
    features: Mapping[str, int],
    sizes: Array,
    categories: Sequence[Sequence[str] | None],
) -> list[ColumnCurve]:
    """Curves of the columns with the largest contributions, if the ranker has a `curve`."""
    if not hasattr(ranker, "curve"):
        return []
    names = list(features)
    return [
        _curve(names[at], ranker.curve(features[names[at]]), categories[features[names[at]]])
        for at in where_largest(sizes, N_CURVES)
    ]


def _curve(name: str, curve: Any, categories: Sequence[str] | None) -> ColumnCurve:
    values, amounts = curve.values.tolist(), curve.contribution
    seen = abs(curve.missing) > NEGLIGIBLE * np.abs(amounts).max(initial=0.0)
    missing = float(curve.missing) if seen else None
    if not curve.is_categorical:
        return ColumnCurve(name, values, amounts.tolist(), missing)
    labels = [f"{value:g}" if categories is None else categories[int(value)] for value in values]
    labels.append("(missing)")
    bars = np.append(amounts, missing or 0.0)
    shown = np.sort(where_largest(np.abs(bars), N_CATEGORIES))
    return ColumnCurve(name, [labels[at] for at in shown], bars[shown].tolist())


@dataclass(frozen=True)
class Reasons:
    """The columns that raise the scores of the first rows."""

    explanations: list[Explanation]
    """With row numbers of the ranked rows."""
    positive: list[bool]
    compared_with: str

    @property
    def longest(self) -> float:
        """The largest contribution, whose bar is the longest."""
        shown = (reason.contribution for why in self.explanations for reason in why.main)
        return max(shown, default=1.0)


def reasons_of(
    ranker: BaseEstimator, X: Matrix, ranking: Ranking, names: Sequence[str] | None
) -> Reasons | None:
    """The columns that raise the scores of the first rows, if the ranker has contributions."""
    try:
        columns = ColumnContributions.of(ranker, names)
    except ValueError:  # no contributions, or of features that are no columns
        return None
    reference = columns.own_reference
    compared_with = "the mean of the highest-ranked negatives of the training rows"
    if reference is None:
        negatives = highest_negatives(ranking.positive, ranking.score)
        compared_with = f"the mean of the {len(negatives):,} highest-ranked negatives of these rows"
        reference = columns.mean(_safe_indexing(X, negatives))
    first = ranking.order[:N_REASON_ROWS]
    explainer = Explainer(columns, reference, N_BARS)
    explanations = list(explainer(_safe_indexing(X, first), first, ranking.score[first]))
    return Reasons(explanations, ranking.positive[first].tolist(), compared_with)
