"""Metrics of ranked lists, at the top and of the whole list.

Every metric takes ``(y_true, y_score)`` and, by keyword, ``sample_weight`` and ``pos_label``.

y_true : array-like of shape (n_rows,)
    Labels of two classes: numbers, booleans or strings.
y_score : array-like of shape (n_rows,)
    Scores, the highest at the top of the list. Only their order counts. Infinite scores are
    allowed, NaN is refused.
sample_weight : array-like of shape (n_rows,), optional
    0 or from 1e-100 to 1e100. A row of weight 2 counts as two equal rows, a row of weight 0 as
    none. A depth in the list (``k``, the discount of `ndcg`) is counted in units of weight.
pos_label : optional
    The positive class; by default the greater of two numbers. Of two strings the rarer one is
    taken with a `PositiveClassWarning`: pass `pos_label`, as the rarer label of some rows may not
    be the rarer of others.

Dask scores (`decision_function` of a Dask array) stay on the workers: each partition counts its
negatives, and only the positives' scores are sent.

Rows of equal score are tied, and each metric documents how it treats ties. `positives_at_top` and
`top_loss` are linear, the others sort once: O(N log N) for N rows.

A metric is defined once, as a function of the list's `TopCurve`, and `metric` registers it. The
same definition serves labels and scores, intervals (`toppush.metrics.bootstrap`), `scorer` and
``toppush evaluate``.

Paper: m -> n_pos, n -> n_neg (sums of weights), f -> score, L_rank -> `ranking_loss`,
L -> `top_loss`.

>>> from toppush.metrics import positives_at_top
>>> positives_at_top([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4])
0.5
"""

import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from toppush.metrics.curve import (
    CURVES,
    SLACK,
    TopCurve,
    Values,
    interpolated,
    read_rows,
    top_curve,
)
from toppush.types import Array, Mask

if TYPE_CHECKING:
    from toppush.metrics.scoring import RankingScorer

TENTH = 10
"""The place of the negative before which `recall_at_10_false_positives` is taken."""
LEAST_NEGATIVES = {"recall_at_10_false_positives": TENTH}
"""Negatives that a list needs for a metric to be informative, where one does not suffice."""
TINY = np.finfo(np.float64).tiny
"""Least depth, so that the precision of a list that begins with rows of weight 0 is 0."""
MAX_DEPTH = 10**8
"""Of `ndcg`, whose table of discounts has one entry per unit of weight: 2.4 GB at its peak."""


@dataclass(eq=False, repr=False)
class Metric:
    """A metric of ranked lists: call it with labels and scores, or `of` with a `TopCurve`.

    The other attributes are those of `metric`.

    Examples
    --------
    >>> from toppush.metrics import auc, top_curve
    >>> y, scores = [0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4]
    >>> auc(y, scores)
    0.75
    >>> float(auc.of(top_curve(y, scores)))
    0.75
    >>> auc.is_loss
    False
    """

    of: Callable[..., Values]
    title: str = ""
    places: Callable[..., Array] | None = None
    direct: Callable[[Mask, Array, Array], float] | None = None

    def __post_init__(self) -> None:
        update_wrapper(self, self.of)
        common = list(inspect.signature(Metric.__call__).parameters.values())[1:-1]
        own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in self._own_parameters]
        parameters = [*common[:2], *own, *common[2:]]
        self.__signature__ = inspect.Signature(parameters, return_annotation=float)

    def __call__(
        self,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: object = None,
        **parameters: float,
    ) -> float:
        """The metric of a list, see `toppush.metrics.ranking`."""
        if self.direct is not None and type(y_score) not in CURVES:
            return self.direct(*read_rows(y_true, y_score, sample_weight, pos_label))
        curve = top_curve(y_true, y_score, sample_weight, pos_label)
        return float(self.of(curve, **parameters))

    def __reduce__(self) -> str:
        return self.of.__qualname__

    @property
    def is_loss(self) -> bool:
        """Whether a lower value is better: its name ends in _loss."""
        return self.of.__name__.endswith("_loss")

    @property
    def needs(self) -> list[str]:
        """Parameters without a default."""
        return [each.name for each in self._own_parameters if each.default is each.empty]

    @property
    def _own_parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.of).parameters.values())[1:]


METRICS: dict[str, Metric] = {}
"""Every registered metric by its name.

>>> from toppush.metrics import METRICS
>>> METRICS["auc"]([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4])
0.75
"""


def metric(
    *,
    title: str = "",
    places: Callable[..., Array] | None = None,
    direct: Callable[[Mask, Array, Array], float] | None = None,
) -> Callable[[Callable[..., Values]], Metric]:
    """Register a function of a `TopCurve` as the metric of its name.

    It must accept stacks of curves, whose last axis runs down the lists. Lower values of a metric
    whose name ends in ``_loss`` are better.

    Parameters
    ----------
    title : str, optional
        Title in reports; a metric without a title is not in reports.
    places : callable, optional
        For a mean recall before certain negatives: a function from levels in (0, 1), the number of
        negatives and the parameters to the places of these negatives, 1 being the highest.
        Intervals then average over their positions in fresh lists.
    direct : callable, optional
        A faster function of the mask of the positives, their scores and weights.

    Examples
    --------
    >>> from toppush.metrics import METRICS, metric
    >>> @metric()
    ... def missed_loss(curve, *, k):
    ...     return 1 - curve.positives_within(k) / curve.n_pos
    >>> missed_loss([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4], k=1)
    0.5
    >>> METRICS.pop("missed_loss").is_loss
    True
    """

    def registered(of: Callable[..., Values]) -> Metric:
        if of.__name__ in METRICS:
            raise ValueError(f"There is a metric {of.__name__!r} already; rename this function.")
        METRICS[of.__name__] = Metric(of, title, places, direct)
        return METRICS[of.__name__]

    return registered


def _before_the_first_few(levels: Array, n_neg: int, n_false: float = 5) -> Array:
    return np.ceil(levels * min(n_false, n_neg))


_before_the_first = partial(_before_the_first_few, n_false=1)


def _before_a_rate(levels: Array, n_neg: int, max_fpr: float) -> Array:
    return np.full_like(levels, np.floor(max_fpr * n_neg * SLACK) + 1)


def _before_the_tenth(levels: Array, n_neg: int) -> Array:
    return np.full_like(levels, min(TENTH, n_neg + 1))


def _share_on_top(positive: Mask, score: Array, weight: Array) -> float:
    on_top = positive & (score > score[~positive].max())
    return float(weight[on_top].sum() / weight[positive].sum())


def _largest_recall(curve: TopCurve, allowed: Mask) -> Values:
    """Largest recall of the thresholds that are allowed."""
    recall: Values = np.where(allowed, curve.true_positives, 0.0).max(axis=-1) / curve.n_pos
    return recall


@metric(title="positives above every negative", places=_before_the_first, direct=_share_on_top)
def positives_at_top(curve: TopCurve) -> Values:
    """Share of the positives strictly above every negative.

    weight{i : s_i > max_j s_j} / n_pos, over positives i and negatives j; O(N).
    A positive tied with the highest negative does not count. Pos@Top in the paper.

    Examples
    --------
    >>> from toppush.metrics import positives_at_top
    >>> positives_at_top([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4])
    0.5
    >>> positives_at_top([0, 1, 0, 1], [0.1, 0.5, 0.5, 0.4])  # a tie is not above
    0.0
    """
    return _largest_recall(curve, curve.false_positives <= 0.0)


@metric(places=_before_the_first_few)
def top_recall(curve: TopCurve, *, n_false: float = 5) -> Values:
    """Mean recall before the first, second, ..., `n_false`-th negative of the list.

    1/n_false sum_j weight{i : s_i > s_(j)} / n_pos over the highest negatives s_(j);
    O(N log N). With `n_false=1` this is `positives_at_top`; greater values depend less on single
    rows. A positive that ties with the j-th negative is not before it. A negative of weight w
    counts as w negatives; if there are fewer than `n_false`, all of them count.

    Parameters
    ----------
    n_false : float, default=5

    Examples
    --------
    >>> from toppush.metrics import top_recall
    >>> top_recall([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4], n_false=2)  # (1/2 + 1) / 2
    0.75
    """
    if not n_false > 0:
        raise ValueError(f"n_false must be above 0, got {n_false}.")
    counted = np.minimum(curve.false_positives, n_false)
    share = np.diff(counted) / counted[..., -1:]
    return np.minimum(_total(share * curve.true_positives[..., :-1] / curve.n_pos), 1.0)


@metric(title="recall at 10 false positives", places=_before_the_tenth)
def recall_at_10_false_positives(curve: TopCurve) -> Values:
    """Share of the positives strictly above the tenth-highest negative.

    weight{i : s_i > s_(10)} / n_pos; O(N log N). A positive that ties with the tenth negative does
    not count; if there are fewer than ten negatives, all positives do. A negative of weight w
    counts as w negatives.

    Examples
    --------
    >>> from toppush.metrics import recall_at_10_false_positives
    >>> y, scores = [1] * 4 + [0] * 20, [99, 12.5, 10.5, 10.0, *range(1, 21)]
    >>> recall_at_10_false_positives(y, scores)  # the tenth negative has 11
    0.5
    """
    return _largest_recall(curve, curve.false_positives < TENTH / SLACK)


@metric(title="average precision")
def average_precision(curve: TopCurve) -> Values:
    """Precision at the depth of each positive, averaged over the positives.

    1/n_pos sum_i (positives at or above s_i) / (rows at or above s_i); O(N log N).
    Tied rows share one threshold, so all of them count as above it, as in scikit-learn's
    ``average_precision_score``.

    Examples
    --------
    >>> from toppush.metrics import average_precision
    >>> average_precision([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.6])
    1.0
    >>> average_precision([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4])  # (1 + 2/3) / 2
    0.8333333333333333
    """
    precision = curve.true_positives[..., 1:] / np.maximum(curve.depth[..., 1:], TINY)
    return _total(np.diff(curve.true_positives) * precision) / curve.n_pos


@metric(title="NDCG")
def ndcg(curve: TopCurve) -> Values:
    """Discounted gain of the list over that of a perfect list; a positive gains 1.

    sum_i 1/log2(1 + rank_i) / sum_(r <= n_pos) 1/log2(1 + r); O(N log N + total weight).
    Tied rows share the mean discount of the ranks they fill, as in scikit-learn's
    ``ndcg_score`` of one list with ``ignore_ties=False``. A row of weight v fills v ranks; part
    of a rank earns that part of its discount. So this metric and those at k, unlike the others,
    change when all weights are multiplied by a number.

    Examples
    --------
    >>> from toppush.metrics import ndcg
    >>> round(ndcg([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4]), 3)
    0.92
    """
    discounts, best = _discounts(curve.depth), float(_discounts(np.array([curve.n_pos]))[0])
    filled = np.diff(curve.depth)
    # A weight too small to move the running sum fills nothing and earns nothing.
    share = np.divide(
        np.diff(curve.true_positives), filled, out=np.zeros_like(filled), where=filled > 0
    )
    return _total(share * np.diff(discounts)) / best


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


@metric(title="area under the ROC curve")
def auc(curve: TopCurve) -> Values:
    """Area under the ROC curve: share of the pairs in the right order.

    1/(n_pos n_neg) sum_ij [I(s_i > s_j) + I(s_i = s_j) / 2]; O(N log N).
    A tied pair counts one half, as in scikit-learn's ``roc_auc_score``.

    Examples
    --------
    >>> from toppush.metrics import auc
    >>> auc([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4])  # three of the four pairs are in order
    0.75
    """
    area = np.trapezoid(curve.true_positives / curve.n_pos, curve.false_positives)
    return np.asarray(area / curve.n_neg)


@metric()
def ranking_loss(curve: TopCurve) -> Values:
    """Share of the pairs in which the positive is not above the negative: equation 1.

    1/(n_pos n_neg) sum_ij I(s_i <= s_j), a pair weighing the product of its weights;
    O(N log N). A tie is a whole loss here and half of one in `auc`; without ties
    ``ranking_loss == 1 - auc``.

    Examples
    --------
    >>> from toppush.metrics import ranking_loss
    >>> ranking_loss([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4])
    0.25
    """
    missed = (curve.n_pos - curve.true_positives[..., :-1]) / curve.n_pos
    return _total(np.diff(curve.false_positives) * missed) / curve.n_neg


@metric(places=_before_the_first, direct=lambda *rows: 1.0 - _share_on_top(*rows))
def top_loss(curve: TopCurve) -> Values:
    """Share of the positives at or below the highest negative: the paper's equation 2.

    1/n_pos sum_i I(s_i <= max_j s_j) = 1 - `positives_at_top`; O(N).
    A tie with the highest negative is a loss.

    Examples
    --------
    >>> from toppush.metrics import top_loss
    >>> top_loss([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4])
    0.5
    """
    return 1.0 - _largest_recall(curve, curve.false_positives <= 0.0)


@metric()
def partial_auc(curve: TopCurve, *, max_fpr: float, standardized: bool = False) -> Values:
    """Mean recall over the false positive rates from 0 to `max_fpr`.

    A / max_fpr in [0, 1], where A is the area under the ROC curve left of `max_fpr`;
    O(N log N). Tied rows are one straight piece of the curve, so a tied pair counts one half,
    and a piece that crosses `max_fpr` is cut there. A perfect list gives 1, a list in
    random order max_fpr / 2 on average, and ``max_fpr=1`` is `auc`.

    Parameters
    ----------
    max_fpr : float in (0, 1]
        Right end of the area.
    standardized : bool, default=False
        Return McClish's (1 + (A - max_fpr^2 / 2) / (max_fpr - max_fpr^2 / 2)) / 2 instead,
        which is 1/2 for a random list: scikit-learn's ``roc_auc_score(max_fpr=...)``.

    Examples
    --------
    >>> from toppush.metrics import partial_auc
    >>> partial_auc([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4], max_fpr=0.5)
    0.5
    """
    _check_share("max_fpr", max_fpr)
    limit = max_fpr * curve.n_neg
    edge = interpolated(limit, curve.false_positives, curve.true_positives)[..., None]
    cut = np.where(curve.false_positives <= limit, curve.true_positives, edge)
    area = np.trapezoid(cut / curve.n_pos, np.minimum(curve.false_positives, limit))
    mean = np.asarray(area / limit)
    return (1 + (mean - max_fpr / 2) / (1 - max_fpr / 2)) / 2 if standardized else mean


def _total(of_rows: Array) -> Values:
    total: Values = of_rows.sum(axis=-1)
    return total


@metric()
def lift_at(curve: TopCurve, *, fraction: float) -> Values:
    """Precision of the head of the list over the prevalence.

    [E(positives in the head) / (fraction N)] / [n_pos / N], N the total weight; O(N log N).
    The expectation is over a random order of tied rows. The head is not rounded to whole rows:
    a row that the cut goes through counts in part. At most min(1 / fraction, N / n_pos).

    Parameters
    ----------
    fraction : float in (0, 1]
        The head's share of the list.

    Examples
    --------
    >>> from toppush.metrics import lift_at
    >>> lift_at([0, 1, 0, 0], [0.1, 0.9, 0.5, 0.4], fraction=0.25)
    4.0
    """
    _check_share("fraction", fraction)
    depth = fraction * (curve.n_pos + curve.n_neg)
    return curve.positives_within(depth) / curve.n_pos / fraction


@metric()
def precision_at_k(curve: TopCurve, *, k: int) -> Values:
    """Share of positives among the first k rows of the list.

    E(positives in the first k) / k; O(N log N). The expectation is over a random order of
    tied rows: where k cuts a tie, its positives count in proportion. With weights, k units of
    weight.

    Parameters
    ----------
    k : int from 1 to the length of the list
        How many rows to review.

    Examples
    --------
    >>> from toppush.metrics import precision_at_k
    >>> precision_at_k([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4], k=2)
    0.5
    """
    return _positives_in_first(k, curve) / k


@metric()
def recall_at_k(curve: TopCurve, *, k: int) -> Values:
    """Share of all positives that the first k rows of the list hold.

    E(positives in the first k) / n_pos; O(N log N). Ties, weights and k as in `precision_at_k`.

    Examples
    --------
    >>> from toppush.metrics import recall_at_k
    >>> recall_at_k([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4], k=3)
    1.0
    """
    return _positives_in_first(k, curve) / curve.n_pos


def _positives_in_first(k: int, curve: TopCurve) -> Values:
    length = curve.n_pos + curve.n_neg
    if not 1 <= operator.index(k) <= length * SLACK:
        raise ValueError(f"k must be from 1 to {length:g}, the length of the list, got {k}.")
    return curve.positives_within(k)


@metric(places=_before_a_rate)
def recall_at_fpr(curve: TopCurve, *, max_fpr: float) -> Values:
    """Largest recall of a threshold whose false positive rate is at most `max_fpr`.

    max_c weight{i : s_i >= c} / n_pos subject to weight{j : s_j >= c} <= max_fpr n_neg;
    O(N log N). A threshold takes all rows of a tie or none, and nothing is interpolated.
    Below the weight of the lightest negative over n_neg, this is `positives_at_top`.

    Parameters
    ----------
    max_fpr : float in (0, 1]
        False positive rate that the threshold may reach.

    Examples
    --------
    >>> from toppush.metrics import recall_at_fpr
    >>> recall_at_fpr([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4], max_fpr=0.4)
    0.5
    """
    _check_share("max_fpr", max_fpr)
    return _largest_recall(curve, curve.false_positives <= max_fpr * curve.n_neg * SLACK)


def _check_share(name: str, share: float) -> None:
    if not 0 < share <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, got {share!r}.")


class Headline(NamedTuple):
    """A metric of the paper's tables: its name in `METRICS`, in records and in tables."""

    name: str
    key: str
    title: str


FOUR = (
    Headline("positives_at_top", "pos_at_top", "Pos@Top"),
    Headline("average_precision", "ap", "AP"),
    Headline("ndcg", "ndcg", "NDCG"),
    Headline("auc", "auc", "AUC"),
)
"""The metrics of the paper's tables, in its order.

>>> from toppush.metrics import FOUR
>>> [headline.title for headline in FOUR]
['Pos@Top', 'AP', 'NDCG', 'AUC']
"""


def summary(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    by: str = "name",
) -> dict[str, float]:
    """The four metrics of the paper's tables; the list is sorted once.

    Parameters
    ----------
    y_true, y_score, sample_weight
        As for every metric.
    by : {"name", "key", "title"}
        Keys of the result, see `FOUR`.

    Examples
    --------
    >>> from toppush.metrics import summary
    >>> summary([1, 0, 1], [3.0, 2.0, 1.0], by="title")["Pos@Top"]
    0.5
    """
    curve = top_curve(y_true, y_score, sample_weight)
    return {getattr(line, by): float(METRICS[line.name].of(curve)) for line in FOUR}


def named(name: str) -> Metric:
    """The metric of a name."""
    if name not in METRICS:
        raise ValueError(f"There is no metric {name!r}; pass one of {sorted(METRICS)}.")
    return METRICS[name]


def scorer(name: str, **params: object) -> "RankingScorer":
    """Scikit-learn scorer of the metric called `name`, for ``scoring=``.

    It scores the estimator's ``decision_function``, or else its ``predict_proba``; losses are
    negated. It can be pickled. The positive class is `pos_label`, else the class that a ranker of
    this package ranks first, else the greater of two numbers; for strings and other estimators
    `pos_label` is required.

    Parameters
    ----------
    name : str
        Name of a metric, such as "positives_at_top".
    **params
        Parameters of the metric, such as ``k=10`` or ``pos_label="spam"``.

    Examples
    --------
    >>> from toppush.metrics import scorer
    >>> scorer("recall_at_fpr", max_fpr=0.01)
    scorer('recall_at_fpr', max_fpr=0.01)
    """
    from toppush.metrics.scoring import RankingScorer  # imports scikit-learn

    scored = named(name)
    try:
        inspect.signature(scored).bind(None, None, **params)
    except TypeError as error:
        raise TypeError(f"scorer({name!r}): {error}; pass the parameters of {name}.") from None
    return RankingScorer(scored, params)
