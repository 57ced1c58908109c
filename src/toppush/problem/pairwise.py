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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import expit, xlogy

from toppush.problem.losses import Exponential, Logistic, Loss, TruncatedQuadratic
from toppush.problem.numerics import root
from toppush.problem.objective import TopProblem
from toppush.types import Array, Where

Sides = tuple[Array, Array]
"""An entry for each positive, and one for each negative."""

DEGREE = 14
"""Chebyshev polynomials on a panel of width 1: those left out are below 1e-15, as the logistic
loss is analytic up to 2 pi half-widths off, and 12.6^-14 = 4e-16."""
FAR = 40
"""Panels beyond which the logistic loss is t or 0: e^-39 is 1e-17."""

AT_A_TIME = 16
"""Panels whose sums are taken together: 4 MB at most."""
FEW_PAIRS = 1 << 14
"""Pairs up to which writing them down is quicker than panels."""


class PairSums(Protocol):
    """Sums over all pairs of some scores."""

    left_out: float
    """Most that a mean of losses is too small because distant pairs are left out."""

    def over_positives(self, f: Array, order: int) -> Array:
        """For every negative, the sum of f_i times the loss or a derivative."""

    def over_negatives(self, f: Array, order: int) -> Array:
        """For every positive, the sum of f_j times the loss or a derivative."""


class SquaredHingeSums:
    """l(t) = (1 + t)_+^2 by one sort: from score to score a parabola goes on.

    All terms that are added are of one sign if f is, so no digits cancel wherever the scores lie.
    """

    left_out = 0.0

    def __init__(self, positives: Array, negatives: Array) -> None:
        points = np.concatenate([positives - 1.0, negatives])
        rising = np.argsort(points, kind="stable")
        self._place = np.empty(len(points), np.intp)
        self._place[rising] = np.arange(len(points))
        self._n_pos, self._gaps = len(positives), np.diff(points[rising])

    def over_positives(self, f: Array, order: int) -> Array:
        """A pair counts where the negative lies above the positive less 1."""
        mass = np.zeros(len(self._place))
        mass[self._place[: self._n_pos]] = f
        return _parabolas(mass, self._gaps, order)[self._place[self._n_pos :]]

    def over_negatives(self, f: Array, order: int) -> Array:
        """The same from above."""
        mass = np.zeros(len(self._place))
        mass[self._place[self._n_pos :]] = f
        found = _parabolas(mass[::-1], self._gaps[::-1], order)[::-1]
        return np.asarray(found[self._place[: self._n_pos]])


def _parabolas(mass: Array, gaps: Array, order: int) -> Array:
    """At every point, the sum of mass (point - earlier point)^2, or a derivative of it."""
    weight = np.cumsum(mass)
    if order == 2:
        return 2.0 * weight
    rise = gaps * weight[:-1]
    slope = np.append(0.0, np.cumsum(2.0 * rise))
    if order == 1:
        return slope
    return np.append(0.0, np.cumsum(gaps * (slope[:-1] + rise)))


class AllPairs:
    """Any loss, all pairs written down: for few rows the quickest way."""

    left_out = 0.0

    def __init__(self, loss: Loss, positives: Array, negatives: Array) -> None:
        self._kinds = loss.value, loss.slope, loss.curvature
        self._violations = negatives[:, None] - positives
        self._made: dict[int, Array] = {}

    def over_positives(self, f: Array, order: int) -> Array:
        """A row for each negative."""
        return np.asarray(self._table(order) @ f)

    def over_negatives(self, f: Array, order: int) -> Array:
        """A column for each positive."""
        return np.asarray(f @ self._table(order))

    def _table(self, order: int) -> Array:
        if order not in self._made:
            self._made[order] = self._kinds[order](self._violations)
        return self._made[order]


def logistic_sums(positives: Array, negatives: Array) -> PairSums:
    """By panels, or by pairs where these are few."""
    if len(positives) * len(negatives) <= FEW_PAIRS:
        return AllPairs(Logistic(), positives, negatives)
    return LogisticSums(positives, negatives)


class LogisticSums:
    """l(t) = log(1 + e^t) by panels of the scores' axis, each a polynomial in either score."""

    left_out = float(np.exp(1.0 - FAR))

    def __init__(self, positives: Array, negatives: Array) -> None:
        middle = 0.5 * (_least(positives, negatives) - _least(-positives, -negatives))
        self._positives, self._negatives = _Panels(positives - middle), _Panels(negatives - middle)

    def over_positives(self, f: Array, order: int) -> Array:
        """Positives far below count by a line."""
        return _across(self._positives, self._negatives, f, order, 1.0)

    def over_negatives(self, f: Array, order: int) -> Array:
        """Negatives far above count by a line."""
        return _across(self._negatives, self._positives, f, order, -1.0)


def _least(*parts: Array) -> float:
    return min(float(part.min()) for part in parts)


class _Panels:
    """Scores, rising, by panels of width 1, with the Chebyshev polynomials of each on its panel."""

    def __init__(self, scores: Array) -> None:
        self.rising = np.argsort(scores, kind="stable")
        self.scores = scores[self.rising]
        floor = np.floor(self.scores)
        new = np.append(True, np.diff(floor) > 0.0)
        firsts = np.flatnonzero(new)
        self.panels, self.home = floor[new], np.cumsum(new) - 1
        self.parts = [slice(*ends) for ends in pairwise([*firsts.tolist(), len(scores)])]
        self.basis = chebyshev.chebvander(2.0 * (self.scores - floor) - 1.0, DEGREE - 1)

    def moments(self, f: Array) -> Array:
        """Sums over each panel of f times the polynomials; f rises with the scores."""
        return np.array([f[part] @ self.basis[part] for part in self.parts])

    def values(self, coefficients: Array) -> Array:
        """A polynomial of each panel at its scores, in the order that these were given in."""
        found = np.empty(len(self.scores))
        for part, row in zip(self.parts, coefficients, strict=True):
            found[self.rising[part]] = self.basis[part] @ row
        return found


def _across(source: _Panels, target: _Panels, f: Array, order: int, sign: float) -> Array:
    """Sums over the source at every score of the target; t = sign (target - source)."""
    f = f[source.rising]
    first = np.searchsorted(source.panels, target.panels - FAR)
    last = np.searchsorted(source.panels, target.panels + FAR, side="right")
    moments, near = source.moments(f), np.zeros((len(target.panels), DEGREE))
    for some in _together(first, last):
        others = slice(first[some][0], last[some][-1])
        apart = sign * (target.panels[some, None] - source.panels[others])
        near[some] = _mixed(_tables(order, sign), apart, moments[others])
    found = target.values(near)
    if order < 2:
        ends = first if sign > 0.0 else len(source.panels) - last
        found[target.rising] += _far(source, target, f, order, sign, ends)
    return found


def _together(first: Where, last: Where) -> Iterator[slice]:
    """Panels of the target in groups, each with a bounded number of panels of the source."""
    start = 0
    while start < len(first):
        reach = int(np.searchsorted(last, first[start] + 4 * FAR, side="right"))
        stop = max(start + 1, min(start + AT_A_TIME, reach))
        yield slice(start, stop)
        start = stop


def _far(source: _Panels, target: _Panels, f: Array, order: int, sign: float, ends: Where) -> Array:
    """What the pairs add whose loss is t: the source lies far below, or for sign < 0 above.

    `ends` says for each panel of the target how many of the source do.
    """
    starts = [part.start for part in source.parts]
    mass, moment = (np.add.reduceat(part, starts) for part in (f, f * source.scores))
    if sign < 0.0:
        mass, moment = mass[::-1], moment[::-1]
    mass, moment = (np.append(0.0, np.cumsum(part))[ends][target.home] for part in (mass, moment))
    return np.asarray(mass if order == 1 else sign * (mass * target.scores - moment))


def _mixed(tables: Array, apart: Array, moments: Array) -> Array:
    """Polynomials on panels that lie so far from others with these moments."""
    places = np.clip(apart, -FAR - 1, FAR + 1).astype(np.intp) + FAR + 1
    n_target, n_source = apart.shape
    matrix = tables[places].transpose(0, 2, 1, 3).reshape(n_target * DEGREE, n_source * DEGREE)
    return np.asarray((matrix @ moments.ravel()).reshape(n_target, DEGREE))


@cache
def _tables(order: int, sign: float) -> Array:
    """Coefficients of a derivative of the loss for panels so far apart, zero beyond FAR."""
    loss, nodes = Logistic(), chebyshev.chebpts1(DEGREE)
    kind = (loss.value, loss.slope, loss.curvature)[order]
    apart = np.arange(-FAR - 1, FAR + 2.0)[:, None, None]
    values = kind(apart + 0.5 * sign * (nodes[:, None] - nodes[None, :]))
    values[[0, -1]] = 0.0
    transform = chebyshev.chebvander(nodes, DEGREE - 1).T * (2.0 / DEGREE)
    transform[0] *= 0.5
    return np.asarray(transform @ values @ transform.T)


class ExponentialSums:
    """l(t) = e^t = e^s e^-x: a product of two sums, all scores less the greatest negative's."""

    left_out = 0.0

    def __init__(self, positives: Array, negatives: Array) -> None:
        top = negatives.max()
        self._down, self._up = np.exp(top - positives), np.exp(negatives - top)

    def over_positives(self, f: Array, order: int) -> Array:
        """Every derivative is the loss."""
        return np.asarray(self._up * float(f @ self._down))

    def over_negatives(self, f: Array, order: int) -> Array:
        """Every derivative is the loss."""
        return np.asarray(self._down * float(f @ self._up))


PAIR_SUMS: dict[str, Callable[[Array, Array], PairSums]] = {
    TruncatedQuadratic.name: SquaredHingeSums,
    Logistic.name: logistic_sums,
    Exponential.name: ExponentialSums,
}
"""Makers of the sums from the positives' and the negatives' scores, by the name of the loss."""


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
