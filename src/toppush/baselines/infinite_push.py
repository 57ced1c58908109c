"""The Infinite Push: positives against the worst negative, over all pairs.

    P(w) = lam/2 |w|^2 + max_j 1/m sum_i c_i l(w.z_j - w.x_i)
    D(u) = 1/(2 lam m) |sum_ij u_ij (x_i - z_j)|^2 + sum_j p_j sum_i c_i l*(u_ij / (p_j c_i))

over u >= 0 and shares p >= 0, sum p <= 1; any such point proves P >= -D/m. The c_i are the
positives' weights and m their sum. Agarwal (2011): alpha_ij -> u_ij, xi -> the load of a negative.
"""

import time
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from toppush.baselines import pair_admm
from toppush.baselines.pair_step import Landed, PairStep
from toppush.baselines.pairs import (
    MAX_PAIRS,
    PAIR_LOSSES,
    BaselineRanker,
    TwoClasses,
    is_stuck,
    require_pairs,
    row_chunks,
)
from toppush.designs import LocalDesign
from toppush.losses import Array
from toppush.problems import TopPushProblem
from toppush.solutions import Iteration, Solution, Status

BYTES_PER_PAIR = 24
"""The latest duals, the ones before, and the point a step aims at."""
ROUNDING = 8 * float(np.finfo(np.float64).eps)


class InfinitePush(BaselineRanker):
    """Linear ranker that pushes down the negative that beats most positives, over all pairs.

    Minimises lam/2 |w|^2 + max_j mean_i l(w.z_j - w.x_i) over the positives x_i and negatives
    z_j, by gradient steps on one dual variable per pair, each projected (Agarwal 2011). An
    iteration takes O(mn + (m+n)d) time; memory is 24 mn bytes. For a non-decreasing loss the
    optimum is that of TopPush, which finds it in linear time: use this to compare, on small data.

    Where the published method takes steps of c/sqrt(t), this one takes steps by a line search,
    with momentum that restarts when the objective rises, and ends by its duality gap. Below
    lam = 0.1 or so gradient steps take thousands of iterations, for the hinge more;
    `solver="admm"` takes about as many for every lam, and a third of the memory.

    Parameters
    ----------
    lam : float, default=1.0
        Strength of the penalty on the weights.
    loss : {"hinge", "truncated_quadratic", "logistic", "exponential"}, default="hinge"
        The published loss is the hinge.
    solver : {"gradient", "admm"}, default="gradient"
        "gradient" steps as published; "admm" is the iteration of `SparseInfinitePush`.
    tol : float, default=1e-4
        Ends when the duality gap is at most this share of the objective.
    max_iter : int, default=10000
    max_pairs : int, default=20000000
        More pairs are refused before any memory is taken; the default allows 0.45 GiB.
    n_threads : int, optional
        Threads over blocks of rows; by default all cores, or OMP_NUM_THREADS if set.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
    threshold_ : float
        The greatest score of a negative in the training rows.
    classes_ : array of shape (2,)
        The second class is the positive one.
    n_iter_ : int
    solution_ : Solution
        `dual` holds a number per row: the sum of the duals of its pairs.

    Notes
    -----
    `sample_weight`: a positive's weight scales its losses. A negative counts whole or, with
    weight zero, not at all.

    References
    ----------
    S. Agarwal. The Infinite Push: A New Support Vector Ranking Algorithm that Directly Optimizes
    Accuracy at the Absolute Top of the List. SDM 2011.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "lam": [Interval(Real, 0, None, closed="neither")],
        "loss": [StrOptions(set(PAIR_LOSSES))],
        "solver": [StrOptions({"gradient", "admm"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_pairs": [Interval(Integral, 1, None, closed="left")],
        "n_threads": [None, Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        lam: float = 1.0,
        *,
        loss: str = "hinge",
        solver: str = "gradient",
        tol: float = 1e-4,
        max_iter: int = 10_000,
        max_pairs: int = MAX_PAIRS,
        n_threads: int | None = None,
    ) -> None:
        self.lam = lam
        self.loss = loss
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_pairs = max_pairs
        self.n_threads = n_threads

    def _solve(self, design: LocalDesign, sample_weight: Array | None) -> Solution:
        by_gradient = self.solver == "gradient"
        per_pair = BYTES_PER_PAIR if by_gradient else pair_admm.BYTES_PER_PAIR
        require_pairs(design.n_pos, design.n_neg, self.max_pairs, per_pair)
        problem = TopPushProblem(design, PAIR_LOSSES[self.loss], float(self.lam))
        rows = TwoClasses(design, sample_weight)
        if by_gradient:
            return projected_gradient(problem, rows, tol=self.tol, max_iter=self.max_iter)
        ridge = pair_admm.ElasticNet(problem.lam, l1_ratio=0.0)
        return pair_admm.alternate(problem, rows, ridge, tol=self.tol, max_iter=self.max_iter)


def projected_gradient(
    problem: TopPushProblem, rows: TwoClasses, *, tol: float, max_iter: int
) -> Solution:
    """Minimise D over the pairs' duals until the gap is at most `tol` of the objective.

    `problem` gives P: as l does not fall, the worst negative is the one that scores highest.
    """
    began = time.perf_counter()
    search = _Search(problem, rows)
    history: list[Iteration] = []
    status, momentum, previous = Status.MAX_ITER, 1.0, 0.0
    while len(history) < max_iter:
        before = search.objective
        moved = search.step((previous - 1.0) / momentum)
        seconds = time.perf_counter() - began
        history.append(Iteration(search.upper, search.lower, search.passes, seconds))
        if search.upper - search.lower <= tol * abs(search.upper):
            status = Status.CONVERGED
            break
        if (not moved and momentum == 1.0) or is_stuck(history):
            status = Status.STALLED
            break
        if search.objective > before or not moved:
            momentum, previous = 1.0, 0.0
        else:
            momentum, previous = 0.5 + float(np.sqrt(0.25 + momentum**2)), momentum
    return Solution(
        weights=search.best_weights,
        threshold=search.best_threshold,
        dual=search.row_duals(),
        upper=search.upper,
        lower=search.lower,
        n_iter=len(history),
        status=status,
        history=tuple(history),
    )


@dataclass
class _Point:
    """Duals of the pairs with what follows from them."""

    duals: Array
    push: Array
    """sum_ij u_ij (x_i - z_j); the weights times lam m."""
    on_positives: Array
    on_negatives: Array


@dataclass
class _Search:
    """Where the iteration stands, and the best bounds seen."""

    problem: TopPushProblem
    rows: TwoClasses
    objective: float = 0.0
    """D/m; 0 at zero for every loss."""
    upper: float = np.inf
    lower: float = -np.inf
    passes: float = 0.0
    curvature: float = 0.0
    best_weights: Array = field(default_factory=lambda: np.empty(0))
    best_threshold: float = 0.0

    def __post_init__(self) -> None:
        n_pos, n_neg = (side.size for side in self.rows.weights)
        zeros = np.zeros(n_pos), np.zeros(n_neg)
        self.sums, self.share = zeros, zeros[1]
        features = np.zeros(self.problem.design.n_features)
        self.latest = _Point(np.zeros((n_neg, n_pos)), features, *zeros)
        self.before = _Point(np.zeros((n_neg, n_pos)), features, *zeros)
        self.spare = np.empty((n_neg, n_pos))
        self.cost = self.rows.weights[0]
        # Duals of all ones bend by this much, so no smaller curvature can hold everywhere.
        ones = self.rows.combine(np.full(n_pos, float(n_neg)), np.full(n_neg, -float(n_pos)))
        self.curvature = max(float(ones @ ones) / (n_pos * n_neg * self.problem.scale), 1e-300)

    def step(self, momentum: float) -> bool:
        """One accepted step from the probe; whether it moved by more than rounding."""
        latest, before = self.latest, self.before
        probe_push = latest.push + momentum * (latest.push - before.push)
        while True:
            self._aim(momentum)
            step = PairStep(self.problem.loss, self.cost, self.curvature)
            landed = step.land(self.spare, self.share)
            push = self.rows.combine(landed.per_positive, -landed.per_negative)
            self.passes += 1
            moved, size = self._moved(momentum)
            change = push - probe_push
            bend = float(change @ change) / self.problem.scale
            still = moved <= ROUNDING**2 * size
            if bend <= self.curvature * moved or still:
                break
            self.curvature *= 2.0
        self.share = landed.share
        self._advance(push, landed)
        return not still

    def _aim(self, momentum: float) -> None:
        """Put the probe less the gradient over the curvature in the spare array."""
        latest, before = self.latest, self.before
        on_positives = latest.on_positives + momentum * (latest.on_positives - before.on_positives)
        on_negatives = latest.on_negatives + momentum * (latest.on_negatives - before.on_negatives)
        for part in row_chunks(*self.spare.shape):
            probe = latest.duals[part] - before.duals[part]
            probe *= momentum
            probe += latest.duals[part]
            gradient = on_positives - on_negatives[part, None]
            gradient /= self.curvature
            np.subtract(probe, gradient, out=self.spare[part])

    def _moved(self, momentum: float) -> tuple[float, float]:
        """Squared distance of the landing from the probe, and its squared length."""
        moved = size = 0.0
        for part in row_chunks(*self.spare.shape):
            landed, duals = self.spare[part], self.latest.duals[part]
            probe = duals + momentum * (duals - self.before.duals[part])
            moved += float(np.sum(np.square(landed - probe)))
            size += float(np.sum(np.square(landed)))
        return moved, size

    def _advance(self, push: Array, landed: Landed) -> None:
        problem, weights = self.problem, push / self.problem.scale
        scores = self.rows.scores(weights)
        self.passes += 1
        duals, self.spare = self.spare, self.before.duals
        self.before, self.latest = self.latest, _Point(duals, push, *scores)
        self.objective = -problem.lower(push, landed.conjugates)
        threshold = problem.threshold()
        upper = problem.upper(weights, threshold)
        if upper < self.upper:
            self.upper, self.best_weights, self.best_threshold = upper, weights, threshold
        if -self.objective > self.lower:
            self.lower = -self.objective
            self.sums = landed.per_positive, landed.per_negative

    def row_duals(self) -> Array:
        """The best lower bound's duals summed by row, over all rows."""
        return self.rows.join(*self.sums)
