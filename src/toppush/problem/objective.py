"""The objective of the TopPush family, its dual and its certificate.

    P(w) = lam/2 |w|^2 + 1/m sum_i c_i l(T(w) - w.x_i),   T(w) = mean of the k greatest w.z_j
    D(a, b) = 1/(2 lam m) |X+'a - X-'b|^2 + sum_i c_i l*(a_i / c_i)

over a >= 0, 0 <= b_j <= (sum a)/k, sum b = sum a; any such point proves P >= -D/m. The c_i are
the positives' weights and m their sum. Paper: X+'a - X-'b = nu -> push; w = push / (lam m).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from toppush.designs import Block, Design, only_asks
from toppush.designs.arrays import number
from toppush.problem.losses import Loss
from toppush.problem.tops import chunks, mass_above, top_mean
from toppush.types import Array


@dataclass(frozen=True)
class TopProblem:
    """What is common to the families: rows, a loss, a penalty, and how many make the top."""

    design: Design
    loss: Loss
    lam: float
    k: int = 1
    family: ClassVar[str] = ""
    """What tells it from the others in words about a fit."""

    def at_zero(self) -> float:
        """The objective at weights of zero, where every score ties."""
        return float(self.loss.value(np.zeros(1))[0])

    def threshold(self, guess: float | None = None) -> float:
        """T of the scores that the blocks hold; `guess` a level near the k-th greatest."""
        high, low = self.design.max(negatives_range)
        if self.k == 1:
            return high
        return top_of(self.design, negative_scores, self.k, -low, high, guess=guess)[0]

    def level_of_top(self, count: int) -> float:
        """A level that about `count` of the negatives' scores exceed."""
        high, low = self.design.max(negatives_range)
        return top_of(self.design, negative_scores, count, -low, high)[1]


def top_of(
    design: Design,
    numbers: Callable[[Block], Array],
    count: int,
    low: float,
    high: float,
    *,
    guess: float | None = None,
) -> tuple[float, float]:
    """Mean of the `count` greatest of the blocks' numbers, and a level attaining it."""
    found = design.top_of(numbers, count)
    if found is not None:
        return found
    return top_mean(partial(design.sum, _above, numbers), count, low, high, guess=guess)


@dataclass(frozen=True)
class TopPushProblem(TopProblem):
    """Rank the positives in `design` above the mean of the `k` best negatives."""

    @property
    def scale(self) -> float:
        """Lam m, which turns a push into weights."""
        return self.lam * self.design.total_cost

    def upper(self, weights: Array, threshold: float) -> float:
        """P(w), the blocks holding the scores of w."""
        losses = self.design.sum(_total_loss, self.loss, threshold)
        return float(0.5 * self.lam * weights @ weights + losses / self.design.total_cost)

    def rise(self, size: float, off: float) -> float:
        """How much a lower bound rises by an error of `off` in a push of that size."""
        return off * (size + 0.5 * off) / (self.scale * self.design.total_cost)

    def lower(self, push: Array, conjugates: float) -> float:
        """-D/m from |push|^2 and the sum of conjugates at a point of the dual's domain."""
        quadratic = push @ push / (2.0 * self.scale)
        return float(-(quadratic + conjugates) / self.design.total_cost)


class Proof(NamedTuple):
    """Bounds of the optimum from all rows in float64, owing nothing to how they were found."""

    threshold: float
    upper: float
    lower: float
    balance: float
    """What the negatives' duals are multiplied by to sum to those of the positives; 0 if the dual
    proves nothing."""


Dual = Callable[[Block], tuple[Array, Array]]
"""A block's part of a dual point: of its positives and of its negatives."""

CROSSED = 1e-9
"""Share of the objective by which rounding may put the lower bound above the upper one."""


UNDERFLOWN = 1e-150
"""Share of the objective at zero below which a bound is taken for zero: its squares are."""


def prove(problem: TopPushProblem, weights: Array, dual: Dual, length: float = math.inf) -> Proof:
    """Objective of the weights, and the bound that a dual point proves.

    `length` is a bound on the length of a row, if known, which rounding goes by.
    """
    design = problem.design
    design.tell(Block.score_precisely, weights)
    threshold = problem.threshold()
    upper = problem.upper(weights, threshold)
    positives, negatives = design.sum(_dual_mass, dual)
    if not (positives > 0.0 and negatives > 0.0):
        return Proof(threshold, upper, 0.0, 0.0)
    balance = positives / negatives
    push, conjugates = design.sum(_dual_sums, dual, problem.loss, balance)
    known = math.isfinite(length)
    terms = 2.0 * positives * length if known else design.sum(_lengths_of_terms, dual, balance)
    lower = problem.lower(push, conjugates) - rounding(
        problem, math.sqrt(float(push @ push)), terms
    )
    if not lower > UNDERFLOWN * problem.at_zero():
        return Proof(threshold, upper, 0.0, 0.0)  # no dual at all proves as much
    if lower > upper * (1.0 + CROSSED):
        raise AssertionError(
            f"the bounds cross: {lower!r} is proven from below and {upper!r} reached; this is a "
            "defect of toppush, please report it."
        )
    return Proof(threshold, upper, min(lower, upper), balance)


def rounding(problem: TopPushProblem, size: float, terms: float) -> float:
    """What rounding may add to a bound; |X+'a - X-'b| is `size`, its terms add up to `terms`."""
    design = problem.design
    unit = float(np.finfo(np.float64).eps) * (8.0 + math.sqrt(design.n_pos + design.n_neg))
    return problem.rise(size, unit * terms)


@only_asks
def _lengths_of_terms(block: Block, dual: Dual, balance: float) -> float:
    on_positives, on_negatives = dual(block)
    lengths = block.arrays.sqrt(block.precise_rows.squared_norms())
    return number(block.join(on_positives, balance * on_negatives) @ lengths)


@only_asks
def _dual_mass(block: Block, dual: Dual) -> tuple[float, float]:
    on_positives, on_negatives = dual(block)
    return number(on_positives.sum()), number(on_negatives.sum())


@only_asks
def _dual_sums(block: Block, dual: Dual, loss: Loss, balance: float) -> tuple[Array, float]:
    """X+'a - X-'b, and the sum of conjugates."""
    on_positives, on_negatives = dual(block)
    conjugates = number(block.cost @ loss.conjugate(on_positives / block.cost))
    return block.precise_push(on_positives, balance * on_negatives), conjugates


def balanced(block: Block, dual: Dual, balance: float) -> Array:
    """A dual point over all rows as a proof has it."""
    on_positives, on_negatives = dual(block)
    if balance == 0.0:
        return block.join(0.0, 0.0)
    return block.join(on_positives, balance * on_negatives)


def count_top(top: Any, n_neg: int) -> int:
    """The k that `top` means: an int is a count, a float a share of the negatives."""
    k = int(top) if isinstance(top, (int, np.integer)) else max(1, int(np.ceil(top * n_neg)))
    if not 1 <= k <= n_neg:
        raise ValueError(
            f"top={top!r} is out of range for {n_neg} negatives; "
            f"give a count from 1 to {n_neg}, or a share above 0 and at most 1.0."
        )
    return k


@only_asks
def negatives_range(block: Block) -> tuple[float, float]:
    """Greatest score of a negative, and minus the least."""
    negatives = block.scores[1]
    if not len(negatives):
        return -np.inf, -np.inf
    return number(negatives.max()), number(-negatives.min())


@only_asks
def negative_scores(block: Block) -> Array:
    """Scores of the negatives."""
    return block.scores[1]


@only_asks
def _above(block: Block, numbers: Callable[[Block], Array], level: float) -> tuple[float, float]:
    return mass_above(numbers(block), level)


@only_asks
def _total_loss(block: Block, loss: Loss, threshold: float) -> float:
    parts = chunks(block.cost, block.scores[0])
    return sum(number(cost @ loss.value(threshold - scores)) for cost, scores in parts)
