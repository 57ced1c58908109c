"""Solutions over whole grids of lam and top, each begun at its neighbour's weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from toppush.designs import Design
from toppush.estimators.base import read_training, require_both
from toppush.estimators.toppush import AUTO_TOL, FAMILIES, TopPush, require_pairwise
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem, count_top
from toppush.problem.solution import Solution
from toppush.solvers import automatic_top, solve, zero_is_optimal
from toppush.solvers.newton.positives import mean_difference
from toppush.types import Array, Labels, Matrix

N_LAMS, LAM_RANGE = 9, 1e-4
N_MORE, LEAST_LAM = 2, 1e-8
"""Lams that a grid grows by at its lower end if that wins, down to this share of the greatest."""
FIRST_GAIN = 0.01
"""At the greatest lam, no weights beat zero by more than this share of the objective."""


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
        return np.array([[one.weights for one in row] for row in self.solutions])


@dataclass(frozen=True)
class Grid:
    """What a path goes through: lams, decreasing, and tops, counts or shares of the negatives."""

    lams: Array
    tops: tuple[float, ...]
    loss: str
    tol: float
    """Relative gap of each solve."""
    pairwise: bool = False


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
    n_threads: int | None = None,
    device: str | None = None,
) -> SolutionPath:
    """Solutions for every lam and top, each solve begun at its neighbour's weights.

    Parameters
    ----------
    X, y, sample_weight
        As for `TopPush.fit`.
    lams : sequence of float, optional
        By default nine values from the lam at which nothing beats weights of zero by more than
        1 % down to a ten-thousandth of it.
    tops : sequence of int or float
        Counts or shares of the negatives, or "auto", as for `TopPush`.
    pairwise, loss, tol, n_threads, device
        As for `TopPush`.

    Returns
    -------
    SolutionPath
    """
    ranker = TopPush(pairwise=pairwise, loss=loss, tol=tol, n_threads=n_threads, device=device)
    ranker._validate_params()
    if pairwise:
        require_pairwise(loss)
    given = read_training(ranker, X, y, sample_weight, device)
    with given.design(n_threads) as design:
        require_both(design, given.classes)
        found = read_lams(lams, design, loss)
        counts = read_tops(tops, design, loss, found, tol)
        return follow(design, Grid(found, counts, loss, tol, pairwise))


def read_lams(
    lams: Sequence[float] | None, design: Design, loss: str, n_lams: int = N_LAMS
) -> Array:
    """The lams in decreasing order, each once; chosen from the data if none are given."""
    if lams is None:
        return lam_grid(design, loss, n_lams)
    grid = np.unique(np.asarray(lams, float))[::-1]
    if not np.all((grid > 0.0) & (grid < np.inf)):
        raise ValueError(f"every lam must be above 0 and finite, found {list(lams)!r}.")
    return grid


def lam_grid(design: Design, loss: str, n_lams: int = N_LAMS) -> Array:
    """Decreasing lams from where nothing beats zero by more than `FIRST_GAIN`.

    Along g = mean positive - mean negative, and so along any better direction, the objective
    falls by at most (l'(0) |g|)^2 / (2 lam).
    """
    difference = design.sum(mean_difference, design.total_cost, design.n_neg)
    zero = np.zeros(1)
    steep = float(LOSSES[loss].slope(zero)[0]) ** 2 * float(difference @ difference)
    first = steep / (2.0 * FIRST_GAIN * float(LOSSES[loss].value(zero)[0]))
    return (first or 1.0) * np.geomspace(1.0, LAM_RANGE, n_lams)


def lams_below(lams: Array, greatest: float) -> Array:
    """The next lams of a decreasing grid; none below the bound, or of a grid of one lam."""
    step = lams[-1] / lams[-2] if len(lams) > 1 else 1.0
    more = lams[-1] * step ** np.arange(1, N_MORE + 1)
    return np.asarray(more[(more < lams[-1]) & (more >= 0.99 * LEAST_LAM * greatest)])


def read_tops(
    tops: Sequence[float | str], design: Design, loss: str, lams: Array, tol: float
) -> tuple[float, ...]:
    """The tops, each a count or a share; "auto" becomes the share that it finds.

    Whether weights of zero are optimal does not depend on lam; what beats them shows best at the
    least one.
    """
    for top in tops:
        count = isinstance(top, Integral) and not isinstance(top, bool) and int(top) >= 1
        share = not isinstance(top, (Integral, str)) and isinstance(top, Real) and 0 < top <= 1
        if not (count or share or top == "auto"):
            raise ValueError(
                f"tops holds {top!r}; each must be a count of at least 1, a share above 0 and at "
                'most 1.0, or "auto".'
            )
    found: list[Any] = list(tops)
    if "auto" in found and len(lams):
        problem = TopPushProblem(design, LOSSES[loss], float(lams[-1]))
        k = automatic_top(problem, tol=max(tol, AUTO_TOL))
        found[found.index("auto")] = (k - 0.5) / design.n_neg  # rounds up to k
    return tuple(found)


def is_least(lam: float, greatest: float) -> bool:
    """Whether a default grid grows to no lam below this one."""
    return lam <= 1.01 * LEAST_LAM * greatest


def follow(design: Design, grid: Grid, *, done: Callable[[], None] = lambda: None) -> SolutionPath:
    """The path on a design: down the lams for each top, from the lam above.

    `done` is called after each solve.
    """
    rows = []
    for top in grid.tops:
        k, start, row = count_top(top, design.n_neg), None, []
        for lam in grid.lams:
            problem = FAMILIES[grid.pairwise](design, LOSSES[grid.loss], float(lam), k)
            start = solve(problem, tol=grid.tol, max_iter=1000, start=start)
            row.append(start)
            done()
        rows.append(tuple(row))
    return SolutionPath(grid.lams, grid.tops, tuple(rows))


def follow_solvable(
    design: Design, grid: Grid, *, done: Callable[[], None] = lambda: None
) -> SolutionPath:
    """The path, but one solve stands for all pairs at which it shows that zero is optimal.

    The objective grows with lam and falls with k, so a bound below it holds for every greater lam
    and smaller k. Each top, the greatest first, therefore begins at the least lam.
    """
    counts = [count_top(top, design.n_neg) for top in grid.tops]
    rows: list[tuple[Solution, ...]] = [()] * len(counts)
    proof: Solution | None = None
    problem = TopPushProblem(design, LOSSES[grid.loss], 1.0)

    def solved(i: int, lams: Array) -> tuple[Solution, ...]:
        part = replace(grid, lams=lams, tops=grid.tops[i : i + 1])
        return follow(design, part, done=done).solutions[0]

    for i in sorted(range(len(counts)), key=lambda i: -counts[i]):
        rest = grid.lams
        if proof is None:
            (least,), rest = solved(i, grid.lams[-1:]), grid.lams[:-1]
            proof = least if zero_is_optimal(least, problem, grid.tol) else None
        if proof is None:
            rows[i] = (*solved(i, rest), least)
        else:
            rows[i] = (proof,) * len(grid.lams)
            for _ in rest:
                done()
    return SolutionPath(grid.lams, grid.tops, tuple(rows))
