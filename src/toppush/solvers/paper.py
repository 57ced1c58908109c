"""The paper's method: accelerated gradient steps on the dual, projected, with a line search.

Nesterov's method as the authors' program runs it, which differs from the printed Algorithm 1:
a step is accepted by the quadratic upper model, the momentum is (t_prev - 1)/t from t = 1,
t_prev = 0, the curvature starts at 1/m and only doubles, and the iteration ends when the dual
objective settles. The projection is exact. Names: the paper's s is `probe` here, its L is
`curvature`.

A loss whose conjugate has an unbounded slope (logistic, exponential) keeps its conjugate out of
the gradient and inside the step: the projection becomes a proximal map, all else is the same.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from toppush.designs import Block, Design, read_only
from toppush.designs.arrays import number
from toppush.problem.losses import Loss
from toppush.problem.numerics import (
    Clipped,
    Extent,
    Multipliers,
    chunks,
    clipped_mass,
    mass_above,
    projection_multipliers,
)
from toppush.problem.objective import TopPushProblem, balanced_dual, certify
from toppush.problem.solution import Solution, Status
from toppush.solvers.driver import (
    Callback,
    History,
    RowScaling,
    State,
    follow,
    row_scaling,
    scaled_problem,
    solve_or_zero,
    solving,
    unscale,
)
from toppush.types import Array

MIN_ITER = 10
MIN_STEP = 1e-2
"""Length of a step that ends the iteration, as a multiple of tol: the authors' 1e-6 at 1e-4."""
MAX_OBJECTIVE = 2.0
"""Multiple of the objective at zero above which the iteration has diverged."""
ROUNDING = 8 * float(np.finfo(np.float64).eps)

Pair = tuple[Array, Array]
NO_PAIR: Pair = np.empty(0), np.empty(0)


def paper_method(
    problem: TopPushProblem,
    *,
    tol: float = 1e-4,
    max_iter: int = 10_000,
    start: Solution | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Minimise the dual until its relative change is at most `tol`.

    An iteration costs one product with X and one with X', and one more with X' each time the
    curvature doubles. The rule does not certify: see `Solution.gap`. The status says if the
    weights are far worse than zero; where their objective overflows, zero is returned.
    """
    with solving(problem.design, callback) as history:
        solution = solve_or_zero(
            _solve_scaled, problem, history, tol=tol, max_iter=max_iter, start=start
        )
    return history.complete(solution)


def _solve_scaled(
    problem: TopPushProblem, history: History, *, tol: float, max_iter: int, start: Solution | None
) -> Solution:
    """Solve on the rows in their current scaling; the bounds are certified at the end."""
    ascent = DualAscent(scaled_problem(problem), tol, row_scaling(problem), start)
    status = follow(ascent, history, max_iter=max_iter)
    return ascent.solution(status, len(history))


class DualAscent:
    """The driver's part of the iteration; the blocks hold all vectors of row length.

    `objective` is that of the dual divided by m, which is minus the lower bound; it is 0 at zero.
    """

    def __init__(
        self, problem: TopPushProblem, tol: float, scaling: RowScaling, start: Solution | None
    ) -> None:
        design = problem.design
        self.problem, self.tol, self.scaling, self.start = problem, tol, scaling, start
        self.combination = self.previous_combination = design.arrays.zeros(design.n_features)
        self.curvature = 1.0 / design.total_cost
        # A dual is in units of its row's cost.
        self.min_length = MIN_STEP * tol * design.total_cost / design.n_pos
        self.objective = self.previous_objective = self.threshold = self.alpha = 0.0
        self.upper, self.length, self.n_steps = np.inf, np.inf, 0
        self.momentum, self.previous_momentum = 1.0, 0.0

    def begin(self) -> None:
        """One step from zero, where every sum is known, or from an earlier solution's dual."""
        self.problem.design.apply(_begin)
        if self.start is not None:
            self._resume(self.start.dual)
        self.advance()

    def _resume(self, dual: Array) -> None:
        """Scale and project a dual onto the domain, and begin there without momentum."""
        design, loss = self.problem.design, self.problem.loss
        design.scatter(_receive_dual, dual)
        (largest,) = design.max(_max_dual)
        design.apply(_use_received_dual, min(1.0, loss.dual_limit / max(largest, 1e-300)))
        step = _Step(loss, 1.0, by_gradient=True)
        multipliers = projection_multipliers(_TargetSums(design, step), self.problem.k)
        self._move(design.sum(_project, multipliers, step))
        self.previous_combination = self.combination
        design.apply(_forget_previous)

    def state(self) -> State:
        """The bounds of the current point, and its weights for the original rows."""
        weights = self.combination / self.problem.scale
        answer = unscale(self.scaling.scaling, weights, self.threshold)
        return self.upper, -self.objective, *answer

    def advance(self) -> None:
        """One step from the extrapolated point; the momentum grows."""
        self.previous_objective = self.objective
        self.length = self._take_step((self.previous_momentum - 1.0) / self.momentum)
        momentum = 0.5 * (1.0 + float(np.sqrt(1.0 + 4.0 * self.momentum * self.momentum)))
        self.momentum, self.previous_momentum = momentum, self.momentum
        self.n_steps += 1

    def status(self) -> Status | None:
        """Settled by the authors' rule, or stalled where steps are too short."""
        if not self.length > self.min_length:
            converged = self.upper + self.objective <= self.tol * abs(self.upper)
            return Status.CONVERGED if converged else Status.STALLED
        changed = abs(self.objective - self.previous_objective)
        settled = self.n_steps >= MIN_ITER and changed <= self.tol * abs(self.previous_objective)
        return Status.SETTLED if settled else None

    def solution(self, status: Status, n_iter: int) -> Solution:
        """The current point with certified bounds; weights of zero if its objective overflows."""
        weights = self.combination / self.problem.scale
        certificate = certify(self.problem, weights, _current_dual)
        diverged = not certificate.upper <= MAX_OBJECTIVE * self.problem.at_zero()
        if status is not Status.STOPPED and diverged:
            status = Status.DIVERGED
        if not np.isfinite(certificate.upper):
            weights = self.problem.design.arrays.zeros(self.problem.design.n_features)
            certificate = certify(self.problem, weights, _current_dual)
        threshold, upper, lower, balance = certificate
        answer = unscale(self.scaling.scaling, weights, threshold)
        dual = self.problem.design.over_rows(_balanced_dual, balance)
        return Solution(*answer, dual, upper, lower, n_iter, status)

    def _take_step(self, momentum: float) -> float:
        """One accepted step from the extrapolated point; returns its length."""
        problem, design = self.problem, self.problem.design
        by_gradient = problem.loss.conjugate_curvature is not None
        change = self.combination - self.previous_combination
        probe = self.combination + momentum * change
        design.apply(_set_probe, momentum, problem.loss if by_gradient else None)
        while True:
            step = _Step(problem.loss, self.curvature, by_gradient)
            design.apply(_set_target, self.curvature)
            targets = _TargetSums(design, step)
            multipliers = projection_multipliers(targets, problem.k, guess=self.alpha)
            result = design.sum(_project, multipliers, step)
            change = result.combination - probe
            curvature = float(change @ change) / problem.scale + result.conjugate_curvature
            too_far = curvature > self.curvature * result.moved  # False for NaN
            if not too_far or result.moved <= result.rounding:
                break
            self.curvature *= 2.0
        self.alpha = multipliers.alpha
        self._move(result)
        return float(np.sqrt(result.moved))

    def _move(self, result: "_StepResult") -> None:
        problem = self.problem
        weights = result.combination / problem.scale
        problem.design.apply(_advance, weights)
        self.previous_combination, self.combination = self.combination, result.combination
        self.threshold = problem.threshold()
        self.upper = problem.upper(weights, self.threshold)
        self.objective = -problem.lower(result.combination, result.conjugates)


@dataclass(frozen=True)
class _Step:
    """The curvature of a step, and whether l* belongs to its gradient or to its proximal map."""

    loss: Loss
    curvature: float
    by_gradient: bool


class _StepResult(NamedTuple):
    """Sums at the projected point of a step."""

    combination: Array
    conjugates: float
    moved: float
    """Squared distance from the extrapolated point."""
    conjugate_curvature: float
    """Contribution of l* to the error of the quadratic model."""
    rounding: float
    """Squared distance that is only rounding."""


@dataclass(frozen=True)
class _TargetSums:
    """Sums over the target of a step, for its projection."""

    design: Design
    step: _Step

    def extent(self) -> Extent:
        top_positive, top_negative, minus_low = self.design.max(_target_range)
        if self.step.by_gradient:
            return Extent(top_positive, top_negative, -minus_low)
        capacity = self.step.loss.dual_limit * self.design.total_cost
        return Extent(np.inf, top_negative, -minus_low, capacity)

    def positives(self, alpha: float) -> tuple[float, float]:
        mass, fall = self.design.sum(_positives_mass, alpha, self.step)
        return mass, fall

    def negatives(self, beta: float, cap: float) -> Clipped:
        clipped: Clipped = self.design.sum(_negatives_mass, beta, cap)
        return clipped


# What follows runs in the blocks. A pair is (the positives' part, the negatives' part).


class DualState:
    """A block's part of the current and the previous point, and of the step under way."""

    dual: Pair
    previous_dual: Pair
    previous_scores: Pair
    probe: Pair
    gradient: Pair
    target: Pair


def _state(block: Block) -> DualState:
    return block.work.of(DualState)


def _begin(block: Block) -> None:
    xp, state = block.arrays, _state(block)
    zeros = xp.zeros(block.n_pos), xp.zeros(block.n_neg)
    state.dual = state.previous_dual = zeros
    block.scores = state.previous_scores = zeros


def _receive_dual(block: Block, dual: Array) -> None:
    _state(block).target = block.split(dual)


@read_only
def _max_dual(block: Block) -> tuple[float]:
    return (number(block.arrays.max(_state(block).target[0] / block.cost, initial=0.0)),)


def _use_received_dual(block: Block, scale: float) -> None:
    state = _state(block)
    state.target = state.probe = state.target[0] * scale, state.target[1] * scale


def _forget_previous(block: Block) -> None:
    state = _state(block)
    state.previous_dual, state.previous_scores = state.dual, block.scores


def _set_probe(block: Block, momentum: float, loss: Loss | None) -> None:
    """Extrapolate dual and scores, and take the gradient there; `loss` if l* is part of it."""
    state = _state(block)
    state.probe = _extrapolate(state.dual, state.previous_dual, momentum)
    on_positives, on_negatives = _extrapolate(block.scores, state.previous_scores, momentum)
    if loss is not None:
        on_positives += loss.conjugate_slope(state.probe[0] / block.cost)
    state.gradient = on_positives, block.arrays.negative(on_negatives, out=on_negatives)


def _extrapolate(current: Pair, previous: Pair, momentum: float) -> Pair:
    changes = tuple(new - old for new, old in zip(current, previous, strict=True))
    for change, new in zip(changes, current, strict=True):
        change *= momentum
        change += new
    return changes[0], changes[1]


def _set_target(block: Block, curvature: float) -> None:
    state, by = _state(block), -1.0 / curvature
    state.target = state.gradient[0] * by, state.gradient[1] * by
    for target, probe in zip(state.target, state.probe, strict=True):
        target += probe


@read_only
def _target_range(block: Block) -> tuple[float, float, float]:
    """Greatest target of each class, and minus the least of the negatives'."""
    xp, (on_positives, on_negatives) = block.arrays, _state(block).target
    return (
        number(xp.max(on_positives, initial=-np.inf)),
        number(xp.max(on_negatives, initial=-np.inf)),
        number(-xp.min(on_negatives, initial=np.inf)),
    )


@read_only
def _positives_mass(block: Block, alpha: float, step: _Step) -> tuple[float, float]:
    if step.by_gradient:
        return mass_above(_state(block).target[0], alpha)
    dual, fall = _prox(block, alpha, step)
    return number(dual.sum()), number(fall.sum())


def _prox(block: Block, alpha: float, step: _Step) -> tuple[Array, Array]:
    """Minimiser a of c l*(a/c) + curvature/2 (a - target + alpha)^2, and -da/dalpha."""
    point = (_state(block).target[0] - alpha) / block.cost
    dual, fall = step.loss.dual_prox(point, step.curvature * block.cost)
    return block.cost * dual, fall


@read_only
def _negatives_mass(block: Block, beta: float, cap: float) -> Clipped:
    return clipped_mass(_state(block).target[1], beta, cap)


def _project(block: Block, multipliers: Multipliers, step: _Step) -> _StepResult:
    """Project the target in place, and take the sums there."""
    xp, state, (positives, negatives) = block.arrays, _state(block), _state(block).target
    if step.by_gradient:
        positives -= multipliers.alpha
        xp.maximum(positives, 0.0, out=positives)
    else:
        positives = _prox(block, multipliers.alpha, step)[0]
    negatives += multipliers.beta
    xp.clip(negatives, 0.0, multipliers.cap, out=negatives)
    state.target = positives, negatives
    moved, curvature = _distance(block, step)
    conjugates = sum(
        number(cost @ step.loss.conjugate(dual / cost))
        for cost, dual in chunks(block.cost, positives)
    )
    return _StepResult(
        combination=block.dual_combination(positives, negatives),
        conjugates=conjugates,
        moved=moved,
        conjugate_curvature=curvature,
        rounding=ROUNDING**2 * number(positives @ positives + negatives @ negatives),
    )


def _distance(block: Block, step: _Step) -> tuple[float, float]:
    """Squared distance of the target from the probe, and what l* adds to the model's error."""
    state, moved, curvature = _state(block), 0.0, 0.0
    for new, old in chunks(state.target[1], state.probe[1]):
        change = new - old
        moved += number(change @ change)
    for cost, new, old in chunks(block.cost, state.target[0], state.probe[0]):
        change = new - old
        moved += number(change @ change)
        curvature += number(change @ (change / cost))
    return moved, curvature * (step.loss.conjugate_curvature or 0.0) * step.by_gradient


def _advance(block: Block, weights: Array) -> None:
    """Make the projected target the current dual, and score the rows by its weights."""
    state = _state(block)
    state.previous_dual, state.dual = state.dual, state.target
    state.previous_scores = block.scores
    state.target = state.probe = state.gradient = NO_PAIR
    block.score(weights)


def _current_dual(block: Block) -> Pair:
    """The current dual: of the positives and of the negatives."""
    return _state(block).dual


@read_only
def _balanced_dual(block: Block, balance: float) -> Array:
    return balanced_dual(block, _current_dual, balance)
