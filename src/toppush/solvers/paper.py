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

from toppush.designs import Block, Design, Form, only_asks
from toppush.designs.arrays import number
from toppush.problem.losses import Loss
from toppush.problem.objective import TopPushProblem, balanced, prove
from toppush.problem.solution import Solution, Status
from toppush.problem.tops import (
    Clipped,
    Extent,
    Landing,
    chunks,
    clipped_mass,
    find_landing,
    mass_above,
)
from toppush.solvers.forms import Seen, answer_in, in_form, seen
from toppush.solvers.journal import Journal, Watch
from toppush.types import Array

MIN_ITER = 10
SMALLEST_STEP = 1e-2
"""Length of a step that ends the search, as a multiple of tol: the authors' 1e-6 at 1e-4."""
FAR = 2.0
"""Times the objective at zero: weights that are worse did not get there by the stopping rule."""
ROUNDING = 8 * float(np.finfo(np.float64).eps)

Pair = tuple[Array, Array]


def accelerated(
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
    journal, how = Journal(problem.design, watch), seen(problem)
    with np.errstate(all="ignore"):  # what overflows is said by the status
        search = _Search.begin(in_form(problem), start)
        status = search.run(journal, how.form, tol=tol, max_iter=max_iter)
        return search.solution(status, journal, how)


@dataclass
class _Search:
    """The driver's side of the iteration; the rows' side is the blocks' state."""

    problem: TopPushProblem
    push: Array
    previous_push: Array
    curvature: float
    objective: float = 0.0
    """The dual objective divided by m, minus the lower bound; 0 at zero for every loss."""
    upper: float = np.inf
    threshold: float = 0.0
    shift: float = 0.0

    @classmethod
    def begin(cls, problem: TopPushProblem, start: Solution | None) -> "_Search":
        """At zero, where every sum is known, or at an earlier solution's dual."""
        zero = problem.design.arrays.zeros(problem.design.n_features)
        search = cls(problem, zero, zero, curvature=1.0 / problem.design.total_cost)
        problem.design.tell(_begin)
        if start is not None:
            search._resume(start.dual)
        return search

    def _resume(self, dual: Array) -> None:
        """Bring a dual into the domain, by scaling and projecting, and stand still there."""
        design, loss = self.problem.design, self.problem.loss
        design.scatter(_receive_dual, dual)
        (largest,) = design.max(_largest_dual)
        design.tell(_aim_at_received, min(1.0, loss.dual_limit / max(largest, 1e-300)))
        step = _Step(loss, 1.0, by_gradient=True)
        landing = find_landing(_Targets(design, step), self.problem.k)
        self._move(design.sum(_land, landing, step))
        self.previous_push = self.push
        design.tell(_stand_still)

    def answer(self) -> tuple[Array, float]:
        """Weights and threshold of the latest point."""
        return self.push / self.problem.scale, self.threshold

    def is_within(self, tol: float) -> bool:
        """Whether the bounds agree to this share of the objective."""
        return self.upper + self.objective <= tol * abs(self.upper)

    def run(self, journal: Journal, form: Form, *, tol: float, max_iter: int) -> Status:
        """Step after step, until the authors' rule ends it."""
        design = self.problem.design
        # A dual is in units of its row's cost.
        too_short = SMALLEST_STEP * tol * design.total_cost / design.n_pos
        momentum, previous_momentum = 1.0, 0.0
        while len(journal) < max_iter:
            before = self.objective
            length = self.step((previous_momentum - 1.0) / momentum)
            if journal.note(self.upper, -self.objective, *answer_in(form, *self.answer())):
                return Status.STOPPED
            if not length > too_short:
                return Status.CONVERGED if self.is_within(tol) else Status.STALLED
            if len(journal) >= MIN_ITER and abs(self.objective - before) <= tol * abs(before):
                return Status.SETTLED
            grown = 0.5 * (1.0 + float(np.sqrt(1.0 + 4.0 * momentum**2)))
            momentum, previous_momentum = grown, momentum
        return Status.MAX_ITER

    def solution(self, status: Status, journal: Journal, how: Seen) -> Solution:
        """The record of the latest point, or of weights of zero if its objective overflows."""
        weights = self.answer()[0] if np.isfinite(self.upper) else 0.0 * self.push
        proof = prove(self.problem, weights, _dual_pair, how.length)
        if status is not Status.STOPPED and not self.upper <= FAR * self.problem.at_zero():
            status = Status.DIVERGED
        weights, threshold = answer_in(how.form, weights, proof.threshold)
        journal.settle(proof.upper, proof.lower)
        return Solution(
            weights=weights,
            threshold=threshold,
            dual=self.problem.design.over_rows(_joined_dual, proof.balance),
            upper=proof.upper,
            lower=proof.lower,
            n_iter=len(journal),
            status=status,
            history=tuple(journal.history),
        )

    def step(self, momentum: float) -> float:
        """One accepted step from the probe; returns its length."""
        problem, design = self.problem, self.problem.design
        by_gradient = problem.loss.conjugate_curvature is not None
        probe_push = self.push + momentum * (self.push - self.previous_push)
        design.tell(_probe, momentum, problem.loss if by_gradient else None)
        while True:
            step = _Step(problem.loss, self.curvature, by_gradient)
            design.tell(_aim, self.curvature)
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
        problem.design.tell(_advance, weights)
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


def _begin(block: Block) -> None:
    xp, state = block.arrays, block.state
    zeros = xp.zeros(block.n_pos), xp.zeros(block.n_neg)
    state.dual = state.previous_dual = zeros
    block.scores = state.previous_scores = zeros


def _receive_dual(block: Block, dual: Array) -> None:
    block.state.target = block.split(dual)


@only_asks
def _largest_dual(block: Block) -> tuple[float]:
    return (number(block.arrays.max(block.state.target[0] / block.cost, initial=0.0)),)


def _aim_at_received(block: Block, shrink: float) -> None:
    state = block.state
    state.target = tuple(side * shrink for side in state.target)
    state.probe = state.target


def _stand_still(block: Block) -> None:
    block.state.previous_dual, block.state.previous_scores = block.state.dual, block.scores


def _probe(block: Block, momentum: float, loss: Loss | None) -> None:
    """Extrapolate dual and scores, and take the gradient there; `loss` if l* is part of it."""
    state = block.state
    state.probe = _extrapolate(state.dual, state.previous_dual, momentum)
    on_positives, on_negatives = _extrapolate(block.scores, state.previous_scores, momentum)
    if loss is not None:
        on_positives += loss.conjugate_slope(state.probe[0] / block.cost)
    state.gradient = on_positives, block.arrays.negative(on_negatives, out=on_negatives)


def _extrapolate(latest: Pair, previous: Pair, momentum: float) -> Pair:
    ahead = tuple(new - old for new, old in zip(latest, previous, strict=True))
    for change, new in zip(ahead, latest, strict=True):
        change *= momentum
        change += new
    return ahead[0], ahead[1]


def _aim(block: Block, curvature: float) -> None:
    state = block.state
    state.target = tuple(slope * (-1.0 / curvature) for slope in state.gradient)
    for target, probe in zip(state.target, state.probe, strict=True):
        target += probe


@only_asks
def _target_range(block: Block) -> tuple[float, float, float]:
    """Greatest target on each side, and minus the least of the negatives'."""
    xp, (on_positives, on_negatives) = block.arrays, block.state.target
    return (
        number(xp.max(on_positives, initial=-np.inf)),
        number(xp.max(on_negatives, initial=-np.inf)),
        number(-xp.min(on_negatives, initial=np.inf)),
    )


@only_asks
def _positives_mass(block: Block, shift: float, step: _Step) -> tuple[float, float]:
    target = block.state.target[0]
    if step.by_gradient:
        return mass_above(target, shift)
    dual, fall = _land_by_prox(block, shift, step)
    return number(dual.sum()), number(fall.sum())


def _land_by_prox(block: Block, shift: float, step: _Step) -> tuple[Array, Array]:
    """Minimiser a of c l*(a/c) + curvature/2 (a - target + shift)^2, and its fall in shift."""
    point = (block.state.target[0] - shift) / block.cost
    dual, fall = step.loss.dual_prox(point, step.curvature * block.cost)
    return block.cost * dual, fall


@only_asks
def _negatives_mass(block: Block, lift: float, cap: float) -> Clipped:
    return clipped_mass(block.state.target[1], lift, cap)


def _land(block: Block, landing: Landing, step: _Step) -> _Landed:
    """Come down in the domain, in place of the target, and take the sums there."""
    xp, state, (positives, negatives) = block.arrays, block.state, block.state.target
    if step.by_gradient:
        positives -= landing.shift
        xp.maximum(positives, 0.0, out=positives)
    else:
        positives = _land_by_prox(block, landing.shift, step)[0]
    negatives += landing.lift
    xp.clip(negatives, 0.0, landing.cap, out=negatives)
    state.target = positives, negatives
    moved, bend = _change(block, step)
    return _Landed(
        push=block.push(positives, negatives),
        conjugates=_total_conjugate(block, step.loss),
        moved=moved,
        conjugate_bend=bend,
        rounding=ROUNDING**2 * number(positives @ positives + negatives @ negatives),
    )


def _change(block: Block, step: _Step) -> tuple[float, float]:
    """Squared distance from the probe, and what l* adds to the model's error over it."""
    state, moved, bend = block.state, 0.0, 0.0
    for new, old in chunks(state.target[1], state.probe[1]):
        change = new - old
        moved += number(change @ change)
    for cost, new, old in chunks(block.cost, state.target[0], state.probe[0]):
        change = new - old
        moved += number(change @ change)
        bend += number(change @ (change / cost))
    return moved, bend * (step.loss.conjugate_curvature or 0.0) * step.by_gradient


def _total_conjugate(block: Block, loss: Loss) -> float:
    parts = chunks(block.cost, block.state.target[0])
    return sum(number(cost @ loss.conjugate(dual / cost)) for cost, dual in parts)


def _advance(block: Block, weights: Array) -> None:
    """Take the landing point as the latest dual, and score the rows by its weights."""
    state = block.state
    state.previous_dual, state.dual = state.dual, state.target
    state.previous_scores = block.scores
    del state.target, state.probe
    state.gradient = None
    block.score(weights)


def _dual_pair(block: Block) -> Pair:
    """The latest dual: of the positives and of the negatives."""
    pair: Pair = block.state.dual
    return pair


@only_asks
def _joined_dual(block: Block, balance: float) -> Array:
    return balanced(block, _dual_pair, balance)
