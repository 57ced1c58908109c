"""How every solver runs: the scaling of its rows, the loop, its history and its status.

A solver follows the `Method` protocol; `follow` runs it within `solving`.

A shift of all rows and a power of two do not change the problem, only the rounding of its sums. A
sample of the rows decides whether they may stay as they are, which is fastest; a solve that stalls
on them continues in float64 with the scaling that all rows ask for.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import get_ident
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from toppush.designs import UNSCALED, Block, Design, Scaling, precise, read_only
from toppush.designs.protocol import Records
from toppush.problem.numerics import grown
from toppush.problem.objective import TopProblem
from toppush.problem.solution import Iteration, Solution, Status, closed
from toppush.types import Array

Problem = TypeVar("Problem", bound=TopProblem)

SAMPLE = 64
UNSCALED_SIZES = (1e-8, 1e8)
"""Least and greatest size of the largest entry with which rows may stay as they are."""
FAR, FAR_SINGLE = 1e3, 1e1
"""Rows are shifted by their mean if it lies more than this many standard deviations from the
origin: FAR for float64 rows, FAR_SINGLE for float32 rows and where all rows decide on the scaling.
Others are not, since the shift itself rounds unless the rows are equal."""
SQUARED = 1e100
"""Size up to which entries may be squared and added up."""
MAX_SIZE_POWER, MAX_RATIO_POWER = 960.0, 1400.0
"""Powers of two that the largest entry may be from 1, and its square from lam."""
BALANCE = 1e100
"""Greatest ratio of the squared entries to lam, or its inverse, without a compromise."""
NEGLIGIBLE = 1e-20
"""Share of the objective at zero below which an objective counts as zero."""

Callback = Callable[[tuple[Iteration, ...], Array, float], bool]
"""Called after each iteration with the history, the weights and the threshold; true to stop."""

State = tuple[float, float, Array, float]
"""Upper and lower bound, and the weights of the upper bound with their threshold."""


class Counted(Protocol):
    """What `History` needs of a design."""

    @property
    def data_passes(self) -> float:
        """Reads of the whole data so far."""

    def widen(self, weights: Array) -> Array:
        """Weights over all columns of X from those of the solve."""


class History:
    """The bounds after each iteration, passed to a callback as they come."""

    def __init__(self, design: Counted, callback: Callback | None = None) -> None:
        self._design, self._callback = design, callback
        self._start, self._passes = time.perf_counter(), design.data_passes
        self.iterations: list[Iteration] = []

    def __len__(self) -> int:
        return len(self.iterations)

    def record(self, upper: float, lower: float, weights: Array, threshold: float) -> bool:
        """Add an iteration; true if the callback asks to stop."""
        self.iterations.append(self._now(upper, lower))
        if self._callback is None:
            return False
        return self._callback(tuple(self.iterations), self._design.widen(weights), threshold)

    def complete(self, solution: Solution) -> Solution:
        """The solution with this history, which ends with the solution's bounds."""
        self.iterations[-1] = self._now(solution.upper, solution.lower)
        return replace(solution, history=tuple(self.iterations))

    def _now(self, upper: float, lower: float) -> Iteration:
        seconds = time.perf_counter() - self._start
        return Iteration(upper, lower, self._design.data_passes - self._passes, seconds)


class Method(Protocol):
    """An iterative method that bounds the optimum from both sides."""

    def begin(self) -> None:
        """Go to the first point that has bounds."""

    def advance(self) -> None:
        """Take one step, and the bounds there."""

    def state(self) -> State:
        """Upper and lower bound, and the weights of the upper bound with their threshold."""

    def status(self) -> Status | None:
        """How the method ends at this point; None if it goes on."""


def follow(method: Method, history: History, *, max_iter: int) -> Status:
    """Run the method until it ends, a callback asks to stop, or max_iter is reached."""
    method.begin()
    while True:
        stopped = history.record(*method.state())
        status = method.status()
        if stopped and status is not Status.CONVERGED:
            return Status.STOPPED
        if status is None and len(history) >= max_iter:
            return Status.MAX_ITER
        if status is not None:
            return status
        method.advance()


@contextmanager
def solving(design: Design, callback: Callback | None = None) -> Iterator[History]:
    """Reserve the design for one solve and start its history; overflows give no warnings.

    A solve within another one, as from a callback, leaves the design as it was.
    """
    nested, outer = design.in_use_by is not None, design.known
    if nested and design.in_use_by != get_ident():
        raise RuntimeError(
            "another thread solves on this design; open one for each thread, they share the rows."
        )
    design.in_use_by = get_ident()
    if nested:
        design.known = Records()
    try:
        design.apply(Block.begin_solve, not design.known, nested)
        with np.errstate(all="ignore"):
            yield History(design, callback)
    finally:
        if nested:
            design.known = outer
            design.apply(Block.end_inner_solve)
        else:
            design.in_use_by = None


def solve_with_retry(
    solve: Callable[..., Solution],
    retry: Callable[..., Solution],
    problem: TopProblem,
    history: History,
    *,
    tol: float,
    max_iter: int,
    start: Solution | None,
) -> Solution:
    """Solve on the rows as they are; if that stalls, retry on exactly scaled rows."""
    options: dict[str, Any] = {"tol": tol, "max_iter": max_iter}
    solution = solve_or_zero(solve, problem, history, **options, start=start)
    if solution.status is Status.STALLED and len(history) < max_iter and use_exact_scaling(problem):
        solution = _best_of(solution, solve_or_zero(retry, problem, history, **options), tol)
    if solution.status is Status.STALLED and solution.upper <= NEGLIGIBLE * problem.at_zero():
        return replace(solution, status=Status.SEPARATED)
    return solution


def solve_or_zero(
    solve: Callable[..., Solution], problem: TopProblem, history: History, **options: Any
) -> Solution:
    """The solution, or weights of zero without a lower bound if numbers overflow on the way."""
    try:
        return solve(problem, history, **options)
    except ArithmeticError:  # Python's floats raise where NumPy's become infinite
        design = problem.design
        weights = design.arrays.zeros(design.n_features)
        upper = problem.at_zero() * (1.0 + grown(0.0))
        if not len(history):
            history.record(upper, 0.0, weights, 0.0)
        dual = design.over_rows(Block.join, 0.0, 0.0)
        return Solution(weights, 0.0, dual, upper, 0.0, len(history), Status.STALLED)


def mark_converged(solution: Solution, tol: float) -> Solution:
    """A solution whose bounds agree has converged, however the solve ended."""
    converged = closed(solution.upper, solution.lower, tol)
    return replace(solution, status=Status.CONVERGED) if converged else solution


def _best_of(before: Solution, after: Solution, tol: float) -> Solution:
    """The later solution with the better of both bounds."""
    if before.upper < after.upper:
        after = replace(
            after, weights=before.weights, threshold=before.threshold, upper=before.upper
        )
    if before.lower > after.lower:
        after = replace(after, dual=before.dual, lower=before.lower)
    return mark_converged(after, tol)


# ---- scaling of the rows


class RowScaling(NamedTuple):
    """How the solvers see a design's rows."""

    scaling: Scaling
    is_exact: bool
    """Whether all rows decided on it, not a sample."""
    is_double: bool
    """Whether the original rows are float64."""
    max_norm: float = math.inf
    """A bound on the norm of a row, if known."""


def row_scaling(problem: TopProblem) -> RowScaling:
    """The scaling of the rows; at first a sample of them decides."""
    known = problem.design.known.find(RowScaling)
    return _set_scaling(problem, SAMPLE) if known is None else known


def use_exact_scaling(problem: TopProblem) -> bool:
    """Change to the scaling that all rows ask for; False if they have it already."""
    if row_scaling(problem).is_exact:
        return False
    _set_scaling(problem, None)
    return True


def scaled_problem(problem: Problem) -> Problem:
    """The same problem on the scaled rows: lam shrinks as weights grow."""
    scale = row_scaling(problem).scaling.scale
    return replace(problem, lam=problem.lam * scale * scale)


def unscale(scaling: Scaling, weights: Array, threshold: float) -> tuple[Array, float]:
    """Weights and threshold for the original rows, from those for the scaled rows."""
    if scaling.centre is not None:
        threshold += float(scaling.centre @ weights)
    return weights if scaling.scale == 1.0 else scaling.scale * weights, threshold


def _set_scaling(problem: TopProblem, n_sample: int | None) -> RowScaling:
    """Choose a scaling and apply it; records that belong to an earlier one are dropped."""
    design, chosen = problem.design, _choose_scaling(problem, n_sample)
    design.known = Records()
    if chosen.is_exact or not chosen.scaling.is_identity:
        design.apply(Block.rescale, chosen.scaling)
    return design.known.keep(chosen)


def _choose_scaling(problem: TopProblem, n_sample: int | None) -> RowScaling:
    """The shift and scale that a sample of the rows needs, or that all rows can use."""
    parts = problem.design.each(moments, n_sample)
    largest, is_exact = max(part.largest for part in parts), n_sample is None
    double = all(part.is_double for part in parts)
    if largest == 0.0:
        return RowScaling(UNSCALED, is_exact, double, 0.0)
    ratio = 2.0 * math.log2(largest) - math.log2(problem.lam)
    if not (abs(math.log2(largest)) <= MAX_SIZE_POWER and abs(ratio) <= MAX_RATIO_POWER):
        raise ValueError(
            f"the largest entry of X is {largest:.3g} and lam is {problem.lam:.3g}: their weights "
            "would be beyond float64 however the rows are scaled. Multiply the columns by a power "
            "of ten, or correct entries that are not meant to be so far from 1."
        )
    shares = [part.largest / largest for part in parts]
    n_rows = sum(part.n_rows for part in parts)
    mean = sum(part.total * share for part, share in zip(parts, shares, strict=True)) / n_rows
    squares = sum(part.squares * share**2 for part, share in zip(parts, shares, strict=True))
    far = float(mean @ mean)
    variance = max(squares / n_rows - far, 0.0)
    shifted = far > (FAR if double and not is_exact else FAR_SINGLE) ** 2 * variance
    scaled = is_exact or not UNSCALED_SIZES[0] <= largest <= UNSCALED_SIZES[1]
    if not (shifted or scaled):
        max_norm = largest * math.sqrt(problem.design.n_features)
        return RowScaling(UNSCALED, is_exact, double, max_norm)
    scale = _scale(largest, problem.lam) if scaled else 1.0
    return RowScaling(Scaling(scale, scale * largest * mean if shifted else None), is_exact, double)


def _scale(largest: float, lam: float) -> float:
    """A power of two that brings entries near 1, or half of the way if lam is far from them."""
    ratio = 2.0 * math.log2(largest) - math.log2(lam)
    excess = math.copysign(max(abs(ratio) - math.log2(BALANCE), 0.0), ratio) / 4.0
    return math.ldexp(1.0, round(excess - math.log2(largest)))


class Moments(NamedTuple):
    """Moments of some rows, in units of the largest entry of all."""

    n_rows: int
    is_double: bool
    largest: float
    total: Array
    """Sum of the rows; zero where they cannot be shifted, and so their squares."""
    squares: float


@read_only
def moments(block: Block, n_sample: int | None) -> Moments:
    """Moments of about `n_sample` of the block's rows, or of all."""
    original, largest = block.original, block.original.largest()
    if largest == 0.0 or not original.can_center:
        zeros = block.arrays.zeros(original.shape[1])
        return Moments(original.shape[0], original.is_double, largest, zeros, 0.0)
    rows = original if n_sample is None else block.sample(n_sample)
    scale = 1.0 if 1.0 / SQUARED <= largest <= SQUARED else _scale(largest, 1.0)
    rows, by = precise(rows, Scaling(scale)), 1.0 / (largest * scale)
    total = by * rows.combine(block.arrays.broadcast_to(1.0, rows.shape[0]))
    squares = by**2 * float(rows.squared_norms().sum())
    return Moments(rows.shape[0], original.is_double, largest, total, squares)
