"""Do the work that a table needs and the store lacks, in processes that can be stopped.

A method that fails or runs out of its time becomes a record that says so. Every finished piece is
in the store before the next begins, so a run may be killed at any time and started again.
"""

import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, TimeoutError, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from multiprocessing import get_context
from typing import Any, ClassVar, Protocol

from joblib import wrap_non_picklable_objects
from pebble import ProcessPool

from reproduce import datasets
from reproduce.limits import Limits, cell_of
from reproduce.methods import METHODS
from reproduce.protocol import (
    N_FOLDS,
    TEST_SHARE,
    VERSION,
    foresee_trial,
    run_trial,
    time_fit,
)
from reproduce.results import machine
from reproduce.store import DONE, FAILED, OUT_OF_TIME, Record, Store, key_of
from toppush.types import Json, Mask, Matrix

MANY_ROWS, FEW_TRIALS = 100_000, 10
"""Sets of more rows have fewer trials."""
SHARED = 4.0
"""Times its CPU seconds, work may take on a machine that is shared before it is stopped."""


class Known(Protocol):
    """What every method of a plan says of itself."""

    @property
    def key(self) -> str:
        """Its name on the command line."""

    @property
    def title(self) -> str:
        """Its name in tables."""

    @property
    def needs(self) -> str:
        """Package that must be installed."""

    @property
    def is_available(self) -> bool:
        """Whether it is."""

    @property
    def revision(self) -> int:
        """Goes up when its results would change."""


@dataclass
class Plan:
    """What a table consists of; as it is, Table 2 of the paper. Others say what differs.

    Attributes
    ----------
    data : sequence of str
        Names of data sets.
    methods : sequence of str
        Keys of methods.
    trials : int
    seed : int
        Trial t splits the rows with seed 1000 * seed + t.
    jobs : int
        Processes at a time; each computes with one thread.
    time_limit : float
        CPU seconds that all trials of one method on one data set may take together.
    directory : str, optional
        Where the data sets' files are.
    sizes : dict
        Positives, negatives and columns of data sets; those that are missing are counted.
    foreseen : dict
        How long trials take that were foreseen before, by data set and method.
    """

    data: Sequence[str]
    methods: Sequence[str]
    trials: int = 30
    seed: int = 0
    jobs: int = 1
    time_limit: float = 3600.0
    directory: str | None = None
    sizes: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    foreseen: dict[tuple[str, str], Json] = field(default_factory=dict)

    known: ClassVar[Mapping[str, Known]] = METHODS
    """All methods that there are."""
    protocol: ClassVar[object] = VERSION
    times_all_rows: ClassVar[bool] = True
    """Whether the fit of all rows is timed after the trials."""

    def __post_init__(self) -> None:
        for name in set(self.data) - set(self.sizes):
            X, y = self.load(name, self.directory)
            n_pos = int(y.sum())
            self.sizes[name] = (n_pos, y.size - n_pos, X.shape[1])

    @staticmethod
    def load(name: str, directory: str | None) -> tuple[Any, Mask]:
        """Rows as the trials use them, and labels."""
        return _load(name, directory)

    @staticmethod
    def work(config: Json, directory: str | None, method: Any) -> Json:
        """What a process does: one trial, or one timing."""
        rows = _load(config["data"], directory)
        if config["trial"] is None:
            return time_fit(method, *rows, config["setting"])
        return run_trial(method, *rows, config["seed"])

    @staticmethod
    def foresee(name: str, directory: str | None, method: Any) -> Json:
        """What a process does for a slow method first: how long a trial would take."""
        return foresee_trial(method, *_load(name, directory))

    def n_trials(self, data: str) -> int:
        """How many trials a data set has: fewer where there are many rows."""
        n_pos, n_neg, _ = self.sizes[data]
        return min(self.trials, FEW_TRIALS) if n_pos + n_neg > MANY_ROWS else self.trials

    def config(self, data: str, method: str, trial: int) -> Json:
        """All that decides the result of one trial."""
        how = METHODS[method]
        return self._common(data, method) | {
            "rule": how.rule,
            "grids": {name: list(grid.values) for name, grid in how.grids.items()},
            "test_share": TEST_SHARE,
            "folds": N_FOLDS,
            **self._trial(trial),
        }

    def _trial(self, trial: int) -> Json:
        return {"trial": trial, "seed": 1000 * self.seed + trial}

    def configs(self) -> list[Json]:
        """Every trial, those of one data set together; at its end what others make as well."""
        return [
            self.config(data, method, trial)
            for data in self.data
            for follows in (False, True)
            for trial in range(self.n_trials(data))
            for method in self.methods
            if bool(self.shared_by(method)) == follows
        ]

    def method(self, key: str) -> Known:
        """What a process is given: a method, with those that share its fits."""
        sharing = [name for name in self.methods if self.shared_by(name) == key]
        if not sharing:
            return self.known[key]
        return replace(METHODS[key], sharing=tuple(METHODS[name] for name in sharing))

    def shared_by(self, method: str) -> str:
        """The method of this plan whose trials make those of this one, if there is one."""
        maker = getattr(self.known[method], "shares", "")
        return maker if maker in self.methods else ""

    def timing_config(self, data: str, method: str, setting: dict[str, float]) -> Json:
        """All that decides a training time on the full data."""
        return self._common(data, method) | {"trial": None, "setting": setting}

    def _common(self, data: str, method: str) -> Json:
        return {
            "protocol": self.protocol,
            "data": data,
            "size": list(self.sizes[data]),
            "method": method,
            "revision": self.known[method].revision,
        }


@lru_cache(maxsize=1)
def _load(name: str, directory: str | None) -> tuple[Matrix, Mask]:
    """Rows as the experiments use them, and labels."""
    loaded = datasets.load(name, directory)
    return loaded.scaled(), loaded.y


def begin_process() -> None:
    """A worker leaves Ctrl-C to its parent, and ends when its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def timed(work: Callable[..., Json], *arguments: Any) -> Json:
    """What a piece of work found, with the CPU seconds that it took."""
    began = time.process_time()
    found = work(*arguments)
    return {**found, "seconds": time.process_time() - began}


@dataclass(frozen=True)
class Event:
    """What the runner tells about: a piece of work that begins or ends."""

    config: Json
    record: Record | None
    n_done: int
    n_all: int


def run(plan: Plan, store: Store, tell: Callable[[Event], None] = lambda event: None) -> None:
    """Bring the store up to date with a plan."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # read by the worker processes when they start
    configs = plan.configs()
    with processes(plan.jobs) as pool:
        runner = Runner(plan, store, tell, pool)
        runner.run(configs, plan.jobs)
        while store.others_at_work(configs):  # what they leave undone is done here
            time.sleep(0.5)
            runner.run(configs, plan.jobs)
        # One at a time, so that a timing shares the machine with nothing of ours.
        runner.run(timings(plan, store), 1)


@contextmanager
def processes(jobs: int) -> Iterator[ProcessPool]:
    """So many worker processes, which begin with the first work and are stopped at the end."""
    pool = ProcessPool(jobs, initializer=begin_process, context=get_context("spawn"))
    try:
        yield pool
    finally:
        pool.stop()  # type: ignore[no-untyped-call]
        pool.join()


class Runner:
    """Hands out work to processes and keeps their answers."""

    def __init__(
        self, plan: Plan, store: Store, tell: Callable[[Event], None], pool: ProcessPool
    ) -> None:
        self.plan, self.store, self.tell, self.pool = plan, store, tell, pool
        self.machine = machine("xgboost", "lightgbm", "catboost", "torch")
        self.limits = Limits(plan)

    def run(self, configs: list[Json], jobs: int) -> None:
        """Do what is not done and nobody else does."""
        known = self.store.records(configs)
        self.limits.count(known)
        self.n_done, self.n_all = len(known), len(configs)
        done = {record.key for record in known}
        left = [config for config in configs if key_of(config) not in done]
        self.limits.foresee(left, self.pool, jobs)
        queue = iter(left)
        running: dict[Future[Json], tuple[Json, float]] = {}
        try:
            while self._fill(queue, running, jobs):
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    self._keep(future, *running.pop(future))
        finally:
            for config, _ in running.values():
                self.store.release(config)

    def _fill(
        self, queue: Iterable[Json], running: dict[Future[Json], tuple[Json, float]], jobs: int
    ) -> bool:
        """Start work until every process has some; whether any is under way."""
        for config in queue:
            left = self.limits.left(cell_of(config))
            if not self.store.claim(config):
                self.n_done += 1
                continue
            if left <= 0.0:
                self._write_late(config, 0.0)
                continue
            self.tell(Event(config, None, self.n_done, self.n_all))
            # Other processes know only the methods that modules they import put there.
            method = self.plan.method(config["method"])
            packed = wrap_non_picklable_objects(method, keep_wrapper=False)
            arguments = (self.plan.work, config, self.plan.directory, packed)
            future = self.pool.schedule(timed, args=arguments, timeout=SHARED * left)
            running[future] = config, time.monotonic()
            if len(running) >= jobs:
                break
        return bool(running)

    def _keep(self, future: Future[Json], config: Json, began: float) -> None:
        error = future.exception()
        result: Json = {"seconds": time.monotonic() - began} if error else future.result()
        seconds = result["seconds"]
        self.limits.spend(config, seconds, DONE if error is None else FAILED)
        if error is None:
            self._keep_shared(config, result.pop("also", {}))
            self._write(config, DONE, result)
        elif isinstance(error, TimeoutError):
            if config["trial"] is not None:
                self.limits.foresee_late(cell_of(config), self.pool)
            self._write_late(config, seconds)
        else:
            message = f"{type(error).__name__}: {error}"
            self._write(config, FAILED, result, message)

    def _keep_shared(self, config: Json, results: Mapping[str, Json]) -> None:
        """Keep what a trial found for methods that share its fits; it took no time of theirs."""
        for method, result in results.items():
            other = self.plan.config(config["data"], method, config["trial"])
            self.store.write(Record(other, DONE, {**result, "seconds": 0.0}, "", self.machine))

    def _write_late(self, config: Json, seconds: float) -> None:
        cell = cell_of(config)
        result = {"seconds": seconds, "foreseen": self.limits.foreseen.get(cell)}
        self._write(config, OUT_OF_TIME, result, self.limits.late(cell))

    def _write(self, config: Json, status: str, result: Json, message: str = "") -> None:
        record = Record(config, status, result, message, self.machine)
        self.store.write(record)
        self.n_done += 1
        self.tell(Event(config, record, self.n_done, self.n_all))


def timings(plan: Plan, store: Store) -> list[Json]:
    """The fits of all rows that a plan times, as far as its trials are in the store."""
    if not plan.times_all_rows:
        return []
    return [plan.timing_config(*which) for which in usual_settings(plan, store)]


def usual_settings(plan: Plan, store: Store) -> list[tuple[str, str, dict[str, float]]]:
    """For each data set and method with a result, the setting most often chosen."""
    chosen: dict[tuple[str, str], Counter[tuple[tuple[str, float], ...]]] = defaultdict(Counter)
    for record in store.records(plan.configs()):
        if record.status == DONE:
            setting = tuple(sorted(record.result["setting"].items()))
            chosen[record.config["data"], record.config["method"]][setting] += 1
    return [
        (data, method, dict(max(sorted(counts.items()), key=lambda item: item[1])[0]))
        for (data, method), counts in chosen.items()
    ]
