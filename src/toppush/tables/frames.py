"""Data frames, Arrow tables and arrays of objects as numbers, without pyarrow.

Categories become codes; dates become their parts; missing values and unknown categories are NaN.
Free text becomes its number of characters, and sparse weights of terms.
`toppush.tables.columns` reads files: it also fills missing values and makes one-hot columns. Both
share how strings are read as numbers, how dates become parts, and what is an id.
"""

import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from toppush.tables.dates import (
    DAY,
    date_order,
    date_pairs,
    date_parts,
    days_between,
    look_like_dates,
    parse_date,
)
from toppush.tables.ids import all_differ, are_ids
from toppush.tables.strings import (
    PERCENT,
    NumberFormat,
    blocking_numbers,
    format_of,
    is_missing,
)
from toppush.tables.text import (
    FEWEST,
    Terms,
    as_texts,
    is_free_text,
    lengths_of,
    shortened,
    stacked_terms,
)
from toppush.types import Array, Matrix, Where

FROM_DTYPE = "from_dtype"
CATEGORIES = ("category", "categorical", "enum", "dictionary")
"""How the names of types begin whose columns hold categories."""
STRINGS = ("object", "str", "utf8", "string", "large_string", "<u", "unicode")
"""How the names of types begin whose columns hold categories unless all values are numbers."""
DATES = ("date", "timestamp", "period")
SINCE = "since "
"""How the part of a date begins that is the days since the date of another column."""
INTEGERS = ("int", "uint")
SHOWN = 3
"""Values or columns that a warning names."""
Categories = dict[int, list[Any]]
"""Number of a column -> its categories, strings or numbers, in the order of their codes."""
Formats = dict[int, list[str]]
"""Number of a column -> decimal mark and unit of number strings, or the order of date strings."""


@dataclass(frozen=True)
class Table:
    """A data frame, an Arrow table or an array, column by column."""

    X: Any

    @property
    def has_types(self) -> bool:
        """Whether each column has a type of its own, or an array holds objects."""
        return self._is_frame or self._is_arrow or self._holds_objects

    @property
    def _is_frame(self) -> bool:
        return hasattr(self.X, "columns") and hasattr(self.X, "dtypes")

    @property
    def _is_arrow(self) -> bool:
        pyarrow = sys.modules.get("pyarrow")
        return pyarrow is not None and isinstance(self.X, pyarrow.Table)

    @property
    def _holds_objects(self) -> bool:
        is_array = isinstance(self.X, np.ndarray) and self.X.ndim == 2
        return bool(is_array and self.X.dtype.kind in "OUT")

    @property
    def names(self) -> list[Any]:
        """Names of the columns, or their numbers."""
        if self._is_arrow:
            return list(self.X.column_names)
        if self._is_frame:
            return list(self.X.columns)
        if not isinstance(self.X, np.ndarray):
            raise ValueError(
                f"categorical_features needs a data frame or an array, and X is a "
                f"{type(self.X).__name__}; turn it into one, or its categories into columns."
            )
        return list(range(self.X.shape[1]))

    def column(self, number: int) -> NDArray[Any]:
        """The values of a column."""
        if isinstance(self.X, np.ndarray) or not self.has_types:
            return np.asarray(self.X[:, number])
        return np.asarray(_safe_indexing(self.X, number, axis=1))

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def of_type(self, begins: tuple[str, ...]) -> list[int]:
        """Columns with a type whose name begins so."""
        types: list[Any] = []
        if self._holds_objects:
            types = ["object"] * self.X.shape[1]
        elif self.has_types:
            types = list(self.X.schema.types if self._is_arrow else self.X.dtypes)
        return [n for n, kind in enumerate(types) if str(kind).lower().startswith(begins)]

    def numbers_of(
        self, wanted: Sequence[Any], parameter: str = "categorical_features"
    ) -> list[int]:
        """Columns by number, name or mask; errors name the parameter."""
        names, asked = self.names, np.asarray(wanted)
        if asked.dtype == bool:
            if len(asked) != len(names):
                raise ValueError(
                    f"{parameter} is a mask of {len(asked)} columns, X has {len(names)}; "
                    "give one entry for each column."
                )
            return [int(number) for number in np.flatnonzero(asked)]
        return [self._number_of(column, names, parameter) for column in wanted]

    @staticmethod
    def _number_of(wanted: Any, names: list[Any], parameter: str) -> int:
        if isinstance(wanted, int | np.integer) and -len(names) <= wanted < len(names):
            return int(wanted) % len(names)
        if wanted in names:
            return names.index(wanted)
        shown = ", ".join(map(str, names[:5]))
        raise ValueError(
            f"{parameter} names {wanted!r}, which is no column of X; its {len(names)} "
            f"columns begin with {shown}."
        )


def categorical_columns(X: Any, wanted: Any) -> list[int]:
    """Numbers of the columns that hold categories whatever their values."""
    if wanted is None:
        return []
    table = Table(X)
    if isinstance(wanted, str):  # FROM_DTYPE
        return table.of_type(CATEGORIES)
    return sorted(set(table.numbers_of(wanted)))


def text_columns(X: Any, wanted: Any) -> list[int]:
    """Numbers of the columns that hold free text on request."""
    if wanted is None or isinstance(wanted, str):  # FROM_DTYPE
        return []
    return sorted(set(Table(X).numbers_of(wanted, "text_features")))


def are_plain(X: Any, categorical_features: Any) -> bool:
    """Whether rows hold numbers alone, without a type for each column."""
    asked = categorical_features is not None and not isinstance(categorical_features, str)
    return not (asked and len(categorical_features)) and not Table(X).has_types


# ---- learning the columns


@dataclass(frozen=True)
class FrameSummary:
    """What the columns of some rows hold; `merge` joins the summaries of the parts of a table."""

    names: list[Any]
    categories: Categories
    """Different values of the columns that hold categories by type or on request."""
    open: Categories
    """Different values of the columns of strings, which hold numbers or categories."""
    dates: dict[int, list[str]]
    """Number of a column of dates -> the parts that stand for it."""
    from_dtype: bool
    """Whether strings that are not numbers are categories; else they cannot be used."""
    texts: list[int] = field(default_factory=list)
    """Columns that hold free text on request."""
    n_values: dict[int, int] = field(default_factory=dict)
    """Number of rows with a value, of columns with enough different strings to be text."""

    @classmethod
    def of(cls, X: Any, categorical_features: Any, text_features: Any = None) -> "FrameSummary":
        """Summary of the rows of X."""
        table, wanted = Table(X), categorical_features
        names = [] if are_plain(X, wanted) else table.names
        fixed, texts = categorical_columns(X, wanted), text_columns(X, text_features)
        if twice := [names[n] for n in texts if n in fixed]:
            raise ValueError(
                f"columns {twice} are among text_features and hold categories, by their type or by "
                "categorical_features; decide for one of them."
            )
        fixed_or_text = {*fixed, *texts}
        dated = [number for number in table.of_type(DATES) if number not in fixed_or_text]
        values = {n: table.column(n) for n in table.of_type(STRINGS) if n not in fixed_or_text}
        dated += [number for number, column in values.items() if _are_dates(column)]
        dates = {
            n: list(date_parts(_as_dates(table.column(n), names[n]))[0]) for n in sorted(dated)
        }
        opened = {n: list(_distinct(values[n], names[n])) for n in values if n not in dates}
        return cls(
            names,
            {n: _in_order(_distinct(table.column(n), names[n])) for n in fixed},
            opened,
            dates,
            isinstance(wanted, str),
            texts,
            {
                n: sum(not _is_missing(each) for each in values[n].tolist())
                for n, known in opened.items()
                if len(known) >= FEWEST
            },
        )

    @classmethod
    def merge(cls, parts: Sequence["FrameSummary"]) -> "FrameSummary":
        """Summary of a table, from those of its parts."""
        dates: dict[int, list[str]] = {}
        for part in parts:
            for number, names in part.dates.items():
                dates[number] = max(dates.get(number, []), names, key=len)
        strings = _union([part.open for part in parts])
        return cls(
            parts[0].names,
            _union([part.categories for part in parts]),
            {number: values for number, values in strings.items() if number not in dates},
            dict(sorted(dates.items())),
            parts[0].from_dtype,
            parts[0].texts,
            dict(sum((Counter(part.n_values) for part in parts), Counter())),
        )

    def settle(self, *, read_dates: bool = True, read_text: bool = False) -> "FrameColumns":
        """Decide which columns hold numbers, categories, dates and free text.

        Without `read_dates`, date strings are categories; without `read_text`, free text is, unless
        it is asked for. The terms of text are not learned yet.
        """
        formats = {n: how for n, values in self.open.items() if (how := _format(values))}
        others = {n: values for n, values in self.open.items() if n not in formats}
        orders = {n: order for n, values in others.items() if (order := _date_order(values))}
        if not read_dates:
            orders = {}
        others = {n: v for n, v in others.items() if n not in orders}
        texts = [n for n in others if read_text and self.is_free_text(n)]
        others = {n: v for n, v in others.items() if n not in texts and self.from_dtype}
        self._report(formats, orders, others)
        self._report_texts(texts)
        categories = self.categories | {n: _in_order(set(values)) for n, values in others.items()}
        dates = self.dates | {
            n: list(date_parts(_as_dates(np.array(self.open[n], object), self.names[n], order))[0])
            for n, order in orders.items()
        }
        for earlier, later in date_pairs(sorted(dates)):
            dates[later] = [*dates[later], f"{SINCE}{earlier}"]
        return FrameColumns(
            len(self.names),
            dict(sorted(categories.items())),
            {n: [how.decimal, how.unit] for n, how in formats.items()}
            | {n: [order] for n, order in orders.items()},
            dict(sorted(dates.items())),
            dict.fromkeys(sorted([*self.texts, *texts]), Terms.none()),
        )

    def is_free_text(self, number: int) -> bool:
        """Whether a column of strings that are neither numbers nor dates holds free text."""
        values = self.open[number]
        strings = _strings(values)
        return len(strings) == len(values) and is_free_text(strings, self.n_values.get(number, 0))

    def _report_texts(self, texts: list[int]) -> None:
        if texts:
            shown = [
                f"{self.names[number]!r} ({shortened(self.open[number][0])!r})" for number in texts
            ]
            _warn(
                f"free text is read as words and parts of words in column {', '.join(shown)}. Name "
                "a column in categorical_features if it holds categories; text_features=None "
                "turns this off."
            )

    def _report(
        self, formats: dict[int, NumberFormat], orders: dict[int, str], others: Categories
    ) -> None:
        written = {n: strings[0] for n in formats if (strings := _strings(self.open[n]))}
        if written:
            shown = [
                f"{self.names[number]!r} ({text!r} as {formats[number].parse(text):g})"
                for number, text in written.items()
            ]
            more = f" and {len(shown) - SHOWN} more" * (len(shown) > SHOWN)
            _warn(
                f"numbers written as text are read as numbers in column {', '.join(shown[:SHOWN])}"
                f"{more}. Name a column in categorical_features if it holds categories."
            )
        for number, order in orders.items():
            text = _strings(self.open[number])[0]
            _warn(
                f"dates written as text are read as dates in column {self.names[number]!r} "
                f"({text!r} as {parse_date(text, order)}). Name it in categorical_features if it "
                "holds categories."
            )
        for number, values in others.items():
            if look_like_dates(strings := _strings(values)) and _date_order(values) is None:
                _warn(
                    f"column {self.names[number]!r} holds dates such as {strings[0]!r} that cannot "
                    "all be read without doubt, and is taken as categories. Write them as "
                    "2024-01-31, or name it in categorical_features."
                )
            if wrong := blocking_numbers([str(value) for value in values]):
                _warn(
                    f"column {self.names[number]!r} holds mostly numbers, and is taken as "
                    f"categories because of {', '.join(map(repr, wrong[:SHOWN]))}. Correct or "
                    "remove these values, or name it in categorical_features."
                )


def _warn(text: str) -> None:
    """Warn the caller of the fit."""
    warnings.warn(text, UserWarning, stacklevel=7)


def _format(values: list[Any]) -> NumberFormat | None:
    """The format of values that are all numbers."""
    strings = _strings(values)
    if not strings:
        return NumberFormat()
    how = format_of(strings)
    mixed = len(strings) < len(values) and how is not None and how.unit == PERCENT
    return None if mixed else how


def _date_order(values: list[Any]) -> str | None:
    """The order of values that are all date strings."""
    strings = _strings(values)
    return date_order(strings) if len(strings) == len(values) else None


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


def _in_order(values: set[Any]) -> list[Any]:
    return sorted(values, key=None if all(isinstance(v, float) for v in values) else str)


def _distinct(values: NDArray[Any], name: Any) -> set[Any]:
    """The different values of a column without missing ones, as JSON can hold them."""
    try:
        return {_plain(value) for value in set(values.tolist()) if not _is_missing(value)}
    except TypeError:  # lists and the like have no hash
        raise TypeError(
            f"column {name!r} holds {values.tolist()[0]!r}, but an argument must be a string or a "
            "number; turn it into columns of its own, or leave it out."
        ) from None


def _is_missing(value: Any) -> bool:
    """Whether a value is missing in a column of categories: an empty string is, as in files."""
    return is_missing(value) or (isinstance(value, str) and not value)


def _plain(value: Any) -> Any:
    """A category that JSON can hold: a number or a string."""
    if isinstance(value, Real | Decimal | np.bool_):
        with suppress(OverflowError):
            return float(value)
    return str(value)


# ---- the learned columns


@dataclass(frozen=True)
class FrameColumns:
    """The learned columns of a table: categories, formats of number strings, dates."""

    width: int
    categories: Categories = field(default_factory=dict)
    """Number of a column -> its categories, in the order of their codes; [] for an id."""
    formats: Formats = field(default_factory=dict)
    dates: dict[int, list[str]] = field(default_factory=dict)
    """Number of a column -> the parts that stand for it, among them the days since the dates of
    other columns, such as "since 2"."""
    texts: dict[int, Terms] = field(default_factory=dict)
    """Number of a column of free text -> its terms."""

    @classmethod
    def of(
        cls,
        X: Any,
        categorical_features: Any,
        *,
        read_dates: bool = True,
        text_features: Any = None,
    ) -> "FrameColumns":
        """Learn the columns of training rows."""
        summary = FrameSummary.of(X, categorical_features, text_features)
        columns = summary.settle(read_dates=read_dates, read_text=isinstance(text_features, str))
        table = Table(X)
        texts = {n: Terms.of(as_texts(table.column(n).tolist())) for n in columns.texts}
        return replace(columns, texts=texts)

    def without_ids(self, X: Any, keep: Sequence[int] = ()) -> "FrameColumns":
        """Treat ids as empty columns, with a warning: nothing learned of them holds for new rows.

        20,000 categories took a linear base model 18 seconds.
        """
        table = Table(X)
        integers = [n for n in table.of_type(INTEGERS) if n not in self.categories]
        written = [n for n in self.formats if n not in self.dates]
        ids = [n for n in [*integers, *written] if are_ids(self._column(table, n))]
        ids += [n for n, known in self.categories.items() if all_differ(len(known), len(table))]
        ids = sorted(set(ids).difference(keep))
        if ids:
            names = [table.names[number] for number in ids]
            _warn(
                f"columns {names} have another value in nearly every row, as ids have, so that "
                "nothing can be learned for new rows; they are taken as empty. Drop them before "
                "the fit, or keep one by turning its numbers into floats, or by naming it in "
                "categorical_features."
            )
        formats = {number: how for number, how in self.formats.items() if number not in ids}
        categories = self.categories | {number: [] for number in ids}
        return replace(self, categories=dict(sorted(categories.items())), formats=formats)

    @property
    def sources(self) -> Where:
        """The column of the table from which each number is made."""
        widths = [len(self.dates.get(number, [0])) for number in range(self.width)]
        return np.repeat(np.arange(self.width), widths)

    @property
    def categorical(self) -> list[int]:
        """Positions of the numbers that are codes of categories."""
        sources = self.sources.tolist()
        return [place for place, source in enumerate(sources) if source in self.categories]

    def numbers(self, X: Any) -> Array:
        """Rows of a table as float64: codes of categories, parts of dates, NaN if missing.

        Of free text the number of characters.
        """
        table = Table(X)
        parts: list[Array] = []
        dates = {number: self._dates(table, number) for number in self.dates}
        for number in range(len(table.names)):
            if number not in dates:
                parts.append(self._column(table, number))
                continue
            names = self.dates[number]
            parts.extend(date_parts(dates[number], hour="hour" in names)[1].T)
            others = [int(name.removeprefix(SINCE)) for name in names if name.startswith(SINCE)]
            parts.extend(days_between(dates[other], dates[number]) for other in others)
        return np.column_stack(parts)

    def terms(self, X: Any) -> Matrix | None:
        """The weights of the terms of all columns of text, a CSR array; None without any."""
        if not self.texts:
            return None
        table = Table(X)
        parts = [
            terms.transform(as_texts(table.column(number).tolist()))
            for number, terms in self.texts.items()
        ]
        return stacked_terms(parts, len(table))

    def _dates(self, table: Table, number: int) -> NDArray[np.datetime64]:
        """A column of dates."""
        order, *_ = self.formats.get(number, [""])
        return _as_dates(table.column(number), table.names[number], order)

    def _column(self, table: Table, number: int) -> Array:
        """A column of numbers, categories or text as float64."""
        if number in self.texts:
            return lengths_of(as_texts(table.column(number).tolist()))
        if (known := self.categories.get(number)) is not None:
            return _codes(table.column(number), known) if known else np.full(len(table), np.nan)
        values, name = table.column(number), table.names[number]
        if number not in self.formats:
            return _floats(values, name)
        numbers, wrong = NumberFormat(*self.formats[number]).numbers(values.tolist())
        if wrong:
            shown = ", ".join(map(repr, sorted(wrong, key=str)[:SHOWN]))
            _warn(
                f"column {name!r} holds values such as {shown}, which are no numbers as in the "
                "rows that were fitted; they are taken as missing."
            )
        return numbers


def _codes(values: NDArray[Any], categories: list[Any]) -> Array:
    """Codes of a column's values; NaN for missing and unknown ones."""
    place = {category: float(code) for code, category in enumerate(categories)}
    held = values.tolist()  # once: a NaN is recognised again by its identity alone
    code = {
        value: np.nan if _is_missing(value) else place.get(_plain(value), np.nan)
        for value in set(held)
    }
    return np.array([code[value] for value in held])


def _floats(values: NDArray[Any], name: Any) -> Array:
    """A column of numbers as float64, missing values as NaN; durations in days."""
    try:
        if values.dtype.kind == "m":
            return np.asarray(values / DAY)
        if values.dtype == object:
            values = np.array([np.nan if is_missing(value) else value for value in values.tolist()])
        if values.dtype.kind in "cM":
            raise TypeError
        return values.astype(np.float64)
    except (TypeError, ValueError):
        seen = next(value for value in values.tolist() if not isinstance(value, int | float))
        raise ValueError(
            f"column {name!r} holds {seen!r}, which is no number; name it in "
            "categorical_features, or turn it into numbers."
        ) from None


def _as_dates(values: NDArray[Any], name: Any, order: str = "") -> NDArray[np.datetime64]:
    """Dates in UTC; missing ones are NaT. Strings are in an order, see `date_order`."""
    if values.dtype.kind == "M":
        return values.astype("datetime64[us]")
    dates = [_as_date(value, name, order) for value in values.tolist()]
    return np.array(dates, dtype="datetime64[us]")


def _as_date(value: Any, name: Any, order: str) -> Any:
    if _is_missing(value):
        return np.datetime64("NaT", "us")
    if isinstance(value, str) and (parsed := parse_date(value, order or "ymd")) is not None:
        return parsed
    if hasattr(value, "to_timestamp"):  # a period
        value = value.to_timestamp()
    if getattr(value, "tzinfo", None) is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    try:
        return np.datetime64(value)
    except ValueError:
        raise ValueError(
            f"column {name!r} holds {value!r}, which is no date; correct it, or leave it empty."
        ) from None
