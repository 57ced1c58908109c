"""Scores of training rows by fits that have not seen them, and what scores mean by those."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import _safe_indexing

from toppush.designs.columns import entries_per_row
from toppush.files.kinds.base import Kind, Ranker
from toppush.metrics.calibration import ScoreScale
from toppush.types import Array, Mask, Matrix

FOLDS = 5
MOST_ENTRIES = 20_000_000
"""Values of the rows beyond which one fold alone is held out: one fit more instead of five."""


def learned_scale(
    kind: Kind,
    ranker: Ranker,
    X: Matrix,
    positive: Mask,
    weight: Array | None = None,
    *,
    seed: int | None = 0,
) -> ScoreScale:
    """What the scores of a fitted ranker mean, by rows that it was not fitted to where it can be.

    Parameters
    ----------
    kind : Kind
    ranker : fitted ranker
    X, positive, weight
        What it was fitted to.
    seed : int, optional
        What shuffles the folds of a ranker that has no scores of rows unseen.
    """
    scores = unseen_scores(kind, ranker, X, positive, weight, seed=seed)
    held_out = scores is not None
    scores = ranker.decision_function(X) if scores is None else scores
    known = ~np.isnan(scores)
    some = None if weight is None else weight[known]
    return ScoreScale.learn(positive[known], scores[known], some, held_out=held_out)


def unseen_scores(
    kind: Kind,
    ranker: Any,
    X: Matrix,
    positive: Mask,
    weight: Array | None = None,
    *,
    seed: int | None = 0,
) -> Array | None:
    """Scores by fits that did not see the row, NaN where there is none; None if there are none.

    They are the ranker's own, or by fits to folds with the settings that it has chosen.
    """
    own = getattr(ranker, "out_of_fold_", None)
    if own is not None:
        return np.asarray(own, np.float64)
    again = kind.again(ranker)
    n_folds = min(FOLDS, int(positive.sum()), int((~positive).sum()))
    if again is None or n_folds < 2:
        return None
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    most = n_folds if entries_per_row(X) * len(positive) <= MOST_ENTRIES else 1
    return _by_folds(again, X, positive, weight, folds, most)


def _by_folds(
    again: Any, X: Matrix, positive: Mask, weight: Array | None, folds: StratifiedKFold, most: int
) -> Array:
    """Scores of the rows that each of the first few folds holds out.

    Rows that a fold holds out weigh nothing, so the rest is not copied.
    """
    found = np.full(len(positive), np.nan)
    for at, (_, test) in enumerate(folds.split(np.empty(len(positive)), positive)):
        if at == most:
            break
        weights = np.ones(len(positive)) if weight is None else weight.astype(np.float64)
        weights[test] = 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit to all rows has said it
            fitted = clone(again).fit(X, positive, sample_weight=weights)
        found[test] = fitted.decision_function(_safe_indexing(X, test))
    return found
