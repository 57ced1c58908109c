"""Comparison of several rankings of the same rows: which is ahead, and is it significant.

Every draw gives the same weights to the rows of all rankings, so that the chance that is common to
them cancels; see `toppush.metrics.bootstrap` for the draws. The intervals of the k (k - 1) / 2
differences of k rankings are widened so that all of them hold at once with the stated confidence
(Bonferroni).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from toppush.metrics.bootstrap import Interval, MetricAt, differences, drawn, intervals
from toppush.metrics.positive_class import as_mask
from toppush.metrics.ranking import METRICS

HEADLINE = "average_precision"


@dataclass(frozen=True)
class Lead:
    """The first and second of several rankings by a metric, and what the first is better by."""

    by: str
    first: str
    second: str
    values: tuple[float, float]
    difference: Interval

    @property
    def is_clear(self) -> bool:
        """Whether the difference is significant: its interval is above zero."""
        return self.difference.low > 0.0

    def sentence(self, confidence: float) -> str:
        """Which ranking is ahead, by how much, and whether that is significant."""
        own, other = self.values
        difference = self.difference
        span = f"({confidence:.0%} interval {difference.low:+.3f} to {difference.high:+.3f})"
        if own == other:
            return f"{self.first} and {self.second} tie by {self.by}, {own:.3f} {span}."
        verdict = "significant" if self.is_clear else "not significant"
        return (
            f"{self.first} is ahead by {self.by}: {own:.3f}, before {self.second} with "
            f"{other:.3f}; the difference is {difference.value:.3f}, {verdict} {span}."
        )


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Metrics of several rankings of the same rows, and all pairwise differences.

    `values` maps a ranking to metrics and intervals, `differences` two rankings to those of the
    first less the second; the confidence is of each value, and of all differences together.
    """

    values: dict[str, dict[str, Interval]]
    differences: dict[tuple[str, str], dict[str, Interval]]
    confidence: float

    def difference(self, first: str, second: str, metric: str) -> Interval:
        """A metric of one ranking less that of another, in either order."""
        if (first, second) in self.differences:
            return self.differences[first, second][metric]
        reverse = self.differences[second, first][metric]
        return Interval(-reverse.value, -reverse.high, -reverse.low)

    def order(self, by: str = HEADLINE) -> list[str]:
        """Names of the rankings, the best first; of equal ones the earlier."""
        sign = 1.0 if _is_loss(by) else -1.0
        return sorted(self.values, key=lambda name: sign * self.values[name][by].value)

    @property
    def precisions(self) -> dict[str, float]:
        """Average precision of each ranking, where it was computed."""
        values = self.values.items()
        return {name: metrics[HEADLINE].value for name, metrics in values if HEADLINE in metrics}

    def lead(self, by: str = HEADLINE) -> Lead:
        """The first and the second ranking by a metric."""
        first, second = self.order(by)[:2]
        values = (self.values[first][by].value, self.values[second][by].value)
        pair = (second, first) if _is_loss(by) else (first, second)
        return Lead(by, first, second, values, self.difference(*pair, by))


def _is_loss(by: str) -> bool:
    return by in METRICS and METRICS[by].is_loss


def side_by_side(
    y_true: ArrayLike,
    lists: Mapping[str, ArrayLike],
    metrics: Mapping[str, MetricAt],
    *,
    confidence: float = 0.95,
    draws: int | None = None,
    seed: int = 0,
) -> SideBySide:
    """Metrics of several rankings of the same rows, and their differences.

    O(draws x rows x lists). The values are those of `intervals` for each ranking alone.

    Parameters
    ----------
    y_true : array of bool
        Which rows are positive.
    lists : mapping
        Names, and scores of all rows.
    metrics, confidence, draws, seed
        As for `intervals`.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.metrics.paired import side_by_side
    >>> from toppush.metrics.bootstrap import metric_at
    >>> y, rng = np.arange(300) < 100, np.random.default_rng(0)
    >>> lists = {"good": y + rng.normal(size=300) / 2, "chance": rng.normal(size=300)}
    >>> comparison = side_by_side(y, lists, {"auc": metric_at("auc")}, draws=100)
    >>> comparison.lead("auc").first, comparison.lead("auc").is_clear
    ('good', True)
    """
    if len(lists) < 2:
        raise ValueError(f"two or more lists are compared, and there is {len(lists)}.")
    positive = as_mask(y_true)
    scores = [np.asarray(score, np.float64) for score in lists.values()]
    own = [
        intervals(positive, score, metrics, confidence=confidence, draws=draws, seed=seed)
        for score in scores
    ]
    ends = drawn(positive, scores, metrics, draws, seed)
    pairs = list(combinations(range(len(lists)), 2))
    each = 1.0 - (1.0 - confidence) / len(pairs)
    names = list(lists)
    apart = {(names[i], names[j]): differences(own, ends, (i, j), each) for i, j in pairs}
    return SideBySide(dict(zip(names, own, strict=True)), apart, confidence)
