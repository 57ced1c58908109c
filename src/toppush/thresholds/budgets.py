"""What a budget of looks will find: hits among rows that are still to come, and thresholds for it.

A forecast is of a count of the future, so it holds both what is not known of the rate and the luck
of the draw. The rows that are known must be like those to come: independent, scored by the same
model, not those it was fitted to.

Above a fixed score: h of n known rows are hits there. By Thatcher's exact limits, the counts of a
future with as many as N rows lie between the quantiles of the beta-binomial distributions of
(N; h, n - h + 1) and of (N; h + 1, n - h), with at least the stated confidence: the interval of
Clopper and Pearson, with a binomial draw on top.

In the first K of N rows: where the list will end is a matter of luck too. A draw gives each known
row an exponential weight and one more to a row that was not seen, as in
`toppush.metrics.bootstrap`, so that it is one way the population may be; the K-th of N rows then
stands at a depth that is Beta(K, N - K + 1), and the labels above are drawn. The unseen row is a
negative at the top for the lower end and a positive there for the upper. There is no proof for
that; `python -m benchmarks.guarantees` simulates it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from toppush.metrics.curve import TopCurve, top_curve
from toppush.thresholds.guarantees import NoGuarantee
from toppush.types import Array, Where

__all__ = [
    "DailyThreshold",
    "Forecast",
    "expected_hits",
    "future_count",
    "hits_above",
    "hits_in_first",
    "threshold_for_budget",
]

TINY = np.finfo(np.float64).tiny
REACH = 12.0
"""Standard deviations on either side of the mean where the beta-binomial law is summed up."""


@dataclass(frozen=True)
class Forecast:
    """A count of the future: what is expected, and an interval of what there will be."""

    expected: float
    low: float
    high: float


@dataclass(frozen=True)
class DailyThreshold:
    """A score that so few rows exceed that a budget suffices.

    Attributes
    ----------
    score : float
        Rows with a score above it, not equal to it, are taken.
    budget, rows_per_day : int
    confidence : float or None
        On such a share of the days the budget suffices; None if it does on average.
    rows : Forecast
        Rows of a day above the score.
    above : int
        Known rows above the score.
    """

    score: float
    budget: int
    rows_per_day: int
    confidence: float | None
    rows: Forecast
    above: int


def expected_hits(
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
    """Positives that will be found among `rows` new ones, with an interval of that count.

    Parameters
    ----------
    y_true : array of bool
        Which of the known rows are positive.
    y_score : array
        Their scores.
    rows : int
        How many new rows there will be.
    length : int, optional
        How many of them, the best, are looked at.
    above : float, optional
        Or all that score above this.
    confidence : float, default=0.95
    draws, seed : int
        For `length`; scores need no draws.

    Returns
    -------
    Forecast

    Examples
    --------
    Ten hits above a score among 1000 rows, so with 5000 more:

    >>> import numpy as np
    >>> from toppush.thresholds.budgets import expected_hits
    >>> positive = np.arange(1000) % 10 == 0
    >>> expected_hits(positive, -np.arange(1000), rows=5000, above=-100)
    Forecast(expected=50.0, low=22.0, high=95.0)
    """
    if (length is None) == (above is None):
        raise ValueError("name either length or above: how far down the list one looks.")
    if above is not None:
        return hits_above(y_true, y_score, above, rows=rows, confidence=confidence)
    given = {"rows": rows, "confidence": confidence, "draws": draws, "seed": seed}
    return hits_in_first(y_true, y_score, [length], **given)[0]  # type: ignore[arg-type,list-item]


def hits_above(
    y_true: ArrayLike, y_score: ArrayLike, score: float, *, rows: int, confidence: float = 0.95
) -> Forecast:
    """Positives among `rows` new ones that will score above `score`; exact limits.

    The score must not have been chosen for its hits among these very rows.
    """
    curve = top_curve(y_true, y_score)
    hits = int(curve.hits[_last_above(curve, score)])
    return future_count(hits, round(curve.depth[-1]), rows, confidence)


def _last_above(curve: TopCurve, score: float) -> int:
    """The end of the curve down to which scores are above a score."""
    return int(np.searchsorted(-curve.thresholds, -score, side="left")) - 1


def future_count(count: int, of: int, rows: int, confidence: float = 0.95) -> Forecast:
    """How often a thing will be seen among new rows that was seen `count` times among `of`.

    Thatcher's limits, which hold with at least the confidence; O(the interval's width).
    """
    rows = _whole("rows", rows)
    tail = (1.0 - confidence) / 2
    low = beta_binomial_quantile(tail, rows, count, of - count + 1) if count else 0
    high = beta_binomial_quantile(1 - tail, rows, count + 1, of - count) if count < of else rows
    return Forecast(rows * count / of, float(low), float(high))


def beta_binomial_quantile(level: float, rows: int, a: float, b: float) -> int:
    """The least count whose probability not to be exceeded is at least `level`."""
    counts, total = _beta_binomial(rows, a, b)
    place = int(np.searchsorted(total, level * (1 - 1e-12)))
    return int(counts[min(place, len(counts) - 1)])


def _beta_binomial(rows: int, a: float, b: float) -> tuple[Array, Array]:
    """Counts around the mean, and the probabilities not to exceed them."""
    from scipy.stats import betabinom

    mean, variance = betabinom.stats(rows, a, b)
    reach = REACH * np.sqrt(variance) + REACH
    counts = np.arange(max(0, int(mean - reach)), min(rows, int(mean + reach) + 1) + 1)
    return counts.astype(np.float64), np.cumsum(betabinom.pmf(counts, rows, a, b))


def hits_in_first(
    y_true: ArrayLike,
    y_score: ArrayLike,
    lengths: Sequence[int],
    *,
    rows: int,
    confidence: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> list[Forecast]:
    """Positives among the best of `rows` new ones, for each of several lengths of list.

    O(draws x distinct scores of positives). Of a tie that a list cuts, any of its rows may be on
    it.
    """
    rows = _whole("rows", rows)
    wanted = np.array([_whole("length", one) for one in lengths])
    if wanted.max() > rows:
        raise ValueError(
            f"length must be at most {rows}, the number of new rows, got {max(lengths)}."
        )
    curve = top_curve(y_true, y_score)
    worst, best = _drawn_hits(_joined(curve), wanted, rows, draws, seed)
    tail = (1.0 - confidence) / 2
    low = np.quantile(worst, tail, axis=0, method="inverted_cdf")
    high = np.quantile(best, 1 - tail, axis=0, method="inverted_cdf")
    known = float(curve.depth[-1])
    expected = curve.hits_within(wanted * (known / rows)) * (rows / known)
    ends = zip(expected, np.minimum(low, expected), np.maximum(high, expected), strict=True)
    return [Forecast(*map(float, one)) for one in ends]


def _joined(curve: TopCurve) -> TopCurve:
    """The curve with negatives that no positive separates as one point."""
    hit = np.diff(curve.hits) > 0
    ends = np.r_[True, hit[:-1] | hit[1:], True]
    return TopCurve(curve.hits[ends], curve.alarms[ends], curve.thresholds[ends])


def _drawn_hits(
    curve: TopCurve, lengths: Where, rows: int, draws: int, seed: int
) -> tuple[Array, Array]:
    """Hits in the first so many of new rows from the worst and the best populations drawn."""
    rng = np.random.default_rng(seed)
    hits, alarms = np.diff(curve.hits), np.diff(curve.alarms)
    found = np.empty((2, draws, len(lengths)))
    for draw in range(draws):
        positives, negatives = rng.standard_gamma(hits), rng.standard_gamma(alarms)
        unseen = rng.standard_exponential()
        ends = rng.beta(lengths, np.maximum(rows - lengths, 0) + 1.0)
        ends = np.where(lengths == rows, 1.0, ends)
        for kind, (share, last) in enumerate(_shares(positives, negatives, unseen, ends)):
            found[kind, draw] = rng.binomial(lengths - 1, share) + (rng.random(len(last)) < last)
    return found[0], found[1]


def _shares(
    positives: Array, negatives: Array, unseen: float, ends: Array
) -> Iterator[tuple[Array, Array]]:
    """Share of positives in heads of a population, and among the rows where those end.

    First with the unseen row at the top as a negative, then as a positive.
    """
    weight = np.append(0.0, np.cumsum(positives + negatives))
    hits = np.append(0.0, np.cumsum(positives))
    depth = ends * (unseen + weight[-1])
    seen = depth - unseen
    piece = np.clip(np.searchsorted(weight, seen), 1, len(weight) - 1)
    rows = np.maximum(weight[piece] - weight[piece - 1], TINY)
    local = positives[piece - 1] / rows
    above = hits[piece - 1] + local * np.clip(seen - weight[piece - 1], 0.0, rows)
    for label in (0.0, 1.0):
        head = label * np.minimum(depth, unseen) + np.where(seen > 0, above, 0.0)
        share = np.clip(head / np.maximum(depth, TINY), 0.0, 1.0)
        yield share, np.clip(np.where(seen > 0, local, label), 0.0, 1.0)


def threshold_for_budget(
    y_score: ArrayLike, *, budget: int, rows_per_day: int, confidence: float | None = None
) -> DailyThreshold:
    """The lowest known score that no more rows exceed than a day's budget allows.

    Of n known rows, the rate of new ones above the k-th highest score is Beta(k, n - k + 1), or
    less where scores are tied. So among R rows of a day k R / (n + 1) exceed it on average, and
    their number is beta-binomial.

    Parameters
    ----------
    y_score : array of shape (n_rows,)
        Scores of rows like those to come; labels are not needed.
    budget : int
        Rows that can be looked at on a day.
    rows_per_day : int
    confidence : float, optional
        The share of days on which the budget must suffice; by default it does on average.

    Returns
    -------
    DailyThreshold

    Raises
    ------
    NoGuarantee
        If even the highest of so few scores may be exceeded too often.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.thresholds.budgets import threshold_for_budget
    >>> found = threshold_for_budget(np.arange(1000.0), budget=50, rows_per_day=5000)
    >>> found.score, found.above, found.rows.expected
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
    """The score in this place from the top; one below all of them if there are fewer."""
    if order > len(scores):
        return float(np.nextafter(scores.min(), -np.inf))
    place = len(scores) - order
    return float(np.partition(scores, place)[place])


def _deepest(known: int, budget: int, rows: int, confidence: float | None) -> int:
    """The greatest place from the top whose score is exceeded seldom enough, or 0."""
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
    needed = known
    while _deepest(needed, budget, rows, confidence) < 1:
        needed *= 2
    low = needed // 2
    while needed - low > 1:
        middle = (low + needed) // 2
        fits = _deepest(middle, budget, rows, confidence) >= 1
        low, needed = (low, middle) if fits else (middle, needed)
    sure = "on average" if confidence is None else f"on {confidence:.0%} of the days"
    return (
        f"at most {budget:,} of {rows:,} rows a day {sure} needs at least {needed:,} known rows, "
        f"and there are {known:,}; bring more, or raise the budget."
    )


def _whole(name: str, number: int) -> int:
    if number != int(number) or number < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {number!r}.")
    return int(number)
