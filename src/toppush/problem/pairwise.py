"""The pairwise family: every positive against each of the highest negatives.

    F(w) = lam/2 |w|^2 + mean of the k greatest h_j,    h_j = sum_i c_i l(w.z_j - w.x_i)

with c the positives' weights, which sum to 1 here. The mean of the k greatest is the greatest p.h
over shares 0 <= p_j <= 1/k that sum to 1, and any such p proves

    F >= p.h + w.v - |v|^2/(2 lam),    v = sum_ij p_j c_i l'(w.z_j - w.x_i) (x_i - z_j)

at any w: the convex conjugates of the pairs' losses in other words. What is missing to F(w) is
(mean of the k greatest - p.h) + |lam w - v|^2/(2 lam). The best p at a kink is a mixture, which a
smoothed top finds: p maximises p.h + mu (entropy of the k p_j)/k, so that k p_j is the logistic
function of (h_j - level)/mu, the level such that they sum to k.
For k = 1 it is the problem of `objective.py`, since the loss does not fall.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import expit, xlogy

from toppush.problem.objective import TopProblem
from toppush.problem.pair_sums import PAIR_SUMS, PairSums
from toppush.problem.tops import root
from toppush.types import Array

Sides = tuple[Array, Array]
"""An entry for each positive, and one for each negative."""


@dataclass(frozen=True)
class PairwiseProblem(TopProblem):
    """Rank each positive in `design` above each of the `k` best negatives."""

    def at(self, weights: Array, scores: Sides, cost: Array, mu: float) -> "PairPoint":
        """All but products with rows, at weights of such scores, the top smoothed by mu."""
        sums = PAIR_SUMS[self.loss.name](*scores)
        losses = sums.over_positives(cost, 0)
        top = smoothed_top(losses, self.k, mu)
        penalty = 0.5 * self.lam * float(weights @ weights)
        reached = float(top.shares @ losses)
        return PairPoint(
            weights,
            scores,
            mu,
            top,
            sums,
            cost,
            upper=penalty + top.mean,
            smooth=penalty + reached + top.bonus,
            reached=reached,
        )


class SmoothedTop(NamedTuple):
    """The mean of the k greatest, and what stands for it where there are kinks."""

    mean: float
    shares: Array
    bonus: float
    """Mu times the entropy."""
    give: Array
    """How fast the shares change with the losses, times mu."""
    heights: Array
    """(h_j - level)/mu of those that can have a share, else 0."""

    def shares_at(self, shrink: float) -> Array:
        """What the shares become as mu shrinks to that part of itself, to first order."""
        rise, mass = self.heights * (1.0 / shrink - 1.0), float(self.give.sum())
        if mass == 0.0:
            return self.shares
        return np.asarray(self.shares + self.give * (rise - float(self.give @ rise) / mass))


@dataclass(frozen=True)
class PairPoint:
    """Weights, and what the pairs say there.

    Attributes
    ----------
    upper, smooth : float
        F, and F with the smoothed top.
    reached : float
        p.h.
    """

    weights: Array
    scores: Sides
    mu: float
    top: SmoothedTop
    sums: PairSums
    cost: Array
    upper: float
    smooth: float
    reached: float

    @cached_property
    def slopes(self) -> Array:
        """The derivative of each negative's h by its score."""
        return self.sums.over_positives(self.cost, 1)

    @cached_property
    def push(self) -> Sides:
        """Minus the derivatives of the smoothed top by the scores: positives up, negatives down."""
        return self.push_of(self.top.shares)

    def push_of(self, shares: Array) -> Sides:
        """The same for other shares."""
        return self.cost * self.sums.over_negatives(shares, 1), -shares * self.slopes

    @property
    def slack(self) -> float:
        """What smoothing leaves open between the bounds."""
        return self.top.mean - self.reached

    def conjugates(self) -> tuple[float, float]:
        """p.h + w.v from the scores alone, and the size of the terms in it."""
        middle = 0.5 * float(self.scores[1].min() + self.scores[1].max())
        up, down = (self.push[side] * (self.scores[side] - middle) for side in (0, 1))
        sizes = float(np.abs(up).sum() + np.abs(down).sum())
        return self.reached + float(up.sum() + down.sum()), self.reached + sizes


def top_mean_of(values: Array, k: int) -> float:
    """Mean of the k greatest."""
    if k == len(values):
        return float(values.mean())
    return float(np.partition(values, len(values) - k)[len(values) - k :].mean())


def smoothed_top(losses: Array, k: int, mu: float) -> SmoothedTop:
    """Shares of the k greatest losses, which differ by a few mu at their edge."""
    n, mean = len(losses), top_mean_of(losses, k)
    if k == n or not np.isfinite(mean):
        return SmoothedTop(mean, np.full(n, 1.0 / n), 0.0, np.zeros(n), np.zeros(n))
    # Losses this far below the k-th greatest have no share; on the way they cost the most.
    edge = float(np.partition(losses, n - k)[n - k])
    near = np.flatnonzero(losses > edge - mu * (40.0 + np.log(n)))
    near_heights = _heights(losses[near], k, mu, edge)
    inside, outside = expit(near_heights), expit(-near_heights)
    bonus = -mu / k * float((xlogy(inside, inside) + xlogy(outside, outside)).sum())
    shares, give, heights = np.zeros(n), np.zeros(n), np.zeros(n)
    shares[near] = np.minimum(inside / inside.sum(), 1.0 / k)
    give[near], heights[near] = inside * outside / k, near_heights
    return SmoothedTop(mean, shares, bonus, give, heights)


def _heights(losses: Array, k: int, mu: float, edge: float) -> Array:
    """Losses above the level, in units of mu, at which logistic functions of them sum to k.

    The level is counted from the edge: it is a few mu away, and as a loss it would be rounded to
    many of them where mu is small.
    """
    above = (losses - edge) / mu

    def surplus(level: float) -> tuple[float, float, float]:
        inside = expit(above - level)
        return float(inside.sum()) - k, -float((inside * (1.0 - inside)).sum()), float(k)

    reach = 40.0 + np.log(len(losses))
    return np.asarray(above - root(surplus, -reach, float(above.max()) + reach, 0.0))
