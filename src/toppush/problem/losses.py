"""Convex, non-decreasing surrogates of "this positive is not above the top negatives".

A loss acts on the violation t = T(w) - w.x of a positive x. Its conjugate
l*(a) = sup_t a t - l(t) acts on the positive's dual a (the paper's alpha).
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from toppush.designs.arrays import namespace
from toppush.problem.numerics import TINY
from toppush.types import Array as Array


class Loss(Protocol):
    """What a solver needs of a loss; the methods work elementwise."""

    name: ClassVar[str]
    dual_limit: ClassVar[float]
    """Largest dual in the conjugate's domain; the smallest is 0 for every loss."""
    conjugate_curvature: ClassVar[float | None]
    """l*'' where it is one number, so that gradient steps on l* are sound; else None."""

    def value(self, violation: Array) -> Array:
        """l(t)."""

    def slope(self, violation: Array) -> Array:
        """l'(t), the dual of t."""

    def curvature(self, violation: Array) -> Array:
        """l''(t), from the right where l' has a kink."""

    def conjugate(self, dual: Array) -> Array:
        """l*(a), infinite outside the domain."""

    def conjugate_slope(self, dual: Array) -> Array:
        """l*'(a), the violation of a."""

    def raised(self, mean: float, by: float) -> float:
        """A bound on the mean of losses if no violation rises by more than `by`."""

    def dual_prox(self, point: Array, weight: Array | float) -> tuple[Array, Array]:
        """Minimiser a of l*(a) + weight/2 (a - point)^2, and da/dpoint."""


@dataclass(frozen=True)
class TruncatedQuadratic:
    """l(t) = (1 + t)_+^2, the paper's loss; l*(a) = a^2/4 - a on a >= 0."""

    name: ClassVar[str] = "truncated_quadratic"
    dual_limit: ClassVar[float] = np.inf
    conjugate_curvature: ClassVar[float | None] = 0.5

    def value(self, violation: Array) -> Array:
        xp = namespace(violation)
        with np.errstate(over="ignore"):  # infinite past t = 1e154
            return xp.square(xp.maximum(1.0 + violation, 0.0))

    def slope(self, violation: Array) -> Array:
        return 2.0 * namespace(violation).maximum(1.0 + violation, 0.0)

    def curvature(self, violation: Array) -> Array:
        return namespace(violation).where(violation >= -1.0, 2.0, 0.0)

    def conjugate(self, dual: Array) -> Array:
        xp = namespace(dual)
        inside = xp.maximum(dual, 0.0)
        with np.errstate(over="ignore"):
            return xp.where(dual >= 0.0, inside * (0.25 * inside - 1.0), np.inf)

    def conjugate_slope(self, dual: Array) -> Array:
        """l*'(a); continued as a straight line below 0, where momentum points may fall."""
        return 0.5 * dual - 1.0

    def raised(self, mean: float, by: float) -> float:
        """The root of the mean is a norm of (1 + t)_+, which rises by no more than t."""
        raised = math.sqrt(mean) + by
        return raised * raised

    def dual_prox(self, point: Array, weight: Array | float) -> tuple[Array, Array]:
        xp = namespace(point)
        dual = xp.maximum(1.0 + weight * point, 0.0) / (weight + 0.5)
        return dual, xp.where(dual > 0.0, weight / (weight + 0.5), 0.0)


@dataclass(frozen=True)
class Logistic:
    """l(t) = log(1 + e^t); l*(a) = a log a + (1 - a) log(1 - a) on [0, 1]."""

    name: ClassVar[str] = "logistic"
    dual_limit: ClassVar[float] = 1.0
    conjugate_curvature: ClassVar[float | None] = None

    def value(self, violation: Array) -> Array:
        return namespace(violation).logaddexp(0.0, violation)

    def slope(self, violation: Array) -> Array:
        return namespace(violation).expit(violation)

    def curvature(self, violation: Array) -> Array:
        xp = namespace(violation)
        return xp.expit(violation) * xp.expit(-violation)

    def conjugate(self, dual: Array) -> Array:
        xp, inside = namespace(dual), (dual >= 0.0) & (dual <= 1.0)
        dual = xp.where(inside, dual, 0.0)
        rest = xp.where(dual < 1.0, (1.0 - dual) * xp.log1p(-xp.where(dual < 1.0, dual, 0.0)), 0.0)
        return xp.where(inside, xp.xlogy(dual, dual) + rest, np.inf)

    def conjugate_slope(self, dual: Array) -> Array:
        """log(a / (1 - a)): -inf at 0, inf at 1, NaN outside."""
        xp = namespace(dual)
        with np.errstate(divide="ignore", invalid="ignore"):
            return xp.log(dual) - xp.log1p(-dual)

    def raised(self, mean: float, by: float) -> float:
        """The slope is at most 1, and at most the loss."""
        return min(mean + by, max(mean, TINY) * _exp(by))

    def dual_prox(self, point: Array, weight: Array | float) -> tuple[Array, Array]:
        """Newton on the violation t in t + weight l'(t) = weight point.

        The equation is mirrored at point = 1/2, so that t <= 0 and l'(t) lies within a factor
        of two of e^t; e^t in its place gives the start, and five steps give full precision.
        """
        xp, mirrored = namespace(point), point > 0.5
        goal = weight * xp.where(mirrored, 1.0 - point, point)
        violation = goal - xp.wrightomega(goal + xp.log(weight))
        for _ in range(5):
            dual = xp.expit(violation)
            residual = violation + weight * dual - goal
            violation = violation - residual / (1.0 + weight * dual * (1.0 - dual))
        dual = xp.expit(violation)
        curvature = weight * dual * xp.expit(-violation)
        return xp.where(mirrored, xp.expit(-violation), dual), curvature / (1.0 + curvature)


@dataclass(frozen=True)
class Exponential:
    """l(t) = e^t; l*(a) = a log a - a on a >= 0."""

    name: ClassVar[str] = "exponential"
    dual_limit: ClassVar[float] = np.inf
    conjugate_curvature: ClassVar[float | None] = None

    def value(self, violation: Array) -> Array:
        with np.errstate(over="ignore"):  # infinite past t = 709
            return namespace(violation).exp(violation)

    def slope(self, violation: Array) -> Array:
        return self.value(violation)

    def curvature(self, violation: Array) -> Array:
        return self.value(violation)

    def conjugate(self, dual: Array) -> Array:
        xp, inside = namespace(dual), dual >= 0.0
        dual = xp.where(inside, dual, 0.0)
        return xp.where(inside, xp.xlogy(dual, dual) - dual, np.inf)

    def conjugate_slope(self, dual: Array) -> Array:
        """Log a: -inf at 0, NaN below."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return namespace(dual).log(dual)

    def raised(self, mean: float, by: float) -> float:
        """The slope is the loss."""
        return max(mean, TINY) * _exp(by)

    def dual_prox(self, point: Array, weight: Array | float) -> tuple[Array, Array]:
        """Weight a + log(weight a) = weight point + log weight: Wright's omega."""
        xp = namespace(point)
        omega = xp.wrightomega(weight * point + xp.log(weight))
        return omega / weight, omega / (1.0 + omega)


def _exp(power: float) -> float:
    """e^t, infinite where it overflows."""
    return math.exp(power) if power < 709.0 else math.inf


LOSSES: dict[str, Loss] = {
    loss.name: loss for loss in (TruncatedQuadratic(), Logistic(), Exponential())
}
"""The losses of TopPush."""
