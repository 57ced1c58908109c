"""How a solve ends, whatever the method: what its bounds prove is what is said of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from toppush.designs import Block
from toppush.problem.objective import TopProblem
from toppush.problem.rounding import grown
from toppush.problem.solution import Solution, Status, closed
from toppush.solvers.journal import Journal

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
