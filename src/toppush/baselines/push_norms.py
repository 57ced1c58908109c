"""The p-norm over the negatives of their mean loss against the positives, without m n memory.

    h_j = mean_i l(s_j - s_i),    N = (mean_j h_j^p)^(1/p)

with means weighted by the rows' weights. Each function takes the scores s_i of the positives and
s_j of the negatives with both sides' weights, and gives N and its slope in every score.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from toppush.baselines.pairs import Pair, row_chunks
from toppush.problem.losses import LOSSES, Loss
from toppush.types import Array


class Push(NamedTuple):
    """The norm and its slopes."""

    value: float
    on_positives: Array
    on_negatives: Array


PushNorm = Callable[[Pair, Pair, float], Push]


def exponential(scores: Pair, weights: Pair, p: float) -> Push:
    """For l = e^t, where h_j = e^(s_j) mean_i e^(-s_i): O(m + n)."""
    (on_pos, on_neg), (pos_weights, neg_weights) = scores, weights
    goods = np.log(pos_weights / pos_weights.sum()) - on_pos
    bads = np.log(neg_weights / neg_weights.sum()) + p * on_neg
    with np.errstate(over="ignore"):  # infinity is the honest value
        value = float(np.exp(logsumexp(goods) + logsumexp(bads) / p))
    if np.isinf(value):
        return Push(value, np.zeros_like(on_pos), np.zeros_like(on_neg))
    return Push(value, -value * softmax(goods), value * softmax(bads))


def truncated_quadratic(scores: Pair, weights: Pair, p: float) -> Push:
    """For l = (1 + t)_+^2, by prefix sums over sorted scores: O((m + n) log(m + n))."""
    middle = float(np.mean(scores[0]))
    on_pos, reach = scores[0] - middle, scores[1] - middle + 1.0
    share = weights[0] / weights[0].sum()
    order = np.argsort(on_pos)
    sorted_pos = on_pos[order]
    below = np.searchsorted(sorted_pos, reach)
    mass, first, second = (
        _prefix(share[order] * power)[below]
        for power in (np.ones(on_pos.size), sorted_pos, sorted_pos**2)
    )
    losses = np.maximum(reach * (reach * mass - 2.0 * first) + second, 0.0)
    value, pull = _norm(losses, _top_loss(LOSSES["truncated_quadratic"], scores, share), weights, p)
    on_negatives = 2.0 * pull * np.maximum(reach * mass - first, 0.0)
    order = np.argsort(-reach)
    above = np.searchsorted(-reach[order], -on_pos)
    mass, first = (_prefix(entry[order])[above] for entry in (pull, pull * reach))
    return Push(value, -2.0 * share * np.maximum(first - on_pos * mass, 0.0), on_negatives)


def logistic(scores: Pair, weights: Pair, p: float) -> Push:
    """For l = log(1 + e^t), some negatives at a time: O(mn) time, O(m + n) memory."""
    loss, (on_pos, on_neg) = LOSSES["logistic"], scores
    share = weights[0] / weights[0].sum()
    losses, slopes = np.empty(on_neg.size), np.empty(on_neg.size)
    for rows in row_chunks(on_neg.size, on_pos.size):
        violation = on_neg[rows, None] - on_pos
        losses[rows] = loss.value(violation) @ share
        slopes[rows] = loss.slope(violation) @ share
    value, pull = _norm(losses, _top_loss(loss, scores, share), weights, p)
    on_positives = np.zeros(on_pos.size)
    for rows in row_chunks(on_neg.size, on_pos.size):
        on_positives += pull[rows] @ loss.slope(on_neg[rows, None] - on_pos)
    return Push(value, -share * on_positives, pull * slopes)


PUSH_NORMS: dict[str, PushNorm] = {
    "exponential": exponential,
    "truncated_quadratic": truncated_quadratic,
    "logistic": logistic,
}


def _top_loss(loss: Loss, scores: Pair, share: Array) -> float:
    """The greatest h_j, that of the highest negative."""
    return float(share @ loss.value(scores[1].max() - scores[0]))


def _norm(losses: Array, top: float, weights: Pair, p: float) -> tuple[float, Array]:
    """The norm and its slope in every h_j; powers are of h_j / top, so none overflows."""
    share = weights[1] / weights[1].sum()
    if not 0.0 < top < np.inf:
        return top, np.zeros_like(losses)
    value = top * float(share @ (losses / top) ** p) ** (1.0 / p)
    return value, share * (losses / value) ** (p - 1.0)


def _prefix(entries: Array) -> Array:
    """Sums of the first 0, 1, 2, ... entries."""
    return np.concatenate(([0.0], np.cumsum(entries)))
