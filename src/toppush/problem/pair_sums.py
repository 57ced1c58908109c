"""Sums of a loss over all pairs of a negative's and a positive's score, without the pairs.

    sum_i f_i l(s_j - x_i) for every negative j,    sum_j f_j l(s_j - x_i) for every positive i

and the same with l' and l'': `order` 0, 1 and 2. Negatives' scores are s, those of positives x.
The cost is O((m + n) log(m + n)); for f >= 0 the results are exact to rounding, relative to
themselves. Another loss joins by `PAIR_SUMS[name] = ...`.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.polynomial import chebyshev

from toppush.problem.losses import Exponential, Logistic, Loss, TruncatedQuadratic
from toppush.types import Array, Where

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
