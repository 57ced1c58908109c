"""Scores of training rows by fits that have not seen them, and what scores mean by those."""

import warnings
from itertools import islice
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from toppush.designs.columns import entries_per_row
from toppush.files.kinds.base import Kind, Ranker
from toppush.metrics.calibration import ScoreScale
from toppush.metrics.spread import Spread, top_levels, translated
from toppush.types import Array, Mask, Matrix, Where

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
    weights = np.ones(len(positive)) if weight is None else np.asarray(weight, np.float64)
    counted = positive[weights > 0.0]
    n_folds = min(FOLDS, int(counted.sum()), int((~counted).sum()))
    if again is None or n_folds < 2:
        return None
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    most = n_folds if entries_per_row(X) * len(positive) <= MOST_ENTRIES else 1
    return cross_fitted(ranker, again, X, positive, weights, folds, most)


def cross_fitted(
    ranker: Any,
    again: Any,
    X: Matrix,
    positive: Mask,
    weights: Array,
    folds: StratifiedKFold,
    most: int,
) -> Array:
    """Scores of rows by fits to the other folds, in units of a ranker that is fitted to all.

    The first few folds are held out, one after another; rows of weight 0 are in none.
    """
    found, scores = np.full(len(positive), np.nan), ranker.decision_function(X)
    counted = np.flatnonzero(weights > 0.0)
    for train, test in islice(folds.split(counted, positive[counted]), most):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit to all rows has said it
            by_fold = _fold_scores(clone(again), X, positive, weights, counted[test])
        both = by_fold, scores
        found[counted[test]] = _aligned(*both, counted[train], counted[test], weights)
    return found


def _fold_scores(fold: Any, X: Matrix, positive: Mask, weights: Array, test: Where) -> Array:
    """Scores of all rows by a fit to some; those held out weigh nothing, so none are copied."""
    kept = weights.copy()
    kept[test] = 0.0
    scores: Array = fold.fit(X, positive, sample_weight=kept).decision_function(X)
    return scores


def _aligned(by_fold: Array, scores: Array, train: Where, test: Where, weights: Array) -> Array:
    """Scores of a fold's fit as scores of the fit to all rows.

    Each fit has its own unit, and folds may differ much: on one table, 16 % of new rows scored
    above what 10 % of the unaligned scores were above. Rows that both fits have seen tell how they
    translate: a place among these rows is the same for both.
    """
    levels, weight = top_levels(len(train)), weights[train]
    source, target = (Spread.of(one[train], weight, levels=levels) for one in (by_fold, scores))
    return translated(by_fold[test], source, target)
