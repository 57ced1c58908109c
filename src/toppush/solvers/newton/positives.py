"""The positives, in the blocks: their pulls, bends and products; and the scores of all rows."""

from toppush.designs import Block, read_only
from toppush.designs.arrays import namespace, number
from toppush.problem.losses import Loss
from toppush.problem.numerics import ROUNDING, chunks
from toppush.problem.objective import TopPushProblem
from toppush.solvers.newton.kkt import norm
from toppush.solvers.newton.state import Gram, Positives, part_of, positives_of
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


SLACK = 0.1
"""Share by which the bends of losses other than the truncated quadratic may be off."""


class Pulls:
    """The sums, followed from point to point.

    Attributes
    ----------
    total, squares : float
        Sum c l' and sum c l'^2.
    product, bend_product : array
        X'pull, and X'bend with the bends that the Newton matrix holds.
    """

    total: float
    squares: float
    product: Array
    bend_product: Array
    _weights: Array
    _threshold: float

    def __init__(self, problem: TopPushProblem, *, formed: bool, careful: bool) -> None:
        self._problem, self.formed = problem, formed
        self._careful = careful  # every point takes its sums anew from the rows
        self._quadratic = problem.loss.conjugate_curvature is not None

    @property
    def gram(self) -> Gram:
        """The Gram matrix as it was last formed."""
        gram = self._problem.design.known.find(Gram)
        assert gram is not None
        return gram

    @property
    def from_gram(self) -> bool:
        """Whether pulls are taken from the Gram matrix: pull = bend (1 + T - w.x), no read."""
        return self.formed and self._quadratic and not self._careful

    def update(self, weights: Array, threshold: float) -> None:
        """Take the sums at the scores that the blocks hold, which are of these weights."""
        design = self._problem.design
        self._weights, self._threshold = weights, threshold
        self.total, self.squares = design.sum(bend_and_pull, self._problem.loss, threshold)
        if not self.formed:
            self.product, self.bend_product = design.sum(pull_and_bend_products)
            return
        self._follow_gram()
        gram = self.gram
        self.bend_product = gram.bend_product
        if self.from_gram:
            self.product = (1.0 + threshold) * gram.bend_product
            self.product -= gram.matrix @ weights
        else:
            self.read_product()

    def read_product(self) -> None:
        """Take the pulls' product from the rows."""
        self.product = self._problem.design.sum(pull_product)

    def _follow_gram(self) -> None:
        """Bring the Gram matrix to the latest bends; an earlier solve's will do to begin with."""
        design = self._problem.design
        n_changed, n_bent = design.sum(count_changes, 0.0 if self._quadratic else SLACK)
        before = design.known.find(Gram)
        if before is None or self._careful or n_changed >= n_bent:
            self._keep_gram(None)
        elif n_changed:
            self._keep_gram(before)

    def _keep_gram(self, before: Gram | None) -> None:
        """Add the changes to what there was, or form it anew."""
        design = self._problem.design
        design.known.take(Gram)
        matrix, product = design.sum(update_gram, before is None)
        largest = turnover = 0.0, 0.0
        trace = 0.0
        if before is not None:
            matrix, product = before.matrix + matrix, before.bend_product + product
            largest, turnover, trace = before.largest, before.turnover, _trace(before.matrix)
        sizes = norm(matrix.reshape(-1)), norm(product)
        largest = max(largest[0], sizes[0]), max(largest[1], sizes[1])
        bends = 2.0 * design.total_cost / (self._problem.loss.conjugate_curvature or 1.0)
        turnover = turnover[0] + 2.0 * bends, turnover[1] + trace + _trace(matrix)
        design.known.keep(Gram(matrix, product, largest, turnover))

    @property
    def turnover(self) -> tuple[float, float]:
        """That of the Gram matrix which the product was taken from, if it was."""
        return self.gram.turnover if self.from_gram else (0.0, 0.0)

    def in_doubt(self, push: Array, sure: float) -> bool:
        """Whether pulls taken from the Gram matrix lost digits that a bound needs.

        It was summed up over all changes, each rounded in proportion to the largest there was.
        """
        if not self.from_gram:
            return False
        curvature, largest = self._problem.loss.conjugate_curvature or 0.0, self.gram.largest
        size = abs(1.0 + self._threshold) * largest[1] + largest[0] * norm(self._weights)
        off, length = ROUNDING * size, norm(push)
        known = length * length / self._problem.scale + curvature * self.squares
        return bool(off * (2.0 * length + off) / self._problem.scale > sure * known)


def _trace(matrix: Array) -> float:
    return float(namespace(matrix).diagonal(matrix).sum())
