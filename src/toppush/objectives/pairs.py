"""The pairwise loss against a smoothed top: its formula, gradient and Hessian over all pairs.

    L(f) = sum_i c_i sum_j p_j log(1 + exp(f_j - f_i)),   sum_j p_j = 1

over positives i and negatives j of weight c. p_j is the share of negative j in the smoothed top,
held constant in the derivatives:

    p_j = c_j sigmoid((f_j - s) / delta) / k    with the level s at which these sum to one

Letters: delta -> smoothing, k -> depth (in units of weight), s -> level. L is a sum over positives:
a positive's gradient is at most its weight, as in binary log loss, and the negatives' gradients
sum to those of the positives with the other sign, so learning rates and the regularisers of
leaves act as they do there. A negative in the top k has a gradient of up to n_pos / k.

`toppush.objectives.grid` computes the same for many pairs.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from toppush.metrics.curve import SLACK
from toppush.types import Array, Mask, Where

HESSIAN_FLOOR = 1e-6
"""Added to each row's second derivative, times its weight: XGBoost drops rows that have none."""
MOST_STEPS = 200
"""Newton takes about five; halving alone ends within these."""
CLOSE, ROUNDING = 1e-10, 1e-15
"""Newton's last step, in units of the smoothing and of the level; its error is their square."""


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows by class; on one of several workers the rows of that worker, of any class.

    Attributes
    ----------
    label : array of int
        1 for a positive, 0 for a negative.
    weight : array or None
        Weight of each row; None if all weigh 1.

    Examples
    --------
    >>> from toppush.objectives import label_rows
    >>> rows = label_rows([1, 0, 0, 1], weight=[1.0, 1.0, 0.5, 2.0])
    >>> rows.n_negatives, rows.weight_of_negatives
    (2, 1.5)
    """

    label: Where
    weight: Array | None = None

    @property
    def positive(self) -> Mask:
        """Which rows are positive."""
        return np.asarray(self.label == 1)

    @cached_property
    def n_negatives(self) -> int:
        """Negatives of weight above 0."""
        negative = self.label == 0
        return int(np.count_nonzero(negative if self.weight is None else self.weight * negative))

    @cached_property
    def weight_of_negatives(self) -> float:
        """Sum of their weights."""
        if self.weight is None:
            return float(self.n_negatives)
        return float(self.weight[self.label == 0].sum())

    @cached_property
    def n_pairs(self) -> int:
        """Positives times negatives."""
        n_pos = int(self.label.sum())
        return n_pos * (len(self.label) - n_pos)


def label_rows(labels: ArrayLike, weight: ArrayLike | None = None) -> LabelledRows:
    """Rows by their labels 0 and 1, or -1 and +1, and weights; an empty weight vector means none.

    One class alone is refused only when gradients are computed: other workers may have the rest.

    Examples
    --------
    >>> from toppush.objectives import label_rows
    >>> label_rows([1, -1, -1, 1]).positive
    array([ True, False, False,  True])
    """
    labels = np.asarray(labels)
    positive = labels == 1
    wrong = ~positive & (labels != 0) & (labels != -1)
    if labels.ndim != 1 or wrong.any() or ((labels == 0).any() and (labels == -1).any()):
        seen = np.unique(labels)[:5].tolist()
        raise ValueError(
            f"The objective needs labels 0 and 1, or -1 and +1, one for each row, found {seen}; "
            "relabel the rows."
        )
    if weight is None or np.size(weight) == 0:
        return LabelledRows(positive.astype(np.intp))
    weight = np.asarray(weight, dtype=np.float64)
    if weight.shape != labels.shape:
        raise ValueError(
            f"There are {weight.size} weights for {labels.size} rows; give one for each row."
        )
    if not (weight.min() >= 0 and weight.max() < np.inf):
        raise ValueError("A weight is negative, infinite or missing; correct it or drop the row.")
    return LabelledRows(positive.astype(np.intp), weight)


def sigmoid(at: Array) -> Array:
    """1 / (1 + exp(-at)), to the last digit on both sides and without overflow."""
    return np.asarray(expit(at))


def depth_of(top: float, weight: float, n_rows: float) -> float:
    """Weight of the negatives in the top: `top` is a count if an int, a share if a float.

    A share is not rounded to whole rows, but is at least one row of mean weight.
    """
    is_count = isinstance(top, int | np.integer)
    depth = float(top) if is_count else max(top * weight, weight / n_rows)
    allowed = 1 <= depth <= weight * SLACK if is_count else 0.0 < top <= 1.0
    if not allowed:
        raise ValueError(
            f"top={top!r} is out of range for negatives of weight {weight:g}; "
            f"give a count from 1 to {math.floor(weight)}, or a share above 0 and at most 1.0."
        )
    return min(depth, weight)


def level(scores: Array, weights: Array, depth: float, smoothing: float) -> float:
    """The s at which weights @ sigmoid((scores - s) / smoothing) is `depth`; -inf for all weight.

    Newton's method on the logit of the share above s, which is linear where scores tie, with
    bisection where a step leaves the bounds given by the least and the greatest score.
    """
    total = float(weights.sum())
    if depth * SLACK >= total:
        return -math.inf
    wanted = math.log(float(depth) / (total - float(depth)))
    low, high = (float(end) - smoothing * wanted for end in (scores.min(), scores.max()))
    at = min(max(_lowest_of_top(scores, weights, depth), low), high)
    for _ in range(MOST_STEPS):
        logit, decrease = _logit_of_share(at, scores, weights, smoothing)
        excess = logit - wanted
        low, high = (at, high) if excess > 0 else (low, at)
        step = excess / decrease if decrease > 0 else math.inf
        new = at + step if low < at + step < high else 0.5 * (low + high)
        if abs(new - at) <= CLOSE * smoothing + ROUNDING * abs(at):
            return new
        at = new
    return at


def _lowest_of_top(scores: Array, weights: Array, depth: float) -> float:
    """The lowest score of the top without smoothing."""
    order = np.argsort(-scores)
    place = int(np.searchsorted(np.cumsum(weights[order]), depth))
    return float(scores[order[min(place, len(order) - 1)]])


def _logit_of_share(
    at: float, scores: Array, weights: Array, smoothing: float
) -> tuple[float, float]:
    """Logit of the share of weight above a level, and its decrease per unit of the level."""
    above = sigmoid((scores - at) / smoothing)
    below = sigmoid((at - scores) / smoothing)
    mass_above, mass_below = float(weights @ above), float(weights @ below)
    if not (mass_above > 0 and mass_below > 0):
        return (math.inf if mass_above > 0 else -math.inf), 0.0
    decrease = float(weights @ (above * below)) / smoothing
    return math.log(mass_above / mass_below), decrease * (1 / mass_above + 1 / mass_below)


def parts_in_top(scores: Array, level: float, smoothing: float) -> Array:
    """sigmoid((scores - level) / smoothing): all of them 1 where the level is -inf."""
    return np.ones_like(scores) if level == -math.inf else sigmoid((scores - level) / smoothing)


class Gradients(NamedTuple):
    """Gradient and second derivatives of a boosting round, with an entry for each row.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.objectives import label_rows, pairwise_gradients
    >>> result = pairwise_gradients(np.zeros(4), label_rows([0, 1, 0, 1]), top=1.0)
    >>> result.gradient  # boosting steps against it: positives up, negatives down
    array([ 0.5, -0.5,  0.5, -0.5])
    """

    gradient: NDArray[np.floating]
    hessian: NDArray[np.floating]
    """Second derivative by the row's own score, plus a small constant."""


def top_shares(scores: Array, rows: LabelledRows, top: float, smoothing: float) -> Array:
    """The share p_j of each negative in the smoothed top; they sum to 1."""
    weight = np.ones(len(scores)) if rows.weight is None else rows.weight
    negatives, mass = scores[~rows.positive], weight[~rows.positive]
    check_classes(float(weight[rows.positive].sum()), rows.weight_of_negatives)
    depth = depth_of(top, rows.weight_of_negatives, rows.n_negatives)
    at = level(negatives, mass, depth, smoothing)
    share = mass * parts_in_top(negatives, at, smoothing)
    return np.asarray(share / share.sum())


def check_classes(positives: float, negatives: float) -> None:
    """Refuse rows of one class, by the weights of both."""
    if not (positives > 0 and negatives > 0):
        raise ValueError(
            f"The objective compares positives with negatives, and found weight {positives:g} of "
            f"the one and {negatives:g} of the other; give rows of both classes."
        )


def gradients_of_all_pairs(
    scores: Array, rows: LabelledRows, top: float, smoothing: float
) -> Gradients:
    """Gradient and second derivatives of L; n_pos times n_neg operations."""
    share, positive = top_shares(scores, rows, top, smoothing), rows.positive
    cost = np.ones(positive.sum()) if rows.weight is None else rows.weight[positive]
    margin = scores[~positive] - scores[positive][:, None]
    first = sigmoid(margin)
    second = first * sigmoid(-margin)
    gradient, hessian = np.empty(len(scores)), np.empty(len(scores))
    gradient[positive] = -cost * (first @ share)
    gradient[~positive] = share * (cost @ first)
    hessian[positive] = cost * (second @ share)
    hessian[~positive] = share * (cost @ second)
    hessian += HESSIAN_FLOOR if rows.weight is None else HESSIAN_FLOOR * rows.weight
    return Gradients(gradient, hessian)
