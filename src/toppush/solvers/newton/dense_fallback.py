"""The last resort for few rows that differ in size by many powers of ten: all rows on the driver.

The same problem and notation as in `interior_point`, with two differences. The positives' duals are
variables of their own, as usual in interior-point methods:

    truncated quadratic   a_i (a_i/(2 c_i) - 1 - t_i) = mu,   both factors positive
    other losses          a_i = c_i l'(v_i),   v_i = t_i = T - w.x_i after a full step

so that the dual point satisfies X+'a - Z'q = lam w to rounding, however the scores are rounded. And
the Newton matrix is never formed: with A the rows sqrt(h) x, sqrt(theta) z, sqrt(lam) I it is A'A,
and a QR decomposition of A, its longest rows first, keeps the information of the short ones. Here c
sums to 1, and every a and q is that of `interior_point` divided by m.

Of 216 fits of ordinary tables none needs this. Of 1,846 problems made to break the solver
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
from toppush.problem.objective import TopPushProblem, balanced_dual, certify
from toppush.problem.solution import Solution, Status, closed, relative_gap
from toppush.solvers.driver import History, State, follow, row_scaling, scaled_problem, unscale
from toppush.solvers.newton.bounds import DualMass, best_scale, conjugate_sums
from toppush.solvers.newton.state import ComplementaryPairs, Direction
from toppush.types import Array

MAX_ENTRIES, MAX_WORK = 1 << 22, 1 << 31
"""Entries of all rows, and entries times columns, up to which rows are few."""
STEP_RULES = ((0.99, 1e-3), (0.9, 0.1))
"""Share of the step to the boundary, and least centring: long steps first, and cautious ones if
those stall."""
SHORT_STEP = 0.3
"""Step below which a pure centring step is tried."""
PATIENCE, MAX_HALVINGS = 80, 60
WIDE_UNIT = 0.5 * float(np.finfo(np.longdouble).eps)
SHARE_OF_TOL = 0.999
"""The path ends when the gap is at most this share of tol; the rest of tol is for rounding in the
certified bounds."""


def fits_driver(design: Design) -> bool:
    """Whether the rows are few enough for all to be copied to the driver."""
    n_rows = design.n_pos + design.n_neg
    narrow = min(n_rows, design.n_features)
    return n_rows * design.n_features <= MAX_ENTRIES and n_rows * narrow**2 <= MAX_WORK


def solve_dense(
    problem: TopPushProblem, history: History, *, tol: float, max_iter: int
) -> Solution:
    """Minimise on the driver; the bounds are certified from the rows in the blocks."""
    design, scaling, scaled = problem.design, row_scaling(problem).scaling, scaled_problem(problem)
    rows = np.vstack([part.dense() for part in design.each(_all_rows)])
    cost = np.concatenate([to_host(part) for part in design.each(_costs)])
    signs = np.concatenate([to_host(part) for part in design.each(_signs)])
    path = DensePath(scaled, tol, scaling, rows[signs > 0], rows[signs < 0], cost)
    for rule in STEP_RULES:
        path.to_boundary, path.min_centring = rule
        status = follow(path, history, max_iter=max_iter)
        if status is not Status.STALLED or len(history) >= max_iter:
            break
    dual = np.zeros(len(rows))
    dual[signs > 0], dual[signs < 0] = (side * scaled.design.total_cost for side in path.best_dual)
    design.scatter(_receive_dual, dual)
    weights = design.arrays.asarray(path.best_weights)
    certificate = certify(scaled, weights, _received_dual)
    upper, threshold = path.objective(to_host(weights))
    upper, lower = min(upper, certificate.upper), certificate.lower
    if closed(upper, lower, tol):
        status = Status.CONVERGED
    elif status is Status.CONVERGED:
        status = Status.STALLED
    weights, threshold = unscale(scaling, weights, threshold)
    return Solution(
        weights=weights,
        threshold=threshold,
        dual=design.over_rows(_balanced_dual, certificate.balance),
        upper=upper,
        lower=lower,
        n_iter=len(history),
        status=status,
    )


class DensePath:
    """The central path with all rows and all variables as NumPy arrays."""

    to_boundary, min_centring = STEP_RULES[0]

    def __init__(
        self,
        problem: TopPushProblem,
        tol: float,
        scaling: Scaling,
        positives: Array,
        negatives: Array,
        cost: Array,
    ) -> None:
        self.loss, self.lam, self.k = problem.loss, problem.lam, problem.k
        self.arrays, self.scaling, self.tol = problem.design.arrays, scaling, tol
        self.positives, self.negatives, self.cost = positives, negatives, cost / cost.sum()
        self.upper, self.lower, self.best_threshold = np.inf, 0.0, 0.0
        self.n_neg = len(self.negatives)
        self.best_dual = np.zeros(len(self.cost)), np.zeros(self.n_neg)
        self._original = self.positives, self.negatives, self.k
        if self.k == self.n_neg:  # only their mean counts
            self.negatives, self.k = self.negatives.mean(axis=0, keepdims=True), 1
        self.capped = self.k > 1
        self.quadratic = self.loss.conjugate_curvature is not None
        self.basis = _row_space(self.positives, self.negatives)
        if self.basis is not None:
            self.positives = self.positives @ self.basis
            self.negatives = self.negatives @ self.basis
        self.best_weights = self._in_full(np.zeros(self.positives.shape[1]))

    def begin(self) -> None:
        """Weights of zero, and the threshold one above every score."""
        self.n_idle, self.record = 0, (np.inf, 0.0, np.inf)
        n = len(self.negatives)
        self.weights = np.zeros(self.positives.shape[1])
        self.threshold = 1.0
        self.level = 0.0 if self.capped else 1.0
        if self.quadratic:
            self.dual = self.cost * (2.0 + np.sqrt(6.0))
            self.dual_slack = self.cost / self.dual
        else:
            self.dual_slack = np.ones(len(self.cost))
            self.dual = self.cost * self.loss.slope(self.dual_slack)
        self.multiplier = float(self.dual.sum())
        dual = np.full(n, self.multiplier / n)
        slack = np.full(n, self.k / n if self.capped else 1.0)
        self.pairs = ComplementaryPairs(slack, dual, np.zeros(n), np.zeros(n), self.capped)
        if self.capped:
            self.pairs.excess = slack
            self.pairs.excess_dual = np.full(n, self.multiplier / self.k) - dual
        self._update_bounds()

    def state(self) -> State:
        """The best bounds, and weights and threshold for the original rows."""
        weights = self.arrays.asarray(self.best_weights)
        return self.upper, self.lower, *unscale(self.scaling, weights, self.best_threshold)

    def _in_full(self, weights: Array) -> Array:
        return weights if self.basis is None else self.basis @ weights

    # ---- bounds

    def _update_bounds(self) -> None:
        """Improve both bounds by the current point if it is better."""
        self.scores = self.positives @ self.weights, self.negatives @ self.weights
        threshold = float(np.sort(self.scores[1])[-self.k :].mean())
        losses = self.cost @ self.loss.value(threshold - self.scores[0])
        upper = 0.5 * self.lam * float(self.weights @ self.weights) + float(losses)
        if upper < self.upper:
            self.upper, self.best_threshold = upper, threshold
            self.best_weights = self._in_full(self.weights)
        shares = _capped_shares(self.pairs.dual / self.pairs.dual.sum(), 1.0 / self.k)
        mass = float(self.dual.sum())
        combination = self.dual @ self.positives - mass * (shares @ self.negatives)
        relative, quadratic = self.dual / self.cost, float(combination @ combination) / self.lam
        squares, scale, lower = float(self.dual @ relative), 0.0, 0.0
        if quadratic + squares > 0.0:  # otherwise rounding has removed all of it
            scale, lower = best_scale(
                self.loss,
                DualMass(mass, squares, combination),
                quadratic,
                partial(conjugate_sums, self.cost, self.dual, self.loss),
                lambda: (float(relative.max()),),
            )
        if lower > self.lower:
            self.lower = lower
            on_negatives = np.broadcast_to(1.0 / self.n_neg, self.n_neg)
            if len(shares) == self.n_neg:
                on_negatives = shares
            self.best_dual = scale * self.dual, scale * mass * on_negatives

    def objective(self, weights: Array) -> tuple[float, float]:
        """A bound above P(w), and T(w), in long double where it has more digits."""
        wide = weights.astype(np.longdouble)
        unit = grown(SUMMED + len(wide) + len(self.cost) + self.n_neg, WIDE_UNIT)
        *rows, k = self._original
        scores = [side @ wide for side in rows]
        threshold = np.sort(scores[1])[-k:].mean()
        # The worst scores within the rounding of each row.
        error = [unit * (np.abs(side) @ np.abs(wide)) for side in rows]
        highest = np.sort(scores[1] + error[1])[-k:]
        violations = highest.mean() + unit * np.abs(highest).max() - (scores[0] - error[0])
        losses = self.cost @ self.loss.value(violations + unit)
        upper = (0.5 * self.lam * (wide @ wide) + losses) * (1.0 + max(unit, 4.0 * UNIT)) + TINY
        return float(upper), float(threshold)

    def status(self) -> Status | None:
        """Converged if the gap is closed, stalled if nothing improves any more."""
        gap, products = relative_gap(self.upper, self.lower), self._complementarity()
        upper, lower, least = self.record
        progress = self.upper < 0.998 * upper or self.lower > 1.1 * lower or products < 0.5 * least
        self.n_idle = 0 if progress else self.n_idle + 1
        if progress:
            self.record = self.upper, self.lower, min(products, least)
        if gap <= SHARE_OF_TOL * self.tol:
            return Status.CONVERGED
        stalled = self.n_idle >= PATIENCE or not np.isfinite(self.multiplier)
        return Status.STALLED if stalled else None

    def _complementarity(self) -> float:
        of_positives = float(self.dual @ self.dual_slack) if self.quadratic else 0.0
        return self.pairs.complementarity() + of_positives

    # ---- steps

    def advance(self) -> None:
        """Take one step, or none where the numbers allow none."""
        try:
            self._take_step()
        except (np.linalg.LinAlgError, ArithmeticError, ValueError):
            self.multiplier = np.nan
        self._update_bounds()

    def _take_step(self) -> None:
        """One step along the central path, by a predictor and a corrector."""
        system = _System(self)
        mu = self.pairs.complementarity() / (len(self.pairs.dual) * (2 if self.capped else 1))
        dual_mu = float(self.dual @ self.dual_slack) if self.quadratic else 0.0
        before = self._complementarity()
        direction = system.direction(0.0, 0.0, None)
        trial = self._moved(direction, self._step_to_boundary(direction))
        left = min(1.0, trial._complementarity() / before)
        centring = max(left**3, self.min_centring)
        direction = system.direction(centring * mu, centring * dual_mu, direction)
        step = self._step_length(direction)
        if step < SHORT_STEP:
            centred = system.direction(mu, dual_mu, None)
            direction, step = max(
                (direction, step),
                (centred, self._step_length(centred)),
                key=lambda pair: pair[1],
            )
        self.__dict__.update(self._moved(direction, step).__dict__)

    def _step_length(self, direction: "_Direction") -> float:
        """Nearly to the boundary; halved while the duals end far from the predicted ones."""
        step = min(1.0, self.to_boundary * self._step_to_boundary(direction))
        for _ in range(0 if self.quadratic else MAX_HALVINGS):
            dual = self.cost * self.loss.slope(self.dual_slack + step * direction.dual_slack)
            error = float(np.abs(dual - self.dual - step * direction.dual).sum())
            if error <= 0.2 * float(self.dual.sum()):
                break
            step *= 0.5
        return step

    def _moved(self, direction: "_Direction", step: float) -> "DensePath":
        """The path after a step."""
        moved = object.__new__(DensePath)
        moved.__dict__.update(self.__dict__)
        for name, change in direction._asdict().items():
            if name != "pairs":
                setattr(moved, name, getattr(self, name) + step * change)
        moved.pairs = replace(self.pairs)
        moved.pairs.advance(direction.pairs, step)
        if not self.quadratic:
            moved.dual = self.cost * self.loss.slope(moved.dual_slack)
        return moved

    def _step_to_boundary(self, direction: "_Direction") -> float:
        pairs = (
            ((self.dual, direction.dual), (self.dual_slack, direction.dual_slack))
            if self.quadratic
            else ()
        )
        rates = (float(np.max(-change / value)) for value, change in pairs)
        return 1.0 / max(1.0, *self.pairs.boundary_rates(direction.pairs), *rates)


class _Direction(NamedTuple):
    """A direction of all variables, by their names in the path.

    `dual_slack` is the second factor of the truncated quadratic's products; for other losses v.
    """

    weights: Array
    level: float
    threshold: float
    multiplier: float
    dual: Array
    dual_slack: Array
    pairs: Direction


class _System:
    """The path's equations at a point, linearised and factored for several right sides."""

    def __init__(self, path: DensePath) -> None:
        self.path = path
        violation = path.threshold - path.scores[0]
        if path.quadratic:
            self.denominator = path.dual / (2.0 * path.cost) + path.dual_slack
            self.hessian_weights = path.dual / self.denominator
            self.dual_residual = self.denominator - 1.0 - violation - 2.0 * path.dual_slack
        else:
            self.hessian_weights = path.cost * path.loss.curvature(path.dual_slack)
            self.dual_residual = path.dual_slack - violation
        cap = path.multiplier / path.k
        self.linearised = path.pairs.linearise(path.scores[1], path.level, cap)
        self._factor()

    def _factor(self) -> None:
        path, at, d = self.path, self.linearised, len(self.path.weights)
        weights = [self.hessian_weights, at.hessian_weights, np.full(d, path.lam)]
        self.roots = np.sqrt(np.concatenate(weights))
        rows = np.vstack([path.positives, path.negatives, np.eye(d)])
        rows *= self.roots[:, None]
        self.order = np.argsort(-np.abs(rows).max(axis=1), kind="stable")
        self.q, self.r, self.pivots = qr(rows[self.order], mode="economic", pivoting=True)
        first, last = len(weights[0]), len(weights[0]) + len(weights[1])
        coupling = np.zeros((len(rows), 3))
        coupling[first:last, 0], coupling[:first, 1] = -self.roots[first:last], -self.roots[:first]
        coupling[first:last, 2] = _divided(at.cap_sensitivity / path.k, self.roots[first:last])
        self.coupling = coupling[self.order]
        self.inside = self.q.T @ self.coupling
        self.outside = self.coupling - self.q @ self.inside
        self.outside -= self.q @ (self.q.T @ self.outside)
        scalars = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [1.0, -1.0, 0.0]])
        scalars[2, 2] = -at.excess_sensitivity.sum() / path.k**2 - coupling[:, 2] @ coupling[:, 2]
        self.schur = self.outside.T @ self.outside + scalars

    def direction(self, mu: float, dual_mu: float, predictor: _Direction | None) -> _Direction:
        """Towards products of mu, with the second-order terms of a predictor."""
        path, right = self.path, self._dual_right_side(dual_mu, predictor)
        pairs_right = path.pairs.right_side(
            self.linearised, mu, None if predictor is None else predictor.pairs
        )
        weights, border_changes = self._solve(path.dual + right, *pairs_right)
        level, threshold, multiplier = border_changes
        violation = threshold - path.positives @ weights
        dual = right + self.hessian_weights * violation
        if path.quadratic:
            dual_slack = dual / (2.0 * path.cost) - violation + self.dual_residual
        else:
            dual_slack = violation - self.dual_residual
        relative = path.negatives @ weights - level
        pairs = path.pairs.direction(self.linearised, pairs_right, relative, multiplier / path.k)
        return _Direction(weights, level, threshold, multiplier, dual, dual_slack, pairs)

    def _dual_right_side(self, mu: float, predictor: _Direction | None) -> Array:
        """How the positives' duals change while the violations stay."""
        path = self.path
        change: Array = -self.hessian_weights * self.dual_residual
        if path.quadratic:
            second = 0.0 if predictor is None else predictor.dual * predictor.dual_slack
            products = mu * path.cost - path.dual * path.dual_slack - second
            change = change + products / self.denominator
        return change

    def _solve(self, dual: Array, negative_dual: Array, joint: Array) -> tuple[Array, Array]:
        """Changes of the weights and of level, threshold and multiplier."""
        path = self.path
        negative_dual = path.pairs.dual + negative_dual
        n_rows = len(dual) + len(negative_dual)
        right = _divided(np.concatenate([dual, -negative_dual]), self.roots[:n_rows])
        right = np.append(right, -self.roots[n_rows:] * path.weights)[self.order]
        excess = path.pairs.excess.sum() + joint @ self.linearised.excess_sensitivity
        residual = path.threshold - path.level - excess / path.k
        border_rhs = self.outside.T @ right
        border_rhs = border_rhs + np.array([-path.multiplier, path.multiplier, residual])
        border_rhs[2] -= self.coupling[:, 2] @ right
        border_changes = np.linalg.solve(self.schur, border_rhs)
        weights = np.empty(len(path.weights))
        weights[self.pivots] = solve_triangular(
            self.r, self.q.T @ right - self.inside @ border_changes
        )
        return weights, border_changes


def _row_space(positives: Array, negatives: Array) -> Array | None:
    """An orthonormal basis of the rows, if they are fewer than their entries."""
    n_rows = len(positives) + len(negatives)
    if n_rows >= positives.shape[1]:
        return None
    basis: Array = qr(np.vstack([positives, negatives]).T, mode="economic")[0]
    return basis


def _divided(values: Array, by: Array) -> Array:
    """Quotients, 0 where the divisor is 0."""
    quotients: Array = np.divide(values, by, out=np.zeros_like(values), where=by > 0.0)
    return quotients


def _capped_shares(shares: Array, cap: float) -> Array:
    """The shares plus an offset, cut at the cap, such that they still sum to one."""
    if shares.max() <= cap:
        return shares
    low, high = 0.0, cap
    for _ in range(100):
        offset = 0.5 * (low + high)
        short = np.minimum(shares + offset, cap).sum() < 1.0
        low, high = (offset, high) if short else (low, offset)
    return np.minimum(shares + high, cap)


# ---- in the blocks


@read_only
def _all_rows(block: Block) -> Any:
    return block.precise_rows.exact()


@read_only
def _costs(block: Block) -> Array:
    return block.cost


@read_only
def _signs(block: Block) -> Array:
    return block.join(1.0, -1.0)


class DenseDual:
    """A block's part of the dual point computed on the driver."""

    dual: tuple[Array, Array]


def _receive_dual(block: Block, dual: Array) -> None:
    block.work.of(DenseDual).dual = block.split(dual)


def _received_dual(block: Block) -> tuple[Array, Array]:
    return block.work.of(DenseDual).dual


@read_only
def _balanced_dual(block: Block, balance: float) -> Array:
    return balanced_dual(block, _received_dual, balance)
