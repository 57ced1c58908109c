"""What a solve over pairs has proven so far, and how it runs."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from reproduce.baselines.pair_step import Landed
from reproduce.baselines.pairs import Limits, TwoClasses
from toppush.problem.solution import Solution, Status, proven_below
from toppush.solvers.driver import Method, Standing, follow, solving
from toppush.types import Array

PATIENCE = 1000
STUCK = 1e-5
"""Relative gap that products of float32 rows may leave; above it, slow is not stuck."""


class Bounds:
    """Bounds of a solve over pairs, and the weights and duals they belong to.

    The best that were seen, or with `latest` those of the latest point. Before any point has
    numbers to show they are those of weights of zero, and of losses that are never negative.
    """

    def __init__(self, rows: TwoClasses, at_zero: float, *, latest: bool = False) -> None:
        self._rows, self._latest = rows, latest
        self.upper, self.lower = at_zero, 0.0
        self.found_any = False
        """Whether some point had an objective that is a number."""
        self._weights, self._threshold = np.zeros(rows.design.n_features), 0.0
        self._sums = np.zeros_like(rows.weights[0]), np.zeros_like(rows.weights[1])
        self._gaps: list[float] = []

    def note(
        self, upper: float, weights: Array, threshold: float, lower: float, landed: Landed
    ) -> None:
        """Keep what a point's weights and duals prove."""
        if np.isfinite(upper) and (self._latest or not self.found_any or upper < self.upper):
            self.upper, self._weights, self._threshold = upper, weights, threshold
            self.found_any = True
        if lower > self.lower or (self._latest and np.isfinite(lower)):
            self.lower, self._sums = lower, (landed.per_positive, landed.per_negative)
        self._gaps.append(self.upper - self.lower)

    def standing(self) -> Standing:
        """Both bounds, and the weights of the upper one with their threshold."""
        return self.upper, self.lower, self._weights, self._threshold

    def are_stuck(self) -> bool:
        """Whether rounding is all that is left, and 1000 iterations did not shrink the gap."""
        if len(self._gaps) <= PATIENCE:
            return False
        then, gap = self._gaps[-1 - PATIENCE], self._gaps[-1]
        return gap <= STUCK * abs(self.upper) and gap > 0.99 * then

    def outcome(self, tol: float, *, still: bool) -> Status | None:
        """How the solve ends here, None if it goes on; `still` if the point did not move."""
        if self.found_any and self.upper - self.lower <= tol * abs(self.upper):
            return Status.CONVERGED
        return Status.STALLED if still or self.are_stuck() else None

    def solution(self, status: Status, n_iter: int) -> Solution:
        """The record."""
        dual, lower = self._rows.join(*self._sums), proven_below(self.upper, self.lower)
        return Solution(self._weights, self._threshold, dual, self.upper, lower, n_iter, status)


class PairMethod(Method, Protocol):
    """A method whose bounds are those of pairs."""

    bounds: Bounds


def followed(make: Callable[[], PairMethod], rows: TwoClasses, limits: Limits) -> Solution:
    """Make and run a method over pairs."""
    with solving(rows.design, limits.watch) as journal:
        method = make()
        status = follow(method, journal, max_iter=limits.max_iter)
        found = method.bounds.solution(status, len(journal))
    return journal.settled(found)
