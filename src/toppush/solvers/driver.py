"""How every solve runs: a method goes step by step, and a journal notes its bounds.

A method that is written to `Method` is followed by `follow` within `solving`.
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


Standing = tuple[float, float, Array, float]


class Method(Protocol):
    """An iteration that bounds the optimum from both sides."""

    def begin(self) -> None:
        """Go to the first point that has bounds."""

    def advance(self) -> None:
        """Go one step further, and take the bounds there."""

    def standing(self) -> Standing:
        """Upper and lower bound, and the weights of the upper one with their threshold."""

    def ended(self) -> Status | None:
        """How the method ends here of its own, if it does."""


def follow(method: Method, journal: Journal, *, max_iter: int) -> Status:
    """Step after step until the method ends, a watcher asks to stop, or max_iter is reached."""
    method.begin()
    while True:
        stopped = journal.note(*method.standing())
        status = method.ended()
        if stopped and status is not Status.CONVERGED:
            return Status.STOPPED
        if status is None and len(journal) >= max_iter:
            return Status.MAX_ITER
        if status is not None:
            return status
        method.advance()


@contextmanager
def solving(design: Design, watch: Watch | None = None) -> Iterator[Journal]:
    """Hold the design for one solve, with a journal of it; what overflows is said by the status.

    A solve within another, as from a watcher, finds the design as new and leaves it as it was.
    """
    within, outer = design.in_use_by is not None, design.known
    if within and design.in_use_by != get_ident():
        raise RuntimeError(
            "another thread solves on this design; open one for each thread, they share the rows."
        )
    design.in_use_by = get_ident()
    if within:
        design.known = Records()
    try:
        design.apply(Block.begin_solve, not design.known, within)
        with np.errstate(all="ignore"):
            yield Journal(design, watch)
    finally:
        if within:
            design.known = outer
            design.apply(Block.end_inner_solve)
        else:
            design.in_use_by = None


NEXT_TO_NOTHING = 1e-20
"""Share of the objective at zero below which no more is asked for."""


def attempted(
    solve: Callable[..., Solution], problem: TopProblem, journal: Journal, **options: Any
) -> Solution:
    """The solution, or weights of zero if numbers are beyond float64 on the way."""
    try:
        return solve(problem, journal, **options)
    except ArithmeticError:  # Python's floats raise where NumPy's become infinite
        return _nothing_proven(problem, journal)


def _nothing_proven(problem: TopProblem, journal: Journal) -> Solution:
    """Weights of zero, of which nothing is proven."""
    design, at_zero = problem.design, problem.at_zero()
    weights = design.arrays.zeros(design.n_features)
    upper = at_zero * (1.0 + grown(0.0))
    if not len(journal):
        journal.note(upper, 0.0, weights, 0.0)
    dual = design.over_rows(Block.join, 0.0, 0.0)
    return Solution(weights, 0.0, dual, upper, 0.0, len(journal), Status.STALLED)


def said_apart(solution: Solution, problem: TopProblem) -> Solution:
    """An objective of next to nothing is as good as proven: there is no digit left to win."""
    nothing = solution.upper <= NEXT_TO_NOTHING * problem.at_zero()
    if not nothing or solution.status is not Status.STALLED:
        return solution
    return replace(solution, status=Status.SEPARATED)


def judged(solution: Solution, tol: float) -> Solution:
    """A solve that gave up next to the optimum has converged."""
    close = closed(solution.upper, solution.lower, tol)
    return replace(solution, status=Status.CONVERGED) if close else solution


def better(before: Solution, after: Solution, tol: float) -> Solution:
    """The later solution, with whatever the earlier one proved better."""
    if before.upper < after.upper:
        after = replace(
            after, weights=before.weights, threshold=before.threshold, upper=before.upper
        )
    if before.lower > after.lower:
        after = replace(after, dual=before.dual, lower=before.lower)
    return judged(after, tol)
