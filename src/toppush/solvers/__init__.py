"""The solvers by name; each takes a problem and returns a `Solution`.

Register another one by `SOLVERS[name] = Solver(...)`, as a loss by `LOSSES[name] = ...`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from toppush.problem.objective import TopProblem, TopPushProblem
from toppush.problem.pairwise import PairwiseProblem
from toppush.problem.solution import Iteration, Solution
from toppush.solvers.driver import Callback
from toppush.solvers.newton.interior_point import newton_method
from toppush.solvers.pairwise import pairwise_method
from toppush.solvers.paper import paper_method
from toppush.types import Array

__all__ = ["DEFAULT", "SOLVERS", "Solver", "automatic_top", "solve", "zero_is_optimal"]


@dataclass(frozen=True)
class Solver:
    """A solver and its capabilities.

    Attributes
    ----------
    minimise : callable
        Takes a problem and, by name, tol, max_iter, start and callback.
    needs_dual : bool
        Whether it starts from an earlier solution's dual; otherwise weights are enough.
    warm_startable : bool
        Whether it uses an earlier solution.
    pairwise : callable, optional
        The same as `minimise` for the pairwise family.
    """

    minimise: Callable[..., Solution]
    needs_dual: bool = False
    warm_startable: bool = True
    pairwise: Callable[..., Solution] | None = None

    def __call__(self, problem: TopProblem, **options: Any) -> Solution:
        """Run the solver, with weights over the columns in use."""
        if not isinstance(problem, PairwiseProblem):
            return self.minimise(problem, **options)
        if self.pairwise is None:
            raise ValueError(
                f"{self.minimise.__name__} cannot solve pairwise problems; use solver={DEFAULT!r}."
            )
        return self.pairwise(problem, **options)


TOP_RATIO = 1.2
"""The search for the smallest k with a solution other than zero ends when its bounds on that k
differ at most by this factor."""
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
    callback: Callback | None = None,
) -> Solution:
    """Solve by name; start and solution have weights over all columns of X."""
    design = problem.design
    if start is not None:
        start = replace(start, weights=design.narrow(start.weights))
    solution = SOLVERS[solver](problem, tol=tol, max_iter=max_iter, start=start, callback=callback)
    return replace(solution, weights=design.widen(solution.weights))


def zero_is_optimal(solution: Solution, problem: TopProblem, tol: float) -> bool:
    """Whether the certificate shows that nothing beats weights of zero by more than tol."""
    return solution.lower >= problem.at_zero() * (1.0 - tol)


def automatic_top(problem: TopPushProblem, *, tol: float) -> int:
    """The smallest k at which weights of zero are not optimal, up to a factor of `TOP_RATIO`.

    1 if they never are, all negatives if they always are. By bisection on the logarithm of k; each
    solve begins at the last one's weights and ends as soon as its bounds decide.
    """
    solvable, weights = _beats_zero(problem, 1, tol, None)
    if solvable:
        return 1
    low, high = 1, problem.design.n_neg
    solvable, weights = _beats_zero(problem, high, tol, weights)
    if not solvable:
        return high
    while high > TOP_RATIO * low and high - low > 1:
        middle = int(np.clip(round(np.sqrt(low * high)), low + 1, high - 1))
        solvable, weights = _beats_zero(problem, middle, tol, weights)
        low, high = (low, middle) if solvable else (middle, high)
    return high


def _beats_zero(
    problem: TopPushProblem, k: int, tol: float, weights: Array | None
) -> tuple[bool, Array]:
    """Whether the optimum for k is better than zero by more than tol, and weights near it."""
    problem = replace(problem, k=k)
    goal = problem.at_zero() * (1.0 - tol)

    def decided(history: tuple[Iteration, ...], weights: Array, threshold: float) -> bool:
        return history[-1].upper < goal or history[-1].lower >= goal

    start = None if weights is None else Solution.guess(weights)
    solution = newton_method(problem, tol=tol, callback=decided, start=start)
    return solution.upper < goal, solution.weights
