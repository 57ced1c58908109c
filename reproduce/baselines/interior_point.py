"""Many support vector problems that differ in one row, solved together.

Problem k puts its threshold at the score of row k:

    F_k(w) = 1/2 |w|^2 + sum_i C_i (1 - w.d_i)_+,   d_i = y_i (x_i - x_k),   y_i = 1 or -1
    any 0 <= a_i <= C_i proves  F_k >= sum a - 1/2 |sum_i a_i d_i|^2

The bound's box is the same for all k, so duals of one problem bound every other. Primal-dual
interior points (Mehrotra's predictor and corrector); a problem costs O(N r^2) per iteration for N
rows of r features, about fifteen iterations whatever C, and NumPy sees a batch at a time.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toppush.system.threads import check_cancelled
from toppush.types import Array, Mask, Where

EPS = float(np.finfo(np.float64).eps)
HELD_PRODUCTS = 1 << 20
"""Products of the rows' entries that are held, 8 MB: sums over them are five times faster."""
TO_THE_WALL = 0.99
"""Share of the way to the boundary that a step may go."""


class Batch(NamedTuple):
    """Solved problems; entry b belongs to the problem `which[b]`."""

    which: Where
    weights: Array
    """Of shape (n_batch, n_features)."""
    duals: Array
    """Of shape (n_batch, n_rows), inside the box."""
    upper: Array
    lower: Array
    n_iter: NDArray[np.intp]
    """Iterations of each."""


@dataclass(frozen=True)
class ShiftedMachines:
    """The problems of all rows."""

    rows: Array
    sign: Array
    """1 for positives, -1 for negatives."""
    cost: Array
    """C_i."""

    def solve(self, which: Where, *, tol: float, max_iter: int) -> Batch:
        """Solve some problems to a relative gap of `tol` each.

        A problem whose next point overflows ends with the one before.
        """
        state = _State.begin(self, which)
        n_problems, n_rows = which.size, self.sign.size
        weights, duals = np.zeros((n_problems, self.rows.shape[1])), np.zeros((n_rows, n_problems))
        upper, lower = np.full(n_problems, self.cost.sum()), np.zeros(n_problems)
        place, n_iter = np.arange(n_problems), np.zeros(n_problems, np.intp)
        with np.errstate(all="ignore"):
            for n_round in range(max_iter + 1):
                check_cancelled()
                high = self.upper(state.which, state.weights)
                low = self.lower(state.which, state.dual)
                sound = np.isfinite(high) & np.isfinite(low)
                here = place[sound]
                weights[here], duals[:, here] = state.weights[sound], state.dual[:, sound]
                upper[here], lower[here] = high[sound], np.maximum(low[sound], 0.0)
                going = sound & (high - low > tol * high)
                if not going.any() or n_round == max_iter:
                    break
                state, place = state.keep(going), place[going]
                n_iter[place] += 1
                state.step(self)
        return Batch(which, weights, duals.T, upper, lower, n_iter)

    def margins(self, which: Where, weights: Array) -> Array:
        """w.d_i for every row and problem."""
        own = _dots(self.rows[which].T, weights.T)
        return np.asarray(self._signed @ np.vstack((weights.T, -own)))

    def combine(self, which: Where, coefficients: Array) -> Array:
        """sum_i u_i d_i for every problem."""
        sums = coefficients.T @ self._signed
        return np.asarray(sums[:, :-1] - sums[:, -1:] * self.rows[which])

    def upper(self, which: Where, weights: Array) -> Array:
        """F_k(w_k)."""
        losses = np.maximum(1.0 - self.margins(which, weights), 0.0)
        return np.asarray(0.5 * np.sum(np.square(weights), axis=1) + self.cost @ losses)

    def lower(self, which: Where, duals: Array) -> Array:
        """Bounds below F_k from one dual each."""
        pull = self.combine(which, duals)
        return np.asarray(duals.sum(axis=0) - 0.5 * np.sum(np.square(pull), axis=1))

    def lower_for_all(self, which: Where, duals: Array) -> Array:
        """The best bound below every row's F_k that duals of some problems give; one product.

        A row's own d is zero, so its dual is free: the problem at hand takes it whole, the one
        that a dual came from gives it up. The rest is scaled down to what suits each row best.
        """
        duals = duals.copy()
        duals[which, np.arange(which.size)] = 0.0
        signed = self.sign[:, None] * duals
        pull, tilt = signed.T @ self.rows, signed.sum(axis=0)
        sizes = np.sum(np.square(self.rows), axis=1)
        square = sizes[:, None] * tilt**2 - 2.0 * tilt * (self.rows @ pull.T)
        square = np.maximum(square + np.sum(np.square(pull), axis=1), np.finfo(float).tiny)
        total = np.maximum(duals.sum(axis=0) - duals, 0.0)
        scale = np.minimum(1.0, total / square)
        gains = scale * (total - 0.5 * scale * square)
        return np.asarray(self.cost + np.fmax.reduce(gains, axis=1))

    def systems(self, which: Where, scale: Array) -> Array:
        """I + sum_i scale_i d_i d_i' for every problem, kept regular beside a sum that is huge."""
        at, n_columns = self.rows[which], self.rows.shape[1]
        if self._products is None:
            grams = (self.rows.T[None] * scale.T[:, None, :]) @ self.rows
        else:
            grams = (scale.T @ self._products).reshape(-1, n_columns, n_columns)
        cross = (scale.T @ self.rows)[:, :, None] * at[:, None, :]
        grams -= cross + cross.transpose(0, 2, 1)
        grams += scale.sum(axis=0)[:, None, None] * (at[:, :, None] * at[:, None, :])
        huge = np.trace(grams, axis1=1, axis2=2)
        grams += (1.0 + EPS * huge)[:, None, None] * np.eye(n_columns)
        grams[~np.isfinite(huge)] = np.eye(n_columns)
        return np.asarray(grams)

    @cached_property
    def _signed(self) -> Array:
        """Rows times their sign, which is their last column."""
        return np.column_stack((self.sign[:, None] * self.rows, self.sign))

    @cached_property
    def _products(self) -> Array | None:
        """Each row's entries times each other, or None if they are too many to hold."""
        n_rows, n_columns = self.rows.shape
        if n_rows * n_columns**2 > HELD_PRODUCTS:
            return None
        return (self.rows[:, :, None] * self.rows[:, None, :]).reshape(n_rows, -1)


class Remembered:
    """Problems that are solved when they are first asked for, and known from then on."""

    def __init__(self) -> None:
        self._known: dict[int, Batch] = {}

    def solve(self, machines: ShiftedMachines, which: Where, *, tol: float, max_iter: int) -> Batch:
        """As the machines do; they, tol and max_iter are the same whenever somebody asks."""
        new = np.array([row for row in which if int(row) not in self._known], which.dtype)
        if new.size:
            found = machines.solve(new, tol=tol, max_iter=max_iter)
            for at, row in enumerate(new):
                self._known[int(row)] = Batch._make(part[at : at + 1] for part in found)
        asked = [self._known[int(row)] for row in which]
        return Batch._make(map(np.concatenate, zip(*asked, strict=True)))


@dataclass
class _State:
    """Iterates of a batch: margin slack = w.d + loss - 1 throughout; room = C - dual."""

    which: Where
    weights: Array
    dual: Array
    loss: Array
    slack: Array
    cost: Array

    @classmethod
    def begin(cls, machines: ShiftedMachines, which: Where) -> "_State":
        cost, ones = machines.cost[:, None], np.ones((machines.sign.size, which.size))
        weights = np.zeros((which.size, machines.rows.shape[1]))
        return cls(which, weights, 0.5 * cost * ones, 2.0 * ones, ones, cost)

    def keep(self, kept: Mask) -> "_State":
        if kept.all():
            return self
        columns = (self.dual[:, kept], self.loss[:, kept], self.slack[:, kept])
        return _State(self.which[kept], self.weights[kept], *columns, self.cost)

    def step(self, machines: ShiftedMachines) -> None:
        """Look ahead to all products zero, then aim at what that look leaves of their mean."""
        room = self.cost - self.dual
        stiff = self.loss / room
        newton = _Newton(machines, self, stiff, 1.0 / (self.slack / self.dual + stiff))
        total = _dots(self.dual, self.slack) + _dots(room, self.loss)
        ahead = newton.direction(-self.slack, -self.loss)
        far = self._length(ahead, room)
        bend = ahead.dual * ahead.slack, ahead.dual * ahead.loss
        left = (1.0 - far) * total + far**2 * (bend[0] - bend[1]).sum(axis=0)
        goal = total / (2.0 * self.dual.shape[0]) * np.maximum(left / total, 0.0) ** 3
        ahead = newton.direction(
            (goal - bend[0]) / self.dual - self.slack, (goal + bend[1]) / room - self.loss
        )
        far = TO_THE_WALL * self._length(ahead, room)
        self.weights = self.weights + far[:, None] * ahead.weights
        self.dual, self.loss = self.dual + far * ahead.dual, self.loss + far * ahead.loss
        self.slack = self.slack + far * ahead.slack

    def _length(self, ahead: "_Direction", room: Array) -> Array:
        """How far each problem can go before an entry hits zero, at most 1."""
        with np.errstate(divide="ignore", invalid="ignore"):
            falls = [
                np.fmin.reduce(ahead.dual / self.dual, axis=0),
                -np.fmax.reduce(ahead.dual / room, axis=0),
                np.fmin.reduce(ahead.loss / self.loss, axis=0),
                np.fmin.reduce(ahead.slack / self.slack, axis=0),
            ]
        return np.asarray(-1.0 / np.minimum(np.fmin.reduce(falls), -1.0))


@dataclass(frozen=True)
class _Newton:
    """Newton's equations at a state, for several aims."""

    machines: ShiftedMachines
    state: _State
    stiff: Array
    """loss / room."""
    scale: Array
    """1 / (slack / dual + loss / room)."""

    @cached_property
    def _systems(self) -> Array:
        return self.machines.systems(self.state.which, self.scale)

    def direction(self, on_slack: Array, on_loss: Array) -> "_Direction":
        """The step that changes slack by on_slack, were the dual to stay, and loss by on_loss."""
        state = self.state
        aim = self.scale * (on_slack - on_loss)
        behind = self.machines.combine(state.which, state.dual + aim) - state.weights
        solved = np.linalg.solve(self._systems, behind[:, :, None])
        weights = np.asarray(solved[:, :, 0], np.float64)
        margins = self.machines.margins(state.which, weights)
        dual = aim - self.scale * margins
        loss = on_loss + self.stiff * dual
        return _Direction(weights, dual, loss, margins + loss)


def _dots(some: Array, others: Array) -> Array:
    """Inner products of columns."""
    return np.asarray(np.einsum("ij,ij->j", some, others))


class _Direction(NamedTuple):
    weights: Array
    dual: Array
    loss: Array
    slack: Array
