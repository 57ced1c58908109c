"""One proximal step on the duals of all pairs, for any loss.

max_j sum_i c_i l(t_ij) is the greatest sum_j p_j sum_i c_i l(t_ij) over shares p >= 0, sum p = 1,
so a pair's dual is u_ij = p_j c_i a_ij with a_ij the loss's own dual. A step looks for

    min over u, p of  stiffness/2 |u - target|^2 + sum_j p_j sum_i c_i l*(u_ij / (p_j c_i)).

For given p the pairs are independent: violation t_ij = stiffness (target_ij - u_ij). The load of
a negative, sum_i c_i l(t_ij), falls as its share grows, and at the minimum every negative with a
share carries the same load, every other a smaller one. For the hinge loss this is the projection
onto sum_j max_i u_ij / c_i <= 1, u >= 0 (Quattoni et al. 2009), which the published methods use.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toppush.baselines.pairs import row_chunks
from toppush.losses import Array, Loss

MAX_ROUNDS = 300
ROUNDING = 16 * float(np.finfo(np.float64).eps)


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
            dual, _, _ = self._respond(target[active], share[active])
            conjugates += float(share[active] @ (self.loss.conjugate(dual) @ self.cost))
            dual *= share[active, None] * self.cost
            target[rows] = 0.0
            target[active] = dual
            per_positive += dual.sum(axis=0)
            per_negative[active] = dual.sum(axis=1)
        return Landed(per_positive, per_negative, conjugates, share)

    def find_shares(self, target: Array, share: Array) -> Array:
        """Shares that sum to 1 at most and level the loads, from a guess.

        A load is convex and falls as its share grows, so its tangent lies below it, and the
        level at which the tangents' shares sum to 1 can only rise from round to round. A round
        reads the rows that have a share; from a good guess it takes two to four.
        """
        load, fall = self._free_loads(target)
        tangents, level, top = _Tangents(load, fall), -np.inf, float(load.max())
        for n_round in range(MAX_ROUNDS):
            active = np.flatnonzero(share > 0.0)
            load, fall = self._loads(target, active, share)
            tangents.move(active, share[active], load, fall)
            latest = tangents.level()
            uneven = np.max(np.abs(load - latest), initial=0.0)
            shares = tangents.shares(latest)
            still = latest <= level and np.allclose(shares, share, rtol=ROUNDING, atol=0.0)
            if n_round and (uneven <= ROUNDING * max(latest, ROUNDING * top) or still):
                break
            level, share = latest, shares
        return share / max(1.0, float(share.sum()))

    def _free_loads(self, target: Array) -> tuple[Array, Array]:
        """Each negative's load without a share, and how fast a first share brings it down."""
        load, fall = np.empty(target.shape[0]), np.empty(target.shape[0])
        for rows in row_chunks(*target.shape):
            violation = self.stiffness * target[rows]
            load[rows] = self.loss.value(violation) @ self.cost
            fall[rows] = np.square(self.loss.slope(violation)) @ np.square(self.cost)
        return load, self.stiffness * fall

    def _loads(self, target: Array, active: NDArray[np.intp], share: Array) -> tuple[Array, Array]:
        """The loads of some negatives at their shares, and how fast they fall."""
        load, fall = np.empty(active.size), np.empty(active.size)
        for part in row_chunks(active.size, target.shape[1]):
            dual, bend, violation = self._respond(target[active[part]], share[active[part]])
            load[part] = self.loss.value(violation) @ self.cost
            fall[part] = (np.square(dual) * (1.0 - bend)) @ np.square(self.cost)
        return load, self.stiffness * fall

    def _respond(self, target: Array, share: Array) -> tuple[Array, Array, Array]:
        """The pairs' own duals at positive shares, their bend, and the violations."""
        goal, stiffness = self.stiffness * target, self.stiffness * share[:, None] * self.cost
        dual, bend = self.loss.dual_prox(goal / stiffness, stiffness)
        return dual, bend, goal - stiffness * dual


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

    def shares(self, level: float) -> Array:
        """The shares at which the lines come down to a level."""
        steep = self.load + self.share * self.fall > level
        return np.where(
            steep, self.share + (self.load - level) / np.where(steep, self.fall, 1.0), 0.0
        )

    def level(self) -> float:
        """The level >= 0 where those shares sum to 1; 0 if they sum to less everywhere."""
        steep = self.fall > 0.0
        start = (self.load + self.share * self.fall)[steep]
        order = np.argsort(-start)
        start, rate = start[order], 1.0 / self.fall[steep][order]
        level = (np.cumsum(start * rate) - 1.0) / np.cumsum(rate)
        n_active = np.count_nonzero(start > level)
        return max(0.0, float(level[n_active - 1])) if n_active else 0.0
