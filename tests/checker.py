"""An independent check of certificates, in long double and from the formulas alone.

    P(w) = lam/2 |w|^2 + 1/m sum_i c_i l(T(w) - w.x_i),   T(w) = mean of the k greatest w.z_j
    D(a, b) = 1/(2 lam m) |X+'a - X-'b|^2 + sum_i c_i l*(a_i / c_i)

over a >= 0, 0 <= b_j <= (sum a)/k, sum b = sum a. Every such point proves P(w) >= -D(a, b)/m for
every w. A positive of weight c counts c times (c_i = c, m = sum c_i); a negative counts whole, or
with weight zero not at all. Nothing here calls the library: it is what the library is judged by.

A long double has 64 bits of mantissa and exponents to 4932 where this is run, so that rows of 1e80
or 1e-150 are squared without a thought. What its own rounding may amount to is added to every
margin, so that it accuses nobody of what it cannot see itself.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np

LONG = np.longdouble
EPS = np.finfo(LONG).eps
IS_LONG = np.finfo(LONG).maxexp > 2 * np.finfo(np.float64).maxexp
MARGIN = 1e-6
"""How far a stated number that is no bound may be off, as a share of the objective."""
NEXT_TO_NOTHING = 1e-20
"""An objective below which an upper bound need not come close."""
SMALLEST = LONG(np.finfo(np.float64).tiny)
"""Below this a float64 loses digits, and so may what is stated."""


def count_of_top(top, n_neg):
    """The count that `top` means: an int is one, a float is a share of the negatives."""
    return int(top) if isinstance(top, int | np.integer) else max(1, ceil(top * n_neg))


# The losses, their slopes and their conjugates.


def loss(name, t):
    if name == "truncated_quadratic":
        return np.maximum(1 + t, 0) ** 2
    if name == "logistic":
        return np.logaddexp(LONG(0), t)
    with np.errstate(over="ignore"):
        return np.exp(t)


def slope(name, t):
    if name == "truncated_quadratic":
        return 2 * np.maximum(1 + t, 0)
    if name == "logistic":
        return np.exp(-np.logaddexp(LONG(0), -t))
    return loss(name, t)


def conjugate(name, a):
    """On its domain, a >= 0 and for the logistic loss a <= 1."""
    if name == "truncated_quadratic":
        return a * a / 4 - a
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.where(a > 0, a * np.log(a), 0)
        if name == "exponential":
            return own - a
        return own + np.where(a < 1, (1 - a) * np.log1p(-a), 0)


@dataclass(frozen=True)
class Value:
    """A number, and how far rounding may have carried it."""

    value: np.longdouble
    noise: np.longdouble


class Checker:
    """One problem, as rows of two classes in long double.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        Dense; float32 values are taken exactly.
    y : array of bool
    k : int
        How many negatives make the top.
    pairwise : bool
        Whether each of these negatives is held against every positive: F(w), not P(w). Its duals
        belong to pairs and are not checked.
    """

    def __init__(self, X, y, *, lam, k, loss, sample_weight=None, pairwise=False):
        y = np.asarray(y, dtype=bool)
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        self.used = weight > 0
        self.is_pos, self.is_neg = y & self.used, ~y & self.used
        self.unit = np.finfo(X.dtype).eps
        X = np.asarray(X).astype(LONG)
        self.pos, self.neg = X[self.is_pos], X[self.is_neg]
        self.cost = weight[self.is_pos].astype(LONG)
        self.m = self.cost.sum()
        self.lam, self.k, self.loss, self.pairwise = LONG(lam), k, loss, pairwise

    # Above: the objective of weights.

    def threshold(self, weights):
        """T(w)."""
        scores = np.sort(self.neg @ weights.astype(LONG))
        return scores[-self.k :].sum() / self.k

    def objective(self, weights):
        """P(w), or F(w)."""
        w = weights.astype(LONG)
        if self.pairwise:
            return self._over_pairs(w)
        t = self.threshold(weights) - self.pos @ w
        value = self.lam / 2 * (w @ w) + self._mean(loss(self.loss, t))
        terms = [(np.abs(rows) @ np.abs(w)).max() for rows in (self.pos, self.neg)]
        noise = 16 * EPS * (max(terms) * self._mean(slope(self.loss, t)) + value)
        return Value(value, noise)

    def _over_pairs(self, w):
        """F(w), all pairs written down."""
        t = (self.neg @ w)[:, None] - self.pos @ w
        losses = np.sort([self._mean(loss(self.loss, row)) for row in t])
        steepest = max(self._mean(slope(self.loss, row)) for row in t)
        value = self.lam / 2 * (w @ w) + losses[-self.k :].sum() / self.k
        size = max((np.abs(rows) @ np.abs(w)).max() for rows in (self.pos, self.neg))
        return Value(value, 16 * EPS * (size * steepest + value))

    def _mean(self, values):
        return self.cost @ values / self.m

    # Below: the bound of a dual point.

    def feasible(self, dual):
        """The nearest sound dual point: a cut to its domain, b to its caps and to the sum of a."""
        a = np.maximum(dual[self.is_pos].astype(LONG), 0)
        if self.loss == "logistic":
            a = np.minimum(a, self.cost)
        return a, capped(np.maximum(dual[self.is_neg].astype(LONG), 0), a.sum(), self.k)

    def bound(self, dual):
        """-D/m of the sound point next to a dual, which no objective is below."""
        a, b = self.feasible(dual)
        if not a.sum() > 0:
            return Value(LONG(0), LONG(0))
        centre = b @ self.neg / b.sum()  # sum a = sum b: a shift of all rows changes nothing
        pos, neg = self.pos - centre, self.neg - centre
        push = a @ pos - b @ neg
        error = 16 * EPS * (a @ np.abs(pos) + b @ np.abs(neg) + a.sum() * np.abs(centre))
        scale = 2 * self.lam * self.m
        conjugates = self.cost * conjugate(self.loss, a / self.cost)
        value = -(push @ push / scale + conjugates.sum()) / self.m
        noise = (2 * np.abs(push) + error) @ error / scale + 16 * EPS * np.abs(conjugates).sum()
        return Value(value, noise / self.m)

    def weights_of(self, dual):
        """(X+'a - X-'b) / (lam m), optimal if the dual is."""
        a, b = self.feasible(dual)
        return (a @ self.pos - b @ self.neg) / (self.lam * self.m)

    # The verdict.

    def complaints(self, solution, *, tol=None, margin=MARGIN, others=None):
        """What is wrong with a solution, in sentences that begin with a word for the kind.

        Parameters
        ----------
        solution : anything with weights, dual, upper, lower, threshold and status
            An empty dual, as fits on a cluster have, leaves the lower bound to be compared with
            objectives alone.
        tol : float, optional
            The gap that a solution must have that is said to have converged.
        margin : float
            How far `upper` may be above the objective, and what is not a bound may be off, as a
            share. A bound on the wrong side has no allowance but what a long double cannot see.
        others : dict from names to weights, optional
            More weights whose objective the lower bound must not exceed.
        """
        others = {"zero": np.zeros(self.pos.shape[1]), **(others or {})}
        unusable = list(self._unusable(solution))
        return unusable or list(self._complaints(solution, tol, LONG(margin), others))

    def _unusable(self, solution):
        numbers = {name: getattr(solution, name) for name in ("upper", "lower", "threshold")}
        for name, value in {**numbers, "weights": solution.weights, "dual": solution.dual}.items():
            if not np.all(np.isfinite(value)):
                yield f"not finite: {name} holds {np.asarray(value)}"
        if solution.weights.shape != self.pos.shape[1:]:
            yield f"shape: weights of shape {solution.weights.shape}"
        if solution.dual.size and solution.dual.shape != self.used.shape:
            yield f"shape: a dual of shape {solution.dual.shape} for {self.used.size} rows"

    def _complaints(self, solution, tol, margin, others):
        upper, lower = LONG(solution.upper), LONG(solution.lower)
        found = self.objective(solution.weights)
        if not upper >= found.value - found.noise:
            yield f"upper: {upper:.18g} is stated, the objective is {found.value:.18g}"
        of_float64 = 64 * len(solution.weights) * np.finfo(np.float64).eps / EPS * found.noise
        if not upper <= found.value * (1 + margin) + of_float64 + NEXT_TO_NOTHING:
            yield f"loose: upper {upper:.12g} is stated, the objective is {found.value:.12g}"
        if not lower <= upper:
            yield f"crossed: lower {lower:.18g} is above upper {upper:.18g}"
        yield from self._threshold(solution, margin)
        if solution.dual.size and not self.pairwise:
            others = {**others, "the dual's weights": self.weights_of(solution.dual)}
            yield from self._dual(solution, margin)
            bound = self.bound(solution.dual)
            if lower != 0 and not lower <= bound.value + bound.noise:
                yield f"unproven: lower {lower:.18g} is stated, its dual proves {bound.value:.18g}"
        yield from self._against(others, solution)
        if tol is not None and solution.status.name == "CONVERGED":
            gap = (upper - lower) / upper
            if not gap <= LONG(tol) + 4 * np.finfo(np.float64).eps:
                yield f"status: converged, with a gap of {gap:.3g} for tol {tol:g}"

    def _threshold(self, solution, margin):
        true = self.threshold(solution.weights)
        scores = np.concatenate([self.pos, self.neg]) @ solution.weights.astype(LONG)
        size = (np.abs(self.neg) @ np.abs(solution.weights.astype(LONG))).max()
        room = margin * np.ptp(scores) + 8 * self.unit * size + SMALLEST
        if not abs(LONG(solution.threshold) - true) <= room:
            yield f"threshold: {solution.threshold:.12g} is stated, T(w) is {true:.12g}"

    def _against(self, others, solution):
        """No weights have an objective below `lower`."""
        for name, weights in others.items():
            found = self.objective(weights)
            if solution.lower > found.value + found.noise:
                yield (
                    f"false: lower {solution.lower:.18g} is above {found.value:.18g}, "
                    f"the objective at {name}"
                )

    def _dual(self, solution, margin):
        a, b = (solution.dual[rows].astype(LONG) for rows in (self.is_pos, self.is_neg))
        total, room = a.sum(), margin * np.abs(a).sum()
        if np.any(solution.dual[~self.used] != 0):
            yield "dual: rows of weight zero have an entry"
        if min(a.min(), b.min()) < -room:
            yield f"dual: an entry of {min(a.min(), b.min()):.3g}"
        if self.loss == "logistic" and np.any(a > self.cost * (1 + margin)):
            yield f"dual: {(a / self.cost).max():.12g} is outside the domain of l*"
        if abs(total - b.sum()) > room:
            yield f"dual: the sums {total:.12g} and {b.sum():.12g} differ"
        if b.max() > total / self.k + room:
            yield f"dual: {b.max():.12g} is above the cap {total / self.k:.12g}"


def capped(b, total, k):
    """min(f b, total/k) with the f at which the sum is `total`; zeros take what does not fit."""
    cap, some = total / k, np.count_nonzero(b)
    if some < k:
        rest = (total - some * cap) / max(len(b) - some, 1)
        return np.where(b > 0, cap, rest)
    ordered = np.sort(b)[::-1]
    rest = np.cumsum(ordered[::-1])[::-1]  # sums of the r-th greatest and all below
    for r in range(k):
        factor = (total - r * cap) / rest[r]
        if factor * ordered[r] <= cap:
            break
    return np.minimum(factor * b, cap)
