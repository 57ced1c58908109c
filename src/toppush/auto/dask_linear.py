"""The push on rows of Dask: `TopLinear`, its form chosen by a few rows, its weights by all."""

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from toppush.auto.dask_folds import Dealt, Lazy
from toppush.auto.linear import TOL, Features, TopLinear
from toppush.auto.members import Settings
from toppush.matrices import times
from toppush.models.linear import TopPush
from toppush.types import Array, Mask, Matrix

if TYPE_CHECKING:
    from toppush.designs.dask import DaskRows


class LinearGrower:
    """Fits `TopPush` to the numbers that columns become, on the workers.

    Form and penalty are chosen by a few rows, for the rows that a fold holds out by those of the
    other folds, as `TopLinear` chooses them.
    """

    averages = False

    def __init__(self, dealt: Dealt, settings: Settings) -> None:
        self.dealt = dealt
        few, categorical = dealt.few, dealt.given.columns.categorical
        self.ranker = TopLinear("push", categorical_features=categorical, cv=few.folds)
        self.few, folds = self.ranker._read_training(few.X, few.positive, few.weight)
        self.tried = self.ranker._try(self.few, folds)
        self.ranker.cv = None
        self.in_forms: dict[str, InForm] = {}

    def _in_form(self, form: str) -> "InForm":
        """The rows in a form, which the workers keep for other fits."""
        if form not in self.in_forms:
            made = Features.of(self.few, form)
            factor = _over(self.dealt.sizes) if made.curves is None else np.ones(1)
            numbers: Callable[[Matrix], Matrix] = (
                partial(times, factor=factor) if made.curves is None else made.curves.transform
            )
            rows = self.dealt.rows.transform(numbers, made.matrix.shape[1]).persist()
            curves = None if made.curves is None else made.curves.arrays()
            self.in_forms[form] = InForm(rows, factor, curves)
        return self.in_forms[form]

    def fold(self, number: int) -> tuple[TopLinear, TopLinear]:
        """Fitted to a fold's rows by the setting that other folds choose, and by that for all."""
        train, place = self.dealt.folds[number][0], self.tried.best_in(number)
        chosen, best = self._fitted(train, place), self.tried.best
        return chosen, chosen if place == best else self._fitted(train, best)

    def whole(self, folds: list[tuple[TopLinear, TopLinear]]) -> TopLinear:
        """Fitted to all rows."""
        return self._fitted(self.dealt.counted, self.tried.best)

    def final(self, folds: list[tuple[TopLinear, TopLinear]]) -> list[TopLinear]:
        """The fits without each fold, by the setting for all rows."""
        return [final for _, final in folds]

    def unseen(self, folds: list[tuple[TopLinear, TopLinear]]) -> list[TopLinear]:
        """The fits without each fold, by the settings that the other folds choose."""
        return [chosen for chosen, _ in folds]

    def _fitted(self, where: Lazy, place: int) -> TopLinear:
        """Fitted to some rows by a setting; their scores have deviation 1, of negatives mean 0."""
        form, penalty = self.tried.settings[place]
        lam, top = penalty
        rows, factor, curves = self._in_form(form)
        weight = rows.masked_weights(where, self.dealt.weight)
        solved = TopPush(lam, top=top, tol=TOL).fit(rows, self.dealt.positive, weight)
        scores = rows.scores_of_all(solved.coef_[0])
        mean, spread = _unit(rows.map_parts(_sums, [scores, self.dealt.positive, where]))
        found = copy.copy(self.ranker)
        found.form_, found.penalty_, found.curves_ = form, list(penalty), curves
        found.coef_, found.threshold_ = solved.coef_ * factor / spread, mean / spread
        return found


class InForm(NamedTuple):
    """Rows on the workers as numbers, and how columns become these."""

    rows: "DaskRows"
    factor: Array
    curves: dict[str, Array] | None


def _over(sizes: Array) -> Array:
    """One over each size; 1 of a column of zeros."""
    return np.asarray(1.0 / np.where(sizes > 0.0, sizes, 1.0))


def _sums(scores: Array, positive: Mask, where: Mask) -> Array:
    """Of some rows of a partition: how many, sums of scores and squares; of negatives likewise."""
    some, negative = scores[where], scores[where & ~positive]
    return np.array([len(some), some.sum(), some @ some, len(negative), negative.sum()])


def _unit(parts: list[Array]) -> tuple[float, float]:
    """Mean score of the negatives, and deviation of all."""
    n_rows, total, squares, n_neg, of_negatives = np.sum(parts, axis=0).tolist()
    spread = math.sqrt(max(squares / n_rows - (total / n_rows) ** 2, 0.0))
    return of_negatives / n_neg, spread or 1.0
