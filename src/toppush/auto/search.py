"""Choosing the settings of a ranker by cross-validation, without the rows that are scored."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from toppush.auto.combination import Quality
from toppush.folds.scores import Part, mean_over_fits
from toppush.folds.splits import Folds, Turn, in_turn, make_folds, nested, some_rows, within
from toppush.models.base import refuse_elsewhere
from toppush.models.cross_fitted import READING, CrossFitted
from toppush.system.threads import check_cancelled
from toppush.tables.validation import validated
from toppush.types import Array, Labels, Mask, Matrix, Where

SEARCH_ROWS, OF_EACH_CLASS = 5_000, 1_000
"""Rows by which settings are chosen, of both classes in proportion, and the least number of each
class, if there are as many."""
FEW_OF_A_CLASS = 250
"""Rows of the rarer class, of those, up to which settings are chosen by fits that did not see the
evaluated rows. With more of them the folds' own fits choose, at half the cost: the optimism that
this leaves falls with the number of rows."""


@dataclass(frozen=True)
class WeightedRows:
    """Training rows with their classes and weights, and which columns are categorical."""

    X: Matrix
    positive: Mask
    weight: Array | None
    categorical: Mask

    @property
    def mass(self) -> Array:
        """The weights, 1 if there are none."""
        return np.ones(len(self.positive)) if self.weight is None else self.weight

    def part(self, where: Where, X: Matrix | None = None) -> "WeightedRows":
        """Some of the rows, with the columns of `X` if it is given."""
        weight = None if self.weight is None else self.weight[where]
        X = self.X if X is None else X
        return WeightedRows(X[where], self.positive[where], weight, self.categorical)


class CachedFits:
    """Fits with one setting to parts of the rows, each made once.

    `scores_by` fits to some of the rows, and scores all of them.
    """

    def __init__(self, scores_by: Callable[[Where], Array]) -> None:
        self._scores_by = scores_by
        self._scores: dict[bytes, Array] = {}

    def held_scores(self, folds: Folds, n_rows: int) -> Array:
        """Scores of the held-out rows by fits that did not see them, NaN for others."""
        parts: list[Part] = [(held, self._scores_of_all(train)[held]) for train, held in folds]
        return mean_over_fits(parts, n_rows)

    def _scores_of_all(self, train: Where) -> Array:
        """Scores of all rows by a fit to some; two folds share the fit without either of them."""
        train = np.sort(train)
        if (key := train.tobytes()) not in self._scores:
            check_cancelled()
            self._scores[key] = self._scores_by(train)
        return self._scores[key]


@dataclass(frozen=True)
class SettingSearch:
    """Held-out scores of some rows by each setting."""

    settings: list[Any]
    scores: Array
    """A row for each setting."""
    inner: Array
    """The same for each turn, by fits that did not see the rows it evaluates."""
    rows: WeightedRows

    @property
    def best(self) -> int:
        """The setting with the best ranking of all rows."""
        return self._best(self.scores)

    def best_in(self, turn: int) -> int:
        """The setting with the best ranking of the rows that choose in a turn."""
        return self._best(self.inner[:, turn])

    def _best(self, scores: Array) -> int:
        known = ~np.isnan(scores[0])
        quality = Quality(self.rows.positive[known], self.rows.mass[known])
        return int(np.argmax(np.round(quality(scores[:, known]), 12)))


class TunedRanker(CrossFitted):
    """A cross-fitted ranker whose settings are chosen by cross-validation.

    A subclass gives `_tried`.
    """

    _search_rows: ClassVar[tuple[int, int]] = SEARCH_ROWS, OF_EACH_CLASS
    categorical_features: Any
    cv: Any
    random_state: Any

    def _tried(self, rows: WeightedRows) -> Iterator[tuple[Any, CachedFits]]:
        """Each setting to try, with its fits to parts of the rows."""
        raise NotImplementedError

    def _read_training(
        self, X: Matrix, y: Labels, sample_weight: ArrayLike | None
    ) -> tuple[WeightedRows, Folds]:
        refuse_elsewhere(self, X=X)
        X, y = validated(self, X, y, **READING)
        positive, weight, counted = self._read_classes(X, y, sample_weight)
        categorical = np.zeros(X.shape[1], bool)
        categorical[[] if self.categorical_features is None else self.categorical_features] = True
        rng = check_random_state(self.random_state)
        places = make_folds(self.cv, y, positive, counted, rng)
        folds = [(counted[train], counted[held]) for train, held in places]
        return WeightedRows(X, positive, weight, categorical), folds

    def _search(self, rows: WeightedRows, folds: Folds) -> SettingSearch:
        """Held-out scores of some rows by each setting, and again for each turn."""
        where = some_rows(rows.positive, *self._search_rows)
        some, parts = rows.part(where), [within(fold, where) for fold in folds]
        turns = [
            Turn(turn.fold, *within((turn.choosing, turn.judged), where))
            for turn in in_turn(folds, rows.positive)
        ]
        settings, scores, inner = [], [], []
        inner_folds = [_inner(parts, turn, some.positive) for turn in turns]
        for setting, fits in self._tried(some):
            settings.append(setting)
            scores.append(fits.held_scores(parts, len(where)))
            inner.append([fits.held_scores(own, len(where)) for own in inner_folds])
        return SettingSearch(settings, np.array(scores), np.array(inner), some)


def _inner(folds: Folds, turn: Turn, positive: Mask) -> Folds:
    """Folds that choose in a turn, see `FEW_OF_A_CLASS`."""
    if min(positive.sum(), (~positive).sum()) <= FEW_OF_A_CLASS:
        return nested(folds, turn, positive)
    return [(train, np.intersect1d(held, turn.choosing)) for train, held in folds]
