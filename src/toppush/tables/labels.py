"""Labels: which value is the positive one, and which rows have it."""

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toppush.metrics.positive_class import as_number, of_two
from toppush.system.errors import like, listed
from toppush.system.reading import DataError
from toppush.tables import arrow_values as arrow
from toppush.types import Labels, Mask

Value = str | float
MOST_OTHERS = 20
"""Negative labels that a model lists at most."""
NAMED = "as named"


@dataclass(frozen=True)
class LabelRule:
    """The positive label and the others in training."""

    column: str | None
    """Name of the column of labels, if the file has names."""
    positive: Value
    others: tuple[Value, ...]
    """If there is one, any third label is refused; if there are more, any label is negative."""
    why: str = NAMED
    """Why it is positive: the user named it, or a reason of `toppush.metrics.positive_class`."""

    @property
    def numeric(self) -> bool:
        """Whether labels are numbers."""
        return not isinstance(self.positive, str)

    @property
    def type(self) -> pa.DataType:
        """The type as which labels of a CSV file are read."""
        return pa.float64() if self.numeric else pa.string()

    def positives(self, labels: Labels) -> Mask:
        """Which rows are positive; a row without a label is refused."""
        values = as_values(labels, self.column)
        if arrow.is_numeric(values.type) != self.numeric:
            before = "numbers" if self.numeric else "strings"
            raise DataError(
                f"the labels are {values.type}, and were {before} when the model was fitted.",
                column=self.column,
            )
        positive = _equal(values, self.positive)
        if len(self.others) == 1:
            known = positive | _equal(values, self.others[0])
            if not known.all():
                row = int(np.argmin(known))
                raise DataError(
                    f"the label {values[row].as_py()!r} is neither {self.positive!r} nor "
                    f"{self.others[0]!r}; drop or relabel the row.",
                    row=row + 1,
                    column=self.column,
                )
        return positive


def count(labels: Labels, column: str | None) -> Counter[Value]:
    """How often each label occurs."""
    counted = pc.value_counts(as_values(labels, column))
    values, counts = counted.field("values").to_pylist(), counted.field("counts").to_pylist()
    return Counter(dict(zip(values, counts, strict=True)))


def choose(counts: Mapping[Value, int], column: str | None, positive: str | None) -> LabelRule:
    """The rule for labels with these counts; without `positive` there must be two labels."""
    labels = sorted(counts)
    if len(labels) == 1:
        raise DataError(
            f"every label is {labels[0]!r}; add rows of the other class, or name the right column "
            "with --label.",
            column=column,
        )
    if positive is None and len(labels) != 2:
        raise DataError(
            f"{len(labels)} different labels, {listed(labels, 5)}; name the positive one with "
            "--positive, or the right column with --label.",
            column=column,
        )
    if positive is None:
        wanted, why = of_two(labels, counts.__getitem__)
    else:
        positive = positive.strip()
        named = positive if isinstance(labels[0], str) else as_number(positive)
        if named is None:
            raise DataError(f"labels are numbers and --positive is {positive!r}.", column=column)
        if named not in labels:
            raise DataError(
                f"no label is {positive!r}{like(positive, map(str, labels))}; there are "
                f"{listed(labels, 5)}. Name one with --positive.",
                column=column,
            )
        wanted, why = named, NAMED
    others = [label for label in labels if label != wanted]
    return LabelRule(column, wanted, tuple(others[:MOST_OTHERS]), why)


def are_there(labels: Labels) -> Mask:
    """Which rows have a label; it may not be known yet for all."""
    if not isinstance(labels, (pa.Array, pa.ChunkedArray)):
        numbers = np.asarray(labels)
        return ~np.isnan(numbers) if numbers.dtype.kind == "f" else np.ones(len(numbers), bool)
    values = arrow.whole(labels)
    if arrow.is_string(arrow.value_type(values.type)):
        return ~arrow.missing_strings(pc.utf8_trim_whitespace(arrow.as_strings(values)))
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False))


def count_blanks(labels: Labels) -> int:
    """How many labels are strings with blanks around them, which are removed."""
    if not isinstance(labels, (pa.Array, pa.ChunkedArray)):
        return 0
    values = arrow.whole(labels)
    if not arrow.is_string(arrow.value_type(values.type)):
        return 0
    strings = arrow.as_strings(values)
    return int(pc.sum(pc.not_equal(strings, pc.utf8_trim_whitespace(strings))).as_py() or 0)


def caution_blanks(n_blanks: int, column: str | None) -> None:
    """Warn of labels with blanks around them."""
    if n_blanks:
        where = "" if column is None else f" in column {column}"
        warnings.warn(
            f"{n_blanks:,} labels{where} have blanks around them, which are left out.",
            stacklevel=3,
        )


def as_values(labels: Labels, column: str | None) -> pa.Array:
    """Labels as float64 or strings without blanks around them, none of them missing."""
    if not isinstance(labels, (pa.Array, pa.ChunkedArray)):
        labels = _as_arrow(np.asarray(labels), column)
    values = arrow.whole(labels)
    kind = arrow.value_type(values.type)
    if arrow.is_string(kind):
        values = pc.utf8_trim_whitespace(arrow.as_strings(values))
        missing = arrow.missing_strings(values)
    elif arrow.is_numeric(kind):
        numbers = arrow.as_floats("label", values)
        values, missing = pa.array(numbers), np.isnan(numbers)
    else:
        raise DataError(f"labels are {kind}, neither numbers nor text.", column=column)
    if missing.any():
        row = int(np.argmax(missing)) + 1
        raise DataError("the label is missing; drop the row or label it.", row=row, column=column)
    return values


def _as_arrow(labels: NDArray[Any], column: str | None) -> pa.Array:
    """Labels of NumPy, whatever their byte order and precision."""
    try:
        with np.errstate(over="ignore"):
            return pa.array(labels.astype(np.float64) if labels.dtype.kind in "biuf" else labels)
    except (pa.ArrowException, UnicodeDecodeError):  # a forged file has strings of no letters
        raise DataError(
            f"labels are {labels.dtype}, neither numbers nor text.", column=column
        ) from None


def _equal(values: pa.Array, wanted: Value) -> Mask:
    same = pc.equal(values, pa.scalar(wanted, values.type))
    return same.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
