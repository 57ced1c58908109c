"""Labels: which value is the positive one, and which rows have it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toppush.io.arrays import is_numeric, is_text, texts_of, value_type, whole
from toppush.io.errors import DataError

Value = str | float
FLAGS = {"true": 1.0, "false": 0.0}
MOST_OTHERS = 20
"""So many negative labels are listed in a model."""


@dataclass(frozen=True)
class LabelRule:
    """The positive label and the others that were seen when fitting.

    Attributes
    ----------
    column : str, optional
        Name of the column of labels, if the format has names.
    positive : str or float
    others : tuple
        With one other, any third label is refused; with more, all of them are negatives.
    """

    column: str | None
    positive: Value
    others: tuple[Value, ...]

    @property
    def numeric(self) -> bool:
        """Whether labels are numbers."""
        return not isinstance(self.positive, str)

    @property
    def type(self) -> pa.DataType:
        """The type that a CSV file's labels are read as."""
        return pa.float64() if self.numeric else pa.string()

    def positives(self, labels: Any) -> NDArray[np.bool_]:
        """Which rows are positive."""
        values = as_values(labels, self.column)
        if is_numeric(values.type) != self.numeric:
            raise DataError(
                f"the labels are {values.type}, and were {'numbers' if self.numeric else 'texts'} "
                "when the model was fitted.",
                column=self.column,
            )
        found = _equal(values, self.positive)
        if len(self.others) == 1:
            self._refuse_third(values, found | _equal(values, self.others[0]))
        return found

    def _refuse_third(self, values: pa.Array, known: NDArray[np.bool_]) -> None:
        if known.all():
            return
        row = int(np.argmin(known))
        raise DataError(
            f"the label {values[row].as_py()!r} is neither {self.positive!r} nor "
            f"{self.others[0]!r}; drop or relabel the row.",
            row=row + 1,
            column=self.column,
        )


def choose(labels: Any, column: str | None, positive: str | None) -> LabelRule:
    """The rule for some labels: the given positive value, or the greater of two."""
    values = as_values(labels, column)
    found = sorted(pc.unique(values).to_pylist())
    if positive is None and len(found) != 2:
        raise DataError(
            f"{len(found)} different labels, {_listed(found)}; name the positive one with "
            "--positive, or the right column with --label.",
            column=column,
        )
    wanted = found[-1] if positive is None else _value(positive, values.type)
    if wanted not in found:
        raise DataError(
            f"no label is {positive!r}; there are {_listed(found)}. Name one with --positive.",
            column=column,
        )
    others = [value for value in found if value != wanted]
    if not others:
        raise DataError(f"every label is {wanted!r}; add rows of the other class.", column=column)
    return LabelRule(column, wanted, tuple(others[:MOST_OTHERS]))


def as_values(labels: Any, column: str | None) -> pa.Array:
    """Labels as float64 or text, none of them missing."""
    values = whole(labels) if isinstance(labels, (pa.Array, pa.ChunkedArray)) else pa.array(labels)
    kind = value_type(values.type)
    if is_text(kind):
        values = texts_of(values)
        gaps = pc.fill_null(pc.equal(values, pa.scalar("", values.type)), True)
    elif is_numeric(kind):
        values = values.dictionary_decode() if kind != values.type else values
        values = values.cast(pa.uint8()) if kind == pa.bool_() else values
        values = values.cast(pa.float64(), safe=False)
        gaps = pc.fill_null(pc.is_nan(values), True)
    else:
        raise DataError(f"labels are {kind}, neither numbers nor text.", column=column)
    if pc.any(gaps).as_py():
        row = int(np.argmax(gaps.to_numpy(zero_copy_only=False))) + 1
        raise DataError("the label is missing; drop the row or label it.", row=row, column=column)
    return values


def _equal(values: pa.Array, wanted: Value) -> NDArray[np.bool_]:
    same = pc.equal(values, pa.scalar(wanted, values.type))
    found: NDArray[np.bool_] = same.to_numpy(zero_copy_only=False)
    return found


def _value(text: str, kind: pa.DataType) -> Value:
    """A label as written on a command line."""
    if not is_numeric(kind):
        return text
    try:
        return float(FLAGS.get(text.lower(), text))
    except ValueError:
        raise DataError(f"labels are numbers and --positive is {text!r}.") from None


def _listed(found: list[Any], most: int = 5) -> str:
    shown = ", ".join(repr(value) for value in found[:most])
    return shown + f" and {len(found) - most} more" * (len(found) > most)
