"""Cross-validation of lam and top: the fits on the folds, their evaluation, and the choice.

The default rule, `by_the_top`, has three steps:

1. A pair at which weights of zero are optimal on some fold is left out, unless all are: what
   ranks its rows is not a solution.
2. Of the others, those count whose average precision (mean over the folds) is at most `WITHIN`
   below the best. The top of a ranking alone is a handful of rows.
3. Of these, the best has the greatest mean recall before the first 0.1 % of the negatives, in the
   ranking of the held-out rows of all folds (`metrics/partial_curve.py`). The first of equals wins.

Another metric replaces steps 2 and 3 if `scoring` names one.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from toppush import metrics
from toppush.designs import PlacedRows
from toppush.designs.local import one_blas_thread
from toppush.metrics.partial_curve import Head
from toppush.models.base import LinearRanker, TrainingRows, require_both
from toppush.models.path import Grid, follow_solvable
from toppush.models.progress import FitCounter
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem
from toppush.solvers import zero_is_optimal
from toppush.system.threads import in_threads
from toppush.types import Array, Mask, Matrix, Where

WITHIN = 0.01
"""Average precision that a pair may be below the best and still be chosen for its top."""
NAME = "recall at the top"
"""Name of the best pair's score: the recall of step 3."""
EVERY, KEPT, LEAST_KEPT = 3, 0.25, 10
"""Interval of the folds that fit all pairs first; share and minimum number of the pairs that the
other folds fit as well."""

Scorer = Callable[..., float]
"""scikit-learn's: a function of a fitted estimator, rows and labels."""


class HeldOutScore(NamedTuple):
    """What the default rule needs of the held-out rows of a fold, for one pair."""

    head: Head
    recall: float
    """Of the head alone."""
    average_precision: float
    """NaN if the rows are of one class."""


Score = HeldOutScore | float
Evaluate = Callable[[PlacedRows, Mask, Sequence[Array], Array | None], Sequence[Score]]
"""The score of each ranking of a fold's held-out rows: of their rows, labels, scores by several
fits, and weights."""


@dataclass(frozen=True)
class FoldFits:
    """The fits to a fold's training rows, by the numbers of the pairs."""

    scores: Mapping[int, Score]
    degenerate: frozenset[int]
    """Pairs for which the certificate shows that weights of zero are optimal."""
    seconds: float

    def joined(self, other: Self) -> "FoldFits":
        """The fits of both."""
        return FoldFits(
            {**self.scores, **other.scores},
            self.degenerate | other.degenerate,
            self.seconds + other.seconds,
        )


NOTHING = FoldFits({}, frozenset(), 0.0)


def fit_fold(
    training: TrainingRows,
    fold: tuple[Where, Where],
    grid: Grid,
    evaluate: Evaluate,
    *,
    numbers: NDArray[np.int_],
    done: Callable[[], None] = lambda: None,
) -> FoldFits:
    """Fit pairs of a grid to a fold's training rows and evaluate them on the others.

    Held-out rows stay where they are with weight 0, so no fold copies X. `numbers` has the numbers
    of the pairs, by top and lam; those below 0 are left out. `done` is called after each solve.
    """
    wanted, names = numbers >= 0, numbers[numbers >= 0].tolist()
    began, rows, (train, test) = time.perf_counter(), training.rows, fold
    weight = rows.masked_weights(train, training.sample_weight)
    with rows.design(training.positive, weight, n_jobs=1) as design:
        require_both(design, np.array([False, True]))
        solvable = follow_solvable(design, grid, wanted, done=done)
        fits = [solution for row in solvable for solution in row if solution is not None]
        problem = TopPushProblem(design, LOSSES[grid.loss], 1.0)
        degenerate = [zero_is_optimal(solution, problem, grid.tol) for solution in fits]
    seconds = time.perf_counter() - began
    held = None if training.sample_weight is None else training.sample_weight[test]
    distinct = {id(solution): solution for solution in fits}  # one may stand for many pairs
    by_fit = rows.scores_of_some(
        test, [(each.weights, each.threshold) for each in distinct.values()]
    )
    scores = dict(zip(distinct, evaluate(rows, training.positive[test], by_fit, held), strict=True))
    return FoldFits(
        {name: scores[id(solution)] for name, solution in zip(names, fits, strict=True)},
        frozenset(name for name, zero in zip(names, degenerate, strict=True) if zero),
        seconds,
    )


def evaluate_heads(
    rows: PlacedRows,
    positive: Mask,
    scores: Sequence[Array],
    weight: Array | None,
    *,
    n_false: float,
) -> list[HeldOutScore]:
    """The heads of the rankings down to the n_false-th negative, and their average precision."""
    parts = rows.map_parts(_heads, [positive, weight, *scores], n_false)
    results = []
    for ranking, *heads in zip(scores, *parts, strict=True):
        head, precision = Head.join(heads), np.nan
        if head.n_pos > 0.0 and head.n_neg > 0.0:
            precision = metrics.average_precision(positive, ranking, sample_weight=weight)
        results.append(HeldOutScore(head, head.recall(), precision))
    return results


def _heads(positive: Mask, weight: Array | None, *scores: Any) -> list[Head]:
    *rankings, n_false = scores
    return [Head.of(positive, ranking, weight, n_false) for ranking in rankings]


def by_the_top(recall: Array, precision: Array, degenerate: Mask) -> Array:
    """The values that order the pairs: recall, lowered by 2 where the precision is too low.

    The precisions are all NaN if no fold has held-out rows of both classes; then none is too low.
    `degenerate` are the pairs that step 1 leaves out.
    """
    best = np.max(precision[~degenerate if not degenerate.all() else degenerate])
    return np.asarray(recall - 2.0 * (precision < best - WITHIN))


def ranks(order: Array, degenerate: Mask, dropped: Mask | None = None) -> NDArray[np.int32]:
    """Rank 1 for the best; `dropped` pairs come later, last those at which zero is optimal."""
    behind = 2.0 * degenerate if dropped is None else 2.0 * degenerate + dropped
    behind = (np.ptp(order) + 1.0) * behind
    places: NDArray[np.int32] = rankdata(np.round(behind - order, 12), method="min").astype("i4")
    return places


def results(
    pairs: Sequence[dict[str, Any]],
    held: Sequence[Mapping[int, Score]],
    degenerate: Mask,
    seconds: Sequence[float],
) -> dict[str, Any]:
    """The table of a search, with the names of scikit-learn's `cv_results_`.

    `held[i][j]` is the score of pair j on fold i, and `degenerate[j]` says whether weights of zero
    are optimal for it on some fold. The means of a dropped pair are over the folds that fitted it.
    """
    table = np.array([[_number(fold.get(pair)) for pair in range(len(pairs))] for fold in held])
    fitted = np.array([[pair in fold for pair in range(len(pairs))] for fold in held])
    dropped = np.asarray(~fitted.all(axis=0))
    families = np.array([pair["pairwise"] for pair in pairs]) if "pairwise" in pairs[0] else None
    mean, deciding = table.mean(axis=0, where=fitted), {}
    order = mean
    if isinstance(held[0][0], HeldOutScore):
        recall, precision = _joint(cast(Sequence[Mapping[int, HeldOutScore]], held), len(pairs))
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


def _number(score: Score | None) -> float:
    """The score of a pair on a fold, NaN if it was not fitted there."""
    if score is None:
        return np.nan
    return score.recall if isinstance(score, HeldOutScore) else score


def _joint(held: Sequence[Mapping[int, HeldOutScore]], n_pairs: int) -> tuple[Array, Array]:
    """Recall in the ranking of all folds, and average precision over folds with both classes."""
    recalls, precisions = [], []
    for pair in range(n_pairs):
        fitted = [fold[pair] for fold in held if pair in fold]
        recalls.append(Head.join([score.head for score in fitted]).recall())
        known = [each.average_precision for each in fitted if not np.isnan(each.average_precision)]
        precisions.append(np.mean(known) if known else np.nan)
    return np.array(recalls), np.array(precisions)


def evaluate_by(scoring: str | Scorer, rows: PlacedRows, classes: NDArray[Any]) -> Evaluate:
    """An evaluation by the name of a metric, or by a scorer of scikit-learn."""
    if isinstance(scoring, str) and scoring in metrics.METRICS:
        metric = metrics.METRICS[scoring]
        metrics.scorer(scoring)  # raises if parameters are missing
        sign = -1.0 if scoring.endswith("loss") else 1.0
        return lambda _, positive, scores, weight: [
            sign * metric(positive, ranking, sample_weight=weight) for ranking in scores
        ]
    rows.require_gathered_scores(
        f"scoring={scoring!r}", f"leave it out or name one of {sorted(metrics.METRICS)}"
    )
    from sklearn.metrics import get_scorer  # here: TopPush alone does not need it

    named = isinstance(scoring, str)
    scorer = get_scorer(scoring) if isinstance(scoring, str) else scoring
    # Scorers that are named by a string take the greater label as positive, and strings not at all.
    labels = np.array([False, True]) if named else classes
    ranker = _Scored(labels)

    def evaluate(
        _: PlacedRows, positive: Mask, scores: Sequence[Array], weight: Array | None
    ) -> list[float]:
        more = {"sample_weight": weight} if named and weight is not None else {}
        y = labels[positive.astype(int)]
        return [float(scorer(ranker, ranking[:, None], y, **more)) for ranking in scores]

    return evaluate


class _Scored(LinearRanker):
    """A fitted ranker whose only feature is the score, for scorers."""

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes_ = classes
        self.threshold_ = 0.0

    def decision_function(self, X: Matrix) -> Array:
        return np.asarray(X[:, 0], np.float64)


@dataclass
class PairSearch:
    """The folds, and the fits on them of the pairs tried so far.

    The pairs of the grid come first. Many pairs are all fitted on some folds, and those that rank
    best there on the others.
    """

    training: TrainingRows
    folds: list[tuple[Where, Where]]
    grid: Grid
    evaluate: Evaluate
    n_jobs: int | None
    counter: FitCounter | None
    families: bool = False
    """Whether results name the family of a pair."""
    pairs: list[dict[str, Any]] = field(default_factory=list)
    fitted: list[FoldFits] = field(default_factory=list)
    table: dict[str, Any] = field(default_factory=dict)

    def begin(self, families: tuple[bool, ...]) -> int:
        """Try the grid in each family; the index of the best pair.

        A top of one negative is the same problem in both, and is tried once.
        """
        self.fitted = [NOTHING] * len(self.folds)
        tops = self.grid.tops
        for pairwise in families:
            best = self.run(self.grid.lams, tops, pairwise)
            tops = tuple(top for top in tops if not isinstance(top, Integral) or top > 1)
        return best

    def run(self, lams: Array, tops: tuple[float, ...], pairwise: bool) -> int:
        """Try more pairs; the index of the best of all so far."""
        family, n_before = {"pairwise": pairwise} if self.families else {}, len(self.pairs)
        self.pairs += [{"lam": float(lam), "top": top, **family} for top in tops for lam in lams]
        new, every = np.arange(n_before, len(self.pairs)), range(len(self.folds))
        first = every[::EVERY] if len(self.pairs) > LEAST_KEPT else every
        others = [fold for fold in every if fold not in first]
        self._fit(new, first)
        self._fit(new[self._is_promising(first)[new]], others)
        best = self._evaluate_all()
        while self.table["n_folds"][best] < len(every):  # those have no solution
            self._fit(np.flatnonzero(self.table["n_folds"] < len(every)), others)
            best = self._evaluate_all()
        return best

    def _is_promising(self, folds: Sequence[int]) -> Mask:
        """Which of all pairs so far rank well enough on some folds to go on to the others."""
        enough = max(LEAST_KEPT, int(KEPT * len(self.pairs)))
        order = np.argsort(self._results(folds)["rank_test_score"], kind="stable")
        return np.isin(np.arange(len(order)), order[:enough])

    def _evaluate_all(self) -> int:
        """Set the table; the index of the best pair."""
        self.table = self._results(range(len(self.folds)))
        return int(np.argmin(self.table["rank_test_score"]))

    def end(self) -> None:
        """Show the final count of the fits."""
        if self.counter is not None:
            self.counter.close()

    def _fit(self, numbers: NDArray[np.int_], folds: Sequence[int]) -> None:
        """Fit the pairs of these numbers on some of the folds, each family by itself."""
        for pairwise in (False, True):
            some = [n for n in numbers if self.pairs[n].get("pairwise", False) == pairwise]
            if some and folds:
                self._fit_family(pairwise, some, folds)

    def _fit_family(self, pairwise: bool, numbers: Sequence[int], folds: Sequence[int]) -> None:
        pairs = [(self.pairs[n]["top"], self.pairs[n]["lam"]) for n in numbers]
        lams = sorted({lam for _, lam in pairs}, reverse=True)
        tops = {(type(top), top): top for top, _ in pairs}  # 1 is not 1.0
        table = np.full((len(tops), len(lams)), -1)
        for n, (top, lam) in zip(numbers, pairs, strict=True):
            table[list(tops).index((type(top), top)), lams.index(lam)] = n
        if self.counter is not None:
            self.counter.total += len(folds) * len(numbers)
        done = (lambda: None) if self.counter is None else self.counter
        grid = replace(self.grid, lams=np.array(lams), tops=tuple(tops.values()), pairwise=pairwise)
        fit = partial(
            fit_fold, self.training, grid=grid, evaluate=self.evaluate, numbers=table, done=done
        )
        with one_blas_thread():
            n_at_once = self.training.rows.n_concurrent_fits(len(folds), self.n_jobs)
            fitted = in_threads(fit, [self.folds[fold] for fold in folds], n_at_once)
        for fold, fits in zip(folds, fitted, strict=True):
            self.fitted[fold] = self.fitted[fold].joined(fits)

    def _results(self, folds: Sequence[int]) -> dict[str, Any]:
        """The table of all pairs on some of the folds."""
        fitted = [self.fitted[fold] for fold in folds]
        degenerate = frozenset[int]().union(*(fold.degenerate for fold in fitted))
        return results(
            self.pairs,
            [fold.scores for fold in fitted],
            np.isin(np.arange(len(self.pairs)), list(degenerate)),
            [fold.seconds for fold in fitted],
        )
