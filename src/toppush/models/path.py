"""Solutions over grids of lam and top, with warm starts from neighbours."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from toppush.designs import Design
from toppush.models.base import read_training, require_both
from toppush.models.linear import AUTO_TOL, FAMILIES, TopPush, require_pairwise
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem, count_top
from toppush.problem.solution import Iteration, Solution
from toppush.solvers import automatic_top, solve, zero_is_optimal
from toppush.solvers.newton.positives import mean_difference
from toppush.types import Array, Labels, Mask, Matrix

N_LAMS, LAM_RANGE = 9, 1e-4
N_MORE, LEAST_LAM = 2, 1e-8
"""Lams that extend a grid whose least lam is the best, down to this share of the greatest."""
OPEN = 0.03
"""Gap that a rough solve may leave. The average precision of held-out rows differed from that of
solves to 1e-4 by at most 0.003 on spambase, mammography and real-sim, by 0.01 on w8a."""
FIRST_GAIN = 0.01
"""At the greatest lam, no weights improve the objective of zero by more than this share."""


@dataclass(frozen=True)
class SolutionPath:
    """Solutions over a grid.

    Attributes
    ----------
    lams : array
        Decreasing.
    tops : tuple
    solutions : tuple of tuples of Solution
        `solutions[i][j]` belongs to `tops[i]` and `lams[j]`.
    """

    lams: Array
    tops: tuple[float, ...]
    solutions: tuple[tuple[Solution, ...], ...]

    @property
    def coefs(self) -> Array:
        """Weights, of shape (n_tops, n_lams, n_features)."""
        return np.array([[solution.weights for solution in row] for row in self.solutions])


@dataclass(frozen=True)
class Grid:
    """Decreasing lams, and tops as counts or shares of the negatives, with how to solve."""

    lams: Array
    tops: tuple[float, ...]
    loss: str
    tol: float
    """Relative gap of each solve."""
    pairwise: bool = False
    rough: bool = False
    """Whether a solve may end early, by `is_near`."""


def toppush_path(
    X: Matrix,
    y: Labels,
    *,
    lams: Sequence[float] | None = None,
    tops: Sequence[float | str] = (1,),
    pairwise: bool = False,
    loss: str = "truncated_quadratic",
    tol: float = 1e-4,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
    device: str | None = None,
    positive: object = None,
) -> SolutionPath:
    """Solutions for every lam and top, with warm starts from neighbours.

    Parameters
    ----------
    X, y, sample_weight
        As for `TopPush.fit`.
    lams : sequence of float, optional
        By default nine values from the lam at which nothing improves on weights of zero by more
        than 1 %, down to a ten-thousandth of it.
    tops : sequence of int or float
        Counts or shares of the negatives, or "auto", as for `TopPush`.
    pairwise, loss, tol, n_jobs, device, positive
        As for `TopPush`.

    Returns
    -------
    SolutionPath

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import maxabs_scale
    >>> from toppush import toppush_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = toppush_path(maxabs_scale(X), y, lams=[1.0, 0.1, 0.01], tops=[1, 0.1])
    >>> path.coefs.shape  # tops, lams, columns
    (2, 3, 30)
    >>> path.solutions[1][2].status.value  # of top=0.1 and lam=0.01
    'The duality gap fell below tol.'
    """
    ranker = TopPush(
        pairwise=pairwise,
        loss=loss,
        tol=tol,
        n_jobs=n_jobs,
        device=device,
        positive=positive,
    )
    ranker._validate_params()
    if pairwise:
        require_pairwise(loss)
    training = read_training(ranker, X, y, sample_weight, device)
    with training.design(n_jobs) as design:
        require_both(design, training.classes)
        grid_lams = read_lams(lams, design, loss)
        counts = read_tops(tops, design, loss, grid_lams, tol)
        return follow(design, Grid(grid_lams, counts, loss, tol, pairwise))


def read_lams(
    lams: Sequence[float] | None, design: Design, loss: str, n_lams: int = N_LAMS
) -> Array:
    """The distinct lams in decreasing order; by default chosen from the data."""
    if lams is None:
        return lam_grid(design, loss, n_lams)
    grid = np.unique(np.asarray(lams, float))[::-1]
    if not np.all((grid > 0.0) & (grid < np.inf)):
        raise ValueError(f"every lam must be above 0 and finite, found {list(lams)!r}.")
    return grid


def lam_grid(design: Design, loss: str, n_lams: int = N_LAMS) -> Array:
    """Decreasing lams, from where nothing improves on zero by more than `FIRST_GAIN`.

    Along g = mean positive - mean negative, and so along any better direction, the objective
    falls by at most (l'(0) |g|)^2 / (2 lam).
    """
    zero = np.zeros(1)
    with np.errstate(over="ignore", invalid="ignore"):  # the solver refuses such rows
        difference = design.sum(mean_difference, design.total_cost, design.n_neg)
        steep = float(LOSSES[loss].slope(zero)[0]) ** 2 * float(difference @ difference)
    first = steep / (2.0 * FIRST_GAIN * float(LOSSES[loss].value(zero)[0]))
    return (first or 1.0) * np.geomspace(1.0, LAM_RANGE, n_lams)


def lams_below(lams: Array, greatest: float) -> Array:
    """The next lams of a decreasing grid; none below the bound or for a grid of one lam."""
    step = lams[-1] / lams[-2] if len(lams) > 1 else 1.0
    more = lams[-1] * step ** np.arange(1, N_MORE + 1)
    return np.asarray(more[(more < lams[-1]) & (more >= 0.99 * LEAST_LAM * greatest)])


def read_tops(
    tops: Sequence[float | str], design: Design, loss: str, lams: Array, tol: float
) -> tuple[float, ...]:
    """The tops, each a count or a share; "auto" becomes the share that it chooses.

    Whether weights of zero are optimal does not depend on lam, but is clearest at the least one.
    """
    for top in tops:
        count = isinstance(top, Integral) and not isinstance(top, bool) and int(top) >= 1
        share = not isinstance(top, (Integral, str)) and isinstance(top, Real) and 0 < top <= 1
        if not (count or share or top == "auto"):
            raise ValueError(
                f"tops holds {top!r}; each must be a count of at least 1, a share above 0 and at "
                'most 1.0, or "auto".'
            )
    shares: list[Any] = list(tops)
    if "auto" in shares and len(lams):
        problem = TopPushProblem(design, LOSSES[loss], float(lams[-1]))
        k = automatic_top(problem, tol=max(tol, AUTO_TOL))
        shares[shares.index("auto")] = (k - 0.5) / design.n_neg  # rounds up to k
    return tuple(shares)


def is_least(lam: float, greatest: float) -> bool:
    """Whether the default grid is not extended below this lam."""
    return lam <= 1.01 * LEAST_LAM * greatest


def follow(design: Design, grid: Grid) -> SolutionPath:
    """The path on a design: for each top down the lams, with warm starts."""
    rows = []
    for top in grid.tops:
        start, row = None, []
        for lam in grid.lams:
            start = _solved(design, grid, top, float(lam), start)
            row.append(start)
        rows.append(tuple(row))
    return SolutionPath(grid.lams, grid.tops, tuple(rows))


def follow_solvable(
    design: Design,
    grid: Grid,
    wanted: Mask,
    *,
    done: Callable[[], None] = lambda: None,
) -> tuple[tuple[Solution | None, ...], ...]:
    """The solutions of a path; one for which zero is optimal stands for others as well.

    The objective grows with lam and falls with k, so a lower bound holds for every greater lam and
    smaller k. Therefore the greatest top comes first, and each starts at the least lam and goes up.
    Pairs that are not `wanted`, by top and lam, are None. `done` is called after each solve.
    """
    rows: list[list[Solution | None]] = [[None] * len(grid.lams) for _ in grid.tops]
    problem = TopPushProblem(design, LOSSES[grid.loss], 1.0)
    certificate, n_certified = None, 0  # number of the greatest lams at which zero is optimal
    for i in sorted(range(len(grid.tops)), key=lambda i: -count_top(grid.tops[i], design.n_neg)):
        start = None
        for j in np.flatnonzero(wanted[i])[::-1]:
            if j >= n_certified:
                start = _solved(design, grid, grid.tops[i], float(grid.lams[j]), start)
                if zero_is_optimal(start, problem, grid.tol):
                    certificate, n_certified = start, j + 1
            rows[i][j] = certificate if j < n_certified else start
            done()
    return tuple(map(tuple, rows))


def _solved(design: Design, grid: Grid, top: float, lam: float, start: Solution | None) -> Solution:
    problem = FAMILIES[grid.pairwise](design, LOSSES[grid.loss], lam, count_top(top, design.n_neg))
    callback = partial(is_near, problem.at_zero()) if grid.rough else None
    return solve(problem, tol=grid.tol, max_iter=1000, start=start, callback=callback)


def is_near(at_zero: float, history: tuple[Iteration, ...], *_: object) -> bool:
    """Whether the gap is at most `OPEN` of the objective and of the possible gain over zero.

    A share of the objective alone would end a solve for a great lam, with little to gain, at once.
    """
    last = history[-1]
    return last.upper - last.lower <= OPEN * min(last.upper, at_zero - last.lower)
