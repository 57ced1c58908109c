"""Rows on Dask's workers, dealt to folds, and what this process knows of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from toppush.auto.linear import SEARCH_ROWS
from toppush.auto.members import Given
from toppush.folds.cross_fitted import Fold, some_rows, within
from toppush.folds.expected_scores import MOST, SHARE
from toppush.metrics.labels import checked_weights
from toppush.tables.frames import FrameColumns, FrameSummary, are_plain
from toppush.types import Array, Mask, Matrix, Where

if TYPE_CHECKING:
    from toppush.designs.dask import DaskRows

Lazy = Any
"""A vector of Dask with an entry per row."""
MOST_LISTED = 4_000_000
"""Rows whose scores come to this process; of more, every so many-th of each class."""


class Sample(NamedTuple):
    """A few rows in this process, and their part of the folds."""

    X: Matrix
    positive: Mask
    weight: Array | None
    folds: list[Fold]


@dataclass(frozen=True)
class Dealt:
    """Rows on the workers, their folds, and what this process knows of those that are listed."""

    rows: "DaskRows"
    """As numbers, see `FrameColumns`."""
    positive: Lazy
    weight: Lazy | None
    counted: Lazy
    """Which rows weigh something."""
    folds: list[tuple[Lazy, Lazy]]
    """Which rows each fold learns from, and which of those that are listed it holds out."""
    again: Sequence[tuple[Lazy, Where]]
    """A few listed rows of the next fold, which fold models that are averaged leave out as well: as
    rows, and as places among the listed ones."""
    given: Given
    """What is known of the rows that are listed."""
    places: Where
    """Where these are among all rows."""
    lengths: Where
    """Rows of each partition."""
    sizes: Array
    """Greatest magnitude in each column of the rows."""

    @property
    def n_rows(self) -> int:
        """Of all partitions."""
        return int(self.lengths.sum())

    def scores_of(self, where: Lazy, score: Callable[[Matrix], Array]) -> Array:
        """Scores of some rows, in this process."""
        return np.asarray(self.rows.subset(where).scored_by(score), np.float64)

    @cached_property
    def few(self) -> Sample:
        """As many rows as `TopLinear` chooses by."""
        where = some_rows(self.given.positive, SEARCH_ROWS)
        ends = np.cumsum(self.lengths)
        places = self.places[where]
        parts = np.split(places, np.searchsorted(places, ends[:-1]))
        starts = [0, *ends[:-1].tolist()]
        inside = [part - start for part, start in zip(parts, starts, strict=True)]
        weight = None if self.given.weight is None else self.given.weight[where]
        folds = [within(fold, where) for fold in self.given.folds]
        return Sample(self.rows.take(inside), self.given.positive[where], weight, folds)


def deal(
    rows: "DaskRows",
    columns: FrameColumns,
    positive: Lazy,
    weight: Lazy | None,
    n_folds: int,
    sizes: Array,
) -> Dealt:
    """Deal rows to folds, and list them; the workers keep labels, weights and folds.

    Rows are dealt in turn to the hands, as cards by number: one hand for each fold, or several of
    which the first is listed if there are many rows.
    Those of weight 0 are in none.
    """
    positive, weight = positive.persist(), None if weight is None else weight.persist()
    counts = np.sum(rows.map_parts(_counts, [positive, weight]), axis=0)
    n_folds = max(1, min(n_folds, int(counts.min())))
    n_each = max(1, -(-int(counts.sum()) // MOST_LISTED))
    n_hands, n_rounds = n_folds * n_each, max(round(1 / SHARE), int(counts.sum()) // MOST)
    cards = rows.numbered_in_turn(positive, n_hands * n_rounds, n_folds)
    if weight is not None:
        cards = (cards + 1) * (weight > 0) - 1
        if total := float(weight.sum().compute()):  # mean 1, as in memory
            weight = (weight * (counts.sum() / total)).persist()
    cards = cards.persist()
    counted, hands = (cards >= 0).persist(), cards % n_hands
    folds = [
        (
            (counted & (hands % n_folds != fold)).persist(),
            (counted & (hands == fold)).persist(),
        )
        for fold in range(n_folds)
    ]
    parts = rows.map_parts(_listed, [cards, positive, weight], n_hands, n_folds)
    lengths = np.array([part.n_rows for part in parts])
    starts = np.cumsum(lengths) - lengths
    places = [start + part.where for start, part in zip(starts, parts, strict=True)]
    known = _given(parts, columns, n_folds, weighted=weight is not None)
    known = replace(known, n_elsewhere=int(counts.sum()))
    listed = np.concatenate([part.cards for part in parts])
    following = [(fold + 1) % n_folds for fold in range(n_folds)]  # in the first round
    again = [((cards == card).persist(), np.flatnonzero(listed == card)) for card in following]
    where = np.concatenate(places)
    return Dealt(rows, positive, weight, counted, folds, again, known, where, lengths, sizes)


def _given(parts: list["Listed"], columns: FrameColumns, n_folds: int, *, weighted: bool) -> Given:
    """What is known of the rows that are listed."""
    hands = np.concatenate([part.hands for part in parts])
    return Given(
        None,
        np.empty((0, len(columns.sources))),
        columns,
        np.concatenate([part.positive for part in parts]),
        np.concatenate([part.weight for part in parts]) if weighted else None,
        [(np.flatnonzero(hands != fold), np.flatnonzero(hands == fold)) for fold in range(n_folds)],
    )


class Listed(NamedTuple):
    """What is asked of the rows of a partition that are listed."""

    n_rows: int
    where: Where
    cards: Where
    hands: Where
    positive: Mask
    weight: Array


def _counts(positive: ArrayLike, weight: ArrayLike | None) -> Where:
    """Negatives and positives of a partition that weigh something."""
    side = np.asarray(positive, bool)
    if weight is None:
        return np.bincount(side, minlength=2)
    return np.bincount(side[checked_weights(weight) > 0], minlength=2)


def _listed(cards: Any, positive: Any, weight: Any, n_hands: int, n_folds: int) -> Listed:
    cards, positive = np.asarray(cards), np.asarray(positive, bool)
    hands = cards % n_hands
    where = np.flatnonzero((cards >= 0) & (hands < n_folds))
    mass = np.ones(len(hands)) if weight is None else np.asarray(weight, np.float64)
    return Listed(len(hands), where, cards[where], hands[where], positive[where], mass[where])


def as_numbers(rows: "DaskRows", categorical_features: Any) -> tuple["DaskRows", FrameColumns]:
    """Rows as numbers, and what was learned of their columns."""
    if are_plain(rows.template, categorical_features):
        return rows, FrameColumns(rows.shape[1])
    look = partial(FrameSummary.of, categorical_features=categorical_features)
    columns = FrameSummary.merge(rows.ask(look)).settle()
    return rows.transform(columns.numbers, len(columns.sources)).persist(), columns
