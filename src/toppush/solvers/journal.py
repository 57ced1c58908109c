"""Following a solve while it runs: its history, and whoever else wants to know."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from toppush.problem.solution import Iteration, Solution
from toppush.types import Array

Watch = Callable[[tuple[Iteration, ...], Array, float], bool]
"""Called after each iteration with the history, the weights and the threshold; true to stop."""


class Followed(Protocol):
    """What a journal asks, such as a design."""

    @property
    def passes(self) -> float:
        """Reads of the whole data so far."""

    def widen(self, weights: Array) -> Array:
        """Weights over all columns of X from those of the solve."""


class Journal:
    """The history of a solve, shown to a watcher as it grows."""

    def __init__(self, design: Followed, watch: Watch | None = None) -> None:
        self._design, self._watch = design, watch
        self._began, self._read = time.perf_counter(), design.passes
        self.history: list[Iteration] = []

    def __len__(self) -> int:
        return len(self.history)

    def note(self, upper: float, lower: float, weights: Array, threshold: float) -> bool:
        """Add an iteration; true if the watcher asks to stop."""
        self.history.append(self._standing(upper, lower))
        if self._watch is None:
            return False
        return self._watch(tuple(self.history), self._design.widen(weights), threshold)

    def settled(self, solution: Solution) -> Solution:
        """The solution with its history, which ends with the bounds that it has."""
        self.history[-1] = self._standing(solution.upper, solution.lower)
        return replace(solution, history=tuple(self.history))

    def _standing(self, upper: float, lower: float) -> Iteration:
        seconds = time.perf_counter() - self._began
        return Iteration(upper, lower, self._design.passes - self._read, seconds)
