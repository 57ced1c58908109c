"""Workers that each hold some of the rows, and combine their sums."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from toppush.system.extras import needs
from toppush.types import Array


class Workers(Protocol):
    """Collective operations; all workers call the same ones in the same order."""

    size: int

    def add(self, numbers: Array) -> Array:
        """Sums over the workers."""

    def greatest(self, numbers: Array) -> Array:
        """Greatest over the workers."""

    def gather(self, columns: Array) -> Array:
        """Columns of all workers side by side."""

    def together(self) -> AbstractContextManager[None]:
        """An error of one worker inside is raised on all, which would wait for it otherwise."""


class SingleWorker:
    """One worker with all rows."""

    size = 1

    def add(self, numbers: Array) -> Array:
        """The numbers themselves."""
        return numbers

    def greatest(self, numbers: Array) -> Array:
        """The numbers themselves."""
        return numbers

    def gather(self, columns: Array) -> Array:
        """The columns themselves."""
        return columns

    @contextmanager
    def together(self) -> Iterator[None]:
        """Without effect."""
        yield


SINGLE = SingleWorker()


class XGBoostWorkers:
    """The workers of a distributed XGBoost training, by its own collective."""

    def __init__(self) -> None:
        self._collective = of_xgboost("collective")
        self.size: int = self._collective.get_world_size()
        self._rank: int = self._collective.get_rank()

    def add(self, numbers: Array) -> Array:
        """Sums over the workers."""
        return self._reduce(numbers, "SUM")

    def greatest(self, numbers: Array) -> Array:
        """Greatest over the workers."""
        return self._reduce(numbers, "MAX")

    def gather(self, columns: Array) -> Array:
        """Columns of all workers side by side: each adds its own to a table of zeros."""
        counts = np.zeros(self.size)
        counts[self._rank] = columns.shape[1]
        ends = np.cumsum(self.add(counts)).astype(int)
        table = np.zeros((len(columns), ends[-1]))
        table[:, ends[self._rank] - columns.shape[1] : ends[self._rank]] = columns
        return self.add(table)

    def _reduce(self, numbers: Array, how: str) -> Array:
        done = self._collective.allreduce(numbers, self._collective.Op[how])
        return np.asarray(done).reshape(numbers.shape)

    @contextmanager
    def together(self) -> Iterator[None]:
        """An error of one worker inside is raised on all, which would wait for it otherwise."""
        try:
            yield
        except ValueError:
            self.greatest(np.ones(1))
            raise
        if self.greatest(np.zeros(1)).any():
            raise ValueError("Another worker refused its rows; its own error says why.")


def of_xgboost(name: str) -> Any:
    """A module of XGBoost."""
    try:
        return import_module(f"xgboost.{name}")
    except ImportError as error:
        raise ImportError(needs(f"xgboost.{name}", "xgboost")) from error


def xgboost_workers() -> Workers:
    """The workers of the training that this process is part of."""
    workers = XGBoostWorkers()
    return workers if workers.size > 1 else SINGLE
