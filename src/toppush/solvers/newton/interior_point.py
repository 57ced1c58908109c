"""A certified Newton method for the whole family: any k, any loss.

The threshold T(w) = min over s of s + 1/k sum_j (w.z_j - s)_+ turns the problem into a smooth
one in (w, s, T) with linear constraints, one pair for each negative:

    min lam/2 |w|^2 + 1/m sum_i c_i l(T - w.x_i),   T = s + 1/k sum_j xi_j,
    xi_j >= 0,  xi_j >= w.z_j - s

An interior-point method (Mehrotra's predictor and corrector) follows its central path. Only
negatives near the top can hold a constraint, so it works on a band of them and looks through
all the others once per iteration for any that belong in it. The loss enters by its second
derivative, exact for the truncated quadratic one. An iteration reads the data once for the
scores, and in part for what changed in the Newton matrix.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from toppush.designs import Block
from toppush.problem.numerics import root
from toppush.problem.objective import TopPushProblem, negatives_range, top_of
from toppush.problem.solution import Solution, Status, relative_gap
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
from toppush.solvers.newton import positives, working_set
from toppush.solvers.newton.bounds import Bounds, best_dual, step_duals
from toppush.solvers.newton.dense_fallback import fits_driver, solve_dense
from toppush.solvers.newton.kkt import Factored, Iterative, Spread, System, frame, norm
from toppush.solvers.newton.positives import Pulls
from toppush.solvers.newton.state import MeanDifference
from toppush.solvers.scaling import Seen, answer_in, in_form, refine, seen
from toppush.types import Array


def newton_method(
    problem: TopPushProblem,
    *,
    tol: float = 1e-4,
    max_iter: int = 10_000,
    start: Solution | None = None,
    watch: Watch | None = None,
) -> Solution:
    """Minimise until upper and lower bound agree to `tol`, relative to the objective."""
    with solving(problem.design, watch) as journal:
        found = _proven(problem, journal, tol=tol, max_iter=max_iter, start=start)
    return journal.settled(found)


def _proven(
    problem: TopPushProblem, journal: Journal, *, tol: float, max_iter: int, start: Solution | None
) -> Solution:
    """Solve on the rows as they are, and where that proves too little in their best form."""
    found = attempted(_along_path, problem, journal, tol=tol, max_iter=max_iter, start=start)
    if found.status is Status.STALLED and len(journal) < max_iter and refine(problem):
        careful = solve_dense if fits_driver(problem.design) else _along_path
        again = attempted(careful, problem, journal, tol=tol, max_iter=max_iter)
        found = better(found, again, tol)
    return said_apart(found, problem)


def _along_path(
    problem: TopPushProblem,
    journal: Journal,
    *,
    tol: float,
    max_iter: int,
    start: Solution | None = None,
) -> Solution:
    """Solve on the rows in the form they have; the bounds are proven anew at the end."""
    how = seen(problem)
    path = CentralPath(in_form(problem), tol, how, start)
    status = follow(path, journal, max_iter=max_iter)
    return judged(path.solution(status, len(journal)), tol)


FIRST_BAND = (300, 1000)
"""Least and most negatives of the first band beyond the top ones; a 15th of all in between."""
SPREAD = 1.0
"""First mean slack, in standard deviations of the negatives' scores."""
ABOVE = 0.3
"""First level above all scores, as a share of the first mean slack, for k = 1."""
STRETCHES = 2
"""Newton steps to the best length of the weights of a start."""
STARTED_GAP, OF_GAP = 0.5, (1.0, 4.0)
"""Relative gap of weights and dual up to which a solve begins at both, and what the products of all
pairs then add up to, in gaps, for k = 1 and above (0.3 to 10 were tried on paths of six sets)."""
WIDEST = 0.5
"""Most spreads of the negatives' scores that the mean slack of a start may be. A wider one took a
third of w8a's negatives into the working set."""
FORMED = 1000
"""Up to this many features the Newton matrix is formed and factored."""
MOST_NEW, GROWTH = 500, 0.5
"""Negatives that enter the band in one iteration, or k if that is more; where the matrix is not
formed, or this share of the working set."""
NEAR = 0.5
"""A negative this many mean slacks below the level enters the working set."""
TO_BOUNDARY = 0.99
SHORT_STEP, MANY_SHORT, MAX_RESCUES = 0.03, 3, 8
PATIENCE = 40
"""Iterations without a better gap after which the solve is given up."""
MAX_REFUTED, NEARLY = 3, 3.0
"""Times that rounding may refute the bounds of a careful solve before it is given up, or of another
one with a gap of this many times tol."""
PREDICTOR_RTOL, CORRECTOR_RTOL = 0.2, 0.015


class CentralPath:
    """Weights and three numbers on the way along the path, and the Newton matrix's parts.

    In a form that all rows asked for, every iteration takes its sums anew from the rows.
    """

    sums: working_set.BandSums

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
                self.sums = self.problem.design.sum(working_set.band_sums)
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
        self.problem.design.apply(working_set.leave_dual)
        dual = self.problem.design.over_rows(best_dual, bounds.balance)
        return Solution(weights, threshold, dual, upper, lower, n_iter, status)

    # ---- iteration

    def _certify(self) -> None:
        """Take the sums at the latest point and improve both bounds if they allow it."""
        design = self.problem.design
        if self.how.final:
            design.apply(Block.score, self.weights)
        self.bounds.try_weights(self.weights, guess=self.level)
        self.pulls.update(self.weights, self.threshold)
        self.sums = design.sum(working_set.band_sums)
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
        _, n_new = design.sum(working_set.candidates_above, above)
        most = max(MOST_NEW, k, 0 if self.pulls.formed else int(GROWTH * self.n_band))
        if n_new > most:
            high, _ = design.max(negatives_range)
            _, above = top_of(design, working_set.candidates, most, above, high)
            _, n_new = design.sum(working_set.candidates_above, above)
        if not n_new:
            return False
        least = max(self.n_band, 5.0 * n_new, 2.0 * k) * mu / self.pull
        cap = self.pull / k
        self.n_band += design.sum(working_set.extend_band, above, self.level, cap, mu, least)
        return True

    def _step(self, mu: float) -> None:
        """Predict with no centring, correct with as much as that shows to be needed, and go."""
        design, system = self.problem.design, self._system()
        least = 0.05 * self.tol * self.bounds.upper / self.n_band
        *_, longest = self._direction(system, least, False, PREDICTOR_RTOL)
        ahead = design.sum(working_set.complementarity_after, longest) / self._n_pairs
        centring = max(0.01, min(ahead / mu, 1.0) ** 2 if ahead > 0.0 else 0.0)
        goal = max(centring * mu, least)
        moves, change, longest = self._direction(system, goal, True, CORRECTOR_RTOL)
        design.apply(working_set.set_moves, moves)
        self._go(self._damped(min(1.0, TO_BOUNDARY * longest), change), moves, change)

    def _direction(
        self, system: System, goal: float, corrected: bool, rtol: float
    ) -> tuple[Array, Array, float]:
        """Changes of the weights and of the three numbers, and the step to the boundary."""
        problem, design, k = self.problem, self.problem.design, self.problem.k
        residual = problem.lam * self.weights - self.pulls.product / self.m + self.sums.product
        side = design.sum(working_set.right_side, goal, corrected)
        off_threshold = self.level + (self.sums.excess + side.excess) / k - self.threshold
        numbers = [
            self.sums.push - self.pull + side.push,
            self.pull - self.pulls.total / self.m,
            -off_threshold,
        ]
        moves, change = system.solve(-(residual + side.product), np.array(numbers), rtol)
        if not (bool(design.arrays.isfinite(moves).all()) and np.all(np.isfinite(change))):
            raise np.linalg.LinAlgError("the Newton system has no finite solution")
        rates = design.max(working_set.set_direction, moves, change[0], change[2] / k)
        return moves, change, 1.0 / max(*rates, 1.0)

    def _system(self) -> System:
        problem, design = self.problem, self.problem.design
        sums = design.sum(working_set.linearise, self.level, self.pull / problem.k)
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
            design.apply(step_duals, step, change[1])
            self.has_stepped = True
        design.apply(working_set.advance, step)

    # ---- the first point

    @property
    def _n_pairs(self) -> int:
        return self.n_band if self.problem.k == 1 else 2 * self.n_band

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
        spread = squares / self.m - 2.0 * centre * total / self.m + centre * centre
        size = self.problem.lam * float(self.weights @ self.weights)
        bend = size + self.bounds.curvature_at_zero * spread
        return self.bounds.slope_at_zero * mean / bend if bend > 0.0 else 0.0

    def _shorten(self, guess: float | None) -> None:
        """Scale the weights by the guess, and on down while the objective is far above zero's."""
        length, most = 1.0 if guess is None else guess, 6.0 * self.bounds.at_zero
        size = self.problem.lam * float(self.weights @ self.weights)
        while length > 1e-300:
            if self.bounds.objective_along(length, size, self.threshold) <= most:
                break
            length *= 0.5
        self._rescale(length if length > 1e-300 else 0.0)

    def _rescale(self, length: float) -> None:
        """Multiply the weights, and with them all scores and their threshold."""
        self.weights, self.threshold = length * self.weights, length * self.threshold
        self.problem.design.apply(positives.rescale_scores, length)

    def _stretch(self) -> None:
        """Scale the weights to the best length along them, by Newton's method."""
        design, loss, length = self.problem.design, self.problem.loss, 1.0
        size = self.problem.lam * float(self.weights @ self.weights)
        for _ in range(STRETCHES):
            slope, bend = design.sum(working_set.slope_along, loss, length, self.threshold)
            bend = size + bend / self.m
            if not bend > 0.0:
                break
            newton = length - (size * length + slope / self.m) / bend
            length = min(max(newton, 0.3 * length), 3.0 * length)
        self._rescale(length)

    def _choose_band(self) -> None:
        """The negatives with the best scores, and an even sample of all."""
        problem, design = self.problem, self.problem.design
        size = int(min(max(design.n_neg // 15, FIRST_BAND[0]), FIRST_BAND[1]))
        n_top, stride = max(2 * problem.k, size // 2), max(1, 2 * design.n_neg // size)
        everything = n_top >= design.n_neg or stride == 1
        level = -np.inf if everything else problem.level_of_top(n_top)
        design.apply(working_set.choose_band, level, stride, problem.k > 1)
        self.n_band = design.sum(working_set.band_size)

    def _receive_dual(self) -> float:
        """Hand the blocks the start's dual, or let them take what the last solve left there.

        Returns the sum of the negatives' part, 0 if it is of no use.
        """
        design, dual = self.problem.design, None if self.start is None else self.start.dual
        if dual is not None and dual.size:
            design.scatter(working_set.receive_dual, dual)
        else:
            design.apply(working_set.recall_dual)
        total: float = design.sum(working_set.sum_of_start)
        return total if total < np.inf else 0.0

    def _take_dual(self, total: float) -> bool:
        """Take the bounds of weights and dual, of which that is the sum; False if they are far."""
        self.level = self.threshold
        self.problem.design.apply(working_set.push_as_dual, self.pull / total)
        self._certify()
        self.at_dual = relative_gap(self.bounds.upper, self.bounds.lower) <= STARTED_GAP
        return self.at_dual

    def _bring_inside(self) -> None:
        """Bring the pairs of the band, at the boundary where steps are short, to equal products.

        Pushes stay near those of the dual; the products are what the gap of the start allows.
        """
        design, k, cap = self.problem.design, self.problem.k, self.pull / self.problem.k
        most = WIDEST * self._spread() * self.pull
        mu = min(OF_GAP[k > 1] * (self.bounds.upper - self.bounds.lower), most) / self._n_pairs
        if k > 1:
            self.level = self.problem.level_of_top(k)
        reach = max(self.n_band / self.pull, 4.0 / cap) * mu
        self.threshold = (
            self.level + design.sum(working_set.pair_up, self.level, mu, cap, reach) / k
        )
        self.pulls.update(self.weights, self.threshold)
        self.sums, self.at_dual = design.sum(working_set.band_sums), False
        self.least_complementarity = np.inf

    def _spread(self) -> float:
        """Standard deviation of the negatives' scores."""
        n_neg = self.problem.design.n_neg
        _, _, total, squares = self.problem.design.sum(positives.score_moments)
        mean = total / n_neg
        return float(np.sqrt(max(squares / n_neg - mean * mean, 0.0)))

    def _first_slack(self, difference: Array) -> float:
        """Mean slack to begin with: in proportion to the scores' spread or the residual."""
        problem, spread = self.problem, self._spread()
        residual = problem.lam * self.weights - self.pull * difference
        worth = min(float(residual @ residual) / (2.0 * problem.lam), self.bounds.upper) / self.pull
        return float(max(SPREAD * spread, SPREAD * worth, 1e-12))

    def _centre(self, slack: float) -> None:
        """Put the band on the central path where its mean slack is about `slack`."""
        design, k = self.problem.design, self.problem.k
        high, minus_low = design.max(working_set.band_range)
        if k == 1:
            self.level = high + ABOVE * slack
            mu = self.pull / design.sum(working_set.inverse_slacks, self.level)
        else:
            mu = slack * self.pull / self.n_band
            self.level = self._centred_level(mu, -minus_low - slack * self.n_band, high + slack)
        self.threshold = (
            self.level + design.sum(working_set.centre, self.level, mu, self.pull / k) / k
        )

    def _centred_level(self, mu: float, low: float, high: float) -> float:
        """The level at which the pushes of the central path sum to the pull."""
        design, cap = self.problem.design, self.pull / self.problem.k

        def shortfall(level: float) -> tuple[float, float, float]:
            # 1/push is nearly a straight line in the level, where push is a hyperbola.
            push, fall = design.sum(working_set.centred_push, level, mu, cap)
            return 1.0 / self.pull - 1.0 / push, -fall / (push * push), 1.0 / self.pull

        reach = high + mu * self.n_band / self.pull
        return root(shortfall, low, reach, high, tolerance=1e-3)
