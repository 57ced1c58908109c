"""The push on rows of Dask: `TopLinear`, its form chosen by a few rows, its weights by all."""

import copy
import math
from collections.abc import Callable
from functools import partial

import numpy as np

from toppush.auto.dealt import Dealt, Lazy
from toppush.auto.linear import TOL, TopLinear
from toppush.auto.members import Settings
from toppush.designs import column_sizes
from toppush.designs.columns import times
from toppush.estimators.toppush import TopPush
from toppush.nonlinear.curves import Curves
from toppush.types import Array, Mask, Matrix


class LinearGrower:
    """Fits `TopPush` to the numbers that columns become, on the workers."""

    in_one_unit = True

    def __init__(self, dealt: Dealt, settings: Settings) -> None:
        self.dealt = dealt
        self.chosen = _chosen(dealt)
        straight = self.chosen.curves_ is None
        self.factor = _over_largest(dealt) if straight else np.ones(1)
        width = self.chosen.coef_.shape[1]
        self.rows = dealt.rows.mapped(self._features(), width).kept()

    def _features(self) -> Callable[[Matrix], Matrix]:
        if self.chosen.curves_ is None:
            return partial(times, factor=self.factor)
        return Curves.from_arrays(self.chosen.curves_).transform

    def fold(self, number: int) -> TopLinear:
        """Fitted to the rows that a fold learns from."""
        return self._fitted(self.dealt.folds[number][0])

    def whole(self, folds: list[TopLinear]) -> TopLinear:
        """Fitted to all rows."""
        return self._fitted(self.dealt.counted)

    def _fitted(self, where: Lazy) -> TopLinear:
        """Fitted to some rows, of which scores have deviation 1, and those of negatives mean 0."""
        lam, top = self.chosen.penalty_
        weight = self.rows.only(where, self.dealt.weight)
        solved = TopPush(lam, top=top, tol=TOL).fit(self.rows, self.dealt.positive, weight)
        scores = self.rows.scores_of_all(solved.coef_[0])
        mean, spread = _unit(self.rows.of_parts(_sums, [scores, self.dealt.positive, where]))
        found = copy.copy(self.chosen)
        found.coef_, found.threshold_ = solved.coef_ * self.factor / spread, mean / spread
        return found


def _chosen(dealt: Dealt) -> TopLinear:
    """Form and penalty, chosen by a few rows."""
    few = dealt.few
    categorical = dealt.given.columns.categorical
    chosen = TopLinear("push", categorical_features=categorical, cv=few.folds)
    chosen.fit(few.X, few.positive, few.weight)
    chosen.cv = None
    del chosen.out_of_fold_
    return chosen


def _over_largest(dealt: Dealt) -> Array:
    """One over the greatest size of an entry of each column."""
    largest = np.max(dealt.rows.asked(column_sizes), axis=0)
    return np.asarray(1.0 / np.where(largest > 0.0, largest, 1.0))


def _sums(scores: Array, positive: Mask, where: Mask) -> Array:
    """Of some rows of a partition: how many, sums of scores and squares; of negatives likewise."""
    some, negative = scores[where], scores[where & ~positive]
    return np.array([len(some), some.sum(), some @ some, len(negative), negative.sum()])


def _unit(parts: list[Array]) -> tuple[float, float]:
    """Mean score of the negatives, and deviation of all."""
    n_rows, total, squares, n_neg, of_negatives = np.sum(parts, axis=0).tolist()
    spread = math.sqrt(max(squares / n_rows - (total / n_rows) ** 2, 0.0))
    return of_negatives / n_neg, spread or 1.0
