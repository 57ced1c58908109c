"""How held-out rows are measured, and which pair of lam and top they choose.

The default rule, `by_the_top`, of three steps:

1. A pair at which weights of zero are optimal on some fold is left out, unless all are: what
   ranks its rows is not a solution.
2. Of the others those count whose average precision, a mean over the folds, is at most `WITHIN`
   below the best. The head of a list alone is a handful of rows.
3. Of these the best has the greatest mean recall before the first 0.1 % of the negatives, in the
   list of the held-out rows of all folds (`metrics/head.py`). The first of equals wins.

Another measure stands for steps 2 and 3 if one is given.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from toppush import metrics
from toppush.designs import PlacedRows
from toppush.metrics.partial_curve import Head
from toppush.models.base import LinearRanker
from toppush.types import Array, Mask, Matrix

WITHIN = 0.01
"""Average precision that a pair may be below the best and still be chosen for its top."""
NAME = "recall at the top"
"""What the best pair's score is called: the recall of step 3."""

Scorer = Callable[..., float]
"""Of scikit-learn: of a fitted estimator, rows and labels."""
Lists = Sequence[Array]
"""Scores of the held-out rows, by each of some fits."""


class HeldOut(NamedTuple):
    """What the default rule keeps of the held-out rows of a fold, for one pair."""

    head: Head
    recall: float
    """Of the head alone."""
    average_precision: float
    """NaN if the rows are of one class."""


Measure = HeldOut | float
Measured = Mapping[int, Measure]
"""On a fold, by the number of the pair; without those that were not fitted there."""
Judge = Callable[[PlacedRows, Mask, Lists, Array | None], Sequence[Measure]]
"""What is kept of the held-out rows of a fold: their labels, scores by each fit, and weights."""


def judge_by_heads(
    rows: PlacedRows, positive: Mask, lists: Lists, weight: Array | None, *, n_false: float
) -> list[HeldOut]:
    """What the default rule needs, the heads down to the n_false-th negative."""
    parts = rows.map_parts(_heads, [positive, weight, *lists], n_false)
    found = []
    for scores, *heads in zip(lists, *parts, strict=True):
        head, precision = Head.join(heads), np.nan
        if head.n_pos > 0.0 and head.n_neg > 0.0:
            precision = metrics.average_precision(positive, scores, sample_weight=weight)
        found.append(HeldOut(head, head.recall(), precision))
    return found


def _heads(positive: Mask, weight: Array | None, *lists: Any) -> list[Head]:
    *scores, n_false = lists
    return [Head.of(positive, one, weight, n_false) for one in scores]


def by_the_top(recall: Array, precision: Array, degenerate: Mask) -> Array:
    """What orders the pairs: recall, but that of far ones comes after that of near ones.

    The precisions are all NaN if no fold has held out rows of both classes; then every pair is
    near. `degenerate` are the pairs that step 1 leaves out.
    """
    best = np.max(precision[~degenerate if not degenerate.all() else degenerate])
    return np.asarray(recall - 2.0 * (precision < best - WITHIN))


def ranks(order: Array, degenerate: Mask, dropped: Mask | None = None) -> NDArray[np.int32]:
    """Rank 1 for the best; `dropped` pairs come later, last those at which zero is optimal."""
    behind = 2.0 * degenerate if dropped is None else 2.0 * degenerate + dropped
    behind = (np.ptp(order) + 1.0) * behind
    found: NDArray[np.int32] = rankdata(np.round(behind - order, 12), method="min").astype(np.int32)
    return found


def results(
    pairs: Sequence[dict[str, Any]],
    held: Sequence[Measured],
    degenerate: Mask,
    seconds: Sequence[float],
) -> dict[str, Any]:
    """The table of a search, in the words of scikit-learn's `cv_results_`.

    `held[i][j]` was measured on fold i for pair j, and `degenerate[j]` found on some fold. A pair
    that was not fitted on every fold was dropped: its means are over the folds that it has.
    """
    table = np.array([[_number(fold.get(pair)) for pair in range(len(pairs))] for fold in held])
    fitted = np.array([[pair in fold for pair in range(len(pairs))] for fold in held])
    dropped = np.asarray(~fitted.all(axis=0))
    families = np.array([pair["pairwise"] for pair in pairs]) if "pairwise" in pairs[0] else None
    mean, deciding = table.mean(axis=0, where=fitted), {}
    order = mean
    if isinstance(held[0][0], HeldOut):
        recall, precision = _joint(cast(Sequence[Mapping[int, HeldOut]], held), len(pairs))
        deciding = {"joint_test_score": recall, "mean_average_precision": precision}
        order = by_the_top(recall, precision, degenerate | dropped)
    return {
        "params": list(pairs),
        "param_lam": np.array([pair["lam"] for pair in pairs]),
        "param_top": np.array([pair["top"] for pair in pairs], object),
        **({"param_pairwise": families} if families is not None else {}),
        **{f"split{fold}_test_score": row for fold, row in enumerate(table)},
        "mean_test_score": mean,
        "std_test_score": table.std(axis=0, where=fitted),
        **deciding,
        "degenerate": degenerate,
        "n_folds": fitted.sum(axis=0),
        "rank_test_score": ranks(order, degenerate, dropped),
        "mean_fit_time": np.full(len(pairs), np.sum(seconds) / fitted.sum()),
    }


def _number(measured: Measure | None) -> float:
    """The score of a pair on a fold, NaN if it was not fitted there."""
    if measured is None:
        return np.nan
    return measured.recall if isinstance(measured, HeldOut) else measured


def _joint(held: Sequence[Mapping[int, HeldOut]], n_pairs: int) -> tuple[Array, Array]:
    """Recall of the joint list, and average precision over the folds with both classes."""
    recalls, precisions = [], []
    for pair in range(n_pairs):
        fitted = [fold[pair] for fold in held if pair in fold]
        recalls.append(Head.join([one.head for one in fitted]).recall())
        found = [one.average_precision for one in fitted if not np.isnan(one.average_precision)]
        precisions.append(np.mean(found) if found else np.nan)
    return np.array(recalls), np.array(precisions)


def judge_by_scores(scoring: str | Scorer, rows: PlacedRows, classes: NDArray[Any]) -> Judge:
    """A number for each list, from any way to name a measure."""
    if isinstance(scoring, str) and scoring in metrics.METRICS:
        measure = metrics.METRICS[scoring]
        metrics.scorer(scoring)  # says which parameters are missing
        sign = -1.0 if scoring.endswith("loss") else 1.0
        return lambda _, positive, lists, weight: [
            sign * measure(positive, scores, sample_weight=weight) for scores in lists
        ]
    rows.require_gathered_scores(
        f"scoring={scoring!r}", f"leave it out or name one of {sorted(metrics.METRICS)}"
    )
    from sklearn.metrics import get_scorer  # here: TopPush alone does without it

    named = isinstance(scoring, str)
    scorer = get_scorer(scoring) if isinstance(scoring, str) else scoring
    # Scorers that are named by a string take the greater label as positive, and strings not at all.
    labels = np.array([False, True]) if named else classes
    ranker = _Scored(labels)

    def judge(_: PlacedRows, positive: Mask, lists: Lists, weight: Array | None) -> list[float]:
        more = {"sample_weight": weight} if named and weight is not None else {}
        y = labels[positive.astype(int)]
        return [float(scorer(ranker, scores[:, None], y, **more)) for scores in lists]

    return judge


class _Scored(LinearRanker):
    """Stands for a fitted ranker whose one feature is the score, so that scorers can ask it."""

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes_ = classes
        self.threshold_ = 0.0

    def decision_function(self, X: Matrix) -> Array:
        return np.asarray(X[:, 0], np.float64)
