"""Tables with categories, as the numbers that trees take: codes, and NaN for gaps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from toppush.designs.dates import DAY
from toppush.types import Array

FROM_DTYPE = "from_dtype"
TEXTS = ("category", "categorical", "enum", "object", "str", "utf8", "string")
"""How the names of types begin whose columns hold categories."""
DATES = ("date", "timestamp", "period")
Categories = dict[int, list[Any]]
"""Number of a column -> its categories, texts or numbers, in the order of their codes."""


@dataclass(frozen=True)
class Table:
    """A data frame or an array, column by column."""

    given: Any

    @property
    def has_types(self) -> bool:
        """Whether each column has a type of its own."""
        return hasattr(self.given, "columns") and hasattr(self.given, "dtypes")

    @property
    def names(self) -> list[Any]:
        """Of the columns; numbers if there are none."""
        if self.has_types:
            return list(self.given.columns)
        if not isinstance(self.given, np.ndarray):
            raise ValueError(
                f"categorical_features needs a data frame or an array, and X is a "
                f"{type(self.given).__name__}; turn it into one, or its categories into columns."
            )
        return list(range(self.given.shape[1]))

    def column(self, number: int) -> NDArray[Any]:
        """The values of a column, as they are."""
        if not self.has_types:
            return np.asarray(self.given[:, number])
        return np.asarray(_safe_indexing(self.given, number, axis=1))

    def texts(self) -> list[int]:
        """Columns whose type says that they hold categories."""
        return self._of_type(TEXTS)

    def dates(self) -> list[int]:
        """Columns whose type says that they hold dates."""
        return self._of_type(DATES)

    def _of_type(self, begins: tuple[str, ...]) -> list[int]:
        if not self.has_types:
            return []
        types = [str(one).lower() for one in self.given.dtypes]
        return [number for number, one in enumerate(types) if one.startswith(begins)]

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
    """Numbers of the columns that hold categories."""
    table = Table(given)
    if wanted is None:
        return []
    if isinstance(wanted, str):  # FROM_DTYPE
        return table.texts()
    return sorted(set(table.numbers_of(wanted)))


def categories_of(given: Any, columns: list[int]) -> Categories:
    """The categories of each of the columns, sorted."""
    table = Table(given)
    names = table.names if columns else []
    return {number: _sorted(table.column(number), names[number]) for number in columns}


def joined_categories(parts: Sequence[Categories]) -> Categories:
    """The categories of a table from those of its parts."""
    return {
        number: _in_order(set().union(*(part[number] for part in parts))) for number in parts[0]
    }


def _sorted(values: NDArray[Any], name: Any) -> list[Any]:
    return _in_order({_plain(value) for value in _distinct(values, name) if not is_gap(value)})


def _in_order(found: set[Any]) -> list[Any]:
    if all(isinstance(one, float) for one in found):
        return sorted(found)
    return sorted(found, key=str)


def _distinct(values: NDArray[Any], name: Any) -> set[Any]:
    try:
        return set(values.tolist())
    except TypeError:  # lists and the like have no hash
        raise ValueError(
            f"column {name!r} holds {values.tolist()[0]!r}, which is neither a text nor a number; "
            "turn it into columns of its own, or leave it out."
        ) from None


def _plain(value: Any) -> Any:
    """A category that JSON can hold: a number or a text."""
    return float(value) if isinstance(value, bool | int | float | np.number) else str(value)


def is_gap(value: Any) -> bool:
    """None, NaN and the like: what does not equal itself, or cannot say."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA
        return True


def coded(given: Any, categories: Categories) -> Array:
    """A table as float64, categories as their codes; gaps and unknown ones as NaN."""
    table = Table(given)
    found = np.empty(given.shape)
    for number, name in enumerate(table.names):
        values = table.column(number)
        known = categories.get(number)
        found[:, number] = numbers_of(values, name) if known is None else codes_of(values, known)
    return found


def codes_of(values: NDArray[Any], categories: list[Any]) -> Array:
    """Places of a column's values among its categories; NaN for gaps and unknown ones."""
    place = {one: float(code) for code, one in enumerate(categories)}
    held = values.tolist()  # once: a NaN is found again by its identity alone
    code = {
        value: np.nan if is_gap(value) else place.get(_plain(value), np.nan) for value in set(held)
    }
    return np.array([code[value] for value in held])


def numbers_of(values: NDArray[Any], name: Any) -> Array:
    """A column of numbers as float64, gaps as NaN; spans of time in days."""
    try:
        if values.dtype.kind == "m":
            return np.asarray(values / DAY)
        if values.dtype == object:
            values = np.array([np.nan if is_gap(one) else one for one in values.tolist()])
        if values.dtype.kind == "c":
            raise TypeError
        return values.astype(np.float64)
    except (TypeError, ValueError):
        seen = next(one for one in values.tolist() if not isinstance(one, int | float))
        raise ValueError(
            f"column {name!r} holds {seen!r}, which is no number; name it in "
            "categorical_features, or turn it into numbers."
        ) from None
