"""Dual points, in the blocks: the positives' by either way, and the best one of all rows."""

from toppush.designs import Block, read_only
from toppush.designs.arrays import number
from toppush.problem.losses import Loss
from toppush.problem.objective import balanced
from toppush.problem.tops import chunks
from toppush.solvers.newton.state import BestDual, part_of, positives_of
from toppush.types import Array


def _duals(block: Block, stepped: bool) -> Array:
    """Of the positives: as their scores have them, or as the steps led to them."""
    part = part_of(block)
    if not stepped or part.stepped is None:
        return part.pull
    return block.arrays.maximum(part.stepped, 0.0)


def step_duals(block: Block, step: float, threshold: float) -> None:
    """Take the step in the positives' duals, as the system has it.

    They follow the Newton equations, whose residuals come down to rounding in every step. Duals
    taken from the scores are only as good as the scores: where rows are very long, not enough.
    """
    part = part_of(block)
    before = part.pull if part.stepped is None else part.stepped
    ahead = part.pull - before + part.bend * (threshold - part.moves[0])
    part.stepped = before + step * ahead


@read_only
def stepped_sums(block: Block) -> tuple[float, float, Array]:
    """Of the duals that the steps led to: sum, sum of squares, and X' times them."""
    duals = _duals(block, True)
    product = positives_of(block).rows.combine(duals)
    return number(duals.sum()), number(duals @ (duals / block.cost)), product


@read_only
def dual_along(block: Block, stepped: bool, loss: Loss, scale: float) -> tuple[float, float, float]:
    """Conjugates at the duals times `scale`, with first and second derivative in it."""
    return along(block.cost, _duals(block, stepped), loss, scale)


def along(costs: Array, pulls: Array, loss: Loss, scale: float) -> tuple[float, float, float]:
    """The same of some duals."""
    value = slope = curvature = 0.0
    for cost, pull in chunks(costs, pulls):
        unit = pull / cost
        counted = unit > 0.0
        cost, unit = cost[counted], unit[counted]
        dual = scale * unit
        violation = loss.conjugate_slope(dual)
        value += number(cost @ loss.conjugate(dual))
        slope += number(cost @ (unit * violation))
        curvature += number(cost @ (unit * unit / loss.curvature(violation)))
    return value, slope, curvature


@read_only
def largest_dual(block: Block, stepped: bool) -> tuple[float]:
    """Greatest dual of a positive, for a weight of one."""
    return (number(block.arrays.max(_duals(block, stepped) / block.cost, initial=0.0)),)


def keep_dual(
    block: Block, stepped: bool, scale: float, per_push: float, lift: float, cap: float
) -> None:
    """Remember the dual point of the best bound so far."""
    part, pull = part_of(block), _duals(block, stepped)
    part.best_dual = BestDual(pull, scale, part.band.where, part.band.push, per_push, lift, cap)


def best_pair(block: Block) -> tuple[Array, Array]:
    """The dual point of the best bound: of the positives and of the negatives."""
    best, on_negatives = part_of(block).best_dual, block.arrays.zeros(block.n_neg)
    if best is None:
        return block.arrays.zeros(block.n_pos), on_negatives
    on_negatives[best.where] = block.arrays.clip(
        best.push * best.per_push + best.lift, 0.0, best.cap
    )
    return best.scale * best.pull, on_negatives


@read_only
def best_dual(block: Block, balance: float) -> Array:
    """The same over all rows, balanced."""
    return balanced(block, best_pair, balance)
