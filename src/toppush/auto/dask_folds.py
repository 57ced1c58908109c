"""Rows of Dask assigned to folds, and what this process knows of them."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from toppush.auto.search import SEARCH_ROWS
from toppush.folds.scores import MOST, SHARE
from toppush.folds.splits import Folds, some_rows, within
from toppush.metrics.positive_class import checked_weights
from toppush.tables.frames import Categories, FrameColumns, FrameSummary, are_plain
from toppush.types import Array, Mask, Matrix, Where

if TYPE_CHECKING:
    from toppush.designs.dask import DaskRows

Lazy = Any
"""A Dask vector with an entry for each row."""
MOST_SAMPLED = 4_000_000
"""Rows whose scores come to this process; of more rows, an even sample of each class."""


class SearchRows(NamedTuple):
    """The few rows in this process by which `TopLinear` chooses its settings."""

    X: Matrix
    positive: Mask
    weight: Array | None
    folds: Folds


class Sampled(NamedTuple):
    """The sampled rows of one or all partitions."""

    n_rows: int
    where: Where
    cell: Where
    positive: Mask
    weight: Array


@dataclass
class DaskFolds:
    """Rows on the workers, their folds, and what this process knows of the sampled ones.

    Rows are assigned to cells in turn, by class: of n_parts * n_rounds cells, a cell's remainder by
    n_parts is the part that it belongs to. There is a part for each fold, or several of which the
    first is sampled if there are many rows; the cells of the first round are left out by a second
    fold model as well. Rows of weight 0 are in no cell.
    """

    rows: "DaskRows"
    """As numbers, see `FrameColumns`."""
    columns: FrameColumns
    positive: Lazy
    weight: Lazy | None
    n_folds: int
    sizes: Array
    """Greatest magnitude in each column of the rows."""
    counted: Lazy = field(init=False)
    """Which rows have a weight above 0."""
    folds: list[tuple[Lazy, Lazy]] = field(init=False)
    """Which rows each fold trains on, and which of the sampled rows it holds out."""
    again: list[tuple[Lazy, Where]] = field(init=False)
    """A few sampled rows of the next fold, which averaged fold models leave out as well: as rows,
    and as places among the sampled rows."""
    n_counted: int = field(init=False)
    n_rows: int = field(init=False)
    places: Where = field(init=False)
    """Positions of the sampled rows among all."""
    sample_positive: Mask = field(init=False)
    sample_weight: Array | None = field(init=False)
    sample_folds: Folds = field(init=False)

    def __post_init__(self) -> None:
        self.positive = self.positive.persist()
        self.weight = None if self.weight is None else self.weight.persist()
        counts = np.sum(self.rows.map_parts(_class_counts, [self.positive, self.weight]), axis=0)
        self.n_counted = int(counts.sum())
        self.n_folds = max(1, min(self.n_folds, int(counts.min())))
        n_parts = self.n_folds * max(1, -(-self.n_counted // MOST_SAMPLED))
        n_rounds = max(round(1 / SHARE), self.n_counted // MOST)
        cells = self.rows.numbered_in_turn(self.positive, n_parts * n_rounds, self.n_folds)
        if self.weight is not None:
            cells = (cells + 1) * (self.weight > 0) - 1
            if total := float(self.weight.sum().compute()):  # mean 1, as in memory
                self.weight = (self.weight * (counts.sum() / total)).persist()
        cells = cells.persist()
        self.counted, part = (cells >= 0).persist(), cells % n_parts
        self.folds = [
            (
                (self.counted & (part % self.n_folds != fold)).persist(),
                (self.counted & (part == fold)).persist(),
            )
            for fold in range(self.n_folds)
        ]
        self._read_sample(cells, n_parts)

    def _read_sample(self, cells: Lazy, n_parts: int) -> None:
        """Set what is known of the sampled rows."""
        vectors = [cells, self.positive, self.weight]
        parts = self.rows.map_parts(_sampled, vectors, n_parts, self.n_folds)
        self._lengths = np.array([part.n_rows for part in parts])
        self.n_rows = int(self._lengths.sum())
        starts = np.cumsum(self._lengths) - self._lengths
        where = [start + part.where for start, part in zip(starts, parts, strict=True)]
        self.places = np.concatenate(where)
        self.sample_positive = np.concatenate([part.positive for part in parts])
        weight = np.concatenate([part.weight for part in parts])
        self.sample_weight = None if self.weight is None else weight
        cell = np.concatenate([part.cell for part in parts])
        fold_of = cell % n_parts
        self.sample_folds = [
            (np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold))
            for fold in range(self.n_folds)
        ]
        following = [(fold + 1) % self.n_folds for fold in range(self.n_folds)]  # the first round
        self.again = [((cells == at).persist(), np.flatnonzero(cell == at)) for at in following]

    def scores_of(self, where: Lazy, score: Callable[[Matrix], Array]) -> Array:
        """Scores of some rows, in this process."""
        return np.asarray(self.rows.subset(where).scored_by(score), np.float64)

    @cached_property
    def few(self) -> SearchRows:
        """As many rows as `TopLinear` chooses by."""
        where = some_rows(self.sample_positive, SEARCH_ROWS)
        ends = np.cumsum(self._lengths)
        places = self.places[where]
        parts = np.split(places, np.searchsorted(places, ends[:-1]))
        starts = [0, *ends[:-1].tolist()]
        inside = [part - start for part, start in zip(parts, starts, strict=True)]
        weight = None if self.sample_weight is None else self.sample_weight[where]
        folds = [within(fold, where) for fold in self.sample_folds]
        return SearchRows(self.rows.take(inside), self.sample_positive[where], weight, folds)


def _class_counts(positive: ArrayLike, weight: ArrayLike | None) -> Where:
    """Number of negatives and positives of a partition with a weight above 0."""
    side = np.asarray(positive, bool)
    if weight is None:
        return np.bincount(side, minlength=2)
    return np.bincount(side[checked_weights(weight) > 0], minlength=2)


def _sampled(cell: Any, positive: Any, weight: Any, n_parts: int, n_folds: int) -> Sampled:
    cell, positive = np.asarray(cell), np.asarray(positive, bool)
    where = np.flatnonzero((cell >= 0) & (cell % n_parts < n_folds))
    mass = np.ones(len(cell)) if weight is None else np.asarray(weight, np.float64)
    return Sampled(len(cell), where, cell[where], positive[where], mass[where])


def as_numbers(rows: "DaskRows", categorical_features: Any) -> tuple["DaskRows", FrameColumns]:
    """Rows as numbers, and how their columns became numbers."""
    if are_plain(rows.template, categorical_features):
        return rows, FrameColumns(rows.shape[1])
    read = partial(FrameSummary.of, categorical_features=categorical_features)
    summary = FrameSummary.merge(rows.ask(read))
    columns = summary.settle()
    texts = [n for n in columns.categories if n in summary.open and summary.is_free_text(n)]
    if texts:
        names = [summary.names[number] for number in texts]
        warnings.warn(
            f"columns {names} hold free text, which is not supported for rows of Dask; they are "
            "taken as empty. Turn them into numbers, or fit to rows in memory.",
            UserWarning,
            stacklevel=4,
        )
        empty: Categories = {number: [] for number in texts}
        columns = replace(columns, categories=columns.categories | empty)
    return rows.transform(columns.numbers, len(columns.sources)).persist(), columns
