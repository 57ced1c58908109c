"""The rows' side of the Newton method: the positives, and the band of negatives near the top.

Each function here runs in a block. With c_i a positive's weight and t_i = T - w.x_i,

    pull_i = c_i l'(t_i),   bend_i = c_i l''(t_i).

A negative of the band has a slack u = s + xi - w.z > 0 with multiplier q, its push, and an
excess xi > 0 with multiplier eta, its room under the cap: q + eta = G/k. On the central path
q u = eta xi = mu for all of them. With k = 1 no cap can bind: then xi = 0 and eta is not used,
which saves about two iterations.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toppush.designs import Block, only_asks
from toppush.designs.arrays import namespace, number
from toppush.designs.rows import Rows
from toppush.problem.losses import Loss
from toppush.problem.objective import balanced
from toppush.problem.tops import chunks, clipped_mass, mass_above
from toppush.types import Array, Where

# ---- positives


def bend_and_pull(block: Block, loss: Loss, threshold: float) -> tuple[float, float]:
    """Set pull and bend at the block's scores; returns sum c l' and sum c l'^2."""
    violation = threshold - block.scores[0]
    slope = loss.slope(violation)
    block.state.pull = block.cost * slope
    block.state.bend = block.cost * loss.curvature(violation)
    return number(block.state.pull.sum()), number(block.state.pull @ slope)


@only_asks
def pull_after(block: Block, loss: Loss, step: float, threshold: float) -> float:
    """Sum of pulls a step further along `moves`, without taking it."""
    parts = chunks(block.cost, block.scores[0], block.state.moves[0])
    return sum(
        number(cost @ loss.slope(threshold - (scores + step * moves)))
        for cost, scores, moves in parts
    )


@only_asks
def loss_along(block: Block, loss: Loss, scale: float, threshold: float) -> float:
    """Sum of losses if all scores are multiplied by `scale`."""
    parts = chunks(block.cost, block.scores[0])
    return sum(number(cost @ loss.value(threshold - scale * scores)) for cost, scores in parts)


def _duals(block: Block, held: bool) -> Array:
    """Of the positives: as their scores have them, or as the steps led to them."""
    state = block.state
    duals: Array = state.pull if not held else block.arrays.maximum(state.held, 0.0)
    return duals


@only_asks
def dual_along(block: Block, held: bool, loss: Loss, scale: float) -> tuple[float, float, float]:
    """Conjugates at the duals times `scale`, with first and second derivative in it."""
    value = slope = curvature = 0.0
    for cost, pull in chunks(block.cost, _duals(block, held)):
        unit = pull / cost
        counted = unit > 0.0
        cost, unit = cost[counted], unit[counted]
        dual = scale * unit
        violation = loss.conjugate_slope(dual)
        value += number(cost @ loss.conjugate(dual))
        slope += number(cost @ (unit * violation))
        curvature += number(cost @ (unit * unit / loss.curvature(violation)))
    return value, slope, curvature


@only_asks
def largest_dual(block: Block, held: bool) -> tuple[float]:
    """Greatest dual of a positive, for a weight of one."""
    return (number(block.arrays.max(_duals(block, held) / block.cost, initial=0.0)),)


@only_asks
def held_sums(block: Block) -> tuple[float, float, Array]:
    """Of the duals that the steps led to: sum, sum of squares, and X' times them."""
    duals = _duals(block, True)
    product = block.state.positive_rows.combine(duals)
    return number(duals.sum()), number(duals @ (duals / block.cost)), product


def begin_positives(block: Block, alone: bool) -> None:
    """Make ready; `alone` if products with the positives alone are wanted often.

    The bends that the Gram matrix holds, and the positives' rows, stay from an earlier solve.
    """
    block.state.best_dual = block.state.held = None
    block.state.used_bend = getattr(block.state, "used_bend", None)
    if getattr(block.state, "positive_rows", None) is None:
        block.state.positive_rows = block.positive_rows(alone)


def _bend_changes(block: Block, slack: float) -> Array:
    """Changes of the bends since they were last used, small ones (a share) taken for none."""
    bend, used = block.state.bend, block.state.used_bend
    change: Array = 1.0 * bend if used is None else bend - used
    if used is None:
        return change
    change[abs(change) <= slack * block.arrays.maximum(bend, used)] = 0.0
    return change


def count_changes(block: Block, slack: float) -> tuple[float, float]:
    """How many bends changed, and how many are not zero."""
    block.state.bend_change = _bend_changes(block, slack)
    changed = block.arrays.count_nonzero(block.state.bend_change)
    return number(changed), number(block.arrays.count_nonzero(block.state.bend))


def update_gram(block: Block, renew: bool) -> tuple[Array, Array]:
    """Change of (X'BX, X'b) since the last call, b being the bends, or all of it."""
    state = block.state
    change = state.bend if renew else state.bend_change
    state.used_bend = state.bend if renew else state.used_bend + change
    where = block.arrays.flatnonzero(change)
    gram, product = state.positive_rows.gram(where, change[where])
    return gram, product


def pull_and_bend_products(block: Block) -> tuple[Array, Array]:
    """X'pull and X'bend over the positives."""
    state = block.state
    state.used_bend = state.bend
    pull, bend = state.positive_rows.combine_all(state.pull, state.bend)
    return pull, bend


@only_asks
def pull_product(block: Block) -> Array:
    """X'pull over the positives."""
    product: Array = block.state.positive_rows.combine(block.state.pull)
    return product


@only_asks
def used_bend_sum(block: Block) -> float:
    """Sum of the bends that the Newton matrix holds."""
    return number(block.state.used_bend.sum())


# ---- the band


@dataclass
class Band:
    """Working negatives of a block; a vector over them for each quantity."""

    where: Where
    """Which of the block's negatives, numbered among themselves."""
    rows: Rows
    norms: Array
    """|z|^2."""
    slack: Array
    push: Array
    excess: Array
    room: Array
    capped: bool
    """Whether k > 1; else excess and room are zero."""


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
    """Newton direction of the band's four vectors."""

    slack: Array
    push: Array
    excess: Array
    room: Array


def choose_band(block: Block, level: float, stride: int, capped: bool) -> None:
    """Take the negatives above a level and every stride-th negative into the band."""
    chosen = block.scores[1] > level
    chosen[-block.first_negative % stride :: stride] = True
    block.state.outside = ~chosen
    _set_band(block, block.arrays.flatnonzero(chosen), capped)


def _set_band(block: Block, where: Where, capped: bool, known: Rows | None = None) -> None:
    """Make a band of these negatives, not yet centred; `known` are the first of them."""
    rows, none = block.negative_rows(where, known), block.arrays.zeros(len(where))
    block.state.band = Band(where, rows, rows.squared_norms(), none, none, none, none, capped)


@only_asks
def band_size(block: Block) -> int:
    """Negatives in the band."""
    return len(block.state.band.where)


def band_scores(block: Block) -> Array:
    """Scores of the band."""
    scores: Array = block.scores[1][block.state.band.where]
    return scores


@only_asks
def band_range(block: Block) -> tuple[float, float]:
    """Greatest score of the band, and minus the least."""
    xp, scores = block.arrays, band_scores(block)
    return number(xp.max(scores, initial=-np.inf)), number(-xp.min(scores, initial=np.inf))


@only_asks
def centred_push(block: Block, level: float, mu: float, cap: float) -> tuple[float, float]:
    """Sum of pushes on the central path at this level, and how it falls as the level grows."""
    slack, excess = _centred(level - band_scores(block), mu, cap)
    per_slack, per_excess = mu / slack**2, mu / excess**2
    fall = per_slack * per_excess / (per_slack + per_excess)
    return number((mu / slack).sum()), number(fall.sum())


@only_asks
def inverse_slacks(block: Block, level: float) -> float:
    """Sum of 1 / slack at a level above the band: the pushes without a cap are in proportion."""
    return number((1.0 / (level - band_scores(block))).sum())


def centre(block: Block, level: float, mu: float, cap: float) -> float:
    """Put the band on the central path; returns the sum of excesses."""
    band = block.state.band
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


@only_asks
def candidates_above(block: Block, level: float) -> tuple[float, float]:
    """Negatives outside the band above a level: sum of how far, and how many."""
    return mass_above(block.scores[1][block.state.outside], level)


def extend_band(
    block: Block, above: float, level: float, cap: float, mu: float, least: float
) -> int:
    """Take in the negatives above a level, each with a small push; returns how many.

    They enter with a slack of at least `least`, so that they disturb the balance little; that
    their scores contradict it is a residual that the next steps work off.
    """
    xp, state, band = block.arrays, block.state, block.state.band
    new = xp.flatnonzero(state.outside & (block.scores[1] > above))
    if not len(new):
        return 0
    slack = xp.maximum(level - block.scores[1][new], least)
    push = mu / slack
    none = xp.zeros(len(new))
    grown = (slack, push, *((mu / (cap - push), cap - push) if band.capped else (none, none)))
    old, capped = (band.slack, band.push, band.excess, band.room), band.capped
    state.outside[new] = False
    where = xp.concatenate([band.where, new])
    known = band.rows if block.fits_twice(where) else None
    del state.band, band  # so that the rows go before they are read again
    _set_band(block, where, capped, known)
    wider = state.band
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


@only_asks
def band_sums(block: Block) -> BandSums:
    """Sums that the certificate and the residuals need."""
    band = block.state.band
    return BandSums(
        number(band.push.sum()),
        number(band.push @ band.slack + band.room @ band.excess),
        number(band.excess.sum()),
        band.rows.combine(band.push),
    )


@only_asks
def largest_push(block: Block) -> tuple[float]:
    """Greatest push of the band."""
    return (number(block.arrays.max(block.state.band.push, initial=0.0)),)


@only_asks
def capped_share(block: Block, total: float, lift: float, cap: float) -> tuple[float, float]:
    """Mass of clip(push/total + lift, 0, cap), and how many entries are inside."""
    clipped = clipped_mass(block.state.band.push / total, lift, cap)
    return clipped.mass, clipped.n_free


@only_asks
def capped_product(block: Block, total: float, lift: float, cap: float) -> Array:
    """Z' clip(push/total + lift, 0, cap)."""
    working: Band = block.state.band
    return working.rows.combine(block.arrays.clip(working.push / total + lift, 0.0, cap))


class Border(NamedTuple):
    """Sums that border the Newton matrix."""

    stiffness: float
    share: float
    give: float
    stiff_product: Array
    """Z' theta."""
    share_product: Array
    """Z' kappa."""


def linearise(block: Block, level: float, cap: float) -> Border:
    """Linearise the central path at the band; returns what borders the Newton matrix."""
    band = block.state.band
    stiffness = per_slack = band.push / band.slack
    off_slack = level + band.excess - band_scores(block) - band.slack
    share = give = off_room = block.arrays.zeros(len(stiffness))
    if band.capped:
        per_excess = band.room / band.excess
        give = 1.0 / (per_slack + per_excess)
        share = per_slack * give
        stiffness = share * per_excess
        off_room = cap - band.push - band.room
    block.state.tangent = Tangent(stiffness, share, give, off_slack, off_room)
    return Border(
        number(stiffness.sum()),
        number(share.sum()),
        number(give.sum()),
        band.rows.combine(stiffness),
        band.rows.combine(share),
    )


def heavy(block: Block, least: float) -> NDArray[np.bool_]:
    """Which of the band weigh more than this in the Newton matrix."""
    held: NDArray[np.bool_] = block.state.tangent.stiffness * block.state.band.norms > least
    return held


@only_asks
def heavy_gram(block: Block, least: float) -> tuple[Array, float, Array]:
    """Of the heavy ones: Z' diag(theta) Z, sum of theta, and Z' theta.

    The last is rounded as the right sides are, which it has to cancel: in single precision the
    exact one that comes with the first made fits stall.
    """
    band, stiffness = block.state.band, block.state.tangent.stiffness
    xp, chosen = block.arrays, heavy(block, least)
    where, held = xp.flatnonzero(chosen), xp.where(chosen, stiffness, 0.0)
    gram, _ = band.rows.gram(where, stiffness[where])
    return gram, number(held.sum()), band.rows.combine(held)


class RightSide(NamedTuple):
    """Sums over the band on the right side of the Newton system."""

    product: Array
    push: float
    excess: float


def right_side(block: Block, goal: float, corrected: bool) -> RightSide:
    """Right side for a step to q u = eta xi = goal, second-order terms included or not."""
    state, band, tangent = block.state, block.state.band, block.state.tangent
    last = state.direction if corrected else None
    push_goal = goal if last is None else goal - last.push * last.slack
    state.push_rhs = (push_goal - band.push * tangent.off_slack) / band.slack - band.push
    state.joint = tangent.give
    if band.capped:
        room_goal = goal if last is None else goal - last.room * last.excess
        state.joint = state.push_rhs + room_goal / band.excess - band.room - tangent.off_room
        state.push_rhs = state.push_rhs - tangent.share * state.joint
    return RightSide(
        band.rows.combine(state.push_rhs),
        number(state.push_rhs.sum()),
        number(state.joint @ tangent.give),
    )


def set_direction(block: Block, moves: Array, level: float, cap: float) -> tuple[float, ...]:
    """Direction of the band's vectors for a change of weights, level and cap.

    Returns the greatest rates at which each of them falls towards zero.
    """
    state, band, tangent = block.state, block.state.band, block.state.tangent
    relative = band.rows.scores(moves) - level
    push = state.push_rhs + tangent.stiffness * relative
    if not band.capped:
        none = tangent.give
        state.direction = Direction(tangent.off_slack - relative, push, none, none)
        return _rate(state.direction.slack, band.slack), _rate(push, band.push)
    push += tangent.share * cap
    excess = (state.joint - cap) * tangent.give + tangent.share * relative
    slack = excess - relative + tangent.off_slack
    state.direction = Direction(slack, push, excess, cap + tangent.off_room - push)
    now = (band.slack, band.push, band.excess, band.room)
    return tuple(_rate(step, value) for step, value in zip(state.direction, now, strict=True))


def _rate(step: Array, now: Array) -> float:
    return number(namespace(step).max(-step / now, initial=0.0))


@only_asks
def complementarity_after(block: Block, step: float) -> float:
    """Sum of q u + eta xi after a step."""
    band, ahead = block.state.band, block.state.direction
    slack, push = band.slack + step * ahead.slack, band.push + step * ahead.push
    excess, room = band.excess + step * ahead.excess, band.room + step * ahead.room
    return number(push @ slack + room @ excess)


# ---- all rows


def set_moves(block: Block, weights: Array) -> None:
    """How the scores change along a direction of the weights."""
    block.state.moves = block.split(block.rows.scores(weights))


def advance_held(block: Block, step: float, threshold: float) -> None:
    """Take the step in the positives' duals, as the system has it.

    They follow the Newton equations, whose residuals come down to rounding in every step. Duals
    taken from the scores are only as good as the scores: where rows are very long, not enough.
    """
    state = block.state
    held = state.pull if state.held is None else state.held
    ahead = state.pull - held + state.bend * (threshold - state.moves[0])
    state.held = held + step * ahead


def advance(block: Block, step: float) -> None:
    """Take the step in scores and band."""
    (positives, negatives), moves = block.scores, block.state.moves
    block.scores = positives + step * moves[0], negatives + step * moves[1]
    band, ahead = block.state.band, block.state.direction
    band.slack = band.slack + step * ahead.slack
    band.push = band.push + step * ahead.push
    band.excess = band.excess + step * ahead.excess
    band.room = band.room + step * ahead.room


def rescale_scores(block: Block, scale: float) -> None:
    """Multiply all scores."""
    block.scores = block.scores[0] * scale, block.scores[1] * scale


@only_asks
def score_moments(block: Block) -> tuple[float, float, float, float]:
    """Weighted sum of the positives' scores; sum and sum of squares of the negatives'."""
    positives, negatives = block.scores
    return (
        number(block.cost @ positives),
        number(block.cost @ block.arrays.square(positives)),
        number(negatives.sum()),
        number(negatives @ negatives),
    )


@only_asks
def mean_difference(block: Block, total_cost: float, n_neg: int) -> Array:
    """Part of the positives' weighted mean less the negatives' mean."""
    negatives = block.arrays.broadcast_to(1.0 / n_neg, block.n_neg)
    return block.push(block.cost / total_cost, negatives)


def keep_dual(
    block: Block, held: bool, scale: float, per_push: float, lift: float, cap: float
) -> None:
    """Remember the dual point of the best bound so far."""
    state, band = block.state, block.state.band
    state.best_dual = _duals(block, held), scale, band.where, band.push, per_push, lift, cap


def best_pair(block: Block) -> tuple[Array, Array]:
    """The dual point of the best bound: of the positives and of the negatives."""
    on_negatives = block.arrays.zeros(block.n_neg)
    if block.state.best_dual is None:
        return block.arrays.zeros(block.n_pos), on_negatives
    pull, scale, where, push, per_push, lift, cap = block.state.best_dual
    on_negatives[where] = block.arrays.clip(push * per_push + lift, 0.0, cap)
    return scale * pull, on_negatives


@only_asks
def best_dual(block: Block, balance: float) -> Array:
    """The same over all rows, balanced."""
    return balanced(block, best_pair, balance)
