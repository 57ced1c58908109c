"""The band, in the blocks: the negatives near the top, of which alone the path takes account."""

import math
from typing import NamedTuple

import numpy as np

from toppush.designs import Block, read_only
from toppush.designs.arrays import namespace, number
from toppush.designs.rows import Rows
from toppush.problem.losses import Loss
from toppush.problem.numerics import chunks, clipped_mass, mass_above
from toppush.solvers.newton.state import Band, LeftDual, part_of, positives_of
from toppush.types import Array, Mask, Where


def choose_band(block: Block, level: float, stride: int, capped: bool) -> None:
    """Take the negatives above a level, every stride-th, and those pushed at the start."""
    chosen, part = block.scores[1] > level, part_of(block)
    chosen[-block.first_negative % stride :: stride] = True
    if part.start is not None:
        chosen = chosen | (part.start > 0.0)
    part.outside = ~chosen
    _set_band(block, block.arrays.flatnonzero(chosen), capped)


def _set_band(block: Block, where: Where, capped: bool, known: Rows | None = None) -> None:
    """Make a band of these negatives, not yet centred; `known` are the first of them."""
    rows, none = block.negative_rows(where, known), block.arrays.zeros(len(where))
    part_of(block).band = Band(none, none, none, none, capped, where, rows, rows.squared_norms())


@read_only
def band_size(block: Block) -> int:
    """Negatives in the band."""
    return len(part_of(block).band.where)


def band_scores(block: Block) -> Array:
    """Scores of the band."""
    return block.scores[1][part_of(block).band.where]


@read_only
def band_range(block: Block) -> tuple[float, float]:
    """Greatest score of the band, and minus the least."""
    xp, scores = block.arrays, band_scores(block)
    return number(xp.max(scores, initial=-np.inf)), number(-xp.min(scores, initial=np.inf))


@read_only
def centred_push(block: Block, level: float, mu: float, cap: float) -> tuple[float, float]:
    """Sum of pushes on the central path at this level, and how it falls as the level grows."""
    slack, excess = _centred(level - band_scores(block), mu, cap)
    per_slack, per_excess = mu / slack**2, mu / excess**2
    fall = per_slack * per_excess / (per_slack + per_excess)
    return number((mu / slack).sum()), number(fall.sum())


@read_only
def inverse_slacks(block: Block, level: float) -> float:
    """Sum of 1 / slack at a level above the band: the pushes without a cap are in proportion."""
    return number((1.0 / (level - band_scores(block))).sum())


def centre(block: Block, level: float, mu: float, cap: float) -> float:
    """Put the band on the central path; returns the sum of excesses."""
    band = part_of(block).band
    if not band.capped:
        band.slack = level - band_scores(block)
        band.push = mu / band.slack
        band.excess = band.room = block.arrays.zeros(len(band.slack))
        return 0.0
    band.slack, band.excess = _centred(level - band_scores(block), mu, cap)
    band.push, band.room = mu / band.slack, mu / band.excess
    return number(band.excess.sum())


def _centred(below: Array, mu: float, cap: float) -> tuple[Array, Array]:
    """Slack and excess with slack - excess = below and mu/slack + mu/excess = cap."""
    xp, size = namespace(below), abs(cap * below)
    spread = xp.sqrt(4.0 * mu * mu + size * size)
    large = (2.0 * mu + size + spread) / (2.0 * cap)
    small = (2.0 * mu + 4.0 * mu * mu / (spread + size)) / (2.0 * cap)
    return xp.where(below > 0.0, large, small), xp.where(below > 0.0, small, large)


@read_only
def candidates_above(block: Block, level: float) -> tuple[float, float]:
    """Negatives outside the band above a level: sum of how far, and how many."""
    return mass_above(candidates(block), level)


@read_only
def candidates(block: Block) -> Array:
    """Scores of the negatives outside the band, minus infinity in place of the others."""
    return block.arrays.where(part_of(block).outside, block.scores[1], -np.inf)


def extend_band(
    block: Block, above: float, level: float, cap: float, mu: float, least: float
) -> int:
    """Take in the negatives above a level, each with a small push; returns how many.

    They enter with a slack of at least `least`, so that they disturb the balance little; that
    their scores contradict it is a residual that the next steps work off.
    """
    xp, part = block.arrays, part_of(block)
    band = part.band
    new = xp.flatnonzero(part.outside & (block.scores[1] > above))
    if not len(new):
        return 0
    slack = xp.maximum(level - block.scores[1][new], least)
    push = mu / slack
    none = xp.zeros(len(new))
    grown = (slack, push, *((mu / (cap - push), cap - push) if band.capped else (none, none)))
    old, capped = (band.slack, band.push, band.excess, band.room), band.capped
    part.outside[new] = False
    where = xp.concatenate([band.where, new])
    known = band.rows if block.fits_twice(where) else None
    del part.band, band  # so that the rows go before they are read again
    _set_band(block, where, capped, known)
    wider = part.band
    wider.slack, wider.push, wider.excess, wider.room = (
        xp.concatenate(pair) for pair in zip(old, grown, strict=True)
    )
    return len(new)


class BandSums(NamedTuple):
    """Sums over the band."""

    push: float
    complementarity: float
    """Sum of q u + eta xi: 2 mu for each negative on the central path."""
    excess: float
    product: Array
    """Z'q."""


@read_only
def band_sums(block: Block) -> BandSums:
    """Sums that the certificate and the residuals need."""
    band = part_of(block).band
    return BandSums(
        number(band.push.sum()),
        band.products(),
        number(band.excess.sum()),
        band.rows.combine(band.push),
    )


@read_only
def largest_push(block: Block) -> tuple[float]:
    """Greatest push of the band."""
    return (number(block.arrays.max(part_of(block).band.push, initial=0.0)),)


@read_only
def capped_share(block: Block, total: float, lift: float, cap: float) -> tuple[float, float]:
    """Mass of clip(push/total + lift, 0, cap), and how many entries are inside."""
    clipped = clipped_mass(part_of(block).band.push / total, lift, cap)
    return clipped.mass, clipped.n_free


@read_only
def capped_product(block: Block, total: float, lift: float, cap: float) -> Array:
    """Z' clip(push/total + lift, 0, cap)."""
    band = part_of(block).band
    return band.rows.combine(block.arrays.clip(band.push / total + lift, 0.0, cap))


class Border(NamedTuple):
    """Sums that border the Newton matrix."""

    stiffness: float
    share: float
    give: float
    bend: float
    """Sum of the positives' bends that the Newton matrix holds."""
    stiff_product: Array
    """Z' theta."""
    share_product: Array
    """Z' kappa."""


def linearise(block: Block, level: float, cap: float) -> Border:
    """Linearise the central path at the band; returns what borders the Newton matrix."""
    part, bend = part_of(block), positives_of(block).used_bend
    assert bend is not None
    band = part.band
    part.tangent = tangent = band.tangent(band_scores(block), level, cap)
    product, stiffness, bends = (
        band.rows.combine(tangent.stiffness),
        number(tangent.stiffness.sum()),
        number(bend.sum()),
    )
    if not band.capped:  # no push shares in the cap
        return Border(stiffness, 0.0, 0.0, bends, product, block.arrays.zeros(len(product)))
    share, give = number(tangent.share.sum()), number(tangent.give.sum())
    return Border(stiffness, share, give, bends, product, band.rows.combine(tangent.share))


@read_only
def weights_in_matrix(block: Block) -> Array:
    """How much each of the band weighs in the Newton matrix."""
    part = part_of(block)
    return part.tangent.stiffness * part.band.norms


def heavy(block: Block, least: float) -> Mask:
    """Which of the band weigh more than this."""
    return weights_in_matrix(block) > least


@read_only
def heavy_gram(block: Block, least: float) -> tuple[Array, float, Array]:
    """Of the heavy ones: Z' diag(theta) Z, sum of theta, and Z' theta.

    The last is rounded as the right sides are, which it has to cancel: in single precision the
    exact one that comes with the first made fits stall.
    """
    part = part_of(block)
    rows, stiffness = part.band.rows, part.tangent.stiffness
    xp, chosen = block.arrays, heavy(block, least)
    where, on_heavy = xp.flatnonzero(chosen), xp.where(chosen, stiffness, 0.0)
    # Products that are kept take memory, which rows in files have little of.
    ask = rows.gram_again if math.isinf(block.original.room) else lambda *of: rows.gram(*of)[0]
    gram = ask(where, stiffness[where])
    return gram, number(on_heavy.sum()), rows.combine(on_heavy)


class RightSide(NamedTuple):
    """Sums over the band on the right side of the Newton system."""

    product: Array
    push: float
    excess: float


def right_side(block: Block, goal: float, corrected: bool) -> RightSide:
    """Right side for a step to q u = eta xi = goal, second-order terms included or not."""
    part = part_of(block)
    last = part.direction if corrected else None
    part.aims = push, joint = part.band.aims(part.tangent, goal, last)
    product = part.band.rows.combine(push)
    return RightSide(product, number(push.sum()), number(joint @ part.tangent.give))


def set_direction(block: Block, moves: Array, level: float, cap: float) -> tuple[float, ...]:
    """Direction of the band's vectors for a change of weights, level and cap.

    Returns the greatest rates at which each of them falls towards zero.
    """
    part = part_of(block)
    band = part.band
    relative = band.rows.scores(moves) - level
    part.direction = band.direction(part.tangent, part.aims, relative, cap)
    return band.rates(part.direction)


@read_only
def complementarity_after(block: Block, step: float) -> float:
    """Sum of q u + eta xi after a step."""
    part = part_of(block)
    return part.band.products_after(part.direction, step)


def set_moves(block: Block, weights: Array) -> None:
    """How the scores change along a direction of the weights."""
    part_of(block).moves = block.split(block.rows.scores(weights))


def advance(block: Block, step: float) -> None:
    """Take the step in scores and band."""
    (positives, negatives), part = block.scores, part_of(block)
    block.scores = positives + step * part.moves[0], negatives + step * part.moves[1]
    part.band.advance(part.direction, step)


LEAST_PUSH = 0.03
"""Share of the mean push from which a negative is in the band because of its push."""


def receive_dual(block: Block, dual: Array) -> None:
    """Take the negatives' part of a dual point."""
    part_of(block).start = _weighty(block.arrays.maximum(block.split(dual)[1], 0.0))


def _weighty(push: Array) -> Array:
    """The pushes without those that are next to nothing, as inside the domain most are."""
    xp = namespace(push)
    n_pushed = max(number(xp.count_nonzero(push)), 1.0)
    return xp.where(push > LEAST_PUSH * push.sum() / n_pushed, push, 0.0)


def leave_dual(block: Block) -> None:
    """Keep the pushes of the best bound, for a solve that begins where this one ends."""
    best = part_of(block).best_dual
    if best is not None:
        push = block.arrays.clip(best.push * best.per_push + best.lift, 0.0, best.cap)
        block.known.keep(LeftDual(best.where, push))


def recall_dual(block: Block) -> None:
    """Take what the last solve left: no dual of rows that are elsewhere comes to the driver."""
    left = block.known.find(LeftDual)
    if left is not None:
        part_of(block).start = start = block.arrays.zeros(block.n_neg)
        start[left.where] = _weighty(left.push)


@read_only
def sum_of_start(block: Block) -> float:
    """Sum of the pushes that the solve is to begin with; 0 if there are none."""
    start = part_of(block).start
    return 0.0 if start is None else number(start.sum())


@read_only
def slope_along(block: Block, loss: Loss, scale: float, threshold: float) -> tuple[float, float]:
    """First and second derivative of the sum of losses as all scores are multiplied by `scale`."""
    slope = bend = 0.0
    for cost, scores in chunks(block.cost, block.scores[0]):
        violation = threshold - scores
        slope += number(cost @ (loss.slope(scale * violation) * violation))
        bend += number(cost @ (loss.curvature(scale * violation) * violation**2))
    return slope, bend


def push_as_dual(block: Block, scale: float) -> None:
    """The dual's pushes as they are, for what they prove."""
    part = part_of(block)
    assert part.start is not None
    part.band.push = scale * part.start[part.band.where]


def pair_up(block: Block, level: float, mu: float, cap: float, reach: float) -> float:
    """Bring the pushes inside, each with the slack that makes their product mu.

    A negative below the level has a push of at least mu over that distance and `reach`, one above
    it as much room under the cap. What the slacks are off then is a residual that the steps work
    off. Returns the sum of excesses.
    """
    xp, band = block.arrays, part_of(block).band
    below = level - band_scores(block)
    band.push = xp.maximum(band.push, mu / (xp.maximum(below, 0.0) + reach))
    band.excess = band.room = xp.zeros(len(below))
    if band.capped:
        room = xp.maximum(cap - band.push, mu / (xp.maximum(-below, 0.0) + reach))
        band.push, band.room, band.excess = cap - room, room, mu / room
    band.slack = mu / band.push
    return number(band.excess.sum())
