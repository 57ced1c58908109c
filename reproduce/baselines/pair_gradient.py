"""Projected gradient steps on the duals of all pairs.

    P(w) = lam/2 |w|^2 + max_j 1/m sum_i c_i l(w.z_j - w.x_i)
    D(u) = 1/(2 lam m) |sum_ij u_ij (x_i - z_j)|^2 + sum_j p_j sum_i c_i l*(u_ij / (p_j c_i))

over u >= 0 and shares p >= 0, sum p <= 1; any such point proves P >= -D/m. The c_i are the
positives' weights and m their sum. As l does not fall, the worst negative is the one that scores
highest, and `TopPushProblem` gives P. Agarwal (2011): alpha_ij -> u_ij, xi -> a negative's load.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from reproduce.baselines.pair_step import Bounds, Landed, PairStep, followed
from reproduce.baselines.pairs import (
    Limits,
    TwoClasses,
    greatest_eigenvalue,
    normal_product,
    row_chunks,
)
from toppush.designs import Block
from toppush.problem.objective import TopPushProblem
from toppush.problem.solution import Solution, Status
from toppush.solvers.paper import MAX_OBJECTIVE, MIN_ITER
from toppush.types import Array

ROUNDING = 8 * float(np.finfo(np.float64).eps)


def published_gradient(problem: TopPushProblem, rows: TwoClasses, limits: Limits) -> Solution:
    """Steps of 1/(L sqrt(t)) until D changes by `limits.tol` of itself at most, ten at least.

    L is the greatest curvature of D, so that D falls with every step and the last point is the
    best. The first step gives all pairs equal duals, which is where the published method begins.
    The rule does not certify: see `Solution.gap`.
    """
    return followed(partial(PublishedSteps, problem, rows, limits.tol), rows, limits)


class PublishedSteps:
    """Where the published iteration stands, and what its latest point proves."""

    def __init__(self, problem: TopPushProblem, rows: TwoClasses, tol: float) -> None:
        self.problem, self.rows, self.tol, self.n_steps = problem, rows, tol, 0
        self.bounds = Bounds(rows, problem.at_zero(), latest=True)
        self.state = self.bounds.state

    def begin(self) -> None:
        """One step from zero."""
        on_positives, on_negatives = (np.zeros(side.size) for side in self.rows.weights)
        self.scores, self.share = (on_positives, on_negatives), on_negatives
        self.duals = np.zeros((on_negatives.size, on_positives.size))
        product = normal_product(self.rows)
        self.steepest = greatest_eigenvalue(product, self.problem.design.n_features)
        self.advance()

    def advance(self) -> None:
        """A step that is shorter than the last, and what its point proves."""
        problem, rows, self.before = self.problem, self.rows, self.bounds.lower
        self.n_steps += 1
        stiffness = self.steepest / problem.scale * float(np.sqrt(self.n_steps))
        step = PairStep.of(problem.loss, rows.weights[0], stiffness)
        landed = step.descend(self.duals, self.scores, self.share)
        self.share = landed.share
        push = rows.combine(landed.per_positive, -landed.per_negative)
        self.scores = rows.scores(push / problem.scale)
        _judge(problem, push, landed, self.bounds)

    def status(self) -> Status | None:
        """Whether the dual objective has settled, and not far above zero's."""
        bounds, before = self.bounds, self.before
        if self.n_steps < MIN_ITER or abs(bounds.lower - before) > self.tol * abs(before):
            return None
        far = bounds.upper > MAX_OBJECTIVE * self.problem.at_zero() or not bounds.found_any
        return Status.DIVERGED if far else Status.SETTLED


def projected_gradient(problem: TopPushProblem, rows: TwoClasses, limits: Limits) -> Solution:
    """Steps by a line search, with momentum, until the gap is `limits.tol` of the objective."""
    return followed(partial(ProjectedSteps, problem, rows, limits.tol), rows, limits)


@dataclass
class _Point:
    """Duals of the pairs with what follows from them."""

    duals: Array
    push: Array
    """sum_ij u_ij (x_i - z_j); the weights times lam m."""
    on_positives: Array
    on_negatives: Array


class ProjectedSteps:
    """Where the iteration stands, and the best bounds seen."""

    def __init__(self, problem: TopPushProblem, rows: TwoClasses, tol: float) -> None:
        self.problem, self.rows, self.tol = problem, rows, tol
        self.bounds, self.still = Bounds(rows, problem.at_zero()), False
        self.momentum, self.previous_momentum, self.state = 1.0, 0.0, self.bounds.state
        self.objective = 0.0  # D/m; 0 at zero for every loss
        n_pos, n_neg = (side.size for side in rows.weights)
        zeros, features = (np.zeros(n_pos), np.zeros(n_neg)), np.zeros(problem.design.n_features)
        self.share = zeros[1]
        self.latest = _Point(np.zeros((n_neg, n_pos)), features, *zeros)
        self.before = _Point(np.zeros((n_neg, n_pos)), features, *zeros)
        self.spare = np.empty((n_neg, n_pos))
        self.curvature = _least_curvature(rows) / problem.scale or 1.0 / problem.design.total_cost

    def begin(self) -> None:
        self.advance()

    def status(self) -> Status | None:
        """Whether the gap is closed, or a step without momentum does not move."""
        return self.bounds.outcome(self.tol, still=self.still)

    def advance(self) -> None:
        """A step whose momentum grows, or ends where the objective rises."""
        before, momentum = self.objective, self.momentum
        moved = self._step((self.previous_momentum - 1.0) / momentum)
        self.still = not moved and momentum == 1.0
        self.momentum, self.previous_momentum = 1.0, 0.0
        if moved and not self.objective > before:
            self.momentum = 0.5 + float(np.sqrt(0.25 + momentum**2))
            self.previous_momentum = momentum

    def _step(self, momentum: float) -> bool:
        """One accepted step from the probe; whether it moved by more than rounding."""
        latest, before = self.latest, self.before
        probe_push = latest.push + momentum * (latest.push - before.push)
        while True:
            self._aim(momentum)
            step = PairStep.of(self.problem.loss, self.rows.weights[0], self.curvature)
            landed = step.land(self.spare, self.share)
            push = self.rows.combine(landed.per_positive, -landed.per_negative)
            moved, size = self._moved(momentum)
            change = push - probe_push
            bend = float(change @ change) / self.problem.scale
            still = moved <= ROUNDING**2 * size
            # The first step bends by the curvature exactly, but for rounding.
            too_far = bend > (1.0 + ROUNDING) * self.curvature * moved  # never of a NaN
            if not too_far or still:
                break
            self.curvature *= 2.0
        self.share = landed.share
        self._advance(push, landed)
        return not still and bool(np.isfinite(push).all())

    def _aim(self, momentum: float) -> None:
        """Put the probe less the gradient over the curvature in the spare array."""
        latest, before = self.latest, self.before
        on_positives = latest.on_positives + momentum * (latest.on_positives - before.on_positives)
        on_negatives = latest.on_negatives + momentum * (latest.on_negatives - before.on_negatives)
        for part in row_chunks(*self.spare.shape):
            probe = latest.duals[part] - before.duals[part]
            probe *= momentum
            probe += latest.duals[part]
            gradient = on_positives - on_negatives[part, None]
            gradient /= self.curvature
            np.subtract(probe, gradient, out=self.spare[part])

    def _moved(self, momentum: float) -> tuple[float, float]:
        """Squared distance of the landing from the probe, and its squared length."""
        moved = size = 0.0
        for part in row_chunks(*self.spare.shape):
            landed, duals = self.spare[part], self.latest.duals[part]
            probe = duals + momentum * (duals - self.before.duals[part])
            moved += float(np.sum(np.square(landed - probe)))
            size += float(np.sum(np.square(landed)))
        return moved, size

    def _advance(self, push: Array, landed: Landed) -> None:
        scores = self.rows.scores(push / self.problem.scale)
        duals, self.spare = self.spare, self.before.duals
        self.before, self.latest = self.latest, _Point(duals, push, *scores)
        self.objective = -_judge(self.problem, push, landed, self.bounds)


def _least_curvature(rows: TwoClasses) -> float:
    """What |sum_ij u_ij (x_i - z_j)|^2 bends by for equal duals, or for one pair if that is more.

    No smaller curvature can hold everywhere. That of equal duals is zero where the classes' means
    agree, and that of the mean pair where all rows are the same.
    """
    n_pos, n_neg = (side.size for side in rows.weights)
    ones = rows.combine(np.full(n_pos, float(n_neg)), np.full(n_neg, -float(n_pos)))
    equal = float(ones @ ones) / (n_pos * n_neg)
    on_positives, on_negatives = rows.split(rows.design.gather(_squared_norms))
    middle = rows.combine(np.full(n_pos, 0.5 / n_pos), np.full(n_neg, 0.5 / n_neg))
    # 2 (mean x).(mean z) is 2 |middle|^2 less half of the means' squared distance.
    norms = float(on_positives.mean() + on_negatives.mean())
    return max(equal, norms - 2.0 * float(middle @ middle) + 0.5 * equal / (n_pos * n_neg))


def _squared_norms(block: Block) -> Array:
    return block.rows.squared_norms()


def _judge(problem: TopPushProblem, push: Array, landed: Landed, bounds: Bounds) -> float:
    """Note what a point proves, the blocks holding its scores; its lower bound."""
    weights, threshold = push / problem.scale, problem.threshold()
    lower = problem.lower(push, landed.conjugates)
    bounds.note(problem.upper(weights, threshold), weights, threshold, lower, landed)
    return lower
