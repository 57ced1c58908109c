"""The positives: their gradient and Hessian weights, and sums over them.

The functions run in the blocks; `PositiveSums` collects their results on the driver.
"""

from toppush.designs import Block, read_only
from toppush.designs.arrays import namespace, number
from toppush.problem.losses import Loss
from toppush.problem.numerics import ROUNDING, chunks
from toppush.problem.objective import TopPushProblem
from toppush.solvers.newton.kkt import norm
from toppush.solvers.newton.state import Gram, Positives, positives_of, state_of
from toppush.types import Array

WEIGHT_CHANGE = 0.1
"""Relative change of a Hessian weight that the Newton matrix may ignore, for losses other than the
truncated quadratic."""


def begin_positives(block: Block, alone: bool) -> None:
    """Store the positives unless an earlier solve has; `alone` if they are often read alone."""
    if block.known.find(Positives) is None:
        block.known.keep(Positives(block.positive_rows(alone)))


def set_loss_weights(block: Block, loss: Loss, threshold: float) -> tuple[float, float]:
    """Set gradient and Hessian weights at the current scores; returns sum c l' and sum c l'^2."""
    state, violation = state_of(block), threshold - block.scores[0]
    slope = loss.slope(violation)
    state.gradient_weights = block.cost * slope
    state.hessian_weights = block.cost * loss.curvature(violation)
    return number(state.gradient_weights.sum()), number(state.gradient_weights @ slope)


@read_only
def gradient_after(block: Block, loss: Loss, step: float, threshold: float) -> float:
    """Sum of the gradient weights after a step, without taking it."""
    parts = chunks(block.cost, block.scores[0], state_of(block).score_changes[0])
    return sum(
        number(cost @ loss.slope(threshold - (scores + step * changes)))
        for cost, scores, changes in parts
    )


@read_only
def loss_along(block: Block, loss: Loss, scale: float, threshold: float) -> float:
    """Sum of losses if all scores are multiplied by `scale`."""
    parts = chunks(block.cost, block.scores[0])
    return sum(number(cost @ loss.value(threshold - scale * scores)) for cost, scores in parts)


@read_only
def derivatives_along(
    block: Block, loss: Loss, scale: float, threshold: float
) -> tuple[float, float]:
    """First and second derivative of the sum of losses in the scale of all scores."""
    first = second = 0.0
    for cost, scores in chunks(block.cost, block.scores[0]):
        violation = threshold - scores
        first += number(cost @ (loss.slope(scale * violation) * violation))
        second += number(cost @ (loss.curvature(scale * violation) * violation**2))
    return first, second


def count_weight_changes(block: Block, tolerance: float) -> tuple[float, float]:
    """How many Hessian weights differ from those in the Gram matrix, and how many are not zero.

    Relative changes up to the tolerance are ignored.
    """
    xp, state, used = block.arrays, state_of(block), positives_of(block).gram_weights
    weights = state.hessian_weights
    state.hessian_change = 1.0 * weights if used is None else weights - used
    if used is not None:
        small = abs(state.hessian_change) <= tolerance * xp.maximum(weights, used)
        state.hessian_change[small] = 0.0
    return number(xp.count_nonzero(state.hessian_change)), number(xp.count_nonzero(weights))


def update_gram(block: Block, renew: bool) -> tuple[Array, Array]:
    """Change of X+'HX+ and X+'h since the last call; all of them if `renew`."""
    state, positives = state_of(block), positives_of(block)
    used, change = positives.gram_weights, state.hessian_change
    if renew:
        change = state.hessian_weights
    positives.gram_weights = change if renew or used is None else used + change
    where = block.arrays.flatnonzero(change)
    return positives.rows.gram(where, change[where])


def weighted_sums(block: Block) -> tuple[Array, Array]:
    """X+'g and X+'h with gradient weights g and Hessian weights h."""
    state, positives = state_of(block), positives_of(block)
    positives.gram_weights = state.hessian_weights
    gradient, hessian = positives.rows.combine_all(state.gradient_weights, state.hessian_weights)
    return gradient, hessian


@read_only
def gradient_sum(block: Block) -> Array:
    """X+'g."""
    return positives_of(block).rows.combine(state_of(block).gradient_weights)


class PositiveSums:
    """Sums over the positives at the current point.

    Attributes
    ----------
    total, squares : float
        Sum c l' and sum c l'^2.
    gradient_sum, hessian_sum : array
        X+'g and X+'h, with the Hessian weights that the Newton matrix contains.
    """

    total: float
    squares: float
    gradient_sum: Array
    hessian_sum: Array
    _weights: Array
    _threshold: float

    def __init__(self, problem: TopPushProblem, *, formed: bool, recompute: bool) -> None:
        self._problem, self.formed = problem, formed
        self._recompute = recompute  # take all sums from the rows at every point
        self._quadratic = problem.loss.conjugate_curvature is not None
        self.from_gram = formed and self._quadratic and not recompute
        """Whether X+'g is computed from the Gram matrix without a read: g = h (1 + T - w.x)."""

    @property
    def gram(self) -> Gram:
        """The Gram matrix as it was last formed."""
        gram = self._problem.design.known.find(Gram)
        assert gram is not None
        return gram

    def update(self, weights: Array, threshold: float) -> None:
        """Take the sums at these weights, whose scores the blocks have."""
        design, loss = self._problem.design, self._problem.loss
        self._weights, self._threshold = weights, threshold
        self.total, self.squares = design.sum(set_loss_weights, loss, threshold)
        if not self.formed:
            self.gradient_sum, self.hessian_sum = design.sum(weighted_sums)
            return
        tolerance = 0.0 if self._quadratic else WEIGHT_CHANGE
        n_changed, n_weights = design.sum(count_weight_changes, tolerance)
        before = design.known.find(Gram)
        if before is None or self._recompute or n_changed >= n_weights:
            self._form_gram(None)
        elif n_changed:
            self._form_gram(before)
        gram = self.gram
        self.hessian_sum = gram.hessian_sum
        if self.from_gram:
            self.gradient_sum = (1.0 + threshold) * gram.hessian_sum
            self.gradient_sum -= gram.matrix @ weights
        else:
            self.read_gradient_sum()

    def read_gradient_sum(self) -> None:
        """Compute X+'g from the rows."""
        self.gradient_sum = self._problem.design.sum(gradient_sum)

    def _form_gram(self, before: Gram | None) -> None:
        """Add the changed weights to the earlier matrix, or form it anew."""
        design = self._problem.design
        design.known.take(Gram)
        matrix, hessian_sum = design.sum(update_gram, before is None)
        largest = accumulated = 0.0, 0.0
        trace = 0.0
        diagonal = namespace(matrix).diagonal
        if before is not None:
            matrix, hessian_sum = before.matrix + matrix, before.hessian_sum + hessian_sum
            largest, accumulated = before.largest, before.accumulated
            trace = float(diagonal(before.matrix).sum())
        norms = norm(matrix.reshape(-1)), norm(hessian_sum)
        largest = max(largest[0], norms[0]), max(largest[1], norms[1])
        weights = 2.0 * design.total_cost / (self._problem.loss.conjugate_curvature or 1.0)
        accumulated = (
            accumulated[0] + 2.0 * weights,
            accumulated[1] + trace + float(diagonal(matrix).sum()),
        )
        design.known.keep(Gram(matrix, hessian_sum, largest, accumulated))

    def is_rounded(self, combination: Array, tolerance: float) -> bool:
        """Whether X+'g from the Gram matrix may be too inexact for this dual combination.

        The Gram matrix is a sum of changes, each rounded in proportion to its greatest norm.
        """
        if not self.from_gram:
            return False
        curvature, largest = self._problem.loss.conjugate_curvature or 0.0, self.gram.largest
        magnitude = abs(1.0 + self._threshold) * largest[1] + largest[0] * norm(self._weights)
        error, length = ROUNDING * magnitude, norm(combination)
        bound = length * length / self._problem.scale + curvature * self.squares
        return bool(error * (2.0 * length + error) / self._problem.scale > tolerance * bound)


# ---- scores of all rows


def rescale_scores(block: Block, scale: float) -> None:
    """Multiply all scores."""
    block.scores = block.scores[0] * scale, block.scores[1] * scale


@read_only
def score_moments(block: Block) -> tuple[float, float, float, float]:
    """Weighted sum and sum of squares of the positives' scores, and both of the negatives'."""
    positives, negatives = block.scores
    return (
        number(block.cost @ positives),
        number(block.cost @ block.arrays.square(positives)),
        number(negatives.sum()),
        number(negatives @ negatives),
    )


@read_only
def mean_difference(block: Block, total_cost: float, n_neg: int) -> Array:
    """The block's part of the positives' weighted mean minus the negatives' mean."""
    negatives = block.arrays.broadcast_to(1.0 / n_neg, block.n_neg)
    return block.dual_combination(block.cost / total_cost, negatives)
