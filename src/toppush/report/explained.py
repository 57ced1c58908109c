"""What a score that is no weighted sum is made of, if its ranker can tell.

Such a ranker has `contributions(X)`, with an entry for each row and feature; those of a row add up
to its score but for a constant. They are told by column, relative to the mean over the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toppush.explain.reasons import NEGLIGIBLE, where_largest
from toppush.report.drivers import name_of
from toppush.types import Array, Where

N_CURVES, N_TEXTS = 6, 20
SAMPLED = 2000
"""Rows from which the usual size of what a column adds is taken."""


@dataclass(frozen=True)
class Curve:
    """What a column adds to the score, by its value."""

    name: str
    values: Sequence[float] | Sequence[str]
    """Numbers in rising order, or texts."""
    amounts: Sequence[float]
    missing: float | None = None
    """What it adds where there is no value."""


@dataclass(frozen=True, eq=False)
class Explained:
    """What each column adds to the scores of some rows, and how much it does as a rule.

    Attributes
    ----------
    names : sequence of str
        The columns.
    rows : mapping from row number to array of shape (n_columns,)
        What each column adds to the score of a row, relative to the mean row.
    sizes : array of shape (n_columns,)
        The mean of that without its sign, over the rows of the report or some of them.
    given : mapping from row number to mapping
        Values of the columns in these rows.
    n_rows : int
        So many of them.
    curves : sequence of Curve
        Of the columns that matter most, where what a column adds is a function of it alone.
    told : str
        How what a column adds is found.
    """

    names: Sequence[str]
    rows: Mapping[int, Array]
    sizes: Array
    given: Mapping[int, Mapping[str, object]]
    n_rows: int = 0
    curves: Sequence[Curve] = ()
    told: str = ""
    columns: None = None

    def contributions(self, row: int) -> Array:
        """What each column adds to the score of a row."""
        return self.rows[row]

    def value(self, row: int, column: int) -> object:
        """What a row holds in a column."""
        return self.given[row].get(str(self.names[column]))


@dataclass(frozen=True)
class Influence:
    """How far a column moves scores, as a rule."""

    name: str
    size: float
    share: float


def largest_influences(explained: Explained, limit: int) -> list[Influence]:
    """The columns that move scores most."""
    sizes = explained.sizes
    shares = sizes / (sizes.sum() or 1.0)
    largest = where_largest(sizes, limit)
    return [
        Influence(name_of(explained.names, j), float(sizes[j]), float(shares[j])) for j in largest
    ]


def sampled(n_rows: int, rows: Where, most: int = SAMPLED) -> Where:
    """Numbers of the rows to explain, and after them of others, evenly over the list."""
    others = np.unique(np.linspace(0, n_rows - 1, min(n_rows, most)).astype(np.int64))
    return np.concatenate([np.asarray(rows, np.int64), others])


def by_column(amounts: Array, owners: Sequence[str]) -> tuple[list[str], Array]:
    """What each column adds, from what its features do."""
    names = list(dict.fromkeys(owners))
    place = {name: at for at, name in enumerate(names)}
    found = np.zeros((len(amounts), len(names)))
    np.add.at(found.T, [place[name] for name in owners], amounts.T)
    return names, found


def largest_curves(
    ranker: Any,
    features: Mapping[str, int],
    sizes: Array,
    texts: Sequence[Sequence[str] | None],
) -> list[Curve]:
    """What the columns that matter most add by value, if the ranker has a `curve` of each."""
    if not hasattr(ranker, "curve"):
        return []
    names = list(features)
    return [
        _curve(names[at], ranker.curve(features[names[at]]), texts[features[names[at]]])
        for at in where_largest(sizes, N_CURVES)
    ]


def _curve(name: str, found: Any, texts: Sequence[str] | None) -> Curve:
    values, amounts = found.values.tolist(), found.contribution
    seen = abs(found.missing) > NEGLIGIBLE * np.abs(amounts).max(initial=0.0)
    gap = float(found.missing) if seen else None
    if not found.is_categorical:
        return Curve(name, values, amounts.tolist(), gap)
    called = [f"{value:g}" if texts is None else texts[int(value)] for value in values]
    bars = np.append(amounts, gap or 0.0)
    shown = np.sort(where_largest(np.abs(bars), N_TEXTS))
    called.append("(missing)")
    return Curve(name, [called[at] for at in shown], bars[shown].tolist())
