"""Review budgets: thresholds for them, and forecasts of the positives that a budget finds.

A forecast is an interval of a future count, which includes both the uncertainty of the rate and the
chance of the draw. The known rows must be independent, like those to come, scored by the same
model, and not those it was fitted to.

Above a fixed score: h of n known rows are positives there. By Thatcher's exact limits, the counts
of up to N future rows lie between the quantiles of the beta-binomial distributions of
(N; h, n - h + 1) and of (N; h + 1, n - h), with at least the stated confidence: the interval of
Clopper and Pearson, with a binomial draw on top.

In the first K of N rows, the score at which the list ends is random too. A draw gives each known
row an exponential weight, and one more to a row that was not seen, as in
`toppush.metrics.bootstrap`; the K-th of N rows then is at a depth that is Beta(K, N - K + 1), and
the labels above are drawn. The unseen row is a negative at the top for the lower end and a positive
there for the upper. There is no proof for that; `python -m benchmarks.guarantees` simulates it.

Rankings per group: each day, branch or query has a ranking of its own with a budget of K reviews.
Metrics of each group's ranking are averaged over groups with equal weight. A group without a
positive counts for true positives, precision and profit, and not for recall, average precision and
Pos@Top, which are averaged over the other groups. A group of fewer than K rows is reviewed
completely. Where K cuts a tie, its rows count in proportion. Intervals are of the mean over further
groups like these, so groups are drawn, not rows: each has an exponential weight, and so has a group
that was not seen, as bad as the worst for the lower end and as good as the best for the upper; if
all are equal, as bad and as good as possible. Few groups understate their variance, so the interval
is widened as Student's is. `python -m benchmarks.guarantees` simulates it: with 8 groups or more at
least 94 of 100 intervals hold at 95 %.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toppush.metrics.bootstrap import ENTRIES, Interval
from toppush.metrics.curve import TopCurve, read_rows, top_curve
from toppush.thresholds.guarantees import NoGuarantee
from toppush.thresholds.profit import amounts, outer_quantiles
from toppush.types import Array, Where

TINY = np.finfo(np.float64).tiny
REACH = 12.0
"""Standard deviations on either side of the mean over which the beta-binomial is summed."""


@dataclass(frozen=True)
class Forecast:
    """A future count: its expectation, and an interval."""

    expected: float
    low: float
    high: float


@dataclass(frozen=True)
class DailyThreshold:
    """A score that so few rows exceed that a daily review budget suffices.

    Rows with a score above it, not equal to it, are taken. The budget suffices on the fraction
    `confidence` of the days, on average if it is None. `rows` is a forecast of the rows of a
    day above the score, and `above` the number of known ones.
    """

    score: float
    budget: int
    rows_per_day: int
    confidence: float | None
    rows: Forecast
    above: int


def expected_true_positives(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    rows: int,
    length: int | None = None,
    above: float | None = None,
    confidence: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> Forecast:
    """Number of positives that will be found among `rows` new ones, with an interval.

    Parameters
    ----------
    y_true : array of bool
        Which of the known rows are positive.
    y_score : array
        Their scores.
    rows : int
        Number of new rows.
    length : int, optional
        Review this many of them, the best ones.
    above : float, optional
        Or review all that score above this.
    confidence : float, default=0.95
    draws, seed : int
        For `length`; scores need no draws.

    Examples
    --------
    Ten positives above a score among 1000 rows, so with 5000 more:

    >>> import numpy as np
    >>> from toppush.thresholds.budgets import expected_true_positives
    >>> positive = np.arange(1000) % 10 == 0
    >>> expected_true_positives(positive, -np.arange(1000), rows=5000, above=-100)
    Forecast(expected=50.0, low=22.0, high=95.0)
    """
    if above is not None and length is None:
        return positives_above(y_true, y_score, above, rows=rows, confidence=confidence)
    if length is None or above is not None:
        raise ValueError("pass either length or above: how far down the list is reviewed.")
    return positives_in_first(
        y_true, y_score, [length], rows=rows, confidence=confidence, draws=draws, seed=seed
    )[0]


def positives_above(
    y_true: ArrayLike, y_score: ArrayLike, score: float, *, rows: int, confidence: float = 0.95
) -> Forecast:
    """Positives among `rows` new ones that will score above `score`; exact limits.

    The score must not have been chosen by the labels of these rows.
    """
    curve = top_curve(y_true, y_score)
    end = int(np.searchsorted(-curve.thresholds, -score, side="left")) - 1
    count = int(curve.true_positives[end])
    return future_count(count, round(curve.depth[-1]), rows, confidence)


def future_count(count: int, of: int, rows: int, confidence: float = 0.95) -> Forecast:
    """Forecast for new rows of an event that was seen `count` times among `of` rows.

    Thatcher's limits, which hold with at least the confidence; O(width of the interval).
    """
    rows = _whole("rows", rows)
    tail = (1.0 - confidence) / 2
    low = beta_binomial_quantile(tail, rows, count, of - count + 1) if count else 0
    high = beta_binomial_quantile(1 - tail, rows, count + 1, of - count) if count < of else rows
    return Forecast(rows * count / of, float(low), float(high))


def beta_binomial_quantile(level: float, rows: int, a: float, b: float) -> int:
    """The least count whose cumulative probability is at least `level`."""
    from scipy.stats import betabinom

    mean, variance = betabinom.stats(rows, a, b)
    reach = REACH * np.sqrt(variance) + REACH
    counts = np.arange(max(0, int(mean - reach)), min(rows, int(mean + reach) + 1) + 1)
    total = np.cumsum(betabinom.pmf(counts, rows, a, b))
    place = int(np.searchsorted(total, level * (1 - 1e-12)))
    return int(counts[min(place, len(counts) - 1)])


def positives_in_first(
    y_true: ArrayLike,
    y_score: ArrayLike,
    lengths: Sequence[int],
    *,
    rows: int,
    confidence: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> list[Forecast]:
    """Positives among the first of `rows` new ones, for several lengths of the list.

    O(draws x distinct scores of positives). Of a tie that a list cuts, any rows may be on it.
    """
    rows = _whole("rows", rows)
    wanted = np.array([_whole("length", length) for length in lengths])
    if wanted.max() > rows:
        raise ValueError(
            f"length must be at most {rows}, the number of new rows, got {max(lengths)}."
        )
    curve = top_curve(y_true, y_score)
    worst, best = _drawn_counts(_joined(curve), wanted, rows, draws, seed)
    tail = (1.0 - confidence) / 2
    low = np.quantile(worst, tail, axis=0, method="inverted_cdf")
    high = np.quantile(best, 1 - tail, axis=0, method="inverted_cdf")
    known = float(curve.depth[-1])
    expected = curve.positives_within(wanted * (known / rows)) * (rows / known)
    low, high = np.minimum(low, expected), np.maximum(high, expected)
    columns = np.stack([expected, low, high], axis=1).tolist()
    return [Forecast(*numbers) for numbers in columns]


def _joined(curve: TopCurve) -> TopCurve:
    """The curve with negatives that no positive separates as one point."""
    rises = np.diff(curve.true_positives) > 0
    ends = np.r_[True, rises[:-1] | rises[1:], True]
    return TopCurve(curve.true_positives[ends], curve.false_positives[ends], curve.thresholds[ends])


def _drawn_counts(
    curve: TopCurve, lengths: Where, rows: int, draws: int, seed: int
) -> tuple[Array, Array]:
    """Positives in the first of new rows, from the worst and the best populations drawn."""
    rng = np.random.default_rng(seed)
    known = np.diff(curve.true_positives), np.diff(curve.false_positives)
    counts = np.empty((2, draws, len(lengths)))
    for draw in range(draws):
        positives, negatives = map(rng.standard_gamma, known)
        unseen = rng.standard_exponential()
        ends = rng.beta(lengths, np.maximum(rows - lengths, 0) + 1.0)
        ends = np.where(lengths == rows, 1.0, ends)
        for end, (head, last) in enumerate(_precisions(positives, negatives, unseen, ends)):
            counts[end, draw] = rng.binomial(lengths - 1, head) + (rng.random(len(last)) < last)
    return counts[0], counts[1]


def _precisions(
    positives: Array, negatives: Array, unseen: float, ends: Array
) -> Iterator[tuple[Array, Array]]:
    """Precision of heads of a population, and among the rows where these end.

    First with the unseen row at the top as a negative, then as a positive.
    """
    weight = np.append(0.0, np.cumsum(positives + negatives))
    above = np.append(0.0, np.cumsum(positives))
    depth = ends * (unseen + weight[-1])
    seen = depth - unseen
    piece = np.clip(np.searchsorted(weight, seen), 1, len(weight) - 1)
    rows = np.maximum(weight[piece] - weight[piece - 1], TINY)
    local = positives[piece - 1] / rows
    above = above[piece - 1] + local * np.clip(seen - weight[piece - 1], 0.0, rows)
    for label in (0.0, 1.0):
        head = label * np.minimum(depth, unseen) + np.where(seen > 0, above, 0.0)
        precision = np.clip(head / np.maximum(depth, TINY), 0.0, 1.0)
        yield precision, np.clip(np.where(seen > 0, local, label), 0.0, 1.0)


def threshold_for_budget(
    y_score: ArrayLike, *, budget: int, rows_per_day: int, confidence: float | None = None
) -> DailyThreshold:
    """The lowest known score that no more rows exceed than a day's budget allows.

    Of n known rows, the rate of new ones above the k-th highest score is Beta(k, n - k + 1), or
    less where scores are tied. So among R rows of a day k R / (n + 1) exceed it on average, and
    their number is beta-binomial. Raises `NoGuarantee` if even the highest score may be exceeded
    too often.

    Parameters
    ----------
    y_score : array of shape (n_rows,)
        Scores of rows like those to come; labels are not needed.
    budget : int
        Rows that can be reviewed on a day.
    rows_per_day : int
    confidence : float, optional
        Fraction of the days on which the budget must suffice; by default it does on average.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.thresholds.budgets import threshold_for_budget
    >>> daily = threshold_for_budget(np.arange(1000.0), budget=50, rows_per_day=5000)
    >>> daily.score, daily.above, daily.rows.expected
    (990.0, 9, 45.0)
    """
    scores = np.asarray(y_score, np.float64)
    budget, rows_per_day = _whole("budget", budget), _whole("rows_per_day", rows_per_day)
    if scores.ndim != 1 or np.isnan(scores).any() or not len(scores):
        raise ValueError(f"y_score must be a vector without NaN, got shape {scores.shape}.")
    order = _deepest(len(scores), budget, rows_per_day, confidence)
    if order < 1:
        raise NoGuarantee(_too_few(len(scores), budget, rows_per_day, confidence))
    score = _order_score(scores, order)
    above = int(np.count_nonzero(scores > score))
    forecast = future_count(above, len(scores), rows_per_day, confidence or 0.95)
    return DailyThreshold(score, budget, rows_per_day, confidence, forecast, above)


def _order_score(scores: Array, order: int) -> float:
    """The score at this place from the top; one below all of them if there are fewer."""
    if order > len(scores):
        return float(np.nextafter(scores.min(), -np.inf))
    place = len(scores) - order
    return float(np.partition(scores, place)[place])


def _deepest(known: int, budget: int, rows: int, confidence: float | None) -> int:
    """The greatest place from the top whose score is exceeded rarely enough, or 0."""
    if budget >= rows:
        return known + 1
    if confidence is None:
        return int(budget * (known + 1) / rows * (1 + 1e-12))
    low, high = 0, known
    while low < high:
        middle = (low + high + 1) // 2
        fits = beta_binomial_quantile(confidence, rows, middle, known - middle + 1) <= budget
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def _too_few(known: int, budget: int, rows: int, confidence: float | None) -> str:
    """How many known rows the budget needs."""
    needed = known
    while _deepest(needed, budget, rows, confidence) < 1:
        needed *= 2
    low = needed // 2
    while needed - low > 1:
        middle = (low + needed) // 2
        fits = _deepest(middle, budget, rows, confidence) >= 1
        low, needed = (low, middle) if fits else (middle, needed)
    often = "on average" if confidence is None else f"on {confidence:.0%} of the days"
    return (
        f"at most {budget:,} of {rows:,} rows a day {often} needs at least {needed:,} known rows, "
        f"and there are {known:,}; add more, or raise the budget."
    )


def _whole(name: str, number: int) -> int:
    if number != int(number) or number < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {number!r}.")
    return int(number)


# ---- rankings per group


@dataclass(frozen=True)
class GroupedLists:
    """Metrics of the ranking of each group.

    Attributes
    ----------
    names : array of shape (n_groups,)
        The groups, sorted.
    rows, positives, reviewed : array of shape (n_groups,)
        Rows, positives and reviewed rows of each: `budget`, or all rows if there are fewer.
    metrics : dict of array of shape (n_groups,)
        "true_positives", "precision", "recall", "average_precision", "positives_at_top" and, with
        value and cost, "profit"; NaN where they are not defined for a group without positives.
    bounds : dict of (float, float)
        Least and greatest possible value of each metric.
    """

    names: NDArray[Any]
    rows: Where
    positives: Where
    reviewed: Where
    metrics: dict[str, Array]
    bounds: dict[str, tuple[float, float]]

    @property
    def without_positives(self) -> list[Any]:
        """Names of the groups without positives."""
        names: list[Any] = self.names[self.positives == 0].tolist()
        return names


@dataclass(frozen=True)
class GroupMean:
    """Mean of a metric over groups with its interval, and the number of groups."""

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
    """Metrics of the first `budget` rows of each group's ranking; O(n log n) for n rows.

    Parameters
    ----------
    y_true : array of bool
        Which rows are positive.
    y_score : array
    groups : array of shape (n_rows,)
        Group of each row: strings or numbers.
    budget : int
        K, the rows of each ranking that are reviewed.
    value, cost : float or array of shape (n_rows,), optional
        Both give "profit": the value of a positive, and the cost of a review.

    Examples
    --------
    >>> from toppush.thresholds.budgets import grouped_lists
    >>> days, score = ["mon", "mon", "mon", "tue", "tue"], [3, 2, 1, 2, 1]
    >>> lists = grouped_lists([1, 0, 1, 0, 0], score, days, budget=2)
    >>> lists.metrics["true_positives"].tolist(), lists.without_positives
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
    positives, rows = ties.sums(positive[order]), ties.sums(np.ones(len(score)))
    metrics = _group_metrics(ties, positives, rows, budget)
    bounds = {name: (0.0, budget if name == "true_positives" else 1.0) for name in metrics}
    if value is not None and cost is not None:
        values, costs = amounts("value", value, len(score)), amounts("cost", cost, len(score))
        gain = np.where(positive, values, 0.0) - costs
        metrics["profit"] = ties.totals(ties.sums(gain[order]) * ties.part_within(rows, budget))
        bounds["profit"] = (-budget * float(costs.max()), budget * float(gain.max()))
    length, n_pos = (ties.totals(counts).astype(np.int64) for counts in (rows, positives))
    return GroupedLists(names, length, n_pos, np.minimum(length, budget), metrics, bounds)


@dataclass(frozen=True)
class _Ties:
    """Rows of the same group and score, sorted by group, then by descending score."""

    first: Where
    """Place of the first row of each tie."""
    group: Where
    """Group of each tie."""
    n_groups: int

    @classmethod
    def of(cls, group: Where, score: NDArray[Any], n_groups: int) -> "_Ties":
        new = (group[1:] != group[:-1]) | (score[1:] != score[:-1])
        first = np.flatnonzero(np.append(True, new))
        return cls(first, group[first], n_groups)

    def sums(self, of_rows: NDArray[Any]) -> Array:
        """Sum over the rows of each tie."""
        return np.asarray(np.add.reduceat(of_rows.astype(np.float64), self.first))

    def totals(self, of_ties: Array) -> Array:
        """Sum over the ties of each group."""
        return np.bincount(self.group, of_ties, self.n_groups).astype(np.float64)

    def down_to(self, of_ties: Array) -> Array:
        """Running sums within the group, the tie included."""
        before = np.append(0.0, np.cumsum(self.totals(of_ties)))[self.group]
        return np.asarray(np.cumsum(of_ties) - before)

    def part_within(self, rows: Array, budget: int) -> Array:
        """Fraction of each tie that the first rows of its list take."""
        above = self.down_to(rows) - rows
        return np.clip((budget - above) / rows, 0.0, 1.0)


def _group_metrics(ties: _Ties, positives: Array, rows: Array, budget: int) -> dict[str, Array]:
    reviewed = ties.totals(positives * ties.part_within(rows, budget))
    n_pos, length = ties.totals(positives), ties.totals(rows)
    above, depth = ties.down_to(positives), ties.down_to(rows)
    on_top = ties.totals(np.where(above == depth, positives, 0.0))
    known = np.where(n_pos > 0, n_pos, np.nan)
    return {
        "true_positives": reviewed,
        "precision": reviewed / np.minimum(length, budget),
        "recall": reviewed / known,
        "average_precision": ties.totals(positives * above / depth) / known,
        "positives_at_top": on_top / known,
    }


def group_means(
    lists: GroupedLists, *, confidence: float = 0.95, draws: int = 2000, seed: int = 0
) -> dict[str, GroupMean]:
    """Means of the metrics over groups, with intervals; O(draws x groups).

    Metrics that no group has are left out.

    Examples
    --------
    >>> from toppush.thresholds.budgets import group_means, grouped_lists
    >>> days, score = ["mon", "mon", "mon", "tue", "tue"], [3, 2, 1, 2, 1]
    >>> means = group_means(grouped_lists([1, 0, 1, 0, 0], score, days, budget=2))
    >>> means["true_positives"].mean.value, means["true_positives"].groups
    (0.5, 2)
    """
    means = {}
    for name, values in lists.metrics.items():
        defined = values[~np.isnan(values)]
        if len(defined):
            mean = mean_interval(defined, lists.bounds[name], confidence, draws, seed)
            means[name] = GroupMean(mean, len(defined))
    return means


def mean_interval(
    values: Array, bounds: tuple[float, float], confidence: float, draws: int, seed: int
) -> Interval:
    """The mean of independent values, and an interval from draws with one unseen value."""
    from scipy.stats import norm, t

    mean, count = float(values.mean()), len(values)
    if count == 1:
        return Interval(mean, *bounds)
    equal = values.min() == values.max()
    unseen = bounds if equal else (values.min(), values.max())
    tail = (1.0 - confidence) / 2
    worst, best = _drawn_means(values, unseen, draws, seed)
    ends = np.array(outer_quantiles(worst, best, tail))
    widening = 1.0
    if not equal:  # Student's quantile over the normal one, and the variance that draws lack
        ratio = t.isf(tail, count - 1) / norm.isf(tail)
        widening = float(ratio * np.sqrt((count + 1) / (count - 1)))
    low, high = np.clip(mean + widening * (ends - mean), *bounds)
    return Interval(mean, min(mean, float(low)), max(mean, float(high)))


def _drawn_means(
    values: Array, unseen: tuple[float, float], draws: int, seed: int
) -> tuple[Array, Array]:
    """Weighted means with the bad and with the good unseen value."""
    rng, worst, best = np.random.default_rng(seed), np.empty(draws), np.empty(draws)
    batch = max(1, ENTRIES // (len(values) + 1))
    for start in range(0, draws, batch):
        now = slice(start, min(start + batch, draws))
        weights = rng.standard_exponential((now.stop - start, len(values) + 1))
        weights /= weights.sum(axis=1)[:, None]
        worst[now], best[now] = (weights @ np.append(values, value) for value in unseen)
    return worst, best
