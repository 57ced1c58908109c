"""One proximal step on the duals of all pairs, for any loss.

max_j sum_i c_i l(t_ij) is the greatest sum_j p_j sum_i c_i l(t_ij) over shares p >= 0, sum p = 1,
so a pair's dual is u_ij = p_j c_i a_ij with a_ij the loss's own dual. A step looks for

    min over u, p of  stiffness/2 |u - target|^2 + sum_j p_j sum_i c_i l*(u_ij / (p_j c_i)).

For given p the pairs are independent: violation t_ij = stiffness (target_ij - u_ij). The load of
a negative, sum_i c_i l(t_ij), falls as its share grows, and at the minimum every negative with a
share carries the same load, every other a smaller one. For the hinge loss this is the projection
onto sum_j max_i u_ij / c_i <= 1, u >= 0 (Quattoni et al. 2009), which the published methods use.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from reproduce.baselines.pairs import Hinge, Limits, Pair, TwoClasses, row_chunks
from toppush.problem.losses import Loss
from toppush.problem.solution import Solution, Status, safe_lower_bound
from toppush.solvers.driver import Method, State, follow, solving
from toppush.types import Array

MAX_ROUNDS = 300
GROWN = 1.0 + 16 * float(np.finfo(np.float64).eps)
"""A rise by a smaller factor is rounding."""
EVEN = 1.0 + 1e-8
FLATTEST = 1e-250
"""Least fall of a line beside the steepest; less would underflow."""


class Landed(NamedTuple):
    """Sums over the duals where a step came down."""

    per_positive: Array
    """sum_j u_ij."""
    per_negative: Array
    """sum_i u_ij."""
    conjugates: float
    """sum_j p_j sum_i c_i l*(a_ij)."""
    share: Array
    """p_j."""


@dataclass(frozen=True)
class PairStep:
    """The step of a given stiffness."""

    loss: Loss
    cost: Array
    """c_i, the positives' weights."""
    stiffness: float

    @classmethod
    def of(cls, loss: Loss, cost: Array, stiffness: float) -> "PairStep":
        """The step for a loss; the hinge has a shorter one."""
        return (HingeStep if isinstance(loss, Hinge) else cls)(loss, cost, stiffness)

    def land(self, target: Array, share: Array | None = None) -> Landed:
        """Replace the target by the minimiser, and take the sums there.

        Parameters
        ----------
        target : array of shape (n_neg, n_pos)
            Overwritten.
        share : array of shape (n_neg,), optional
            The shares found by a step like this one.
        """
        share = self.find_shares(target, np.zeros(target.shape[0]) if share is None else share)
        per_positive, per_negative, conjugates = np.zeros(target.shape[1]), share * 0.0, 0.0
        for rows in row_chunks(*target.shape):
            active = rows.start + np.flatnonzero(share[rows] > 0.0)
            dual, part = self._duals(target[active], share[active])
            conjugates += part
            target[rows] = 0.0
            target[active] = dual
            per_positive += dual.sum(axis=0)
            per_negative[active] = dual.sum(axis=1)
        return Landed(per_positive, per_negative, conjugates, share)

    def descend(self, duals: Array, scores: Pair, share: Array) -> Landed:
        """A gradient step on duals, in place: a pair's slope is w.x_i - w.z_j."""
        on_positives, on_negatives = (side / self.stiffness for side in scores)
        for rows in row_chunks(*duals.shape):
            duals[rows] -= on_positives - on_negatives[rows, None]
        return self.land(duals, share)

    def find_shares(self, target: Array, share: Array) -> Array:
        """Shares that sum to 1 at most and level the loads, from a guess.

        A load is convex and falls as its share grows, so its tangent lies below it, and the
        level at which the tangents' shares sum to 1 can only rise from round to round, as can
        the shares while that level is 0. When neither does and no load stands out, rounding is
        all that is left. A round reads the rows that have a share; from a good guess it takes
        two to five.
        """
        all_rows, level = np.arange(target.shape[0]), -np.inf
        tangents = _Tangents(*self._look(target, all_rows, np.zeros(all_rows.size)))
        for _ in range(MAX_ROUNDS):
            active = np.flatnonzero(share > 0.0)
            load, fall = self._look(target, active, share[active])
            tangents.move(active, share[active], load, fall)
            latest, shares = tangents.balance()
            if latest > 0.0:
                done = latest <= level * GROWN and load.max(initial=0.0) <= latest * EVEN
            else:
                done = level == 0.0 and shares.sum() <= share.sum() * GROWN
            level, share = latest, shares
            if done:
                break
        return share / max(1.0, float(share.sum()))

    def _look(self, target: Array, rows: NDArray[np.intp], share: Array) -> Pair:
        """The loads of some negatives at their shares, and how fast they fall."""
        load, fall = np.empty(rows.size), np.empty(rows.size)
        for part in row_chunks(rows.size, target.shape[1]):
            chosen = target[part if rows.size == len(target) else rows[part]]
            load[part], fall[part] = self._loads(chosen, share[part])
        return load, fall

    def _loads(self, target: Array, share: Array) -> Pair:
        """Loads and how fast they fall; all of the shares are positive, or none is."""
        square = np.square(self.cost)
        if not share.any():
            # Of a violation past 300 the slope's square may overflow; less makes a lower line.
            violation = np.minimum(self.stiffness * target, 300.0)
            slope = self.loss.slope(violation)
            return self.loss.value(violation) @ self.cost, self.stiffness * (slope**2 @ square)
        dual, bend, violation = self._respond(target, share)
        fall = (np.square(dual) * (1.0 - bend)) @ square
        return self.loss.value(violation) @ self.cost, self.stiffness * fall

    def _duals(self, target: Array, share: Array) -> tuple[Array, float]:
        """The pairs' duals at positive shares, and the sum of their conjugates."""
        dual = self._respond(target, share)[0]
        conjugates = float(share @ (self.loss.conjugate(dual) @ self.cost))
        return dual * (share[:, None] * self.cost), conjugates

    def _respond(self, target: Array, share: Array) -> tuple[Array, Array, Array]:
        """The pairs' own duals at positive shares, their bend, and the violations."""
        goal, stiffness = self.stiffness * target, self.stiffness * share[:, None] * self.cost
        dual, bend = self.loss.dual_prox(goal / stiffness, stiffness)
        return dual, bend, goal - stiffness * dual


class HingeStep(PairStep):
    """The hinge's, in a quarter of the time: u_ij is target_ij + 1/stiffness in [0, p_j c_i]."""

    def find_shares(self, target: Array, share: Array) -> Array:
        """Shares that cover every pair, if they sum to 1 at most; else those that level."""
        whole = np.empty(len(target))
        for rows in row_chunks(*target.shape):
            whole[rows] = np.max((target[rows] + 1.0 / self.stiffness) / self.cost, axis=1)
        np.maximum(whole, 0.0, out=whole)
        return whole if whole.sum() <= 1.0 else super().find_shares(target, share)

    def _loads(self, target: Array, share: Array) -> Pair:
        """What the shares leave uncovered."""
        left = target + 1.0 / self.stiffness
        left /= self.cost
        left -= share[:, None]
        np.maximum(left, 0.0, out=left)
        square = self.stiffness * np.square(self.cost)
        return left @ square, np.sign(left, out=left) @ square

    def _duals(self, target: Array, share: Array) -> tuple[Array, float]:
        dual = np.clip(target + 1.0 / self.stiffness, 0.0, share[:, None] * self.cost)
        return dual, -float(dual.sum())


class _Tangents:
    """A line below each negative's load as a function of its share, through (share, load)."""

    def __init__(self, free_load: Array, free_fall: Array) -> None:
        self.free_load, self.free_fall = free_load, free_fall
        self.share = np.zeros_like(free_load)
        self.load, self.fall = free_load.copy(), free_fall.copy()

    def move(self, rows: NDArray[np.intp], share: Array, load: Array, fall: Array) -> None:
        """Touch the loads of some rows at their shares, and of all others at none.

        Where a load is empty and flat, the line before says more and stays.
        """
        others = np.ones(self.share.size, bool)
        others[rows] = False
        self.share[others] = 0.0
        self.load[others], self.fall[others] = self.free_load[others], self.free_fall[others]
        steep = fall > 0.0
        rows = rows[steep]
        self.share[rows], self.load[rows], self.fall[rows] = share[steep], load[steep], fall[steep]

    def balance(self) -> tuple[float, Array]:
        """The level >= 0 at which the lines' shares sum to 1, or 0 if they never do; the shares.

        Reckoned down from the highest start: beside it the level of lines that fall slowly would
        be lost to rounding, and with it the shares.
        """
        shares, rows = np.zeros_like(self.share), np.flatnonzero(self.fall > 0.0)
        if not rows.size:
            return 0.0, shares
        start = (self.load + self.share * self.fall)[rows]
        order = np.argsort(-start)
        rows, start = rows[order], start[order]
        below, fall = start[0] - start, self.fall[rows]
        fall = np.maximum(fall, fall.max() * FLATTEST)
        slowest = fall.min()
        rate = slowest / fall
        depths = (slowest + np.cumsum(rate * below)) / np.cumsum(rate)
        n_active = max(int(np.sum(below < depths)), 1)
        depth = float(depths[n_active - 1])
        if start[0] - depth <= 0.0:
            shares[rows] = np.maximum(start, 0.0) / fall
            return 0.0, shares
        shares[rows] = np.maximum(depth - below, 0.0) / slowest * rate
        return float(start[0] - depth), shares


PATIENCE = 1000
STUCK = 1e-5
"""Relative gap that products of float32 rows may leave; above it, slow is not stuck."""


class Bounds:
    """Bounds of a solve over pairs, and the weights and duals they belong to.

    The best that were seen, or with `latest` those of the latest point. Before any point has
    numbers to show they are those of weights of zero, and of losses that are never negative.
    """

    def __init__(self, rows: TwoClasses, at_zero: float, *, latest: bool = False) -> None:
        self._rows, self._latest = rows, latest
        self.upper, self.lower = at_zero, 0.0
        self.found_any = False
        """Whether some point had an objective that is a number."""
        self._weights, self._threshold = np.zeros(rows.design.n_features), 0.0
        self._sums = np.zeros_like(rows.weights[0]), np.zeros_like(rows.weights[1])
        self._gaps: list[float] = []

    def note(
        self, upper: float, weights: Array, threshold: float, lower: float, landed: Landed
    ) -> None:
        """Keep what a point's weights and duals prove."""
        if np.isfinite(upper) and (self._latest or not self.found_any or upper < self.upper):
            self.upper, self._weights, self._threshold = upper, weights, threshold
            self.found_any = True
        if lower > self.lower or (self._latest and np.isfinite(lower)):
            self.lower, self._sums = lower, (landed.per_positive, landed.per_negative)
        self._gaps.append(self.upper - self.lower)

    def state(self) -> State:
        """Both bounds, and the weights of the upper one with their threshold."""
        return self.upper, self.lower, self._weights, self._threshold

    def are_stuck(self) -> bool:
        """Whether rounding is all that is left, and 1000 iterations did not shrink the gap."""
        if len(self._gaps) <= PATIENCE:
            return False
        then, gap = self._gaps[-1 - PATIENCE], self._gaps[-1]
        return gap <= STUCK * abs(self.upper) and gap > 0.99 * then

    def outcome(self, tol: float, *, still: bool) -> Status | None:
        """How the solve ends here, None if it goes on; `still` if the point did not move."""
        if self.found_any and self.upper - self.lower <= tol * abs(self.upper):
            return Status.CONVERGED
        return Status.STALLED if still or self.are_stuck() else None

    def solution(self, status: Status, n_iter: int) -> Solution:
        """The record."""
        dual, lower = self._rows.join(*self._sums), safe_lower_bound(self.upper, self.lower)
        return Solution(self._weights, self._threshold, dual, self.upper, lower, n_iter, status)


class PairMethod(Method, Protocol):
    """A method whose bounds are those of pairs."""

    bounds: Bounds


def followed(make: Callable[[], PairMethod], rows: TwoClasses, limits: Limits) -> Solution:
    """Make and run a method over pairs."""
    with solving(rows.design, limits.watch) as history:
        method = make()
        status = follow(method, history, max_iter=limits.max_iter)
        found = method.bounds.solution(status, len(history))
    return history.complete(found)
