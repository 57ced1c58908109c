"""Dates as numbers that a ranker can use, and strings of dates."""

import re
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from itertools import combinations
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from toppush.types import Array

T = TypeVar("T")
Dates = NDArray[np.datetime64]
DAY = np.timedelta64(1, "D")
PARTS = ("days", "month", "day", "weekday", "hour")
"""The numbers that stand for a date; days and hours have fractions."""


def date_part(values: Dates, part: str) -> Array:
    """One of the `PARTS` of dates and times, NaN where there is no date."""
    day, month = values.astype("datetime64[D]"), values.astype("datetime64[M]")
    time: Array = (values - day) / DAY
    numbers: dict[str, Callable[[], Array]] = {
        "days": lambda: _since_1970(day) + time,
        "month": lambda: _since_1970(month) % 12 + 1.0,
        "day": lambda: (day - month) / DAY + 1.0,
        "weekday": lambda: (_since_1970(day) + 3.0) % 7,  # 0 is Monday; 1970 began on a Thursday
        "hour": lambda: 24.0 * time,
    }
    return np.where(np.isnat(values), np.nan, numbers[part]())


def _since_1970(values: Dates) -> Array:
    """Units since 1970; meaningless where there is no date."""
    return values.astype(np.int64).astype(np.float64)


def date_parts(values: Dates, *, hour: bool | None = None) -> tuple[tuple[str, ...], Array]:
    """The parts of dates and times, a column for each, with NaN where there is no date.

    Parameters
    ----------
    values : array of datetime64, of any unit
    hour : bool, optional
        Whether the hour of the day is one of the parts; by default if any of the values has a time
        of day other than midnight.

    Returns
    -------
    names : tuple of str
        "days" since 1970 and "hour", both with a fraction, "month" from 1, "day" of the month from
        1, "weekday" from 0, which is Monday.
    parts : array of shape (n_values, n_names)

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.tables.dates import date_parts
    >>> names, parts = date_parts(np.array(["2026-11-16T18:00", "NaT"], "datetime64[m]"))
    >>> names, parts[0].tolist()
    (('days', 'month', 'day', 'weekday', 'hour'), [20773.75, 11.0, 16.0, 0.0, 18.0])
    """
    timed = bool((date_part(values, "hour") > 0.0).any()) if hour is None else hour
    names = tuple(part for part in PARTS if timed or part != "hour")
    return names, np.stack([date_part(values, part) for part in names], axis=1)


MOST_PAIRED = 5
"""Number of columns of dates up to which differences between them become columns."""


def date_pairs(columns: Sequence[T]) -> list[tuple[T, T]]:
    """Pairs of columns of dates whose difference is a column of its own; none if there are many."""
    return list(combinations(columns, 2)) if len(columns) <= MOST_PAIRED else []


def days_between(earlier: Dates, later: Dates) -> Array:
    """Days from one date to another with fractions, NaN where one is missing."""
    return date_part(later, "days") - date_part(earlier, "days")


# ---- date strings

_TIME = (
    r"(?:[ T](?P<hour>[0-9]{1,2})"
    r"(?::(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?P<fraction>\.[0-9]{1,9})?)?)?"
)
_DAY, _MONTH, _YEAR = r"(?P<day>[0-9]{1,2})", r"(?P<month>[0-9]{1,2})", r"(?P<year>[0-9]{4})"
_MARK, _SAME = r"(?P<mark>[-/.])", r"(?P=mark)"
_SHORT_YEAR = r"(?P<year>[0-9]{2})"
ORDERS = {
    "ymd": re.compile(
        rf"{_YEAR}{_MARK}{_MONTH}{_SAME}{_DAY}{_TIME}(?P<zone>Z|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)?)?"
    ),
    "dmy": re.compile(rf"{_DAY}{_MARK}{_MONTH}{_SAME}{_YEAR}{_TIME})?"),
    "mdy": re.compile(rf"{_MONTH}{_MARK}{_DAY}{_SAME}{_YEAR}{_TIME})?"),
    "short ymd": re.compile(rf"{_SHORT_YEAR}/{_MONTH}/{_DAY}{_TIME})?"),
    "short dmy": re.compile(rf"{_DAY}/{_MONTH}/{_SHORT_YEAR}{_TIME})?"),
    "short mdy": re.compile(rf"{_MONTH}/{_DAY}/{_SHORT_YEAR}{_TIME})?"),
}
"""Orders of year, month and day in date strings, which may end with a time of day; with two-digit
years in the short ones, which need slashes, because "10.4.11" is more often a version."""
FIRST_SHORT_YEAR = 69
"""Two-digit years from this on are of the 20th century, as for `strptime`."""
DATE_LIKE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?")
MOST = 0.5
"""Share of strings that look like dates above which a column is taken for dates."""


def look_like_dates(strings: Collection[str]) -> bool:
    """Whether most strings look like dates."""
    n_dates = sum(bool(DATE_LIKE.fullmatch(text.strip())) for text in strings)
    return bool(strings) and n_dates > MOST * len(strings)


def date_order(strings: Collection[str]) -> str | None:
    """The order in which all strings are dates; None if there is none, or more than one.

    Whether "03/04/2024" is in March or April is decided by the other strings: "03/14/2024" can only
    be in March. Either all dates have a time zone, or none.

    Examples
    --------
    >>> from toppush.tables.dates import date_order
    >>> date_order(["03/04/2024", "03/14/2024"]), date_order(["03/04/2024"])
    ('mdy', None)
    """
    orders = [
        order
        for order in ORDERS
        if strings and all(_parsed(text, order) is not None for text in strings)
    ]
    if orders == ["ymd"]:
        matches = (ORDERS["ymd"].fullmatch(text.strip()) for text in strings)
        return "ymd" if len({bool(match and match["zone"]) for match in matches}) == 1 else None
    return orders[0] if len(orders) == 1 else None


def parse_date(text: str, order: str) -> datetime | None:
    """A date string in an order, or with the year first, as a time in UTC; None if it is no date.

    Examples
    --------
    >>> from toppush.tables.dates import parse_date
    >>> parse_date("14.03.2024 18:30", "dmy")
    datetime.datetime(2024, 3, 14, 18, 30)
    """
    date = _parsed(text, order)
    return _parsed(text, "ymd") if date is None else date


def _parsed(text: str, order: str) -> datetime | None:
    match = ORDERS[order].fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction = match.group(
        "year", "month", "day", "hour", "minute", "second", "fraction"
    )
    if len(year) == 2:
        year = f"{'19' if int(year) >= FIRST_SHORT_YEAR else '20'}{year}"
    microsecond = int(fraction[1:7].ljust(6, "0")) if fraction else 0
    try:
        date = datetime(
            int(year),
            int(month),
            int(day),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            microsecond,
        )
        if order == "ymd" and (zone := match["zone"]):
            zoned = datetime.fromisoformat(f"{date.isoformat()}{zone}")
            date = zoned.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
    return date
