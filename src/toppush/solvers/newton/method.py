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

Every iterate gives an upper bound P(w) from all rows, and a lower bound from the dual point
a = tau c l'(T - w.x), b = tau q brought into the domain, with the best tau.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from toppush.designs import FORMED, Block, Form
from toppush.problem.objective import TopPushProblem, negatives_range, prove, rounding
from toppush.problem.solution import Solution, Status, closed, relative_gap
from toppush.problem.tops import ROUNDING, root, top_mean
from toppush.solvers.forms import Seen, answer_in, in_form, refine, seen
from toppush.solvers.journal import Journal, Watch
from toppush.solvers.newton import band
from toppush.solvers.newton.stable import few_rows, stable
from toppush.solvers.newton.systems import (
    SLOW_CG,
    WITH_POSITIVES_RTOL,
    Factored,
    Iterative,
    Memory,
    System,
    few_positives,
    frame,
)
from toppush.types import Array

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
SURE, ROUNDINGS = 1e-7, 16
"""Share of the objective up to which rounding in its bounds is let be, and the roundings of a
score beside one for each feature."""
NEXT_TO_NOTHING, STRETCH = 1e-20, 1e-12
"""Share of the objective at zero below which no more is asked for, and how much longer the weights
are made then."""
MAX_REFUTED = 3
"""Times that the rows may refute the bounds of a careful solve before it is given up."""
RESUMED_GAP = 0.1
"""Relative gap up to which a solve that is resumed begins near the end of the central path."""
PREDICTOR_RTOL, CORRECTOR_RTOL = 0.2, 0.03


def newton(
    problem: TopPushProblem,
    *,
    tol: float = 1e-4,
    max_iter: int = 10_000,
    start: Solution | None = None,
    watch: Watch | None = None,
) -> Solution:
    """Minimise until upper and lower bound agree to `tol`, relative to the objective."""
    journal = Journal(problem.design, watch)
    with np.errstate(all="ignore"):  # what overflows proves nothing, and the proof says so
        found = _proven(problem, journal, tol=tol, max_iter=max_iter, start=start)
    journal.settle(found.upper, found.lower)
    return replace(found, history=tuple(journal.history))


def _proven(
    problem: TopPushProblem, journal: Journal, *, tol: float, max_iter: int, start: Solution | None
) -> Solution:
    """Solve on the rows as they are, and where that proves too little in their best form."""
    try:
        found = _solved(problem, journal, tol=tol, max_iter=max_iter, start=start)
    except ArithmeticError:  # numbers beyond all bounds
        found = _zero(problem, journal)
    if found.status is Status.STALLED and refine(problem):
        again = (stable if few_rows(problem.design) else _solved)(
            problem, journal, tol=tol, max_iter=max_iter
        )
        found = _better(found, again, tol)
    return _said_apart(found, problem)


def _zero(problem: TopPushProblem, journal: Journal) -> Solution:
    """Weights of zero, of which nothing is proven."""
    design, at_zero = problem.design, problem.at_zero()
    weights = design.arrays.zeros(design.n_features)
    journal.note(at_zero, 0.0, weights, 0.0)
    dual = design.over_rows(Block.join, 0.0, 0.0)
    return Solution(weights, 0.0, dual, at_zero, 0.0, len(journal), Status.STALLED)


def _said_apart(solution: Solution, problem: TopPushProblem) -> Solution:
    """An objective of next to nothing is as good as proven: there is no digit left to win.

    There rounding decides whether a margin is kept; slightly longer weights keep it for sure.
    """
    nothing = solution.upper <= NEXT_TO_NOTHING * problem.at_zero()
    if not nothing or solution.status is not Status.STALLED:
        return solution
    longer = 1.0 + STRETCH
    return replace(
        solution,
        weights=longer * solution.weights,
        threshold=longer * solution.threshold,
        upper=longer**2 * solution.upper,
        status=Status.SEPARATED,
    )


def _solved(
    problem: TopPushProblem,
    journal: Journal,
    *,
    tol: float,
    max_iter: int,
    start: Solution | None = None,
) -> Solution:
    """Solve on the rows in the form they have; the bounds are proven anew at the end."""
    how = seen(problem)
    form, careful = how.form, how.final
    method = _Method(in_form(problem), tol, how)
    method.begin(None if start is None else replace(start, weights=start.weights / form.scale))
    n_refuted = 0
    while True:
        method.certify()
        stop = journal.note(method.upper, method.lower, *method.answer(form))
        status = method.outcome(stopped=stop, out_of_time=len(journal) >= max_iter)
        if status is not None:
            balance = 1.0 if method.is_sure() else method.prove()
            if status is not Status.CONVERGED or closed(method.upper, method.lower, tol):
                break
            n_refuted += 1
            if not careful or n_refuted > MAX_REFUTED:
                status = Status.STALLED
                break
            problem.design.tell(Block.score, method.weights)
        method.iterate()
    weights, threshold = method.answer(form)
    dual = problem.design.over_rows(band.best_dual, balance)
    solution = Solution(
        weights=weights,
        threshold=threshold,
        dual=dual,
        upper=method.upper,
        lower=method.lower,
        n_iter=len(journal),
        status=status,
    )
    return _judged(solution, tol)


def _judged(solution: Solution, tol: float) -> Solution:
    """A solve that gave up next to the optimum has converged."""
    close = closed(solution.upper, solution.lower, tol)
    return replace(solution, status=Status.CONVERGED) if close else solution


def _better(before: Solution, after: Solution, tol: float) -> Solution:
    """The later solution, with whatever the earlier one proved better."""
    if before.upper < after.upper:
        after = replace(
            after, weights=before.weights, threshold=before.threshold, upper=before.upper
        )
    if before.lower > after.lower:
        after = replace(after, dual=before.dual, lower=before.lower)
    return _judged(after, tol)


@dataclass
class _Method:
    """The driver's side: weights, three numbers, two bounds, and the Newton matrix's parts."""

    problem: TopPushProblem
    tol: float
    how: Seen
    weights: Array = field(init=False)
    level: float = 0.0
    threshold: float = 0.0
    pull: float = 0.0
    """G, the multiplier of T: the mean slope of the loss at the solution."""
    n_band: int = 0
    upper: float = np.inf
    lower: float = 0.0
    best_weights: Array = field(init=False)
    best_threshold: float = 0.0
    step: float = 1.0

    def __post_init__(self) -> None:
        problem, design = self.problem, self.problem.design
        self.m = design.total_cost
        self.careful = self.how.final  # every iteration takes its sums anew from the rows
        self.formed = design.n_features <= FORMED
        self.quadratic = problem.loss.conjugate_curvature is not None
        self.memory = Memory(design.arrays, design.most_exact / 2)
        self.gram: Array | None = design.memory.get("gram")
        self.bend_product: Array = design.memory.get("bend_product", design.arrays.zeros(1))
        self.largest_sums: tuple[float, float] = design.memory.get("largest_sums", (0.0, 0.0))
        self.n_short = self.n_rescues = self.n_idle = 0
        self.holding, self.path, self.best_push = False, 0.0, (0.0, 0.0)
        self.best_gap = self.least_steepness = self.least_complementarity = np.inf
        zero = np.zeros(1)
        self.at_zero = problem.at_zero()
        self.slope_at_zero = float(problem.loss.slope(zero)[0])
        self.curvature_at_zero = float(problem.loss.curvature(zero)[0])

    # ---- start

    def begin(self, start: Solution | None) -> None:
        """Along the means' difference, or at given weights; the band on the central path."""
        problem, design = self.problem, self.problem.design
        weights = None if start is None else start.weights
        self.upper = self.at_zero
        self.best_weights = design.arrays.zeros(design.n_features)
        if "difference" not in design.memory:
            design.memory["difference"] = design.sum(band.mean_difference, self.m, design.n_neg)
        difference = design.memory["difference"]
        usable = weights is not None and bool(design.arrays.isfinite(weights).all())
        given: Any = weights if usable else difference
        self.weights = 1.0 * given
        design.tell(band.begin_positives, not self.formed)
        design.tell(Block.score, self.weights)
        self._shorten(guess=None if usable else self._best_length())
        self.path = norm(self.weights)
        self._choose_band()
        pull, _ = design.sum(band.bend_and_pull, problem.loss, problem.threshold())
        self.pull = max(pull / self.m, 1e-12)
        slack = self._first_slack(difference)
        resumed = None if start is None or start.status is not Status.RESUMED else start
        if resumed is not None and resumed.relative_gap <= RESUMED_GAP:
            slack = min(slack, 0.3 * max(resumed.gap, self.tol * resumed.upper) / self.pull)
        self._centre(slack)

    def _best_length(self) -> float:
        """Minimiser of the loss's parabola at 0 along the weights, against the mean negative."""
        total, squares, negatives, _ = self.problem.design.sum(band.score_moments)
        centre = negatives / self.problem.design.n_neg
        mean = total / self.m - centre
        spread = squares / self.m - 2.0 * centre * total / self.m + centre**2
        size = self.problem.lam * float(self.weights @ self.weights)
        bend = size + self.curvature_at_zero * spread
        return self.slope_at_zero * mean / bend if bend > 0.0 else 0.0

    def _shorten(self, guess: float | None) -> None:
        """Scale the weights by the guess, and on down while the objective is far above zero's."""
        problem, design = self.problem, self.problem.design
        length = 1.0 if guess is None else guess
        squares, threshold = float(self.weights @ self.weights), problem.threshold()
        while length > 1e-300:
            losses = design.sum(band.loss_along, problem.loss, length, length * threshold)
            objective = 0.5 * problem.lam * length**2 * squares + losses / self.m
            if objective <= 6.0 * self.at_zero:
                break
            length *= 0.5
        length = length if length > 1e-300 else 0.0
        self.weights = length * self.weights
        design.tell(band.rescale_scores, length)

    def _choose_band(self) -> None:
        """The negatives with the best scores, and an even sample of all."""
        problem, design = self.problem, self.problem.design
        size = int(min(max(design.n_neg // 15, FIRST_BAND[0]), FIRST_BAND[1]))
        n_top = max(2 * problem.k, size // 2)
        level = -np.inf if n_top >= design.n_neg else problem.level_of_top(n_top)
        design.tell(band.choose_band, level, max(1, 2 * design.n_neg // size), problem.k > 1)
        self.n_band = design.sum(band.band_size)

    def _first_slack(self, difference: Array) -> float:
        """Mean slack to begin with: in proportion to the scores' spread or the residual."""
        problem = self.problem
        _, _, total, squares = problem.design.sum(band.score_moments)
        n_neg = problem.design.n_neg
        spread = np.sqrt(max(squares / n_neg - (total / n_neg) ** 2, 0.0))
        residual = problem.lam * self.weights - self.pull * difference
        worth = min(float(residual @ residual) / (2.0 * problem.lam), self.upper) / self.pull
        return float(max(SPREAD * spread, SPREAD * worth, 1e-12))

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

    # ---- bounds

    def is_sure(self) -> bool:
        """Whether rounding cannot have touched the bounds, so that they need no proof.

        Scores add up the products of all steps, each rounded in proportion to the length of the
        row and of the step. Pulls from the Gram matrix are those of exact scores, and the dual's
        are not.
        """
        problem, length, (push, mass) = self.problem, self.how.length, self.best_push
        unit = float(np.finfo(np.float64).eps) * (problem.design.n_features + ROUNDINGS)
        slip = 4.0 * unit * length * self.path
        off = slip * max(self.sum_pull / self.m, 1.0)
        off = max(off, rounding(problem, push, mass * length))
        if self.formed and self.quadratic:
            off = max(off, problem.rise(push, 2.0 * slip * self.m * length))
        return self.how.double and not self.careful and off <= SURE * self.upper

    def prove(self) -> float:
        """Replace both bounds by what all rows prove; returns the dual's balance."""
        proof = prove(self.problem, self.best_weights, band.best_pair, self.how.length)
        self.best_threshold, self.upper, self.lower = proof.threshold, proof.upper, proof.lower
        return proof.balance

    def answer(self, form: Form) -> tuple[Array, float]:
        """The best weights, and their threshold, for the rows as they were given."""
        return answer_in(form, self.best_weights, self.best_threshold)

    def certify(self) -> None:
        """Take the sums at the latest point and improve both bounds if they allow it."""
        problem, design = self.problem, self.problem.design
        if self.careful:
            design.tell(Block.score, self.weights)
        threshold = problem.threshold(guess=self.level)
        length, objective = 1.0, problem.upper(self.weights, threshold)
        better = objective < self.upper
        if objective >= self.at_zero:
            length, objective = self._short_length(threshold)
            better = length > 0.0 and objective <= self.upper * (1.0 + 0.1 * self.tol)
        if better:
            self.upper, self.best_weights = objective, length * self.weights
            self.best_threshold = length * threshold
        self.sum_pull, self.sum_squares = design.sum(
            band.bend_and_pull, problem.loss, self.threshold
        )
        self._update_products()
        self.sums: band.BandSums = design.sum(band.band_sums)
        self._bound_below()

    def _short_length(self, threshold: float) -> tuple[float, float]:
        """A length at which these weights are as good as zero, or better, and its objective.

        Where weights of zero are optimal up to the tolerance, a direction still ranks. The one
        along which the objective rises least from zero is where a solution would lie; for any
        that is steeper than one before, the length is 0.
        """
        problem, design = self.problem, self.problem.design
        total, squares, *_ = design.sum(band.score_moments)
        slope = self.slope_at_zero * (threshold - total / self.m)
        steepness = slope / max(norm(self.weights), 1e-300)
        if slope >= 0.0 and self.least_steepness <= steepness:
            return 0.0, self.at_zero
        self.least_steepness = min(self.least_steepness, steepness)
        size = problem.lam * float(self.weights @ self.weights)
        spread = threshold**2 + (squares - 2.0 * threshold * total) / self.m
        bend = size + self.curvature_at_zero * max(spread, 0.0)
        rise = 0.0 if slope < 0.0 else 0.05 * self.tol * self.at_zero
        if not bend > 0.0:
            return 0.0, self.at_zero
        length = min(-slope / bend if slope < 0.0 else rise / max(slope, 1e-300), 1.0)
        for _ in range(60):
            losses = design.sum(band.loss_along, problem.loss, length, length * threshold)
            objective = 0.5 * size * length**2 + losses / self.m
            if objective <= self.at_zero + rise:
                return length, float(objective)
            length *= 0.5
        return 0.0, self.at_zero

    def _update_products(self) -> None:
        """X'pull and X'bend over the positives and, if formed, their Gram matrix."""
        design = self.problem.design
        if not self.formed:
            self.pull_product, self.bend_product = design.sum(band.pull_and_bend_products)
            return
        slack = 0.0 if self.quadratic else 0.1
        n_changed, n_bent = design.sum(band.count_changes, slack)
        renew = self.gram is None or self.careful or n_changed >= n_bent
        if renew or n_changed:
            gram, product = design.sum(band.update_gram, renew)
            self.gram = gram if self.gram is None or renew else self.gram + gram
            self.bend_product = product if renew else self.bend_product + product
            before = (0.0, 0.0) if renew else self.largest_sums
            sizes = norm(self.gram.reshape(-1)), norm(self.bend_product)
            self.largest_sums = max(before[0], sizes[0]), max(before[1], sizes[1])
            # Another solve on these rows follows the changes from here.
            design.memory.update(
                gram=self.gram, bend_product=self.bend_product, largest_sums=self.largest_sums
            )
        assert self.gram is not None
        if self.quadratic and not self.careful:  # pull = bend (1 + T - w.x): no read of the rows
            self.pull_product = (1.0 + self.threshold) * self.bend_product
            self.pull_product -= self.gram @ self.weights
        else:
            self.pull_product = design.sum(band.pull_product)

    def _bound_below(self) -> None:
        """Lower bound from the pulls and pushes, scaled together as well as can be."""
        problem, design, k = self.problem, self.problem.design, self.problem.k
        total, lift = self.sums.push, 0.0
        if not total > 0.0:
            return
        product = self.sums.product / total
        if k > 1 and design.max(band.largest_push)[0] * k > total:
            lift = self._lift_into_cap(total)
            product = design.sum(band.capped_product, total, lift, 1.0 / k)
        if self._in_doubt(self.pull_product - self.sum_pull * product):
            self.pull_product = design.sum(band.pull_product)
        duals = [(False, (self.sum_pull, self.sum_squares, self.pull_product))]
        if self.holding:
            duals.append((True, design.sum(band.held_sums)))
        for held, (mass, squares, pulled) in duals:
            push = pulled - mass * product
            quadratic = float(push @ push) / problem.scale
            scale, bound = self._best_scale(held, mass, squares, quadratic)
            if bound > self.lower:
                self.lower, by = bound, scale * mass
                self.best_push = scale * norm(push), 2.0 * by
                design.tell(band.keep_dual, held, scale, by / total, by * lift, by / k)

    def _in_doubt(self, push: Array) -> bool:
        """Whether pulls taken from the Gram matrix lost digits that the bound needs.

        It was summed up over all changes, each rounded in proportion to the largest there was.
        """
        curvature = self.problem.loss.conjugate_curvature
        if not self.formed or curvature is None or self.careful:
            return False
        size = abs(1.0 + self.threshold) * self.largest_sums[1]
        size += self.largest_sums[0] * norm(self.weights)
        off, length = ROUNDING * size, norm(push)
        known = length**2 / self.problem.scale + curvature * self.sum_squares
        return bool(off * (2.0 * length + off) / self.problem.scale > SURE * known)

    def _best_scale(
        self, held: bool, mass: float, squares: float, quadratic: float
    ) -> tuple[float, float]:
        """Scale t of the dual point with the best bound -(t^2/2 quadratic + conjugates)/m.

        In closed form if l*(a) = l*'(0) a + curvature/2 a^2; else by Newton's method, where any
        scale gives a bound.
        """
        design, loss = self.problem.design, self.problem.loss
        if not (mass > 0.0 and math.isfinite(quadratic)):
            return 0.0, 0.0
        if loss.conjugate_curvature is not None:
            slope = -float(loss.conjugate_slope(np.zeros(1))[0]) * mass
            scale = slope / (quadratic + loss.conjugate_curvature * squares)
            return scale, 0.5 * scale * slope / self.m
        limit = (1.0 - 1e-9) * loss.dual_limit / design.max(band.largest_dual, held)[0]
        scale, best = min(1.0, limit), (0.0, 0.0)
        for _ in range(4):
            value, slope, curvature = design.sum(band.dual_along, held, loss, scale)
            bound = -(0.5 * scale**2 * quadratic + value) / self.m
            best = max(best, (scale, bound), key=lambda pair: pair[1])
            if not quadratic + curvature > 0.0:
                break
            newton = scale - (scale * quadratic + slope) / (quadratic + curvature)
            scale = min(max(newton, 0.3 * scale), 3.0 * scale, limit)
        return best

    def _lift_into_cap(self, total: float) -> float:
        """Lift that makes clip(push/total + lift, 0, 1/k) sum to one."""
        design, cap = self.problem.design, 1.0 / self.problem.k

        def surplus(drop: float) -> tuple[float, float, float]:
            mass, n_free = design.sum(band.capped_share, total, -drop, cap)
            return mass - 1.0, -n_free, mass + 1.0

        highest = design.max(band.largest_push)[0] / total
        return -root(surplus, -cap, highest, 0.0)

    def outcome(self, *, stopped: bool, out_of_time: bool) -> Status | None:
        """Whether, and how, the solve is over."""
        gap = relative_gap(self.upper, self.lower)
        centrality = self.sums.complementarity
        ahead = gap < 0.99 * self.best_gap or centrality < 0.5 * self.least_complementarity
        self.n_idle = 0 if ahead else self.n_idle + 1
        self.best_gap = min(gap, self.best_gap)
        self.least_complementarity = min(centrality, self.least_complementarity)
        if gap <= self.tol:
            return Status.CONVERGED
        if stopped:
            return Status.STOPPED
        if self.n_idle >= PATIENCE or self.n_rescues > MAX_RESCUES or not np.isfinite(self.pull):
            return Status.STALLED
        return Status.MAX_ITER if out_of_time else None

    # ---- iteration

    def iterate(self) -> None:
        """Go one step along the central path, or back onto it after several short ones."""
        self.n_short = self.n_short + 1 if self.step < SHORT_STEP else 0
        if self.n_short >= MANY_SHORT:
            self._rescue()
            return
        mu = self.sums.complementarity / self._n_pairs
        if self._extend_band(mu):
            self.sums = self.problem.design.sum(band.band_sums)
        try:
            self._step(mu)
        except (np.linalg.LinAlgError, ArithmeticError):
            self.step = 0.0  # the system is singular to rounding; several such lead to a rescue

    @property
    def _n_pairs(self) -> int:
        return self.n_band if self.problem.k == 1 else 2 * self.n_band

    def _rescue(self) -> None:
        self.n_rescues, self.n_short, self.step = self.n_rescues + 1, 0, 1.0
        self.pull = max(self.sum_pull / self.m, 1e-12)
        self._centre((self.upper - self.lower) / self.pull * 0.3 * 3.0 ** (self.n_rescues - 1))

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
        problem, design, k = self.problem, self.problem.design, self.problem.k
        system = self._system()
        residual = problem.lam * self.weights - self.pull_product / self.m + self.sums.product
        least = 0.05 * self.tol * self.upper / self.n_band

        def direction(goal: float, corrected: bool, rtol: float) -> tuple[Array, Array, float]:
            side = design.sum(band.right_side, goal, corrected)
            off_threshold = self.level + (self.sums.excess + side.excess) / k - self.threshold
            numbers = [
                self.sums.push - self.pull + side.push,
                self.pull - self.sum_pull / self.m,
                -off_threshold,
            ]
            rtol *= WITH_POSITIVES_RTOL if self.memory.with_positives else 1.0
            moves, change = system.solve(-(residual + side.product), np.array(numbers), rtol)
            if not (bool(design.arrays.isfinite(moves).all()) and np.all(np.isfinite(change))):
                raise np.linalg.LinAlgError("the Newton system has no finite solution")
            rates = design.max(band.set_direction, moves, change[0], change[2] / k)
            return moves, change, 1.0 / max(*rates, 1.0)

        *_, longest = direction(least, False, PREDICTOR_RTOL)
        ahead = design.sum(band.complementarity_after, longest) / self._n_pairs
        centring = min(1.0, max(0.01, (ahead / mu) ** 2 if ahead > 0.0 else 0.0))
        moves, change, longest = direction(max(centring * mu, least), True, CORRECTOR_RTOL)
        if isinstance(system, Iterative) and system.n_steps > SLOW_CG:
            self.memory.with_positives = few_positives(design)
        design.tell(band.set_moves, moves)
        self.step = self._damped(min(1.0, TO_BOUNDARY * longest), change)
        self.weights = self.weights + self.step * moves
        self.path += self.step * norm(moves)
        self.level += self.step * change[0]
        self.threshold += self.step * change[1]
        self.pull += self.step * change[2]
        if self.careful:
            design.tell(band.advance_held, self.step, change[1])
            self.holding = True
        design.tell(band.advance, self.step)

    def _system(self) -> System:
        problem, design = self.problem, self.problem.design
        sums = design.sum(band.linearise, self.level, self.pull / problem.k)
        bend = design.sum(band.used_bend_sum)
        base = frame(design, problem.lam, problem.k, sums, self.bend_product, bend)
        if self.formed:
            assert self.gram is not None
            return Factored(base, self.gram, self.n_band)
        return Iterative(base, self.memory)

    def _damped(self, step: float, change: Array) -> float:
        """Halve the step while the loss's slope ends far from where the system put it."""
        design, loss = self.problem.design, self.problem.loss
        off_now = abs(self.sum_pull / self.m - self.pull)
        for _ in range(12):
            threshold = self.threshold + step * change[1]
            found = design.sum(band.pull_after, loss, step, threshold) / self.m
            wanted = self.pull + step * change[2]
            if wanted > 0.0 and abs(found - wanted) <= max(0.5 * wanted, 2.0 * off_now):
                break
            step *= 0.5
        return step


def norm(vector: Array) -> float:
    """|v|."""
    return math.sqrt(float(vector @ vector))
