"""What the Newton method keeps: in a block of its rows, and of all rows on the driver.

With c_i a positive's weight and t_i = T - w.x_i,

    pull_i = c_i l'(t_i),   bend_i = c_i l''(t_i).

A negative of the band has a slack u = s + xi - w.z > 0 with multiplier q, its push, and an
excess xi > 0 with multiplier eta, its room under the cap: q + eta = G/k. On the central path
q u = eta xi = mu for all of them. With k = 1 no cap can bind: then xi = 0 and eta is not used,
which saves about two iterations.
"""

from dataclasses import dataclass
from typing import NamedTuple

from toppush.designs import Block
from toppush.designs.arrays import namespace, number
from toppush.designs.rows import Rows
from toppush.types import Array, Mask, Where

# ---- known of the rows: it outlives a solve


@dataclass(frozen=True)
class LeftDual:
    """A block's negatives in the dual that the last solve proved its bound with."""

    where: Where
    push: Array


class WithSquares:
    """Rows that are also wanted with every entry squared."""

    rows: Rows
    _squared: Rows | None = None

    def squared(self) -> Rows:
        """Those, made on first use."""
        self._squared = self._squared or self.rows.squared()
        return self._squared


@dataclass
class Positives(WithSquares):
    """A block's positives, and the bends that the driver's `Gram` was formed with."""

    rows: Rows
    used_bend: Array | None = None


@dataclass(frozen=True)
class Gram:
    """Sums over all positives with the bends that the blocks' `Positives` hold.

    To be taken from what is known before the blocks change their bends, and kept when it follows.
    """

    matrix: Array
    """X'BX, B the diagonal matrix of the bends."""
    bend_product: Array
    """X'bend."""
    largest: tuple[float, float]
    """Greatest lengths that the two had while they were summed up."""
    turnover: tuple[float, float]
    """Sums of the bends, and of the traces, that were added and taken away: rounding goes by it."""


@dataclass(frozen=True)
class MeanDifference:
    """The positives' weighted mean less the negatives' mean."""

    vector: Array


# ---- at work, for one solve


class Tangent(NamedTuple):
    """The central path's equations, linearised; fixed while one system is solved."""

    stiffness: Array
    """Weight of z z' in the Newton matrix (theta)."""
    share: Array
    """Part of a change of the cap that the push takes (kappa)."""
    give: Array
    """1 / (q/u + eta/xi)."""
    off_slack: Array
    """Residual of u = s + xi - w.z."""
    off_room: Array
    """Residual of q + eta = G/k."""


class Direction(NamedTuple):
    """Newton direction of the four vectors."""

    slack: Array
    push: Array
    excess: Array
    room: Array


@dataclass
class Pairs:
    """Slack and push, excess and room of some negatives: what the path's equations are about."""

    slack: Array
    push: Array
    excess: Array
    room: Array
    capped: bool
    """Whether k > 1; else excess and room are zero."""

    def products(self) -> float:
        """Sum of q u + eta xi."""
        products = self.push @ self.slack
        return number(products + self.room @ self.excess if self.capped else products)

    def products_after(self, ahead: Direction, step: float) -> float:
        """The same a step further, without taking it."""
        products = (self.push + step * ahead.push) @ (self.slack + step * ahead.slack)
        if self.capped:
            products += (self.room + step * ahead.room) @ (self.excess + step * ahead.excess)
        return number(products)

    def tangent(self, scores: Array, level: float, cap: float) -> Tangent:
        """The equations at these scores, linearised."""
        stiffness = per_slack = self.push / self.slack
        off_slack = level + self.excess - scores - self.slack
        share = give = off_room = namespace(self.slack).zeros(len(stiffness))
        if self.capped:
            per_excess = self.room / self.excess
            give = 1.0 / (per_slack + per_excess)
            share = per_slack * give
            stiffness = share * per_excess
            off_room = cap - self.push - self.room
        return Tangent(stiffness, share, give, off_slack, off_room)

    def aims(self, tangent: Tangent, goal: float, last: Direction | None) -> tuple[Array, Array]:
        """How pushes change to q u = eta xi = goal while nothing else moves, and their joint part.

        With the second-order terms of an earlier direction.
        """
        product = goal if last is None else goal - last.push * last.slack
        push = (product - self.push * tangent.off_slack) / self.slack - self.push
        if not self.capped:
            return push, tangent.give
        product = goal if last is None else goal - last.room * last.excess
        joint = push + product / self.excess - self.room - tangent.off_room
        return push - tangent.share * joint, joint

    def direction(
        self, tangent: Tangent, aims: tuple[Array, Array], relative: Array, cap: float
    ) -> Direction:
        """The direction for a change of the scores less the level, and of the cap."""
        push, joint = aims[0] + tangent.stiffness * relative, aims[1]
        if not self.capped:
            return Direction(tangent.off_slack - relative, push, tangent.give, tangent.give)
        push += tangent.share * cap
        excess = (joint - cap) * tangent.give + tangent.share * relative
        slack = excess - relative + tangent.off_slack
        return Direction(slack, push, excess, cap + tangent.off_room - push)

    def rates(self, ahead: Direction) -> tuple[float, ...]:
        """The greatest rates at which each of the vectors falls towards zero."""
        now = (
            (self.slack, self.push, self.excess, self.room)
            if self.capped
            else (self.slack, self.push)
        )
        xp = namespace(self.slack)
        return tuple(
            number(xp.max(-step / value, initial=0.0))
            for step, value in zip(ahead, now, strict=False)
        )

    def advance(self, ahead: Direction, step: float) -> None:
        """Take a step."""
        self.slack = self.slack + step * ahead.slack
        self.push = self.push + step * ahead.push
        if self.capped:
            self.excess = self.excess + step * ahead.excess
            self.room = self.room + step * ahead.room


@dataclass
class Band(Pairs, WithSquares):
    """Working negatives of a block."""

    where: Where
    """Which of the block's negatives, numbered among themselves."""
    rows: Rows
    norms: Array
    """|z|^2."""


class BestDual(NamedTuple):
    """The dual point of the best bound: scale times pull, clip(push per_push + lift, 0, cap)."""

    pull: Array
    scale: float
    where: Where
    push: Array
    per_push: float
    lift: float
    cap: float


class Part:
    """A block's part of the point that a solve has reached, and of the step that it takes."""

    pull: Array
    bend: Array
    bend_change: Array
    """Since the Gram matrix was formed."""
    stepped: Array | None = None
    """The positives' duals as the steps led to them."""
    best_dual: BestDual | None = None
    band: Band
    outside: Mask
    """Negatives that are not in the band."""
    start: Array | None = None
    """The negatives' duals of the solution that the solve begins at."""
    tangent: Tangent
    aims: tuple[Array, Array]
    """How pushes, and pushes and excesses jointly, change while nothing else moves."""
    direction: Direction
    moves: tuple[Array, Array]
    """How the scores change along the direction."""
    leverages: tuple[Array, Array]
    """Of the positives and of the band, where conjugate gradients solve the system."""


def part_of(block: Block) -> Part:
    """What the solve under way keeps in this block."""
    return block.work.of(Part)


def positives_of(block: Block) -> Positives:
    """The block's positives, which `begin_positives` makes ready."""
    positives = block.known.find(Positives)
    assert positives is not None
    return positives
