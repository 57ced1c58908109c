"""`toppush.evaluate` and `toppush.compare`: any fitted estimator, or scores alone."""

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
from toppush.metrics.labels import final_step, positive_label
from toppush.metrics.paired import HEADLINE, Lead, SideBySide, side_by_side
from toppush.metrics.scoring import METHODS, positives_of, scores_of
from toppush.thresholds.guarantees import Threshold, threshold_at_fpr
from toppush.types import Array, Mask, Matrix

__all__ = ["Comparison", "Evaluation", "compare", "evaluate"]

SHOWN = tuple(one.name for one in FOUR)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """How well a list ranks its rows; printing it shows the table.

    Attributes
    ----------
    measures : dict
        Name, such as "average_precision" or "precision_at_k(10)" -> `Interval`: value, low, high.
    positive : array of bool
    scores : array
    confidence : float
    name : str
        What gave the scores.
    positive_class : object
        The label that is ranked first; None if booleans said which rows are positive.
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
        rows = [[name, *_numbers(one)] for name, one in self.measures.items()]
        return "\n".join(
            [
                f"{self.name}: {counted(self.positive, self.positive_class)}; "
                f"{self.confidence:.0%} intervals",
                *_aligned([["measure", "value", "from", "to"], *rows]),
            ]
        )

    def threshold(self, max_fpr: float, *, confidence: float | None = None) -> Threshold:
        """The score above which the false positive rate is bounded, see `threshold_at_fpr`."""
        negatives = self.scores[~self.positive]
        given = self.confidence if confidence is None else confidence
        return threshold_at_fpr(negatives, max_fpr=max_fpr, confidence=given)

    def report(self, path: str | PathLike[str], **page: Any) -> None:
        """Write the page of `toppush.report.build` about the list, with its options."""
        from toppush.report.page import POSITIVE_CLASS, build, write

        facts = {} if self.positive_class is None else {POSITIVE_CLASS: self.positive_class}
        page = {"name": self.name} | page | {"facts": facts | dict(page.get("facts") or {})}
        write(path, build(self.positive, self.scores, **page))


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Several lists of the same rows; printing it shows the table and who is ahead.

    Attributes
    ----------
    found : SideBySide
        Values of each list and differences of all pairs.
    by : str
        The measure that decides who is ahead.
    positive : array of bool
    positive_class : object
        The label that is ranked first; None if booleans said which rows are positive.
    """

    found: SideBySide
    positive: Mask
    by: str = HEADLINE
    positive_class: object = None

    @property
    def lead(self) -> Lead:
        """Who is ahead of whom, and whether it is more than noise."""
        return self.found.lead(self.by)

    def __getitem__(self, name: str) -> dict[str, Interval]:
        return self.found.values[name]

    def difference(self, first: str, second: str, measure: str | None = None) -> Interval:
        """A measure of the first less that of the second."""
        return self.found.difference(first, second, measure or self.by)

    def __repr__(self) -> str:
        shown = list(next(iter(self.found.values.values())))
        rows = [
            [name, *(_told(self.found.values[name][measure]) for measure in shown)]
            for name in self.found.order(self.by)
        ]
        titles = {one.name: one.title for one in FOUR}
        table = _aligned([["", *(titles.get(name, name) for name in shown)], *rows])
        caution = perfect_caution(self.found.precisions)
        said = [f"{counted(self.positive, self.positive_class)}."]
        said += [self.lead.sentence(self.found.confidence)]
        return "\n".join([*table, *said, *[f"Caution: {caution}"] * bool(caution)])


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
    """How well a fitted estimator, or scores of anyone, rank rows: every measure with an interval.

    Pass rows that the estimator has not seen.

    Parameters
    ----------
    ranker : fitted estimator or pipeline, or array of scores
        Of an estimator its `decision_function` counts, else its `predict_proba`, else, of a
        regressor, its `predict`. Of scores only the order counts: probabilities and log odds do.
    X : array, sparse matrix or data frame
        The rows to rank; left out with scores.
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
    >>> found = evaluate([0.9, 0.2, 0.7, 0.1, 0.3], y=[1, 0, 1, 0, 0])
    >>> found["average_precision"].value
    1.0
    """
    (scores,), found, label = _judged([ranker], X, y, positive)
    wanted = metrics_of(panel(len(scores), int((~found).sum())))
    with one_blas_thread():
        values = intervals(found, scores, wanted, confidence=confidence, draws=draws, seed=seed)
    return Evaluation(values, found, scores, confidence, _name(ranker), label)


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
    """Fitted estimators, or scores of anyone, side by side on the same rows.

    Draws are paired: the luck of the rows is the same for all. Cost: that of `evaluate` for each.

    Parameters
    ----------
    rankers : mapping
        Names, and what `evaluate` takes; estimators and scores may be mixed.
    X, y, positive, confidence, draws, seed
        As for `evaluate`.
    by : str
        The measure that decides who is ahead, named as in `evaluate`: "precision_at_k(100)".
    also : names of measures
        Others to compare by.

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
    scores, found, label = _judged(rankers.values(), X, y, positive)
    lists = dict(zip(rankers, scores, strict=True))
    wanted = metrics_of(chosen(len(found), int((~found).sum()), (by, *also)))
    with one_blas_thread():
        both = side_by_side(found, lists, wanted, confidence=confidence, draws=draws, seed=seed)
    return Comparison(both, found, by, label)


def _judged(
    rankers: Collection[Any], X: Matrix, y: ArrayLike | None, positive: object
) -> tuple[list[Array], Mask, object]:
    """Scores of all rows by each, which rows are positive, and the label that is ranked first."""
    if y is None:
        raise ValueError(
            "pass the labels as y: evaluate(estimator, X, y) or evaluate(scores, y=y)."
        )
    estimators = [one for one in rankers if _is_estimator(one)]
    label = positive_label(y, estimators, positive)
    scores = [_scores(one, X, y, label) for one in rankers]
    masks = [positives_of(one, y, label) for one in estimators or [None]]
    if masks[0].all() or not masks[0].any():
        raise ValueError("every row has the same label; both classes are needed.")
    return scores, masks[0], label


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
    """How many rows there are, and how many are of the class that is ranked first."""
    of_class = "" if label is None else f" ({label!r})"
    return f"{len(positive):,} rows, {int(positive.sum()):,} positive{of_class}"


def _is_estimator(ranker: Any) -> bool:
    return any(hasattr(ranker, method) for method in (*METHODS, "predict"))


def _name(ranker: Any) -> str:
    if not _is_estimator(ranker):
        return "scores"
    return type(final_step(ranker)).__name__


def _numbers(one: Interval) -> list[str]:
    return [f"{number:.3f}" for number in (one.value, one.low, one.high)]


def _told(one: Interval) -> str:
    return f"{one.value:.3f} ({one.low:.2f}-{one.high:.2f})"


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
