"""Tables with categories as numbers for trees: codes, and NaN for missing values."""

import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from toppush.tables.dates import DAY
from toppush.tables.number_strings import PERCENT, NumberFormat, format_of, is_missing, preventing
from toppush.types import Array

FROM_DTYPE = "from_dtype"
CATEGORIES = ("category", "categorical", "enum", "dictionary")
"""How the names of types begin whose columns hold categories."""
STRINGS = ("object", "str", "utf8", "string", "large_string", "<u", "unicode")
"""How the names of types begin whose columns hold categories unless all values are numbers."""
DATES = ("date", "timestamp", "period")
INTEGERS = ("int", "uint")
SHOWN = 3
"""Values of a column that a warning names."""
Categories = dict[int, list[Any]]
"""Number of a column -> its categories, strings or numbers, in the order of their codes."""
Formats = dict[int, NumberFormat]
"""Number of a column -> how its numbers are written."""


@dataclass(frozen=True)
class Table:
    """A data frame, an Arrow table or an array, column by column."""

    given: Any

    @property
    def has_types(self) -> bool:
        """Whether each column has a type of its own, or an array holds objects."""
        is_frame = hasattr(self.given, "columns") and hasattr(self.given, "dtypes")
        return is_frame or self._is_arrow or self._holds_objects

    @property
    def _is_arrow(self) -> bool:
        pyarrow = sys.modules.get("pyarrow")
        return pyarrow is not None and isinstance(self.given, pyarrow.Table)

    @property
    def _holds_objects(self) -> bool:
        is_array = isinstance(self.given, np.ndarray) and self.given.ndim == 2
        return bool(is_array and self.given.dtype.kind in "OUT")

    @property
    def names(self) -> list[Any]:
        """Names of the columns; numbers if there are none."""
        if self._is_arrow:
            return list(self.given.column_names)
        if hasattr(self.given, "columns") and hasattr(self.given, "dtypes"):
            return list(self.given.columns)
        if not isinstance(self.given, np.ndarray):
            raise ValueError(
                f"categorical_features needs a data frame or an array, and X is a "
                f"{type(self.given).__name__}; turn it into one, or its categories into columns."
            )
        return list(range(self.given.shape[1]))

    def column(self, number: int) -> NDArray[Any]:
        """The values of a column, as they are."""
        if isinstance(self.given, np.ndarray) or not self.has_types:
            return np.asarray(self.given[:, number])
        return np.asarray(_safe_indexing(self.given, number, axis=1))

    def __len__(self) -> int:
        return int(self.given.shape[0])

    def of_type(self, begins: tuple[str, ...]) -> list[int]:
        """Columns with a type whose name begins so."""
        return [n for n, kind in enumerate(self._types()) if kind.startswith(begins)]

    def _types(self) -> list[str]:
        if not self.has_types:
            return []
        if self._holds_objects:
            return ["object"] * self.given.shape[1]
        types = self.given.schema.types if self._is_arrow else self.given.dtypes
        return [str(one).lower() for one in types]

    def numbers_of(self, wanted: Sequence[Any]) -> list[int]:
        """Columns by number, name or mask."""
        names, found = self.names, np.asarray(wanted)
        if found.dtype == bool:
            if len(found) != len(names):
                raise ValueError(
                    f"categorical_features is a mask of {len(found)} columns, X has {len(names)}; "
                    "give one entry for each column."
                )
            return [int(number) for number in np.flatnonzero(found)]
        return [_place(one, names) for one in wanted]


def _place(wanted: Any, names: list[Any]) -> int:
    if isinstance(wanted, int | np.integer) and -len(names) <= wanted < len(names):
        return int(wanted) % len(names)
    if wanted in names:
        return names.index(wanted)
    shown = ", ".join(map(str, names[:5]))
    raise ValueError(
        f"categorical_features names {wanted!r}, which is no column of X; its {len(names)} "
        f"columns begin with {shown}."
    )


def categorical_columns(given: Any, wanted: Any) -> list[int]:
    """Numbers of the columns that hold categories whatever their values."""
    if wanted is None:
        return []
    table = Table(given)
    if isinstance(wanted, str):  # FROM_DTYPE
        return table.of_type(CATEGORIES)
    return sorted(set(table.numbers_of(wanted)))


@dataclass(frozen=True)
class TextColumns:
    """What the columns of some rows hold that are no plain numbers."""

    names: list[Any]
    categories: Categories
    """Of the columns that hold categories, whatever their values."""
    open: Categories = field(default_factory=dict)
    """Different values of the columns that hold numbers if all values are numbers."""
    dates: list[int] = field(default_factory=list)
    from_dtype: bool = False
    """Whether what is open and not numeric is categories; else it cannot be used."""

    @classmethod
    def of(cls, given: Any, wanted: Any) -> "TextColumns":
        """What a table holds; `wanted` is the parameter `categorical_features`."""
        table, from_dtype = Table(given), isinstance(wanted, str)
        fixed = categorical_columns(given, wanted)
        dates = [number for number in table.of_type(DATES) if number not in fixed]
        values = {n: table.column(n) for n in table.of_type(STRINGS) if n not in fixed}
        dates += [number for number, column in values.items() if _are_dates(column)]
        names = table.names if fixed or values or dates else []
        return cls(
            names,
            {number: _in_order(_distinct(table.column(number), names[number])) for number in fixed},
            {n: list(_distinct(values[n], names[n])) for n in values if n not in dates},
            sorted(dates),
            from_dtype,
        )

    @classmethod
    def joined(cls, parts: Sequence["TextColumns"]) -> "TextColumns":
        """What a table holds, from its parts."""
        dates = sorted(set().union(*(part.dates for part in parts)))
        fixed, loose = ([getattr(part, name) for part in parts] for name in ("categories", "open"))
        undated = [{n: v for n, v in part.items() if n not in dates} for part in loose]
        return cls(parts[0].names, _union(fixed), _union(undated), dates, parts[0].from_dtype)

    def settled(self) -> tuple[Categories, Formats]:
        """The categories, and the formats of the columns whose values are all numbers."""
        formats = {n: how for n, values in self.open.items() if (how := _format(values))}
        others = {n: one for n, one in self.open.items() if n not in formats and self.from_dtype}
        self._report(formats, others)
        found = self.categories | {number: _in_order(set(one)) for number, one in others.items()}
        return dict(sorted(found.items())), formats

    def _report(self, formats: Formats, others: Categories) -> None:
        written = {n: texts[0] for n in formats if (texts := _strings(self.open[n]))}
        if written:
            shown = [
                f"{self.names[number]!r} ({text!r} as {formats[number].parse(text):g})"
                for number, text in written.items()
            ]
            more = f" and {len(shown) - SHOWN} more" * (len(shown) > SHOWN)
            warn(
                f"numbers written as text are read as numbers in column {', '.join(shown[:SHOWN])}"
                f"{more}. Name a column in categorical_features if it holds categories."
            )
        for number, values in others.items():
            if wrong := preventing([str(value) for value in values]):
                warn(
                    f"column {self.names[number]!r} holds mostly numbers, and is taken as "
                    f"categories because of {', '.join(map(repr, wrong[:SHOWN]))}. Correct or "
                    "remove these values, or name it in categorical_features."
                )


def plain_formats(formats: Formats) -> dict[int, list[str]]:
    """Formats as a model file can hold them."""
    return {number: [how.decimal, how.unit] for number, how in formats.items()}


def formats_from(plain: dict[int, list[str]]) -> Formats:
    """Formats from what a model file holds."""
    return {number: NumberFormat(*how) for number, how in plain.items()}


def warn(text: str) -> None:
    """Warn the caller of the fit."""
    warnings.warn(text, UserWarning, stacklevel=7)


def _format(values: list[Any]) -> NumberFormat | None:
    """How values are written that are all numbers."""
    strings = _strings(values)
    if not strings:
        return NumberFormat()
    found = format_of(strings)
    mixed = len(strings) < len(values) and found is not None and found.unit == PERCENT
    return None if mixed else found


def _strings(values: list[Any]) -> list[str]:
    return sorted(value for value in values if isinstance(value, str))


def _are_dates(values: NDArray[Any]) -> bool:
    """Whether objects are dates or dates with times, and nothing else."""
    known = [value for value in values.tolist() if not is_missing(value)]
    return bool(known) and all(isinstance(value, date | np.datetime64) for value in known)


def _union(parts: Sequence[Categories]) -> Categories:
    numbers = sorted(set().union(*parts))
    return {
        number: _in_order(set().union(*(part.get(number, []) for part in parts)))
        for number in numbers
    }


def _in_order(found: set[Any]) -> list[Any]:
    if all(isinstance(one, float) for one in found):
        return sorted(found)
    return sorted(found, key=str)


def _distinct(values: NDArray[Any], name: Any) -> set[Any]:
    """The different values of a column but missing ones, as JSON can hold them."""
    try:
        return {_plain(value) for value in set(values.tolist()) if not is_missing(value)}
    except TypeError:  # lists and the like have no hash
        raise TypeError(
            f"column {name!r} holds {values.tolist()[0]!r}, but an argument must be a string or a "
            "number; turn it into columns of its own, or leave it out."
        ) from None


def _plain(value: Any) -> Any:
    """A category that JSON can hold: a number or a string."""
    if isinstance(value, Real | Decimal | np.bool_):
        with suppress(OverflowError):
            return float(value)
    return str(value)


def coded(given: Any, categories: Categories, formats: Formats) -> Array:
    """A table as float64, categories as their codes; missing and unknown values as NaN."""
    table = Table(given)
    found = np.empty(given.shape)
    for number, name in enumerate(table.names):
        found[:, number] = coded_column(table, number, name, categories, formats)
    return found


def coded_column(
    table: Table, number: int, name: Any, categories: Categories, formats: Formats
) -> Array:
    """A column of numbers or categories as float64."""
    if (known := categories.get(number)) is not None:
        return codes_of(table.column(number), known) if known else np.full(len(table), np.nan)
    values = table.column(number)
    if number not in formats:
        return numbers_of(values, name)
    numbers, wrong = formats[number].numbers(values.tolist())
    if wrong:
        shown = ", ".join(map(repr, sorted(wrong, key=str)[:SHOWN]))
        warn(
            f"column {name!r} holds values such as {shown}, which are no numbers as in the rows "
            "that were fitted; they are taken as missing."
        )
    return numbers


def codes_of(values: NDArray[Any], categories: list[Any]) -> Array:
    """Codes of a column's values; NaN for missing and unknown ones."""
    place = {one: float(code) for code, one in enumerate(categories)}
    held = values.tolist()  # once: a NaN is found again by its identity alone
    code = {
        value: np.nan if is_missing(value) else place.get(_plain(value), np.nan)
        for value in set(held)
    }
    return np.array([code[value] for value in held])


def numbers_of(values: NDArray[Any], name: Any) -> Array:
    """A column of numbers as float64, missing values as NaN; durations in days."""
    try:
        if values.dtype.kind == "m":
            return np.asarray(values / DAY)
        if values.dtype == object:
            values = np.array([np.nan if is_missing(one) else one for one in values.tolist()])
        if values.dtype.kind == "c":
            raise TypeError
        return values.astype(np.float64)
    except (TypeError, ValueError):
        seen = next(one for one in values.tolist() if not isinstance(one, int | float))
        raise ValueError(
            f"column {name!r} holds {seen!r}, which is no number; name it in "
            "categorical_features, or turn it into numbers."
        ) from None
