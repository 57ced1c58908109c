"""Alternating directions for a penalty plus the loss of the worst negative, over all pairs.

    P(w) = lam r |w|_1 + lam (1-r)/2 |w|^2 + max_j 1/m sum_i c_i l(-a_ij),   a_ij = w.(x_i - z_j)

With scaled multipliers of a = Dw, the a-step is a `PairStep` and leaves the multipliers equal to
-u / (m rho), u being the pairs' duals; so u is the only array over pairs. The w-step is a linear
system with D'D, and the l1 part acts on a copy of w. Rakotomamonjy (2012): D, a, rho as there.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from toppush.baselines.pair_step import Landed, PairStep
from toppush.baselines.pairs import TwoClasses, is_stuck, row_chunks
from toppush.losses import Array, Loss
from toppush.problems import TopPushProblem
from toppush.solutions import Iteration, Solution, Status

BYTES_PER_PAIR = 8
"""The duals, which a step changes in place."""
RHO = 0.3
"""Times 1/(m sqrt(n)), whatever the scale of X or lam. Margins are of size 1 and the shares of the
few negatives in play of size 1/10, but all n hold the weights back: on Gaussian classes the best
factor of 1/m was 0.05 for 64 negatives and 0.01 for 1024, and 1 did not end."""
DENSE_FEATURES = 500
"""Up to here D'D is formed and decomposed; beyond, conjugate gradients use products alone."""


@dataclass(frozen=True)
class ElasticNet:
    """lam (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)."""

    lam: float
    l1_ratio: float

    @property
    def l1(self) -> float:
        """Weight of |w|_1."""
        return self.lam * self.l1_ratio

    @property
    def l2(self) -> float:
        """Weight of |w|^2 / 2."""
        return self.lam * (1.0 - self.l1_ratio)

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
    problem: TopPushProblem,
    rows: TwoClasses,
    penalty: ElasticNet,
    *,
    tol: float,
    max_iter: int,
) -> Solution:
    """Alternate until the duality gap is at most `tol` of the objective.

    An iteration takes O(mn) time for the pairs and two products with the rows, four with an l1
    part, plus those of conjugate gradients above 500 features. `problem` gives the loss: as it
    does not fall, the worst negative is the one that scores highest.
    """
    began = time.perf_counter()
    search = _Search(problem, rows, penalty)
    history: list[Iteration] = []
    status = Status.MAX_ITER
    while len(history) < max_iter:
        search.step()
        seconds = time.perf_counter() - began
        history.append(Iteration(search.upper, search.lower, search.passes, seconds))
        if search.upper - search.lower <= tol * abs(search.upper):
            status = Status.CONVERGED
            break
        if is_stuck(history):
            status = Status.STALLED
            break
    return Solution(
        weights=search.best_weights,
        threshold=search.best_threshold,
        dual=rows.join(*search.sums),
        upper=search.upper,
        lower=search.lower,
        n_iter=len(history),
        status=status,
        history=tuple(history),
    )


class _Search:
    """Where the alternation stands, and the best bounds seen."""

    def __init__(self, problem: TopPushProblem, rows: TwoClasses, penalty: ElasticNet) -> None:
        self.problem, self.rows, self.penalty = problem, rows, penalty
        self.cost = rows.weights[0]
        n_pos, n_neg = (side.size for side in rows.weights)
        self.total = problem.design.total_cost
        self.rho = RHO / (self.total * np.sqrt(n_neg))
        self.duals = np.zeros((n_neg, n_pos))
        self.share = np.zeros(n_neg)
        self.sums = np.zeros(n_pos), self.share
        self.weights = self.push = np.zeros(problem.design.n_features)
        self.copy = self.gap_to_copy = self.weights
        self.normal = Normal.of(rows)
        self.tie = self.normal.typical if penalty.l1 else 0.0
        self.upper, self.lower, self.passes = np.inf, -np.inf, 0.0
        self.best_weights, self.best_threshold = self.weights, 0.0
        self.scores = np.zeros(n_pos), np.zeros(n_neg)

    def step(self) -> None:
        """The pairs' duals, the weights, their sparse copy, the bounds."""
        landed = self._move_duals()
        push = self.rows.combine(landed.per_positive, -landed.per_negative) / self.total
        self._move_weights(2.0 * push - self.push)
        self.push = push
        self._bound(landed)

    def _move_duals(self) -> Landed:
        stride = self.rho * self.total
        on_positives, on_negatives = self.scores
        for part in row_chunks(*self.duals.shape):
            self.duals[part] -= stride * (on_positives - on_negatives[part, None])
        landed = PairStep(self.problem.loss, self.cost, 1.0 / stride).land(self.duals, self.share)
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
        self.passes += 2.0 if self.copy is self.weights else 3.0
        threshold = float(scores[1].max())
        risk = float(self.cost @ loss.value(threshold - scores[0])) / self.total
        upper = self.penalty.value(self.copy) + risk
        lower = self.penalty.lower(self.push, landed.conjugates / self.total)
        if upper < self.upper:
            self.upper, self.best_weights, self.best_threshold = upper, self.copy, threshold
        if lower > self.lower:
            self.lower, self.sums = lower, (landed.per_positive, landed.per_negative)


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
        n_pos, n_neg = (side.size for side in rows.weights)

        def apply(weights: Array) -> Array:
            on_pos, on_neg = rows.scores(weights)
            return rows.combine(n_neg * on_pos - on_neg.sum(), n_pos * on_neg - on_pos.sum())

        n_features = rows.design.n_features
        if n_features > DENSE_FEATURES:
            return cls(apply, _power(apply, n_features) / np.sqrt(n_features))
        matrix = np.array([apply(unit) for unit in np.eye(n_features)])
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        values = np.maximum(values, 0.0)
        typical = float(values.mean()) or 1.0
        return cls(lambda weights: matrix @ weights, typical, values, vectors)

    def solve(self, goal: Array, rho: float, shift: float, start: Array) -> Array:
        """(rho D'D + shift I) w = goal."""
        if self.values is not None and self.vectors is not None:
            solved: Array = self.vectors @ ((self.vectors.T @ goal) / (rho * self.values + shift))
            return solved
        n_features = goal.size
        system = LinearOperator(
            (n_features, n_features), matvec=lambda w: rho * self.apply(w) + shift * w
        )
        return np.asarray(cg(system, goal, x0=start, rtol=1e-10, maxiter=10 * n_features)[0])


def _power(apply: Callable[[Array], Array], n_features: int, n_rounds: int = 10) -> float:
    """About the greatest eigenvalue."""
    vector = np.full(n_features, n_features**-0.5)
    size = 0.0
    for _ in range(n_rounds):
        image = apply(vector)
        size = float(np.linalg.norm(image))
        if not size:
            return 1.0
        vector = image / size
    return size
