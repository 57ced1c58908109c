"""Solvers of both families, by name; each takes a problem and returns a Solution.

Another one joins by `SOLVERS[name] = Solver(...)`, as a loss does by `LOSSES[name] = ...`; whoever
asks looks there when called.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from toppush.problem.objective import TopProblem
from toppush.problem.pairwise import PairwiseProblem
from toppush.problem.solution import Solution
from toppush.solvers.degenerate import automatic_top, zero_is_optimal
from toppush.solvers.journal import Watch
from toppush.solvers.newton.method import newton_method
from toppush.solvers.pairwise.method import pairwise_method
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
    pairwise : callable, optional
        The same as `minimise` for the pairwise family, if it knows that.
    """

    minimise: Callable[..., Solution]
    needs_dual: bool = False
    warm_startable: bool = True
    pairwise: Callable[..., Solution] | None = None

    def __call__(self, problem: TopProblem, **options: Any) -> Solution:
        """Run it, with weights over the columns in use."""
        if not isinstance(problem, PairwiseProblem):
            return self.minimise(problem, **options)
        if self.pairwise is None:
            raise ValueError(
                f"{self.minimise.__name__} knows the pairwise family not; take solver={DEFAULT!r}."
            )
        return self.pairwise(problem, **options)


DEFAULT = "newton"
SOLVERS = {
    "newton": Solver(newton_method, pairwise=pairwise_method),
    "paper": Solver(paper_method, needs_dual=True),
}


def solve(
    problem: TopProblem,
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
