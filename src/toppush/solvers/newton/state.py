"""Vectors with an entry per row, in the blocks, and sums over all rows, on the driver.

With c_i the weight of a positive and t_i = T - w.x_i its violation, the gradient weights are
c_i l'(t_i) and the Hessian weights c_i l''(t_i).

A negative of the working set has a slack u = s + xi - w.z > 0 with the dual q, and an excess
xi > 0 with the dual eta; q + eta = G/k, so that eta is the slack of the cap on q. On the central
path q u = eta xi = mu for every negative. For k = 1 the cap never binds: xi = 0 and eta is not
used, which saves about two iterations.
"""

from dataclasses import dataclass
from typing import NamedTuple

from toppush.designs import Block
from toppush.designs.arrays import namespace, number
from toppush.designs.rows import Rows
from toppush.types import Array, Mask, Where

# ---- records that outlive a solve


@dataclass(frozen=True)
class FinalDual:
    """The negatives' part of the last solve's best dual point, in one block."""

    where: Where
    values: Array


class WithSquares:
    """Rows, and the same rows with every entry squared (computed on first use)."""

    rows: Rows
    _squared: Rows | None = None

    def squared(self) -> Rows:
        """The rows with every entry squared."""
        self._squared = self._squared or self.rows.squared()
        return self._squared


@dataclass
class Positives(WithSquares):
    """The positives of a block, and the Hessian weights that the driver's `Gram` contains."""

    rows: Rows
    gram_weights: Array | None = None


@dataclass(frozen=True)
class Gram:
    """Sums over all positives with the `gram_weights` of the blocks.

    Take it out of the records before the blocks change their weights, and put it back once it
    contains the change.
    """

    matrix: Array
    """X+'HX+, H the diagonal matrix of the Hessian weights."""
    hessian_sum: Array
    """X+'h, h the Hessian weights."""
    largest: tuple[float, float]
    """Greatest norms of `matrix` and `hessian_sum` since they were first formed."""
    accumulated: tuple[float, float]
    """Sums of the weights and traces that were added and subtracted; they bound the rounding."""


@dataclass(frozen=True)
class MeanDifference:
    """The positives' weighted mean minus the negatives' mean."""

    vector: Array


# ---- state of one solve


class Linearised(NamedTuple):
    """The linearised equations of the central path; constant while one system is solved."""

    hessian_weights: Array
    """Weight of z z' in the Newton matrix (theta)."""
    cap_sensitivity: Array
    """Derivative of q with respect to the cap G/k (kappa)."""
    excess_sensitivity: Array
    """1 / (q/u + eta/xi)."""
    slack_residual: Array
    """Residual of u = s + xi - w.z."""
    cap_residual: Array
    """Residual of q + eta = G/k."""


class Direction(NamedTuple):
    """Newton direction of the slacks, excesses and their duals."""

    slack: Array
    dual: Array
    excess: Array
    excess_dual: Array


@dataclass
class ComplementaryPairs:
    """Slacks u and excesses xi of some negatives, with their duals q and eta."""

    slack: Array
    dual: Array
    excess: Array
    excess_dual: Array
    capped: bool
    """Whether k > 1; otherwise `excess` and `excess_dual` are zero."""

    def complementarity(self) -> float:
        """Sum of q u + eta xi."""
        products = self.dual @ self.slack
        return number(products + self.excess_dual @ self.excess if self.capped else products)

    def complementarity_after(self, direction: Direction, step: float) -> float:
        """Sum of q u + eta xi after a step, without taking it."""
        products = (self.dual + step * direction.dual) @ (self.slack + step * direction.slack)
        if self.capped:
            products += (self.excess_dual + step * direction.excess_dual) @ (
                self.excess + step * direction.excess
            )
        return number(products)

    def linearise(self, scores: Array, level: float, cap: float) -> Linearised:
        """Linearise the central path's equations at these scores."""
        weights = per_slack = self.dual / self.slack
        slack_residual = level + self.excess - scores - self.slack
        cap_sensitivity = sensitivity = cap_residual = namespace(self.slack).zeros(len(weights))
        if self.capped:
            per_excess = self.excess_dual / self.excess
            sensitivity = 1.0 / (per_slack + per_excess)
            cap_sensitivity = per_slack * sensitivity
            weights = cap_sensitivity * per_excess
            cap_residual = cap - self.dual - self.excess_dual
        return Linearised(weights, cap_sensitivity, sensitivity, slack_residual, cap_residual)

    def right_side(
        self, linearised: Linearised, mu: float, predictor: Direction | None
    ) -> tuple[Array, Array]:
        """Right side for q u = eta xi = mu: of the duals, and of duals and excesses jointly.

        A predictor direction adds Mehrotra's second-order terms.
        """
        product = mu if predictor is None else mu - predictor.dual * predictor.slack
        dual = (product - self.dual * linearised.slack_residual) / self.slack - self.dual
        if not self.capped:
            return dual, linearised.excess_sensitivity
        product = mu if predictor is None else mu - predictor.excess_dual * predictor.excess
        joint = dual + product / self.excess - self.excess_dual - linearised.cap_residual
        return dual - linearised.cap_sensitivity * joint, joint

    def direction(
        self, linearised: Linearised, right_side: tuple[Array, Array], relative: Array, cap: float
    ) -> Direction:
        """The direction for changes of scores minus level (`relative`) and of the cap."""
        dual, joint = right_side[0] + linearised.hessian_weights * relative, right_side[1]
        sensitivity = linearised.excess_sensitivity
        if not self.capped:
            return Direction(linearised.slack_residual - relative, dual, sensitivity, sensitivity)
        dual += linearised.cap_sensitivity * cap
        excess = (joint - cap) * sensitivity + linearised.cap_sensitivity * relative
        slack = excess - relative + linearised.slack_residual
        return Direction(slack, dual, excess, cap + linearised.cap_residual - dual)

    def boundary_rates(self, direction: Direction) -> tuple[float, ...]:
        """The greatest relative decrease of each vector along the direction."""
        current = (self.slack, self.dual, self.excess, self.excess_dual)[: 4 if self.capped else 2]
        xp = namespace(self.slack)
        return tuple(
            number(xp.max(-change / value, initial=0.0))
            for change, value in zip(direction, current, strict=False)
        )

    def advance(self, direction: Direction, step: float) -> None:
        """Take a step."""
        self.slack = self.slack + step * direction.slack
        self.dual = self.dual + step * direction.dual
        if self.capped:
            self.excess = self.excess + step * direction.excess
            self.excess_dual = self.excess_dual + step * direction.excess_dual


@dataclass
class WorkingSet(ComplementaryPairs, WithSquares):
    """The negatives of a block that the method works on."""

    where: Where
    """Their numbers among the block's negatives."""
    rows: Rows
    squared_norms: Array


class BestDual(NamedTuple):
    """The dual point of the best lower bound.

    `scale * on_positives` on the positives, `clip(on_negatives * factor + offset, 0, cap)` on the
    negatives at `where`.
    """

    on_positives: Array
    scale: float
    where: Where
    on_negatives: Array
    factor: float
    offset: float
    cap: float


class NewtonState:
    """A block's part of the current point and of the step under way."""

    gradient_weights: Array
    hessian_weights: Array
    hessian_change: Array
    """Change of the Hessian weights since the Gram matrix was formed."""
    newton_dual: Array | None = None
    """The positives' duals as the Newton steps have updated them."""
    best_dual: BestDual | None = None
    working_set: WorkingSet
    outside: Mask
    """Negatives outside the working set."""
    start_dual: Array | None = None
    """The negatives' duals of the solution at which the solve begins."""
    linearised: Linearised
    right_side: tuple[Array, Array]
    direction: Direction
    score_changes: tuple[Array, Array]
    """Changes of the scores along the direction."""
    leverages: tuple[Array, Array]
    """Of the positives and of the working set, for the preconditioner."""


def state_of(block: Block) -> NewtonState:
    """The block's state in the solve under way."""
    return block.work.of(NewtonState)


def positives_of(block: Block) -> Positives:
    """The block's positives, stored by `begin_positives`."""
    positives = block.known.find(Positives)
    assert positives is not None
    return positives
