"""Alternating directions for a penalty plus the loss of the worst negative, over all pairs.

    P(w) = lam r |w|_1 + lam (1-r)/2 |w|^2 + max_j 1/m sum_i c_i l(-a_ij),   a_ij = w.(x_i - z_j)

With scaled multipliers of a = Dw, the a-step is a `PairStep` and leaves the multipliers equal to
-u / (m rho), u being the pairs' duals; so u is the only array over pairs. The w-step is a linear
system with D'D, and the l1 part acts on a copy of w. Rakotomamonjy (2012): D, a, rho as there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from reproduce.baselines.pair_step import Bounds, Landed, PairStep, followed
from reproduce.baselines.pairs import Limits, TwoClasses, greatest_eigenvalue, normal_product
from toppush.problem.losses import Loss
from toppush.problem.objective import TopPushProblem
from toppush.problem.solution import Solution, Status
from toppush.types import Array

RHO = 0.3
"""Times 1/(m sqrt(n)), whatever the scale of X or lam. Margins are of size 1 and the shares of the
few negatives in play of size 1/10, but all n hold the weights back: on Gaussian classes the best
factor of 1/m was 0.05 for 64 negatives and 0.01 for 1024, and 1 did not end."""
RIDGE = 10.0
"""Times the ridge over a typical eigenvalue of D'D, if that is more: with lam = 100 on 25 positives
and 30 negatives a gap of 1e-4 takes 39 iterations, and without it more than 2000."""
EPS = float(np.finfo(np.float64).eps)
DENSE_FEATURES = 500
"""Up to here D'D is formed and decomposed; beyond, conjugate gradients use products alone."""


@dataclass(frozen=True)
class ElasticNet:
    """l1 |w|_1 + l2/2 |w|^2."""

    l1: float
    l2: float

    def value(self, weights: Array) -> float:
        """The penalty at these weights."""
        return float(self.l1 * np.abs(weights).sum() + 0.5 * self.l2 * weights @ weights)

    def lower(self, push: Array, conjugates: float) -> float:
        """Bound below P from duals with D'u / m = push and the sum of conjugates over m.

        Without an l2 part the duals are scaled down until |push| <= l1 holds everywhere; the
        conjugates scale with them.
        """
        if self.l2 > 0.0:
            over = np.maximum(np.abs(push) - self.l1, 0.0)
            return -conjugates - float(over @ over) / (2.0 * self.l2)
        largest = float(np.max(np.abs(push)))
        return -conjugates * min(1.0, self.l1 / largest) if largest else -conjugates


def alternate(
    problem: TopPushProblem, rows: TwoClasses, penalty: ElasticNet, limits: Limits
) -> Solution:
    """Alternate until the duality gap is at most `limits.tol` of the objective.

    An iteration takes O(mn) time for the pairs and two products with the rows, four with an l1
    part, plus those of conjugate gradients above 500 features. `problem` gives the loss: as it
    does not fall, the worst negative is the one that scores highest.
    """
    return followed(partial(Alternation, problem, rows, penalty, limits.tol), rows, limits)


class Alternation:
    """Where the alternation stands, and the best bounds seen."""

    def __init__(
        self, problem: TopPushProblem, rows: TwoClasses, penalty: ElasticNet, tol: float
    ) -> None:
        self.problem, self.rows, self.penalty, self.tol = problem, rows, penalty, tol
        self.bounds, self.cost = Bounds(rows, problem.at_zero()), rows.weights[0]
        self.state = self.bounds.state
        n_pos, n_neg = (side.size for side in rows.weights)
        self.total = problem.design.total_cost
        self.duals = np.zeros((n_neg, n_pos))
        self.share = np.zeros(n_neg)
        self.weights = self.push = np.zeros(problem.design.n_features)
        self.copy = self.gap_to_copy = self.weights
        self.normal = Normal.of(rows)
        ridge = RIDGE * penalty.l2 / self.normal.typical
        self.rho = max(RHO / (self.total * np.sqrt(n_neg)), ridge)
        self.tie = self.normal.typical if penalty.l1 else 0.0
        self.scores = np.zeros(n_pos), np.zeros(n_neg)

    def begin(self) -> None:
        self.advance()

    def status(self) -> Status | None:
        """Whether the gap is closed, or the weights overflow."""
        return self.bounds.outcome(self.tol, still=not np.isfinite(self.weights).all())

    def advance(self) -> None:
        """The pairs' duals, the weights, their sparse copy, the bounds."""
        landed = self._move_duals()
        push = self.rows.combine(landed.per_positive, -landed.per_negative) / self.total
        self._move_weights(2.0 * push - self.push)
        self.push = push
        self._bound(landed)

    def _move_duals(self) -> Landed:
        step = PairStep.of(self.problem.loss, self.cost, 1.0 / (self.rho * self.total))
        landed = step.descend(self.duals, self.scores, self.share)
        self.share = landed.share
        return landed

    def _move_weights(self, pull: Array) -> None:
        tie = self.rho * self.tie
        goal = self.rho * self.normal.apply(self.weights) + pull
        goal += tie * (self.copy - self.gap_to_copy)
        self.weights = self.normal.solve(goal, self.rho, self.penalty.l2 + tie, self.weights)
        if not tie:
            self.copy = self.weights
            return
        target = self.weights + self.gap_to_copy
        shrunk = np.maximum(np.abs(target) - self.penalty.l1 / tie, 0.0)
        self.copy = np.copysign(shrunk, target) * (shrunk > 0.0)
        self.gap_to_copy = target - self.copy

    def _bound(self, landed: Landed) -> None:
        """Bounds from the copy and the duals; leaves the scores of the weights."""
        loss: Loss = self.problem.loss
        scores = self.rows.scores(self.copy)
        self.scores = scores if self.copy is self.weights else self.rows.scores(self.weights)
        threshold = float(scores[1].max())
        risk = float(self.cost @ loss.value(threshold - scores[0])) / self.total
        upper = self.penalty.value(self.copy) + risk
        lower = self.penalty.lower(self.push, landed.conjugates / self.total)
        self.bounds.note(upper, self.copy, threshold, lower, landed)


@dataclass(frozen=True)
class Normal:
    """D'D, whose rows are x_i - z_j for all pairs, and systems with it."""

    apply: Callable[[Array], Array]
    typical: float
    """Size of a typical eigenvalue."""
    values: Array | None = None
    vectors: Array | None = None

    @classmethod
    def of(cls, rows: TwoClasses) -> "Normal":
        """From products with the rows; d of each if the matrix is formed."""
        apply, n_features = normal_product(rows), rows.design.n_features
        if n_features > DENSE_FEATURES:
            return cls(apply, greatest_eigenvalue(apply, n_features) / np.sqrt(n_features))
        matrix = np.array([apply(unit) for unit in np.eye(n_features)])
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        values[values <= n_features * EPS * np.abs(values).max(initial=0.0)] = 0.0
        typical = float(values.mean()) or 1.0
        return cls(lambda weights: matrix @ weights, typical, values, vectors)

    def solve(self, goal: Array, rho: float, shift: float, start: Array) -> Array:
        """(rho D'D + shift I) w = goal."""
        if self.values is not None and self.vectors is not None:
            sizes, along = rho * self.values + shift, self.vectors.T @ goal
            # A goal has no part where neither D nor the shift has one, but for rounding.
            seen = sizes > EPS * sizes.max()
            return np.asarray(self.vectors[:, seen] @ (along[seen] / sizes[seen]))
        n_features = goal.size
        system = LinearOperator(
            (n_features, n_features), matvec=lambda w: rho * self.apply(w) + shift * w
        )
        return np.asarray(cg(system, goal, x0=start, rtol=1e-10, maxiter=10 * n_features)[0])
