"""The positives, in the blocks: their pulls, bends and products; and the scores of all rows."""

from toppush.designs import Block, read_only
from toppush.designs.arrays import number
from toppush.problem.losses import Loss
from toppush.problem.tops import chunks
from toppush.solvers.newton.state import Positives, part_of, positives_of
from toppush.types import Array


def begin_positives(block: Block, alone: bool) -> None:
    """Make ready, unless an earlier solve has; `alone` if their own products are wanted often."""
    if block.known.find(Positives) is None:
        block.known.keep(Positives(block.positive_rows(alone)))


def bend_and_pull(block: Block, loss: Loss, threshold: float) -> tuple[float, float]:
    """Set pull and bend at the block's scores; returns sum c l' and sum c l'^2."""
    part, violation = part_of(block), threshold - block.scores[0]
    slope = loss.slope(violation)
    part.pull = block.cost * slope
    part.bend = block.cost * loss.curvature(violation)
    return number(part.pull.sum()), number(part.pull @ slope)


@read_only
def pull_after(block: Block, loss: Loss, step: float, threshold: float) -> float:
    """Sum of pulls a step further along `moves`, without taking it."""
    parts = chunks(block.cost, block.scores[0], part_of(block).moves[0])
    return sum(
        number(cost @ loss.slope(threshold - (scores + step * moves)))
        for cost, scores, moves in parts
    )


@read_only
def loss_along(block: Block, loss: Loss, scale: float, threshold: float) -> float:
    """Sum of losses if all scores are multiplied by `scale`."""
    parts = chunks(block.cost, block.scores[0])
    return sum(number(cost @ loss.value(threshold - scale * scores)) for cost, scores in parts)


def count_changes(block: Block, slack: float) -> tuple[float, float]:
    """How many bends changed since they were last used, and how many are not zero.

    Changes up to `slack`, a share, are taken for none.
    """
    xp, part, used = block.arrays, part_of(block), positives_of(block).used_bend
    part.bend_change = 1.0 * part.bend if used is None else part.bend - used
    if used is not None:
        small = abs(part.bend_change) <= slack * xp.maximum(part.bend, used)
        part.bend_change[small] = 0.0
    return number(xp.count_nonzero(part.bend_change)), number(xp.count_nonzero(part.bend))


def update_gram(block: Block, renew: bool) -> tuple[Array, Array]:
    """Change of (X'BX, X'b) since the last call, b being the bends, or all of it."""
    part, positives = part_of(block), positives_of(block)
    used, change = positives.used_bend, part.bend if renew else part.bend_change
    positives.used_bend = change if renew or used is None else used + change
    where = block.arrays.flatnonzero(change)
    gram, product = positives.rows.gram(where, change[where])
    return gram, product


def pull_and_bend_products(block: Block) -> tuple[Array, Array]:
    """X'pull and X'bend over the positives."""
    part, positives = part_of(block), positives_of(block)
    positives.used_bend = part.bend
    pull, bend = positives.rows.combine_all(part.pull, part.bend)
    return pull, bend


@read_only
def pull_product(block: Block) -> Array:
    """X'pull over the positives."""
    return positives_of(block).rows.combine(part_of(block).pull)


# ---- scores of all rows


def rescale_scores(block: Block, scale: float) -> None:
    """Multiply all scores."""
    block.scores = block.scores[0] * scale, block.scores[1] * scale


@read_only
def score_moments(block: Block) -> tuple[float, float, float, float]:
    """Weighted sum of the positives' scores; sum and sum of squares of the negatives'."""
    positives, negatives = block.scores
    return (
        number(block.cost @ positives),
        number(block.cost @ block.arrays.square(positives)),
        number(negatives.sum()),
        number(negatives @ negatives),
    )


@read_only
def mean_difference(block: Block, total_cost: float, n_neg: int) -> Array:
    """Part of the positives' weighted mean less the negatives' mean."""
    negatives = block.arrays.broadcast_to(1.0 / n_neg, block.n_neg)
    return block.dual_combination(block.cost / total_cost, negatives)
