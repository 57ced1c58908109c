"""How far out-of-fold scores can be trusted: intervals of their quality, and too few positives."""

import numpy as np

from toppush.metrics import bootstrap
from toppush.metrics.measures import average_precision
from toppush.types import Array, Mask

FEW = 30
"""Positives below which a ranking is not to be trusted: the 95 % interval of a recall that is
judged by 30 positives is up to 36 points wide (1.96 sqrt(.25 / 30) to either side), of 5 positives
88 points."""
AP = "average_precision"
DRAWS = 200
"""Of the intervals; on many rows they take a second for each ranking."""
WIDER = 2**0.5
"""Factor on the half-widths of intervals, which take out-of-fold scores as those of one model. Two
folds learn from each other's rows, so a coincidence between them counts twice: the variance at most
doubles. Simulated by benchmarks/leaderboard_coverage.py."""


def widened(interval: bootstrap.Interval) -> bootstrap.Interval:
    """An interval that allows for folds that share training rows, see `WIDER`."""
    value = interval.value
    low, high = (value + WIDER * (end - value) for end in (interval.low, interval.high))
    return bootstrap.Interval(value, low, high)


def out_of_fold_precision(positive: Mask, scores: Array, value: float) -> bootstrap.Interval:
    """The 95 % interval of the average precision of out-of-fold scores, around its value."""
    found = bootstrap.intervals(positive, scores, {AP: bootstrap.measure(AP)}, draws=DRAWS)[AP]
    wider = widened(bootstrap.Interval(value, min(value, found.low), max(value, found.high)))
    return bootstrap.Interval(value, max(wider.low, 0.0), min(wider.high, 1.0))


def few_positives(positive: Mask, scores: Array | None = None) -> str | None:
    """Why a ranking cannot be trusted, if it was learned from few positives.

    Parameters
    ----------
    positive : array of bool
        Of the training rows.
    scores : array, optional
        Out-of-fold scores of these rows; NaN where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.metrics.trust import few_positives
    >>> few_positives(np.arange(100) < 30) is None
    True
    """
    count = int(positive.sum())
    if count >= FEW:
        return None
    return (
        f"the ranking cannot be trusted: it was learned from {count} positives in "
        f"{len(positive):,} rows, and at least {FEW} are needed.{_measured(positive, scores)} "
        "Collect more positives, or check every use of this ranking against labelled rows that it "
        "was not trained on."
    )


def _measured(positive: Mask, scores: Array | None) -> str:
    """Average precision with its interval, compared with a random order, if it can be measured."""
    known = np.zeros(len(positive), bool) if scores is None else ~np.isnan(scores)
    if scores is None or len(np.unique(positive[known])) < 2:
        return ""
    judged, own = positive[known], scores[known]
    value = float(average_precision(judged, own))
    found = out_of_fold_precision(judged, own, value)
    return (
        f" Its out-of-fold average precision is {value:.3f}, with a 95 % interval from "
        f"{found.low:.3f} to {found.high:.3f}; of a random order it is about {judged.mean():.3f}."
    )
