"""Dates as numbers that a ranker can use."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from toppush.types import Array

DAY = np.timedelta64(1, "D")
PARTS = ("days", "month", "day", "weekday")
"""Days since 1970, and what comes back every year, month and week; Monday is 0."""
HOUR = "hour"


def date_parts(
    values: NDArray[np.datetime64], *, hour: bool | None = None
) -> tuple[tuple[str, ...], Array]:
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
    >>> names, parts = date_parts(np.array(["2026-11-16T18:00", "NaT"], "datetime64[m]"))
    >>> names, parts[0].tolist()
    (('days', 'month', 'day', 'weekday', 'hour'), [20773.75, 11.0, 16.0, 0.0, 18.0])
    """
    days = values.astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    since, time = _count(days), (values - days) / DAY
    parts = [since + time, _count(months) % 12 + 1, (days - months) / DAY + 1, (since + 3) % 7]
    timed = bool((time > 0).any()) if hour is None else hour
    if timed:
        parts.append(24 * time)
    found = np.stack(parts, axis=1)
    found[np.isnat(values)] = np.nan
    return (*PARTS, *[HOUR] * timed), found


def _count(values: NDArray[np.datetime64]) -> NDArray[Any]:
    """How many of their unit have passed since 1970; nothing of meaning where there is no date."""
    return values.astype(np.int64)
