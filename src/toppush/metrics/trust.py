"""How far out-of-fold scores can be trusted: intervals of their quality, and too few positives."""

import numpy as np

from toppush.metrics import bootstrap
from toppush.metrics.ranking import average_precision
from toppush.types import Array, Mask

FEW = 30
"""Positives below which a ranking is not to be trusted: the 95 % interval of a recall that is
judged by 30 positives is up to 36 points wide (1.96 sqrt(.25 / 30) to either side), of 5 positives
88 points."""
AP = "average_precision"
DRAWS = 200
"""Of the intervals; on many rows they take a second for each ranking."""


def out_of_fold_precision(positive: Mask, scores: Array, value: float) -> bootstrap.Interval:
    """The 95 % interval of the average precision of out-of-fold scores, around its value.

    Folds share training rows; simulations show the stated coverage nevertheless
    (benchmarks/leaderboard_coverage.py).
    """
    found = bootstrap.intervals(positive, scores, {AP: bootstrap.measure(AP)}, draws=DRAWS)[AP]
    return bootstrap.Interval(value, min(value, found.low), max(value, found.high))


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
