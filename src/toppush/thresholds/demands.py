"""Everything that is asked of one list, answered in one form: a threshold and what is above it.

An answer without a score says why there is none, and how many rows would be needed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from toppush.metrics.bootstrap import Interval
from toppush.metrics.positive import as_mask
from toppush.thresholds.budgets import Forecast, future_count, threshold_for_budget
from toppush.thresholds.guarantees import (
    NoGuarantee,
    threshold_at_fpr,
    threshold_at_precision,
    threshold_at_recall,
)
from toppush.thresholds.profit import best_length
from toppush.types import Array, Mask

__all__ = ["Answer", "Demands", "answers"]


@dataclass(frozen=True, eq=False)
class Demands:
    """What is asked; None is not asked.

    Attributes
    ----------
    fpr, precision, recall : float, optional
        To be promised with `confidence`.
    per_day, rows_per_day : int, optional
        A budget of looks, and how many rows come on a day.
    value, cost : float or array of shape (n_rows,), optional
        What a hit is worth, and what a look costs.
    """

    fpr: float | None = None
    precision: float | None = None
    recall: float | None = None
    per_day: int | None = None
    rows_per_day: int | None = None
    value: ArrayLike | None = None
    cost: ArrayLike | None = None
    confidence: float = 0.95
    seed: int = 0


@dataclass(frozen=True)
class Answer:
    """A threshold for one demand, or why there is none.

    Attributes
    ----------
    wanted : str
        The demand in words.
    kind : str
        "fpr", "precision", "recall", "per_day" or "profit".
    level : float or None
        The number that was asked for.
    confidence : float or None
        Of the promise; None if none is made.
    score : float or None
        Rows with a score above it, not equal to it, are taken.
    rows, hits : int
        Rows of this list above it, and positives among them.
    precision, recall, fpr : float or None
        Of this list.
    rows_per_day, hits_per_day : Forecast or None
        What a day brings above it.
    profit : Interval or None
        Profit that is expected of as many new rows.
    profit_per_day : Interval or None
        The same of a day's rows, in the mean over days.
    observed_profit, everything : float or None
        Profit of these rows above the score, and of all of them.
    why : str
        Why there is no score.
    """

    wanted: str
    kind: str
    level: float | None
    confidence: float | None
    score: float | None = None
    rows: int = 0
    hits: int = 0
    precision: float | None = None
    recall: float | None = None
    fpr: float | None = None
    rows_per_day: Forecast | None = None
    hits_per_day: Forecast | None = None
    profit: Interval | None = None
    profit_per_day: Interval | None = None
    observed_profit: float | None = None
    everything: float | None = None
    why: str = ""


PROMISES: dict[str, tuple[str, Callable[[Mask, Array, float, float], float]]] = {
    "fpr": (
        "false positives <= {}",
        lambda positive, scores, rate, sure: (
            threshold_at_fpr(scores[~positive], max_fpr=rate, confidence=sure).score
        ),
    ),
    "precision": (
        "precision >= {}",
        lambda positive, scores, share, sure: (
            threshold_at_precision(positive, scores, min_precision=share, confidence=sure).score
        ),
    ),
    "recall": (
        "recall >= {}",
        lambda positive, scores, share, sure: (
            threshold_at_recall(positive, scores, min_recall=share, confidence=sure).score
        ),
    ),
}
"""What can be promised: in words, and the score from the rows, the level and the confidence."""


def answers(y_true: ArrayLike, y_score: ArrayLike, demands: Demands) -> list[Answer]:
    """An answer to each demand, in the order of `Demands`; to `per_day` two, of which one is sure.

    Parameters
    ----------
    y_true : array of bool
        Which rows are positive; the model was fitted to none of them.
    y_score : array
    demands : Demands

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.thresholds.demands import Demands, answers
    >>> good = np.arange(1000) < 200
    >>> for one in answers(good, -np.arange(1000.0), Demands(precision=0.9, recall=0.8)):
    ...     print(one.wanted, one.rows)
    precision >= 90% 172
    recall >= 80% 170
    """
    positive, scores = as_mask(y_true), np.asarray(y_score, np.float64)
    found = [
        _promised(kind, level, positive, scores, demands.confidence)
        for kind in PROMISES
        if (level := getattr(demands, kind)) is not None
    ]
    if demands.per_day is not None and demands.rows_per_day is not None:
        given = demands.per_day, demands.rows_per_day
        found += [_daily(scores, *given, sure) for sure in (None, demands.confidence)]
    if demands.value is not None and demands.cost is not None:
        found.append(_most_profit(positive, scores, demands))
    return [_counted(one, positive, scores, demands) for one in found]


def _promised(kind: str, level: float, positive: Mask, scores: Array, sure: float) -> Answer:
    words, find = PROMISES[kind]
    asked = Answer(words.format(percent(level)), kind, level, sure)
    try:
        return replace(asked, score=find(positive, scores, level, sure))
    except NoGuarantee as error:
        return replace(asked, why=str(error))


def percent(share: float) -> str:
    """A share as it was asked for.

    >>> from toppush.thresholds.demands import percent
    >>> percent(0.9), percent(0.001)
    ('90%', '0.1%')
    """
    return f"{100 * share:.6g}%"


def _daily(scores: Array, budget: int, rows: int, sure: float | None) -> Answer:
    often = "on average" if sure is None else f"on {percent(sure)} of days"
    asked = Answer(f"<= {budget:,} a day {often}", "per_day", budget, sure)
    try:
        found = threshold_for_budget(scores, budget=budget, rows_per_day=rows, confidence=sure)
        return replace(asked, score=found.score)
    except NoGuarantee as error:
        return replace(asked, why=str(error))


def _most_profit(positive: Mask, scores: Array, demands: Demands) -> Answer:
    assert demands.value is not None
    assert demands.cost is not None
    found = best_length(
        positive,
        scores,
        value=demands.value,
        cost=demands.cost,
        confidence=demands.confidence,
        seed=demands.seed,
    )
    return Answer(
        "greatest profit",
        "profit",
        None,
        demands.confidence,
        found.score,
        profit=found.expected,
        profit_per_day=_per_day(found.expected, len(scores), demands.rows_per_day),
        observed_profit=found.observed,
        everything=found.everything,
    )


def _per_day(profit: Interval, n_rows: int, rows_per_day: int | None) -> Interval | None:
    if rows_per_day is None:
        return None
    return Interval(
        *(one * rows_per_day / n_rows for one in (profit.value, profit.low, profit.high))
    )


def _counted(answer: Answer, positive: Mask, scores: Array, demands: Demands) -> Answer:
    """An answer with what is above its score, here and on a day."""
    if answer.score is None:
        return answer
    above = scores > answer.score
    rows, hits, n_pos = (int(one.sum()) for one in (above, above & positive, positive))
    day: list[Forecast | None] = [None, None]
    if demands.rows_per_day is not None:
        day = [
            future_count(count, len(scores), demands.rows_per_day, demands.confidence)
            for count in (rows, hits)
        ]
    return replace(
        answer,
        rows=rows,
        hits=hits,
        precision=hits / rows if rows else None,
        recall=hits / n_pos if n_pos else None,
        fpr=(rows - hits) / (len(scores) - n_pos) if n_pos < len(scores) else None,
        rows_per_day=day[0],
        hits_per_day=day[1],
    )
