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
from typing import Any, NamedTuple

import numpy as np

from toppush.designs import Block, Design, read_only
from toppush.designs.arrays import CHUNK, number
from toppush.problem.losses import Loss
from toppush.problem.numerics import SUMMED, TINY, chunks, grown, mass_above, top_mean
from toppush.types import Array


@dataclass(frozen=True)
class TopProblem:
    """What is common to the families: rows, a loss, a penalty, and how many make the top."""

    design: Design
    loss: Loss
    lam: float
    k: int = 1
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

    def penalty(self, weights: Array) -> float:
        """lam/2 |w|^2."""
        return float(0.5 * self.lam * weights @ weights)

    def rise(self, size: float, off: float) -> float:
        """How much a lower bound rises by an error of `off` in a push of that size."""
        return off * (size + 0.5 * off) / (self.scale * self.design.total_cost)

    def lower(self, push: Array, conjugates: float) -> float:
        """-D/m from |push|^2 and the sum of conjugates at a point of the dual's domain."""
        quadratic = push @ push / (2.0 * self.scale)
        return float(-(quadratic + conjugates) / self.design.total_cost)

    @property
    def roundings(self) -> float:
        """Roundings of a sum over the positives or the negatives, taken chunk by chunk."""
        n_rows = self.design.n_pos + self.design.n_neg
        return SUMMED + min(CHUNK, n_rows) + n_rows / CHUNK


class Proof(NamedTuple):
    """Bounds of the optimum in float64, rounded outward: they hold whatever rounding did."""

    threshold: float
    upper: float
    lower: float
    balance: float
    """What the negatives' duals are multiplied by to sum to those of the positives; 0 if the dual
    proves nothing."""


Dual = Callable[[Block], tuple[Array, Array]]
"""A block's part of a dual point: of its positives and of its negatives."""


class DualSums(NamedTuple):
    """Sums over a dual point that take no row."""

    positives: float
    negatives: float
    conjugates: float
    sizes: float
    """Sum of the sizes of all terms in the conjugates."""

    @property
    def balance(self) -> float:
        """What brings the negatives' sum to that of the positives; 0 if that is impossible."""
        usable = 0.0 < self.positives < math.inf and 0.0 < self.negatives < math.inf
        return self.positives / self.negatives if usable else 0.0


STEEP = 1e3
"""Slope of a conjugate above which it no longer counts: that of a float64 below 1 is 37."""
SQUARED_SAFELY = 1e-140
"""Entries below have squares that lose digits or become 0."""
UNDERFLOWN = 1e-100
"""Share of the objective at zero below which a bound is taken for zero: its squares are."""


def prove(problem: TopPushProblem, weights: Array, dual: Dual) -> Proof:
    """Objective of the weights, and the bound that a dual point proves: one read of the rows."""
    design = problem.design
    sums: DualSums = design.sum(dual_sums, dual, problem.loss)
    push, terms, n_terms = design.sum(_read_again, weights, dual, sums.balance)
    threshold = problem.threshold()
    upper = _upper_of_rounded(problem, weights)
    off = grown(n_terms) * terms
    return Proof(threshold, upper, *proven_by(problem, sums, _norm(push), off, terms))


def proven_by(
    problem: TopPushProblem, sums: DualSums, size: float, off: float, terms: float
) -> tuple[float, float]:
    """The lower bound and the balance of a dual point.

    Its push has the length `size` up to an error of `off`, and its terms' lengths sum to `terms`.
    A cap that rounding overstepped costs what is above it.
    """
    balance = sums.balance
    if balance == 0.0:
        return 0.0, 0.0
    over = abs(balance - 1.0) * terms if problem.k > 1 else 0.0
    off = off + over + grown(SUMMED) * terms + grown(problem.design.n_features) * size
    root = size / math.sqrt(2.0 * problem.scale)
    quadratic = root * root
    lost = grown(problem.roundings) * (quadratic + sums.sizes) / problem.design.total_cost
    lower = -(quadratic + sums.conjugates) / problem.design.total_cost
    lower = float(lower - lost - problem.rise(size, off))
    if not lower > UNDERFLOWN * problem.at_zero():
        return 0.0, 0.0  # no dual at all proves as much
    return lower, balance


def upper_of(problem: TopPushProblem, penalty: float, losses: float, off: float) -> float:
    """A bound above P(w) from its two parts in float64, the scores being off by at most `off`."""
    unit = grown(problem.roundings + problem.design.n_features)
    raised = problem.loss.raised(losses * (1.0 + unit), 2.0 * off + grown(0.0))
    return (penalty + raised) * (1.0 + unit) + TINY


def _upper_of_rounded(problem: TopPushProblem, weights: Array) -> float:
    """The same at scores that every row's own error has moved for the worse."""
    design = problem.design
    design.apply(_against_weights, grown(design.n_features))
    high, low = design.max(negatives_range)
    threshold = high
    if problem.k > 1:
        mean, level = top_of(design, negative_scores, problem.k, -low, high)
        threshold = mean + grown(problem.roundings) * (abs(high) + abs(level))
    losses = design.sum(_total_loss, problem.loss, threshold) / design.total_cost
    return upper_of(problem, problem.penalty(weights), losses, 0.0)


def _norm(vector: Array) -> float:
    largest = float(abs(vector).max())
    if largest > SQUARED_SAFELY or largest == 0.0:
        return math.sqrt(float(vector @ vector))
    return largest * math.sqrt(float((vector / largest) @ (vector / largest)))


def _read_again(
    block: Block, weights: Array, dual: Dual, balance: float
) -> tuple[Array, float, float]:
    """Score the rows anew; X+'a - X-'b, the sum of the lengths of its terms, and of how many."""
    on_positives, on_negatives = dual(block)
    return block.score_in_double(weights, on_positives, balance * on_negatives)


def _against_weights(block: Block, unit: float) -> None:
    """Lower the positives' scores and raise the negatives' by what rounding may be in them."""
    for scores, sizes, sign in zip(block.scores, block.sizes, (-1.0, 1.0), strict=True):
        sizes *= sign * unit
        scores += sizes


@read_only
def dual_sums(block: Block, dual: Dual, loss: Loss) -> DualSums:
    """Of a block's part of a dual point."""
    on_positives, on_negatives = dual(block)
    conjugates = sizes = 0.0
    for cost, entries in chunks(block.cost, on_positives):
        xp, share = block.arrays, entries / cost
        terms = loss.conjugate(share)
        slopes = xp.clip(abs(xp.where(share > 0.0, loss.conjugate_slope(share), 0.0)), 0.0, STEEP)
        conjugates += number(cost @ terms)
        sizes += number(cost @ (abs(terms) + (1.0 + slopes) * share))
    return DualSums(number(on_positives.sum()), number(on_negatives.sum()), conjugates, sizes)


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


@read_only
def negatives_range(block: Block) -> tuple[float, float]:
    """Greatest score of a negative, and minus the least."""
    negatives = block.scores[1]
    if not len(negatives):
        return -np.inf, -np.inf
    return number(negatives.max()), number(-negatives.min())


@read_only
def negative_scores(block: Block) -> Array:
    """Scores of the negatives."""
    return block.scores[1]


@read_only
def _above(block: Block, numbers: Callable[[Block], Array], level: float) -> tuple[float, float]:
    return mass_above(numbers(block), level)


@read_only
def _total_loss(block: Block, loss: Loss, threshold: float) -> float:
    parts = chunks(block.cost, block.scores[0])
    return sum(number(cost @ loss.value(threshold - scores)) for cost, scores in parts)
