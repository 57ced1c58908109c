"""Solvers of the TopPush family; each takes a problem and returns a Solution."""

from dataclasses import replace

from toppush.problem.objective import TopPushProblem
from toppush.problem.solution import Solution
from toppush.solvers.degenerate import automatic_top, zero_is_optimal
from toppush.solvers.journal import Watch
from toppush.solvers.newton.method import newton
from toppush.solvers.paper import accelerated

__all__ = ["SOLVERS", "automatic_top", "solve", "zero_is_optimal"]

SOLVERS = {"newton": newton, "paper": accelerated}


def solve(
    problem: TopPushProblem,
    *,
    solver: str,
    tol: float,
    max_iter: int,
    start: Solution | None = None,
    watch: Watch | None = None,
) -> Solution:
    """Solve by name, with weights over all columns of X on the way in and out."""
    design = problem.design
    if start is not None:
        start = replace(start, weights=design.narrow(start.weights))
    found = SOLVERS[solver](problem, tol=tol, max_iter=max_iter, start=start, watch=watch)
    return replace(found, weights=design.widen(found.weights))
