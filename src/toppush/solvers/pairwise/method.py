"""A certified Newton method for the pairwise family (`problem/pairwise.py`).

The top is smoothed by mu, which falls as soon as the gradient leaves less open than the smoothing
does; each step is Newton's on the smoothed objective, halved until that falls. Every point proves a
lower bound whatever mu is. An iteration reads the data a handful of times, and takes sums over
pairs on the driver in O(rows log rows).
"""

import math
from dataclasses import replace

import numpy as np

from toppush.designs.rows import Scaling
from toppush.problem.objective import UNDERFLOWN, TopPushProblem
from toppush.problem.pairwise import PairPoint, PairwiseProblem, top_mean_of
from toppush.problem.rounding import TINY, grown
from toppush.problem.solution import Solution, Status, closed
from toppush.solvers.driver import Standing, follow, solving
from toppush.solvers.endings import attempted, better, judged, said_apart
from toppush.solvers.forms import answer_in, in_form, refine, seen
from toppush.solvers.journal import Journal, Watch
from toppush.solvers.newton.method import newton_method
from toppush.solvers.pairwise.sides import TwoSides
from toppush.solvers.pairwise.system import NewtonSystem
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
