"""What a list is worth: a hit has a value, a look has a cost, and somewhere it pays to stop.

The profit of the first k rows is the sum over them of value x (is a hit) - cost; value and cost are
numbers, or amounts of each row. A list ends where no tie is cut.

The length with the greatest profit looks better on the rows that chose it than it is. So what is
expected of it is measured on rows that had no part in the choice: the rows are dealt into five
folds, the best threshold of four folds is measured on the fifth, and that is repeated with 20 deals
and averaged. Its interval is that of the profit at the chosen threshold, with rows drawn as in
`toppush.metrics.bootstrap` (one more row, not seen: for the lower end a look without a hit, for the
upper end the greatest profit of a row), moved by as much as the choice flatters.
`python -m benchmarks.guarantees` simulates both.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from toppush.metrics.bootstrap import ENTRIES, WORK, Interval
from toppush.metrics.curve import read_rows
from toppush.thresholds.guarantees import score_below
from toppush.types import Array, Mask, Where

__all__ = ["BestLength", "ProfitCurve", "best_length", "profit_curve"]

FOLDS = 5
DEALS = 20


@dataclass(frozen=True)
class ProfitCurve:
    """Profit of each list that cuts no tie, from the empty one to that of all rows.

    Attributes
    ----------
    lengths, hits, profits : array of shape (n_scores + 1,)
    scores : array of shape (n_scores + 1,)
        The lowest score on each list; infinity for the empty one.
    """

    lengths: Where
    hits: Where
    profits: Array
    scores: Array

    @property
    def best(self) -> int:
        """Which list has the greatest profit; the shortest of equals."""
        return int(np.argmax(self.profits))


@dataclass(frozen=True)
class BestLength:
    """The list with the greatest profit, and what may be expected of its threshold.

    Attributes
    ----------
    score : float
        Rows with a score above it, not equal to it, are looked at.
    length, hits : int
        Rows of this list above it, and positives among them; 0 if no look pays.
    observed : float
        Its profit on this list, which flatters.
    expected : Interval
        Profit of as many new rows with a threshold that is chosen like this one.
    everything : float
        Profit of looking at all rows.
    """

    score: float
    length: int
    hits: int
    observed: float
    expected: Interval
    everything: float


def profit_curve(
    y_true: ArrayLike, y_score: ArrayLike, *, value: ArrayLike, cost: ArrayLike
) -> ProfitCurve:
    """Profit against list length; O(n log n) for n rows.

    Parameters
    ----------
    y_true : array of bool
        Which rows are positive.
    y_score : array
    value : float or array of shape (n_rows,)
        What a hit is worth.
    cost : float or array of shape (n_rows,)
        What a look costs, at a hit or not.

    Returns
    -------
    ProfitCurve

    Examples
    --------
    >>> from toppush.thresholds.profit import profit_curve
    >>> profit_curve([1, 1, 0, 1, 0], [5, 4, 3, 2, 1], value=3, cost=2).profits.tolist()
    [0.0, 1.0, 2.0, 0.0, 1.0, -1.0]
    """
    positive, score, gain, _ = _listed(y_true, y_score, value, cost)
    last = _ends(score)
    return ProfitCurve(
        np.append(0, last + 1),
        np.append(0, np.cumsum(positive)[last]),
        _sums(gain, last),
        np.append(np.inf, score[last]),
    )


def best_length(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    value: ArrayLike,
    cost: ArrayLike,
    confidence: float = 0.95,
    draws: int | None = None,
    seed: int = 0,
) -> BestLength:
    """The list with the greatest profit, and what to expect of it on new rows.

    O(n log n + (draws + 100) n) for n rows.

    Parameters
    ----------
    y_true, y_score, value, cost
        As for `profit_curve`.
    confidence : float, default=0.95
    draws : int, optional
        1000, and for more than 200,000 rows fewer, down to 200.
    seed : int, default=0

    Returns
    -------
    BestLength

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.thresholds.profit import best_length
    >>> found = best_length(np.arange(300) % 30 < 3, -(np.arange(300) % 30), value=5, cost=2)
    >>> found.length, found.hits, found.observed
    (30, 30, 90.0)
    """
    positive, score, gain, costs = _listed(y_true, y_score, value, cost)
    curve = profit_curve(positive, score, value=gain + costs, cost=costs)
    end, rng = curve.best, np.random.default_rng(seed)
    observed = float(curve.profits[end])
    honest = _cross_fitted(gain, _ends(score), rng)
    draws = draws or int(np.clip(WORK // len(gain), 200, 1000))
    unseen = -float(costs.max()), float(gain.max())
    worst, best = _drawn(gain[: curve.lengths[end]], len(gain), unseen, draws, rng)
    tail = (1.0 - confidence) / 2
    low, high = (end + honest - observed for end in outer_quantiles(worst, best, tail))
    expected = Interval(honest, min(honest, low), max(honest, high))
    return BestLength(
        score_below(curve.scores, end),
        int(curve.lengths[end]),
        int(curve.hits[end]),
        observed,
        expected,
        float(curve.profits[-1]),
    )


def outer_quantiles(worst: Array, best: Array, tail: float) -> tuple[float, float]:
    """Ends that a further draw exceeds with the probability of the tail, however few there are."""
    low = np.quantile(worst, tail, method="weibull")
    return float(low), float(np.quantile(best, 1 - tail, method="weibull"))


def _listed(
    y_true: ArrayLike, y_score: ArrayLike, value: ArrayLike, cost: ArrayLike
) -> tuple[Mask, Array, Array, Array]:
    """Rows by falling score: which are hits, scores, and what a look at each brings and costs."""
    positive, score, _ = read_rows(y_true, y_score, None, None)
    worth, costs = (
        amounts(name, given, len(score)) for name, given in (("value", value), ("cost", cost))
    )
    order = np.argsort(-score.astype(np.float64), kind="stable")
    gain = np.where(positive, worth, 0.0) - costs
    return positive[order], score[order].astype(np.float64), gain[order], costs[order]


def amounts(name: str, given: ArrayLike, n_rows: int) -> Array:
    """One number, or one for each row, as one for each row; gaps are refused."""
    found = np.asarray(given, np.float64)
    if found.ndim and found.shape != (n_rows,):
        raise ValueError(
            f"{name} has shape {found.shape}; pass one number, or one for each of {n_rows} rows."
        )
    if not np.isfinite(found).all():
        raise ValueError(f"{name} holds gaps or infinite amounts; fill them or drop those rows.")
    if name == "cost" and (found < 0).any():
        raise ValueError(f"cost must be at least 0, found {found.min():g}; put it into value.")
    return np.broadcast_to(found, (n_rows,))


def _ends(score: Array) -> Where:
    """The last row of each tie."""
    return np.flatnonzero(np.append(score[1:] != score[:-1], True))


def _sums(gain: Array, last: Where) -> Array:
    return np.append(0.0, np.cumsum(gain)[last])


def _cross_fitted(gain: Array, last: Where, rng: np.random.Generator) -> float:
    """Profit of thresholds that are chosen by four folds and measured on the fifth."""
    total, everything = 0.0, _sums(gain, last)
    folds = min(FOLDS, len(gain))
    for _ in range(DEALS):
        fold = rng.permutation(len(gain)) % folds
        for one in range(folds):
            held = _sums(np.where(fold == one, gain, 0.0), last)
            total += held[np.argmax(everything - held)]
    return float(total / DEALS)


def _drawn(
    gain: Array, n_rows: int, unseen: tuple[float, float], draws: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Profits of a head of the list in populations with a bad and with a good row more."""
    seen = np.empty(draws)
    below = rng.standard_gamma(n_rows - len(gain), draws)
    extra, above = rng.standard_exponential(draws), np.empty(draws)
    at_a_time = max(1, ENTRIES // max(len(gain), 1))
    for start in range(0, draws, at_a_time):
        now = slice(start, min(start + at_a_time, draws))
        weights = rng.standard_exponential((now.stop - start, len(gain)))
        seen[now], above[now] = weights @ gain, weights.sum(axis=1)
    scale = n_rows / (above + below + extra)
    return (seen + unseen[0] * extra) * scale, (seen + unseen[1] * extra) * scale
