"""The record that every source of scores reads a file into, and what the sources share."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from toppush.files.readers.base import Reader
from toppush.files.scoring import ScoringNotes
from toppush.system.reading import DataError
from toppush.tables import arrow_values as arrow
from toppush.tables.labels import LabelRule
from toppush.tables.loaded import feature_columns
from toppush.types import Array, Mask, Matrix


class Wanted(NamedTuple):
    """What is wanted of a file besides its scores."""

    label: str | None = None
    """Column of the labels, if not the usual one."""
    positive: str | None = None
    """The label to rank first, if it is named."""
    texts: tuple[str, ...] = ()
    """Further columns, as texts: an id, groups."""
    numbers: tuple[str, ...] = ()
    """Further columns, as numbers: amounts, weights."""
    labelled: bool = True
    """Whether labels are wanted at all."""
    rows: bool = False
    """Whether the labelled rows themselves are wanted too, as what scores them takes them."""


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """The rows of a file in its order: scores, which are positive, further columns.

    Attributes
    ----------
    scores : array of shape (n_rows,)
        The highest is the top of the list.
    columns : pyarrow.Table or None
        The further columns that were wanted.
    seen : ScoringNotes
        What was met on the way.
    labels : (LabelRule, array of bool) or None
        Ask `label` and `positive` for them.
    """

    scores: Array
    columns: pa.Table | None
    seen: ScoringNotes
    labels: tuple[LabelRule, Mask] | None = None
    rows: Matrix = None
    """What was scored, if it is wanted."""

    @property
    def label(self) -> LabelRule:
        """Which label is positive, and why."""
        return self._labels[0]

    @property
    def positive(self) -> Mask:
        """Which rows are positive."""
        return self._labels[1]

    @property
    def _labels(self) -> tuple[LabelRule, Mask]:
        if self.labels is None:
            raise DataError("the rows have no labels.")
        return self.labels

    def numbers(self, name: str) -> Array:
        """A further column as finite numbers."""
        return finite_numbers(self.columns, name)

    def texts(self, name: str) -> pa.Array:
        """A further column as texts, null where there is none."""
        return arrow.texts_of(arrow.whole(self.columns[name]))  # type: ignore[index]


class Source(ABC):
    """Whoever gives scores."""

    name: str
    """What it is called in sentences."""
    lower_is_better: bool = False

    def read(self, file: Reader, wanted: Wanted) -> ScoredRows:
        """Scores of all rows of an open file, and what else is wanted of it."""
        with _named(file):
            found = self._read(file, wanted)
            if not self.lower_is_better:
                return found
            return replace(found, scores=-found.scores)

    @abstractmethod
    def _read(self, file: Reader, wanted: Wanted) -> ScoredRows: ...

    @property
    def own_features(self) -> list[str] | None:
        """Names of the columns that it scores by; None if it does not say, or they have none."""
        return None

    def features(self, names: Iterable[str], *others: str | None) -> list[str]:
        """Of the columns of a table its features, see `feature_columns`; never the label."""
        known = self.own_features
        return feature_columns(names if known is None else known, *others)

    def was_fitted_to(self, file: Reader) -> bool:
        """Whether it is known to have learned from this very file, whose rows are still unread."""
        return False


def finite_numbers(table: pa.Table, name: str) -> Array:
    """A column as numbers, all of them finite."""
    column = arrow.whole(table[name])
    kind = arrow.value_type(column.type)
    if not arrow.is_numeric(kind):
        raise DataError(f"holds {kind}{_first_text(column)}, and numbers are needed.", column=name)
    numbers = arrow.as_floats(name, column)
    finite = np.isfinite(numbers)
    if not finite.all():
        row = int(np.argmin(finite))
        wrong = "is missing" if np.isnan(numbers[row]) else f"is {numbers[row]}"
        raise DataError(
            f"the number {wrong}, as in {int((~finite).sum()):,} of {len(finite):,} rows; put a "
            "finite number there, or drop the rows.",
            row=row + 1,
            column=name,
        )
    return numbers


def _first_text(column: pa.Array) -> str:
    if not arrow.is_text(arrow.value_type(column.type)):
        return ""
    texts = (text for text in arrow.texts_of(column).to_pylist() if text)
    wrong = next((text for text in texts if not arrow.is_number(text)), None)
    return "" if wrong is None else f" ({wrong!r} for one)"


def further(table: pa.Table, wanted: Wanted) -> pa.Table | None:
    """The further columns that are wanted, if any are."""
    names = list(dict.fromkeys((*wanted.texts, *wanted.numbers)))
    return table.select(names) if names else None


@contextmanager
def _named(file: Reader) -> Iterator[None]:
    """Name the file in an error about its rows."""
    try:
        yield
    except DataError as error:
        raise error if error.file is not None else file.placed(error) from None
