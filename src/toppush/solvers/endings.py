"""How a solve ends, whatever the method: what its bounds prove is what is said of it."""

from dataclasses import replace

from toppush.designs import Block
from toppush.problem.objective import TopProblem
from toppush.problem.solution import Solution, Status, closed
from toppush.solvers.journal import Journal

NEXT_TO_NOTHING, STRETCH = 1e-20, 1e-12
"""Share of the objective at zero below which no more is asked for, and how much longer the weights
are made then."""


def nothing_proven(problem: TopProblem, journal: Journal) -> Solution:
    """Weights of zero, of which nothing is proven."""
    design, at_zero = problem.design, problem.at_zero()
    weights = design.arrays.zeros(design.n_features)
    journal.note(at_zero, 0.0, weights, 0.0)
    dual = design.over_rows(Block.join, 0.0, 0.0)
    return Solution(weights, 0.0, dual, at_zero, 0.0, len(journal), Status.STALLED)


def said_apart(solution: Solution, problem: TopProblem) -> Solution:
    """An objective of next to nothing is as good as proven: there is no digit left to win.

    There rounding decides whether a margin is kept; slightly longer weights keep it for sure.
    """
    nothing = solution.upper <= NEXT_TO_NOTHING * problem.at_zero()
    if not nothing or solution.status is not Status.STALLED:
        return solution
    longer = 1.0 + STRETCH
    return replace(
        solution,
        weights=longer * solution.weights,
        threshold=longer * solution.threshold,
        upper=longer**2 * solution.upper,
        status=Status.SEPARATED,
    )


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
