"""The curve of a ranked list: the weight of each class at or above each score.

Every metric of `toppush.metrics` is a function of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toppush.metrics.positive_class import checked_weights, choose
from toppush.types import Array, Mask, Where

Values = Array
"""A metric: a number for one curve, an array for a stack of curves."""
Column = NDArray[Any]
"""Labels or scores, in the data type of the input."""
SLACK = 1 + 1e-12
"""Limits are multiplied by it, because sums of weights such as 0.1 have rounding errors."""


@dataclass(frozen=True)
class TopCurve:
    """Weight at or above each distinct score, from the top of the list down, after a 0.

    Several lists with the same weight of each class can be stacked, one list in each row of
    `true_positives` and `false_positives`; metrics then are arrays.

    Attributes
    ----------
    true_positives : array of shape (..., n_scores + 1)
        Weight of the positives.
    false_positives : array of shape (..., n_scores + 1)
        Weight of the negatives.
    thresholds : array of shape (n_scores + 1,)
        Infinity, then the distinct scores, highest first.

    Examples
    --------
    >>> from toppush.metrics import top_curve
    >>> curve = top_curve([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4])
    >>> curve.n_pos, curve.n_neg
    (2.0, 2.0)
    >>> float(curve.positives_within(3))  # among the first three rows
    2.0
    """

    true_positives: Array
    false_positives: Array
    thresholds: Array

    @cached_property
    def depth(self) -> Array:
        """Length of the list at each threshold."""
        return self.true_positives + self.false_positives

    @property
    def n_pos(self) -> float:
        """Weight of all positives."""
        return float(self.true_positives[..., -1].flat[0])

    @property
    def n_neg(self) -> float:
        """Weight of all negatives."""
        return float(self.false_positives[..., -1].flat[0])

    def positives_within(self, depth: Array | Where | float) -> Values:
        """Positives above each depth, those of a tie in proportion to the part above it."""
        return interpolated(depth, self.depth, self.true_positives)


CURVES: dict[type, Callable[..., TopCurve]] = {}
"""`top_curve` of the types of scores that are registered."""


def register(scores: type, curve: Callable[..., TopCurve]) -> None:
    """Register a type of scores, such as one whose rows are elsewhere, with its `top_curve`.

    The curve may join negatives that no positive separates into one point, because no metric
    depends on their order.

    Examples
    --------
    >>> from toppush.metrics import auc, register, top_curve
    >>> class Scores(list):
    ...     pass
    ...
    >>> def curve_of_scores(y, scores, weight=None, label=None):
    ...     return top_curve(y, list(scores), weight, label)
    ...
    >>> register(Scores, curve_of_scores)
    >>> auc([0, 1, 0, 1], Scores([1, 9, 5, 4]))
    0.75
    """
    CURVES[scores] = curve


def top_curve(
    y_true: ArrayLike,
    y_score: ArrayLike,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
) -> TopCurve:
    """Weight of the positives and negatives at or above each distinct score; O(N log N).

    Parameters
    ----------
    y_true, y_score, sample_weight, pos_label
        As for every metric, see `toppush.metrics.ranking`.

    Examples
    --------
    >>> from toppush.metrics import top_curve
    >>> curve = top_curve([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4])
    >>> curve.thresholds
    array([inf, 0.9, 0.5, 0.4, 0.1])
    >>> curve.true_positives
    array([0., 1., 1., 2., 2.])
    """
    if (registered := CURVES.get(type(y_score))) is not None:
        return registered(y_true, y_score, sample_weight, pos_label)
    return sorted_curve(*read_rows(y_true, y_score, sample_weight, pos_label))


def sorted_curve(positive: Mask, score: Column, weight: Array) -> TopCurve:
    """The curve of rows that were checked and have weights above 0."""
    order = np.argsort(score)[::-1]
    score, positive, weight = score[order], positive[order], weight[order]
    last = np.flatnonzero(np.append(score[1:] != score[:-1], True))
    return TopCurve(
        np.append(0.0, np.cumsum(weight * positive)[last]),
        np.append(0.0, np.cumsum(weight * ~positive)[last]),
        np.append(np.inf, score[last].astype(float)),
    )


def interpolated(at: Array | Where | float, x: Array, y: Array) -> Values:
    """Linear interpolation of y at the places where x, which rises along each list, is `at`."""
    if x.ndim == 1:
        return np.asarray(np.interp(at, x, y))
    return np.stack([np.interp(at, *axes) for axes in zip(x, y, strict=True)])


def read_rows(
    y_true: ArrayLike, y_score: ArrayLike, sample_weight: ArrayLike | None, pos_label: object
) -> tuple[Mask, Column, Array]:
    """Mask of the positives, scores and weights of the rows whose weight is not 0."""
    label, score = np.asarray(y_true), np.asarray(y_score)
    _check_shape("y_true", label, score)
    positive, score = _is_positive(label, pos_label), _as_scores(score)
    if sample_weight is None:
        return positive, score, np.ones(len(score))
    weight = _as_weights(sample_weight, positive)
    kept = weight > 0
    return positive[kept], score[kept], weight[kept]


def _check_shape(name: str, vector: Column, score: Column) -> None:
    if vector.ndim != 1 or vector.shape != score.shape:
        raise ValueError(
            f"{name} has shape {vector.shape} and y_score {score.shape}; "
            "pass vectors with one entry per row."
        )


def _as_scores(score: Column) -> Column:
    if score.dtype.kind not in "biuf":
        try:
            score = score.astype(np.float64, casting="unsafe" if score.dtype == object else "safe")
        except (TypeError, ValueError):
            raise ValueError(
                f"y_score must hold real numbers, got dtype {score.dtype}; convert them first."
            ) from None
    if score.dtype.kind == "f" and (n_missing := np.count_nonzero(np.isnan(score))):
        raise ValueError(f"y_score holds {n_missing} NaN; fill or drop those rows.")
    return score


def _as_weights(sample_weight: ArrayLike, positive: Mask) -> Array:
    weight = checked_weights(sample_weight)
    _check_shape("sample_weight", weight, positive)
    for name, members in (("positives", positive), ("negatives", ~positive)):
        if not weight[members].any():
            raise ValueError(
                f"sample_weight of all {name} is 0; give one of them a weight above 0."
            )
    return weight


def _is_positive(label: Column, pos_label: object) -> Mask:
    try:
        classes = _two_classes(label)
        wanted = choose(
            classes, lambda each: int(np.count_nonzero(label == each)), pos_label,
            option="pos_label",
        )  # fmt: skip
    except TypeError:
        raise ValueError(
            "y_true holds labels that cannot be compared with each other; "
            "drop missing labels and use one type."
        ) from None
    return np.asarray(label == wanted)


def _two_classes(label: Column) -> list[Any]:
    """The two labels, in two passes over the rows."""
    if label.dtype.kind == "f" and np.isnan(label).any():
        raise ValueError("y_true holds NaN; drop or label those rows.")
    others = label[label != label[:1]]
    classes: list[Any] = label[:1].tolist() + others[:1].tolist()
    if len(classes) < 2:
        raise ValueError(f"y_true needs two classes, found {classes}; add rows of the other one.")
    if (third := others[others != others[:1]]).size:
        raise ValueError(
            f"y_true needs two classes, found {classes + third[:1].tolist()} and maybe more; "
            "drop or relabel rows."
        )
    return classes
