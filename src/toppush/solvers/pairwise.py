"""A certified Newton method for the pairwise family (`problem/pairwise.py`).

The top is smoothed by mu, which falls as soon as the gradient leaves less open than the smoothing
does; each step is Newton's on the smoothed objective, halved until that falls. Every point proves a
lower bound whatever mu is. An iteration reads the data a handful of times, and takes sums over
pairs on the driver in O(rows log rows).
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from toppush.designs import Block, Design, read_only
from toppush.designs.arrays import to_host
from toppush.designs.rows import Scaling
from toppush.problem.numerics import TINY, grown
from toppush.problem.objective import UNDERFLOWN, TopPushProblem
from toppush.problem.pairwise import PairPoint, PairwiseProblem, Sides, top_mean_of
from toppush.problem.solution import Solution, Status, closed
from toppush.solvers.driver import (
    Journal,
    Standing,
    Watch,
    attempted,
    better,
    follow,
    judged,
    said_apart,
    solving,
)
from toppush.solvers.newton.interior_point import newton_method
from toppush.solvers.scaling import answer_in, in_form, refine, seen
from toppush.types import Array

FIRST_MU, WARM_MU = 0.3, 0.01
"""Smoothing to begin with, as a share of the objective: from zero, and from a solution nearby. Much
less from a neighbour's solution on a path of lams takes five times the iterations."""
SHRINK = 0.3
LEAST_MU = 1e-15
"""Share of the objective below which smoothing is rounding."""
ENOUGH, MAX_HALVINGS = 1e-4, 50
"""Part of the fall that a step promises which it must bring, and how often it is halved."""
PATIENCE = 60
"""Iterations in which the gap may stay the same."""
PAIR_ROUNDINGS = 4096
"""Roundings in a sum over pairs apart from those for each row, its polynomials' errors counted."""
ALMOST = 0.999
"""Share of tol at which the method ends: the rest is for rounding in the bounds."""


def pairwise_method(
    problem: PairwiseProblem,
    *,
    tol: float = 1e-4,
    max_iter: int = 10_000,
    start: Solution | None = None,
    watch: Watch | None = None,
) -> Solution:
    """Minimise until upper and lower bound agree to `tol`, relative to the objective."""
    if problem.k == 1:  # the loss of the greatest score is the greatest loss
        same = TopPushProblem(problem.design, problem.loss, problem.lam)
        return newton_method(same, tol=tol, max_iter=max_iter, start=start, watch=watch)
    return smoothed_newton(problem, tol=tol, max_iter=max_iter, start=start, watch=watch)


def smoothed_newton(
    problem: PairwiseProblem,
    *,
    tol: float,
    max_iter: int,
    start: Solution | None = None,
    watch: Watch | None = None,
) -> Solution:
    """The same for any k; rows that prove too little are taken in their best form."""
    with solving(problem.design, watch) as journal:
        options = {"tol": tol, "max_iter": max_iter}
        found = attempted(_in_their_form, problem, journal, **options, start=start)
        if found.status is Status.STALLED and len(journal) < max_iter and refine(problem):
            again = attempted(_in_their_form, problem, journal, **options)
            found = better(found, again, tol)
        found = said_apart(found, problem)
    return journal.settled(found)


def _in_their_form(
    problem: PairwiseProblem,
    journal: Journal,
    *,
    tol: float,
    max_iter: int,
    start: Solution | None = None,
) -> Solution:
    """Solve on the rows in the form they have; the bounds are proven anew at the end."""
    push = SmoothedPush(in_form(problem), tol, seen(problem).form, start)
    status = follow(push, journal, max_iter=max_iter)
    return judged(push.solution(status, len(journal)), tol)


class SmoothedPush:
    """The driver's side: the point, and the best bounds so far with the points that have them."""

    point: PairPoint
    gradient: Array

    def __init__(
        self, problem: PairwiseProblem, tol: float, form: Scaling, start: Solution | None
    ) -> None:
        self.problem, self.tol, self.form = problem, tol, form
        self.sides = TwoSides(problem.design)
        self.weights = np.zeros(problem.design.n_features)
        self.mu, self.stuck, self.n_quiet = FIRST_MU * problem.at_zero(), False, 0
        self.upper, self.lower = math.inf, 0.0
        if start is not None:
            self._begin_at(np.asarray(problem.design.arrays.to_host(start.weights)) / form.scale)

    def _begin_at(self, weights: Array) -> None:
        """Begin at these weights if they are better than zero."""
        point = self.problem.at(weights, self.sides.scores(weights), self.sides.cost, self.mu)
        if point.upper < self.problem.at_zero():
            self.weights, self.mu = weights, WARM_MU * point.upper

    def begin(self) -> None:
        """A first step: weights of zero rank nothing."""
        self.point = self._at(self.weights)
        self._note_bounds()
        self.upper = math.inf
        self.advance()

    def standing(self) -> Standing:
        """The best bounds, and weights and threshold for the rows as they were given."""
        weights = self.problem.design.arrays.asarray(self.best.weights)
        threshold = top_mean_of(self.best.scores[1], self.problem.k)
        return self.upper, self.lower, *answer_in(self.form, weights, threshold)

    def advance(self) -> None:
        """Smooth less if that is what keeps the bounds apart, then take a step."""
        before = self.upper - self.lower
        step = self._ahead() if self.residual <= self.point.slack else None
        if step is None:
            step = NewtonSystem(self.problem, self.sides, self.point).solve(-self.gradient)
        self._go_along(step)
        self._note_bounds()
        ahead = not math.isfinite(before) or self.upper - self.lower < 0.999 * before
        self.n_quiet = 0 if ahead else self.n_quiet + 1

    def ended(self) -> Status | None:
        """Whether the gap is closed, or nothing gets better any more."""
        if closed(self.upper, self.lower, ALMOST * self.tol):
            return Status.CONVERGED
        if self.stuck or self.n_quiet >= PATIENCE:
            return Status.STALLED
        return None

    @property
    def residual(self) -> float:
        """What the gradient leaves open between the bounds."""
        return float(self.gradient @ self.gradient) / (2.0 * self.problem.lam)

    def _at(self, weights: Array) -> PairPoint:
        return self.problem.at(weights, self.sides.scores(weights), self.sides.cost, self.mu)

    def _ahead(self) -> Array | None:
        """Smooth less, and the step that this asks for as far as shares change by their slopes.

        Shares at the new mu would jump: a step from them takes two to three times the iterations.
        """
        before, shares = self.point, self.point.top.shares_at(SHRINK)
        self._smooth_less()
        off = self.problem.lam * before.weights - self.sides.combine(*before.push_of(shares))
        step = NewtonSystem(self.problem, self.sides, replace(before, mu=self.mu)).solve(-off)
        return step if float(self.gradient @ step) < 0.0 else None

    def _smooth_less(self) -> None:
        """Lower mu; the bounds of the same weights change with it."""
        self.mu = max(SHRINK * self.mu, LEAST_MU * self.point.upper)
        point = self.point
        self.point = self.problem.at(point.weights, point.scores, self.sides.cost, self.mu)
        self._note_bounds()

    def _go_along(self, step: Array) -> None:
        """Go as far along a step as the smoothed objective falls enough."""
        here, moves = self.point, self.sides.scores(step)
        slope, size = float(self.gradient @ step), 1.0
        for _ in range(MAX_HALVINGS):
            scores = (here.scores[0] + size * moves[0], here.scores[1] + size * moves[1])
            there = self.problem.at(here.weights + size * step, scores, self.sides.cost, self.mu)
            if there.smooth <= here.smooth + ENOUGH * size * slope:
                self.point = there
                return
            size *= 0.5
        # Rounding hides the fall: the smoothed problem is solved as far as float64 goes.
        self.stuck = self.mu <= 2.0 * LEAST_MU * here.upper or self.residual > here.slack
        self._smooth_less()

    def _note_bounds(self) -> None:
        """Take the gradient here, and keep what the point proves if it is better."""
        point, lam = self.point, self.problem.lam
        self.gradient = lam * point.weights - self.sides.combine(*point.push)
        if not np.all(np.isfinite(self.gradient)):
            raise FloatingPointError("the gradient is beyond all bounds")
        if point.upper < self.upper:
            self.upper, self.best = point.upper, point
        lower = point.upper - point.slack - self.residual
        if lower > self.lower:
            self.lower, self.prover = lower, point

    # ---- the end

    def solution(self, status: Status, n_iter: int) -> Solution:
        """The record, its bounds proven anew from all rows."""
        weights = self.problem.design.arrays.asarray(self.best.weights)
        best = self._again(self.best)
        prover = best if self.lower == 0.0 or self.prover is self.best else self._again(self.prover)
        lower = self._proven(prover)
        upper = self._upper_of(best)
        if status is Status.CONVERGED and not closed(upper, lower, self.tol):
            status = Status.STALLED
        threshold = top_mean_of(best.scores[1], self.problem.k)
        m = self.problem.design.total_cost
        dual = self.sides.handed_back(*(m * abs(side) for side in prover.push))
        return Solution(
            *answer_in(self.form, weights, threshold), dual, upper, lower, n_iter, status
        )

    def _again(self, point: PairPoint) -> PairPoint:
        """The same weights with scores that owe nothing to the steps."""
        scores = self.sides.scores(point.weights)
        return self.problem.at(point.weights, scores, self.sides.cost, point.mu)

    def _upper_of(self, point: PairPoint) -> float:
        """The objective of a point, at scores that rounding has moved for the worse."""
        size = grown(len(point.weights)) * math.sqrt(float(point.weights @ point.weights))
        (positives, negatives), lengths = point.scores, self.sides.lengths()
        moved = positives - size * lengths[0] - grown(0.0), negatives + size * lengths[1]
        worst = self.problem.at(point.weights, moved, self.sides.cost, point.mu)
        return (worst.upper + worst.sums.left_out) * (1.0 + self._unit) + TINY

    @property
    def _unit(self) -> float:
        """Relative error of sums over rows; a sum over pairs is up to four of them."""
        return grown(PAIR_ROUNDINGS + 4.0 * self.sides.n_rows + self.problem.design.n_features)

    def _proven(self, point: PairPoint) -> float:
        """The lower bound of a point, less what rounding may have added to it."""
        lam, (conjugates, terms) = self.problem.lam, point.conjugates()
        push = self.sides.combine(*point.push)
        size, unit = math.sqrt(float(push @ push)), self._unit
        lengths = self.sides.lengths()
        off = unit * sum(
            float(abs(side) @ length) for side, length in zip(point.push, lengths, strict=True)
        )
        margin = unit * terms + (off * (size + 0.5 * off) + unit * size * size) / lam
        lower = conjugates - size * size / (2.0 * lam) - margin
        return lower if lower > UNDERFLOWN * self.problem.at_zero() else 0.0


MOST_FORMED = 1000
MAX_CG, RTOL = 200, 0.1
"""Steps at most, and part of the residual at which they end."""
LEAST_PIVOT = 1e-13
"""Share of the mean pivot that is added to all, for rows whose products round below zero."""


class Spread(NamedTuple):
    """X'BX over all rows, and where the rows of each kind have their weight."""

    matrix: Array
    positives: Array
    negatives: Array
    top: Array


class TwoSides:
    """Vectors of row length leave the blocks, rows never do; products are those of float64.

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
        """Rows that count."""
        return len(self._where[0]) + len(self._where[1])

    def scores(self, weights: Array) -> Sides:
        """X w."""
        return self.split(self.design.gather(_scores, self.design.arrays.asarray(weights)))

    def lengths(self) -> Sides:
        """|x| of every row."""
        return self.split(self.design.gather(_lengths))

    def combine(self, on_positives: Array, on_negatives: Array) -> Array:
        """X+'u + X-'v."""
        self.design.scatter(_receive, self.join(on_positives, on_negatives))
        return to_host(self.design.sum(_combine))

    def spread(self, on_positives: Array, on_negatives: Array, top: Array) -> Spread:
        """X'BX with weights of the positives, and of the negatives in two parts."""
        self.design.scatter(_receive, self.join(on_positives, on_negatives))
        self.design.scatter(_receive_top, self.join(0.0, top))
        return Spread(*(to_host(part) for part in self.design.sum(_spread)))

    def split(self, vector: Array) -> Sides:
        """The positives' and the negatives' entries of a vector over all rows."""
        return vector[self._where[0]], vector[self._where[1]]

    def join(self, on_positives: Array | float, on_negatives: Array | float) -> Array:
        """A vector over all rows; rows of weight zero get 0."""
        vector = np.zeros(self._n_rows)
        vector[self._where[0]], vector[self._where[1]] = on_positives, on_negatives
        return vector

    def handed_back(self, on_positives: Array, on_negatives: Array) -> Array:
        """The same as a result; empty where rows are elsewhere."""
        self.design.scatter(_receive, self.join(on_positives, on_negatives))
        return self.design.over_rows(_received)


class NewtonSystem:
    """At a point: products with the second derivative, and a solution."""

    def __init__(self, problem: PairwiseProblem, sides: TwoSides, point: PairPoint) -> None:
        self._lam, self._sides, self._point = problem.lam, sides, point
        sums, cost, shares = point.sums, sides.cost, point.top.shares
        self._bends = cost * sums.over_negatives(shares, 2), shares * sums.over_positives(cost, 2)
        self._give = point.top.give / point.mu
        self._factor = self._factored()

    def solve(self, rhs: Array) -> Array:
        """An approximate solution that lies within 90 degrees of the right side."""
        found, left = np.zeros(len(rhs)), rhs.copy()
        ahead = eased = self._eased(left)
        size = goal = float(left @ eased)
        for _ in range(MAX_CG):
            bent = self._product(ahead)
            curvature = float(ahead @ bent)
            if not (curvature > 0.0 and np.isfinite(curvature)):
                break
            found += size / curvature * ahead
            left -= size / curvature * bent
            eased = self._eased(left)
            before, size = size, float(left @ eased)
            if not size > RTOL**2 * goal:
                break
            ahead = eased + size / before * ahead
        return found

    def _product(self, vector: Array) -> Array:
        """The second derivative times a vector."""
        sums, cost, shares = self._point.sums, self._sides.cost, self._point.top.shares
        on_positives, on_negatives = self._sides.scores(vector)
        pairs = shares * sums.over_positives(cost * on_positives, 2)
        pull = self._bends[0] * on_positives - cost * sums.over_negatives(shares * on_negatives, 2)
        lift = self._bends[1] * on_negatives - pairs
        mass = float(self._give.sum())
        if mass > 0.0:
            slopes = self._point.slopes
            rise = slopes * on_negatives - sums.over_positives(cost * on_positives, 1)
            rise = self._give * (rise - float(self._give @ rise) / mass)
            lift = lift + slopes * rise
            pull = pull - cost * sums.over_negatives(rise, 1)
        return self._lam * vector + self._sides.combine(pull, lift)

    def _eased(self, vector: Array) -> Array:
        if self._factor is None:
            return vector / self._lam
        return np.asarray(cho_solve(self._factor, vector, check_finite=False))

    def _factored(self) -> Any | None:
        """The preconditioner's factor, if features are few and rounding allows one."""
        design = self._sides.design
        if design.n_features > min(MOST_FORMED, design.most_formed):
            return None
        heavy = self._give * self._point.slopes**2
        matrix = self._formed(self._sides.spread(*self._bends, heavy), float(heavy.sum()))
        pivots = np.einsum("ii->i", matrix)
        pivots += self._lam + LEAST_PIVOT * pivots.mean()
        try:
            return cho_factor(matrix, lower=True, overwrite_a=True)
        except (LinAlgError, ValueError):
            return None

    def _formed(self, spread: Spread, heavy: float) -> Array:
        """Rows around their means: of both classes for pairs, of the top for the smoothing."""
        matrix, mass = spread.matrix, float(self._bends[0].sum())
        if mass > 0.0:
            cross = np.outer(spread.positives, spread.negatives) / mass
            matrix = matrix - cross - cross.T
        if heavy > 0.0:
            matrix = matrix - np.outer(spread.top, spread.top) / heavy
        return matrix


# What follows runs in the blocks. What they receive is used by the next question and by none
# after it, so a block that is made anew need not be told again.


class Received:
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
def _lengths(block: Block) -> Array:
    return block.arrays.sqrt(block.precise_rows.squared_norms())


@read_only
def _receive(block: Block, part: Array) -> None:
    block.work.of(Received).rows = part


@read_only
def _receive_top(block: Block, part: Array) -> None:
    block.work.of(Received).top = part


@read_only
def _received(block: Block) -> Array:
    return block.work.of(Received).rows


@read_only
def _combine(block: Block) -> Array:
    return block.precise_rows.combine(_received(block))


@read_only
def _spread(block: Block) -> Spread:
    given, rows = block.work.of(Received), block.precise_rows
    on_positives, on_negatives = block.split(given.rows)
    scale = given.rows + given.top
    where = block.arrays.flatnonzero(scale)
    matrix, _ = rows.gram(where, scale[where])
    means = (block.join(on_positives, 0.0), block.join(0.0, on_negatives), given.top)
    return Spread(matrix, *rows.combine_all(*means))
