"""Measures of a ranked list, from its very top to the whole of it.

Every metric takes ``(y_true, y_score)`` and, by keyword, ``sample_weight`` and ``pos_label``.

y_true : array-like of shape (n_rows,)
    Labels of two classes: numbers, booleans or strings.
y_score : array-like of shape (n_rows,)
    Scores, the highest at the top of the list. Only their order counts, so infinite scores
    are allowed; NaN has no place in an order and is refused.
sample_weight : array-like of shape (n_rows,), optional
    0 or from 1e-100 to 1e100. A row of weight 2 counts as two equal rows, a row of weight 0 as
    none. A depth in the list (``k``, the discount of `ndcg`) is counted in units of weight.
pos_label : optional
    The class that should be on top; by default the greater of two numbers. Of two strings the
    rarer is taken, which a `PositiveClassWarning` reports: pass `pos_label`, as the rarer of some
    rows may not be the rarer of others.

Scores of Dask (`decision_function` of a Dask array) stay where they are, if `toppush` has worked
on Dask's arrays before: each partition counts, and only the positives' scores travel.

Rows of equal score are tied, and each metric says what it does with ties. All but
`positives_at_top` and `top_loss`, which are linear, sort once: O(N log N) for N rows.

A metric is written once, as a function of the list's `TopCurve`, and `metric` registers it. What
is said of it here, its parameters included, is then true of the metric of labels and scores, of
its intervals (`toppush.metrics.bootstrap`), of `scorer` and of ``toppush evaluate``.

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

from toppush.metrics.curve import KINDS, SLACK, TopCurve, Values, between, read_rows, top_curve
from toppush.types import Array, Mask

if TYPE_CHECKING:
    from toppush.metrics.scoring import RankingScorer

TENTH = 10
"""The place of the negative before which `recall_at_10_false_positives` is taken."""
LEAST_NEGATIVES = {"recall_at_10_false_positives": TENTH}
"""Negatives that a list must have for a metric to say anything, where one is not enough."""

# Keeps the precision of a list that begins with rows of weight 0 defined; it is 0.
TINY = np.finfo(np.float64).tiny

# The table of discounts has one entry per unit of weight: 2.4 GB at its peak here.
MAX_DEPTH = 10**8


@dataclass(eq=False, repr=False)
class Metric:
    """A measure of ranked lists: called with labels and scores, or `of` a curve or a stack of them.

    The other attributes are as for `metric`.

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
        its_list = list(inspect.signature(Metric.__call__).parameters.values())[1:-1]
        own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in self._own_parameters]
        parameters = [*its_list[:2], *own, *its_list[2:]]
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
        """The measure of a list, see the head of `toppush.metrics.ranking`."""
        if self.direct is not None and type(y_score) not in KINDS:
            return self.direct(*read_rows(y_true, y_score, sample_weight, pos_label))
        curve = top_curve(y_true, y_score, sample_weight, pos_label)
        return float(self.of(curve, **parameters))

    def __reduce__(self) -> str:
        return self.of.__qualname__

    @property
    def is_loss(self) -> bool:
        """Whether less is better: its name ends in _loss."""
        return self.of.__name__.endswith("_loss")

    @property
    def needs(self) -> list[str]:
        """Parameters without a default."""
        return [one.name for one in self._own_parameters if one.default is one.empty]

    @property
    def _own_parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.of).parameters.values())[1:]


METRICS: dict[str, Metric] = {}
"""Every metric by its name; `metric` puts one there.

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

    It must work on stacks, where the last axis runs down a list. A name that ends in ``_loss`` is
    that of a loss, of which less is better.

    Parameters
    ----------
    title : str, optional
        What a report calls it; without a title it is not in reports.
    places : callable, optional
        For a mean recall before certain negatives: from levels in (0, 1), the number of negatives
        and the parameters to the negatives' places, the highest being 1. Intervals are then
        averaged over where those may fall in fresh lists.
    direct : callable, optional
        A quicker way to the value, from which rows are positive, their scores and weights.

    Examples
    --------
    >>> from toppush.metrics import METRICS, metric
    >>> @metric()
    ... def missed_loss(curve, *, k):
    ...     return 1 - curve.hits_within(k) / curve.n_pos
    >>> missed_loss([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4], k=1)
    0.5
    >>> METRICS.pop("missed_loss").is_loss
    True
    """

    def registered(of: Callable[..., Values]) -> Metric:
        if of.__name__ in METRICS:
            raise ValueError(f"There is a metric {of.__name__!r} already; name this one otherwise.")
        METRICS[of.__name__] = found = Metric(of, title, places, direct)
        return found

    return registered


def _before_the_first_few(levels: Array, n_neg: int, n_false: float = 5) -> Array:
    return np.ceil(levels * min(n_false, n_neg))


_before_the_first = partial(_before_the_first_few, n_false=1)


def _after_a_share(levels: Array, n_neg: int, max_fpr: float) -> Array:
    return np.full_like(levels, np.floor(max_fpr * n_neg * SLACK) + 1)


def _before_the_tenth(levels: Array, n_neg: int) -> Array:
    return np.full_like(levels, min(TENTH, n_neg + 1))


def _share_on_top(positive: Mask, score: Array, weight: Array) -> float:
    on_top = positive & (score > score[~positive].max())
    return float(weight[on_top].sum() / weight[positive].sum())


def _recall_within(curve: TopCurve, alarms: float) -> Values:
    """Largest recall of a threshold with so much weight of negatives at or above it."""
    allowed = curve.alarms <= alarms * SLACK
    recall: Values = np.where(allowed, curve.hits, 0.0).max(axis=-1) / curve.n_pos
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
    return _recall_within(curve, 0.0)


@metric(places=_before_the_first_few)
def top_recall(curve: TopCurve, *, n_false: float = 5) -> Values:
    """Mean recall before the first, second, ..., `n_false`-th negative of the list.

    1/n_false sum_j weight{i : s_i > s_(j)} / n_pos over the highest negatives s_(j);
    O(N log N). With `n_false=1` this is `positives_at_top`; with a few more it is far less a matter
    of one row's luck. A positive that ties with the j-th negative is not before it. A negative of
    weight w counts as w negatives; if there are fewer than `n_false`, all of them count.

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
    counted = np.minimum(curve.alarms, n_false)
    share = np.diff(counted) / counted[..., -1:]
    return np.minimum(_total(share * curve.hits[..., :-1] / curve.n_pos), 1.0)


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
    above = curve.alarms < TENTH / SLACK
    recall: Values = np.where(above, curve.hits, 0.0).max(axis=-1) / curve.n_pos
    return recall


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
    precision = curve.hits[..., 1:] / np.maximum(curve.depth[..., 1:], TINY)
    return _total(np.diff(curve.hits) * precision) / curve.n_pos


@metric(title="NDCG")
def ndcg(curve: TopCurve) -> Values:
    """Discounted gain of the list over that of a perfect list; a positive gains 1.

    sum_i 1/log2(1 + rank_i) / sum_(r <= n_pos) 1/log2(1 + r); O(N log N + total weight).
    Tied rows share the mean discount of the ranks they fill, as in scikit-learn's
    ``ndcg_score`` of one list with ``ignore_ties=False``. A row of weight v fills v ranks; part
    of a rank earns that part of its discount. So unlike the other measures this one, and those
    at k, change when all weights are multiplied by one number.

    Examples
    --------
    >>> from toppush.metrics import ndcg
    >>> round(ndcg([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4]), 3)
    0.92
    """
    discounts, best = _discounts(curve.depth), float(_discounts(np.array([curve.n_pos]))[0])
    filled = np.diff(curve.depth)
    # A weight too small to move the running sum fills nothing and earns nothing.
    share = np.divide(np.diff(curve.hits), filled, out=np.zeros_like(filled), where=filled > 0)
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
    return np.asarray(np.trapezoid(curve.hits / curve.n_pos, curve.alarms) / curve.n_neg)


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
    missed = (curve.n_pos - curve.hits[..., :-1]) / curve.n_pos
    return _total(np.diff(curve.alarms) * missed) / curve.n_neg


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
    return 1.0 - _recall_within(curve, 0.0)


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
    edge = np.expand_dims(between(limit, curve.alarms, curve.hits), -1)
    hits = np.where(curve.alarms <= limit, curve.hits, edge)
    mean = np.asarray(np.trapezoid(hits / curve.n_pos, np.minimum(curve.alarms, limit)) / limit)
    return (1 + (mean - max_fpr / 2) / (1 - max_fpr / 2)) / 2 if standardized else mean


def _total(of_rows: Array) -> Values:
    total: Values = of_rows.sum(axis=-1)
    return total


@metric()
def lift_at(curve: TopCurve, *, fraction: float) -> Values:
    """How many times denser in positives the head of the list is than the whole.

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
    return curve.hits_within(depth) / curve.n_pos / fraction


@metric()
def precision_at_k(curve: TopCurve, *, k: int) -> Values:
    """Share of positives among the first k rows of the list.

    E(positives in the first k) / k; O(N log N). The expectation is over a random order of
    tied rows: where k cuts a tie, its positives count in proportion. With weights, k units of
    weight.

    Parameters
    ----------
    k : int from 1 to the length of the list
        How far down the list to look.

    Examples
    --------
    >>> from toppush.metrics import precision_at_k
    >>> precision_at_k([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4], k=2)
    0.5
    """
    return _hits_in_first(k, curve) / k


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
    return _hits_in_first(k, curve) / curve.n_pos


def _hits_in_first(k: int, curve: TopCurve) -> Values:
    length = curve.n_pos + curve.n_neg
    if not 1 <= operator.index(k) <= length * SLACK:
        raise ValueError(f"k must be from 1 to {length:g}, the length of the list, got {k}.")
    return curve.hits_within(k)


@metric(places=_after_a_share)
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
    return _recall_within(curve, max_fpr * curve.n_neg)


def _check_share(name: str, share: float) -> None:
    if not 0 < share <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, got {share!r}.")


class Headline(NamedTuple):
    """A measure that stands in every table: its name in `METRICS`, in records and in tables."""

    name: str
    key: str
    title: str


FOUR = (
    Headline("positives_at_top", "pos_at_top", "Pos@Top"),
    Headline("average_precision", "ap", "AP"),
    Headline("ndcg", "ndcg", "NDCG"),
    Headline("auc", "auc", "AUC"),
)
"""The measures of the paper's tables, in its order.

>>> from toppush.metrics import FOUR
>>> [one.title for one in FOUR]
['Pos@Top', 'AP', 'NDCG', 'AUC']
"""


def summary(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    by: str = "name",
) -> dict[str, float]:
    """The four measures of the paper's tables, from one sorting of the list.

    Parameters
    ----------
    y_true, y_score, sample_weight
        The list, as at the head of this module.
    by : {"name", "key", "title"}
        What the result is called by, see `FOUR`.

    Examples
    --------
    >>> from toppush.metrics import summary
    >>> summary([1, 0, 1], [3.0, 2.0, 1.0], by="title")["Pos@Top"]
    0.5
    """
    curve = top_curve(y_true, y_score, sample_weight)
    return {getattr(one, by): float(METRICS[one.name].of(curve)) for one in FOUR}


def named(name: str) -> Metric:
    """The metric of a name."""
    if name not in METRICS:
        raise ValueError(f"There is no metric {name!r}; pass one of {sorted(METRICS)}.")
    return METRICS[name]


def scorer(name: str, **params: object) -> "RankingScorer":
    """Scikit-learn scorer of the metric called `name`, for ``scoring=``.

    It scores the estimator's ``decision_function``, or else its ``predict_proba``; losses are
    negated, so that more is better. It can be pickled. The positive class is `pos_label`, else the
    one that a ranker of this package ranks first, else the greater of two numbers; for strings and
    estimators of others `pos_label` is required.

    Parameters
    ----------
    name : str
        Name of a metric, such as "positives_at_top".
    **params
        Passed on to it, such as ``k=10`` or ``pos_label="spam"``.

    Examples
    --------
    >>> from toppush.metrics import scorer
    >>> scorer("recall_at_fpr", max_fpr=0.01)
    scorer('recall_at_fpr', max_fpr=0.01)
    """
    from toppush.metrics.scoring import RankingScorer  # imports scikit-learn

    found = named(name)
    try:
        inspect.signature(found).bind(None, None, **params)
    except TypeError as error:
        raise TypeError(f"scorer({name!r}): {error}; pass the parameters of {name}.") from None
    return RankingScorer(found, params)
