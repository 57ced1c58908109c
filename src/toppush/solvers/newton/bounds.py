"""Upper and lower bounds along the path, and the points that attain them.

Each iterate has an upper bound P(w) from the scores of all rows, and a lower bound from the dual
point a = tau c l'(T - w.x), b = tau q, projected onto the dual's domain, with the best tau.
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
    Certificate,
    TopPushProblem,
    balanced_dual,
    certified_lower,
    certified_upper,
    certify,
    dual_sums,
)
from toppush.solvers.driver import RowScaling
from toppush.solvers.newton import positives, working_set
from toppush.solvers.newton.kkt import norm
from toppush.solvers.newton.positives import PositiveSums
from toppush.solvers.newton.state import BestDual, positives_of, state_of
from toppush.types import Array

MAX_LOSS, MAX_LOSS_OF_TOL = 1e-7, 0.1
"""Shares of the objective and of tol that the bounds may lose to an error bound computed without a
read; otherwise the rows are read, which loses less."""


class DualMass(NamedTuple):
    """Sums over the positives' duals a: sum a, sum a^2/c, and X+'a."""

    total: float
    squares: float
    product: Array


class Combination(NamedTuple):
    """What is known of the dual combination X+'a - X-'b of the best dual point."""

    norm: float = 0.0
    mass: float = 0.0
    """Sum of all entries of the dual point."""
    scale: float = 0.0
    """Factor of the gradient weights in it."""
    accumulated: tuple[float, float] = (0.0, 0.0)
    """`Gram.accumulated` if X+'a was computed from the Gram matrix."""


class Bounds:
    """The best weights and the best dual point so far; the blocks store the dual point."""

    def __init__(self, problem: TopPushProblem, tol: float, scaling: RowScaling) -> None:
        self.problem, self.tol, self.scaling = problem, tol, scaling
        self.m, self.at_zero = problem.design.total_cost, problem.at_zero()
        zero = np.zeros(1)
        self.slope_at_zero = float(problem.loss.slope(zero)[0])
        self.curvature_at_zero = float(problem.loss.curvature(zero)[0])
        self.upper, self.lower = self.at_zero, 0.0
        self.weights = problem.design.arrays.zeros(problem.design.n_features)
        self.threshold = 0.0
        self.balance: float | None = None
        """The dual's balance (see `Certificate`), once the bounds are certified."""
        self._combination, self._least_steepness = Combination(), np.inf

    # ---- certificate

    def certify(self, sums: PositiveSums, path_length: float, n_steps: int) -> None:
        """Round the bounds outward: by a bound on all errors, or by a read of the rows.

        `path_length` is the distance that the weights moved in `n_steps` steps.
        """
        certificate = self._certify_without_reading(sums, path_length, n_steps)
        if certificate is None:
            certificate = certify(self.problem, self.weights, best_dual_parts)
        self.threshold, self.upper, self.lower, self.balance = certificate

    def _certify_without_reading(
        self, sums: PositiveSums, path_length: float, n_steps: int
    ) -> Certificate | None:
        """The bounds less all rounding errors; None if that loses too much.

        Scores add up the products of all steps, each rounded in proportion to the lengths of the
        row and of the step. Gradient weights from the Gram matrix belong to exact scores, those of
        the dual do not.
        """
        problem, scaling, combination = self.problem, self.scaling, self._combination
        if not scaling.is_double or scaling.is_exact or not math.isfinite(scaling.max_norm):
            return None
        design, length = problem.design, scaling.max_norm
        unit = grown(problem.roundings + design.n_features)
        score_error = grown(2.0 * (design.n_features + n_steps)) * length * path_length
        error = grown(design.n_pos + design.n_neg) * combination.mass * length
        weights, traces = combination.accumulated
        gram_error = (1.0 + length * path_length) * math.sqrt(weights * traces)
        gram_error += traces * path_length
        error += combination.scale * grown(design.n_pos + design.n_features) * gram_error
        if sums.from_gram:
            error += 2.0 * combination.scale * self.m * score_error * length
        dual = design.sum(dual_sums, best_dual_parts, problem.loss)
        lower, balance = certified_lower(
            problem, dual, combination.norm, error, combination.mass * length
        )
        penalty = problem.penalty(self.weights)
        losses = max(self.upper - penalty, 0.0) + unit * self.upper
        upper = certified_upper(problem, penalty, losses, score_error + unit * length * path_length)
        lost = upper - self.upper + self.lower - lower
        enough = lost <= min(MAX_LOSS, MAX_LOSS_OF_TOL * self.tol) * self.upper
        return Certificate(self.threshold, upper, lower, balance) if enough else None

    # ---- upper bound

    def try_weights(self, weights: Array, guess: float) -> None:
        """Keep these weights, whose scores the blocks have, if they or a multiple are better."""
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
        """A factor with which these weights are as good as zero or better, and the objective.

        Where zero is optimal up to the tolerance, a direction still ranks. The best one is that
        along which the objective rises least from zero; the factor is 0 for steeper ones.
        """
        total, squares, *_ = self.problem.design.sum(positives.score_moments)
        slope = self.slope_at_zero * (threshold - total / self.m)
        steepness = slope / max(norm(weights), 1e-300)
        if slope >= 0.0 and self._least_steepness <= steepness:
            return 0.0, self.at_zero
        self._least_steepness = min(self._least_steepness, steepness)
        twice_penalty = self.problem.lam * float(weights @ weights)
        moment = threshold * threshold + (squares - 2.0 * threshold * total) / self.m
        curvature = twice_penalty + self.curvature_at_zero * max(moment, 0.0)
        rise = 0.0 if slope < 0.0 else 0.05 * self.tol * self.at_zero
        if not curvature > 0.0:
            return 0.0, self.at_zero
        length = min(-slope / curvature if slope < 0.0 else 0.5 * rise / max(slope, 1e-300), 1.0)
        for _ in range(60):
            objective = self.objective_along(length, twice_penalty, threshold)
            if objective <= self.at_zero + rise:
                return length, objective
            length *= 0.5
        return 0.0, self.at_zero

    def objective_along(self, length: float, twice_penalty: float, threshold: float) -> float:
        """P at `length` times the current weights, whose lam |w|^2 is `twice_penalty`."""
        loss = self.problem.loss
        losses = self.problem.design.sum(positives.loss_along, loss, length, length * threshold)
        return float(0.5 * twice_penalty * (length * length) + losses / self.m)

    # ---- lower bound

    def try_duals(
        self, sums: PositiveSums, of_negatives: working_set.WorkingSums, *, has_newton_dual: bool
    ) -> None:
        """Keep the current dual point, at its best scale, if its bound is better.

        With `has_newton_dual` the positives' duals that follow the steps are tried as well.
        """
        design, k, total, offset = self.problem.design, self.problem.k, of_negatives.dual, 0.0
        if not total > 0.0:
            return
        product = of_negatives.product / total
        if k > 1 and design.max(working_set.max_dual)[0] * k > total:
            offset = self._offset_into_cap(total)
            product = design.sum(working_set.capped_product, total, offset, 1.0 / k)
        if sums.is_rounded(sums.gradient_sum - sums.total * product, MAX_LOSS):
            sums.read_gradient_sum()
        trials = [(False, DualMass(sums.total, sums.squares, sums.gradient_sum))]
        if has_newton_dual:
            trials.append((True, DualMass(*design.sum(newton_dual_sums))))
        for newton, mass in trials:
            combination = mass.product - mass.total * product
            square = float(combination @ combination)
            scale, bound = best_scale(
                self.problem.loss,
                mass,
                square / self.problem.scale,
                partial(design.sum, conjugates_at_scale, newton, self.problem.loss),
                partial(design.max, max_positive_dual, newton),
            )
            bound /= self.m
            if bound > self.lower:
                self.lower, factor = bound, scale * mass.total
                self._combination = Combination(
                    scale * math.sqrt(square),
                    2.0 * factor,
                    scale,
                    sums.gram.accumulated if sums.from_gram else (0.0, 0.0),
                )
                design.apply(keep_dual, newton, scale, factor / total, factor * offset, factor / k)

    def _offset_into_cap(self, total: float) -> float:
        """The offset with which clip(dual/total + offset, 0, 1/k) sums to one."""
        design, cap = self.problem.design, 1.0 / self.problem.k

        def surplus(level: float) -> tuple[float, float, float]:
            mass, n_free = design.sum(working_set.capped_mass, total, -level, cap)
            return mass - 1.0, -n_free, mass + 1.0

        highest = design.max(working_set.max_dual)[0] / total
        return -root(surplus, -cap, highest, 0.0)


def best_scale(
    loss: Loss,
    mass: DualMass,
    quadratic: float,
    conjugates: Callable[[float], tuple[float, float, float]],
    largest: Callable[[], tuple[float, ...]],
) -> tuple[float, float]:
    """Scale t of a dual point with the best bound -(t^2/2 quadratic + conjugates), and that bound.

    In closed form if l*(a) = l*'(0) a + curvature/2 a^2; otherwise by Newton's method, where any
    scale gives a bound. `conjugates` returns the sum at a scale with two derivatives, `largest`
    the greatest dual of a positive, relative to its weight.
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
        value, slope, curvature = conjugates(scale)
        bound = -(0.5 * (scale * scale) * quadratic + value)
        best = max(best, (scale, bound), key=lambda pair: pair[1])
        if not quadratic + curvature > 0.0:
            break
        newton = scale - (scale * quadratic + slope) / (quadratic + curvature)
        scale = min(max(newton, 0.3 * scale), 3.0 * scale, limit)
    return best


def conjugate_sums(
    costs: Array, duals: Array, loss: Loss, scale: float
) -> tuple[float, float, float]:
    """Sum of conjugates at `scale` times the duals, with two derivatives in the scale."""
    value = slope = curvature = 0.0
    for cost, dual in chunks(costs, duals):
        share = dual / cost
        positive = share > 0.0
        cost, share = cost[positive], share[positive]
        scaled = scale * share
        violation = loss.conjugate_slope(scaled)
        value += number(cost @ loss.conjugate(scaled))
        slope += number(cost @ (share * violation))
        curvature += number(cost @ (share * share / loss.curvature(violation)))
    return value, slope, curvature


# ---- in the blocks


def _positive_duals(block: Block, newton: bool) -> Array:
    """The positives' duals: those of the Newton steps, or the gradient weights."""
    state = state_of(block)
    if not newton or state.newton_dual is None:
        return state.gradient_weights
    return block.arrays.maximum(state.newton_dual, 0.0)


def step_newton_dual(block: Block, step: float, threshold_change: float) -> None:
    """Update the positives' duals by the linearised equations.

    Their residual falls to rounding with every step. Duals computed from the scores are only as
    exact as the scores, which is too little where rows are very long.
    """
    state = state_of(block)
    before = state.gradient_weights if state.newton_dual is None else state.newton_dual
    change = state.hessian_weights * (threshold_change - state.score_changes[0])
    state.newton_dual = before + step * (state.gradient_weights - before + change)


@read_only
def newton_dual_sums(block: Block) -> tuple[float, float, Array]:
    """Sum, sum of squares and X+' of the positives' duals of the Newton steps."""
    duals = _positive_duals(block, True)
    product = positives_of(block).rows.combine(duals)
    return number(duals.sum()), number(duals @ (duals / block.cost)), product


@read_only
def conjugates_at_scale(
    block: Block, newton: bool, loss: Loss, scale: float
) -> tuple[float, float, float]:
    """`conjugate_sums` of the block's positives."""
    return conjugate_sums(block.cost, _positive_duals(block, newton), loss, scale)


@read_only
def max_positive_dual(block: Block, newton: bool) -> tuple[float]:
    """Greatest dual of a positive, relative to its weight."""
    return (number(block.arrays.max(_positive_duals(block, newton) / block.cost, initial=0.0)),)


def keep_dual(
    block: Block, newton: bool, scale: float, factor: float, offset: float, cap: float
) -> None:
    """Store the dual point of the best bound."""
    state, duals = state_of(block), _positive_duals(block, newton)
    of_negatives = state.working_set
    state.best_dual = BestDual(
        duals, scale, of_negatives.where, of_negatives.dual, factor, offset, cap
    )


def best_dual_parts(block: Block) -> tuple[Array, Array]:
    """The dual point of the best bound: of the positives and of the negatives."""
    best, on_negatives = state_of(block).best_dual, block.arrays.zeros(block.n_neg)
    if best is None:
        return block.arrays.zeros(block.n_pos), on_negatives
    on_negatives[best.where] = block.arrays.clip(
        best.on_negatives * best.factor + best.offset, 0.0, best.cap
    )
    return best.scale * best.on_positives, on_negatives


@read_only
def best_dual(block: Block, balance: float) -> Array:
    """The dual point of the best bound over all rows, balanced."""
    return balanced_dual(block, best_dual_parts, balance)
