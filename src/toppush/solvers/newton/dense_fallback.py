"""Few rows, digits before speed: the last resort where rows differ in size by many powers of ten.

The problem of `newton` in the same letters, all rows on the driver, with two differences. The
positives' duals are variables of their own, as an interior-point method has them:

    truncated quadratic   a_i (a_i/(2 c_i) - 1 - t_i) = mu,   both factors positive
    other losses          a_i = c_i l'(own_i),   own_i = t_i = T - w.x_i after a full step

so that the dual point satisfies X+'a - Z'q = lam w to rounding, whatever rounding does to scores.
And the Newton matrix is never formed: with A the rows sqrt(bend) x, sqrt(theta) z, sqrt(lam) I it
is A'A, and a QR decomposition of A, its longest rows first, keeps what the short ones say. Here c
sums to 1, and every a and q is that of `newton` divided by m.

Of 216 fits of ordinary tables none comes here. Of 1,846 problems made to break the solver
(tests/hostile.py) 116 do, and 47 of them end without a closed gap if they follow the usual path on
rescaled rows instead, 44 with a gap above 1 %; most have rows that differ in size by 16 powers of
ten.
"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import qr, solve_triangular

from toppush.designs import Block, Design, Scaling, read_only
from toppush.designs.arrays import to_host
from toppush.problem.numerics import SUMMED, TINY, UNIT, grown
from toppush.problem.objective import TopPushProblem, balanced, prove
from toppush.problem.solution import Solution, Status, closed, relative_gap
from toppush.solvers.driver import Journal, Standing, follow
from toppush.solvers.newton.bounds import Mass, along, best_scale
from toppush.solvers.newton.state import Direction, Pairs
from toppush.solvers.scaling import answer_in, in_form, seen
from toppush.types import Array

MOST_ENTRIES, MOST_WORK = 1 << 22, 1 << 31
"""Entries of all rows, and the same times the columns, up to which rows are few."""
MANNERS = ((0.99, 1e-3), (0.9, 0.1))
"""How far a step goes to the boundary, and the least part of the products that it keeps: boldly,
then, if that did not get there, with caution."""
SHORT_STEP = 0.3
"""Step below which one back to the central path is tried."""
PATIENCE, MAX_HALVINGS = 80, 60
WIDE_UNIT = 0.5 * float(np.finfo(np.longdouble).eps)
ALMOST = 0.999
"""Share of tol at which the path ends: the rest is for rounding in the bounds."""


def fits_driver(design: Design) -> bool:
    """Whether the rows are few enough for all to come to the driver."""
    n_rows = design.n_pos + design.n_neg
    narrow = min(n_rows, design.n_features)
    return n_rows * design.n_features <= MOST_ENTRIES and n_rows * narrow**2 <= MOST_WORK


def solve_dense(
    problem: TopPushProblem, journal: Journal, *, tol: float, max_iter: int
) -> Solution:
    """Minimise on the driver; bounds are proven from the rows where they are."""
    design, form, formed = problem.design, seen(problem).form, in_form(problem)
    rows = np.vstack([part.dense() for part in design.each(_all_rows)])
    cost = np.concatenate([to_host(part) for part in design.each(_costs)])
    kinds = np.concatenate([to_host(part) for part in design.each(_kinds)])
    path = ExactPath(formed, tol, form, rows[kinds > 0], rows[kinds < 0], cost)
    for manner in MANNERS:
        path.manner = manner
        status = follow(path, journal, max_iter=max_iter)
        if status is not Status.STALLED or len(journal) >= max_iter:
            break
    dual = np.zeros(len(rows))
    dual[kinds > 0], dual[kinds < 0] = (side * formed.design.total_cost for side in path.best_dual)
    design.scatter(_receive_dual, dual)
    weights = design.arrays.asarray(path.best_weights)
    proof = prove(formed, weights, _received_dual)
    upper, threshold = path.objective(to_host(weights))
    upper, lower = min(upper, proof.upper), proof.lower
    weights, threshold = answer_in(form, weights, threshold)
    return Solution(
        weights=weights,
        threshold=threshold,
        dual=design.over_rows(_joined_dual, proof.balance),
        upper=upper,
        lower=lower,
        n_iter=len(journal),
        status=_judged(status, closed(upper, lower, tol)),
    )


def _judged(status: Status, proven: bool) -> Status:
    """How a solve ended, now that its bounds are known for sure."""
    if proven:
        return Status.CONVERGED
    return Status.STALLED if status is Status.CONVERGED else status


class ExactPath:
    """The central path with all rows and all variables here; every vector is a NumPy array."""

    manner = MANNERS[0]

    def __init__(
        self,
        problem: TopPushProblem,
        tol: float,
        form: Scaling,
        positives: Array,
        negatives: Array,
        cost: Array,
    ) -> None:
        self.loss, self.lam, self.k = problem.loss, problem.lam, problem.k
        self.arrays, self.form, self.tol = problem.design.arrays, form, tol
        self.positives, self.negatives, self.cost = positives, negatives, cost / cost.sum()
        self.upper, self.lower, self.best_threshold = np.inf, 0.0, 0.0
        self.n_neg = len(self.negatives)
        self.best_dual = np.zeros(len(self.cost)), np.zeros(self.n_neg)
        self._all = self.positives, self.negatives, self.k
        if self.k == self.n_neg:  # then only their mean counts
            self.negatives, self.k = self.negatives.mean(axis=0, keepdims=True), 1
        self.capped = self.k > 1
        self.quadratic = self.loss.conjugate_curvature is not None
        self.basis = _row_space(self.positives, self.negatives)
        if self.basis is not None:
            self.positives, self.negatives = (
                self.positives @ self.basis,
                self.negatives @ self.basis,
            )
        self.best_weights = self._in_full(np.zeros(self.positives.shape[1]))

    def begin(self) -> None:
        """Weights of zero, and the threshold one above every score."""
        self.to_boundary, self.least_centring = self.manner
        self.n_idle, self.record = 0, (np.inf, 0.0, np.inf)
        n = len(self.negatives)
        self.weights = np.zeros(self.positives.shape[1])
        self.threshold = 1.0
        self.level = 0.0 if self.capped else 1.0
        if self.quadratic:
            self.dual = self.cost * (2.0 + np.sqrt(6.0))
            self.beyond = self.cost / self.dual
        else:
            self.beyond = np.ones(len(self.cost))
            self.dual = self.cost * self.loss.slope(self.beyond)
        self.pull = float(self.dual.sum())
        push, slack = np.full(n, self.pull / n), np.full(n, self.k / n if self.capped else 1.0)
        self.pairs = Pairs(slack, push, np.zeros(n), np.zeros(n), self.capped)
        if self.capped:
            self.pairs.excess, self.pairs.room = slack, np.full(n, self.pull / self.k) - push
        self._certify()

    def standing(self) -> Standing:
        """The best bounds, and weights and threshold for the rows as they were given."""
        weights = self.arrays.asarray(self.best_weights)
        return self.upper, self.lower, *answer_in(self.form, weights, self.best_threshold)

    def _in_full(self, weights: Array) -> Array:
        return weights if self.basis is None else self.basis @ weights

    # ---- bounds

    def _certify(self) -> None:
        """Improve both bounds by the latest point if it does."""
        self.scores = self.positives @ self.weights, self.negatives @ self.weights
        threshold = float(np.sort(self.scores[1])[-self.k :].mean())
        losses = self.cost @ self.loss.value(threshold - self.scores[0])
        upper = 0.5 * self.lam * float(self.weights @ self.weights) + float(losses)
        if upper < self.upper:
            self.upper, self.best_threshold = upper, threshold
            self.best_weights = self._in_full(self.weights)
        shares = _capped_shares(self.pairs.push / self.pairs.push.sum(), 1.0 / self.k)
        mass = float(self.dual.sum())
        push = self.dual @ self.positives - mass * (shares @ self.negatives)
        unit, quadratic = self.dual / self.cost, float(push @ push) / self.lam
        squares, scale, lower = float(self.dual @ unit), 0.0, 0.0
        if quadratic + squares > 0.0:  # else all of it is lost to rounding
            scale, lower = best_scale(
                self.loss,
                Mass(mass, squares, push),
                quadratic,
                partial(along, self.cost, self.dual, self.loss),
                lambda: (float(unit.max()),),
            )
        if lower > self.lower:
            self.lower = lower
            on_negatives = np.broadcast_to(1.0 / self.n_neg, self.n_neg)
            if len(shares) == self.n_neg:
                on_negatives = shares
            self.best_dual = scale * self.dual, scale * mass * on_negatives

    def objective(self, weights: Array) -> tuple[float, float]:
        """A bound above P(w), and T(w), in long double where there is one: it has more digits."""
        wide = weights.astype(np.longdouble)
        unit = grown(SUMMED + len(wide) + len(self.cost) + self.n_neg, WIDE_UNIT)
        *rows, k = self._all
        scores = [side @ wide for side in rows]
        threshold = np.sort(scores[1])[-k:].mean()
        # Scores that each row's own rounding has moved for the worse.
        off = [unit * (np.abs(side) @ np.abs(wide)) for side in rows]
        highest = np.sort(scores[1] + off[1])[-k:]
        violations = highest.mean() + unit * np.abs(highest).max() - (scores[0] - off[0])
        losses = self.cost @ self.loss.value(violations + unit)
        upper = (0.5 * self.lam * (wide @ wide) + losses) * (1.0 + max(unit, 4.0 * UNIT)) + TINY
        return float(upper), float(threshold)

    def ended(self) -> Status | None:
        """Whether the gap is closed, or nothing gets better any more."""
        gap, left = relative_gap(self.upper, self.lower), self._complementarity()
        upper, lower, least = self.record
        ahead = self.upper < 0.998 * upper or self.lower > 1.1 * lower or left < 0.5 * least
        self.n_idle = 0 if ahead else self.n_idle + 1
        if ahead:
            self.record = self.upper, self.lower, min(left, least)
        if gap <= ALMOST * self.tol:
            return Status.CONVERGED
        return Status.STALLED if self.n_idle >= PATIENCE or not np.isfinite(self.pull) else None

    def _complementarity(self) -> float:
        own = float(self.dual @ self.beyond) if self.quadratic else 0.0
        return self.pairs.products() + own

    # ---- steps

    def advance(self) -> None:
        """Go one step, or stand still where the numbers allow none."""
        try:
            self._step()
        except (np.linalg.LinAlgError, ArithmeticError, ValueError):
            self.pull = np.nan
        self._certify()

    def _step(self) -> None:
        """One step along the central path, by a predictor and a corrector."""
        system = _System(self)
        mu = self.pairs.products() / (len(self.pairs.push) * (2 if self.capped else 1))
        mu_dual = float(self.dual @ self.beyond) if self.quadratic else 0.0
        before = self._complementarity()
        ahead = system.direction(0.0, 0.0, None)
        probe = self._moved(ahead, self._longest(ahead))
        left = min(1.0, probe._complementarity() / before)
        centring = max(left**3, self.least_centring)
        ahead = system.direction(centring * mu, centring * mu_dual, ahead)
        step = self._length(ahead)
        if step < SHORT_STEP:
            centred = system.direction(mu, mu_dual, None)
            ahead, step = max(
                (ahead, step), (centred, self._length(centred)), key=lambda pair: pair[1]
            )
        self.__dict__.update(self._moved(ahead, step).__dict__)

    def _length(self, ahead: "_Direction") -> float:
        return self._damped(ahead, min(1.0, self.to_boundary * self._longest(ahead)))

    def _damped(self, ahead: "_Direction", step: float) -> float:
        """Halve the step while the duals end far from where the system put them."""
        for _ in range(0 if self.quadratic else MAX_HALVINGS):
            found = self.cost * self.loss.slope(self.beyond + step * ahead.beyond)
            off = float(np.abs(found - self.dual - step * ahead.dual).sum())
            if off <= 0.2 * float(self.dual.sum()):
                break
            step *= 0.5
        return step

    def _moved(self, ahead: "_Direction", step: float) -> "ExactPath":
        """The path a step further."""
        moved = object.__new__(ExactPath)
        moved.__dict__.update(self.__dict__)
        for name, change in ahead._asdict().items():
            if name != "pairs":
                setattr(moved, name, getattr(self, name) + step * change)
        moved.pairs = replace(self.pairs)
        moved.pairs.advance(ahead.pairs, step)
        if not self.quadratic:
            moved.dual = self.cost * self.loss.slope(moved.beyond)
        return moved

    def _longest(self, ahead: "_Direction") -> float:
        """The step to the boundary."""
        own = ((self.dual, ahead.dual), (self.beyond, ahead.beyond)) if self.quadratic else ()
        rates = (float(np.max(-change / now)) for now, change in own)
        return 1.0 / max(1.0, *self.pairs.rates(ahead.pairs), *rates)


class _Direction(NamedTuple):
    """A direction of all variables, by the names they have in the method.

    `beyond` is the second factor of the truncated quadratic's products, of other losses `own`.
    """

    weights: Array
    level: float
    threshold: float
    pull: float
    dual: Array
    beyond: Array
    pairs: Direction


class _System:
    """The path's equations at a point, linearised and factored; solved for several goals."""

    def __init__(self, at: ExactPath) -> None:
        self.at = at
        violation = at.threshold - at.scores[0]
        if at.quadratic:
            self.spread = at.dual / (2.0 * at.cost) + at.beyond
            self.bend = at.dual / self.spread
            self.off_dual = self.spread - 1.0 - violation - 2.0 * at.beyond
        else:
            self.bend = at.cost * at.loss.curvature(at.beyond)
            self.off_dual = at.beyond - violation
        self.tangent = at.pairs.tangent(at.scores[1], at.level, at.pull / at.k)
        self._factor()

    def _factor(self) -> None:
        at, tangent, d = self.at, self.tangent, len(self.at.weights)
        self.roots = np.sqrt(np.concatenate([self.bend, tangent.stiffness, np.full(d, at.lam)]))
        rows = np.vstack([at.positives, at.negatives, np.eye(d)])
        rows *= self.roots[:, None]
        self.order = np.argsort(-np.abs(rows).max(axis=1), kind="stable")
        self.q, self.r, self.pivots = qr(rows[self.order], mode="economic", pivoting=True)
        first, last = len(self.bend), len(self.bend) + len(tangent.stiffness)
        border = np.zeros((len(rows), 3))
        border[first:last, 0], border[:first, 1] = -self.roots[first:last], -self.roots[:first]
        border[first:last, 2] = _over(tangent.share / at.k, self.roots[first:last])
        self.border = border[self.order]
        self.inside = self.q.T @ self.border
        self.outside = self.border - self.q @ self.inside
        self.outside -= self.q @ (self.q.T @ self.outside)
        corner = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [1.0, -1.0, 0.0]])
        corner[2, 2] = -tangent.give.sum() / at.k**2 - border[:, 2] @ border[:, 2]
        self.corner = self.outside.T @ self.outside + corner

    def direction(self, goal: float, dual_goal: float, last: _Direction | None) -> _Direction:
        """Towards products of `goal`, with the second-order terms of an earlier direction."""
        at, aim = self.at, self._aim(dual_goal, last)
        aims = at.pairs.aims(self.tangent, goal, None if last is None else last.pairs)
        weights, (level, threshold, pull) = self._solve(at.dual + aim, *aims)
        moved = threshold - at.positives @ weights
        dual = aim + self.bend * moved
        beyond = dual / (2.0 * at.cost) - moved + self.off_dual
        beyond = beyond if at.quadratic else moved - self.off_dual
        relative = at.negatives @ weights - level
        pairs = at.pairs.direction(self.tangent, aims, relative, pull / at.k)
        return _Direction(weights, level, threshold, pull, dual, beyond, pairs)

    def _aim(self, goal: float, last: _Direction | None) -> Array:
        """How the positives' duals change while nothing else moves."""
        at = self.at
        change: Array = -self.bend * self.off_dual
        if at.quadratic:
            second = 0.0 if last is None else last.dual * last.beyond
            change = change + (goal * at.cost - at.dual * at.beyond - second) / self.spread
        return change

    def _solve(self, dual: Array, push: Array, joint: Array) -> tuple[Array, Array]:
        """Changes of the weights and of level, threshold and pull."""
        at = self.at
        push = at.pairs.push + push
        goal = _over(np.concatenate([dual, -push]), self.roots[: len(dual) + len(push)])
        goal = np.append(goal, -self.roots[len(goal) :] * at.weights)[self.order]
        excess = at.pairs.excess.sum() + joint @ self.tangent.give
        off = at.threshold - at.level - excess / at.k
        numbers = self.outside.T @ goal + np.array([-at.pull, at.pull, off])
        numbers[2] -= self.border[:, 2] @ goal
        change = np.linalg.solve(self.corner, numbers)
        weights = np.empty(len(at.weights))
        weights[self.pivots] = solve_triangular(self.r, self.q.T @ goal - self.inside @ change)
        return weights, change


def _row_space(positives: Array, negatives: Array) -> Array | None:
    """Columns that span the rows, if these are fewer than their entries."""
    n_rows = len(positives) + len(negatives)
    if n_rows >= positives.shape[1]:
        return None
    basis: Array = qr(np.vstack([positives, negatives]).T, mode="economic")[0]
    return basis


def _over(values: Array, by: Array) -> Array:
    """Quotients, 0 where nothing divides."""
    quotients: Array = np.divide(values, by, out=np.zeros_like(values), where=by > 0.0)
    return quotients


def _capped_shares(shares: Array, cap: float) -> Array:
    """The shares lifted together and cut at the cap, so that they still sum to one."""
    if shares.max() <= cap:
        return shares
    low, high = 0.0, cap
    for _ in range(100):
        lift = 0.5 * (low + high)
        short = np.minimum(shares + lift, cap).sum() < 1.0
        low, high = (lift, high) if short else (low, lift)
    return np.minimum(shares + high, cap)


# ---- in the blocks


@read_only
def _all_rows(block: Block) -> Any:
    return block.precise_rows.exact()


@read_only
def _costs(block: Block) -> Array:
    return block.cost


@read_only
def _kinds(block: Block) -> Array:
    return block.join(1.0, -1.0)


class Received:
    """A block's part of the dual point that was found."""

    dual: tuple[Array, Array]


def _receive_dual(block: Block, dual: Array) -> None:
    block.work.of(Received).dual = block.split(dual)


def _received_dual(block: Block) -> tuple[Array, Array]:
    return block.work.of(Received).dual


@read_only
def _joined_dual(block: Block, balance: float) -> Array:
    return balanced(block, _received_dual, balance)
