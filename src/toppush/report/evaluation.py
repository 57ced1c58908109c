"""`toppush.evaluate` and `toppush.compare`: any fitted estimator, or scores."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from toppush.designs.local import one_blas_thread
from toppush.metrics import FOUR
from toppush.metrics.bootstrap import Interval, chosen, intervals, metrics_of, panel
from toppush.metrics.cautions import perfect_caution
from toppush.metrics.paired import HEADLINE, Lead, SideBySide, side_by_side
from toppush.metrics.positive_class import final_step, positive_label
from toppush.metrics.scoring import METHODS, positives_of, scores_of
from toppush.thresholds.guarantees import Threshold, threshold_at_fpr
from toppush.types import Array, Mask, Matrix

__all__ = ["Comparison", "Evaluation", "compare", "evaluate"]

SHOWN = tuple(metric.name for metric in FOUR)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Metrics of a ranking with intervals; its representation is a table.

    Attributes
    ----------
    measures : dict
        Name, such as "average_precision" or "precision_at_k(10)" -> `Interval`: value, low, high.
    positive : array of bool
    scores : array
    confidence : float
    name : str
        Name of the estimator, or "scores".
    positive_class : object
        The label that is ranked first; None if the labels are booleans.
    """

    measures: dict[str, Interval]
    positive: Mask
    scores: Array
    confidence: float
    name: str
    positive_class: object = None

    def __getitem__(self, measure: str) -> Interval:
        return self.measures[measure]

    def __repr__(self) -> str:
        rows = [
            [name, *(f"{number:.3f}" for number in (each.value, each.low, each.high))]
            for name, each in self.measures.items()
        ]
        counts = counted(self.positive, self.positive_class)
        first = f"{self.name}: {counts}; {self.confidence:.0%} intervals"
        return "\n".join([first, *_aligned([["metric", "value", "from", "to"], *rows])])

    def threshold(self, max_fpr: float, *, confidence: float | None = None) -> Threshold:
        """The threshold that bounds the false positive rate, see `threshold_at_fpr`."""
        negatives = self.scores[~self.positive]
        confidence = self.confidence if confidence is None else confidence
        return threshold_at_fpr(negatives, max_fpr=max_fpr, confidence=confidence)

    def report(self, path: str | PathLike[str], **page: Any) -> None:
        """Write the page of `toppush.report.build` about the ranking, with its options."""
        from toppush.report.page import POSITIVE_CLASS, build, write

        facts = {} if self.positive_class is None else {POSITIVE_CLASS: self.positive_class}
        page = {"name": self.name} | page | {"facts": facts | dict(page.get("facts") or {})}
        write(path, build(self.positive, self.scores, **page))


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Several rankings of the same rows; its representation is a table and the best ranking.

    Attributes
    ----------
    rankings : SideBySide
        Values of each ranking and differences of all pairs.
    by : str
        The metric that decides which ranking is best.
    positive : array of bool
    positive_class : object
        The label that is ranked first; None if the labels are booleans.
    """

    rankings: SideBySide
    positive: Mask
    by: str = HEADLINE
    positive_class: object = None

    @property
    def lead(self) -> Lead:
        """The best ranking, the next one, and whether the difference is significant."""
        return self.rankings.lead(self.by)

    def __getitem__(self, name: str) -> dict[str, Interval]:
        return self.rankings.values[name]

    def difference(self, first: str, second: str, measure: str | None = None) -> Interval:
        """A metric of the first minus that of the second."""
        return self.rankings.difference(first, second, measure or self.by)

    def __repr__(self) -> str:
        shown = list(next(iter(self.rankings.values.values())))
        rows = [
            [name, *(_with_interval(self.rankings.values[name][metric]) for metric in shown)]
            for name in self.rankings.order(self.by)
        ]
        titles = {metric.name: metric.title for metric in FOUR}
        table = _aligned([["", *(titles.get(name, name) for name in shown)], *rows])
        caution = perfect_caution(self.rankings.precisions)
        table += [f"{counted(self.positive, self.positive_class)}."]
        table += [self.lead.sentence(self.rankings.confidence)]
        return "\n".join([*table, *[f"Caution: {caution}"] * bool(caution)])


def evaluate(
    ranker: Any,
    X: Matrix = None,
    y: ArrayLike | None = None,
    *,
    positive: object = None,
    confidence: float = 0.95,
    draws: int | None = None,
    seed: int = 0,
) -> Evaluation:
    """Metrics of how a fitted estimator, or scores, rank rows, with confidence intervals.

    Pass rows that the estimator was not fitted to.

    Parameters
    ----------
    ranker : fitted estimator or pipeline, or array of scores
        For an estimator its `decision_function` is used, else its `predict_proba`, else, for a
        regressor, its `predict`. Only the order of scores matters.
    X : array, sparse matrix or data frame
        The rows to rank; not needed with scores.
    y : array of shape (n_rows,)
        Labels.
    positive : optional
        The label to rank first; by default the one that a ranker of this package ranks first,
        else the greater of two numbers or the rarer of two strings.
    confidence, draws, seed
        As for `toppush.metrics.bootstrap.intervals`.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> from toppush import evaluate
    >>> evaluation = evaluate([0.9, 0.2, 0.7, 0.1, 0.3], y=[1, 0, 1, 0, 0])
    >>> evaluation["average_precision"].value
    1.0
    """
    (scores,), mask, label = _scored([ranker], X, y, positive)
    wanted = metrics_of(panel(len(scores), int((~mask).sum())))
    with one_blas_thread():
        values = intervals(mask, scores, wanted, confidence=confidence, draws=draws, seed=seed)
    return Evaluation(values, mask, scores, confidence, _name(ranker), label)


def compare(
    rankers: Mapping[str, Any],
    X: Matrix = None,
    y: ArrayLike | None = None,
    *,
    by: str = HEADLINE,
    also: Collection[str] = SHOWN,
    positive: object = None,
    confidence: float = 0.95,
    draws: int | None = None,
    seed: int = 0,
) -> Comparison:
    """Compare fitted estimators, or scores, on the same rows.

    Bootstrap draws are paired: each draw uses the same rows for all. The cost is that of `evaluate`
    for each.

    Parameters
    ----------
    rankers : mapping
        Names, and what `evaluate` takes; estimators and scores may be mixed.
    X, y, positive, confidence, draws, seed
        As for `evaluate`.
    by : str
        The metric that decides which is best, named as in `evaluate`: "precision_at_k(100)".
    also : names of metrics
        Further metrics to compare.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from toppush import compare
    >>> y = [1, 0, 1, 0, 0]
    >>> both = {"good": [5, 1, 4, 2, 3], "poor": [1, 2, 3, 4, 5]}
    >>> compare(both, y=y).lead.first
    'good'
    """
    scores, mask, label = _scored(rankers.values(), X, y, positive)
    lists = dict(zip(rankers, scores, strict=True))
    wanted = metrics_of(chosen(len(mask), int((~mask).sum()), (by, *also)))
    with one_blas_thread():
        both = side_by_side(mask, lists, wanted, confidence=confidence, draws=draws, seed=seed)
    return Comparison(both, mask, by, label)


def _scored(
    rankers: Collection[Any], X: Matrix, y: ArrayLike | None, positive: object
) -> tuple[list[Array], Mask, object]:
    """Scores by each ranker, which rows are positive, and the label that is ranked first."""
    if y is None:
        raise ValueError(
            "pass the labels as y: evaluate(estimator, X, y) or evaluate(scores, y=y)."
        )
    estimators = [ranker for ranker in rankers if _is_estimator(ranker)]
    label = positive_label(y, estimators, positive)
    scores = [_scores(ranker, X, y, label) for ranker in rankers]
    mask, *_ = [positives_of(ranker, y, label) for ranker in estimators or [None]]
    if mask.all() or not mask.any():
        raise ValueError("every row has the same label; both classes are needed.")
    return scores, mask, label


def _scores(ranker: Any, X: Matrix, y: ArrayLike, positive: object) -> Array:
    """Finite scores of all rows."""
    fitted = _is_estimator(ranker)
    if fitted and X is None:
        raise ValueError(f"{_name(ranker)} needs rows to score; pass them as X.")
    scores = scores_of(ranker, X, positive) if fitted else np.asarray(ranker, np.float64)
    if scores.shape != np.shape(y):
        raise ValueError(f"there are scores of shape {scores.shape} and labels of {np.shape(y)}.")
    if not np.isfinite(scores).all():
        row = int(np.argmin(np.isfinite(scores)))
        raise ValueError(f"the score of row {row} is {scores[row]}; replace or drop such rows.")
    return scores


def counted(positive: Mask, label: object) -> str:
    """The numbers of rows and of positives."""
    of_class = "" if label is None else f" ({label!r})"
    return f"{len(positive):,} rows, {int(positive.sum()):,} positive{of_class}"


def _is_estimator(ranker: Any) -> bool:
    return any(hasattr(ranker, method) for method in (*METHODS, "predict"))


def _name(ranker: Any) -> str:
    if not _is_estimator(ranker):
        return "scores"
    return type(final_step(ranker)).__name__


def _with_interval(interval: Interval) -> str:
    return f"{interval.value:.3f} ({interval.low:.2f}-{interval.high:.2f})"


def _aligned(rows: list[list[str]]) -> list[str]:
    """Lines of a table, the first column to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if not place else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
