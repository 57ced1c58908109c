"""How a solve begins: weights of a good length, a band, and the band on the central path."""

import numpy as np

from toppush.problem.objective import TopPushProblem
from toppush.problem.solution import Solution, relative_gap
from toppush.problem.tops import root
from toppush.solvers.newton import band, positives, starts
from toppush.solvers.newton.bounds import Bounds
from toppush.solvers.newton.pulls import Pulls
from toppush.solvers.newton.state import MeanDifference
from toppush.types import Array

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
third of w8a's negatives into the band."""


class Beginning:
    """The part of a path that comes before its first step."""

    problem: TopPushProblem
    tol: float
    m: float
    start: Solution | None
    weights: Array
    level: float
    threshold: float
    pull: float
    """G, the multiplier of T: the mean slope of the loss at the solution."""
    n_band: int
    bounds: Bounds
    pulls: Pulls
    sums: band.BandSums
    at_dual: bool
    """Whether the band still has the pushes of the start's dual, and no slacks."""
    least_complementarity: float

    def _certify(self) -> None:
        """Take the sums at the latest point and improve both bounds if they allow it."""
        raise NotImplementedError

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
            slope, bend = design.sum(starts.slope_along, loss, length, self.threshold)
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
        design.apply(band.choose_band, level, stride, problem.k > 1)
        self.n_band = design.sum(band.band_size)

    def _receive_dual(self) -> float:
        """Hand the blocks the start's dual, or let them take what the last solve left there.

        Returns the sum of the negatives' part, 0 if it is of no use.
        """
        design, dual = self.problem.design, None if self.start is None else self.start.dual
        if dual is not None and dual.size:
            design.scatter(starts.receive_dual, dual)
        else:
            design.apply(starts.recall_dual)
        total: float = design.sum(starts.sum_of_start)
        return total if total < np.inf else 0.0

    def _take_dual(self, total: float) -> bool:
        """Take the bounds of weights and dual, of which that is the sum; False if they are far."""
        self.level = self.threshold
        self.problem.design.apply(starts.push_as_dual, self.pull / total)
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
        self.threshold = self.level + design.sum(starts.pair_up, self.level, mu, cap, reach) / k
        self.pulls.update(self.weights, self.threshold)
        self.sums, self.at_dual = design.sum(band.band_sums), False
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
            return 1.0 / self.pull - 1.0 / push, -fall / (push * push), 1.0 / self.pull

        reach = high + mu * self.n_band / self.pull
        return root(shortfall, low, reach, high, tolerance=1e-3)
