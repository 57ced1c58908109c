"""The curve of a ranked list: the weight of each class at or above each score.

Every measure of `toppush.metrics` is a function of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toppush.metrics.positive import choose
from toppush.metrics.weights import checked_weights
from toppush.types import Array, Mask, Where

Values = Array
"""Of each list of a stack; of one list a number."""
Column = NDArray[Any]
"""Labels or scores, of the type that they came with."""

# Sums of weights such as 0.1 end a few rounding errors off; no limit should turn on those.
SLACK = 1 + 1e-12


@dataclass(frozen=True)
class TopCurve:
    """Weight at or above each distinct score, from the top of the list down, after a 0.

    A stack of lists with the same weight of each class, one list a row of `hits` and `alarms`,
    has a stack of measures.

    Attributes
    ----------
    hits : array of shape (..., n_scores + 1)
        Weight of the positives.
    alarms : array of shape (..., n_scores + 1)
        Weight of the negatives.
    thresholds : array of shape (n_scores + 1,)
        The distinct scores, highest first, after infinity, at which nothing is above.

    Examples
    --------
    >>> from toppush.metrics import top_curve
    >>> curve = top_curve([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4])
    >>> curve.n_pos, curve.n_neg
    (2.0, 2.0)
    >>> float(curve.hits_within(3))  # positives among the first three rows
    2.0
    """

    hits: Array
    alarms: Array
    thresholds: Array

    @cached_property
    def depth(self) -> Array:
        """Length of the list at each threshold."""
        return self.hits + self.alarms

    @property
    def n_pos(self) -> float:
        """Weight of all positives."""
        return float(self.hits[..., -1].flat[0])

    @property
    def n_neg(self) -> float:
        """Weight of all negatives."""
        return float(self.alarms[..., -1].flat[0])

    def hits_within(self, depth: Array | Where | float) -> Values:
        """Positives above each depth, those of a tie in proportion to the part above it."""
        return between(depth, self.depth, self.hits)


KINDS: dict[type, Callable[..., TopCurve]] = {}
"""Kinds of scores that are elsewhere, and their `top_curve`."""


def register(kind: type, curve: Callable[..., TopCurve]) -> None:
    """Let lists whose scores are of another kind be measured; `curve` is their `top_curve`.

    It may join negatives that no positive separates into one point: no measure tells them apart.

    Examples
    --------
    >>> from toppush.metrics import auc, register, top_curve
    >>> class Points(list):
    ...     pass
    ...
    >>> def curve_of_points(y, points, weight=None, label=None):
    ...     return top_curve(y, list(points), weight, label)
    ...
    >>> register(Points, curve_of_points)
    >>> auc([0, 1, 0, 1], Points([1, 9, 5, 4]))
    0.75
    """
    KINDS[kind] = curve


def top_curve(
    y_true: ArrayLike,
    y_score: ArrayLike,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
) -> TopCurve:
    """Positives and negatives at or above each distinct score.

    O(N log N) for N rows.

    Parameters
    ----------
    y_true, y_score, sample_weight, pos_label
        The list, as at the head of `toppush.metrics.ranking`.

    Examples
    --------
    >>> from toppush.metrics import top_curve
    >>> curve = top_curve([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4])
    >>> curve.thresholds
    array([inf, 0.9, 0.5, 0.4, 0.1])
    >>> curve.hits
    array([0., 1., 1., 2., 2.])
    """
    if (elsewhere := KINDS.get(type(y_score))) is not None:
        return elsewhere(y_true, y_score, sample_weight, pos_label)
    return curve_of(*read_rows(y_true, y_score, sample_weight, pos_label))


def curve_of(positive: Mask, score: Column, weight: Array) -> TopCurve:
    """The same of rows that need no check; each has a weight above 0."""
    order = np.argsort(score)[::-1]
    score, positive, weight = score[order], positive[order], weight[order]
    last = np.flatnonzero(np.append(score[1:] != score[:-1], True))
    hits = np.cumsum(weight * positive)[last]
    alarms = np.cumsum(weight * ~positive)[last]
    return TopCurve(
        np.append(0.0, hits), np.append(0.0, alarms), np.append(np.inf, score[last].astype(float))
    )


def between(at: Array | Where | float, x: Array, y: Array) -> Values:
    """Value of y where x, which rises along each list, reaches `at`; straight in between."""
    if x.ndim == 1:
        return np.asarray(np.interp(at, x, y))
    return np.stack([np.interp(at, *one) for one in zip(x, y, strict=True)])


def read_rows(
    y_true: ArrayLike, y_score: ArrayLike, sample_weight: ArrayLike | None, pos_label: object
) -> tuple[Mask, Column, Array]:
    """Which rows are positive, their scores and weights, without the rows of weight 0."""
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
            classes,
            lambda one: int(np.count_nonzero(label == one)),
            pos_label,
            option="pos_label",
        )
    except TypeError:
        raise ValueError(
            "y_true holds labels that cannot be compared with each other; "
            "drop missing labels and use one type."
        ) from None
    return np.asarray(label == wanted)


def _two_classes(label: Column) -> list[Any]:
    """The two labels, in two passes where sorting would take N log N."""
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
