"""Sums of a loss over all pairs of a negative's and a positive's score, without the pairs.

    sum_i f_i l(s_j - x_i) for every negative j,    sum_j f_j l(s_j - x_i) for every positive i

and the same with l' and l'': `order` 0, 1 and 2. Negatives' scores are s, those of positives x.
The cost is O((m + n) log(m + n)); for f >= 0 the results are exact to rounding, relative to
themselves. Another loss joins by `PAIR_SUMS[name] = ...`.
"""

from collections.abc import Callable
from functools import cache
from typing import Protocol

import numpy as np
from numpy.polynomial import chebyshev

from toppush.problem.losses import Exponential, Logistic, TruncatedQuadratic
from toppush.types import Array, Where

DEGREE = 14
"""Chebyshev polynomials on a panel of width 1: those left out are below 1e-15, as the logistic
loss is analytic up to 2 pi half-widths off, and 12.6^-14 = 4e-16."""
FAR = 40
"""Panels beyond which the logistic loss is t or 0: e^-39 is 1e-17."""


class PairSums(Protocol):
    """Sums over all pairs of some scores."""

    def over_positives(self, f: Array, order: int) -> Array:
        """For every negative, the sum of f_i times the loss or a derivative."""

    def over_negatives(self, f: Array, order: int) -> Array:
        """For every positive, the sum of f_j times the loss or a derivative."""


class SquaredHingeSums:
    """l(t) = (1 + t)_+^2 by one sort: from score to score a parabola goes on.

    All terms that are added are of one sign if f is, so no digits cancel wherever the scores lie.
    """

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


class LogisticSums:
    """l(t) = log(1 + e^t) by panels of the scores' axis, each a polynomial in either score."""

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
    """Scores by panels of width 1, and the Chebyshev polynomials of each score on its panel."""

    def __init__(self, scores: Array) -> None:
        floor = np.floor(scores)
        self.rising = np.argsort(scores, kind="stable")
        self.scores = scores
        self.panels, self.firsts, self.home = _distinct(floor[self.rising], self.rising)
        self.basis = chebyshev.chebvander(2.0 * (scores - floor) - 1.0, DEGREE - 1)

    def total(self, values: Array) -> Array:
        """Sums over each panel, of values in the order of the scores."""
        return np.add.reduceat(values[self.rising], self.firsts, axis=0)


def _distinct(floors: Array, rising: Where) -> tuple[Array, Where, Where]:
    """Panels that hold a score, where each begins among the rising scores, and each score's."""
    new = np.append(True, np.diff(floors) > 0.0)
    home = np.empty(len(rising), np.intp)
    home[rising] = np.cumsum(new) - 1
    return floors[new], np.flatnonzero(new), home


def _across(source: _Panels, target: _Panels, f: Array, order: int, sign: float) -> Array:
    """Sums over the source at every score of the target; t = sign (target - source)."""
    moments = source.total(f[:, None] * source.basis)
    first = np.searchsorted(source.panels, target.panels - FAR)
    last = np.searchsorted(source.panels, target.panels + FAR, side="right")
    near, table = np.zeros((len(target.panels), DEGREE)), _tables(order)
    for step in range(int(np.max(last - first, initial=0))):
        some = np.flatnonzero(first + step < last)
        partner = first[some] + step
        apart = (sign * (target.panels[some] - source.panels[partner])).astype(np.intp) + FAR
        mixes = table[apart] if sign > 0.0 else table[apart].swapaxes(1, 2)
        near[some] += (mixes @ moments[partner][:, :, None])[:, :, 0]
    found: Array = np.einsum("ij,ij->i", near[target.home], target.basis)
    return found if order == 2 else found + _far(source, target, f, order, sign, first, last)


def _far(
    source: _Panels, target: _Panels, f: Array, order: int, sign: float, first: Where, last: Where
) -> Array:
    """What the pairs add whose loss is t: the source lies far below, or for sign < 0 above."""
    mass, moment = source.total(f), source.total(f * source.scores)
    if sign < 0.0:
        mass, moment, first = mass[::-1], moment[::-1], len(mass) - last
    sums = [np.append(0.0, np.cumsum(part))[first][target.home] for part in (mass, moment)]
    return sums[0] if order == 1 else sign * (sums[0] * target.scores - sums[1])


@cache
def _tables(order: int) -> Array:
    """Coefficients of a derivative of the loss for panels that lie so far apart."""
    loss, nodes = Logistic(), chebyshev.chebpts1(DEGREE)
    kind = (loss.value, loss.slope, loss.curvature)[order]
    apart = np.arange(-FAR, FAR + 1.0)[:, None, None]
    values = kind(apart + 0.5 * (nodes[:, None] - nodes[None, :]))
    transform = chebyshev.chebvander(nodes, DEGREE - 1).T * (2.0 / DEGREE)
    transform[0] *= 0.5
    return np.asarray(transform @ values @ transform.T)


class ExponentialSums:
    """l(t) = e^t = e^s e^-x: a product of two sums, all scores less the greatest negative's."""

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
    Logistic.name: LogisticSums,
    Exponential.name: ExponentialSums,
}
"""Makers of the sums from the positives' and the negatives' scores, by the name of the loss."""
