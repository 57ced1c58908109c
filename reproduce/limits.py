"""What a method may take on a data set, what it took, and what it is foreseen to take."""

import math
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import wrap_non_picklable_objects
from sklearn.utils import _safe_indexing

from reproduce.store import DONE, OUT_OF_TIME, Record
from toppush.types import Json, Mask, Where

if TYPE_CHECKING:
    from pebble import ProcessPool

    from reproduce.runner import Plan

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


FORESEEING = 120.0
"""Seconds after which a forecast is given up."""
Cell = tuple[str, str]
"""A data set and a method."""


def cell_of(config: Json) -> Cell:
    """Where a piece of work belongs."""
    return config["data"], config["method"]


def forecasts(records: Iterable[Record]) -> dict[Cell, Json]:
    """What earlier runs foresaw of cells whose time was up."""
    late = {cell_of(one.config): one.result for one in records if one.status == OUT_OF_TIME}
    return {cell: one["foreseen"] for cell, one in late.items() if one.get("foreseen")}


def tolerance(n_done: int) -> float:
    """How many times the limit all trials may be foreseen to take before none begins any more.

    Two after one that ended, fewer with every further one, whose mean tells more; one where no
    trial tells.
    """
    return 1.0 + 1.0 / math.sqrt(n_done) if n_done else 1.0


class Limits:
    """Seconds of a plan's cells."""

    def __init__(self, plan: "Plan") -> None:
        self.plan = plan
        self.spent: dict[Cell, float] = defaultdict(float)
        self.finished: Counter[Cell] = Counter()
        self.begun: Counter[Cell] = Counter()
        self.foreseen: dict[Cell, Json] = dict(plan.foreseen)

    def count(self, records: Iterable[Record]) -> None:
        """Take over what earlier runs took."""
        for counted in (self.spent, self.finished, self.begun):
            counted.clear()
        for record in records:
            self.spend(record.config, record.result.get("seconds", 0.0), record.status)

    def spend(self, config: Json, seconds: float, status: str) -> None:
        """Note what a piece of work took, and how it ended."""
        self.spent[cell_of(config)] += seconds
        self.finished[cell_of(config)] += status == DONE
        self.begun[cell_of(config)] += seconds > 0.0

    def foresee(self, configs: Iterable[Json], pool: "ProcessPool", jobs: int) -> None:
        """Ask how long the trials of slow methods would take that have finished none."""
        cells = {cell_of(config) for config in configs if config["trial"] is not None}
        self._ask([cell for cell in sorted(cells) if self._is_open(cell)], pool, jobs)

    def foresee_late(self, cell: Cell, pool: "ProcessPool") -> None:
        """Ask the same of a method that ran out of time in its first trial."""
        self._ask([] if self.finished[cell] else [cell], pool, 1)

    def _ask(self, cells: Sequence[Cell], pool: "ProcessPool", jobs: int) -> None:
        asked = [cell for cell in cells if cell not in self.foreseen]
        for at in range(0, len(asked), jobs):
            futures = {cell: self._schedule(pool, *cell) for cell in asked[at : at + jobs]}
            wait(futures.values())
            # What fails here fails again in its trial, which says so.
            found = {cell: one for cell, one in futures.items() if one.exception() is None}
            self.foreseen |= {cell: one.result() for cell, one in found.items()}

    def _is_open(self, cell: Cell) -> bool:
        """Whether a method is slow and nobody knows how long it takes here."""
        is_slow = getattr(self.plan.known[cell[1]], "is_slow", False)
        return is_slow and not (self.finished[cell] or self.spent[cell])

    def _schedule(self, pool: "ProcessPool", data: str, method: str) -> Future[Json]:
        packed = wrap_non_picklable_objects(self.plan.known[method], keep_wrapper=False)
        arguments = (data, self.plan.directory, packed)
        return pool.schedule(self.plan.foresee, args=arguments, timeout=FORESEEING)

    def left(self, cell: Cell) -> float:
        """Seconds for further trials; none if all are foreseen to take far longer than allowed."""
        if self._needed(cell) > tolerance(self.finished[cell]) * self.plan.time_limit:
            return 0.0
        return self.plan.time_limit - self.spent[cell]

    def _needed(self, cell: Cell) -> float:
        """Seconds of all trials by those that ended, or as foreseen; 0 if nobody knows."""
        one = self.spent[cell] / max(self.finished[cell] or self.begun[cell], 1)
        if not self.finished[cell]:
            one = max(one, self.foreseen.get(cell, {}).get("seconds_trial", 0.0))
        return float(one * self.plan.n_trials(cell[0]))

    def late(self, cell: Cell) -> str:
        """The limit, and how long all trials would take as far as one can tell."""
        n_trials, n_done = self.plan.n_trials(cell[0]), self.finished[cell]
        limit = f"more than {self.plan.time_limit:g} CPU s for all trials"
        if n_done:
            return f"{limit}; about {in_words(self._needed(cell))} by {n_done} of {n_trials}"
        if cell not in self.foreseen:
            return limit
        needed, most = in_words(self._needed(cell)), max(self.foreseen[cell]["sizes"])
        begun = "" if self.spent[cell] else ", so not begun"
        return f"{limit}: about {needed} by fits on up to {most:,} rows{begun}"


class TimeLeft:
    """Seconds until a plan is done: for each cell its trials left times what one took so far."""

    def __init__(self, plan: "Plan", records: Iterable[Record]) -> None:
        own = [config for config in plan.configs() if not plan.shared_by(config["method"])]
        self.jobs, self.n_left = plan.jobs, Counter(cell_of(config) for config in own)
        self.costs: dict[Cell, list[float]] = defaultdict(list)
        for record in records:
            self.note(record)

    def note(self, record: Record) -> None:
        """Count a trial that ended; one that ran out of time ends those after it."""
        cell = cell_of(record.config)
        if record.config["trial"] is None or cell not in self.n_left:
            return
        self.costs[cell].append(record.result.get("seconds", 0.0))
        self.n_left[cell] -= 1
        if record.status == OUT_OF_TIME:
            self.n_left[cell] = 0

    def seconds(self) -> float | None:
        """None while no trial has ended."""
        if not self.costs:
            return None
        return sum(n * self._cost(cell) for cell, n in self.n_left.items() if n > 0) / self.jobs

    def _cost(self, cell: Cell) -> float:
        """Mean seconds of a trial; where none ended that of other methods on the set, or of all."""
        if cell in self.costs:
            return fmean(self.costs[cell])
        means = {other: fmean(costs) for other, costs in self.costs.items()}
        others = [mean for (data, _), mean in means.items() if data == cell[0]]
        return fmean(others or means.values())
