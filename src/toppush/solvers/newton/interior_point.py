"""The certified Newton method "newton", for any k and any loss.

The threshold T(w) = min over s of s + 1/k sum_j (w.z_j - s)_+ makes the problem smooth in (w, s, T)
with linear constraints, one pair for each negative:

    min lam/2 |w|^2 + 1/m sum_i c_i l(T - w.x_i),   T = s + 1/k sum_j xi_j,
    xi_j >= 0,  xi_j >= w.z_j - s

An interior-point method (Mehrotra's predictor and corrector) follows its central path. Only
negatives near the top can have an active constraint, so the method keeps a working set of them and
checks the scores of all others once per iteration. The loss enters by its second derivative, exact
for the truncated quadratic loss. An iteration reads the data once for the scores, and in part for
what changed in the Newton matrix.
"""

from dataclasses import replace

import numpy as np

from toppush.designs import Block
from toppush.problem.numerics import root
from toppush.problem.objective import TopPushProblem, negatives_range, top_of
from toppush.problem.solution import Solution, Status, relative_gap
from toppush.solvers.driver import (
    Callback,
    History,
    RowScaling,
    State,
    follow,
    mark_converged,
    row_scaling,
    scaled_problem,
    solve_with_retry,
    solving,
    unscale,
)
from toppush.solvers.newton import positives, working_set
from toppush.solvers.newton.bounds import Bounds, best_dual, step_newton_dual
from toppush.solvers.newton.dense_fallback import fits_driver, solve_dense
from toppush.solvers.newton.kkt import (
    Factored,
    Iterative,
    PreconditionerDiagonal,
    kkt_blocks,
    norm,
)
from toppush.solvers.newton.positives import PositiveSums
from toppush.solvers.newton.state import MeanDifference
from toppush.types import Array

FIRST_WORKING_SET = (300, 1000)
"""Least and greatest size of the first working set beyond the top; a 15th of all in between."""
FIRST_SLACK = 1.0
"""First mean slack, in standard deviations of the negatives' scores."""
ABOVE = 0.3
"""First level above all scores, as a share of the first mean slack, for k = 1."""
START_STEPS = 2
"""Newton steps to the best length of the weights of a start."""
MAX_START_GAP, START_PRODUCTS = 0.5, (1.0, 4.0)
"""Relative gap of a start up to which its dual is used, and the sum of all products then, relative
to the gap, for k = 1 and for k > 1 (0.3 to 10 were tried on paths of six data sets)."""
MAX_START_SLACK = 0.5
"""Greatest mean slack of a start, in standard deviations of the negatives' scores. A greater one
took a third of w8a's negatives into the working set."""
FORMED = 1000
"""Up to this many features the Newton matrix is formed and factored."""
MAX_NEW, MAX_GROWTH = 500, 0.5
"""At most max(MAX_NEW, k) negatives enter the working set in an iteration. Where the Newton matrix
is not formed, the limit is at least MAX_GROWTH times the size of the set."""
NEAR = 0.5
"""A negative this many mean slacks below the level enters the working set."""
TO_BOUNDARY = 0.99
SHORT_STEP, MAX_SHORT_STEPS, MAX_RESCUES = 0.03, 3, 8
PATIENCE = 40
"""Iterations without a better gap after which the solve stalls."""
MAX_REFUTED, NEAR_TOL = 3, 3.0
"""Bounds that agree to tol are certified. If the certified gap is greater than tol, the solve goes
on, at most MAX_REFUTED times. On rows whose scaling is not exact it goes on only if that gap is at
most NEAR_TOL times tol. Otherwise it stalls."""
PREDICTOR_RTOL, CORRECTOR_RTOL = 0.2, 0.015
MIN_MULTIPLIER = 1e-12


def newton_method(
    problem: TopPushProblem,
    *,
    tol: float = 1e-4,
    max_iter: int = 10_000,
    start: Solution | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Minimise until upper and lower bound agree to `tol`, relative to the objective."""
    with solving(problem.design, callback) as history:
        solution = solve_with_retry(
            _solve_scaled,
            _solve_carefully,
            problem,
            history,
            tol=tol,
            max_iter=max_iter,
            start=start,
        )
    return history.complete(solution)


def _solve_scaled(
    problem: TopPushProblem,
    history: History,
    *,
    tol: float,
    max_iter: int,
    start: Solution | None = None,
) -> Solution:
    """Follow the central path on the rows in their current scaling."""
    path = InteriorPoint(scaled_problem(problem), tol, row_scaling(problem), start)
    status = follow(path, history, max_iter=max_iter)
    return mark_converged(path.solution(status, len(history)), tol)


def _solve_carefully(
    problem: TopPushProblem, history: History, *, tol: float, max_iter: int
) -> Solution:
    """The same on the driver, if the rows are few enough for it."""
    solve = solve_dense if fits_driver(problem.design) else _solve_scaled
    return solve(problem, history, tol=tol, max_iter=max_iter)


class InteriorPoint:
    """The driver's part of the method; the blocks hold all vectors of row length.

    With an exact scaling every iteration computes its sums anew from the rows.

    Attributes
    ----------
    weights : array
    level, threshold : float
        s and T.
    multiplier : float
        G, the multiplier of T: the mean slope of the loss at the solution.
    n_working : int
        Negatives in the working set.
    path_length : float
        Distance that the weights have moved.
    """

    weights: Array
    sums: working_set.WorkingSums

    def __init__(
        self,
        problem: TopPushProblem,
        tol: float,
        scaling: RowScaling,
        start: Solution | None = None,
    ) -> None:
        design = problem.design
        self.problem, self.tol, self.scaling, self.m = problem, tol, scaling, design.total_cost
        if start is not None:
            start = replace(start, weights=start.weights / scaling.scaling.scale)
        self.start = start
        formed = design.n_features <= min(FORMED, design.most_formed)
        self.bounds = Bounds(problem, tol, scaling)
        self.positive_sums = PositiveSums(problem, formed=formed, recompute=scaling.is_exact)
        self.diagonal = None if formed else PreconditionerDiagonal()
        self.level = self.threshold = self.multiplier = self.path_length = 0.0
        self.n_working, self.step, self.has_newton_dual = 0, 1.0, False
        self.at_start_dual = False
        """Whether the working set still has the duals of the start, and no slacks."""
        self.n_steps = self.n_short = self.n_rescues = self.n_idle = self.n_refuted = 0
        self.best_gap = self.least_complementarity = np.inf

    # ---- the `Method` protocol

    def begin(self) -> None:
        """Begin at the start, or along the difference of the class means."""
        problem, design = self.problem, self.problem.design
        known = design.known.find(MeanDifference)
        if known is None:
            vector = design.sum(positives.mean_difference, self.m, design.n_neg)
            known = design.known.keep(MeanDifference(vector))
        difference = known.vector
        usable = self.start is not None and bool(design.arrays.isfinite(self.start.weights).all())
        first = self.start.weights if self.start is not None and usable else difference
        self.weights = 1.0 * first
        design.apply(positives.begin_positives, not self.positive_sums.formed)
        design.apply(Block.score, self.weights)
        self.threshold = problem.threshold()
        self._shorten(guess=None if usable else self._best_length())
        dual_sum = self._receive_dual() if usable else 0.0
        if dual_sum > 0.0:
            self._optimise_length()
        self.path_length = norm(self.weights)
        self._choose_working_set()
        slopes, _ = design.sum(positives.set_loss_weights, problem.loss, self.threshold)
        self.multiplier = max(slopes / self.m, MIN_MULTIPLIER)
        if not (dual_sum > 0.0 and self._use_start_dual(dual_sum)):
            self._centre(self._first_slack(difference))
            self._update_bounds()

    def advance(self) -> None:
        """Take one step along the central path, or return to it after several short ones."""
        if self.at_start_dual:
            self._move_into_interior()
        self.n_short = self.n_short + 1 if self.step < SHORT_STEP else 0
        if self.n_short >= MAX_SHORT_STEPS:
            self._rescue()
        else:
            mu = self.sums.complementarity / self._n_pairs
            if self._extend_working_set(mu):
                self.sums = self.problem.design.sum(working_set.working_sums)
            try:
                self._take_step(mu)
            except (np.linalg.LinAlgError, ArithmeticError):
                self.step = 0.0  # numerically singular; several such steps lead to a rescue
        self._update_bounds()

    def state(self) -> State:
        """The best bounds, and weights and threshold for the original rows."""
        best = self.bounds
        answer = unscale(self.scaling.scaling, best.weights, best.threshold)
        return best.upper, best.lower, *answer

    def status(self) -> Status | None:
        """Converged if the certified gap is closed, stalled if nothing improves any more."""
        gap = relative_gap(self.bounds.upper, self.bounds.lower)
        complementarity = self.sums.complementarity
        progress = gap < 0.99 * self.best_gap or complementarity < 0.5 * self.least_complementarity
        self.n_idle = 0 if progress else self.n_idle + 1
        self.best_gap = min(gap, self.best_gap)
        self.least_complementarity = min(complementarity, self.least_complementarity)
        if gap <= self.tol:
            return self._certified_status()
        stalled = self.n_idle >= PATIENCE or self.n_rescues > MAX_RESCUES
        return Status.STALLED if stalled or not np.isfinite(self.multiplier) else None

    def _certified_status(self) -> Status | None:
        """The status once the bounds agree; None if certifying reopens a gap that may close."""
        self._certify()
        gap = relative_gap(self.bounds.upper, self.bounds.lower)
        if gap <= self.tol:
            return Status.CONVERGED
        self.n_refuted += 1
        near = self.scaling.is_exact or gap <= NEAR_TOL * self.tol
        if not near or self.n_refuted > MAX_REFUTED:
            return Status.STALLED
        self.bounds.balance = None
        self.problem.design.apply(Block.score, self.weights)
        return None

    def solution(self, status: Status, n_iter: int) -> Solution:
        """The best weights and the best dual with certified bounds."""
        if self.bounds.balance is None:
            self._certify()
        upper, lower, weights, threshold = self.state()
        self.problem.design.apply(working_set.store_final_dual)
        dual = self.problem.design.over_rows(best_dual, self.bounds.balance)
        return Solution(weights, threshold, dual, upper, lower, n_iter, status)

    # ---- one iteration

    @property
    def _n_pairs(self) -> int:
        return self.n_working if self.problem.k == 1 else 2 * self.n_working

    def _certify(self) -> None:
        self.bounds.certify(self.positive_sums, self.path_length, self.n_steps)

    def _update_bounds(self) -> None:
        """Compute the sums at the current point, and improve both bounds if they allow it."""
        design = self.problem.design
        if self.scaling.is_exact:
            design.apply(Block.score, self.weights)
        self.bounds.try_weights(self.weights, guess=self.level)
        self.positive_sums.update(self.weights, self.threshold)
        self.sums = design.sum(working_set.working_sums)
        self.bounds.try_duals(self.positive_sums, self.sums, has_newton_dual=self.has_newton_dual)

    def _rescue(self) -> None:
        """Return to the central path, each time at a greater mu."""
        self.n_rescues, self.n_short, self.step = self.n_rescues + 1, 0, 1.0
        self.multiplier = max(self.positive_sums.total / self.m, MIN_MULTIPLIER)
        gap = self.bounds.upper - self.bounds.lower
        self._centre(gap / self.multiplier * 0.3 * 3.0 ** (self.n_rescues - 1))

    def _extend_working_set(self, mu: float) -> bool:
        """Add negatives near the level, those of the highest scores if there are too many."""
        design, k = self.problem.design, self.problem.k
        above = self.level - NEAR * self.n_working * mu / self.multiplier
        _, n_new = design.sum(working_set.candidates_above, above)
        growth = 0 if self.positive_sums.formed else int(MAX_GROWTH * self.n_working)
        most = max(MAX_NEW, k, growth)
        if n_new > most:
            high, _ = design.max(negatives_range)
            _, above = top_of(design, working_set.candidates, most, above, high)
            _, n_new = design.sum(working_set.candidates_above, above)
        if not n_new:
            return False
        min_slack = max(self.n_working, 5.0 * n_new, 2.0 * k) * mu / self.multiplier
        cap = self.multiplier / k
        self.n_working += design.sum(
            working_set.extend_working_set, above, self.level, cap, mu, min_slack
        )
        return True

    def _take_step(self, mu: float) -> None:
        """Predict without centring, correct with as much centring as that needs, and move."""
        design, system = self.problem.design, self._system()
        least = 0.05 * self.tol * self.bounds.upper / self.n_working
        *_, longest = self._direction(system, least, False, PREDICTOR_RTOL)
        ahead = design.sum(working_set.complementarity_after, longest) / self._n_pairs
        centring = max(0.01, min(ahead / mu, 1.0) ** 2 if ahead > 0.0 else 0.0)
        target = max(centring * mu, least)
        weights, border_changes, longest = self._direction(system, target, True, CORRECTOR_RTOL)
        design.apply(working_set.set_score_changes, weights)
        self.step = step = self._damped(min(1.0, TO_BOUNDARY * longest), border_changes)
        self.n_steps += 1
        self.weights = self.weights + step * weights
        self.path_length += step * norm(weights)
        self.level += step * border_changes[0]
        self.threshold += step * border_changes[1]
        self.multiplier += step * border_changes[2]
        if self.scaling.is_exact:
            design.apply(step_newton_dual, step, border_changes[1])
            self.has_newton_dual = True
        design.apply(working_set.advance, step)

    def _system(self) -> Factored | Iterative:
        problem, design, sums = self.problem, self.problem.design, self.positive_sums
        of_negatives = design.sum(working_set.linearise, self.level, self.multiplier / problem.k)
        blocks = kkt_blocks(design, problem.lam, problem.k, of_negatives, sums.hessian_sum)
        if self.diagonal is None:
            return Factored(blocks, sums.gram.matrix, self.n_working)
        return Iterative(blocks, self.diagonal)

    def _direction(
        self, system: Factored | Iterative, mu: float, correct: bool, rtol: float
    ) -> tuple[Array, Array, float]:
        """Changes of the weights and of (s, T, G), and the step to the boundary."""
        problem, design, k = self.problem, self.problem.design, self.problem.k
        sums = self.positive_sums
        residual = problem.lam * self.weights - sums.gradient_sum / self.m + self.sums.product
        right = design.sum(working_set.set_right_side, mu, correct)
        threshold_residual = self.level + (self.sums.excess + right.excess) / k - self.threshold
        border_rhs = np.array(
            [
                self.sums.dual - self.multiplier + right.dual,
                self.multiplier - sums.total / self.m,
                -threshold_residual,
            ]
        )
        weights, border_changes = system.solve(-(residual + right.product), border_rhs, rtol)
        finite = bool(design.arrays.isfinite(weights).all()) and np.isfinite(border_changes).all()
        if not finite:
            raise np.linalg.LinAlgError("the Newton system has no finite solution")
        level, _, multiplier = border_changes
        rates = design.max(working_set.set_direction, weights, level, multiplier / k)
        return weights, border_changes, 1.0 / max(*rates, 1.0)

    def _damped(self, step: float, border_changes: Array) -> float:
        """Halve the step while the loss's mean slope ends far from the predicted multiplier."""
        design, loss = self.problem.design, self.problem.loss
        error = abs(self.positive_sums.total / self.m - self.multiplier)
        for _ in range(12):
            threshold = self.threshold + step * border_changes[1]
            slope = design.sum(positives.gradient_after, loss, step, threshold) / self.m
            predicted = self.multiplier + step * border_changes[2]
            if predicted > 0.0 and abs(slope - predicted) <= max(0.5 * predicted, 2.0 * error):
                break
            step *= 0.5
        return step

    # ---- the first point

    def _best_length(self) -> float:
        """Minimiser along the weights of the loss's parabola at 0, against the mean negative."""
        total, squares, negatives, _ = self.problem.design.sum(positives.score_moments)
        centre = negatives / self.problem.design.n_neg
        mean = total / self.m - centre
        moment = squares / self.m - 2.0 * centre * total / self.m + centre * centre
        twice_penalty = self.problem.lam * float(self.weights @ self.weights)
        curvature = twice_penalty + self.bounds.curvature_at_zero * moment
        return self.bounds.slope_at_zero * mean / curvature if curvature > 0.0 else 0.0

    def _shorten(self, guess: float | None) -> None:
        """Scale the weights by the guess, and on down while the objective is far above zero's."""
        length, most = 1.0 if guess is None else guess, 6.0 * self.bounds.at_zero
        twice_penalty = self.problem.lam * float(self.weights @ self.weights)
        while length > 1e-300:
            if self.bounds.objective_along(length, twice_penalty, self.threshold) <= most:
                break
            length *= 0.5
        self._rescale(length if length > 1e-300 else 0.0)

    def _rescale(self, length: float) -> None:
        """Multiply the weights, and with them all scores and their threshold."""
        self.weights, self.threshold = length * self.weights, length * self.threshold
        self.problem.design.apply(positives.rescale_scores, length)

    def _optimise_length(self) -> None:
        """Scale the weights to the best length along them, by Newton's method."""
        design, loss, length = self.problem.design, self.problem.loss, 1.0
        twice_penalty = self.problem.lam * float(self.weights @ self.weights)
        for _ in range(START_STEPS):
            first, second = design.sum(positives.derivatives_along, loss, length, self.threshold)
            second = twice_penalty + second / self.m
            if not second > 0.0:
                break
            newton = length - (twice_penalty * length + first / self.m) / second
            length = min(max(newton, 0.3 * length), 3.0 * length)
        self._rescale(length)

    def _choose_working_set(self) -> None:
        """The negatives with the highest scores, and an even sample of all."""
        problem, design = self.problem, self.problem.design
        n_first = int(min(max(design.n_neg // 15, FIRST_WORKING_SET[0]), FIRST_WORKING_SET[1]))
        n_top, stride = max(2 * problem.k, n_first // 2), max(1, 2 * design.n_neg // n_first)
        everything = n_top >= design.n_neg or stride == 1
        level = -np.inf if everything else problem.level_of_top(n_top)
        self.n_working = design.sum(working_set.choose_working_set, level, stride, problem.k > 1)

    def _receive_dual(self) -> float:
        """Hand the blocks the start's dual, or let them take what the last solve stored.

        Returns the sum of the negatives' part, 0 if it cannot be used.
        """
        design, dual = self.problem.design, None if self.start is None else self.start.dual
        if dual is not None and dual.size:
            design.scatter(working_set.receive_start_dual, dual)
        else:
            design.apply(working_set.recall_final_dual)
        total: float = design.sum(working_set.sum_of_start_dual)
        return total if total < np.inf else 0.0

    def _use_start_dual(self, dual_sum: float) -> bool:
        """Take the bounds of the start's weights and dual; False if they are far apart."""
        self.level = self.threshold
        self.problem.design.apply(working_set.use_start_dual, self.multiplier / dual_sum)
        self._update_bounds()
        gap = relative_gap(self.bounds.upper, self.bounds.lower)
        self.at_start_dual = gap <= MAX_START_GAP
        return self.at_start_dual

    def _move_into_interior(self) -> None:
        """Move the start's pairs from the boundary, where steps are short, to equal products.

        The duals stay near those of the start; the products are what its gap allows.
        """
        design, k, cap = self.problem.design, self.problem.k, self.multiplier / self.problem.k
        most = MAX_START_SLACK * self._score_deviation() * self.multiplier
        products = START_PRODUCTS[k > 1] * (self.bounds.upper - self.bounds.lower)
        mu = min(products, most) / self._n_pairs
        if k > 1:
            self.level = self.problem.level_of_top(k)
        reach = max(self.n_working / self.multiplier, 4.0 / cap) * mu
        excess = design.sum(working_set.move_into_interior, self.level, mu, cap, reach)
        self.threshold = self.level + excess / k
        self.positive_sums.update(self.weights, self.threshold)
        self.sums, self.at_start_dual = design.sum(working_set.working_sums), False
        self.least_complementarity = np.inf

    def _score_deviation(self) -> float:
        """Standard deviation of the negatives' scores."""
        n_neg = self.problem.design.n_neg
        _, _, total, squares = self.problem.design.sum(positives.score_moments)
        mean = total / n_neg
        return float(np.sqrt(max(squares / n_neg - mean * mean, 0.0)))

    def _first_slack(self, difference: Array) -> float:
        """First mean slack: in proportion to the scores' deviation or to the residual."""
        problem, deviation = self.problem, self._score_deviation()
        residual = problem.lam * self.weights - self.multiplier * difference
        gap = min(float(residual @ residual) / (2.0 * problem.lam), self.bounds.upper)
        return float(max(FIRST_SLACK * deviation, FIRST_SLACK * (gap / self.multiplier), 1e-12))

    def _centre(self, slack: float) -> None:
        """Put the working set on the central path where its mean slack is about `slack`."""
        design, k, cap = self.problem.design, self.problem.k, self.multiplier / self.problem.k
        high, minus_low = design.max(working_set.score_range)
        if k == 1:
            self.level = high + ABOVE * slack
            mu = self.multiplier / design.sum(working_set.sum_of_inverse_slacks, self.level)
        else:
            mu = slack * self.multiplier / self.n_working
            self.level = self._centred_level(mu, -minus_low - slack * self.n_working, high + slack)
        self.threshold = self.level + design.sum(working_set.centre, self.level, mu, cap) / k

    def _centred_level(self, mu: float, low: float, high: float) -> float:
        """The level at which the duals of the central path sum to the multiplier."""
        design, cap = self.problem.design, self.multiplier / self.problem.k

        def shortfall(level: float) -> tuple[float, float, float]:
            # 1/dual is nearly a straight line in the level, where the dual is a hyperbola.
            dual, fall = design.sum(working_set.sum_of_centred_duals, level, mu, cap)
            return 1.0 / self.multiplier - 1.0 / dual, -fall / (dual * dual), 1.0 / self.multiplier

        reach = high + mu * self.n_working / self.multiplier
        return root(shortfall, low, reach, high, tolerance=1e-3)
