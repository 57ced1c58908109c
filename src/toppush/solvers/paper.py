"""The paper's method: accelerated gradient steps on the dual, projected, with a line search.

Nesterov's method as the authors' program runs it, which differs from the printed Algorithm 1:
a step is accepted by the quadratic upper model, the momentum is (t_prev - 1)/t from t = 1,
t_prev = 0, the curvature starts at 1/m and only doubles, and the iteration ends when the dual
objective settles. The projection is exact. Paper: s -> probe, L -> curvature.

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
    Landing,
    chunks,
    clipped_mass,
    find_landing,
    mass_above,
)
from toppush.problem.objective import TopPushProblem, balanced, prove
from toppush.problem.solution import Solution, Status
from toppush.solvers.driver import Journal, Standing, Watch, attempted, follow, solving
from toppush.solvers.scaling import Seen, answer_in, in_form, seen
from toppush.types import Array

MIN_ITER = 10
SMALLEST_STEP = 1e-2
"""Length of a step that ends the search, as a multiple of tol: the authors' 1e-6 at 1e-4."""
FAR = 2.0
"""Times the objective at zero: weights that are worse did not get there by the stopping rule."""
ROUNDING = 8 * float(np.finfo(np.float64).eps)

Pair = tuple[Array, Array]
NOTHING: Pair = np.empty(0), np.empty(0)


def paper_method(
    problem: TopPushProblem,
    *,
    tol: float = 1e-4,
    max_iter: int = 10_000,
    start: Solution | None = None,
    watch: Watch | None = None,
) -> Solution:
    """Minimise the dual until its relative change is at most `tol`.

    An iteration costs one product with X and one with X', and one more with X' each time the
    curvature doubles. The rule does not certify: see `Solution.gap`. Weights that end far worse
    than zero are said to be so; where the objective there is not even a number, zero is returned.
    """
    with solving(problem.design, watch) as journal:
        found = attempted(_climb, problem, journal, tol=tol, max_iter=max_iter, start=start)
    return journal.settled(found)


def _climb(
    problem: TopPushProblem, journal: Journal, *, tol: float, max_iter: int, start: Solution | None
) -> Solution:
    """Solve on the rows in the form they have; the bounds are proven anew at the end."""
    how = seen(problem)
    climb = DualAscent(in_form(problem), tol, how, start)
    status = follow(climb, journal, max_iter=max_iter)
    return climb.solution(status, len(journal))


class DualAscent:
    """The driver's side of the iteration; the rows' side is the blocks' `Part`.

    `objective` is the dual one divided by m, minus the lower bound; 0 at zero for every loss.
    """

    def __init__(
        self, problem: TopPushProblem, tol: float, how: Seen, start: Solution | None
    ) -> None:
        design = problem.design
        self.problem, self.tol, self.how, self.start = problem, tol, how, start
        self.push = self.previous_push = design.arrays.zeros(design.n_features)
        self.curvature = 1.0 / design.total_cost
        # A dual is in units of its row's cost.
        self.too_short = SMALLEST_STEP * tol * design.total_cost / design.n_pos
        self.objective = self.before = self.threshold = self.shift = 0.0
        self.upper, self.length, self.n_steps = np.inf, np.inf, 0
        self.momentum, self.previous_momentum = 1.0, 0.0

    def begin(self) -> None:
        """One step from zero, where every sum is known, or from an earlier solution's dual."""
        self.problem.design.apply(_begin)
        if self.start is not None:
            self._resume(self.start.dual)
        self.advance()

    def _resume(self, dual: Array) -> None:
        """Bring a dual into the domain, by scaling and projecting, and stand still there."""
        design, loss = self.problem.design, self.problem.loss
        design.scatter(_receive_dual, dual)
        (largest,) = design.max(_largest_dual)
        design.apply(_aim_at_received, min(1.0, loss.dual_limit / max(largest, 1e-300)))
        step = _Step(loss, 1.0, by_gradient=True)
        landing = find_landing(_Targets(design, step), self.problem.k)
        self._move(design.sum(_land, landing, step))
        self.previous_push = self.push
        design.apply(_stand_still)

    def standing(self) -> Standing:
        """The latest point, for the rows as they were given."""
        weights = self.push / self.problem.scale
        answer = answer_in(self.how.form, weights, self.threshold)
        return self.upper, -self.objective, *answer

    def advance(self) -> None:
        """One step from the probe, whose momentum grows."""
        self.before = self.objective
        self.length = self._step((self.previous_momentum - 1.0) / self.momentum)
        grown = 0.5 * (1.0 + float(np.sqrt(1.0 + 4.0 * self.momentum * self.momentum)))
        self.momentum, self.previous_momentum = grown, self.momentum
        self.n_steps += 1

    def ended(self) -> Status | None:
        """By the authors' rule, or where steps are too short to matter."""
        if not self.length > self.too_short:
            within = self.upper + self.objective <= self.tol * abs(self.upper)
            return Status.CONVERGED if within else Status.STALLED
        changed = abs(self.objective - self.before)
        settled = self.n_steps >= MIN_ITER and changed <= self.tol * abs(self.before)
        return Status.SETTLED if settled else None

    def solution(self, status: Status, n_iter: int) -> Solution:
        """The record of the latest point, or of weights of zero if its objective overflows."""
        weights = self.push / self.problem.scale
        proof = prove(self.problem, weights, _dual_pair)
        if status is not Status.STOPPED and not proof.upper <= FAR * self.problem.at_zero():
            status = Status.DIVERGED
        if not np.isfinite(proof.upper):
            weights = self.problem.design.arrays.zeros(self.problem.design.n_features)
            proof = prove(self.problem, weights, _dual_pair)
        weights, threshold = answer_in(self.how.form, weights, proof.threshold)
        dual = self.problem.design.over_rows(_joined_dual, proof.balance)
        return Solution(weights, threshold, dual, proof.upper, proof.lower, n_iter, status)

    def _step(self, momentum: float) -> float:
        """One accepted step from the probe; returns its length."""
        problem, design = self.problem, self.problem.design
        by_gradient = problem.loss.conjugate_curvature is not None
        probe_push = self.push + momentum * (self.push - self.previous_push)
        design.apply(_probe, momentum, problem.loss if by_gradient else None)
        while True:
            step = _Step(problem.loss, self.curvature, by_gradient)
            design.apply(_aim, self.curvature)
            landing = find_landing(_Targets(design, step), problem.k, guess=self.shift)
            landed = design.sum(_land, landing, step)
            change = landed.push - probe_push
            bend = float(change @ change) / problem.scale + landed.conjugate_bend
            too_far = bend > self.curvature * landed.moved  # never of a NaN
            if not too_far or landed.moved <= landed.rounding:
                break
            self.curvature *= 2.0
        self.shift = landing.shift
        self._move(landed)
        return float(np.sqrt(landed.moved))

    def _move(self, landed: "_Landed") -> None:
        problem = self.problem
        weights = landed.push / problem.scale
        problem.design.apply(_advance, weights)
        self.previous_push, self.push = self.push, landed.push
        self.threshold = problem.threshold()
        self.upper = problem.upper(weights, self.threshold)
        self.objective = -problem.lower(landed.push, landed.conjugates)


@dataclass(frozen=True)
class _Step:
    """How far a step goes and whether l* is part of its gradient or of its landing."""

    loss: Loss
    curvature: float
    by_gradient: bool


class _Landed(NamedTuple):
    """Sums over the point where a step came down."""

    push: Array
    conjugates: float
    moved: float
    """Squared distance from the probe."""
    conjugate_bend: float
    """Part of the quadratic model's error that l* makes."""
    rounding: float
    """Squared distance that is mere rounding."""


@dataclass(frozen=True)
class _Targets:
    """The point that a step aims at, as the two sides of a projection."""

    design: Design
    step: _Step

    def extent(self) -> Extent:
        top_positive, top_negative, minus_low = self.design.max(_target_range)
        if self.step.by_gradient:
            return Extent(top_positive, top_negative, -minus_low)
        capacity = self.step.loss.dual_limit * self.design.total_cost
        return Extent(np.inf, top_negative, -minus_low, capacity)

    def positives(self, shift: float) -> tuple[float, float]:
        mass, fall = self.design.sum(_positives_mass, shift, self.step)
        return mass, fall

    def negatives(self, lift: float, cap: float) -> Clipped:
        clipped: Clipped = self.design.sum(_negatives_mass, lift, cap)
        return clipped


# What follows runs in the blocks. A pair is (the positives' part, the negatives' part).


class Part:
    """A block's part of the latest point, of the one before, and of the step that is tried."""

    dual: Pair
    previous_dual: Pair
    previous_scores: Pair
    probe: Pair
    gradient: Pair
    target: Pair


def _part(block: Block) -> Part:
    return block.work.of(Part)


def _begin(block: Block) -> None:
    xp, part = block.arrays, _part(block)
    zeros = xp.zeros(block.n_pos), xp.zeros(block.n_neg)
    part.dual = part.previous_dual = zeros
    block.scores = part.previous_scores = zeros


def _receive_dual(block: Block, dual: Array) -> None:
    _part(block).target = block.split(dual)


@read_only
def _largest_dual(block: Block) -> tuple[float]:
    return (number(block.arrays.max(_part(block).target[0] / block.cost, initial=0.0)),)


def _aim_at_received(block: Block, shrink: float) -> None:
    part = _part(block)
    part.target = part.probe = part.target[0] * shrink, part.target[1] * shrink


def _stand_still(block: Block) -> None:
    part = _part(block)
    part.previous_dual, part.previous_scores = part.dual, block.scores


def _probe(block: Block, momentum: float, loss: Loss | None) -> None:
    """Extrapolate dual and scores, and take the gradient there; `loss` if l* is part of it."""
    part = _part(block)
    part.probe = _extrapolate(part.dual, part.previous_dual, momentum)
    on_positives, on_negatives = _extrapolate(block.scores, part.previous_scores, momentum)
    if loss is not None:
        on_positives += loss.conjugate_slope(part.probe[0] / block.cost)
    part.gradient = on_positives, block.arrays.negative(on_negatives, out=on_negatives)


def _extrapolate(latest: Pair, previous: Pair, momentum: float) -> Pair:
    ahead = tuple(new - old for new, old in zip(latest, previous, strict=True))
    for change, new in zip(ahead, latest, strict=True):
        change *= momentum
        change += new
    return ahead[0], ahead[1]


def _aim(block: Block, curvature: float) -> None:
    part, by = _part(block), -1.0 / curvature
    part.target = part.gradient[0] * by, part.gradient[1] * by
    for target, probe in zip(part.target, part.probe, strict=True):
        target += probe


@read_only
def _target_range(block: Block) -> tuple[float, float, float]:
    """Greatest target on each side, and minus the least of the negatives'."""
    xp, (on_positives, on_negatives) = block.arrays, _part(block).target
    return (
        number(xp.max(on_positives, initial=-np.inf)),
        number(xp.max(on_negatives, initial=-np.inf)),
        number(-xp.min(on_negatives, initial=np.inf)),
    )


@read_only
def _positives_mass(block: Block, shift: float, step: _Step) -> tuple[float, float]:
    if step.by_gradient:
        return mass_above(_part(block).target[0], shift)
    dual, fall = _land_by_prox(block, shift, step)
    return number(dual.sum()), number(fall.sum())


def _land_by_prox(block: Block, shift: float, step: _Step) -> tuple[Array, Array]:
    """Minimiser a of c l*(a/c) + curvature/2 (a - target + shift)^2, and its fall in shift."""
    point = (_part(block).target[0] - shift) / block.cost
    dual, fall = step.loss.dual_prox(point, step.curvature * block.cost)
    return block.cost * dual, fall


@read_only
def _negatives_mass(block: Block, lift: float, cap: float) -> Clipped:
    return clipped_mass(_part(block).target[1], lift, cap)


def _land(block: Block, landing: Landing, step: _Step) -> _Landed:
    """Come down in the domain, in place of the target, and take the sums there."""
    xp, part, (positives, negatives) = block.arrays, _part(block), _part(block).target
    if step.by_gradient:
        positives -= landing.shift
        xp.maximum(positives, 0.0, out=positives)
    else:
        positives = _land_by_prox(block, landing.shift, step)[0]
    negatives += landing.lift
    xp.clip(negatives, 0.0, landing.cap, out=negatives)
    part.target = positives, negatives
    moved, bend = _change(block, step)
    return _Landed(
        push=block.dual_combination(positives, negatives),
        conjugates=_total_conjugate(block, step.loss),
        moved=moved,
        conjugate_bend=bend,
        rounding=ROUNDING**2 * number(positives @ positives + negatives @ negatives),
    )


def _change(block: Block, step: _Step) -> tuple[float, float]:
    """Squared distance from the probe, and what l* adds to the model's error over it."""
    part, moved, bend = _part(block), 0.0, 0.0
    for new, old in chunks(part.target[1], part.probe[1]):
        change = new - old
        moved += number(change @ change)
    for cost, new, old in chunks(block.cost, part.target[0], part.probe[0]):
        change = new - old
        moved += number(change @ change)
        bend += number(change @ (change / cost))
    return moved, bend * (step.loss.conjugate_curvature or 0.0) * step.by_gradient


def _total_conjugate(block: Block, loss: Loss) -> float:
    parts = chunks(block.cost, _part(block).target[0])
    return sum(number(cost @ loss.conjugate(dual / cost)) for cost, dual in parts)


def _advance(block: Block, weights: Array) -> None:
    """Take the landing point as the latest dual, and score the rows by its weights."""
    part = _part(block)
    part.previous_dual, part.dual = part.dual, part.target
    part.previous_scores = block.scores
    part.target = part.probe = part.gradient = NOTHING
    block.score(weights)


def _dual_pair(block: Block) -> Pair:
    """The latest dual: of the positives and of the negatives."""
    return _part(block).dual


@read_only
def _joined_dual(block: Block, balance: float) -> Array:
    return balanced(block, _dual_pair, balance)
