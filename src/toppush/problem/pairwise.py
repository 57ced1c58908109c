"""The pairwise family: every positive against each of the highest negatives.

    F(w) = lam/2 |w|^2 + mean of the k greatest h_j,    h_j = sum_i c_i l(w.z_j - w.x_i)

with c the positives' weights, which sum to 1 here. The mean of the k greatest is the maximum of p.h
over shares 0 <= p_j <= 1/k that sum to 1, and any such p gives the bound

    F >= p.h + w.v - |v|^2/(2 lam),    v = sum_ij p_j c_i l'(w.z_j - w.x_i) (x_i - z_j)

at any w, by the convex conjugates of the pairs' losses. It falls short of F(w) by
(mean of the k greatest - p.h) + |lam w - v|^2/(2 lam). At a kink the best p is a mixture, which a
smoothed top finds: p maximises p.h + mu (entropy of the k p_j)/k, so that k p_j is the logistic
function of (h_j - level)/mu, with the level at which they sum to k.
For k = 1 it is the problem of `objective.py`, since the loss does not fall.

Sums over all pairs of a negative's and a positive's score are taken without the pairs:

    sum_i f_i l(s_j - x_i) for every negative j,    sum_j f_j l(s_j - x_i) for every positive i

and the same with l' and l'' (`order` 0, 1 and 2), s being the negatives' scores and x those of the
positives. The cost is O((m + n) log(m + n)); for f >= 0 the results are exact to rounding, relative
to themselves. Register the sums of another loss by `PAIR_SUMS[name] = ...`.
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

PerClass = tuple[Array, Array]
"""A vector over the positives, and one over the negatives."""

DEGREE = 14
"""Chebyshev polynomials on a panel of width 1: those left out are below 1e-15, as the logistic
loss is analytic up to 2 pi half-widths off, and 12.6^-14 = 4e-16."""
FAR = 40
"""Panels beyond which the logistic loss is t or 0: e^-39 is 1e-17."""

GROUP = 16
"""Panels of which the sums are taken together: 4 MB at most."""
FEW_PAIRS = 1 << 14
"""Pairs up to which a table of them is faster than panels."""


class PairSums(Protocol):
    """Sums over all pairs of the given scores."""

    left_out: float
    """Bound on the error of a mean of losses from distant pairs, which are left out."""

    def over_positives(self, f: Array, order: int) -> Array:
        """For every negative, the sum of f_i times the loss or a derivative."""

    def over_negatives(self, f: Array, order: int) -> Array:
        """For every positive, the sum of f_j times the loss or a derivative."""


class SquaredHingeSums:
    """l(t) = (1 + t)_+^2 by one sort: between adjacent scores the sum is a parabola.

    All terms have the sign of f, so no digits cancel whatever the scores are.
    """

    left_out = 0.0

    def __init__(self, positives: Array, negatives: Array) -> None:
        points = np.concatenate([positives - 1.0, negatives])
        rising = np.argsort(points, kind="stable")
        self._place = np.empty(len(points), np.intp)
        self._place[rising] = np.arange(len(points))
        self._n_pos, self._steps = len(positives), np.diff(points[rising])

    def over_positives(self, f: Array, order: int) -> Array:
        """A pair counts where the negative lies above the positive less 1."""
        mass = np.zeros(len(self._place))
        mass[self._place[: self._n_pos]] = f
        return _parabolas(mass, self._steps, order)[self._place[self._n_pos :]]

    def over_negatives(self, f: Array, order: int) -> Array:
        """The same in descending order."""
        mass = np.zeros(len(self._place))
        mass[self._place[self._n_pos :]] = f
        sums = _parabolas(mass[::-1], self._steps[::-1], order)[::-1]
        return np.asarray(sums[self._place[: self._n_pos]])


def _parabolas(mass: Array, steps: Array, order: int) -> Array:
    """At every point, the sum of mass (point - earlier point)^2, or a derivative of it."""
    weight = np.cumsum(mass)
    if order == 2:
        return 2.0 * weight
    rise = steps * weight[:-1]
    slope = np.append(0.0, np.cumsum(2.0 * rise))
    if order == 1:
        return slope
    return np.append(0.0, np.cumsum(steps * (slope[:-1] + rise)))


class AllPairs:
    """Any loss, from a table of all pairs: the fastest way for few rows."""

    left_out = 0.0

    def __init__(self, loss: Loss, positives: Array, negatives: Array) -> None:
        self._derivatives = loss.value, loss.slope, loss.curvature
        self._violations = negatives[:, None] - positives
        self._tables: dict[int, Array] = {}

    def over_positives(self, f: Array, order: int) -> Array:
        """Row sums of the table."""
        return np.asarray(self._table(order) @ f)

    def over_negatives(self, f: Array, order: int) -> Array:
        """Column sums of the table."""
        return np.asarray(f @ self._table(order))

    def _table(self, order: int) -> Array:
        if order not in self._tables:
            self._tables[order] = self._derivatives[order](self._violations)
        return self._tables[order]


def logistic_sums(positives: Array, negatives: Array) -> PairSums:
    """By panels, or from a table where pairs are few."""
    if len(positives) * len(negatives) <= FEW_PAIRS:
        return AllPairs(Logistic(), positives, negatives)
    return LogisticSums(positives, negatives)


class LogisticSums:
    """l(t) = log(1 + e^t) on panels of scores, between which it is a polynomial in both scores."""

    left_out = float(np.exp(1.0 - FAR))

    def __init__(self, positives: Array, negatives: Array) -> None:
        middle = 0.5 * (_least(positives, negatives) - _least(-positives, -negatives))
        self._positives, self._negatives = _Panels(positives - middle), _Panels(negatives - middle)

    def over_positives(self, f: Array, order: int) -> Array:
        """Pairs far apart count by the line t."""
        return _across(self._positives, self._negatives, f, order, 1.0)

    def over_negatives(self, f: Array, order: int) -> Array:
        """Pairs far apart count by the line t."""
        return _across(self._negatives, self._positives, f, order, -1.0)


def _least(*parts: Array) -> float:
    return min(float(part.min()) for part in parts)


class _Panels:
    """Sorted scores on panels of width 1, with the Chebyshev polynomials at each score."""

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
        """Sums over each panel of f times the polynomials; f is sorted as the scores are."""
        return np.array([f[part] @ self.basis[part] for part in self.parts])

    def values(self, coefficients: Array) -> Array:
        """Each panel's polynomial at its scores, in their original order."""
        values = np.empty(len(self.scores))
        for part, row in zip(self.parts, coefficients, strict=True):
            values[self.rising[part]] = self.basis[part] @ row
        return values


def _across(source: _Panels, target: _Panels, f: Array, order: int, sign: float) -> Array:
    """Sums over the source at every score of the target; t = sign (target - source)."""
    f = f[source.rising]
    first = np.searchsorted(source.panels, target.panels - FAR)
    last = np.searchsorted(source.panels, target.panels + FAR, side="right")
    moments, near = source.moments(f), np.zeros((len(target.panels), DEGREE))
    for group in _panel_groups(first, last):
        others = slice(first[group][0], last[group][-1])
        apart = sign * (target.panels[group, None] - source.panels[others])
        near[group] = _mixed(_tables(order, sign), apart, moments[others])
    sums = target.values(near)
    if order < 2:
        ends = first if sign > 0.0 else len(source.panels) - last
        sums[target.rising] += _far(source, target, f, order, sign, ends)
    return sums


def _panel_groups(first: Where, last: Where) -> Iterator[slice]:
    """Panels of the target in groups, each with a bounded number of panels of the source."""
    start = 0
    while start < len(first):
        reach = int(np.searchsorted(last, first[start] + 4 * FAR, side="right"))
        stop = max(start + 1, min(start + GROUP, reach))
        yield slice(start, stop)
        start = stop


def _far(source: _Panels, target: _Panels, f: Array, order: int, sign: float, ends: Where) -> Array:
    """Sums over the pairs whose loss is t: the source is far below, or above for sign < 0.

    `ends` counts these panels of the source for each panel of the target.
    """
    starts = [part.start for part in source.parts]
    mass, moment = (np.add.reduceat(part, starts) for part in (f, f * source.scores))
    if sign < 0.0:
        mass, moment = mass[::-1], moment[::-1]
    mass, moment = (np.append(0.0, np.cumsum(part))[ends][target.home] for part in (mass, moment))
    return np.asarray(mass if order == 1 else sign * (mass * target.scores - moment))


def _mixed(tables: Array, apart: Array, moments: Array) -> Array:
    """Coefficients of the sums on panels, from distances to other panels and their moments."""
    places = np.clip(apart, -FAR - 1, FAR + 1).astype(np.intp) + FAR + 1
    n_target, n_source = apart.shape
    matrix = tables[places].transpose(0, 2, 1, 3).reshape(n_target * DEGREE, n_source * DEGREE)
    return np.asarray((matrix @ moments.ravel()).reshape(n_target, DEGREE))


@cache
def _tables(order: int, sign: float) -> Array:
    """Coefficients of a derivative of the loss for each distance of panels; zero beyond FAR."""
    loss, nodes = Logistic(), chebyshev.chebpts1(DEGREE)
    derivative = (loss.value, loss.slope, loss.curvature)[order]
    apart = np.arange(-FAR - 1, FAR + 2.0)[:, None, None]
    values = derivative(apart + 0.5 * sign * (nodes[:, None] - nodes[None, :]))
    values[[0, -1]] = 0.0
    transform = chebyshev.chebvander(nodes, DEGREE - 1).T * (2.0 / DEGREE)
    transform[0] *= 0.5
    return np.asarray(transform @ values @ transform.T)


class ExponentialSums:
    """l(t) = e^t = e^s e^-x: a product of two sums, scores relative to the top negative."""

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
"""Constructors of the sums from the positives' and the negatives' scores, by loss."""


@dataclass(frozen=True)
class PairwiseProblem(TopProblem):
    """Rank each positive in `design` above each of the `k` best negatives."""

    def at(self, weights: Array, scores: PerClass, cost: Array, mu: float) -> "PairPoint":
        """The objective and its derivatives in the scores, with the top smoothed by mu."""
        sums = PAIR_SUMS[self.loss.name](*scores)
        losses = sums.over_positives(cost, 0)
        top = smoothed_top(losses, self.k, mu)
        penalty = 0.5 * self.lam * float(weights @ weights)
        weighted_loss = float(top.shares @ losses)
        return PairPoint(
            weights,
            scores,
            mu,
            top,
            sums,
            cost,
            upper=penalty + top.mean,
            smooth=penalty + weighted_loss + top.entropy,
            weighted_loss=weighted_loss,
        )


class SmoothedTop(NamedTuple):
    """The mean of the k greatest, and its smoothed form."""

    mean: float
    shares: Array
    entropy: float
    """mu times the entropy."""
    share_rates: Array
    """Derivatives of the shares in the losses, times mu."""
    logits: Array
    """(h_j - level)/mu of those that can have a share, else 0."""

    def shares_at(self, shrink: float) -> Array:
        """The shares when mu shrinks by this factor, to first order."""
        rise, mass = self.logits * (1.0 / shrink - 1.0), float(self.share_rates.sum())
        if mass == 0.0:
            return self.shares
        change = self.share_rates * (rise - float(self.share_rates @ rise) / mass)
        return np.asarray(self.shares + change)


@dataclass(frozen=True)
class PairPoint:
    """Weights, and the pairwise objective there.

    Attributes
    ----------
    upper, smooth : float
        F, and F with the smoothed top.
    weighted_loss : float
        p.h.
    """

    weights: Array
    scores: PerClass
    mu: float
    top: SmoothedTop
    sums: PairSums
    cost: Array
    upper: float
    smooth: float
    weighted_loss: float

    @cached_property
    def slopes(self) -> Array:
        """The derivative of each negative's h in its score."""
        return self.sums.over_positives(self.cost, 1)

    @cached_property
    def gradient_weights(self) -> PerClass:
        """Minus the derivatives of the smoothed top in the scores."""
        return self.gradient_weights_of(self.top.shares)

    def gradient_weights_of(self, shares: Array) -> PerClass:
        """The same for other shares."""
        return self.cost * self.sums.over_negatives(shares, 1), -shares * self.slopes

    @property
    def smoothing_gap(self) -> float:
        """The part of the gap between the bounds that the smoothing causes."""
        return self.top.mean - self.weighted_loss

    def conjugates(self) -> tuple[float, float]:
        """p.h + w.v from the scores alone, and the sum of its terms' absolute values."""
        middle = 0.5 * float(self.scores[1].min() + self.scores[1].max())
        up, down = (self.gradient_weights[i] * (self.scores[i] - middle) for i in (0, 1))
        sizes = float(np.abs(up).sum() + np.abs(down).sum())
        return self.weighted_loss + float(up.sum() + down.sum()), self.weighted_loss + sizes


def top_mean_of(values: Array, k: int) -> float:
    """Mean of the k greatest."""
    if k == len(values):
        return float(values.mean())
    return float(np.partition(values, len(values) - k)[len(values) - k :].mean())


def smoothed_top(losses: Array, k: int, mu: float) -> SmoothedTop:
    """The smoothed mean of the k greatest losses."""
    n, mean = len(losses), top_mean_of(losses, k)
    if k == n or not np.isfinite(mean):
        return SmoothedTop(mean, np.full(n, 1.0 / n), 0.0, np.zeros(n), np.zeros(n))
    # Losses this far below the k-th greatest have no share; most losses are.
    edge = float(np.partition(losses, n - k)[n - k])
    near = np.flatnonzero(losses > edge - mu * (40.0 + np.log(n)))
    near_logits = _logits(losses[near], k, mu, edge)
    inside, outside = expit(near_logits), expit(-near_logits)
    entropy = -mu / k * float((xlogy(inside, inside) + xlogy(outside, outside)).sum())
    shares, rates, logits = np.zeros(n), np.zeros(n), np.zeros(n)
    shares[near] = np.minimum(inside / inside.sum(), 1.0 / k)
    rates[near], logits[near] = inside * outside / k, near_logits
    return SmoothedTop(mean, shares, entropy, rates, logits)


def _logits(losses: Array, k: int, mu: float, edge: float) -> Array:
    """(loss - level)/mu, with the level at which their logistic functions sum to k.

    The level is relative to the edge, a few mu away: as a loss it would be rounded to many mu where
    mu is small.
    """
    above = (losses - edge) / mu

    def surplus(level: float) -> tuple[float, float, float]:
        inside = expit(above - level)
        return float(inside.sum()) - k, -float((inside * (1.0 - inside)).sum()), float(k)

    reach = 40.0 + np.log(len(losses))
    return np.asarray(above - root(surplus, -reach, float(above.max()) + reach, 0.0))
