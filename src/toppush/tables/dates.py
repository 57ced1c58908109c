"""Dates as numbers that a ranker can use."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from toppush.types import Array

Dates = NDArray[np.datetime64]
DAY = np.timedelta64(1, "D")


def _days(values: Dates) -> Array:
    """Since 1970, with a fraction."""
    return _count(values.astype("datetime64[D]")) + _time(values)


def _month(values: Dates) -> Array:
    return _count(values.astype("datetime64[M]")) % 12 + 1.0


def _day(values: Dates) -> Array:
    since: Array = (values.astype("datetime64[D]") - values.astype("datetime64[M]")) / DAY
    return since + 1.0


def _weekday(values: Dates) -> Array:
    """0 is Monday; 1970 began with a Thursday."""
    return (_count(values.astype("datetime64[D]")) + 3.0) % 7


def _hour(values: Dates) -> Array:
    """Of the day, with a fraction."""
    return 24.0 * _time(values)


PARTS: dict[str, Callable[[Dates], Array]] = {
    "days": _days,
    "month": _month,
    "day": _day,
    "weekday": _weekday,
    "hour": _hour,
}


def _time(values: Dates) -> Array:
    """Days since midnight."""
    since: Array = (values - values.astype("datetime64[D]")) / DAY
    return since


def _count(values: Dates) -> Array:
    """Units since 1970; meaningless where there is no date."""
    return values.astype(np.int64).astype(np.float64)


def date_part(values: Dates, part: str) -> Array:
    """One of the parts of dates and times, NaN where there is no date."""
    return np.where(np.isnat(values), np.nan, PARTS[part](values))


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
    timed = bool((_time(values) > 0.0).any()) if hour is None else hour
    names = tuple(part for part in PARTS if timed or part != "hour")
    return names, np.stack([date_part(values, part) for part in names], axis=1)
