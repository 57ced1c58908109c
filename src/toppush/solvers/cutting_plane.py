"""A cutting-plane solver for every convex risk that gives subgradients.

    minimise F(w) = ridge/2 |w|^2 + C R(w),    R(w) >= a_k.w + b_k for every cut k,  R >= 0

All values below are those of F/C = lam/2 |w|^2 + R with lam = ridge/C: they are of size 1 whatever
C. The model replaces R by the maximum of its cuts. Its minimiser, computed exactly from the dual (a
quadratic programme over the cuts' multipliers), gives a lower bound. Its iterates jump about for
large C, so the target of an iteration is the minimiser of the model plus a proximal term around the
best point, with a weight adapted until the target closes a good part of the model's gap (the idea
of level bundles, Lemarechal et al. 1995). The best point moves towards the target by a line search
(OCAS, Franc and Sonnenburg 2008); every point of the line search adds its cut to the model.

R is a function of the scores of all rows, and needs their order: each evaluation gathers one vector
of row length. All other vectors of row length stay in the blocks.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import daxpy
from scipy.linalg.lapack import dgetrf, dgetrs

from toppush.designs import Block, Design
from toppush.problem.solution import Solution, Status, safe_lower_bound
from toppush.solvers.driver import Callback, State, follow, solving
from toppush.types import Array

MAX_IDLE = 3
"""Iterations with a multiplier of zero after which a cut is dropped.

A fit of SVM-MAP to a fold of news20 at C = 10^4 takes 321 iterations and 12.2 s, and 348 and 18.5 s
where a cut may idle for 20: more cuts, longer sums, larger programmes.
"""
USUAL_CUTS = 100
"""Cuts in the model of a hard problem."""
MAX_TRIALS = 3
"""Points of a line search."""
FLAT = 0.1
"""A line search ends where the slope has fallen to this part of the slope at the target."""
LEVEL_RANGE = 0.2, 0.6
"""Part of the gap that the target may leave in the model before the proximal weight changes.

OWPC of news20 at C = 1000 has a gap of 10 % after 250 iterations, and of 82 % without the proximal
term.
"""
MAX_PROXIMAL = 2.0**64
"""Limit of the proximal weight, and of its inverse."""
EXACT = 1e-6
"""Relative gap below which the target is the model's exact minimiser."""
MAX_IDLE_STEPS = 20
"""Iterations without progress of the gap that end the solve: only rounding is left."""


class Cut(NamedTuple):
    """A plane below a risk that touches it at the given scores: offset + c.scores."""

    offset: float
    on_positives: Array
    on_negatives: Array


class Risk(Protocol):
    """A convex, non-negative risk of the scores."""

    def cut(self, positives: Array, negatives: Array) -> Cut:
        """Value and subgradient at the scores of the positives and of the negatives."""


@dataclass(frozen=True)
class RiskProblem:
    """ridge/2 |w|^2 + C R(scores of w)."""

    design: Design
    risk: Risk
    C: float
    ridge: float = 1.0

    def at_zero(self) -> float:
        """F(0), where every score ties."""
        cut = self.risk.cut(np.zeros(self.design.n_pos), np.zeros(self.design.n_neg))
        return self.C * cut.offset


def cutting_plane(
    problem: RiskProblem,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    callback: Callback | None = None,
) -> Solution:
    """Minimise until upper - lower <= tol * upper.

    `upper` is the objective at the weights, `lower` the least value of the model. An iteration
    costs one product with X, and an evaluation of the risk and a product with X' for each of the
    two or three points of its line search. `Solution.dual` is empty: the dual variables belong to
    cuts, not to rows.
    """
    with solving(problem.design, callback) as history:
        bundle = Bundle(problem, tol)
        status = follow(bundle, history, max_iter=max_iter)
        solution = bundle.solution(status, len(history))
    return history.complete(solution)


@dataclass(frozen=True)
class _Trial:
    """A point, the objective there and a subgradient of it."""

    weights: Array
    value: float
    gradient: Array


class Bundle:
    """The driver's part: the best point and the model; the blocks keep the rows' scores."""

    best: _Trial

    def __init__(self, problem: RiskProblem, tol: float) -> None:
        signs = problem.design.gather(_signs)
        self.positives, self.negatives = np.flatnonzero(signs > 0.0), np.flatnonzero(signs < 0.0)
        self.problem, self.tol, self.n_rows = problem, tol, len(signs)
        self.model = _Model(problem.ridge / problem.C, _space(problem.design))
        self.bound, self.proximal, self.n_idle = 0.0, 1.0, 0

    @property
    def gap(self) -> float:
        """Bound on the distance of the best point's objective from the optimum."""
        return self.best.value - self.bound

    def begin(self) -> None:
        """One step from zero, with the cut there and the cut R >= 0."""
        zero = np.zeros(self.problem.design.n_features)
        self.problem.design.each(_begin)
        self.model.add(zero, np.zeros(self.n_rows), 0.0)
        self.best = self._evaluate(zero, 0.0)
        self.advance()

    def state(self) -> State:
        """The best point with the highest score of a negative, and the least value of the model."""
        C, top = self.problem.C, self.problem.design.max(_top_of_best)[0]
        return C * self.best.value, C * self.bound, self.best.weights, top

    def advance(self) -> None:
        """Minimise the model, choose a target, and search the line to it."""
        before = self.gap
        least, bound = self.model.minimise(self.best.weights)
        self.bound = max(self.bound, bound)
        target = self._proximal_target() if self.gap > EXACT * self.best.value else least
        self.problem.design.each(_set_target, target)
        share, trial = self._line_search(target)
        # At the end the two agree up to rounding; the model's minimiser is the exact one.
        if trial.value <= self.best.value + 4 * np.finfo(float).eps * abs(self.best.value):
            self.problem.design.each(_advance, share)
            self.best = trial
        self.n_idle = 0 if self.gap < before else self.n_idle + 1

    def status(self) -> Status | None:
        """Converged if the gap is closed, stalled if it stays the same."""
        if self.gap <= self.tol * self.best.value:
            return Status.CONVERGED
        return Status.STALLED if self.n_idle == MAX_IDLE_STEPS else None

    def solution(self, status: Status, n_iter: int) -> Solution:
        """The best point."""
        C, best, design = self.problem.C, self.best, self.problem.design
        lower, none = C * safe_lower_bound(best.value, self.bound), np.empty(0)
        design.each(Block.score, best.weights)
        top = design.max(_top_negative)[0]
        return Solution(best.weights, top, none, C * best.value, lower, n_iter, status)

    def _proximal_target(self) -> Array:
        """Minimiser of the model plus proximal term, whose weight adapts to the gap it leaves."""
        target, value = self.model.minimise_near(self.best.weights, self.proximal)
        left = (value - self.bound) / self.gap
        if not LEVEL_RANGE[0] <= left <= LEVEL_RANGE[1]:
            proximal = self.proximal * (2.0 if left < LEVEL_RANGE[0] else 0.5)
            self.proximal = min(max(proximal, 1.0 / MAX_PROXIMAL), MAX_PROXIMAL)
        return target

    def _line_search(self, target: Array) -> tuple[float, _Trial]:
        """The best of a few points on the line to the target, and its relative position."""
        direction = target - self.best.weights
        best_share, best = 1.0, self._evaluate(target, 1.0)
        low = 0.0, float(self.best.gradient @ direction)
        high = 1.0, float(best.gradient @ direction)
        flat = FLAT * abs(high[1])
        for _ in range(MAX_TRIALS - 1):
            if high[1] <= 0.0 or high[0] - low[0] < 1e-4:
                break
            share = _between_slopes(low, high)
            trial = self._evaluate(self.best.weights + share * direction, share)
            if trial.value < best.value:
                best_share, best = share, trial
            slope = float(trial.gradient @ direction)
            low, high = ((share, slope), high) if slope < 0.0 else (low, (share, slope))
            if abs(slope) <= flat:
                break
        return best_share, best

    def _evaluate(self, weights: Array, share: float) -> _Trial:
        """Evaluate the risk at a relative position on the line, and add its cut."""
        design = self.problem.design
        scores = design.gather(partial(_scores_on_line, share=share))
        offset, on_positives, on_negatives = self.problem.risk.cut(
            scores[self.positives], scores[self.negatives]
        )
        coefficients = np.zeros(self.n_rows)
        coefficients[self.positives], coefficients[self.negatives] = on_positives, on_negatives
        plane = _combined(design, coefficients)
        self.model.add(plane, coefficients, offset)
        height = offset + float(plane @ weights)
        value = self.model.penalty(weights) + height
        return _Trial(weights, value, self.model.lam * weights + plane)


def _between_slopes(low: tuple[float, float], high: tuple[float, float]) -> float:
    """Where the line through two slopes crosses zero, at least a tenth from either end."""
    (left, left_slope), (right, right_slope) = low, high
    part = left_slope / (left_slope - right_slope) if left_slope < 0.0 else 0.0
    return left + min(max(part, 0.1), 0.9) * (right - left)


@dataclass(frozen=True)
class _ByColumns:
    """Cuts stored on the columns that some row uses.

    `dual` of weights is the vector whose product with a stored cut is weights @ plane; `plane` is
    that of a sum of stored cuts.

    The sample of url uses 34,444 of 3.2 million: RankSVM peaks at 476 MB, and at 2.3 GB with
    whole cuts.
    """

    used: NDArray[np.bool_]

    def stored(self, plane: Array, coefficients: Array) -> Array:
        return plane[self.used]

    def dual(self, weights: Array) -> Array:
        return weights[self.used]

    def plane(self, combination: Array) -> Array:
        weights = np.zeros(len(self.used))
        weights[self.used] = combination
        return weights


@dataclass(frozen=True)
class _ByRows:
    """Cuts stored as coefficients of the rows: shorter where rows are fewer than columns.

    The dual of weights is their scores, so every cut costs one more product with X, and every
    minimiser one with X'.
    """

    design: Design

    def stored(self, plane: Array, coefficients: Array) -> Array:
        return coefficients

    def dual(self, weights: Array) -> Array:
        return self.design.gather(_scores_of, weights)

    def plane(self, combination: Array) -> Array:
        return _combined(self.design, combination)


def _space(design: Design) -> _ByColumns | _ByRows:
    """The space in which an iteration reads less; it reads the cuts twice.

    By rows it takes about six more products, each of which reads an index with every entry.
    """
    used: NDArray[np.bool_] = np.asarray(design.sum(_random_combination) != 0.0)
    n_rows, n_entries = design.sum(_size)
    spared = 2.0 * USUAL_CUTS * (np.count_nonzero(used) - n_rows)
    return _ByRows(design) if spared > 6.0 * 1.5 * n_entries else _ByColumns(used)


@dataclass
class _Model:
    """The cuts, their products with each other, and their multipliers in the two minimisers."""

    lam: float
    space: _ByColumns | _ByRows
    cuts: list[Array] = field(default_factory=list)
    new: list[Array] = field(default_factory=list)
    """Dual vectors of the cuts whose products are not known yet."""
    offsets: Array = field(default_factory=lambda: np.empty(0))
    gram: Array = field(default_factory=lambda: np.empty((0, 0)))
    heights: Array = field(default_factory=lambda: np.empty(0))
    """Products with the anchor."""
    multipliers: Array = field(default_factory=lambda: np.empty((2, 0)))
    """Those of the minimiser, and of the minimiser with the proximal term."""
    idle: Array = field(default_factory=lambda: np.empty(0))

    def add(self, plane: Array, coefficients: Array, offset: float) -> None:
        """Add a cut."""
        self.cuts.append(self.space.stored(plane, coefficients))
        self.new.append(self.space.dual(plane))
        self.offsets = np.append(self.offsets, offset)
        self.multipliers = np.pad(self.multipliers, ((0, 0), (0, 1)))
        self.idle = np.append(self.idle, 0.0)

    def penalty(self, weights: Array) -> float:
        """lam/2 |w|^2."""
        return 0.5 * self.lam * float(weights @ weights)

    def minimise(self, anchor: Array) -> tuple[Array, float]:
        """Minimiser and least value of the model; cuts that are idle for long are dropped.

        The anchor is that of `minimise_near`; its products are computed here.
        """
        self._multiply(anchor)
        self._keep(np.flatnonzero(self.idle < MAX_IDLE))
        multipliers = minimise_on_simplex(
            self.gram / self.lam, self.offsets, 1.0, self.multipliers[0]
        )
        self.multipliers[0] = multipliers
        self.idle = np.where(multipliers > 0.0, 0.0, self.idle + 1.0)
        weights = self._combination(multipliers) / -self.lam
        return weights, float(multipliers @ self.offsets) - self.penalty(weights)

    def minimise_near(self, anchor: Array, proximal: float) -> tuple[Array, float]:
        """Minimiser of the model + proximal lam/2 |w - anchor|^2, and the model's value there."""
        total = 1.0 + proximal
        offsets = self.offsets + proximal / total * self.heights
        gram = self.gram / (self.lam * total)
        multipliers = minimise_on_simplex(gram, offsets, 1.0, self.multipliers[1])
        self.multipliers[1] = multipliers
        self.idle[multipliers > 0.0] = 0.0
        weights = (proximal * anchor - self._combination(multipliers) / self.lam) / total
        return weights, self.penalty(weights) + float(np.max(offsets - gram @ multipliers))

    def _multiply(self, anchor: Array) -> None:
        """Products of the new cuts and of the anchor with all cuts, which are read once."""
        n_known, n_new = len(self.gram), len(self.new)
        duals = np.stack([*self.new, self.space.dual(anchor)])
        products = np.array([duals @ cut for cut in self.cuts])
        self.gram = np.pad(self.gram, (0, n_new))
        self.gram[:, n_known:], self.gram[n_known:] = products[:, :-1], products[:, :-1].T
        self.heights, self.new = products[:, -1], []

    def _combination(self, multipliers: Array) -> Array:
        """The plane of the cuts, weighted by their multipliers."""
        total = np.zeros(len(self.cuts[0]))
        for k in np.flatnonzero(multipliers) if total.size else ():  # BLAS takes no empty vector
            total = daxpy(self.cuts[k], total, a=multipliers[k])  # in place
        return self.space.plane(total)

    def _keep(self, kept: NDArray[np.intp]) -> None:
        if len(kept) == len(self.cuts):
            return
        self.cuts = [self.cuts[k] for k in kept]
        self.gram = self.gram[np.ix_(kept, kept)]
        self.offsets, self.multipliers = self.offsets[kept], self.multipliers[:, kept]
        self.heights, self.idle = self.heights[kept], self.idle[kept]


def _combined(design: Design, coefficients: Array) -> Array:
    """X' times a coefficient for each row."""
    design.scatter(_receive, coefficients)
    plane: Array = design.sum(_combine)
    return plane


# What follows runs in the blocks; the vectors are over all rows of the block.


def _signs(block: Block) -> Array:
    return block.join(1.0, -1.0)


def _size(block: Block) -> tuple[float, float]:
    return block.rows.shape[0], block.rows.n_entries


def _random_combination(block: Block) -> Array:
    """Not zero in the columns that some row uses: random weights of the rows do not cancel."""
    return block.rows.combine(np.random.default_rng(0).random(block.rows.shape[0]))


class LineScores:
    """A block's scores at the best point and at the target, and the coefficients of a cut."""

    best: Array
    target: Array
    coefficients: Array


def _line(block: Block) -> LineScores:
    return block.work.of(LineScores)


def _begin(block: Block) -> None:
    line = _line(block)
    line.best = line.target = np.zeros(block.rows.shape[0])


def _scores_of(block: Block, weights: Array) -> Array:
    return block.rows.scores(weights)


def _set_target(block: Block, target: Array) -> None:
    _line(block).target = block.rows.scores(target)


def _scores_on_line(block: Block, share: float) -> Array:
    """Scores at a relative position between the best point and the target."""
    line = _line(block)
    if share == 1.0:
        return np.array(line.target)
    scores = line.target - line.best
    scores *= share
    scores += line.best
    return np.asarray(scores)


def _advance(block: Block, share: float) -> None:
    _line(block).best = _scores_on_line(block, share)


def _receive(block: Block, coefficients: Array) -> None:
    _line(block).coefficients = coefficients


def _combine(block: Block) -> Array:
    return block.rows.combine(_line(block).coefficients)


def _top_of_best(block: Block) -> tuple[float]:
    return (float(np.max(block.split(_line(block).best)[1], initial=-np.inf)),)


def _top_negative(block: Block) -> tuple[float]:
    return (float(np.max(block.scores[1], initial=-np.inf)),)


EPS = float(np.finfo(np.float64).eps)


def minimise_on_simplex(gram: Array, linear: Array, total: float, start: Array) -> Array:
    """Minimiser of 1/2 a'G a - q'a over a >= 0, sum a = total.

    Primal active-set method: solve with the entries in use free, move towards that point until an
    entry would turn negative and drop it, and once all stay positive add the entry with the
    steepest descent. The objective falls with every change of the set, so the method ends; G may
    be singular. A round solves one linear system as large as the set.

    Parameters
    ----------
    gram : array of shape (k, k)
        G, positive semidefinite.
    linear : array of shape (k,)
    total : float
        Above zero.
    start : array of shape (k,)
        Where to begin, such as at the last minimiser; all zero if there is none.

    Returns
    -------
    array of shape (k,)
    """
    point = start * (total / start.sum()) if start.any() else _best_vertex(gram, linear, total)
    used = [int(entry) for entry in np.flatnonzero(point)]
    for _ in range(20 * len(linear) + 100):
        free = _minimise_freely(gram[np.ix_(used, used)], linear[used], total)
        if free.min() > 0.0:
            point[used] = free
            entering = _steepest(gram, linear, point, used)
            if entering is None:
                break
            used.append(entering)
        else:
            point[used] = _move_towards(point[used], free)
            used = [entry for entry in used if point[entry] > 0.0]
    return np.asarray(point * (total / point.sum()))


def _best_vertex(gram: Array, linear: Array, total: float) -> Array:
    vertex = np.zeros(len(linear))
    vertex[np.argmin(0.5 * total * np.diag(gram) - linear)] = total
    return vertex


def _minimise_freely(gram: Array, linear: Array, total: float) -> Array:
    """Minimiser with sum total and signs free.

    A ridge of the size of rounding gives a solution far away where the matrix is singular or
    negligible next to the linear part; only its direction matters then. One step of refinement
    removes the ridge's error where the matrix is regular.
    """
    size = len(linear)
    right = linear - linear.max()  # the same for every point of this sum
    scale = max(float(np.trace(gram)) / size, EPS * -float(right.min()) / total) or 1.0
    matrix = np.ones((size + 1, size + 1))
    matrix[:size, :size], matrix[size, size] = gram / scale, 0.0
    right = np.append(right / scale, total)
    ridged = matrix.copy()
    ridged[np.arange(size), np.arange(size)] += 64 * EPS
    factors, swaps, _ = dgetrf(ridged)  # four times faster than an inverse of size 100
    answer = dgetrs(factors, swaps, right)[0]
    answer += dgetrs(factors, swaps, right - matrix @ answer)[0]
    return np.asarray(answer[:size])


def _steepest(gram: Array, linear: Array, point: Array, used: list[int]) -> int | None:
    """The unused entry with the steepest descent, None if there is none."""
    product = gram @ point
    slope = product - linear
    level = float(slope[used] @ point[used]) / float(point[used].sum())
    entering = int(np.argmin(slope))
    rounding = 8 * EPS * float(np.max(np.abs(product) + np.abs(linear)))
    return entering if entering not in used and slope[entering] < level - rounding else None


def _move_towards(current: Array, target: Array) -> Array:
    """Move until an entry would turn negative; that entry becomes 0."""
    falling = np.flatnonzero(target <= 0.0)
    distances = current[falling] - target[falling] + np.finfo(float).tiny
    lengths = current[falling] / distances
    point = current + lengths.min() * (target - current)
    point[falling[lengths <= lengths.min()]] = 0.0
    return np.asarray(np.maximum(point, 0.0))
