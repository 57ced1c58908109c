"""The pairwise push against a smoothed top, its gradient and its curvature, over all pairs.

    L(f) = sum_i c_i sum_j p_j log(1 + exp(f_j - f_i)),   sum_j p_j = 1

over positives i and negatives j of weight c, p_j the part of j in the smoothed top
(`toppush.objectives.level`), held fixed while L is differentiated. It is a sum over positives:
a positive's gradient is at most its weight, as in binary log loss, and the negatives' gradients
sum to those of the positives with the other sign, so learning rates and the regularisers of
leaves act as they do there. A negative at the top of k has a gradient of up to n_pos / k.

This is the formula itself; `toppush.objectives.grid` has it for many pairs.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toppush.objectives.level import depth_of, level, parts_in_top, sigmoid
from toppush.objectives.rows import LabelledRows
from toppush.types import Array

CURVATURE_FLOOR = 1e-6
"""Added to each row's curvature, times its weight: XGBoost drops rows that have none."""


class Push(NamedTuple):
    """Where a boosting round should go, with an entry for each row.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.objectives import label_rows, push
    >>> found = push(np.zeros(4), label_rows([0, 1, 0, 1]), top=1.0)
    >>> found.gradient  # boosting steps against it: positives up, negatives down
    array([ 0.5, -0.5,  0.5, -0.5])
    """

    gradient: NDArray[np.floating]
    curvature: NDArray[np.floating]
    """Second derivative by the row's own score, and the floor."""


class Split(NamedTuple):
    """Scores and weights of positives and negatives, and the negatives' parts in the top."""

    on_positives: Array
    on_negatives: Array
    cost: Array
    share: Array


def split(scores: Array, rows: LabelledRows, top: float, smoothing: float) -> Split:
    """Who is compared with whom, at these scores."""
    weight = np.ones(len(scores)) if rows.weight is None else rows.weight
    positive = rows.positive
    mass, on_negatives = weight[~positive], scores[~positive]
    check_classes(float(weight[positive].sum()), rows.weight_of_negatives)
    depth = depth_of(top, rows.weight_of_negatives, rows.n_negatives)
    at = level(on_negatives, mass, depth, smoothing)
    share = mass * parts_in_top(on_negatives, at, smoothing)
    return Split(scores[positive], on_negatives, weight[positive], share / share.sum())


def check_classes(positives: float, negatives: float) -> None:
    """Refuse rows of one class."""
    if not (positives > 0 and negatives > 0):
        raise ValueError(
            f"The objective compares positives with negatives, and found weight {positives:g} of "
            f"the one and {negatives:g} of the other; give rows of both classes."
        )


def push_of_all_pairs(scores: Array, rows: LabelledRows, top: float, smoothing: float) -> Push:
    """Gradient and curvature of L; n_pos times n_neg operations."""
    found = split(scores, rows, top, smoothing)
    excess = found.on_negatives - found.on_positives[:, None]
    slope = sigmoid(excess)
    bend = slope * sigmoid(-excess)
    gradient, curvature = np.empty(len(scores)), np.empty(len(scores))
    positive = rows.positive
    gradient[positive] = -found.cost * (slope @ found.share)
    gradient[~positive] = found.share * (found.cost @ slope)
    curvature[positive] = found.cost * (bend @ found.share)
    curvature[~positive] = found.share * (found.cost @ bend)
    curvature += CURVATURE_FLOOR if rows.weight is None else CURVATURE_FLOOR * rows.weight
    return Push(gradient, curvature)
