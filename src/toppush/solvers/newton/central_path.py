"""The driver's side of the Newton method: along the central path, from a start to its end."""

from dataclasses import replace
from typing import Any

import numpy as np

from toppush.designs import Block
from toppush.problem.objective import TopPushProblem, negatives_range
from toppush.problem.solution import Solution, Status, closed, relative_gap
from toppush.problem.tops import root, top_mean
from toppush.solvers.driver import Standing
from toppush.solvers.forms import Seen, answer_in
from toppush.solvers.newton import band, duals, positives, starts
from toppush.solvers.newton.bounds import Bounds
from toppush.solvers.newton.pulls import Pulls
from toppush.solvers.newton.state import MeanDifference
from toppush.solvers.newton.systems import (
    SLOW_CG,
    WITH_POSITIVES_RTOL,
    Factored,
    Iterative,
    Memory,
    System,
    few_positives,
    frame,
    norm,
)
from toppush.types import Array

FORMED = 1000
"""Up to this many features the Newton matrix is formed and factored."""
FIRST_BAND = (300, 1000)
"""Least and most negatives of the first band beyond the top ones; a 15th of all in between."""
MOST_NEW = 500
"""Negatives that enter the band in one iteration, or k if that is more."""
NEAR = 0.5
"""A negative this many mean slacks below the level enters the band."""
TO_BOUNDARY = 0.99
SPREAD = 1.0
"""First mean slack, in standard deviations of the negatives' scores."""
ABOVE = 0.3
"""First level above all scores, as a share of the first mean slack, for k = 1."""
SHORT_STEP, MANY_SHORT, MAX_RESCUES = 0.03, 3, 8
PATIENCE = 40
"""Iterations without a better gap after which the solve is given up."""
MAX_REFUTED = 3
"""Times that the rows may refute the bounds of a careful solve before it is given up."""
RESUMED_GAP = 0.1
"""Relative gap up to which a solve that is resumed begins near the end of the central path."""
STARTED_GAP, OF_GAP = 0.5, 2.0
"""Relative gap of weights and dual up to which a solve begins at both, and the share of the gap
that the products of the pairs then add up to (0.1 to 3 were tried: 0.3 to 1 are alike)."""
PREDICTOR_RTOL, CORRECTOR_RTOL = 0.2, 0.03


class CentralPath:
    """Weights and three numbers on the way along the path, and the Newton matrix's parts.

    In a form that all rows asked for, every iteration takes its sums anew from the rows.
    """

    weights: Array
    sums: band.BandSums

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
        self.memory = Memory(design.arrays, design.most_exact / 2)
        self.level = self.threshold = self.path = 0.0
        self.pull = 0.0
        """G, the multiplier of T: the mean slope of the loss at the solution."""
        self.n_band, self.step, self.has_stepped = 0, 1.0, False
        self.n_short = self.n_rescues = self.n_idle = self.n_refuted = 0
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
        design.tell(positives.begin_positives, not self.pulls.formed)
        design.tell(Block.score, self.weights)
        self._shorten(guess=None if usable else self._best_length())
        if usable and self._start_dual is not None:
            self._stretch()
        self.path = norm(self.weights)
        self._choose_band()
        pull, _ = design.sum(positives.bend_and_pull, problem.loss, problem.threshold())
        self.pull = max(pull / self.m, 1e-12)
        if not (usable and self._take_dual()):
            self._centre(self._first_slack(difference))
        self._certify()

    def advance(self) -> None:
        """Go one step along the central path, or back onto it after several short ones."""
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
        self.bounds.settle(self.pulls, self.path)
        if closed(self.bounds.upper, self.bounds.lower, self.tol):
            return Status.CONVERGED
        self.n_refuted += 1
        if not self.how.final or self.n_refuted > MAX_REFUTED:
            return Status.STALLED
        self.bounds.balance = None
        self.problem.design.tell(Block.score, self.weights)
        return None

    def solution(self, status: Status, n_iter: int) -> Solution:
        """The record of the best points, proven."""
        bounds = self.bounds
        if bounds.balance is None:
            bounds.settle(self.pulls, self.path)
        upper, lower, weights, threshold = self.standing()
        dual = self.problem.design.over_rows(duals.best_dual, bounds.balance)
        return Solution(weights, threshold, dual, upper, lower, n_iter, status)

    # ---- start

    def _mean_difference(self) -> Array:
        design = self.problem.design
        known = design.known.find(MeanDifference)
        if known is None:
            vector = design.sum(positives.mean_difference, self.m, design.n_neg)
            known = design.known.keep(MeanDifference(vector))
        return known.vector

    def _best_length(self) -> float:
        """Minimiser of the loss's parabola at 0 along the weights, against the mean negative."""
        total, squares, negatives, _ = self.problem.design.sum(positives.score_moments)
        centre = negatives / self.problem.design.n_neg
        mean = total / self.m - centre
        spread = squares / self.m - 2.0 * centre * total / self.m + centre**2
        size = self.problem.lam * float(self.weights @ self.weights)
        bend = size + self.bounds.curvature_at_zero * spread
        return self.bounds.slope_at_zero * mean / bend if bend > 0.0 else 0.0

    def _shorten(self, guess: float | None) -> None:
        """Scale the weights by the guess, and on down while the objective is far above zero's."""
        length, threshold = 1.0 if guess is None else guess, self.problem.threshold()
        size = self.problem.lam * float(self.weights @ self.weights)
        while length > 1e-300:
            if self.bounds.objective_along(length, size, threshold) <= 6.0 * self.bounds.at_zero:
                break
            length *= 0.5
        length = length if length > 1e-300 else 0.0
        self.weights = length * self.weights
        self.problem.design.tell(positives.rescale_scores, length)

    def _stretch(self) -> None:
        """Scale the weights to the best length along them, by Newton's method."""
        problem, length, threshold = self.problem, 1.0, self.problem.threshold()
        size = problem.lam * float(self.weights @ self.weights)
        for _ in range(4):
            slope, bend = problem.design.sum(starts.slope_along, problem.loss, length, threshold)
            bend = size + bend / self.m
            if not bend > 0.0:
                break
            newton = length - (size * length + slope / self.m) / bend
            length = min(max(newton, 0.3 * length), 3.0 * length)
        self.weights = length * self.weights
        problem.design.tell(positives.rescale_scores, length)

    def _choose_band(self) -> None:
        """The negatives with the best scores, and an even sample of all."""
        problem, design = self.problem, self.problem.design
        size = int(min(max(design.n_neg // 15, FIRST_BAND[0]), FIRST_BAND[1]))
        n_top = max(2 * problem.k, size // 2)
        level = -np.inf if n_top >= design.n_neg else problem.level_of_top(n_top)
        design.tell(band.choose_band, level, max(1, 2 * design.n_neg // size), problem.k > 1)
        self.n_band = design.sum(band.band_size)

    def _take_dual(self) -> bool:
        """Put the band where the start's dual has it; False if its bound is of no use.

        The old point lies at the boundary, from where steps are short: each pair is brought
        inside, to a product that the gap of the start allows.
        """
        problem, design, dual = self.problem, self.problem.design, self._start_dual
        if dual is None:
            return False
        design.scatter(starts.receive_dual, dual)
        pushes = design.sum(starts.widen_band)
        self.n_band = design.sum(band.band_size)
        if not 0.0 < pushes < np.inf:
            return False
        self.threshold = self.level = problem.threshold()
        design.tell(starts.push_as_dual, self.pull / pushes)
        self._certify()
        gap = max(self.bounds.upper - self.bounds.lower, self.tol * self.bounds.upper)
        if not gap <= STARTED_GAP * self.bounds.upper:
            return False
        self._bring_inside(OF_GAP * gap / self._n_pairs)
        return True

    @property
    def _start_dual(self) -> Array | None:
        """The dual to begin at, if there is one: rows elsewhere, and guesses, have none."""
        return self.start.dual if self.start is not None and self.start.dual.size else None

    def _bring_inside(self, mu: float) -> None:
        """Give every pair of the band the product mu, with pushes near those that it has."""
        design, k, cap = self.problem.design, self.problem.k, self.pull / self.problem.k
        if k > 1:
            self.level = self.problem.level_of_top(k)
        reach = max(self.n_band / self.pull, 4.0 / cap) * mu
        self.threshold = self.level + design.sum(starts.pair_up, self.level, mu, cap, reach) / k

    def _first_slack(self, difference: Array) -> float:
        """Mean slack to begin with: in proportion to the scores' spread or the residual.

        A solve that is resumed begins with what its gap allows, if that is less.
        """
        problem, n_neg, start = self.problem, self.problem.design.n_neg, self.start
        _, _, total, squares = problem.design.sum(positives.score_moments)
        spread = np.sqrt(max(squares / n_neg - (total / n_neg) ** 2, 0.0))
        residual = problem.lam * self.weights - self.pull * difference
        worth = min(float(residual @ residual) / (2.0 * problem.lam), self.bounds.upper) / self.pull
        slack = float(max(SPREAD * spread, SPREAD * worth, 1e-12))
        if start is None or start.status is not Status.RESUMED or start.relative_gap > RESUMED_GAP:
            return slack
        return min(slack, 0.3 * max(start.gap, self.tol * start.upper) / self.pull)

    def _centre(self, slack: float) -> None:
        """Put the band on the central path where its mean slack is about `slack`."""
        design, k = self.problem.design, self.problem.k
        high, minus_low = design.max(band.band_range)
        if k == 1:
            self.level = high + ABOVE * slack
            mu = self.pull / design.sum(band.inverse_slacks, self.level)
        else:
            mu = slack * self.pull / self.n_band
            self.level = self._centred_level(mu, -minus_low - slack * self.n_band, high + slack)
        self.threshold = self.level + design.sum(band.centre, self.level, mu, self.pull / k) / k

    def _centred_level(self, mu: float, low: float, high: float) -> float:
        """The level at which the pushes of the central path sum to the pull."""
        design, cap = self.problem.design, self.pull / self.problem.k

        def shortfall(level: float) -> tuple[float, float, float]:
            # 1/push is nearly a straight line in the level, where push is a hyperbola.
            push, fall = design.sum(band.centred_push, level, mu, cap)
            return 1.0 / self.pull - 1.0 / push, -fall / push**2, 1.0 / self.pull

        reach = high + mu * self.n_band / self.pull
        return root(shortfall, low, reach, high, tolerance=1e-3)

    # ---- iteration

    def _certify(self) -> None:
        """Take the sums at the latest point and improve both bounds if they allow it."""
        design = self.problem.design
        if self.how.final:
            design.tell(Block.score, self.weights)
        self.bounds.try_weights(self.weights, guess=self.level)
        self.pulls.update(self.weights, self.threshold)
        self.sums = design.sum(band.band_sums)
        self.bounds.try_duals(self.pulls, self.sums, stepped=self.has_stepped)

    @property
    def _n_pairs(self) -> int:
        return self.n_band if self.problem.k == 1 else 2 * self.n_band

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
        most = max(MOST_NEW, k)
        if n_new > most:
            high, _ = design.max(negatives_range)
            _, above = top_mean(
                lambda level: design.sum(band.candidates_above, level), most, above, high
            )
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
        centring = min(1.0, max(0.01, (ahead / mu) ** 2 if ahead > 0.0 else 0.0))
        goal = max(centring * mu, least)
        moves, change, longest = self._direction(system, goal, True, CORRECTOR_RTOL)
        if isinstance(system, Iterative) and system.n_steps > SLOW_CG:
            self.memory.with_positives = few_positives(design)
        design.tell(band.set_moves, moves)
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
        rtol *= WITH_POSITIVES_RTOL if self.memory.with_positives else 1.0
        moves, change = system.solve(-(residual + side.product), np.array(numbers), rtol)
        if not (bool(design.arrays.isfinite(moves).all()) and np.all(np.isfinite(change))):
            raise np.linalg.LinAlgError("the Newton system has no finite solution")
        rates = design.max(band.set_direction, moves, change[0], change[2] / k)
        return moves, change, 1.0 / max(*rates, 1.0)

    def _system(self) -> System:
        problem, design = self.problem, self.problem.design
        sums = design.sum(band.linearise, self.level, self.pull / problem.k)
        bend = design.sum(positives.used_bend_sum)
        base = frame(design, problem.lam, problem.k, sums, self.pulls.bend_product, bend)
        if self.pulls.formed:
            return Factored(base, self.pulls.gram.matrix, self.n_band)
        return Iterative(base, self.memory)

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
        self.weights = self.weights + step * moves
        self.path += step * norm(moves)
        self.level += step * change[0]
        self.threshold += step * change[1]
        self.pull += step * change[2]
        if self.how.final:
            design.tell(duals.step_duals, step, change[1])
            self.has_stepped = True
        design.tell(band.advance, step)
