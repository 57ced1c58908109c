"""What a solve over pairs has proven so far."""

import numpy as np

from toppush.baselines.pair_step import Landed
from toppush.baselines.pairs import TwoClasses
from toppush.problem.solution import Solution, Status, proven_below
from toppush.solvers.journal import Journal, Watch
from toppush.types import Array

PATIENCE = 1000
STUCK = 1e-5
"""Relative gap that products of float32 rows may leave; above it, slow is not stuck."""


class Bounds:
    """Bounds of a solve over pairs, the weights and duals they belong to, and its history.

    The best that were seen, or with `latest` those of the latest point. Before any point has
    numbers to show they are those of weights of zero, and of losses that are never negative.
    """

    def __init__(
        self, rows: TwoClasses, at_zero: float, watch: Watch | None = None, *, latest: bool = False
    ) -> None:
        self._rows, self._latest, self._journal = rows, latest, Journal(rows.design, watch)
        self.upper, self.lower = at_zero, 0.0
        self.found_any = False
        """Whether some point had an objective that is a number."""
        self.stopped = False
        """Whether the watcher asked to stop."""
        self._weights, self._threshold = np.zeros(rows.design.n_features), 0.0
        self._sums = np.zeros_like(rows.weights[0]), np.zeros_like(rows.weights[1])

    def note(
        self, upper: float, weights: Array, threshold: float, lower: float, landed: Landed
    ) -> None:
        """Keep what a point's weights and duals prove, as an iteration."""
        if np.isfinite(upper) and (self._latest or not self.found_any or upper < self.upper):
            self.upper, self._weights, self._threshold = upper, weights, threshold
            self.found_any = True
        if lower > self.lower or (self._latest and np.isfinite(lower)):
            self.lower, self._sums = lower, (landed.per_positive, landed.per_negative)
        self.stopped = self._journal.note(self.upper, self.lower, self._weights, self._threshold)

    def meet(self, tol: float) -> bool:
        """Whether the gap is at most `tol` of the objective."""
        return self.found_any and self.upper - self.lower <= tol * abs(self.upper)

    def are_stuck(self) -> bool:
        """Whether rounding is all that is left, and 1000 iterations did not shrink the gap."""
        history = self._journal.history
        if len(history) <= PATIENCE:
            return False
        then, gap = history[-1 - PATIENCE], self.upper - self.lower
        return gap <= STUCK * abs(self.upper) and gap > 0.99 * (then.upper - then.lower)

    def outcome(self, tol: float, *, still: bool = False) -> Status | None:
        """How the solve ends here, None if it goes on; `still` if the point did not move."""
        if self.meet(tol):
            return Status.CONVERGED
        if self.stopped:
            return Status.STOPPED
        return Status.STALLED if still or self.are_stuck() else None

    def solution(self, status: Status) -> Solution:
        """The record."""
        return Solution(
            weights=self._weights,
            threshold=self._threshold,
            dual=self._rows.join(*self._sums),
            upper=self.upper,
            lower=proven_below(self.upper, self.lower),
            n_iter=len(self._journal),
            status=status,
            history=tuple(self._journal.history),
        )
