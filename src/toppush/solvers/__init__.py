"""Solvers of the TopPush family, by name; each takes a problem and returns a Solution.

Another one joins by `SOLVERS[name] = Solver(...)`, as a loss does by `LOSSES[name] = ...`; whoever
asks looks there when called.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from toppush.problem.objective import TopPushProblem
from toppush.problem.solution import Solution
from toppush.solvers.degenerate import automatic_top, zero_is_optimal
from toppush.solvers.journal import Watch
from toppush.solvers.newton.method import newton_method
from toppush.solvers.paper import paper_method

__all__ = ["DEFAULT", "SOLVERS", "Solver", "automatic_top", "solve", "zero_is_optimal"]


@dataclass(frozen=True)
class Solver:
    """A solver and what it can.

    Attributes
    ----------
    minimise : callable
        Takes a problem and, by name, tol, max_iter, start and watch.
    needs_dual : bool
        Whether it starts from an earlier solution's dual; else its weights are enough, and a dual
        may be absent.
    warm_startable : bool
        Whether an earlier solution helps it; else it begins anew.
    resumable : bool
        Whether weights and bounds, as a checkpoint has them, lead it back to where it was.
    """

    minimise: Callable[..., Solution]
    needs_dual: bool = False
    warm_startable: bool = True
    resumable: bool = False

    def __call__(self, problem: TopPushProblem, **options: Any) -> Solution:
        """Run it, with weights over the columns in use."""
        return self.minimise(problem, **options)


DEFAULT = "newton"
SOLVERS = {
    "newton": Solver(newton_method, resumable=True),
    "paper": Solver(paper_method, needs_dual=True),
}


def solve(
    problem: TopPushProblem,
    *,
    solver: str = DEFAULT,
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
