"""How every solver runs: the loop, its history, and the status of its solution.

A solver follows the `Method` protocol; `follow` runs it within `solving`.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import get_ident
from typing import Any, Protocol

import numpy as np

from toppush.designs import Block, Design
from toppush.designs.protocol import Records
from toppush.problem.numerics import grown
from toppush.problem.objective import TopProblem
from toppush.problem.solution import Iteration, Solution, Status, closed
from toppush.solvers.scaling import use_exact_scaling
from toppush.types import Array

NEGLIGIBLE = 1e-20
"""Share of the objective at zero below which an objective counts as zero."""

Callback = Callable[[tuple[Iteration, ...], Array, float], bool]
"""Called after each iteration with the history, the weights and the threshold; true to stop."""

State = tuple[float, float, Array, float]
"""Upper and lower bound, and the weights of the upper bound with their threshold."""


class Counted(Protocol):
    """What `History` needs of a design."""

    @property
    def data_passes(self) -> float:
        """Reads of the whole data so far."""

    def widen(self, weights: Array) -> Array:
        """Weights over all columns of X from those of the solve."""


class History:
    """The bounds after each iteration, passed to a callback as they come."""

    def __init__(self, design: Counted, callback: Callback | None = None) -> None:
        self._design, self._callback = design, callback
        self._start, self._passes = time.perf_counter(), design.data_passes
        self.iterations: list[Iteration] = []

    def __len__(self) -> int:
        return len(self.iterations)

    def record(self, upper: float, lower: float, weights: Array, threshold: float) -> bool:
        """Add an iteration; true if the callback asks to stop."""
        self.iterations.append(self._now(upper, lower))
        if self._callback is None:
            return False
        return self._callback(tuple(self.iterations), self._design.widen(weights), threshold)

    def complete(self, solution: Solution) -> Solution:
        """The solution with this history, which ends with the solution's bounds."""
        self.iterations[-1] = self._now(solution.upper, solution.lower)
        return replace(solution, history=tuple(self.iterations))

    def _now(self, upper: float, lower: float) -> Iteration:
        seconds = time.perf_counter() - self._start
        return Iteration(upper, lower, self._design.data_passes - self._passes, seconds)


class Method(Protocol):
    """An iterative method that bounds the optimum from both sides."""

    def begin(self) -> None:
        """Go to the first point that has bounds."""

    def advance(self) -> None:
        """Take one step, and the bounds there."""

    def state(self) -> State:
        """Upper and lower bound, and the weights of the upper bound with their threshold."""

    def status(self) -> Status | None:
        """How the method ends at this point; None if it goes on."""


def follow(method: Method, history: History, *, max_iter: int) -> Status:
    """Run the method until it ends, a callback asks to stop, or max_iter is reached."""
    method.begin()
    while True:
        stopped = history.record(*method.state())
        status = method.status()
        if stopped and status is not Status.CONVERGED:
            return Status.STOPPED
        if status is None and len(history) >= max_iter:
            return Status.MAX_ITER
        if status is not None:
            return status
        method.advance()


@contextmanager
def solving(design: Design, callback: Callback | None = None) -> Iterator[History]:
    """Reserve the design for one solve and start its history; overflows give no warnings.

    A solve within another one, as from a callback, leaves the design as it was.
    """
    nested, outer = design.in_use_by is not None, design.known
    if nested and design.in_use_by != get_ident():
        raise RuntimeError(
            "another thread solves on this design; open one for each thread, they share the rows."
        )
    design.in_use_by = get_ident()
    if nested:
        design.known = Records()
    try:
        design.apply(Block.begin_solve, not design.known, nested)
        with np.errstate(all="ignore"):
            yield History(design, callback)
    finally:
        if nested:
            design.known = outer
            design.apply(Block.end_inner_solve)
        else:
            design.in_use_by = None


def solve_with_retry(
    solve: Callable[..., Solution],
    retry: Callable[..., Solution],
    problem: TopProblem,
    history: History,
    *,
    tol: float,
    max_iter: int,
    start: Solution | None,
) -> Solution:
    """Solve on the rows as they are; if that stalls, retry on exactly scaled rows."""
    options: dict[str, Any] = {"tol": tol, "max_iter": max_iter}
    solution = solve_or_zero(solve, problem, history, **options, start=start)
    if solution.status is Status.STALLED and len(history) < max_iter and use_exact_scaling(problem):
        solution = _best_of(solution, solve_or_zero(retry, problem, history, **options), tol)
    if solution.status is Status.STALLED and solution.upper <= NEGLIGIBLE * problem.at_zero():
        return replace(solution, status=Status.SEPARATED)
    return solution


def solve_or_zero(
    solve: Callable[..., Solution], problem: TopProblem, history: History, **options: Any
) -> Solution:
    """The solution, or weights of zero without a lower bound if numbers overflow on the way."""
    try:
        return solve(problem, history, **options)
    except ArithmeticError:  # Python's floats raise where NumPy's become infinite
        design = problem.design
        weights = design.arrays.zeros(design.n_features)
        upper = problem.at_zero() * (1.0 + grown(0.0))
        if not len(history):
            history.record(upper, 0.0, weights, 0.0)
        dual = design.over_rows(Block.join, 0.0, 0.0)
        return Solution(weights, 0.0, dual, upper, 0.0, len(history), Status.STALLED)


def mark_converged(solution: Solution, tol: float) -> Solution:
    """A solution whose bounds agree has converged, however the solve ended."""
    converged = closed(solution.upper, solution.lower, tol)
    return replace(solution, status=Status.CONVERGED) if converged else solution


def _best_of(before: Solution, after: Solution, tol: float) -> Solution:
    """The later solution with the better of both bounds."""
    if before.upper < after.upper:
        after = replace(
            after, weights=before.weights, threshold=before.threshold, upper=before.upper
        )
    if before.lower > after.lower:
        after = replace(after, dual=before.dual, lower=before.lower)
    return mark_converged(after, tol)
