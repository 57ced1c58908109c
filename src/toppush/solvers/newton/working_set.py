"""The working set: the negatives near the top, on which the central path is followed.

All functions run in the blocks; only negatives near the top can have an active constraint.
"""

import math
from typing import NamedTuple

import numpy as np

from toppush.designs import Block, read_only
from toppush.designs.arrays import namespace, number
from toppush.designs.rows import Rows
from toppush.problem.numerics import clipped_mass, mass_above
from toppush.solvers.newton.state import FinalDual, WorkingSet, positives_of, state_of
from toppush.types import Array, Where

MIN_DUAL = 0.03
"""Share of the mean dual above which a negative of a start belongs to the working set."""


# ---- choosing and extending it


def choose_working_set(block: Block, level: float, stride: int, capped: bool) -> int:
    """Take negatives above a level, every stride-th one, and those with a dual at the start.

    Returns how many there are.
    """
    chosen, state = block.scores[1] > level, state_of(block)
    chosen[-block.first_negative % stride :: stride] = True
    if state.start_dual is not None:
        chosen = chosen | (state.start_dual > 0.0)
    state.outside = ~chosen
    where = block.arrays.flatnonzero(chosen)
    _set_working_set(block, where, capped)
    return len(where)


def _set_working_set(block: Block, where: Where, capped: bool, copied: Rows | None = None) -> None:
    """Store the rows of these negatives; `copied` is a copy of the first of them, if any."""
    rows, none = block.negative_rows(where, copied), block.arrays.zeros(len(where))
    norms = rows.squared_norms()
    state_of(block).working_set = WorkingSet(none, none, none, none, capped, where, rows, norms)


@read_only
def candidates(block: Block) -> Array:
    """Scores of the negatives outside the working set, minus infinity for those inside."""
    return block.arrays.where(state_of(block).outside, block.scores[1], -np.inf)


@read_only
def candidates_above(block: Block, level: float) -> tuple[float, float]:
    """Sum of (score - level)_+ over the negatives outside, and how many are above the level."""
    return mass_above(candidates(block), level)


def extend_working_set(
    block: Block, above: float, level: float, cap: float, mu: float, min_slack: float
) -> int:
    """Add the negatives above a level, each with a small dual; returns how many.

    Their slack is at least `min_slack`, so that they disturb the current point little. The next
    steps remove the residual that this leaves.
    """
    xp, state = block.arrays, state_of(block)
    old = state.working_set
    new = xp.flatnonzero(state.outside & (block.scores[1] > above))
    if not len(new):
        return 0
    slack = xp.maximum(level - block.scores[1][new], min_slack)
    dual, zeros = mu / slack, xp.zeros(len(new))
    excess, excess_dual = (mu / (cap - dual), cap - dual) if old.capped else (zeros, zeros)
    vectors = [
        xp.concatenate(pair)
        for pair in (
            (old.slack, slack),
            (old.dual, dual),
            (old.excess, excess),
            (old.excess_dual, excess_dual),
        )
    ]
    state.outside[new] = False
    where, capped = xp.concatenate([old.where, new]), old.capped
    copied = old.rows if block.fits_twice(where) else None
    del state.working_set, old  # frees the rows before they are read again
    _set_working_set(block, where, capped, copied)
    extended = state.working_set
    extended.slack, extended.dual, extended.excess, extended.excess_dual = vectors
    return len(new)


# ---- the central path


def working_scores(block: Block) -> Array:
    """Scores of the working set."""
    return block.scores[1][state_of(block).working_set.where]


@read_only
def score_range(block: Block) -> tuple[float, float]:
    """Greatest score of the working set, and minus the least."""
    xp, scores = block.arrays, working_scores(block)
    return number(xp.max(scores, initial=-np.inf)), number(-xp.min(scores, initial=np.inf))


@read_only
def sum_of_centred_duals(block: Block, level: float, mu: float, cap: float) -> tuple[float, float]:
    """Sum of the duals on the central path at a level, and minus its derivative in the level."""
    slack, excess = _centred(level - working_scores(block), mu, cap)
    per_slack, per_excess = mu / slack**2, mu / excess**2
    fall = per_slack * per_excess / (per_slack + per_excess)
    return number((mu / slack).sum()), number(fall.sum())


@read_only
def sum_of_inverse_slacks(block: Block, level: float) -> float:
    """Sum of 1 / (level - score); without a cap the centred duals are mu times the terms."""
    return number((1.0 / (level - working_scores(block))).sum())


def centre(block: Block, level: float, mu: float, cap: float) -> float:
    """Put the working set on the central path; returns the sum of excesses."""
    working_set, below = state_of(block).working_set, level - working_scores(block)
    if not working_set.capped:
        working_set.slack, working_set.dual = below, mu / below
        working_set.excess = working_set.excess_dual = block.arrays.zeros(len(below))
        return 0.0
    working_set.slack, working_set.excess = _centred(below, mu, cap)
    working_set.dual, working_set.excess_dual = mu / working_set.slack, mu / working_set.excess
    return number(working_set.excess.sum())


def _centred(below: Array, mu: float, cap: float) -> tuple[Array, Array]:
    """Slack and excess with slack - excess = below and mu/slack + mu/excess = cap."""
    xp, scaled = namespace(below), abs(cap * below)
    root = xp.sqrt(4.0 * mu * mu + scaled * scaled)
    large = (2.0 * mu + scaled + root) / (2.0 * cap)
    small = (2.0 * mu + 4.0 * mu * mu / (root + scaled)) / (2.0 * cap)
    return xp.where(below > 0.0, large, small), xp.where(below > 0.0, small, large)


# ---- a start at an earlier solution


def receive_start_dual(block: Block, dual: Array) -> None:
    """Take the negatives' part of a dual point."""
    state_of(block).start_dual = _without_small(block.arrays.maximum(block.split(dual)[1], 0.0))


def _without_small(dual: Array) -> Array:
    """The duals with small ones set to zero: in the interior of the domain most are small."""
    xp = namespace(dual)
    n_positive = max(number(xp.count_nonzero(dual)), 1.0)
    return xp.where(dual > MIN_DUAL * dual.sum() / n_positive, dual, 0.0)


def store_final_dual(block: Block) -> None:
    """Keep the negatives' best dual for the next solve."""
    best = state_of(block).best_dual
    if best is not None:
        dual = block.arrays.clip(best.on_negatives * best.factor + best.offset, 0.0, best.cap)
        block.known.keep(FinalDual(best.where, dual))


def recall_final_dual(block: Block) -> None:
    """Take the dual that the last solve stored, where duals stay with the rows."""
    final = block.known.find(FinalDual)
    if final is not None:
        state_of(block).start_dual = start = block.arrays.zeros(block.n_neg)
        start[final.where] = _without_small(final.values)


@read_only
def sum_of_start_dual(block: Block) -> float:
    """Sum of the negatives' duals at the start; 0 if there are none."""
    start = state_of(block).start_dual
    return 0.0 if start is None else number(start.sum())


def use_start_dual(block: Block, scale: float) -> None:
    """Take the start's duals as they are, to see what bound they give."""
    state = state_of(block)
    assert state.start_dual is not None
    state.working_set.dual = scale * state.start_dual[state.working_set.where]


def move_into_interior(block: Block, level: float, mu: float, cap: float, reach: float) -> float:
    """Make the start's duals positive, with slacks that make every product mu.

    A negative below the level has a dual of at least mu over that distance plus `reach`, one above
    it an excess dual of at least as much. The slacks' residual is left to the next steps. Returns
    the sum of excesses.
    """
    xp, working_set = block.arrays, state_of(block).working_set
    below = level - working_scores(block)
    dual = xp.maximum(working_set.dual, mu / (xp.maximum(below, 0.0) + reach))
    excess = excess_dual = xp.zeros(len(below))
    if working_set.capped:
        excess_dual = xp.maximum(cap - dual, mu / (xp.maximum(-below, 0.0) + reach))
        dual, excess = cap - excess_dual, mu / excess_dual
    working_set.dual, working_set.slack = dual, mu / dual
    working_set.excess, working_set.excess_dual = excess, excess_dual
    return number(excess.sum())


# ---- sums for bounds and residuals


class WorkingSums(NamedTuple):
    """Sums over the working set."""

    dual: float
    complementarity: float
    """Sum of q u + eta xi: 2 mu for each negative on the central path."""
    excess: float
    product: Array
    """Z'q."""


@read_only
def working_sums(block: Block) -> WorkingSums:
    """Sums that the lower bound and the residuals need."""
    working_set = state_of(block).working_set
    return WorkingSums(
        number(working_set.dual.sum()),
        working_set.complementarity(),
        number(working_set.excess.sum()),
        working_set.rows.combine(working_set.dual),
    )


@read_only
def max_dual(block: Block) -> tuple[float]:
    """Greatest dual of the working set."""
    return (number(block.arrays.max(state_of(block).working_set.dual, initial=0.0)),)


@read_only
def capped_mass(block: Block, total: float, offset: float, cap: float) -> tuple[float, float]:
    """Sum of clip(dual/total + offset, 0, cap), and how many entries are inside."""
    clipped = clipped_mass(state_of(block).working_set.dual / total, offset, cap)
    return clipped.mass, clipped.n_free


@read_only
def capped_product(block: Block, total: float, offset: float, cap: float) -> Array:
    """Z' clip(dual/total + offset, 0, cap)."""
    working_set = state_of(block).working_set
    capped = block.arrays.clip(working_set.dual / total + offset, 0.0, cap)
    return working_set.rows.combine(capped)


# ---- the Newton system and its direction


class KKTSums(NamedTuple):
    """Sums for the rows and columns that border the Newton matrix in the KKT system."""

    hessian_weights: float
    cap_sensitivity: float
    excess_sensitivity: float
    positive_weights: float
    """Sum of the positives' Hessian weights in the Newton matrix."""
    hessian_product: Array
    """Z' theta."""
    cap_product: Array
    """Z' kappa."""


def linearise(block: Block, level: float, cap: float) -> KKTSums:
    """Linearise the central path's equations; returns the sums of the KKT system."""
    state, positive_weights = state_of(block), positives_of(block).gram_weights
    assert positive_weights is not None
    working_set = state.working_set
    state.linearised = at = working_set.linearise(working_scores(block), level, cap)
    product = working_set.rows.combine(at.hessian_weights)
    weights, of_positives = number(at.hessian_weights.sum()), number(positive_weights.sum())
    if not working_set.capped:
        zeros = block.arrays.zeros(len(product))
        return KKTSums(weights, 0.0, 0.0, of_positives, product, zeros)
    return KKTSums(
        weights,
        number(at.cap_sensitivity.sum()),
        number(at.excess_sensitivity.sum()),
        of_positives,
        product,
        working_set.rows.combine(at.cap_sensitivity),
    )


@read_only
def high_leverage_gram(block: Block, min_weight: float) -> tuple[Array, float, Array]:
    """Z' diag(theta) Z, sum of theta and Z' theta over the rows with theta |z|^2 > min_weight.

    Z' theta is summed as the right sides are, since the two have to cancel: in single precision
    some fits stall with the exact sum that comes with the matrix.
    """
    state, xp = state_of(block), block.arrays
    rows, weights = state.working_set.rows, state.linearised.hessian_weights
    high = weights * state.working_set.squared_norms > min_weight
    where, high_weights = xp.flatnonzero(high), xp.where(high, weights, 0.0)
    # Products that are kept take memory, which rows in files have little of.
    if math.isinf(block.original.room):
        gram = rows.gram_again(where, weights[where])
    else:
        gram = rows.gram(where, weights[where])[0]
    return gram, number(high_weights.sum()), rows.combine(high_weights)


class RightSideSums(NamedTuple):
    """Sums over the working set on the right side of the Newton system."""

    product: Array
    dual: float
    excess: float


def set_right_side(block: Block, mu: float, correct: bool) -> RightSideSums:
    """Right side of a step to q u = eta xi = mu; `correct` adds the second-order terms."""
    state = state_of(block)
    predictor = state.direction if correct else None
    working_set, at = state.working_set, state.linearised
    state.right_side = dual, joint = working_set.right_side(at, mu, predictor)
    product = working_set.rows.combine(dual)
    return RightSideSums(product, number(dual.sum()), number(joint @ at.excess_sensitivity))


def set_direction(
    block: Block, weight_changes: Array, level: float, cap: float
) -> tuple[float, ...]:
    """Direction of the slacks and duals for changes of weights, level and cap.

    Returns the greatest relative decrease of each vector.
    """
    state = state_of(block)
    working_set = state.working_set
    relative = working_set.rows.scores(weight_changes) - level
    state.direction = working_set.direction(state.linearised, state.right_side, relative, cap)
    return working_set.boundary_rates(state.direction)


@read_only
def complementarity_after(block: Block, step: float) -> float:
    """Sum of q u + eta xi after a step."""
    state = state_of(block)
    return state.working_set.complementarity_after(state.direction, step)


def set_score_changes(block: Block, weight_changes: Array) -> None:
    """Compute the changes of all scores along a direction of the weights."""
    state_of(block).score_changes = block.split(block.rows.scores(weight_changes))


def advance(block: Block, step: float) -> None:
    """Take the step in the scores and in the working set."""
    (positives, negatives), state = block.scores, state_of(block)
    on_positives, on_negatives = state.score_changes
    block.scores = positives + step * on_positives, negatives + step * on_negatives
    state.working_set.advance(state.direction, step)
