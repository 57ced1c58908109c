"""The p-norm over the negatives of their mean loss against the positives, without m n memory.

    h_j = mean_i l(s_j - s_i),    N = (mean_j h_j^p)^(1/p)

with means weighted by the rows' weights. Each function takes the scores s_i of the positives and
s_j of the negatives with both sides' weights, and gives N and its slope in every score.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from reproduce.baselines.pairs import Pair
from toppush.problem.losses import LOSSES, Loss
from toppush.problem.pairwise import PAIR_SUMS
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


def by_pair_sums(name: str) -> PushNorm:
    """For a loss whose sums over pairs are known: O((m + n) log(m + n))."""

    def norm(scores: Pair, weights: Pair, p: float) -> Push:
        share, sums = weights[0] / weights[0].sum(), PAIR_SUMS[name](*scores)
        top = _top_loss(LOSSES[name], scores, share)
        value, pull = _norm(sums.over_positives(share, 0), top, weights, p)
        on_positives = -share * sums.over_negatives(pull, 1)
        return Push(value, on_positives, pull * sums.over_positives(share, 1))

    return norm


PUSH_NORMS: dict[str, PushNorm] = {
    "exponential": exponential,
    "truncated_quadratic": by_pair_sums("truncated_quadratic"),
    "logistic": by_pair_sums("logistic"),
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
