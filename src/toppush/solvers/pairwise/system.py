"""The Newton system of the smoothed pairwise objective, solved by conjugate gradients.

The pairs bend the objective by sum_ij p_j c_i l''_ij (x_i - z_j)(x_i - z_j)' and the smoothed top
by 1/mu sum_j give_j (g_j - mean g)(g_j - mean g)', g_j the gradient of h_j. A product with that
takes sums over pairs and two reads of the rows. Up to `MOST_FORMED` features the preconditioner is
the same with l''_ij as a product of what it sums to over i and over j, and g_j with one mean of the
positives for all j: it is nearly exact, and one or two steps are usual.
"""

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from toppush.problem.pairwise import PairPoint, PairwiseProblem
from toppush.solvers.pairwise.sides import Spread, TwoSides
from toppush.types import Array

MOST_FORMED = 1000
MAX_CG, RTOL = 200, 0.1
"""Steps at most, and part of the residual at which they end."""
LEAST_PIVOT = 1e-13
"""Share of the mean pivot that is added to all, for rows whose products round below zero."""


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
