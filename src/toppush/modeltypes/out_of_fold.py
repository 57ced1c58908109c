"""Scores of training rows by fits that have not seen them, and what scores mean by those."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from toppush.folds.by_column import Folds
from toppush.matrices import entries_per_row
from toppush.metrics.quantile_sketch import Spread, top_levels, translated
from toppush.modeltypes.base import Kind, Ranker
from toppush.thresholds.calibration import ScoreScale
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
    folds: Folds | None = None,
    seed: int | None = 0,
) -> ScoreScale:
    """What the scores of a fitted ranker mean, by rows that it was not fitted to where it can be.

    Parameters
    ----------
    kind : Kind
    ranker : fitted ranker
    X, positive, weight
        What it was fitted to.
    folds : list of pairs of row numbers, optional
        What to train on and what to hold out, for a ranker that has no scores of rows unseen; by
        default five folds, stratified by class.
    seed : int, optional
        What shuffles these.
    """
    scores = getattr(ranker, "expected_scores_", None)
    scores = getattr(ranker, "out_of_fold_", None) if scores is None else scores
    again = kind.again(ranker) if scores is None else None
    if again is not None:
        weights = np.ones(len(positive)) if weight is None else np.asarray(weight, np.float64)
        made = stratified(positive, weights, seed) if folds is None else folds
        most = len(made) if entries_per_row(X) * len(positive) <= MOST_ENTRIES else 1
        scores = cross_fitted(ranker, again, X, positive, weights, made[:most]) if made else None
    held_out = scores is not None
    scores = np.asarray(ranker.decision_function(X) if scores is None else scores, np.float64)
    known = ~np.isnan(scores)
    some = None if weight is None else weight[known]
    return ScoreScale.learn(positive[known], scores[known], some, held_out=held_out)


def held_out_scores(
    kind: Kind, ranker: Ranker, X: Matrix, positive: Mask, weight: Array | None, seed: int
) -> Array | None:
    """Out-of-fold scores of the training rows, by further fits if need be; None without folds."""
    scores = getattr(ranker, "out_of_fold_", None)
    weights = np.ones(len(positive)) if weight is None else np.asarray(weight, np.float64)
    folds = stratified(positive, weights, seed) if scores is None else []
    if not folds or (again := kind.again(ranker)) is None:
        return scores
    return cross_fitted(ranker, again, X, positive, weights, folds)


def stratified(positive: Mask, weights: Array, seed: int | None) -> Folds:
    """Five folds of the rows that count, or as many as the rarer class has rows; none if one."""
    counted = np.flatnonzero(weights > 0.0)
    labels = positive[counted]
    n_folds = min(FOLDS, int(labels.sum()), int((~labels).sum()))
    if n_folds < 2:
        return []
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    return [(counted[train], counted[test]) for train, test in splitter.split(labels, labels)]


def cross_fitted(
    ranker: Any, again: Any, X: Matrix, positive: Mask, weights: Array, folds: Folds
) -> Array:
    """Scores of the rows that folds hold out, by fits to the others; NaN of rows that none does.

    They are in units of a ranker that is fitted to all rows.
    """
    found, scores = np.full(len(positive), np.nan), ranker.decision_function(X)
    for train, test in folds:
        kept = np.zeros(len(positive))  # rows that weigh nothing are not copied away
        kept[train] = weights[train]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit to all rows has said it
            by_fold = clone(again).fit(X, positive, sample_weight=kept).decision_function(X)
        found[test] = _aligned(by_fold, scores, train, test, weights)
    return found


def _aligned(by_fold: Array, scores: Array, train: Where, test: Where, weights: Array) -> Array:
    """Scores of a fold's fit as scores of the fit to all rows.

    Each fit has its own unit, and folds may differ much: on one table, 16 % of new rows scored
    above what 10 % of the unaligned scores were above. Rows that both fits have seen tell how they
    translate: a place among these rows is the same for both.
    """
    levels, weight = top_levels(len(train)), weights[train]
    source, target = (Spread.of(one[train], weight, levels=levels) for one in (by_fold, scores))
    return translated(by_fold[test], source, target)
