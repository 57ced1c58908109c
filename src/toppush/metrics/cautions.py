"""Cautions about rankings: too few positives to trust one, and results too good to be true."""

import warnings
from collections.abc import Mapping

import numpy as np

from toppush.metrics import bootstrap
from toppush.metrics.paired import side_by_side
from toppush.metrics.ranking import average_precision
from toppush.types import Array, Mask

FEW = 30
"""Positives below which a ranking is not to be trusted: the 95 % interval of a recall that is
estimated from 30 positives is up to 36 points wide (1.96 sqrt(.25 / 30) to either side), from 5
positives 88 points."""
PERFECT = 0.9995
"""Average precision that is printed as 1.000."""
FAR_BELOW = 0.8
"""Ratio of the average precision by time to that of shuffled folds, below which is a caution."""
AP = "average_precision"
DRAWS = 200
"""Of the intervals; on many rows they take a second for each ranking."""


def perfect_caution(values: Mapping[str, float]) -> str:
    """What to check where rankings have an average precision of 1.000; empty if none has.

    >>> from toppush.metrics.cautions import perfect_caution
    >>> perfect_caution({"trees": 1.0, "linear": 0.8}).split(",")[0]
    'trees: average precision 1.000'
    """
    names = ", ".join(name for name, value in values.items() if value >= PERFECT)
    if not names:
        return ""
    return (
        f"{names}: average precision 1.000, which is rare on real data. Check whether a column "
        "contains the label or was recorded after it."
    )


def warn_of_perfect(values: Mapping[str, float]) -> None:
    """Give `perfect_caution` as a warning, if there is one."""
    if caution := perfect_caution(values):
        warnings.warn(caution, UserWarning, stacklevel=3)


def out_of_fold_precision(positive: Mask, scores: Array, value: float) -> bootstrap.Interval:
    """The 95 % interval of the average precision of out-of-fold scores, around its value.

    Folds share training rows; simulations show the stated coverage nevertheless
    (benchmarks/leaderboard_coverage.py).
    """
    interval = bootstrap.intervals(positive, scores, {AP: bootstrap.metric_at(AP)}, draws=DRAWS)[AP]
    return bootstrap.Interval(value, min(value, interval.low), max(value, interval.high))


def few_positives(positive: Mask, scores: Array | None = None) -> str | None:
    """Why a ranking cannot be trusted, if it was learned from few positives.

    `scores` are out-of-fold scores of the training rows; NaN where there is none.
    """
    count = int(positive.sum())
    if count >= FEW:
        return None
    return (
        f"the ranking cannot be trusted: it was learned from {count} positives in "
        f"{len(positive):,} rows, and at least {FEW} are needed.{_precision(positive, scores)} "
        "Collect more positives, or check every use of this ranking against labelled rows that it "
        "was not trained on."
    )


def later_rows_caution(positive: Mask, later: Array, shuffled: Array) -> str | None:
    """What to expect if rows are ranked far worse by models of earlier rows than of any rows.

    Parameters
    ----------
    positive : array of bool
    later, shuffled : array of float
        Scores of the same rows by fits to earlier rows, and by fits to any other rows.
    """
    if not positive.any() or positive.all():
        return None
    scores = {"later": later, "shuffled": shuffled}
    both = side_by_side(positive, scores, {AP: bootstrap.metric_at(AP)}, draws=DRAWS)
    value, other = (float(average_precision(positive, each)) for each in scores.values())
    if value > FAR_BELOW * other or both.difference("later", "shuffled", AP).high >= 0.0:
        return None
    return (
        f"fits to earlier rows rank worse (average precision {value:.3f}) than fits to rows of all "
        f"times ({other:.3f}), so the data change over time. Expect the lower figure for later "
        "rows, fit again often, and look for columns whose meaning changes."
    )


def _precision(positive: Mask, scores: Array | None) -> str:
    """Average precision with its interval and that of a random order, if it can be computed."""
    known = np.zeros(len(positive), bool) if scores is None else ~np.isnan(scores)
    if scores is None or len(np.unique(positive[known])) < 2:
        return ""
    labels, own = positive[known], scores[known]
    value = float(average_precision(labels, own))
    interval = out_of_fold_precision(labels, own, value)
    return (
        f" Its out-of-fold average precision is {value:.3f}, with a 95 % interval from "
        f"{interval.low:.3f} to {interval.high:.3f}; that of a random order is about "
        f"{labels.mean():.3f}."
    )
