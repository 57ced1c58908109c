"""The benchmark: every ranker that one would pick, on every data set, each set as its friends do.

A trial trains on 2/3 of the rows and tests on the others, split at random with the classes' shares
kept, by the trial's seed. What is ours was tuned on splits of seeds from 1000 on and on none of
those from 0 to 29, which are reported.
"""

import ctypes
import gc
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
import psutil
from scipy import sparse
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing

from reproduce import datasets
from reproduce.contestants import CONTESTANTS, gpu_name, papers_columns
from reproduce.limits import forecast
from reproduce.protocol import TEST_SHARE, foresee_trial
from reproduce.runner import Known, Plan
from toppush import metrics
from toppush.matrices import dense, for_engine, is_thin
from toppush.metrics.curve import TopCurve
from toppush.types import Array, Json, Mask

VERSION = "benchmark 1"
"""Part of every record's configuration; changes when results would."""
DENSE = 0.1
"""Filled to more than this share, the rows of a file of entries are an array."""
LOOK = 0.02
"""Seconds between two looks at the memory."""
SETS = (
    "diabetes",
    "mammography",
    "spambase",
    "hiva",
    "bank-marketing",
    "a9a",
    "w8a",
    "hiv-ecfp4",
    "real-sim",
    "news20-forsale",
    "url",
    "give-me-some-credit",
    "ijcnn1",
    "nslkdd",
    "cover",
)


class Measured(NamedTuple):
    """A measure of the benchmark: its name in records and in tables."""

    key: str
    title: str


MEASURES = (
    Measured("pos_at_top", "Pos@Top"),
    Measured("before_3", "recall before 3"),
    Measured("before_10", "recall before 10"),
    Measured("fpr_1e-4", "recall at FPR 1e-4"),
    Measured("fpr_1e-3", "recall at FPR 1e-3"),
    Measured("fpr_1e-2", "recall at FPR 1e-2"),
    Measured("ap", "AP"),
    Measured("ndcg", "NDCG"),
    Measured("auc", "AUC"),
)
COSTS = (Measured("seconds_fitting", "CPU s"), Measured("megabytes", "MB"))


def measure(y: Mask, scores: Array) -> dict[str, float]:
    """All measures from one sorting of the list."""
    curve = metrics.top_curve(y, scores)
    before = {f"before_{k}": min((k - 1) / curve.n_neg, 1.0) for k in (3, 10)}
    shares = before | {f"fpr_1e-{power}": 10.0**-power for power in (4, 3, 2)}
    return {
        **{one.key: float(metrics.METRICS[one.name].of(curve)) for one in metrics.FOUR},
        **{key: _recall_at(curve, share) for key, share in shares.items()},
    }


def _recall_at(curve: TopCurve, share: float) -> float:
    return float(metrics.METRICS["recall_at_fpr"].of(curve, max_fpr=share))


def run_trial(contestant: Any, X: Any, y: Mask, seed: int) -> Json:
    """One split: fit, with every choice that it takes, and measure."""
    rows = np.arange(y.size)
    train, test = train_test_split(rows, test_size=TEST_SHARE, random_state=seed, stratify=y)
    inside, outside = _safe_indexing(X, train), _safe_indexing(X, test)
    with peak_memory() as peak:
        began = time.process_time()
        score = contestant.fit(inside, y[train], seed)
        fitted = time.process_time()
        scores = score(outside)
        ended = time.process_time()
    found = measure(y[test], np.asarray(scores, dtype=np.float64))
    costs = {"seconds_fitting": fitted - began, "seconds_scoring": ended - fitted}
    costs |= {"megabytes": peak.megabytes}
    if contestant.is_on_gpu:
        return {**found, **dict.fromkeys(costs, np.nan), "gpu": gpu_name()}
    return {**found, **costs}


@dataclass
class Peak:
    """The most memory beyond what there was."""

    megabytes: float = 0.0


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """The most memory that this process takes inside the block beyond what it had before."""
    process, peak, over = psutil.Process(), Peak(), threading.Event()
    _give_back_memory()
    before = process.memory_info().rss

    def look() -> None:
        peak.megabytes = max(peak.megabytes, (process.memory_info().rss - before) / 2**20)

    def keep_looking() -> None:
        while not over.wait(LOOK):
            look()

    looking = threading.Thread(target=keep_looking, daemon=True)
    looking.start()
    try:
        yield peak
    finally:
        over.set()
        looking.join()
        look()


def _give_back_memory() -> None:
    """Return to the system what earlier trials no longer use, where the C library can."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


@lru_cache(maxsize=1)
def load(name: str, directory: str | None) -> tuple[Any, Mask]:
    """Rows as they were published, and labels: a data frame, an array, or a CSR matrix."""
    if name in datasets.RAW_TABLES:
        return datasets.load_frame(name, directory)
    found = datasets.load(name, directory)
    # Not every engine knows sparse arrays; all know the older matrices.
    return for_engine(found.X) if is_thin(found.X, DENSE) else dense(found.X), found.y


@dataclass
class BenchmarkPlan(Plan):
    """What the benchmark consists of."""

    known: ClassVar[Mapping[str, Known]] = CONTESTANTS
    protocol: ClassVar[object] = VERSION
    times_all_rows: ClassVar[bool] = False

    @staticmethod
    def load(name: str, directory: str | None) -> tuple[Any, Mask]:
        """Rows as they were published, and labels."""
        return load(name, directory)

    @staticmethod
    def work(config: Json, directory: str | None, method: Any) -> Json:
        """What a process does: one trial."""
        return run_trial(method, *load(config["data"], directory), config["seed"])

    @staticmethod
    def foresee(name: str, directory: str | None, method: Any) -> Json:
        """What a process does for a slow ranker first: how long a trial would take."""
        X, y = load(name, directory)
        if method.method is not None:  # its search is many fits: those of the middle setting tell
            rows = sparse.csr_array(papers_columns(X).fit_transform(X))
            return foresee_trial(method.method, rows, y)
        found = forecast(lambda X, y: method.fit(X, y, 0), X, y)
        return {"seconds_trial": found.at((1.0 - TEST_SHARE) * y.size), **found.as_json()}

    def config(self, data: str, method: str, trial: int) -> Json:
        """All that decides the result of one trial."""
        return self._common(data, method) | self._trial(trial)
