"""The cells of the benchmark, each a method on a split of a data set, and their results.

Every cell runs in a process of its own and is written as soon as it is done, as a line of JSON. A
run that was stopped goes on with the cells that are missing. Results of `TopRanker` count for one
version of toppush; those of other methods for all.
"""

import json
import os
import pickle
import shutil
import tempfile
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, TimeoutError, wait
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from pebble import ProcessPool

from reproduce.benchmark.methods import METHODS
from reproduce.benchmark.splits import PROTOCOL, Split, load, split
from reproduce.results import cpu_name
from reproduce.runner import begin_process
from toppush import metrics
from toppush.metrics.curve import TopCurve
from toppush.types import Array, Json, Mask

N_SPLITS, FEW_SPLITS = 10, 3
SLOW = 120.0
"""CPU seconds; a method that takes more has few splits of that data set."""
FALSE_POSITIVES = (3, 10, 30)
FIRST = 100
DONE, FAILED, STOPPED, REFUSED = "done", "failed", "out of time", "not applied"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Cell:
    """All that decides a result.

    Attributes
    ----------
    data, split, method
        The data set, the number of the split, and the method's key.
    version : str
        See `Method.version`.
    rows : int
        The most rows of a split, training and test together.
    threads : int
    protocol : int
        Of the splits.
    """

    data: str
    split: int
    method: str
    version: str
    rows: int
    threads: int = 1
    protocol: int = PROTOCOL


class Results:
    """A file with a line of JSON for each cell; the last one counts.

    Parameters
    ----------
    path : path
        Made when the first result is written. Lines that killed processes left unfinished are
        ignored.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.records: dict[Cell, Json] = {}
        self._seconds: dict[Cell, list[float]] = defaultdict(list)
        self._stopped: dict[Cell, set[int]] = defaultdict(set)
        *lines, rest = self.path.read_bytes().split(b"\n") if self.path.exists() else [b""]
        self._separator = b"\n" if rest else b""
        for line in lines:
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                record = json.loads(line)
                self._keep(Cell(**record.pop("cell")), record)
        if lines and not self.records:
            raise ValueError(f"{path} has no results of the benchmark; name another file.")

    def write(self, cell: Cell, record: Json) -> None:
        """Append a result, in one call of the system, so that several runs can share the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"cell": asdict(cell), **record}).encode()
        with self.path.open("ab", buffering=0) as file:
            file.write(self._separator + line + b"\n")
            os.fsync(file.fileno())
        self._separator = b""
        self._keep(cell, record)

    def _keep(self, cell: Cell, record: Json) -> None:
        self.records[cell] = record
        of_all_splits = replace(cell, split=0)
        if record["status"] == DONE:
            seconds = record["seconds_fit"] + record["seconds_score"]
            self._seconds[of_all_splits].append(seconds)
        if record["status"] == STOPPED:
            self._stopped[of_all_splits].add(cell.split)
        else:
            self._stopped[of_all_splits].discard(cell.split)

    def seconds(self, cell: Cell) -> float:
        """Mean CPU seconds of the method on the splits of this data set that are there."""
        return float(np.mean(self._seconds.get(replace(cell, split=0), 0.0)))

    def was_stopped(self, cell: Cell) -> bool:
        """Whether the method was out of time on another split of this data set."""
        return bool(self._stopped[replace(cell, split=0)] - {cell.split})


def measure(y: Mask, scores: Array) -> dict[str, float]:
    """All metrics of a ranking from one sorting.

    The recall at k false positives is the share of the positives above the k-th highest negative,
    as in `recall_at_10_false_positives`, so that Pos@Top is the recall at one.
    """
    curve = metrics.top_curve(y, scores)
    return {
        "pos_at_top": float(metrics.positives_at_top.of(curve)),
        **{f"recall_{k}": _recall_at(curve, k) for k in FALSE_POSITIVES},
        "precision_100": float(metrics.precision_at_k.of(curve, k=min(FIRST, y.size))),
        "ap": float(metrics.average_precision.of(curve)),
        "auc": float(metrics.auc.of(curve)),
    }


def _recall_at(curve: TopCurve, k: int) -> float:
    rate = min((k - 1) / curve.n_neg, 1.0)
    return float(metrics.recall_at_fpr.of(curve, max_fpr=rate))


def run_cell(cell: Cell, rows: Path, *, is_labelled: bool = False) -> Json:
    """What a process does: fit, score, measure. Seconds are those of the CPU, with children's."""
    tempfile.tempdir = str(rows.parent)  # removed with the rows, also if this process is killed
    part: Split = pickle.loads(rows.read_bytes())
    method = METHODS[cell.method]
    if not is_labelled and method.version() != cell.version:
        raise RuntimeError("the sources of toppush have changed since this run began")
    began = _cpu_seconds()
    score = method.fit(part.X, part.y, cell.split, cell.threads)
    fitted = _cpu_seconds()
    scores = np.asarray(score(part.X_test), np.float64).ravel()
    ended = _cpu_seconds()
    return {
        **measure(part.y_test, scores),
        "seconds_fit": fitted - began,
        "seconds_score": ended - fitted,
        "n_train": part.y.size,
        "n_test": part.y_test.size,
        "n_pos_train": int(part.y.sum()),
        "n_pos_test": int(part.y_test.sum()),
        "n_columns": part.X.shape[1],
    }


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class SavedSplit:
    """A split in a folder that exists as long as this object."""

    def __init__(self, rows: Split) -> None:
        self.rows = rows
        folder = Path(tempfile.mkdtemp())
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = folder / "rows.pickle"
        self.path.write_bytes(pickle.dumps(rows, pickle.HIGHEST_PROTOCOL))


@dataclass
class Benchmark:
    """Which cells to run, and how.

    Attributes
    ----------
    data, methods : sequence of str
        Names of data sets and keys of methods.
    splits : int
        At most three of a data set for a method that takes more than two CPU minutes.
    rows : int
        The most rows of a split.
    threads : int
        Of each cell.
    jobs : int
        Cells at a time.
    label : str
        The version of `TopRanker`; by default a hash of its sources.
    directory : path, optional
        Where the files of the data are.
    minutes : float
        No cell is started later.
    cell_minutes : float
        A cell that takes longer is stopped, and further splits of its data set are not begun.
    again : bool
        Whether cells that failed or were stopped are run once more.
    """

    data: Sequence[str]
    methods: Sequence[str]
    splits: int = N_SPLITS
    rows: int = 24_000
    threads: int = 1
    jobs: int = 1
    label: str = ""
    directory: str | None = None
    minutes: float = float("inf")
    cell_minutes: float = 60.0
    again: bool = False
    tell: Callable[[Cell, Json], None] = field(default=lambda cell, record: None)

    def cells(self) -> Iterator[Cell]:
        """All cells: the first split of every data set by every method, then the second, ..."""
        versions = {key: METHODS[key].version(self.label) for key in self.methods}
        for number in range(self.splits):
            for data in self.data:
                for key in self.methods:
                    yield Cell(data, number, key, versions[key], self.rows, self.threads)

    def run(self, results: Results) -> None:
        """Run the cells that are missing."""
        os.environ |= dict.fromkeys(THREADS, str(self.threads))  # read when a process starts
        deadline = time.monotonic() + 60.0 * self.minutes
        with ProcessPool(self.jobs, 1, begin_process, context=get_context("spawn")) as pool:
            running: dict[Future[Json], tuple[Cell, SavedSplit, float]] = {}
            try:
                for cell in self.cells():
                    if time.monotonic() >= deadline:
                        break
                    if self._is_wanted(cell, results) and (saved := self._rows(cell, results)):
                        running[self._start(pool, cell, saved)] = cell, saved, time.monotonic()
                    while len(running) >= self.jobs:
                        self._keep(running, results)
                while running:
                    self._keep(running, results)
            finally:
                pool.stop()  # type: ignore[no-untyped-call]

    def _start(self, pool: ProcessPool, cell: Cell, saved: SavedSplit) -> Future[Json]:
        options = {"is_labelled": bool(self.label)}
        seconds = 60.0 * self.cell_minutes
        return pool.schedule(run_cell, args=(cell, saved.path), kwargs=options, timeout=seconds)

    def _is_wanted(self, cell: Cell, results: Results) -> bool:
        record = results.records.get(cell)
        if record is not None and not (self.again and record["status"] in (FAILED, STOPPED)):
            return False
        if results.was_stopped(cell) and not self.again:
            return False
        return cell.split < FEW_SPLITS or results.seconds(cell) <= SLOW

    def _rows(self, cell: Cell, results: Results) -> SavedSplit | None:
        """The rows of a cell; None, with a record, if there are none or the method refuses them."""
        try:
            saved = _saved_split(cell.data, cell.split, cell.rows, self.directory)
        except ValueError as error:
            self._write(cell, {"status": FAILED, "message": str(error)}, results)
            return None
        if reason := METHODS[cell.method].refuses(saved.rows.X):
            self._write(cell, {"status": REFUSED, "message": reason}, results)
            return None
        return saved

    def _keep(
        self, running: dict[Future[Json], tuple[Cell, SavedSplit, float]], results: Results
    ) -> None:
        """Wait for a cell and write its result."""
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            cell, _, began = running.pop(future)
            error = future.exception()
            if error is None:
                record: Json = {"status": DONE, **future.result()}
            elif isinstance(error, TimeoutError):
                message = f"stopped after {self.cell_minutes:g} minutes"
                record = {"status": STOPPED, "message": message}
            else:
                record = {"status": FAILED, "message": f"{type(error).__name__}: {error}"}
            self._write(cell, record | {"seconds_wall": time.monotonic() - began}, results)

    def _write(self, cell: Cell, record: Json, results: Results) -> None:
        """Write a record with the package, the processor and the time."""
        record |= {"package": METHODS[cell.method].package, "cpu": cpu_name()}
        record |= {"finished": datetime.now(UTC).isoformat(timespec="seconds")}
        results.write(cell, record)
        self.tell(cell, record)


@lru_cache(maxsize=1)
def _saved_split(data: str, number: int, rows: int, directory: str | None) -> SavedSplit:
    return SavedSplit(split(load(data, directory), number, rows))
