"""Profit of the first rows of a list, from the value of a positive and the cost of a review.

The profit of the first k rows is the sum over them of value x (is positive) - cost; value and cost
are numbers, or amounts for each row. A list never cuts a tie.

The profit of the best length is optimistic on the rows that chose it. So the expected profit is
cross-validated: the threshold that is best on four of five folds is evaluated on the fifth, and
that is averaged over 20 random assignments of folds. Its interval is that of the profit at the
chosen threshold, with rows drawn as in `toppush.metrics.bootstrap` (the unseen row is a review
without a positive for the lower end, the greatest profit of a row for the upper end), shifted by
the optimism of the choice. `python -m benchmarks.guarantees` simulates both.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from toppush.metrics.bootstrap import ENTRIES, WORK, Interval
from toppush.metrics.curve import read_rows
from toppush.thresholds.guarantees import score_below
from toppush.types import Array, Mask, Where

FOLDS, REPEATS = 5, 20


@dataclass(frozen=True)
class ProfitCurve:
    """Profit of each list that cuts no tie, from the empty list to all rows.

    Attributes
    ----------
    lengths, true_positives, profits : array of shape (n_scores + 1,)
    scores : array of shape (n_scores + 1,)
        The lowest score of each list; infinity for the empty list.
    """

    lengths: Where
    true_positives: Where
    profits: Array
    scores: Array

    @property
    def best(self) -> int:
        """Index of the greatest profit, of the shortest list if there are several."""
        return int(np.argmax(self.profits))


@dataclass(frozen=True)
class BestLength:
    """The list with the greatest profit, and the expected profit of its threshold.

    Attributes
    ----------
    score : float
        Rows with a score above it, not equal to it, are reviewed.
    length, true_positives : int
        Rows of this list above it, and positives among them; 0 if no review pays.
    observed : float
        Its profit on this list, which is optimistic.
    expected : Interval
        Profit of as many new rows with a threshold that is chosen in this way.
    everything : float
        Profit of reviewing all rows.
    """

    score: float
    length: int
    true_positives: int
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
        Value of a positive.
    cost : float or array of shape (n_rows,)
        Cost of a review, of a positive or not.

    Examples
    --------
    >>> from toppush.thresholds.profit import profit_curve
    >>> profit_curve([1, 1, 0, 1, 0], [5, 4, 3, 2, 1], value=3, cost=2).profits.tolist()
    [0.0, 1.0, 2.0, 0.0, 1.0, -1.0]
    """
    positive, score, gain, _ = _sorted_rows(y_true, y_score, value, cost)
    last = _ends(score)
    return ProfitCurve(
        np.append(0, last + 1),
        np.append(0, np.cumsum(positive)[last]),
        _profits(gain, last),
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
    """The list with the greatest profit, and its expected profit on new rows.

    O(n log n + (draws + 100) n) for n rows.

    Parameters
    ----------
    y_true, y_score, value, cost
        As for `profit_curve`.
    confidence : float, default=0.95
    draws : int, optional
        1000, and for more than 200,000 rows fewer, down to 200.
    seed : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.thresholds.profit import best_length
    >>> best = best_length(np.arange(300) % 30 < 3, -(np.arange(300) % 30), value=5, cost=2)
    >>> best.length, best.true_positives, best.observed
    (30, 30, 90.0)
    """
    positive, score, gain, costs = _sorted_rows(y_true, y_score, value, cost)
    curve = profit_curve(positive, score, value=gain + costs, cost=costs)
    end, rng = curve.best, np.random.default_rng(seed)
    observed = float(curve.profits[end])
    honest = _cross_fitted(gain, _ends(score), rng)
    draws = draws or int(np.clip(WORK // len(gain), 200, 1000))
    unseen = -float(costs.max()), float(gain.max())
    worst, best = _drawn(gain[: curve.lengths[end]], len(gain), unseen, draws, rng)
    tail = (1.0 - confidence) / 2
    low, high = (edge + honest - observed for edge in outer_quantiles(worst, best, tail))
    expected = Interval(honest, min(honest, low), max(honest, high))
    return BestLength(
        score_below(curve.scores, end),
        int(curve.lengths[end]),
        int(curve.true_positives[end]),
        observed,
        expected,
        float(curve.profits[-1]),
    )


def outer_quantiles(worst: Array, best: Array, tail: float) -> tuple[float, float]:
    """Quantiles that a further draw exceeds with the probability of the tail."""
    low = np.quantile(worst, tail, method="weibull")
    return float(low), float(np.quantile(best, 1 - tail, method="weibull"))


def _sorted_rows(
    y_true: ArrayLike, y_score: ArrayLike, value: ArrayLike, cost: ArrayLike
) -> tuple[Mask, Array, Array, Array]:
    """Mask of the positives, scores, profits and costs of the rows by descending score."""
    positive, score, _ = read_rows(y_true, y_score, None, None)
    values, costs = amounts("value", value, len(score)), amounts("cost", cost, len(score))
    order = np.argsort(-score.astype(np.float64), kind="stable")
    gain = np.where(positive, values, 0.0) - costs
    return positive[order], score[order].astype(np.float64), gain[order], costs[order]


def amounts(name: str, amount: ArrayLike, n_rows: int) -> Array:
    """A number, or a number for each row, as a number for each row; missing values are refused."""
    values = np.asarray(amount, np.float64)
    if values.ndim and values.shape != (n_rows,):
        raise ValueError(
            f"{name} has shape {values.shape}; pass one number, or one for each of {n_rows} rows."
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{name} has missing or infinite values; fill them or drop those rows.")
    if name == "cost" and (values < 0).any():
        raise ValueError(f"cost must be at least 0, found {values.min():g}; put it into value.")
    return np.broadcast_to(values, (n_rows,))


def _ends(score: Array) -> Where:
    """The last row of each tie."""
    return np.flatnonzero(np.append(score[1:] != score[:-1], True))


def _profits(gain: Array, last: Where) -> Array:
    """Profit of each list that cuts no tie."""
    return np.append(0.0, np.cumsum(gain)[last])


def _cross_fitted(gain: Array, last: Where, rng: np.random.Generator) -> float:
    """Profit of thresholds that are chosen on four folds and evaluated on the fifth."""
    total, everything = 0.0, _profits(gain, last)
    folds = min(FOLDS, len(gain))
    for _ in range(REPEATS):
        fold = rng.permutation(len(gain)) % folds
        for test in range(folds):
            held_out = _profits(np.where(fold == test, gain, 0.0), last)
            total += held_out[np.argmax(everything - held_out)]
    return float(total / REPEATS)


def _drawn(
    gain: Array, n_rows: int, unseen: tuple[float, float], draws: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Profits of a head of the list in populations with one more bad, and one more good row."""
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
