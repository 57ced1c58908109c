"""The driver's side of the Newton method: along the central path, from a start to its end."""

from dataclasses import replace
from typing import Any

import numpy as np

from toppush.designs import Block
from toppush.problem.objective import TopPushProblem, negatives_range, top_of
from toppush.problem.solution import Solution, Status, relative_gap
from toppush.solvers.driver import Standing
from toppush.solvers.forms import Seen, answer_in
from toppush.solvers.newton import band, duals, positives, starts
from toppush.solvers.newton.beginning import Beginning
from toppush.solvers.newton.bounds import Bounds
from toppush.solvers.newton.frame import frame
from toppush.solvers.newton.preconditioner import Spread
from toppush.solvers.newton.pulls import Pulls
from toppush.solvers.newton.systems import Factored, Iterative, System, norm
from toppush.types import Array

FORMED = 1000
"""Up to this many features the Newton matrix is formed and factored."""
MOST_NEW, GROWTH = 500, 0.5
"""Negatives that enter the band in one iteration, or k if that is more; where the matrix is not
formed, or this share of the band."""
NEAR = 0.5
"""A negative this many mean slacks below the level enters the band."""
TO_BOUNDARY = 0.99
SHORT_STEP, MANY_SHORT, MAX_RESCUES = 0.03, 3, 8
PATIENCE = 40
"""Iterations without a better gap after which the solve is given up."""
MAX_REFUTED, NEARLY = 3, 3.0
"""Times that rounding may refute the bounds of a careful solve before it is given up, or of another
one with a gap of this many times tol."""
PREDICTOR_RTOL, CORRECTOR_RTOL = 0.2, 0.015


class CentralPath(Beginning):
    """Weights and three numbers on the way along the path, and the Newton matrix's parts.

    In a form that all rows asked for, every iteration takes its sums anew from the rows.
    """

    def __init__(
        self, problem: TopPushProblem, tol: float, how: Seen, start: Solution | None = None
    ) -> None:
        design = problem.design
        self.problem, self.tol, self.how, self.m = problem, tol, how, design.total_cost
        if start is not None:
            start = replace(start, weights=start.weights / how.form.scale)
        self.start = start
        formed = design.n_features <= min(FORMED, design.most_formed)
        self.bounds = Bounds(problem, tol, how)
        self.pulls = Pulls(problem, formed=formed, careful=how.final)
        self.spread = Spread()
        self.level = self.threshold = self.path = 0.0
        self.pull = 0.0
        """G, the multiplier of T: the mean slope of the loss at the solution."""
        self.n_band, self.step, self.has_stepped = 0, 1.0, False
        self.at_dual = False
        """Whether the band still has the pushes of the start's dual, and no slacks."""
        self.n_steps = self.n_short = self.n_rescues = self.n_idle = self.n_refuted = 0
        self.best_gap = self.least_complementarity = np.inf

    # ---- as every method

    def standing(self) -> Standing:
        """The best bounds, and weights and threshold for the rows as they were given."""
        best = self.bounds
        return best.upper, best.lower, *answer_in(self.how.form, best.weights, best.threshold)

    def begin(self) -> None:
        """Along the means' difference, or at a given point; the band on the central path."""
        problem, design = self.problem, self.problem.design
        weights = None if self.start is None else self.start.weights
        difference = self._mean_difference()
        usable = weights is not None and bool(design.arrays.isfinite(weights).all())
        given: Any = weights if usable else difference
        self.weights = 1.0 * given
        design.apply(positives.begin_positives, not self.pulls.formed)
        design.apply(Block.score, self.weights)
        self.threshold = problem.threshold()
        self._shorten(guess=None if usable else self._best_length())
        pushes = self._receive_dual() if usable else 0.0
        if pushes > 0.0:
            self._stretch()
        self.path = norm(self.weights)
        self._choose_band()
        pull, _ = design.sum(positives.bend_and_pull, problem.loss, self.threshold)
        self.pull = max(pull / self.m, 1e-12)
        if not (pushes > 0.0 and self._take_dual(pushes)):
            self._centre(self._first_slack(difference))
            self._certify()

    def advance(self) -> None:
        """Go one step along the central path, or back onto it after several short ones."""
        if self.at_dual:
            self._bring_inside()
        self.n_short = self.n_short + 1 if self.step < SHORT_STEP else 0
        if self.n_short >= MANY_SHORT:
            self._rescue()
        else:
            mu = self.sums.complementarity / self._n_pairs
            if self._extend_band(mu):
                self.sums = self.problem.design.sum(band.band_sums)
            try:
                self._step(mu)
            except (np.linalg.LinAlgError, ArithmeticError):
                self.step = 0.0  # singular to rounding; several such lead to a rescue
        self._certify()

    def ended(self) -> Status | None:
        """Whether the gap is closed and proven, or nothing gets better any more."""
        gap = relative_gap(self.bounds.upper, self.bounds.lower)
        centrality = self.sums.complementarity
        ahead = gap < 0.99 * self.best_gap or centrality < 0.5 * self.least_complementarity
        self.n_idle = 0 if ahead else self.n_idle + 1
        self.best_gap = min(gap, self.best_gap)
        self.least_complementarity = min(centrality, self.least_complementarity)
        if gap <= self.tol:
            return self._proven()
        hopeless = self.n_idle >= PATIENCE or self.n_rescues > MAX_RESCUES
        return Status.STALLED if hopeless or not np.isfinite(self.pull) else None

    def _proven(self) -> Status | None:
        """How the solve ends where the bounds agree; a careful one goes on if rows refute them."""
        self.bounds.settle(self.pulls, self.path, self.n_steps)
        gap = relative_gap(self.bounds.upper, self.bounds.lower)
        if gap <= self.tol:
            return Status.CONVERGED
        self.n_refuted += 1
        near = self.how.final or gap <= NEARLY * self.tol
        if not near or self.n_refuted > MAX_REFUTED:
            return Status.STALLED
        self.bounds.balance = None
        self.problem.design.apply(Block.score, self.weights)
        return None

    def solution(self, status: Status, n_iter: int) -> Solution:
        """The record of the best points, proven."""
        bounds = self.bounds
        if bounds.balance is None:
            bounds.settle(self.pulls, self.path, self.n_steps)
        upper, lower, weights, threshold = self.standing()
        self.problem.design.apply(starts.leave_dual)
        dual = self.problem.design.over_rows(duals.best_dual, bounds.balance)
        return Solution(weights, threshold, dual, upper, lower, n_iter, status)

    # ---- iteration

    def _certify(self) -> None:
        """Take the sums at the latest point and improve both bounds if they allow it."""
        design = self.problem.design
        if self.how.final:
            design.apply(Block.score, self.weights)
        self.bounds.try_weights(self.weights, guess=self.level)
        self.pulls.update(self.weights, self.threshold)
        self.sums = design.sum(band.band_sums)
        self.bounds.try_duals(self.pulls, self.sums, stepped=self.has_stepped)

    def _rescue(self) -> None:
        """Go back onto the path, each time where it is wider."""
        self.n_rescues, self.n_short, self.step = self.n_rescues + 1, 0, 1.0
        self.pull = max(self.pulls.total / self.m, 1e-12)
        gap = self.bounds.upper - self.bounds.lower
        self._centre(gap / self.pull * 0.3 * 3.0 ** (self.n_rescues - 1))

    def _extend_band(self, mu: float) -> bool:
        """Take in negatives that reach the band, the highest if there are too many."""
        design, k = self.problem.design, self.problem.k
        above = self.level - NEAR * self.n_band * mu / self.pull
        _, n_new = design.sum(band.candidates_above, above)
        most = max(MOST_NEW, k, 0 if self.pulls.formed else int(GROWTH * self.n_band))
        if n_new > most:
            high, _ = design.max(negatives_range)
            _, above = top_of(design, band.candidates, most, above, high)
            _, n_new = design.sum(band.candidates_above, above)
        if not n_new:
            return False
        least = max(self.n_band, 5.0 * n_new, 2.0 * k) * mu / self.pull
        cap = self.pull / k
        self.n_band += design.sum(band.extend_band, above, self.level, cap, mu, least)
        return True

    def _step(self, mu: float) -> None:
        """Predict with no centring, correct with as much as that shows to be needed, and go."""
        design, system = self.problem.design, self._system()
        least = 0.05 * self.tol * self.bounds.upper / self.n_band
        *_, longest = self._direction(system, least, False, PREDICTOR_RTOL)
        ahead = design.sum(band.complementarity_after, longest) / self._n_pairs
        centring = max(0.01, min(ahead / mu, 1.0) ** 2 if ahead > 0.0 else 0.0)
        goal = max(centring * mu, least)
        moves, change, longest = self._direction(system, goal, True, CORRECTOR_RTOL)
        design.apply(band.set_moves, moves)
        self._go(self._damped(min(1.0, TO_BOUNDARY * longest), change), moves, change)

    def _direction(
        self, system: System, goal: float, corrected: bool, rtol: float
    ) -> tuple[Array, Array, float]:
        """Changes of the weights and of the three numbers, and the step to the boundary."""
        problem, design, k = self.problem, self.problem.design, self.problem.k
        residual = problem.lam * self.weights - self.pulls.product / self.m + self.sums.product
        side = design.sum(band.right_side, goal, corrected)
        off_threshold = self.level + (self.sums.excess + side.excess) / k - self.threshold
        numbers = [
            self.sums.push - self.pull + side.push,
            self.pull - self.pulls.total / self.m,
            -off_threshold,
        ]
        moves, change = system.solve(-(residual + side.product), np.array(numbers), rtol)
        if not (bool(design.arrays.isfinite(moves).all()) and np.all(np.isfinite(change))):
            raise np.linalg.LinAlgError("the Newton system has no finite solution")
        rates = design.max(band.set_direction, moves, change[0], change[2] / k)
        return moves, change, 1.0 / max(*rates, 1.0)

    def _system(self) -> System:
        problem, design = self.problem, self.problem.design
        sums = design.sum(band.linearise, self.level, self.pull / problem.k)
        base = frame(design, problem.lam, problem.k, sums, self.pulls.bend_product)
        if self.pulls.formed:
            return Factored(base, self.pulls.gram.matrix, self.n_band)
        return Iterative(base, self.spread)

    def _damped(self, step: float, change: Array) -> float:
        """Halve the step while the loss's slope ends far from where the system put it."""
        design, loss = self.problem.design, self.problem.loss
        off_now = abs(self.pulls.total / self.m - self.pull)
        for _ in range(12):
            threshold = self.threshold + step * change[1]
            found = design.sum(positives.pull_after, loss, step, threshold) / self.m
            wanted = self.pull + step * change[2]
            if wanted > 0.0 and abs(found - wanted) <= max(0.5 * wanted, 2.0 * off_now):
                break
            step *= 0.5
        return step

    def _go(self, step: float, moves: Array, change: Array) -> None:
        """Take the step, here and in the blocks."""
        design, self.step = self.problem.design, step
        self.n_steps += 1
        self.weights = self.weights + step * moves
        self.path += step * norm(moves)
        self.level += step * change[0]
        self.threshold += step * change[1]
        self.pull += step * change[2]
        if self.how.final:
            design.apply(duals.step_duals, step, change[1])
            self.has_stepped = True
        design.apply(band.advance, step)
