"""Several lists of the same rows side by side: who is ahead, and whether that is more than noise.

Every draw gives the same weights to the rows of all lists, so what is luck of the rows is luck of
all of them; see `toppush.metrics.bootstrap` for the draws. With k lists there are k (k - 1) / 2
differences, and their intervals are widened so that all of them hold at once with the confidence
that is asked for (Bonferroni): otherwise the first of many lists would be ahead by selection.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from toppush.metrics.bootstrap import Interval, Measure, differences, drawn, intervals
from toppush.metrics.positive import as_mask
from toppush.metrics.ranking import METRICS

__all__ = ["Lead", "SideBySide", "perfect_caution", "side_by_side", "warn_of_perfect"]

HEADLINE = "average_precision"
PERFECT = 0.9995
"""Average precision from which it is printed as 1.000."""


@dataclass(frozen=True)
class Lead:
    """The first of several lists by a measure, and the next one.

    Attributes
    ----------
    by : str
        The measure.
    first, second : str
        Names of the lists.
    difference : Interval
        What the first is better by.
    """

    by: str
    first: str
    second: str
    values: tuple[float, float]
    difference: Interval

    @property
    def is_clear(self) -> bool:
        """Whether the difference is more than noise: its interval is above zero."""
        return self.difference.low > 0.0

    def sentence(self, confidence: float) -> str:
        """Who is ahead, by how much, and what to make of it."""
        own, other = self.values
        one = self.difference
        span = f"({confidence:.0%} interval {one.low:+.3f} to {one.high:+.3f})"
        if own == other:
            return f"{self.first} and {self.second} are level by {self.by}, {own:.3f} {span}."
        verdict = "more than noise" if self.is_clear else "which may be noise"
        return (
            f"{self.first} is ahead by {self.by}: {own:.3f}, before {self.second} with "
            f"{other:.3f}; the difference is {one.value:.3f}, {verdict} {span}."
        )


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Measures of several lists of the same rows, and all differences of two of them.

    Attributes
    ----------
    values : dict
        Name of a list -> measure -> `Interval`.
    differences : dict
        (first, second) -> measure -> `Interval` of the first less the second.
    confidence : float
        Of each value, and of all differences together.
    """

    values: dict[str, dict[str, Interval]]
    differences: dict[tuple[str, str], dict[str, Interval]]
    confidence: float

    def difference(self, first: str, second: str, measure: str) -> Interval:
        """A measure of one list less that of another, in either order."""
        if (first, second) in self.differences:
            return self.differences[first, second][measure]
        one = self.differences[second, first][measure]
        return Interval(-one.value, -one.high, -one.low)

    def order(self, by: str = HEADLINE) -> list[str]:
        """Names of the lists, the best first; of equal ones the earlier."""
        sign = 1.0 if _is_loss(by) else -1.0
        return sorted(self.values, key=lambda name: sign * self.values[name][by].value)

    @property
    def precisions(self) -> dict[str, float]:
        """Average precision of each list, where it was measured."""
        return {name: one[HEADLINE].value for name, one in self.values.items() if HEADLINE in one}

    def lead(self, by: str = HEADLINE) -> Lead:
        """Who is ahead of whom by a measure."""
        first, second = self.order(by)[:2]
        values = (self.values[first][by].value, self.values[second][by].value)
        pair = (second, first) if _is_loss(by) else (first, second)
        return Lead(by, first, second, values, self.difference(*pair, by))


def perfect_caution(values: Mapping[str, float]) -> str:
    """What to check where lists have an average precision of 1.000; empty if none has.

    >>> from toppush.metrics.paired import perfect_caution
    >>> perfect_caution({"trees": 1.0, "linear": 0.8}).split(",")[0]
    'trees: average precision 1.000'
    >>> perfect_caution({"trees": 0.98, "linear": 0.8})
    ''
    """
    names = ", ".join(name for name, value in values.items() if value >= PERFECT)
    if not names:
        return ""
    return (
        f"{names}: average precision 1.000, which is rare on real data. Check whether a column "
        "contains the label or was recorded after it."
    )


def warn_of_perfect(values: Mapping[str, float]) -> None:
    """Give the caution as a warning, if there is one."""
    if caution := perfect_caution(values):
        warnings.warn(caution, UserWarning, stacklevel=3)


def _is_loss(by: str) -> bool:
    return by in METRICS and METRICS[by].is_loss


def side_by_side(
    y_true: ArrayLike,
    lists: Mapping[str, ArrayLike],
    measures: Mapping[str, Measure],
    *,
    confidence: float = 0.95,
    draws: int | None = None,
    seed: int = 0,
) -> SideBySide:
    """Measures of several lists of the same rows, and their differences.

    O(draws x rows x lists). The values are those of `intervals` on each list alone; with two lists
    the differences are those of `toppush.metrics.bootstrap.compare`.

    Parameters
    ----------
    y_true : array of bool
        Which rows are positive.
    lists : mapping
        Names, and scores of all rows.
    measures, confidence, draws, seed
        As for `intervals`.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.metrics.paired import side_by_side
    >>> from toppush.metrics.bootstrap import measure
    >>> y, rng = np.arange(300) < 100, np.random.default_rng(0)
    >>> lists = {"good": y + rng.normal(size=300) / 2, "chance": rng.normal(size=300)}
    >>> found = side_by_side(y, lists, {"auc": measure("auc")}, draws=100)
    >>> found.lead("auc").first, found.lead("auc").is_clear
    ('good', True)
    """
    if len(lists) < 2:
        raise ValueError(f"two or more lists are compared, and there is {len(lists)}.")
    positive = as_mask(y_true)
    scores = [np.asarray(one, np.float64) for one in lists.values()]
    own = [
        intervals(positive, one, measures, confidence=confidence, draws=draws, seed=seed)
        for one in scores
    ]
    ends = drawn(positive, scores, measures, draws, seed)
    pairs = list(combinations(range(len(lists)), 2))
    each = 1.0 - (1.0 - confidence) / len(pairs)
    names = list(lists)
    apart = {(names[i], names[j]): differences(own, ends, (i, j), each) for i, j in pairs}
    return SideBySide(dict(zip(names, own, strict=True)), apart, confidence)
