"""Measures of a ranked list, from its very top to the whole of it.

Every function takes ``(y_true, y_score)`` and, by keyword, ``sample_weight`` and ``pos_label``.

y_true : array-like of shape (n_rows,)
    Labels of two classes: numbers, booleans or strings.
y_score : array-like of shape (n_rows,)
    Scores, the highest at the top of the list. Only their order counts, so infinite scores
    are allowed; NaN has no place in an order and is refused.
sample_weight : array-like of shape (n_rows,), optional
    A row of weight 2 counts as two equal rows, a row of weight 0 as none. A depth in the
    list (``k``, the discount of `ndcg`) is counted in units of weight.
pos_label : optional
    The class that should be on top; by default the greater of the two.

Scores of Dask (`decision_function` of a Dask array) stay where they are, if `toppush` has worked
on Dask's arrays before: each partition counts, and only the positives' scores travel.

Rows of equal score are tied, and each function says what it does with ties. All but
`positives_at_top` and `top_loss`, which are linear, sort once: O(N log N) for N rows.

Paper: m -> n_pos, n -> n_neg (sums of weights), f -> score, L_rank -> `ranking_loss`,
L -> `top_loss`.

>>> positives_at_top([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4])
0.5
"""

import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "TopCurve",
    "auc",
    "average_precision",
    "lift_at",
    "ndcg",
    "partial_auc",
    "positives_at_top",
    "precision_at_k",
    "ranking_loss",
    "recall_at_fpr",
    "recall_at_k",
    "scorer",
    "top_curve",
    "top_loss",
    "top_recall",
]

Array = NDArray[Any]
Weights = ArrayLike | None
Label = object

# Sums of weights such as 0.1 end a few rounding errors off; no limit should turn on those.
SLACK = 1 + 1e-12

# Keeps the precision of a list that begins with rows of weight 0 defined; it is 0.
TINY = np.finfo(np.float64).tiny

# The table of discounts has one entry per unit of weight: 2.4 GB at its peak here.
MAX_DEPTH = 10**8


def positives_at_top(
    y_true: ArrayLike, y_score: ArrayLike, *, sample_weight: Weights = None, pos_label: Label = None
) -> float:
    """Share of the positives strictly above every negative.

    weight{i : s_i > max_j s_j} / n_pos, over positives i and negatives j; O(N).
    A positive tied with the highest negative does not count. Pos@Top in the paper.
    """
    if (lazy := _lazy_curve(y_true, y_score, sample_weight, pos_label)) is not None:
        return float(lazy.positives_at_top())
    positive, score, weight = _rows(y_true, y_score, sample_weight, pos_label)
    on_top = positive & (score > score[~positive].max())
    return float(weight[on_top].sum() / weight[positive].sum())


def top_loss(
    y_true: ArrayLike, y_score: ArrayLike, *, sample_weight: Weights = None, pos_label: Label = None
) -> float:
    """Share of the positives at or below the highest negative: the paper's equation 2.

    1/n_pos sum_i I(s_i <= max_j s_j) = 1 - `positives_at_top`; O(N).
    A tie with the highest negative is a loss.
    """
    return 1.0 - positives_at_top(y_true, y_score, sample_weight=sample_weight, pos_label=pos_label)


def ranking_loss(
    y_true: ArrayLike, y_score: ArrayLike, *, sample_weight: Weights = None, pos_label: Label = None
) -> float:
    """Share of the pairs in which the positive is not above the negative: equation 1.

    1/(n_pos n_neg) sum_ij I(s_i <= s_j), a pair weighing the product of its weights;
    O(N log N). A tie is a whole loss here and half of one in `auc`; without ties
    ``ranking_loss == 1 - auc``.
    """
    return float(top_curve(y_true, y_score, sample_weight, pos_label).ranking_loss())


def auc(
    y_true: ArrayLike, y_score: ArrayLike, *, sample_weight: Weights = None, pos_label: Label = None
) -> float:
    """Area under the ROC curve: share of the pairs in the right order.

    1/(n_pos n_neg) sum_ij [I(s_i > s_j) + I(s_i = s_j) / 2]; O(N log N).
    A tied pair counts one half, as in scikit-learn's ``roc_auc_score``.
    """
    return float(top_curve(y_true, y_score, sample_weight, pos_label).auc())


def partial_auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    max_fpr: float,
    standardized: bool = False,
    sample_weight: Weights = None,
    pos_label: Label = None,
) -> float:
    """Mean recall over the false positive rates from 0 to `max_fpr`.

    A / max_fpr in [0, 1], where A is the area under the ROC curve left of `max_fpr`;
    O(N log N). Tied rows are one straight piece of the curve, so a tied pair counts one half,
    and a piece that crosses `max_fpr` is cut there. A perfect list gives 1, a list in
    random order max_fpr / 2 on average, and ``max_fpr=1`` is `auc`.

    Parameters
    ----------
    y_true, y_score, sample_weight, pos_label
        The list, as at the head of this module.
    max_fpr : float in (0, 1]
        Right end of the area.
    standardized : bool, default=False
        Return McClish's (1 + (A - max_fpr^2 / 2) / (max_fpr - max_fpr^2 / 2)) / 2 instead,
        which is 1/2 for a random list: scikit-learn's ``roc_auc_score(max_fpr=...)``.
    """
    _check_share("max_fpr", max_fpr)
    curve = top_curve(y_true, y_score, sample_weight, pos_label)
    return float(curve.partial_auc(max_fpr, standardized))


def average_precision(
    y_true: ArrayLike, y_score: ArrayLike, *, sample_weight: Weights = None, pos_label: Label = None
) -> float:
    """Precision at the depth of each positive, averaged over the positives.

    1/n_pos sum_i (positives at or above s_i) / (rows at or above s_i); O(N log N).
    Tied rows share one threshold, so all of them count as above it, as in scikit-learn's
    ``average_precision_score``.
    """
    return float(top_curve(y_true, y_score, sample_weight, pos_label).average_precision())


def ndcg(
    y_true: ArrayLike, y_score: ArrayLike, *, sample_weight: Weights = None, pos_label: Label = None
) -> float:
    """Discounted gain of the list over that of a perfect list; a positive gains 1.

    sum_i 1/log2(1 + rank_i) / sum_(r <= n_pos) 1/log2(1 + r); O(N log N + total weight).
    Tied rows share the mean discount of the ranks they fill, as in scikit-learn's
    ``ndcg_score`` of one list with ``ignore_ties=False``. A row of weight v fills v ranks; part
    of a rank earns that part of its discount. So unlike the other measures this one, and those
    at k, change when all weights are multiplied by one number.
    """
    return float(top_curve(y_true, y_score, sample_weight, pos_label).ndcg())


def precision_at_k(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    k: int,
    sample_weight: Weights = None,
    pos_label: Label = None,
) -> float:
    """Share of positives among the first k rows of the list.

    E(positives in the first k) / k; O(N log N). The expectation is over a random order of
    tied rows: where k cuts a tie, its positives count in proportion. With weights, k units of
    weight.

    Parameters
    ----------
    y_true, y_score, sample_weight, pos_label
        The list, as at the head of this module.
    k : int from 1 to the length of the list
        How far down the list to look.
    """
    curve = top_curve(y_true, y_score, sample_weight, pos_label)
    return float(curve.precision_at_k(_depth_k(k, curve)))


def recall_at_k(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    k: int,
    sample_weight: Weights = None,
    pos_label: Label = None,
) -> float:
    """Share of all positives that the first k rows of the list hold.

    E(positives in the first k) / n_pos; O(N log N). Ties and weights as in `precision_at_k`.

    Parameters
    ----------
    y_true, y_score, sample_weight, pos_label
        The list, as at the head of this module.
    k : int from 1 to the length of the list
        How far down the list to look.
    """
    curve = top_curve(y_true, y_score, sample_weight, pos_label)
    return float(curve.recall_at_k(_depth_k(k, curve)))


def lift_at(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    fraction: float,
    sample_weight: Weights = None,
    pos_label: Label = None,
) -> float:
    """How many times denser in positives the head of the list is than the whole.

    [E(positives in the head) / (fraction N)] / [n_pos / N], N the total weight; O(N log N).
    The expectation is over a random order of tied rows. The head is not rounded to whole rows:
    a row that the cut goes through counts in part. At most min(1 / fraction, N / n_pos).

    Parameters
    ----------
    y_true, y_score, sample_weight, pos_label
        The list, as at the head of this module.
    fraction : float in (0, 1]
        The head's share of the list.
    """
    _check_share("fraction", fraction)
    return float(top_curve(y_true, y_score, sample_weight, pos_label).lift_at(fraction))


def recall_at_fpr(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    max_fpr: float,
    sample_weight: Weights = None,
    pos_label: Label = None,
) -> float:
    """Largest recall of a threshold whose false positive rate is at most `max_fpr`.

    max_c weight{i : s_i >= c} / n_pos subject to weight{j : s_j >= c} <= max_fpr n_neg;
    O(N log N). A threshold takes all rows of a tie or none, and nothing is interpolated.
    Below the weight of the lightest negative over n_neg, this is `positives_at_top`.

    Parameters
    ----------
    y_true, y_score, sample_weight, pos_label
        The list, as at the head of this module.
    max_fpr : float in (0, 1]
        False positive rate that the threshold may reach.
    """
    _check_share("max_fpr", max_fpr)
    return float(top_curve(y_true, y_score, sample_weight, pos_label).recall_at_fpr(max_fpr))


def top_recall(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    n_false: float = 5,
    sample_weight: Weights = None,
    pos_label: Label = None,
) -> float:
    """Mean recall before the first, second, ..., `n_false`-th negative of the list.

    1/n_false sum_j weight{i : s_i > s_(j)} / n_pos over the highest negatives s_(j);
    O(N log N). With `n_false=1` this is `positives_at_top`; with a few more it is far less a matter
    of one row's luck. A positive that ties with the j-th negative is not before it. A negative of
    weight w counts as w negatives; if there are fewer than `n_false`, all of them count.

    Parameters
    ----------
    y_true, y_score, sample_weight, pos_label
        The list, as at the head of this module.
    n_false : float, default=5
    """
    if not n_false > 0:
        raise ValueError(f"n_false must be above 0, got {n_false}.")
    return float(top_curve(y_true, y_score, sample_weight, pos_label).top_recall(n_false))


METRICS: dict[str, Callable[..., float]] = {
    metric.__name__: metric
    for metric in (
        positives_at_top,
        top_recall,
        average_precision,
        ndcg,
        auc,
        partial_auc,
        precision_at_k,
        recall_at_k,
        recall_at_fpr,
        lift_at,
        ranking_loss,
        top_loss,
    )
}


class Headline(NamedTuple):
    """A measure that stands in every table."""

    name: str
    """As in `METRICS`."""
    key: str
    """In records of experiments."""
    title: str
    """In tables."""

    @property
    def of(self) -> Callable[..., float]:
        """The measure itself."""
        return METRICS[self.name]


FOUR = (
    Headline("positives_at_top", "pos_at_top", "Pos@Top"),
    Headline("average_precision", "ap", "AP"),
    Headline("ndcg", "ndcg", "NDCG"),
    Headline("auc", "auc", "AUC"),
)
"""The measures of the paper's tables, in its order."""


def summary(y_true: ArrayLike, y_score: ArrayLike, *, by: str = "name") -> dict[str, float]:
    """The four measures of the paper's tables, from one sorting of the list.

    Parameters
    ----------
    y_true, y_score
        The list, as at the head of this module.
    by : {"name", "key", "title"}
        What the result is called by, see `FOUR`.

    Examples
    --------
    >>> summary([1, 0, 1], [3.0, 2.0, 1.0], by="title")["Pos@Top"]
    0.5
    """
    curve = top_curve(y_true, y_score)
    return {getattr(one, by): float(getattr(curve, one.name)()) for one in FOUR}


def scorer(name: str, **params: Any) -> Any:
    """Scikit-learn scorer of the metric called `name`, for ``scoring=``.

    It scores the estimator's ``decision_function``, or else its ``predict_proba``; losses are
    negated, so that more is better. It can be pickled.

    Parameters
    ----------
    name : str
        Name of a function of this module, such as "positives_at_top".
    **params
        Passed on to that function, such as ``k=10`` or ``pos_label="spam"``.

    Examples
    --------
    >>> scorer("recall_at_fpr", max_fpr=0.01)  # doctest: +ELLIPSIS
    make_scorer(recall_at_fpr, ...)
    """
    from sklearn.metrics import make_scorer

    if name not in METRICS:
        raise ValueError(f"There is no metric {name!r}; pass one of {sorted(METRICS)}.")
    try:
        inspect.signature(METRICS[name]).bind(None, None, **params)
    except TypeError as error:
        raise TypeError(f"scorer({name!r}): {error}; pass the parameters of {name}.") from None
    return make_scorer(
        METRICS[name],
        response_method=("decision_function", "predict_proba"),
        greater_is_better=not name.endswith("_loss"),
        **params,
    )


@dataclass(frozen=True)
class TopCurve:
    """Weight at or above each distinct score, from the top of the list down, after a 0.

    Its methods are the measures of this module. A stack of lists with the same weight of each
    class, one list a row of `hits` and `alarms`, has a stack of measures.

    Attributes
    ----------
    hits : array of shape (..., n_scores + 1)
        Weight of the positives.
    alarms : array of shape (..., n_scores + 1)
        Weight of the negatives.
    thresholds : array of shape (n_scores + 1,)
        The distinct scores, highest first, after infinity, at which nothing is above.
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

    def hits_within(self, depth: Array | float) -> Any:
        """Positives above each depth, those of a tie in proportion to the part above it."""
        return _between(depth, self.depth, self.hits)

    def precision_at_k(self, k: float) -> Any:
        """As the function of this name."""
        return self.hits_within(k) / k

    def recall_at_k(self, k: float) -> Any:
        """As the function of this name."""
        return self.hits_within(k) / self.n_pos

    def lift_at(self, fraction: float) -> Any:
        """As the function of this name."""
        return self.recall_at_k(fraction * (self.n_pos + self.n_neg)) / fraction

    def positives_at_top(self) -> Any:
        """As the function of this name."""
        return self.recall_at_fpr(0.0)

    def top_loss(self) -> Any:
        """As the function of this name."""
        return 1.0 - self.positives_at_top()

    def recall_at_fpr(self, max_fpr: float) -> Any:
        """As the function of this name; a rate of 0 gives `positives_at_top`."""
        allowed = self.alarms <= max_fpr * self.n_neg * SLACK
        return np.where(allowed, self.hits, 0.0).max(axis=-1) / self.n_pos

    def top_recall(self, n_false: float = 5) -> Any:
        """As the function of this name."""
        counted = np.minimum(self.alarms, n_false)
        share = np.diff(counted) / counted[..., -1:]
        return np.minimum((share * self.hits[..., :-1] / self.n_pos).sum(axis=-1), 1.0)

    def auc(self) -> Any:
        """As the function of this name."""
        return _area(self.alarms, self.hits / self.n_pos) / self.n_neg

    def partial_auc(self, max_fpr: float, standardized: bool = False) -> Any:
        """As the function of this name."""
        limit = max_fpr * self.n_neg
        edge = np.expand_dims(_between(limit, self.alarms, self.hits), -1)
        hits = np.where(self.alarms <= limit, self.hits, edge)
        mean = _area(np.minimum(self.alarms, limit), hits / self.n_pos) / limit
        return (1 + (mean - max_fpr / 2) / (1 - max_fpr / 2)) / 2 if standardized else mean

    def ranking_loss(self) -> Any:
        """As the function of this name."""
        missed = (self.n_pos - self.hits[..., :-1]) / self.n_pos
        return (np.diff(self.alarms) * missed).sum(axis=-1) / self.n_neg

    def average_precision(self) -> Any:
        """As the function of this name."""
        precision = self.hits[..., 1:] / np.maximum(self.depth[..., 1:], TINY)
        return (np.diff(self.hits) * precision).sum(axis=-1) / self.n_pos

    def ndcg(self) -> Any:
        """As the function of this name."""
        discounts, best = _discounts(self.depth), _discounts(np.array([self.n_pos]))
        filled = np.diff(self.depth)
        # A weight too small to move the running sum fills nothing and earns nothing.
        share = np.divide(np.diff(self.hits), filled, out=np.zeros_like(filled), where=filled > 0)
        return (share * np.diff(discounts)).sum(axis=-1) / best[0]


def top_curve(
    y_true: ArrayLike,
    y_score: ArrayLike,
    sample_weight: Weights = None,
    pos_label: Label = None,
) -> TopCurve:
    """Positives and negatives at or above each distinct score.

    All measures of this module but the linear ones are functions of it; O(N log N).

    Parameters
    ----------
    y_true, y_score, sample_weight, pos_label
        The list, as at the head of this module.
    """
    if (lazy := _lazy_curve(y_true, y_score, sample_weight, pos_label)) is not None:
        return lazy
    positive, score, weight = _rows(y_true, y_score, sample_weight, pos_label)
    order = np.argsort(score)[::-1]
    score, positive, weight = score[order], positive[order], weight[order]
    last = np.flatnonzero(np.append(score[1:] != score[:-1], True))
    hits = np.cumsum(weight * positive)[last]
    alarms = np.cumsum(weight * ~positive)[last]
    return TopCurve(
        np.append(0.0, hits), np.append(0.0, alarms), np.append(np.inf, score[last].astype(float))
    )


_curves: dict[type, Callable[..., TopCurve]] = {}


def register(kind: type, curve: Callable[..., TopCurve]) -> None:
    """Let lists whose scores are of another kind be measured; `curve` is their `top_curve`.

    It may join negatives that no positive separates into one point: no measure tells them apart.
    """
    _curves[kind] = curve


def _lazy_curve(y_true: Any, y_score: Any, sample_weight: Any, pos_label: Label) -> TopCurve | None:
    """The curve of scores that are elsewhere, or None."""
    curve = _curves.get(type(y_score))
    return None if curve is None else curve(y_true, y_score, sample_weight, pos_label)


def _area(x: Array, y: Array) -> Any:
    return (np.diff(x) * (y[..., 1:] + y[..., :-1])).sum(axis=-1) / 2


def _between(at: Array | float, x: Array, y: Array) -> Any:
    """Value of y where x, which rises along each list, reaches `at`; straight in between."""
    if x.ndim == 1:
        return np.interp(at, x, y)
    return np.stack([np.interp(at, *one) for one in zip(x, y, strict=True)])


def _discounts(depth: Array) -> Array:
    """Sum of 1 / log2(1 + rank) over the ranks above each depth, linear within a rank."""
    if (deepest := depth.max()) > MAX_DEPTH:
        raise ValueError(
            f"The list is {deepest:g} ranks long, in units of weight, and ndcg takes at most "
            f"{MAX_DEPTH:g}; scale sample_weight down."
        )
    whole = depth.astype(np.int64)
    discount = 1 / np.log2(np.arange(2, whole.max() + 3))
    total = np.append(0.0, np.cumsum(discount))
    return np.asarray(total[whole] + (depth - whole) * discount[whole])


def _depth_k(k: int, curve: TopCurve) -> int:
    length = curve.depth[-1]
    if not 1 <= operator.index(k) <= length * SLACK:
        raise ValueError(f"k must be from 1 to {length:g}, the length of the list, got {k}.")
    return k


def _check_share(name: str, share: float) -> None:
    if not 0 < share <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, got {share!r}.")


def _rows(
    y_true: ArrayLike, y_score: ArrayLike, sample_weight: Weights, pos_label: Label
) -> tuple[Array, Array, Array]:
    """Which rows are positive, their scores and weights, without the rows of weight 0."""
    label, score = np.asarray(y_true), np.asarray(y_score)
    _check_shape("y_true", label, score)
    positive, score = _is_positive(label, pos_label), _as_scores(score)
    if sample_weight is None:
        return positive, score, np.ones(len(score))
    weight = _as_weights(sample_weight, positive)
    kept = weight > 0
    return positive[kept], score[kept], weight[kept]


def _check_shape(name: str, vector: Array, score: Array) -> None:
    if vector.ndim != 1 or vector.shape != score.shape:
        raise ValueError(
            f"{name} has shape {vector.shape} and y_score {score.shape}; "
            "pass vectors with one entry per row."
        )


def _as_scores(score: Array) -> Array:
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


def _as_weights(sample_weight: ArrayLike, positive: Array) -> Array:
    weight = np.asarray(sample_weight, dtype=np.float64)
    _check_shape("sample_weight", weight, positive)
    if (wrong := ~(weight >= 0) | np.isinf(weight)).any():
        raise ValueError(
            f"sample_weight must be finite and at least 0, found {weight[wrong][0]}; "
            "correct it or drop the row."
        )
    for name, members in (("positives", positive), ("negatives", ~positive)):
        if not weight[members].any():
            raise ValueError(
                f"sample_weight of all {name} is 0; give one of them a weight above 0."
            )
    return weight


def _is_positive(label: Array, pos_label: Label) -> Array:
    try:
        classes = _two_classes(label)
        wanted = max(classes) if pos_label is None else pos_label
    except TypeError:
        raise ValueError(
            "y_true holds labels that cannot be compared with each other; "
            "drop missing labels and use one type."
        ) from None
    if wanted not in classes:
        raise ValueError(f"pos_label={wanted!r} is not in y_true; pass one of {classes}.")
    return np.asarray(label == wanted)


def _two_classes(label: Array) -> list[Any]:
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
