"""A certified Newton method for the pairwise family (`problem/pairwise.py`).

The mean of the k greatest h_j is smoothed with a width mu. Each step is a Newton step on the
smoothed objective, halved until that objective falls enough. mu is lowered once the gradient's part
of the gap between the bounds is no greater than the part of the smoothing. Every point gives a
lower bound, whatever mu is. An iteration reads the data a few times, and takes sums over pairs on
the driver in O(rows log rows).

The second derivative of the smoothed objective is lam I and two sums:

    sum_ij p_j c_i l''_ij (x_i - z_j)(x_i - z_j)'       over the pairs
    1/mu sum_j r_j (g_j - mean g)(g_j - mean g)'        by the changes of the shares p

Here g_j is the gradient of h_j, r_j is the derivative of p_j with respect to h_j / mu, and the mean
has the weights r. Conjugate gradients solve the Newton system: a product with the matrix takes sums
over pairs and two reads of the rows. Up to `MAX_FORMED` features they are preconditioned by a
similar matrix that can be formed. In it, p_j c_i l''_ij is replaced by the product of its sums over
i and over j, divided by the sum of all, and every g_j has the same mean of the positives. One or
two steps are usual.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from toppush.designs import Block, Design, Scaling, read_only
from toppush.designs.arrays import to_host
from toppush.problem.numerics import TINY, grown
from toppush.problem.objective import MIN_BOUND, TopPushProblem
from toppush.problem.pairwise import PairPoint, PairwiseProblem, PerClass, top_mean_of
from toppush.problem.solution import Solution, Status, closed
from toppush.solvers.driver import (
    Callback,
    History,
    State,
    follow,
    mark_converged,
    row_scaling,
    scaled_problem,
    solve_with_retry,
    solving,
    unscale,
)
from toppush.solvers.newton.interior_point import newton_method
from toppush.types import Array

FIRST_MU, WARM_MU = 0.3, 0.01
"""First smoothing as a share of the objective: from zero, and from a solution nearby. Much less
from a neighbour's solution on a path of lams takes five times the iterations."""
SHRINK = 0.3
MIN_MU = 1e-15
"""Share of the objective below which smoothing is rounding."""
SUFFICIENT_DECREASE, MAX_HALVINGS = 1e-4, 50
"""Part of the predicted decrease that a step must reach, and how often it is halved."""
PATIENCE = 60
"""Iterations in which the gap may stay the same."""
PAIR_ROUNDINGS = 4096
"""Roundings in a sum over pairs besides those of each row, including the polynomials' errors."""
SHARE_OF_TOL = 0.999
"""The method ends when the gap is at most this share of tol; the rest of tol is for rounding in the
certified bounds."""
MAX_FORMED = 1000
MAX_CG, RTOL = 200, 0.1
"""Greatest number of steps, and the relative residual at which they end."""
MIN_PIVOT = 1e-13
"""Share of the mean pivot that is added to all, for rows whose products round below zero."""


def pairwise_method(
    problem: PairwiseProblem,
    *,
    tol: float = 1e-4,
    max_iter: int = 10_000,
    start: Solution | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Minimise until upper and lower bound agree to `tol`, relative to the objective."""
    if problem.k == 1:  # the loss of the greatest score is the greatest loss
        same = TopPushProblem(problem.design, problem.loss, problem.lam)
        return newton_method(same, tol=tol, max_iter=max_iter, start=start, callback=callback)
    return smoothed_newton(problem, tol=tol, max_iter=max_iter, start=start, callback=callback)


def smoothed_newton(
    problem: PairwiseProblem,
    *,
    tol: float,
    max_iter: int,
    start: Solution | None = None,
    callback: Callback | None = None,
) -> Solution:
    """The same by smoothing, for any k."""
    with solving(problem.design, callback) as history:
        solution = solve_with_retry(
            _solve_scaled,
            _solve_scaled,
            problem,
            history,
            tol=tol,
            max_iter=max_iter,
            start=start,
        )
    return history.complete(solution)


def _solve_scaled(
    problem: PairwiseProblem,
    history: History,
    *,
    tol: float,
    max_iter: int,
    start: Solution | None = None,
) -> Solution:
    """Solve on the rows in their current scaling; the bounds are certified at the end."""
    newton = SmoothedNewton(scaled_problem(problem), tol, row_scaling(problem).scaling, start)
    status = follow(newton, history, max_iter=max_iter)
    return mark_converged(newton.solution(status, len(history)), tol)


class SmoothedNewton:
    """The driver's part: the current point, and the best bounds with their points."""

    point: PairPoint
    gradient: Array

    def __init__(
        self, problem: PairwiseProblem, tol: float, scaling: Scaling, start: Solution | None
    ) -> None:
        self.problem, self.tol, self.scaling = problem, tol, scaling
        self.vectors = ClassVectors(problem.design)
        self.weights = np.zeros(problem.design.n_features)
        self.mu, self.stuck, self.n_idle = FIRST_MU * problem.at_zero(), False, 0
        self.upper, self.lower = math.inf, 0.0
        if start is not None:
            weights = np.asarray(problem.design.arrays.to_host(start.weights)) / scaling.scale
            point = self._at(weights)
            if point.upper < problem.at_zero():
                self.weights, self.mu = weights, WARM_MU * point.upper

    def begin(self) -> None:
        """Take a first step: weights of zero rank nothing."""
        self.point = self._at(self.weights)
        self._update_bounds()
        self.upper = math.inf
        self.advance()

    def state(self) -> State:
        """The best bounds, and weights and threshold for the original rows."""
        weights = self.problem.design.arrays.asarray(self.best.weights)
        threshold = top_mean_of(self.best.scores[1], self.problem.k)
        return self.upper, self.lower, *unscale(self.scaling, weights, threshold)

    def advance(self) -> None:
        """Smooth less if the smoothing has the greater part of the gap, then take a step."""
        before = self.upper - self.lower
        step = self._step_to_less_smoothing() if self.residual <= self.point.smoothing_gap else None
        if step is None:
            step = NewtonSystem(self.problem, self.vectors, self.point).solve(-self.gradient)
        self._line_search(step)
        self._update_bounds()
        progress = not math.isfinite(before) or self.upper - self.lower < 0.999 * before
        self.n_idle = 0 if progress else self.n_idle + 1

    def status(self) -> Status | None:
        """Converged if the gap is closed, stalled if nothing improves any more."""
        if closed(self.upper, self.lower, SHARE_OF_TOL * self.tol):
            return Status.CONVERGED
        if self.stuck or self.n_idle >= PATIENCE:
            return Status.STALLED
        return None

    @property
    def residual(self) -> float:
        """The part of the gap between the bounds that the gradient causes."""
        return float(self.gradient @ self.gradient) / (2.0 * self.problem.lam)

    def _at(self, weights: Array) -> PairPoint:
        scores = self.vectors.scores(weights)
        return self.problem.at(weights, scores, self.vectors.cost, self.mu)

    def _step_to_less_smoothing(self) -> Array | None:
        """Smooth less, and the step for the new mu with shares to first order in mu.

        The exact shares at the new mu differ by much: a step from them takes two to three times
        the iterations.
        """
        before, shares = self.point, self.point.top.shares_at(SHRINK)
        self._smooth_less()
        combination = self.vectors.combine(*before.gradient_weights_of(shares))
        gradient = self.problem.lam * before.weights - combination
        system = NewtonSystem(self.problem, self.vectors, replace(before, mu=self.mu))
        step = system.solve(-gradient)
        return step if float(self.gradient @ step) < 0.0 else None

    def _smooth_less(self) -> None:
        """Lower mu; the bounds of the same weights change with it."""
        self.mu = max(SHRINK * self.mu, MIN_MU * self.point.upper)
        point = self.point
        self.point = self.problem.at(point.weights, point.scores, self.vectors.cost, self.mu)
        self._update_bounds()

    def _line_search(self, step: Array) -> None:
        """Halve the step until the smoothed objective falls enough."""
        here, changes = self.point, self.vectors.scores(step)
        slope, length = float(self.gradient @ step), 1.0
        for _ in range(MAX_HALVINGS):
            scores = (here.scores[0] + length * changes[0], here.scores[1] + length * changes[1])
            weights = here.weights + length * step
            there = self.problem.at(weights, scores, self.vectors.cost, self.mu)
            if there.smooth <= here.smooth + SUFFICIENT_DECREASE * length * slope:
                self.point = there
                return
            length *= 0.5
        # Rounding hides the decrease: the smoothed problem is solved as far as float64 goes.
        self.stuck = self.mu <= 2.0 * MIN_MU * here.upper or self.residual > here.smoothing_gap
        self._smooth_less()

    def _update_bounds(self) -> None:
        """Compute the gradient, and improve both bounds by the current point if it is better."""
        point, lam = self.point, self.problem.lam
        self.gradient = lam * point.weights - self.vectors.combine(*point.gradient_weights)
        if not np.all(np.isfinite(self.gradient)):
            raise FloatingPointError("the gradient overflows")
        if point.upper < self.upper:
            self.upper, self.best = point.upper, point
        lower = point.upper - point.smoothing_gap - self.residual
        if lower > self.lower:
            self.lower, self.best_lower = lower, point

    # ---- the end

    def solution(self, status: Status, n_iter: int) -> Solution:
        """The best weights and dual, with bounds certified from all rows."""
        weights = self.problem.design.arrays.asarray(self.best.weights)
        best = lower_point = self._recomputed(self.best)
        if self.lower != 0.0 and self.best_lower is not self.best:
            lower_point = self._recomputed(self.best_lower)
        lower = self._certified_lower(lower_point)
        upper = self._certified_upper(best)
        if status is Status.CONVERGED and not closed(upper, lower, self.tol):
            status = Status.STALLED
        threshold = top_mean_of(best.scores[1], self.problem.k)
        m = self.problem.design.total_cost
        dual = self.vectors.over_rows(*(m * abs(part) for part in lower_point.gradient_weights))
        return Solution(
            *unscale(self.scaling, weights, threshold), dual, upper, lower, n_iter, status
        )

    def _recomputed(self, point: PairPoint) -> PairPoint:
        """The same point with scores computed anew from the rows."""
        scores = self.vectors.scores(point.weights)
        return self.problem.at(point.weights, scores, self.vectors.cost, point.mu)

    def _certified_upper(self, point: PairPoint) -> float:
        """The objective at scores moved by their rounding errors, in the worse direction."""
        error = grown(len(point.weights)) * math.sqrt(float(point.weights @ point.weights))
        (positives, negatives), norms = point.scores, self.vectors.row_norms()
        moved = positives - error * norms[0] - grown(0.0), negatives + error * norms[1]
        worst = self.problem.at(point.weights, moved, self.vectors.cost, point.mu)
        return (worst.upper + worst.sums.left_out) * (1.0 + self._unit) + TINY

    @property
    def _unit(self) -> float:
        """Relative error of sums over rows; a sum over pairs is up to four of them."""
        return grown(PAIR_ROUNDINGS + 4.0 * self.vectors.n_rows + self.problem.design.n_features)

    def _certified_lower(self, point: PairPoint) -> float:
        """The lower bound of a point less a bound on its rounding errors."""
        lam, (conjugates, terms) = self.problem.lam, point.conjugates()
        combination = self.vectors.combine(*point.gradient_weights)
        norm, unit = math.sqrt(float(combination @ combination)), self._unit
        norms = self.vectors.row_norms()
        error = unit * sum(
            float(abs(part) @ lengths)
            for part, lengths in zip(point.gradient_weights, norms, strict=True)
        )
        margin = unit * terms + (error * (norm + 0.5 * error) + unit * norm * norm) / lam
        lower = conjugates - norm * norm / (2.0 * lam) - margin
        return lower if lower > MIN_BOUND * self.problem.at_zero() else 0.0


class SecondMoments(NamedTuple):
    """X'BX over all rows, and weighted sums of the rows of each class and of the top."""

    matrix: Array
    positives: Array
    negatives: Array
    top: Array


class ClassVectors:
    """Vectors over the positives and the negatives on the driver; the rows stay in the blocks.

    Products are computed in float64.

    Attributes
    ----------
    cost : array
        Weights of the positives, which sum to 1.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        signs = design.gather(_signs)
        self._where = np.flatnonzero(signs > 0.0), np.flatnonzero(signs < 0.0)
        self._n_rows = len(signs)
        cost, _ = self.split(design.gather(_costs))
        self.cost = cost / cost.sum()

    @property
    def n_rows(self) -> int:
        """Rows of weight above zero."""
        return len(self._where[0]) + len(self._where[1])

    def scores(self, weights: Array) -> PerClass:
        """X w."""
        return self.split(self.design.gather(_scores, self.design.arrays.asarray(weights)))

    def row_norms(self) -> PerClass:
        """|x| of every row."""
        return self.split(self.design.gather(_row_norms))

    def combine(self, on_positives: Array, on_negatives: Array) -> Array:
        """X+'u + X-'v."""
        self.design.scatter(_receive, self.join(on_positives, on_negatives))
        return to_host(self.design.sum(_combine))

    def second_moments(self, on_positives: Array, on_negatives: Array, top: Array) -> SecondMoments:
        """X'BX with weights of the positives, and of the negatives in two parts."""
        self.design.scatter(_receive, self.join(on_positives, on_negatives))
        self.design.scatter(_receive_top, self.join(0.0, top))
        return SecondMoments(*(to_host(part) for part in self.design.sum(_second_moments)))

    def split(self, vector: Array) -> PerClass:
        """The positives' and the negatives' entries of a vector over all rows."""
        return vector[self._where[0]], vector[self._where[1]]

    def join(self, on_positives: Array | float, on_negatives: Array | float) -> Array:
        """A vector over all rows; rows of weight zero get 0."""
        vector = np.zeros(self._n_rows)
        vector[self._where[0]], vector[self._where[1]] = on_positives, on_negatives
        return vector

    def over_rows(self, on_positives: Array, on_negatives: Array) -> Array:
        """The same as a part of the solution; empty if the rows are on other machines."""
        self.design.scatter(_receive, self.join(on_positives, on_negatives))
        return self.design.over_rows(_received)


class NewtonSystem:
    """The second derivative at a point, and solutions of its linear system."""

    def __init__(self, problem: PairwiseProblem, vectors: ClassVectors, point: PairPoint) -> None:
        self._lam, self._vectors, self._point = problem.lam, vectors, point
        sums, cost, shares = point.sums, vectors.cost, point.top.shares
        self._hessian_weights = (
            cost * sums.over_negatives(shares, 2),
            shares * sums.over_positives(cost, 2),
        )
        self._rates = point.top.share_rates / point.mu
        self._factor = self._factored()

    def solve(self, rhs: Array) -> Array:
        """An approximate solution with a positive product with the right side."""
        solution, residual = np.zeros(len(rhs)), rhs.copy()
        direction = preconditioned = self._preconditioned(residual)
        residual_product = goal = float(residual @ preconditioned)
        for _ in range(MAX_CG):
            product = self._product(direction)
            curvature = float(direction @ product)
            if not (curvature > 0.0 and np.isfinite(curvature)):
                break
            solution += residual_product / curvature * direction
            residual -= residual_product / curvature * product
            preconditioned = self._preconditioned(residual)
            before, residual_product = residual_product, float(residual @ preconditioned)
            if not residual_product > RTOL**2 * goal:
                break
            direction = preconditioned + residual_product / before * direction
        return solution

    def _product(self, vector: Array) -> Array:
        """The second derivative times a vector."""
        sums, cost, shares = self._point.sums, self._vectors.cost, self._point.top.shares
        on_positives, on_negatives = self._vectors.scores(vector)
        pairs = shares * sums.over_positives(cost * on_positives, 2)
        of_positives, of_negatives = self._hessian_weights
        up = of_positives * on_positives - cost * sums.over_negatives(shares * on_negatives, 2)
        down = of_negatives * on_negatives - pairs
        mass = float(self._rates.sum())
        if mass > 0.0:
            slopes = self._point.slopes
            rise = slopes * on_negatives - sums.over_positives(cost * on_positives, 1)
            rise = self._rates * (rise - float(self._rates @ rise) / mass)
            down = down + slopes * rise
            up = up - cost * sums.over_negatives(rise, 1)
        return self._lam * vector + self._vectors.combine(up, down)

    def _preconditioned(self, vector: Array) -> Array:
        if self._factor is None:
            return vector / self._lam
        return np.asarray(cho_solve(self._factor, vector, check_finite=False))

    def _factored(self) -> Any | None:
        """The preconditioner's factor, if features are few and rounding allows one."""
        design = self._vectors.design
        if design.n_features > min(MAX_FORMED, design.most_formed):
            return None
        top = self._rates * self._point.slopes**2
        moments = self._vectors.second_moments(*self._hessian_weights, top)
        matrix, mass, top_mass = (
            moments.matrix,
            float(self._hessian_weights[0].sum()),
            float(top.sum()),
        )
        if mass > 0.0:
            cross = np.outer(moments.positives, moments.negatives) / mass
            matrix = matrix - cross - cross.T
        if top_mass > 0.0:
            matrix = matrix - np.outer(moments.top, moments.top) / top_mass
        pivots = np.einsum("ii->i", matrix)
        pivots += self._lam + MIN_PIVOT * pivots.mean()
        try:
            return cho_factor(matrix, lower=True, overwrite_a=True)
        except (LinAlgError, ValueError):
            return None


# What follows runs in the blocks. The next question uses what they receive and no later one, so
# that a block created anew need not receive it again.


class ReceivedVectors:
    """A block's part of vectors over all rows."""

    rows: Array
    top: Array


@read_only
def _signs(block: Block) -> Array:
    return block.join(1.0, -1.0)


@read_only
def _costs(block: Block) -> Array:
    return block.join(block.cost, 0.0)


@read_only
def _scores(block: Block, weights: Array) -> Array:
    return block.precise_rows.scores(weights)


@read_only
def _row_norms(block: Block) -> Array:
    return block.arrays.sqrt(block.precise_rows.squared_norms())


@read_only
def _receive(block: Block, part: Array) -> None:
    block.work.of(ReceivedVectors).rows = part


@read_only
def _receive_top(block: Block, part: Array) -> None:
    block.work.of(ReceivedVectors).top = part


@read_only
def _received(block: Block) -> Array:
    return block.work.of(ReceivedVectors).rows


@read_only
def _combine(block: Block) -> Array:
    return block.precise_rows.combine(_received(block))


@read_only
def _second_moments(block: Block) -> SecondMoments:
    received, rows = block.work.of(ReceivedVectors), block.precise_rows
    on_positives, on_negatives = block.split(received.rows)
    weights = received.rows + received.top
    where = block.arrays.flatnonzero(weights)
    matrix, _ = rows.gram(where, weights[where])
    sums = (block.join(on_positives, 0.0), block.join(0.0, on_negatives), received.top)
    return SecondMoments(matrix, *rows.combine_all(*sums))
