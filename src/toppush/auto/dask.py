"""`TopRanker` on rows of Dask, which stay on the workers.

To this process come the labels, weights and held-out scores by which members are combined, a few
numbers per row, and the few rows by which `TopLinear` chooses the form of columns.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from sklearn.utils.validation import validate_data

from toppush.auto.dask_folds import Dealt, Lazy, as_numbers, deal
from toppush.auto.dask_linear import LinearGrower
from toppush.auto.dask_xgboost import BoostedGrower, why_not
from toppush.auto.linear import TOP
from toppush.auto.members import EFFORTS, MEMBERS, Fitted, Given, Member, Settings
from toppush.designs import BACKENDS, backend_of, place
from toppush.folds.cross_fitted import (
    Part,
    in_order,
    joined,
    require_both_in_each,
    require_two_of_each,
    top_mean,
)
from toppush.folds.expected_scores import PER_ROW, narrowed
from toppush.matrices import column_sizes
from toppush.models.base import read_training as read_placed
from toppush.system.threads import check_cancelled
from toppush.tables.validation import column_names, refuse_sizes
from toppush.types import Array, Where

IN_MEMORY = "it works on rows in memory, and these are of Dask"


def holds(X: Any) -> bool:
    """Whether rows are of Dask."""
    return backend_of(X) is BACKENDS["dask"]


def read_training(ranker: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> Dealt:
    """Rows where they are, dealt to folds; sets what is known of their columns."""
    if groups is not None:
        raise ValueError(
            "groups would need all rows in one place; for a Dask collection leave them out."
        )
    read = read_placed(ranker, X, y, sample_weight)
    placed: Any = read.rows  # of Dask, and what Dask's rows can is not asked of others
    cv = EFFORTS[ranker.effort].n_folds if ranker.cv is None else ranker.cv
    n_folds = placed.number_of_folds(cv)
    rows, columns = as_numbers(placed, ranker.categorical_features)
    sizes = np.max(rows.ask(column_sizes), axis=0)
    names = column_names(ranker)
    refuse_sizes(sizes, [names[source] for source in columns.sources])
    dealt = deal(rows, columns, read.positive, read.sample_weight, n_folds, sizes)
    require_two_of_each(dealt.given.positive, read.classes)
    require_both_in_each(dealt.given.folds, dealt.given.positive)
    ranker.classes_ = read.classes
    ranker._keep_columns(columns)
    return dealt


def scores(ranker: Any, X: Any) -> Array:
    """The ranker's scores of Dask's rows, by the workers: a Dask array, not yet computed."""
    rows: Any = place(X)
    validate_data(ranker, rows.template, reset=False, skip_check_array=True)
    lazy: Array = rows.scored_by(_light(ranker).decision_function)
    return lazy


def _light(ranker: Any) -> Any:
    """A copy for the workers, without what has an entry per training row."""
    light = copy.copy(ranker)
    light._board = light._rows_of_board = None
    light.members_ = {name: _without_lists(one) for name, one in ranker.members_.items()}
    return _without_lists(light)


def _without_lists(ranker: Any) -> Any:
    light = copy.copy(ranker)
    for name in PER_ROW:
        vars(light).pop(name, None)
    if hasattr(light, "cv"):
        light.cv = None  # may be a list of folds
    return light


class Grower(Protocol):
    """Fits a member to Dask's rows."""

    averages: bool
    """Whether the mean of the fold models scores new rows, and not one fit to all rows."""

    def fold(self, number: int) -> Any:
        """Fitted to the rows that a fold learns from."""

    def whole(self, folds: list[Any]) -> Any:
        """For all rows, once there is one for each fold."""

    def final(self, folds: list[Any]) -> list[Any]:
        """The fold models by the choices that are made for all rows."""

    def unseen(self, folds: list[Any]) -> list[Any]:
        """For the rows that each fold holds out: fits and choices that were made without them."""


@dataclass(frozen=True)
class OnDask:
    """A member of the name, if it can be fitted to Dask's rows."""

    dealt: Dealt
    grower: Callable[[Dealt, Settings], Grower] | None = None
    refuses: Callable[[Dealt], str | None] = lambda dealt: IN_MEMORY

    def left_out(self, given: Given) -> str | None:
        """Why it does not take part, if so."""
        return self.refuses(self.dealt)

    def fit(self, given: Given, settings: Settings) -> Fitted:
        """Fit to all rows, and score those that are listed by a fit that did not see them."""
        assert self.grower is not None
        grower = self.grower(self.dealt, settings)
        folds = []
        for number in range(len(given.folds)):
            check_cancelled()
            folds.append(grower.fold(number))
        ranker, final = grower.whole(folds), grower.final(folds)
        held, held_listed = [where for _, where in self.dealt.folds], [at for _, at in given.folds]
        units = self._parts(held, held_listed, final)
        parts = _in_units(self._parts(held, held_listed, grower.unseen(folds)), units)
        if grower.averages:
            again, again_listed = zip(*self.dealt.again, strict=True)
            second_parts = self._parts(again, again_listed, final)
            unseen = joined(parts, given.n_rows)
            second = joined(second_parts, given.n_rows, units=units)
            expected = narrowed(unseen, joined(units, given.n_rows), second, len(folds))
        else:
            unseen, second = _side_by_side(parts, given.n_rows), None
            expected = unseen
        above = top_mean(expected[~given.positive], TOP)
        ranker.threshold_ += above
        return Fitted(ranker, unseen - above, False, None if second is None else second - above)

    def _parts(
        self, rows: Sequence[Lazy], listed: Sequence[Where], rankers: Sequence[Any]
    ) -> list[Part]:
        """Scores of some rows by each ranker, with their places among the listed ones."""
        return [
            (places, self.dealt.scores_of(where, ranker.decision_function))
            for where, places, ranker in zip(rows, listed, rankers, strict=True)
        ]


def _in_units(parts: list[Part], units: list[Part]) -> list[Part]:
    """Scores of the same rows, each part spread as its counterpart."""
    pairs = zip(parts, units, strict=True)
    return [(held, in_order(target, scores)) for (held, scores), (_, target) in pairs]


def _side_by_side(parts: list[Part], n_rows: int) -> Array:
    """Scores of held-out rows as one ranking."""
    found = np.empty(n_rows)
    for held, own in parts:
        found[held] = own
    return found


def _always(dealt: Dealt) -> str | None:
    return None


ABLE: dict[str, tuple[Callable[..., Grower], Callable[[Dealt], str | None]]] = {
    "linear": (LinearGrower, _always),
    "boosted": (partial(BoostedGrower, "binary"), why_not),
    "trees": (partial(BoostedGrower, "pairwise"), why_not),
}
"""Members that can, by name, and why not always."""


def members_for(dealt: Dealt, asked: Mapping[str, Member]) -> dict[str, OnDask]:
    """The members that are asked for on Dask's rows; those that cannot be fitted say why."""
    ours = {name for name, member in asked.items() if member is MEMBERS.get(name)}
    return {name: OnDask(dealt, *ABLE.get(name, ()) if name in ours else ()) for name in asked}
