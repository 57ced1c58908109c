"""A start from an earlier solution, in the blocks: its dual gives the pushes of the band."""

from toppush.designs import Block, read_only
from toppush.designs.arrays import namespace, number
from toppush.problem.losses import Loss
from toppush.problem.tops import chunks
from toppush.solvers.newton.band import band_scores
from toppush.solvers.newton.state import LeftDual, part_of
from toppush.types import Array

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
