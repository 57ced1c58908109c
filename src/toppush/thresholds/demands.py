"""Thresholds for several demands on one ranking: guarantees, a review budget, the most profit.

An answer without a score says why there is none, and how many rows would be needed.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from toppush.metrics.bootstrap import Interval
from toppush.metrics.positive_class import as_mask
from toppush.thresholds.budgets import Forecast, future_count, threshold_for_budget
from toppush.thresholds.guarantees import (
    NoGuarantee,
    threshold_at_fpr,
    threshold_at_precision,
    threshold_at_recall,
)
from toppush.thresholds.profit import best_length
from toppush.types import Array, Mask


@dataclass(frozen=True, eq=False)
class Demands:
    """Demands on a threshold; those that are None are not made.

    Attributes
    ----------
    fpr, precision, recall : float, optional
        To be guaranteed with `confidence`.
    per_day, rows_per_day : int, optional
        Daily review budget, and number of rows on a day.
    value, cost : float or array of shape (n_rows,), optional
        Value of a positive, and cost of a review.
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

    `wanted` is the demand in words, of the kind "fpr", "precision", "recall", "per_day" or
    "profit", and `level` its number. Rows with a score above `score`, not equal to it, are
    taken; the next six fields describe those of this list and of a day. `profit` is the
    expected profit of as many new rows, `profit_per_day` that of a day's rows, and
    `observed_profit` that of these rows above the score, `everything` of all of them. `why`
    says why there is no score.
    """

    wanted: str
    kind: str
    level: float | None
    confidence: float | None
    score: float | None = None
    rows: int = 0
    true_positives: int = 0
    precision: float | None = None
    recall: float | None = None
    fpr: float | None = None
    rows_per_day: Forecast | None = None
    positives_per_day: Forecast | None = None
    profit: Interval | None = None
    profit_per_day: Interval | None = None
    observed_profit: float | None = None
    everything: float | None = None
    why: str = ""


GUARANTEES = {
    "fpr": "false positives <= {}",
    "precision": "precision >= {}",
    "recall": "recall >= {}",
}
"""What can be guaranteed, in words."""


def answers(y_true: ArrayLike, y_score: ArrayLike, demands: Demands) -> list[Answer]:
    """A threshold for each demand, in the order of `Demands`.

    `per_day` has two: the budget suffices on average, and with the confidence.

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
    >>> for answer in answers(good, -np.arange(1000.0), Demands(precision=0.9, recall=0.8)):
    ...     print(answer.wanted, answer.rows)
    precision >= 90% 172
    recall >= 80% 170
    """
    positive, scores = as_mask(y_true), np.asarray(y_score, np.float64)
    sure = demands.confidence
    wanted = [
        Answer(words.format(percent(level)), kind, level, sure)
        for kind, words in GUARANTEES.items()
        if (level := getattr(demands, kind)) is not None
    ]
    if demands.per_day is not None and demands.rows_per_day is not None:
        for confidence, often in ((None, "on average"), (sure, f"on {percent(sure)} of days")):
            words = f"<= {demands.per_day:,} a day {often}"
            wanted.append(Answer(words, "per_day", demands.per_day, confidence))
    answered = []
    for answer in wanted:
        try:
            score = _threshold(answer, positive, scores, demands)
            answered.append(replace(answer, score=score))
        except NoGuarantee as error:
            answered.append(replace(answer, why=str(error)))
    if demands.value is not None and demands.cost is not None:
        answered.append(_most_profit(positive, scores, demands))
    return [_counted(answer, positive, scores, demands) for answer in answered]


def _threshold(answer: Answer, positive: Mask, scores: Array, demands: Demands) -> float:
    """The score of a guarantee or a budget; `NoGuarantee` if there is none."""
    level, sure = answer.level, demands.confidence
    assert level is not None
    if answer.kind == "fpr":
        return threshold_at_fpr(scores[~positive], max_fpr=level, confidence=sure).score
    if answer.kind == "precision":
        return threshold_at_precision(positive, scores, min_precision=level, confidence=sure).score
    if answer.kind == "recall":
        return threshold_at_recall(positive, scores, min_recall=level, confidence=sure).score
    assert demands.per_day is not None
    assert demands.rows_per_day is not None
    return threshold_for_budget(
        scores,
        budget=demands.per_day,
        rows_per_day=demands.rows_per_day,
        confidence=answer.confidence,
    ).score


def percent(fraction: float) -> str:
    """A fraction as it was typed.

    >>> from toppush.thresholds.demands import percent
    >>> percent(0.9), percent(0.001)
    ('90%', '0.1%')
    """
    return f"{100 * fraction:.6g}%"


def _most_profit(positive: Mask, scores: Array, demands: Demands) -> Answer:
    assert demands.value is not None
    assert demands.cost is not None
    best = best_length(
        positive,
        scores,
        value=demands.value,
        cost=demands.cost,
        confidence=demands.confidence,
        seed=demands.seed,
    )
    per_day = None
    if demands.rows_per_day is not None:
        ends = best.expected.value, best.expected.low, best.expected.high
        per_day = Interval(*(profit * demands.rows_per_day / len(scores) for profit in ends))
    return Answer(
        "greatest profit",
        "profit",
        None,
        demands.confidence,
        best.score,
        profit=best.expected,
        profit_per_day=per_day,
        observed_profit=best.observed,
        everything=best.everything,
    )


def _counted(answer: Answer, positive: Mask, scores: Array, demands: Demands) -> Answer:
    """An answer with the rows above its score, in this list and on a day."""
    if answer.score is None:
        return answer
    above = scores > answer.score
    rows, true_positives, n_pos = (int(m.sum()) for m in (above, above & positive, positive))
    day: list[Forecast | None] = [None, None]
    if demands.rows_per_day is not None:
        day = [
            future_count(count, len(scores), demands.rows_per_day, demands.confidence)
            for count in (rows, true_positives)
        ]
    return replace(
        answer,
        rows=rows,
        true_positives=true_positives,
        precision=true_positives / rows if rows else None,
        recall=true_positives / n_pos if n_pos else None,
        fpr=(rows - true_positives) / (len(scores) - n_pos) if n_pos < len(scores) else None,
        rows_per_day=day[0],
        positives_per_day=day[1],
    )
