"""Lists per group: every day, branch or query has a list of its own, and a budget of K looks.

Measures are taken of each group's list and averaged over groups, each counting once. A group
without a positive has nothing to find: it counts for hits, precision and profit, and not for
recall, average precision and Pos@Top, which are averaged over the others; how many those are is
told. A group of fewer than K rows is looked at whole. Where K cuts a tie, its rows count in
proportion.

Intervals are of the mean over further groups like these, so groups are drawn, not rows: a draw
gives each an exponential weight, and one more to a group that was not seen, as bad as the worst for
the lower end and as good as the best for the upper; if all are alike, as bad and as good as can be.
Few groups understate how much they differ, so the interval is stretched as Student's is. `python
-m benchmarks.guarantees` simulates it: of 8 groups or more at least 94 of 100 hold at 95 %.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toppush.metrics.bootstrap import ENTRIES, Interval
from toppush.metrics.curve import read_rows
from toppush.thresholds.profit import amounts, outer_quantiles
from toppush.types import Array, Where

__all__ = ["GroupMean", "GroupedLists", "group_means", "grouped_lists"]


@dataclass(frozen=True)
class GroupedLists:
    """Measures of the list of each group.

    Attributes
    ----------
    names : array of shape (n_groups,)
        The groups, sorted.
    rows, positives, looked : array of shape (n_groups,)
        Rows and positives of each, and how many rows are looked at: `budget`, or all if fewer.
    measures : dict of array of shape (n_groups,)
        "hits", "precision", "recall", "average_precision", "positives_at_top" and, where value and
        cost are known, "profit"; NaN where a group without positives has none.
    bounds : dict of (float, float)
        What each measure can be at least and at most.
    """

    names: NDArray[Any]
    rows: Where
    positives: Where
    looked: Where
    measures: dict[str, Array]
    bounds: dict[str, tuple[float, float]]

    @property
    def without_positives(self) -> list[Any]:
        """Names of the groups in which there is nothing to find."""
        found: list[Any] = self.names[self.positives == 0].tolist()
        return found


@dataclass(frozen=True)
class GroupMean:
    """Mean of a measure over groups, its interval, and how many groups it is of."""

    mean: Interval
    groups: int


def grouped_lists(
    y_true: ArrayLike,
    y_score: ArrayLike,
    groups: ArrayLike,
    *,
    budget: int,
    value: ArrayLike | None = None,
    cost: ArrayLike | None = None,
) -> GroupedLists:
    """Rank each group by itself, look at its first rows, and measure; O(n log n) for n rows.

    Parameters
    ----------
    y_true : array of bool
        Which rows are positive.
    y_score : array
    groups : array of shape (n_rows,)
        Which list each row belongs to: texts or numbers.
    budget : int
        K, the rows of each list that are looked at.
    value, cost : float or array of shape (n_rows,), optional
        Both give "profit": what a hit is worth, and what a look costs.

    Returns
    -------
    GroupedLists

    Examples
    --------
    >>> from toppush.thresholds.groups import grouped_lists
    >>> days, score = ["mon", "mon", "mon", "tue", "tue"], [3, 2, 1, 2, 1]
    >>> found = grouped_lists([1, 0, 1, 0, 0], score, days, budget=2)
    >>> found.measures["hits"].tolist(), found.without_positives
    ([1.0, 0.0], ['tue'])
    """
    positive, score, _ = read_rows(y_true, y_score, None, None)
    names, group = np.unique(np.asarray(groups), return_inverse=True)
    if group.shape != score.shape or budget < 1:
        raise ValueError(
            f"groups need one entry for each of {len(score)} rows and budget at least 1, got "
            f"{group.shape} and {budget}."
        )
    order = np.lexsort((-score.astype(np.float64), group))
    ties = _Ties.of(group[order], score[order], len(names))
    hits, rows = ties.sums(positive[order]), ties.sums(np.ones(len(score)))
    measures = _measures(ties, hits, rows, budget)
    bounds = {name: (0.0, budget if name == "hits" else 1.0) for name in measures}
    if value is not None and cost is not None:
        worth, costs = (amounts(*one, len(score)) for one in (("value", value), ("cost", cost)))
        gain = np.where(positive, worth, 0.0) - costs
        measures["profit"] = ties.totals(ties.sums(gain[order]) * ties.part_within(rows, budget))
        bounds["profit"] = (-budget * float(costs.max()), budget * float(gain.max()))
    length, positives = (ties.totals(one).astype(np.int64) for one in (rows, hits))
    return GroupedLists(names, length, positives, np.minimum(length, budget), measures, bounds)


@dataclass(frozen=True)
class _Ties:
    """Rows of one group with one score, group after group, best first."""

    first: Where
    """Place of the first row of each tie."""
    group: Where
    """Whose it is."""
    n_groups: int

    @classmethod
    def of(cls, group: Where, score: NDArray[Any], n_groups: int) -> "_Ties":
        new = (group[1:] != group[:-1]) | (score[1:] != score[:-1])
        first = np.flatnonzero(np.append(True, new))
        return cls(first, group[first], n_groups)

    def sums(self, of_rows: NDArray[Any]) -> Array:
        """Of each tie."""
        return np.asarray(np.add.reduceat(of_rows.astype(np.float64), self.first))

    def totals(self, of_ties: Array) -> Array:
        """Of each group."""
        return np.bincount(self.group, of_ties, self.n_groups).astype(np.float64)

    def down_to(self, of_ties: Array) -> Array:
        """Running sums within the group, the tie included."""
        running = np.cumsum(of_ties)
        before = np.append(0.0, np.cumsum(self.totals(of_ties)))[self.group]
        return np.asarray(running - before)

    def part_within(self, rows: Array, budget: int) -> Array:
        """The part of each tie that the first rows of its list take."""
        above = self.down_to(rows) - rows
        return np.clip((budget - above) / rows, 0.0, 1.0)


def _measures(ties: _Ties, hits: Array, rows: Array, budget: int) -> dict[str, Array]:
    found = ties.totals(hits * ties.part_within(rows, budget))
    positives, length = ties.totals(hits), ties.totals(rows)
    above, depth = ties.down_to(hits), ties.down_to(rows)
    on_top = ties.totals(np.where(above == depth, hits, 0.0))
    some = np.where(positives > 0, positives, np.nan)
    return {
        "hits": found,
        "precision": found / np.minimum(length, budget),
        "recall": found / some,
        "average_precision": ties.totals(hits * above / depth) / some,
        "positives_at_top": on_top / some,
    }


def group_means(
    lists: GroupedLists, *, confidence: float = 0.95, draws: int = 2000, seed: int = 0
) -> dict[str, GroupMean]:
    """Means of the measures over groups, with intervals; O(draws x groups).

    Measures that no group has are left out.

    Examples
    --------
    >>> from toppush.thresholds.groups import group_means, grouped_lists
    >>> days, score = ["mon", "mon", "mon", "tue", "tue"], [3, 2, 1, 2, 1]
    >>> means = group_means(grouped_lists([1, 0, 1, 0, 0], score, days, budget=2))
    >>> means["hits"].mean.value, means["hits"].groups
    (0.5, 2)
    """
    found = {}
    for name, values in lists.measures.items():
        defined = values[~np.isnan(values)]
        if len(defined):
            mean = mean_interval(defined, lists.bounds[name], confidence, draws, seed)
            found[name] = GroupMean(mean, len(defined))
    return found


def mean_interval(
    values: Array, bounds: tuple[float, float], confidence: float, draws: int, seed: int
) -> Interval:
    """The mean of independent values, and an interval that draws them and one not seen."""
    mean = float(values.mean())
    if len(values) == 1:
        return Interval(mean, *bounds)
    alike = values.min() == values.max()
    unseen = bounds if alike else (values.min(), values.max())
    tail = (1.0 - confidence) / 2
    worst, best = _drawn_means(values, unseen, draws, seed)
    ends = np.array(outer_quantiles(worst, best, tail))
    stretch = 1.0 if alike else _stretch(len(values), tail)
    low, high = np.clip(mean + stretch * (ends - mean), *bounds)
    return Interval(mean, min(mean, float(low)), max(mean, float(high)))


def _stretch(count: int, tail: float) -> float:
    """Student's quantile over the normal one, and what draws lack in variance."""
    from scipy.stats import norm, t

    return float(t.isf(tail, count - 1) / norm.isf(tail) * np.sqrt((count + 1) / (count - 1)))


def _drawn_means(
    values: Array, unseen: tuple[float, float], draws: int, seed: int
) -> tuple[Array, Array]:
    """Weighted means with the bad and with the good value more."""
    rng, worst, best = np.random.default_rng(seed), np.empty(draws), np.empty(draws)
    at_a_time = max(1, ENTRIES // (len(values) + 1))
    for start in range(0, draws, at_a_time):
        now = slice(start, min(start + at_a_time, draws))
        weights = rng.standard_exponential((now.stop - start, len(values) + 1))
        weights /= weights.sum(axis=1)[:, None]
        worst[now], best[now] = (weights @ np.append(values, one) for one in unseen)
    return worst, best
