"""The objective of the TopPush family, its dual and its certificate.

    P(w) = lam/2 |w|^2 + 1/m sum_i c_i l(T(w) - w.x_i),   T(w) = mean of the k greatest w.z_j
    D(a, b) = 1/(2 lam m) |X+'a - X-'b|^2 + sum_i c_i l*(a_i / c_i)

over a >= 0, 0 <= b_j <= (sum a)/k, sum b = sum a; any such point gives the bound
P >= -D/m. The c_i are the positives' weights and m their sum. The dual combination is
v = X+'a - X-'b (the paper's nu); at the optimum w = v / (lam m).
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
    """The rows, the loss, the penalty, and how many negatives make the top."""

    design: Design
    loss: Loss
    lam: float
    k: int = 1

    def at_zero(self) -> float:
        """The objective at weights of zero, where every score ties."""
        return float(self.loss.value(np.zeros(1))[0])

    def threshold(self, guess: float | None = None) -> float:
        """T of the blocks' scores; `guess` is a level near the k-th greatest."""
        high, low = self.design.max(negatives_range)
        if self.k == 1:
            return high
        return top_of(self.design, negative_scores, self.k, -low, high, guess=guess)[0]

    def level_of_top(self, count: int) -> float:
        """A level below about `count` of the negatives' scores."""
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
    top = design.top_of(numbers, count)
    if top is not None:
        return top
    return top_mean(partial(design.sum, _above, numbers), count, low, high, guess=guess)


@dataclass(frozen=True)
class TopPushProblem(TopProblem):
    """Rank the positives in `design` above the mean of the `k` best negatives."""

    @property
    def scale(self) -> float:
        """Lam m, which turns a dual combination into weights."""
        return self.lam * self.design.total_cost

    def upper(self, weights: Array, threshold: float) -> float:
        """P(w); the blocks have the scores of w."""
        losses = self.design.sum(_total_loss, self.loss, threshold)
        return float(0.5 * self.lam * weights @ weights + losses / self.design.total_cost)

    def penalty(self, weights: Array) -> float:
        """lam/2 |w|^2."""
        return float(0.5 * self.lam * weights @ weights)

    def lower(self, combination: Array, conjugates: float) -> float:
        """-D/m from the dual combination and the sum of conjugates at a feasible dual point."""
        quadratic = combination @ combination / (2.0 * self.scale)
        return float(-(quadratic + conjugates) / self.design.total_cost)

    @property
    def roundings(self) -> float:
        """Roundings of a chunked sum over the positives or the negatives."""
        n_rows = self.design.n_pos + self.design.n_neg
        return SUMMED + min(CHUNK, n_rows) + n_rows / CHUNK


class Certificate(NamedTuple):
    """Bounds of the optimum in float64, rounded outward by a bound on all rounding errors."""

    threshold: float
    upper: float
    lower: float
    balance: float
    """Factor that makes the negatives' duals sum to those of the positives; 0 if the dual gives no
    bound."""


DualParts = Callable[[Block], tuple[Array, Array]]
"""A block's part of a dual point: of its positives and of its negatives."""


class DualSums(NamedTuple):
    """Sums over a dual point that need no row."""

    positives: float
    negatives: float
    conjugates: float
    sizes: float
    """Sum of the absolute values of all terms in the conjugates."""

    @property
    def balance(self) -> float:
        """The factor of `Certificate.balance`; 0 if there is none."""
        usable = 0.0 < self.positives < math.inf and 0.0 < self.negatives < math.inf
        return self.positives / self.negatives if usable else 0.0


MAX_SLOPE = 1e3
"""Cap on the slopes of conjugates: at the greatest float64 below 1 the logistic one has 37."""
MIN_SQUARED = 1e-140
"""Entries below have squares that lose digits or become 0."""
MIN_BOUND = 1e-100
"""Share of the objective at zero below which a bound counts as zero, as its squares do."""


def certify(problem: TopPushProblem, weights: Array, dual: DualParts) -> Certificate:
    """Certified bounds of the weights and a dual point, by one read of the rows."""
    design = problem.design
    sums: DualSums = design.sum(dual_sums, dual, problem.loss)
    combination, terms, n_terms = design.sum(_score_in_double, weights, dual, sums.balance)
    threshold = problem.threshold()
    upper = _upper_of_worst_scores(problem, weights)
    error = grown(n_terms) * terms
    lower, balance = certified_lower(problem, sums, _norm(combination), error, terms)
    return Certificate(threshold, upper, lower, balance)


def certified_lower(
    problem: TopPushProblem, sums: DualSums, size: float, error: float, terms: float
) -> tuple[float, float]:
    """The lower bound and the balance of a dual point.

    The norm of its combination is `size` up to `error`, and the norms of the combination's terms
    sum to `terms`. A cap that rounding exceeds costs the excess.
    """
    balance = sums.balance
    if balance == 0.0:
        return 0.0, 0.0
    scale, m = problem.scale, problem.design.total_cost
    over = abs(balance - 1.0) * terms if problem.k > 1 else 0.0
    error = error + over + grown(SUMMED) * terms + grown(problem.design.n_features) * size
    root = size / math.sqrt(2.0 * scale)
    quadratic = root * root
    lost = grown(problem.roundings) * (quadratic + sums.sizes) / m
    lower = -(quadratic + sums.conjugates) / m
    lower = float(lower - lost - error * (size + 0.5 * error) / (scale * m))
    if not lower > MIN_BOUND * problem.at_zero():
        return 0.0, 0.0  # no better than without a dual
    return lower, balance


def certified_upper(
    problem: TopPushProblem, penalty: float, losses: float, score_error: float
) -> float:
    """A bound above P(w) from its two parts in float64, for a bound on the scores' errors."""
    unit = grown(problem.roundings + problem.design.n_features)
    raised = problem.loss.raised(losses * (1.0 + unit), 2.0 * score_error + grown(0.0))
    return (penalty + raised) * (1.0 + unit) + TINY


def _upper_of_worst_scores(problem: TopPushProblem, weights: Array) -> float:
    """A bound above P(w) from scores moved by their rounding errors, in the worse direction."""
    design = problem.design
    design.apply(_worsen_scores, grown(design.n_features))
    high, low = design.max(negatives_range)
    threshold = high
    if problem.k > 1:
        mean, level = top_of(design, negative_scores, problem.k, -low, high)
        threshold = mean + grown(problem.roundings) * (abs(high) + abs(level))
    losses = design.sum(_total_loss, problem.loss, threshold) / design.total_cost
    return certified_upper(problem, problem.penalty(weights), losses, 0.0)


def _norm(vector: Array) -> float:
    largest = float(abs(vector).max())
    if largest > MIN_SQUARED or largest == 0.0:
        return math.sqrt(float(vector @ vector))
    return largest * math.sqrt(float((vector / largest) @ (vector / largest)))


def _score_in_double(
    block: Block, weights: Array, dual: DualParts, balance: float
) -> tuple[Array, float, float]:
    """Score the rows in float64; X+'a - X-'b, the sum of its terms' norms, and their number."""
    on_positives, on_negatives = dual(block)
    return block.score_in_double(weights, on_positives, balance * on_negatives)


def _worsen_scores(block: Block, unit: float) -> None:
    """Lower the positives' scores and raise the negatives' by a bound on their rounding."""
    for scores, sizes, sign in zip(block.scores, block.sizes, (-1.0, 1.0), strict=True):
        sizes *= sign * unit
        scores += sizes


@read_only
def dual_sums(block: Block, dual: DualParts, loss: Loss) -> DualSums:
    """Sums over a block's part of a dual point."""
    on_positives, on_negatives = dual(block)
    conjugates = sizes = 0.0
    for cost, entries in chunks(block.cost, on_positives):
        xp, share = block.arrays, entries / cost
        terms = loss.conjugate(share)
        slopes = xp.clip(
            abs(xp.where(share > 0.0, loss.conjugate_slope(share), 0.0)), 0.0, MAX_SLOPE
        )
        conjugates += number(cost @ terms)
        sizes += number(cost @ (abs(terms) + (1.0 + slopes) * share))
    return DualSums(number(on_positives.sum()), number(on_negatives.sum()), conjugates, sizes)


def balanced_dual(block: Block, dual: DualParts, balance: float) -> Array:
    """The block's part of a dual point, with the balance of its certificate."""
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
