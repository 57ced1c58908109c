"""The bounds of a solve: P at the best weights from above, the best dual point from below.

Every iterate gives an upper bound P(w) from all rows, and a lower bound from the dual point
a = tau c l'(T - w.x), b = tau q brought into the domain, with the best tau.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from toppush.designs import Block, read_only
from toppush.designs.arrays import number
from toppush.problem.losses import Loss
from toppush.problem.numerics import chunks, grown, root
from toppush.problem.objective import (
    Proof,
    TopPushProblem,
    balanced,
    dual_sums,
    prove,
    proven_by,
    upper_of,
)
from toppush.solvers.newton import positives, working_set
from toppush.solvers.newton.kkt import norm
from toppush.solvers.newton.positives import Pulls
from toppush.solvers.newton.state import BestDual, part_of, positives_of
from toppush.solvers.scaling import Seen
from toppush.types import Array

SURE, OF_TOL = 1e-7, 0.1
"""Share of the objective, and of tol, up to which bounds may be rounded outward by what is known of
the steps; else they are proven from the rows, which leaves less to rounding."""


class Mass(NamedTuple):
    """Sums over the positives' duals: themselves, their squares over c, and X' times them."""

    total: float
    squares: float
    product: Array


class Push(NamedTuple):
    """What is known of the best dual point's X+'a - X-'b."""

    size: float = 0.0
    mass: float = 0.0
    """Sum of all entries of the dual point."""
    scale: float = 0.0
    """What its pulls are multiplied by."""
    turnover: tuple[float, float] = (0.0, 0.0)
    """Of the Gram matrix in it."""

    def rounding_of_gram(self, n_terms: int, length: float, path: float) -> float:
        """Most that rounding in the Gram matrix may have added to it.

        Rows and weights are at most so long; the threshold is a mean of scores.
        """
        mass, squares = self.turnover
        size = (1.0 + length * path) * math.sqrt(mass * squares) + squares * path
        return self.scale * grown(n_terms) * size


class Bounds:
    """The best weights and the best dual point so far; the point itself is the blocks'."""

    def __init__(self, problem: TopPushProblem, tol: float, how: Seen) -> None:
        self.problem, self.tol, self.how = problem, tol, how
        self.m, self.at_zero = problem.design.total_cost, problem.at_zero()
        zero = np.zeros(1)
        self.slope_at_zero = float(problem.loss.slope(zero)[0])
        self.curvature_at_zero = float(problem.loss.curvature(zero)[0])
        self.upper, self.lower = self.at_zero, 0.0
        self.weights = problem.design.arrays.zeros(problem.design.n_features)
        self.threshold = 0.0
        self.balance: float | None = None
        """The dual's, once the bounds are proven or need no proof."""
        self._push, self._least_steepness = Push(), np.inf

    # ---- proof

    def settle(self, pulls: Pulls, path: float, n_steps: int) -> None:
        """Round the bounds outward: by what is known of the steps, or else by a read of the rows.

        `path` is the distance that the weights moved in `n_steps` steps.
        """
        proof = self._without_reading(pulls, path, n_steps)
        if proof is None:
            proof = prove(self.problem, self.weights, best_pair)
        self.threshold, self.upper, self.lower, self.balance = proof

    def _without_reading(self, pulls: Pulls, path: float, n_steps: int) -> Proof | None:
        """The bounds as rounding can have left them; None if that is too little.

        Scores add up the products of all steps, each rounded in proportion to the length of the
        row and of the step. Pulls from the Gram matrix are those of exact scores, and the dual's
        are not.
        """
        problem, how, push = self.problem, self.how, self._push
        if not how.double or how.final or not math.isfinite(how.length):
            return None
        design, unit = problem.design, grown(problem.roundings + problem.design.n_features)
        slip = grown(2.0 * (design.n_features + n_steps)) * how.length * path
        off = grown(design.n_pos + design.n_neg) * push.mass * how.length
        off += push.rounding_of_gram(design.n_pos + design.n_features, how.length, path)
        if pulls.from_gram:
            off += 2.0 * push.scale * self.m * slip * how.length
        sums = design.sum(dual_sums, best_pair, problem.loss)
        lower, balance = proven_by(problem, sums, push.size, off, push.mass * how.length)
        penalty = problem.penalty(self.weights)
        losses = max(self.upper - penalty, 0.0) + unit * self.upper
        upper = upper_of(problem, penalty, losses, slip + unit * how.length * path)
        lost = upper - self.upper + self.lower - lower
        sure = lost <= min(SURE, OF_TOL * self.tol) * self.upper
        return Proof(self.threshold, upper, lower, balance) if sure else None

    # ---- from above

    def try_weights(self, weights: Array, guess: float) -> None:
        """Take these weights, whose scores the blocks hold, if they are better; or shortened."""
        threshold = self.problem.threshold(guess=guess)
        length, objective = 1.0, self.problem.upper(weights, threshold)
        better = objective < self.upper
        if objective >= self.at_zero:
            length, objective = self._short_length(weights, threshold)
            better = length > 0.0 and objective <= self.upper * (1.0 + 0.1 * self.tol)
        if better:
            self.upper, self.weights = objective, length * weights
            self.threshold = length * threshold

    def _short_length(self, weights: Array, threshold: float) -> tuple[float, float]:
        """A length at which these weights are as good as zero, or better, and its objective.

        Where weights of zero are optimal up to the tolerance, a direction still ranks. The one
        along which the objective rises least from zero is where a solution would lie; for any
        that is steeper than one before, the length is 0.
        """
        total, squares, *_ = self.problem.design.sum(positives.score_moments)
        slope = self.slope_at_zero * (threshold - total / self.m)
        steepness = slope / max(norm(weights), 1e-300)
        if slope >= 0.0 and self._least_steepness <= steepness:
            return 0.0, self.at_zero
        self._least_steepness = min(self._least_steepness, steepness)
        size = self.problem.lam * float(weights @ weights)
        spread = threshold * threshold + (squares - 2.0 * threshold * total) / self.m
        bend = size + self.curvature_at_zero * max(spread, 0.0)
        rise = 0.0 if slope < 0.0 else 0.05 * self.tol * self.at_zero
        if not bend > 0.0:
            return 0.0, self.at_zero
        length = min(-slope / bend if slope < 0.0 else 0.5 * rise / max(slope, 1e-300), 1.0)
        for _ in range(60):
            objective = self.objective_along(length, size, threshold)
            if objective <= self.at_zero + rise:
                return length, objective
            length *= 0.5
        return 0.0, self.at_zero

    def objective_along(self, length: float, size: float, threshold: float) -> float:
        """P at so many times the weights of the blocks' scores, of which lam |w|^2 is `size`."""
        loss = self.problem.loss
        losses = self.problem.design.sum(positives.loss_along, loss, length, length * threshold)
        return float(0.5 * size * (length * length) + losses / self.m)

    # ---- from below

    def try_duals(self, pulls: Pulls, sums: working_set.BandSums, *, stepped: bool) -> None:
        """Take the pulls and pushes, scaled together as well as can be, if they prove more.

        `stepped` if the duals that the steps led to are there too.
        """
        design, k, total, lift = self.problem.design, self.problem.k, sums.push, 0.0
        if not total > 0.0:
            return
        product = sums.product / total
        if k > 1 and design.max(working_set.largest_push)[0] * k > total:
            lift = self._lift_into_cap(total)
            product = design.sum(working_set.capped_product, total, lift, 1.0 / k)
        if pulls.in_doubt(pulls.product - pulls.total * product, SURE):
            pulls.read_product()
        candidates = [(False, Mass(pulls.total, pulls.squares, pulls.product))]
        if stepped:
            candidates.append((True, Mass(*design.sum(stepped_sums))))
        for by_steps, mass in candidates:
            push = mass.product - mass.total * product
            squares = float(push @ push)
            scale, bound = best_scale(
                self.problem.loss,
                mass,
                squares / self.problem.scale,
                partial(design.sum, dual_along, by_steps, self.problem.loss),
                partial(design.max, largest_dual, by_steps),
            )
            bound /= self.m
            if bound > self.lower:
                self.lower, by = bound, scale * mass.total
                self._push = Push(scale * math.sqrt(squares), 2.0 * by, scale, pulls.turnover)
                design.apply(keep_dual, by_steps, scale, by / total, by * lift, by / k)

    def _lift_into_cap(self, total: float) -> float:
        """Lift that makes clip(push/total + lift, 0, 1/k) sum to one."""
        design, cap = self.problem.design, 1.0 / self.problem.k

        def surplus(drop: float) -> tuple[float, float, float]:
            mass, n_free = design.sum(working_set.capped_share, total, -drop, cap)
            return mass - 1.0, -n_free, mass + 1.0

        highest = design.max(working_set.largest_push)[0] / total
        return -root(surplus, -cap, highest, 0.0)


def best_scale(
    loss: Loss,
    mass: Mass,
    quadratic: float,
    along: Callable[[float], tuple[float, float, float]],
    largest: Callable[[], tuple[float, ...]],
) -> tuple[float, float]:
    """Scale t of a dual point with the best bound -(t^2/2 quadratic + conjugates), and that bound.

    In closed form if l*(a) = l*'(0) a + curvature/2 a^2; else by Newton's method, where any scale
    gives a bound. `along` tells conjugates at a scale with two derivatives, `largest` the greatest
    dual for a weight of one.
    """
    if not (mass.total > 0.0 and math.isfinite(quadratic)):
        return 0.0, 0.0
    if loss.conjugate_curvature is not None:
        slope = -float(loss.conjugate_slope(np.zeros(1))[0]) * mass.total
        scale = slope / (quadratic + loss.conjugate_curvature * mass.squares)
        return scale, 0.5 * scale * slope
    limit = (1.0 - 1e-9) * loss.dual_limit / largest()[0]
    scale, best = min(1.0, limit), (0.0, 0.0)
    for _ in range(4):
        value, slope, curvature = along(scale)
        bound = -(0.5 * (scale * scale) * quadratic + value)
        best = max(best, (scale, bound), key=lambda pair: pair[1])
        if not quadratic + curvature > 0.0:
            break
        newton = scale - (scale * quadratic + slope) / (quadratic + curvature)
        scale = min(max(newton, 0.3 * scale), 3.0 * scale, limit)
    return best


def _duals(block: Block, stepped: bool) -> Array:
    """Of the positives: as their scores have them, or as the steps led to them."""
    part = part_of(block)
    if not stepped or part.stepped is None:
        return part.pull
    return block.arrays.maximum(part.stepped, 0.0)


def step_duals(block: Block, step: float, threshold: float) -> None:
    """Take the step in the positives' duals, as the system has it.

    They follow the Newton equations, whose residuals come down to rounding in every step. Duals
    taken from the scores are only as good as the scores: where rows are very long, not enough.
    """
    part = part_of(block)
    before = part.pull if part.stepped is None else part.stepped
    ahead = part.pull - before + part.bend * (threshold - part.moves[0])
    part.stepped = before + step * ahead


@read_only
def stepped_sums(block: Block) -> tuple[float, float, Array]:
    """Of the duals that the steps led to: sum, sum of squares, and X' times them."""
    duals = _duals(block, True)
    product = positives_of(block).rows.combine(duals)
    return number(duals.sum()), number(duals @ (duals / block.cost)), product


@read_only
def dual_along(block: Block, stepped: bool, loss: Loss, scale: float) -> tuple[float, float, float]:
    """Conjugates at the duals times `scale`, with first and second derivative in it."""
    return along(block.cost, _duals(block, stepped), loss, scale)


def along(costs: Array, pulls: Array, loss: Loss, scale: float) -> tuple[float, float, float]:
    """The same of given duals."""
    value = slope = curvature = 0.0
    for cost, pull in chunks(costs, pulls):
        unit = pull / cost
        counted = unit > 0.0
        cost, unit = cost[counted], unit[counted]
        dual = scale * unit
        violation = loss.conjugate_slope(dual)
        value += number(cost @ loss.conjugate(dual))
        slope += number(cost @ (unit * violation))
        curvature += number(cost @ (unit * unit / loss.curvature(violation)))
    return value, slope, curvature


@read_only
def largest_dual(block: Block, stepped: bool) -> tuple[float]:
    """Greatest dual of a positive, for a weight of one."""
    return (number(block.arrays.max(_duals(block, stepped) / block.cost, initial=0.0)),)


def keep_dual(
    block: Block, stepped: bool, scale: float, per_push: float, lift: float, cap: float
) -> None:
    """Remember the dual point of the best bound so far."""
    part, pull = part_of(block), _duals(block, stepped)
    part.best_dual = BestDual(pull, scale, part.band.where, part.band.push, per_push, lift, cap)


def best_pair(block: Block) -> tuple[Array, Array]:
    """The dual point of the best bound: of the positives and of the negatives."""
    best, on_negatives = part_of(block).best_dual, block.arrays.zeros(block.n_neg)
    if best is None:
        return block.arrays.zeros(block.n_pos), on_negatives
    on_negatives[best.where] = block.arrays.clip(
        best.push * best.per_push + best.lift, 0.0, best.cap
    )
    return best.scale * best.pull, on_negatives


@read_only
def best_dual(block: Block, balance: float) -> Array:
    """The same over all rows, balanced."""
    return balanced(block, best_pair, balance)
