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

from toppush.problem.objective import TopPushProblem
from toppush.problem.solution import Solution, Status
from toppush.solvers.driver import follow, solving
from toppush.solvers.endings import attempted, better, judged, said_apart
from toppush.solvers.forms import in_form, refine, seen
from toppush.solvers.journal import Journal, Watch
from toppush.solvers.newton.central_path import CentralPath
from toppush.solvers.newton.on_driver import fits_driver, solve_on_driver


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
    found = attempted(_along_path, problem, journal, tol=tol, max_iter=max_iter, start=start)
    if found.status is Status.STALLED and len(journal) < max_iter and refine(problem):
        careful = solve_on_driver if fits_driver(problem.design) else _along_path
        again = attempted(careful, problem, journal, tol=tol, max_iter=max_iter)
        found = better(found, again, tol)
    return said_apart(found, problem)


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
    return judged(path.solution(status, len(journal)), tol)
