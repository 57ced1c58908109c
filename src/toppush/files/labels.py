"""Labels: which value is the positive one, and which rows have it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toppush.files import arrow_values as arrow
from toppush.files.errors import like, listed
from toppush.system.reading import DataError
from toppush.types import Labels, Mask

Value = str | float
FLAGS = {"true": 1.0, "false": 0.0}
MOST_OTHERS = 20
"""So many negative labels are listed in a model."""
NAMED, RARER, GREATER = "as named", "the rarer of two texts", "the greater of two numbers"
LATER = "the later of two equally frequent texts"


@dataclass(frozen=True)
class LabelRule:
    """The positive label and the others that were seen when fitting."""

    column: str | None
    """Name of the column of labels, if the format has names."""
    positive: Value
    others: tuple[Value, ...]
    """With one other, any third label is refused; with more, all of them are negatives."""
    why: str = NAMED
    """Why that one is positive: it was named, or is the rarer or the greater of two."""

    @property
    def numeric(self) -> bool:
        """Whether labels are numbers."""
        return not isinstance(self.positive, str)

    @property
    def type(self) -> pa.DataType:
        """The type that a CSV file's labels are read as."""
        return pa.float64() if self.numeric else pa.string()

    def positives(self, labels: Labels) -> Mask:
        """Which rows are positive."""
        values = as_values(labels, self.column)
        if arrow.is_numeric(values.type) != self.numeric:
            raise DataError(
                f"the labels are {values.type}, and were {'numbers' if self.numeric else 'texts'} "
                "when the model was fitted.",
                column=self.column,
            )
        found = _equal(values, self.positive)
        if len(self.others) == 1:
            known = found | _equal(values, self.others[0])
            if not known.all():
                row = int(np.argmin(known))
                raise DataError(
                    f"the label {values[row].as_py()!r} is neither {self.positive!r} nor "
                    f"{self.others[0]!r}; drop or relabel the row.",
                    row=row + 1,
                    column=self.column,
                )
        return found


def count(labels: Labels, column: str | None) -> Counter[Value]:
    """How often there is each label."""
    counted = pc.value_counts(as_values(labels, column))
    values, counts = counted.field("values").to_pylist(), counted.field("counts").to_pylist()
    return Counter(dict(zip(values, counts, strict=True)))


def choose(counts: Mapping[Value, int], column: str | None, positive: str | None) -> LabelRule:
    """The rule for labels that are there so often: the positive one that is named, or one of two.

    Of two texts the rarer is positive, of two numbers (also written as texts) the greater.
    """
    found = sorted(counts)
    if len(found) == 1:
        raise DataError(
            f"every label is {found[0]!r}; add rows of the other class, or name the right column "
            "with --label.",
            column=column,
        )
    if positive is None and len(found) != 2:
        raise DataError(
            f"{len(found)} different labels, {listed(found, 5)}; name the positive one with "
            "--positive, or the right column with --label.",
            column=column,
        )
    wanted, why = _of_two(counts) if positive is None else (_named(positive, found, column), NAMED)
    others = [value for value in found if value != wanted]
    return LabelRule(column, wanted, tuple(others[:MOST_OTHERS]), why)


def _of_two(counts: Mapping[Value, int]) -> tuple[Value, str]:
    """The positive one of two labels, and why."""
    first, second = sorted(counts)
    numbers = [_as_number(label) for label in (first, second)]
    if None not in numbers and numbers[0] != numbers[1]:
        return (first if numbers[0] > numbers[1] else second), GREATER  # type: ignore[operator]
    if counts[first] == counts[second]:
        return second, LATER
    return min(counts, key=counts.__getitem__), RARER


def _as_number(label: Value) -> float | None:
    """A label that is a number, or true or false, or reads as one."""
    if not isinstance(label, str):
        return float(label)
    if label.lower() in FLAGS:
        return FLAGS[label.lower()]
    return float(label) if arrow.is_number(label) else None


def _named(positive: str, found: list[Value], column: str | None) -> Value:
    """The label that was named on a command line."""
    wanted = positive if isinstance(found[0], str) else _as_number(positive)
    if wanted is None:
        raise DataError(f"labels are numbers and --positive is {positive!r}.", column=column)
    if wanted not in found:
        raise DataError(
            f"no label is {positive!r}{like(positive, map(str, found))}; there are "
            f"{listed(found, 5)}. Name one with --positive.",
            column=column,
        )
    return wanted


def are_there(labels: Labels) -> Mask:
    """Where there is a label; of some rows it may not be known yet."""
    if not isinstance(labels, (pa.Array, pa.ChunkedArray)):
        numbers = np.asarray(labels)
        return ~np.isnan(numbers) if numbers.dtype.kind == "f" else np.ones(len(numbers), bool)
    values = arrow.whole(labels)
    if arrow.is_text(arrow.value_type(values.type)):
        return ~arrow.no_text(values)
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False))


def as_values(labels: Labels, column: str | None) -> pa.Array:
    """Labels as float64 or text, none of them missing."""
    if not isinstance(labels, (pa.Array, pa.ChunkedArray)):
        labels = _as_arrow(np.asarray(labels), column)
    values = arrow.whole(labels)
    kind = arrow.value_type(values.type)
    if arrow.is_text(kind):
        values = arrow.texts_of(values)
        gaps = arrow.no_text(values)
    elif arrow.is_numeric(kind):
        numbers = arrow.as_floats("label", values)
        values, gaps = pa.array(numbers), np.isnan(numbers)
    else:
        raise DataError(f"labels are {kind}, neither numbers nor text.", column=column)
    if gaps.any():
        row = int(np.argmax(gaps)) + 1
        raise DataError("the label is missing; drop the row or label it.", row=row, column=column)
    return values


def _as_arrow(labels: NDArray[Any], column: str | None) -> pa.Array:
    """Labels of NumPy, whatever their byte order and precision."""
    try:
        with np.errstate(over="ignore"):
            return pa.array(labels.astype(np.float64) if labels.dtype.kind in "biuf" else labels)
    except pa.ArrowException:
        raise DataError(
            f"labels are {labels.dtype}, neither numbers nor text.", column=column
        ) from None


def _equal(values: pa.Array, wanted: Value) -> Mask:
    same = pc.equal(values, pa.scalar(wanted, values.type))
    return same.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
