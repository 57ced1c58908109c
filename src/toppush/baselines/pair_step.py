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
        free, free_fall = self._free_loads(target)
        load, fall, level = free, free_fall, -np.inf
        for n_round in range(MAX_ROUNDS):
            active = np.flatnonzero(share > 0.0)
            load, fall = free.copy(), free_fall.copy()
            load[active], fall[active] = self._loads(target, active, share)
            # A share that empties its load says nothing of the way down: back to none.
            share = np.where(fall > 0.0, share, 0.0)
            load, fall = np.where(fall > 0.0, load, free), np.where(fall > 0.0, fall, free_fall)
            new_level = _level(load, fall, share)
            uneven = np.max(np.abs(load - new_level)[share > 0.0], initial=0.0)
            settled = uneven <= ROUNDING * max(new_level, free.max() * ROUNDING)
            if n_round and (settled or new_level <= level):
                break
            level = new_level
            filled = load + share * fall > level
            share = np.where(filled, share + (load - level) / np.where(filled, fall, 1.0), 0.0)
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


def _level(load: Array, fall: Array, share: Array) -> float:
    """The level >= 0 where the shares (share + (load - level) / fall)_+ sum to 1, or 0."""
    pitched = fall > 0.0
    end, rate = (load + share * fall)[pitched], 1.0 / fall[pitched]
    order = np.argsort(-end)
    end, rate = end[order], np.cumsum(rate[order])
    mass = np.cumsum(end / fall[pitched][order])
    level = (mass - 1.0) / rate
    n_active = np.count_nonzero(end > level)
    return max(0.0, float(level[n_active - 1])) if n_active else 0.0
