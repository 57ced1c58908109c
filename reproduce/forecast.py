"""How long work takes that is not done: fits on growing parts of the rows, and their slope."""

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from toppush.types import Json, Mask, Where

PATIENCE = 10.0
"""CPU seconds that a forecast takes, about."""
SMALLEST = 64
"""Rows of the first part, if there are more."""
STEEPEST = 3.0
"""A slope beyond is that of small parts, as of two fits that happen to differ much."""
FEWEST = 4
"""Rows of each class in it, about."""


@dataclass(frozen=True)
class Forecast:
    """CPU seconds of fits on so many rows; those of others follow their slope."""

    sizes: list[int]
    seconds: list[float]

    @property
    def slope(self) -> float:
        """Of log seconds against log rows over the last three fits, between 1 and 3."""
        if len(self.sizes) < 2:
            return 1.0
        logs = np.log(self.sizes[-3:]), np.log(np.maximum(self.seconds[-3:], 1e-6))
        return float(np.clip(np.polyfit(*logs, 1)[0], 1.0, STEEPEST))

    def at(self, n_rows: float) -> float:
        """Seconds of a fit on so many rows."""
        return float(self.seconds[-1] * (n_rows / self.sizes[-1]) ** self.slope)

    def as_json(self) -> Json:
        """For a record."""
        return asdict(self)


def forecast(
    fit: Callable[[Any, Mask], object], X: Any, y: Mask, *, patience: float = PATIENCE
) -> Forecast:
    """Fit parts of the rows that double until the next fit would take more than what is left.

    The classes keep their shares. A fit that fails ends it, unless it is the first.
    """
    found, left = Forecast([], []), patience
    order, n_rarer = _dealt(y), int(min(y.sum(), (~y).sum()))
    n_rows = min(max(SMALLEST, math.ceil(FEWEST * y.size / max(n_rarer, 1))), y.size)
    while n_rows:
        part = order[:n_rows]
        seconds = _seconds(fit, _safe_indexing(X, part), y[part], found)
        if seconds is None:
            break
        found.sizes.append(n_rows)
        found.seconds.append(seconds)
        left -= seconds
        n_rows = min(2 * n_rows, y.size) if n_rows < y.size else 0
        if n_rows and found.at(n_rows) > left:
            break
    return found


def _seconds(fit: Callable[[Any, Mask], object], X: Any, y: Mask, found: Forecast) -> float | None:
    """CPU seconds of a fit, None if it fails where a smaller one did not."""
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit(X, y)
    except (ValueError, MemoryError):
        if not found.sizes:
            raise
        return None
    return time.process_time() - began


def _dealt(y: Mask) -> Where:
    """An order of the rows in which every beginning has about the shares of both classes."""
    rng, place = np.random.default_rng(0), np.empty(y.size)
    for side in (y, ~y):
        count = int(np.count_nonzero(side))
        place[side] = (rng.permutation(count) + 0.5) / max(count, 1)
    return np.argsort(place, kind="stable")


def in_words(seconds: float) -> str:
    """A time with about two digits, in the unit that suits it."""
    units = (("years", 365 * 86400.0), ("days", 86400.0), ("h", 3600.0), ("min", 60.0))
    for unit, size in units:
        if seconds >= 1.5 * size:
            return f"{_two_digits(seconds / size)} {unit}"
    return f"{_two_digits(seconds)} s"


def _two_digits(number: float) -> str:
    digits = 1 - math.floor(math.log10(number)) if number > 0.0 else 0
    return f"{round(number, digits):g}"
