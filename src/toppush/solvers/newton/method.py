"""A certified Newton method for the whole family: any k, any loss.

The threshold T(w) = min over s of s + 1/k sum_j (w.z_j - s)_+ turns the problem into a smooth
one in (w, s, T) with linear constraints, one pair for each negative:

    min lam/2 |w|^2 + 1/m sum_i c_i l(T - w.x_i),   T = s + 1/k sum_j xi_j,
    xi_j >= 0,  xi_j >= w.z_j - s

An interior-point method (Mehrotra's predictor and corrector) follows its central path. Only
negatives near the top can hold a constraint, so it works on a band of them and looks through
all the others once per iteration for any that belong in it. The loss enters by its second
derivative, exact for the truncated quadratic one. An iteration reads the data once for the
scores, and in part for what changed in the Newton matrix.
"""

from dataclasses import replace

from toppush.designs import Block
from toppush.problem.objective import TopPushProblem
from toppush.problem.solution import Solution, Status, closed
from toppush.solvers.driver import follow, solving
from toppush.solvers.forms import in_form, refine, seen
from toppush.solvers.journal import Journal, Watch
from toppush.solvers.newton.central_path import CentralPath
from toppush.solvers.newton.on_driver import fits_driver, solve_on_driver

NEXT_TO_NOTHING, STRETCH = 1e-20, 1e-12
"""Share of the objective at zero below which no more is asked for, and how much longer the weights
are made then."""


def newton_method(
    problem: TopPushProblem,
    *,
    tol: float = 1e-4,
    max_iter: int = 10_000,
    start: Solution | None = None,
    watch: Watch | None = None,
) -> Solution:
    """Minimise until upper and lower bound agree to `tol`, relative to the objective."""
    with solving(problem.design, watch) as journal:
        found = _proven(problem, journal, tol=tol, max_iter=max_iter, start=start)
    return journal.settled(found)


def _proven(
    problem: TopPushProblem, journal: Journal, *, tol: float, max_iter: int, start: Solution | None
) -> Solution:
    """Solve on the rows as they are, and where that proves too little in their best form."""
    try:
        found = _along_path(problem, journal, tol=tol, max_iter=max_iter, start=start)
    except ArithmeticError:  # numbers beyond all bounds
        found = _zero(problem, journal)
    if found.status is Status.STALLED and refine(problem):
        again = (solve_on_driver if fits_driver(problem.design) else _along_path)(
            problem, journal, tol=tol, max_iter=max_iter
        )
        found = _better(found, again, tol)
    return _said_apart(found, problem)


def _along_path(
    problem: TopPushProblem,
    journal: Journal,
    *,
    tol: float,
    max_iter: int,
    start: Solution | None = None,
) -> Solution:
    """Solve on the rows in the form they have; the bounds are proven anew at the end."""
    how = seen(problem)
    path = CentralPath(in_form(problem), tol, how, start)
    status = follow(path, journal, max_iter=max_iter)
    return _judged(path.solution(status, len(journal)), tol)


def _zero(problem: TopPushProblem, journal: Journal) -> Solution:
    """Weights of zero, of which nothing is proven."""
    design, at_zero = problem.design, problem.at_zero()
    weights = design.arrays.zeros(design.n_features)
    journal.note(at_zero, 0.0, weights, 0.0)
    dual = design.over_rows(Block.join, 0.0, 0.0)
    return Solution(weights, 0.0, dual, at_zero, 0.0, len(journal), Status.STALLED)


def _said_apart(solution: Solution, problem: TopPushProblem) -> Solution:
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


def _judged(solution: Solution, tol: float) -> Solution:
    """A solve that gave up next to the optimum has converged."""
    close = closed(solution.upper, solution.lower, tol)
    return replace(solution, status=Status.CONVERGED) if close else solution


def _better(before: Solution, after: Solution, tol: float) -> Solution:
    """The later solution, with whatever the earlier one proved better."""
    if before.upper < after.upper:
        after = replace(
            after, weights=before.weights, threshold=before.threshold, upper=before.upper
        )
    if before.lower > after.lower:
        after = replace(after, dual=before.dual, lower=before.lower)
    return _judged(after, tol)
