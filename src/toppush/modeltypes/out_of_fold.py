"""Scores of training rows by fits that did not see them, and their calibration."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from toppush.folds.splits import Folds
from toppush.matrices import entries_per_row
from toppush.metrics.quantile_sketch import QuantileSketch, top_levels, translated
from toppush.thresholds.calibration import ScoreScale
from toppush.types import Array, Mask, Matrix

FOLDS = 5
MOST_ENTRIES = 20_000_000
"""Entries of the matrix above which a single fold is held out: one more fit instead of five."""


def learned_scale(
    ranker: Any,
    refit: Any,
    X: Matrix,
    positive: Mask,
    weight: Array | None = None,
    *,
    folds: Folds | None = None,
    seed: int | None = 0,
) -> ScoreScale:
    """Percentiles and probabilities of the scores of a fitted ranker, by held-out rows if possible.

    Parameters
    ----------
    ranker : fitted ranker
    refit : unfitted ranker or None
        Fitted to the folds, if the ranker has no out-of-fold scores.
    X, positive, weight
        The training rows.
    folds : list of pairs of row numbers, optional
        Training and held-out rows; by default five folds, stratified by class.
    seed : int, optional
        Seed of these folds.
    """
    scores = getattr(ranker, "expected_scores_", None)
    scores = getattr(ranker, "out_of_fold_", None) if scores is None else scores
    if scores is None and refit is not None:
        weights = np.ones(len(positive)) if weight is None else np.asarray(weight, np.float64)
        folds = stratified(positive, weights, seed) if folds is None else folds
        most = len(folds) if entries_per_row(X) * len(positive) <= MOST_ENTRIES else 1
        scores = cross_fitted(ranker, refit, X, positive, weights, folds[:most]) if folds else None
    held_out = scores is not None
    scores = np.asarray(ranker.decision_function(X) if scores is None else scores, np.float64)
    known = ~np.isnan(scores)
    known_weight = None if weight is None else weight[known]
    return ScoreScale.learn(
        positive[known],
        scores[known],
        known_weight,
        held_out=held_out,
        calibration=getattr(ranker, "calibration_", None),
    )


def held_out_scores(
    ranker: Any, refit: Any, X: Matrix, positive: Mask, weight: Array | None, seed: int
) -> Array | None:
    """Out-of-fold scores of the training rows, by further fits if needed; None without folds."""
    scores = getattr(ranker, "out_of_fold_", None)
    weights = np.ones(len(positive)) if weight is None else np.asarray(weight, np.float64)
    folds = stratified(positive, weights, seed) if scores is None else []
    if not folds or refit is None:
        return scores
    return cross_fitted(ranker, refit, X, positive, weights, folds)


def stratified(positive: Mask, weights: Array, seed: int | None) -> Folds:
    """Five folds of the rows with a weight, fewer if the rarer class has fewer; none below two."""
    counted = np.flatnonzero(weights > 0.0)
    labels = positive[counted]
    n_folds = min(FOLDS, int(labels.sum()), int((~labels).sum()))
    if n_folds < 2:
        return []
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    return [(counted[train], counted[test]) for train, test in splitter.split(labels, labels)]


def cross_fitted(
    ranker: Any, refit: Any, X: Matrix, positive: Mask, weights: Array, folds: Folds
) -> Array:
    """Out-of-fold scores on the scale of the ranker fitted to all rows; NaN outside the folds.

    Each fit has its own scale, and folds may differ much: on one data set, 16 % of new rows scored
    above the value that 10 % of the unaligned scores exceeded. Scores are mapped so that equal
    quantiles of the fold's training rows coincide.
    """
    held_out, scores = np.full(len(positive), np.nan), ranker.decision_function(X)
    for train, test in folds:
        fold_weights = np.zeros(len(positive))  # zero weights save a copy of the rows
        fold_weights[train] = weights[train]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit to all rows has given them
            fitted = clone(refit).fit(X, positive, sample_weight=fold_weights)
        by_fold = fitted.decision_function(X)
        levels, weight = top_levels(len(train)), weights[train]
        source, target = (
            QuantileSketch.of(values[train], weight, levels=levels) for values in (by_fold, scores)
        )
        held_out[test] = translated(by_fold[test], source, target)
    return held_out
