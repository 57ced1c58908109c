"""Where weights of zero are optimal, and the smallest top at which they are not.

At w = 0 every score ties, so zero is optimal exactly if the positives' mean lies in the capped
hull of the negatives: whatever lam is, and ever less likely as k grows.
"""

from dataclasses import replace

import numpy as np

from toppush.problem.objective import TopProblem, TopPushProblem
from toppush.problem.solution import Iteration, Solution
from toppush.solvers.newton.method import newton_method
from toppush.types import Array

RATIO = 1.2
"""How closely the smallest sound k is found."""


def zero_is_optimal(solution: Solution, problem: TopProblem, tol: float) -> bool:
    """Whether the certificate shows that nothing beats weights of zero by more than tol."""
    return solution.lower >= problem.at_zero() * (1.0 - tol)


def automatic_top(problem: TopPushProblem, *, tol: float) -> int:
    """The smallest k at which weights of zero are not optimal, up to a factor of `RATIO`.

    1 if they never are, all negatives if they always are. Found by halving on the logarithm of
    k, each solve begun at the last one's weights and ended as soon as its bounds tell.
    """
    sound, weights = _beats_zero(problem, 1, tol, None)
    if sound:
        return 1
    low, high = 1, problem.design.n_neg
    sound, weights = _beats_zero(problem, high, tol, weights)
    if not sound:
        return high
    while high > RATIO * low and high - low > 1:
        middle = int(np.clip(round(np.sqrt(low * high)), low + 1, high - 1))
        sound, weights = _beats_zero(problem, middle, tol, weights)
        low, high = (low, middle) if sound else (middle, high)
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
    found = newton_method(problem, tol=tol, watch=decided, start=start)
    return found.upper < goal, found.weights
