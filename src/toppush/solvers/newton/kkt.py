"""The Newton (KKT) system: factored, or solved by preconditioned conjugate gradients.

    [ M   B ] [dw]     [rhs]      M = lam I + X+'diag(h)X+ / m + Z'diag(theta)Z
    [ B'  S ] [db]  =  [rb ]      db = changes of level s, threshold T and multiplier G

X+ are the positives with Hessian weights h, Z the working set with weights theta. The columns of B
are -Z'theta, -X+'h/m and Z'kappa/k; S is 3 x 3. db is `border_changes` in the code, and rb is
`border_rhs`.

The preconditioner replaces M = lam I + X'WX, X being the positives and the working set, by

    P = diag(D) + U'TU

U are the rows of high leverage and the means of the other rows of each class. D stands for the
variance of those others around their means,

    D_j = lam + sum_i e_i (x_ij - mean_j)^2,   e_i = w_i / (1 + w_i h_i),
    h_i = sum_j (x_ij - mean_j)^2 / D_j

so that 1/D is the diagonal of M's inverse where columns are many: a row of large leverage w h is
fitted by other rows of its columns, and counts less in D. The number of rows in U minimises the
estimated time: of their factor, plus that of the conjugate gradient steps, whose number grows with
the greatest leverage outside U.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dgesv

from toppush.designs import Block, Design, read_only
from toppush.designs.arrays import Arrays, namespace, number, to_host
from toppush.designs.rows import ExactRows
from toppush.solvers.newton import working_set
from toppush.solvers.newton.state import WithSquares, positives_of, state_of
from toppush.types import Array

MIN_WEIGHT = 3.0
"""`Factored` adds the negatives of the working set with theta |z|^2 up to MIN_WEIGHT lam / (their
number) to M by their weighted mean, and all others one by one."""
MAX_CG = 600
ROUNDS = 1
"""Updates of D and h in turn; the first D is that of the iteration before."""
LEVELS = 2.0 ** np.arange(-2, 60)
"""Leverages above which rows may enter U one by one."""
STEPS = 3.0
"""Steps of conjugate gradients for a leverage of one; they grow as its root."""
MAX_EXACT_ROWS = 6000


@dataclass(frozen=True)
class KKTBlocks:
    """The blocks B and S, and what M is made of."""

    design: Design
    lam: float
    k: int
    coupling: Array
    """B, of shape (d, 3)."""
    scalars: Array
    """S, a NumPy array."""
    hessian_sum: Array
    """X+'h."""


def kkt_blocks(
    design: Design, lam: float, k: int, sums: working_set.KKTSums, hessian_sum: Array
) -> KKTBlocks:
    """Assemble B and S."""
    m = design.total_cost
    columns = [-sums.hessian_product, -hessian_sum / m, sums.cap_product / k]
    coupling = design.arrays.column_stack(columns)
    uncapped = 1.0 - sums.cap_sensitivity / k
    scalars = np.array(
        [
            [sums.hessian_weights, 0.0, uncapped],
            [0.0, sums.positive_weights / m, -1.0],
            [uncapped, -1.0, -sums.excess_sensitivity / k**2],
        ]
    )
    return KKTBlocks(design, lam, k, coupling, scalars, hessian_sum)


def inverse_of_small(matrix: Array) -> Array:
    """Inverse of a 3 x 3 matrix, by LAPACK: five times as fast as `np.linalg.inv`."""
    *_, inverse, info = dgesv(matrix, np.eye(len(matrix)))
    if info:
        raise np.linalg.LinAlgError("Singular matrix")
    return np.asarray(inverse)


def factor(matrix: Array) -> Array:
    """Cholesky factor; the diagonal is raised as little as needed."""
    xp = namespace(matrix)
    factored, info = xp.cholesky(matrix)
    ridge = 1e-12
    while info and ridge < 1.0:
        xp.diagonal(matrix)[:] *= 1.0 + ridge
        factored, info = xp.cholesky(matrix)
        ridge *= 100.0
    return factored


def norm(vector: Array) -> float:
    """|v|."""
    return math.sqrt(float(vector @ vector))


class Factored:
    """M as a d x d matrix, factored; for d up to a few thousand."""

    def __init__(self, blocks: KKTBlocks, gram: Array, n_working: int) -> None:
        min_weight = MIN_WEIGHT * blocks.lam / n_working
        of_negatives, weights, product = blocks.design.sum(
            working_set.high_leverage_gram, min_weight
        )
        matrix = gram / blocks.design.total_cost
        matrix += of_negatives
        rest = blocks.scalars[0, 0] - weights
        if rest > 1e-9 * blocks.scalars[0, 0]:
            mean = (-blocks.coupling[:, 0] - product) / rest**0.5
            matrix += mean[:, None] * mean
        self._arrays, self._coupling = blocks.design.arrays, blocks.coupling
        self._arrays.diagonal(matrix)[:] += blocks.lam
        self._factor = factor(matrix)
        self._solved_coupling = self._arrays.cholesky_solve(self._factor, blocks.coupling)
        schur = blocks.scalars - to_host(blocks.coupling.T @ self._solved_coupling)
        self._schur_inverse = inverse_of_small(schur)

    def solve(self, rhs: Array, border_rhs: Array, rtol: float) -> tuple[Array, Array]:
        """The changes of the weights and `border_changes`, exactly."""
        part = self._arrays.cholesky_solve(self._factor, rhs)
        border_changes = self._schur_inverse @ (border_rhs - to_host(self._coupling.T @ part))
        return part - self._solved_coupling @ self._arrays.asarray(border_changes), border_changes


# ---- preconditioner


class PreconditionerDiagonal:
    """D, updated from iteration to iteration."""

    def __init__(self) -> None:
        self.diagonal: Array | None = None

    def update(self, blocks: KKTBlocks) -> "ShrunkSums":
        """Update D to the current weights; the blocks keep the leverage of every row."""
        design, m = blocks.design, blocks.design.total_cost
        if self.diagonal is None:
            design.apply(_reset_leverages)
            self.diagonal = _centred(blocks, design.sum(_shrunk_sums, m, -1.0))
        on_positives, on_negatives = (max(blocks.scalars[i, i], 1e-300) for i in (1, 0))
        means = blocks.hessian_sum / (m * on_positives), -blocks.coupling[:, 0] / on_negatives
        for _ in range(ROUNDS):
            inverse = 1.0 / self.diagonal
            centres = [(mean * inverse, float(mean @ (mean * inverse))) for mean in means]
            design.apply(_set_leverages, m, inverse, centres)
            sums: ShrunkSums = design.sum(_shrunk_sums, m, -1.0)
            self.diagonal = _centred(blocks, sums)
        return sums


class Preconditioner:
    """P together with B and S as one operator, inverted in the space of U."""

    def __init__(self, blocks: KKTBlocks, diagonal: PreconditionerDiagonal) -> None:
        design, xp, k = blocks.design, blocks.design.arrays, blocks.k
        sums, least = diagonal.update(blocks), _min_leverage(design)
        exact = _stacked(design.each(_exact_rows, design.total_cost, least, k), xp)
        n_exact = self.n_exact = len(exact.weights)
        if n_exact:
            sums = sums.without(design.sum(_shrunk_sums, design.total_cost, least))
        self._arrays, self.root = xp, 1.0 / xp.sqrt(_centred(blocks, sums))
        rest, cap_rest = _rest(blocks, exact)
        means = _means_of_rest(blocks, exact, rest)
        self._rows, self._means = exact.rows.scaled(self.root), means * self.root
        outside = xp.column_stack([self._rows.scores(mean) for mean in self._means])
        products, corner = self._rows.inner_products(self._rows), self._means @ self._means.T
        gram = xp.empty((n_exact + 2, n_exact + 2))
        gram[:n_exact, :n_exact], gram[:n_exact, n_exact:] = products, outside
        gram[n_exact:, :n_exact], gram[n_exact:, n_exact:] = outside.T, corner
        inner = xp.zeros((n_exact + 2, 3))  # B in the space of U: B = U' inner
        inner[:n_exact] = exact.coupling
        inner[n_exact, 0], inner[n_exact + 1, 1] = -rest[0], -rest[1]
        inner[n_exact, 2] = cap_rest
        outer = gram @ inner
        inverse = 1.0 / xp.concatenate([exact.weights, xp.asarray(np.array(rest))])
        xp.diagonal(gram)[:] += inverse
        self._solve = xp.solver(factor(gram))
        self._inner = self._solve(inverse[:, None] * inner)
        schur = blocks.scalars - to_host(outer.T @ self._inner)
        self._schur_inverse = xp.asarray(inverse_of_small(schur))

    def __call__(self, vector: Array) -> Array:
        """P's inverse times a vector."""
        scaled, n_exact = vector * self.root, self.n_exact
        inside = self._arrays.concatenate([self._rows.scores(scaled), self._means @ scaled])
        solved = self._solve(inside)
        solved -= self._inner @ (self._schur_inverse @ (self._inner.T @ inside))
        scaled -= self._rows.combine(solved[:n_exact])
        scaled -= solved[n_exact:] @ self._means
        scaled *= self.root
        return scaled


class Iterative:
    """Preconditioned conjugate gradients on M with `border_changes` eliminated."""

    def __init__(self, blocks: KKTBlocks, diagonal: PreconditionerDiagonal) -> None:
        self.blocks, self._arrays, self.n_steps = blocks, blocks.design.arrays, 0
        self._last: tuple[Array, Array, float] | None = None
        self._scalars_inverse = inverse_of_small(blocks.scalars)
        self._elimination = self._arrays.asarray(self._scalars_inverse)
        self.precondition = Preconditioner(blocks, diagonal)

    def solve(self, rhs: Array, border_rhs: Array, rtol: float) -> tuple[Array, Array]:
        """The changes of the weights and `border_changes`, up to rtol in the preconditioner's norm.

        Begins at the solution for the last right side.
        """
        blocks, xp = self.blocks, self._arrays
        goal = rhs - blocks.coupling @ xp.asarray(self._scalars_inverse @ border_rhs)
        if self._last is None:
            solution, image, reference = xp.zeros(len(rhs)), xp.zeros(len(rhs)), 0.0
        else:
            solution, image, reference = self._last
            solution = 1.0 * solution
        residual = goal - image
        preconditioned = self.precondition(residual)
        residual_product = float(residual @ preconditioned)
        reference = reference or residual_product
        direction, n_steps = preconditioned, 0
        while residual_product > rtol**2 * reference and n_steps < MAX_CG:
            product = self.multiply(direction)
            squared = direction @ product
            length = residual_product / squared
            next_residual = residual - length * product
            preconditioned = self.precondition(next_residual)
            curvature, next_product = xp.floats([squared, next_residual @ preconditioned])
            if not curvature > 0.0:
                break
            solution += length * direction
            residual, residual_product, previous = next_residual, next_product, residual_product
            direction = preconditioned + (residual_product / previous) * direction
            n_steps += 1
        self._last = solution, goal - residual, reference
        self.n_steps += n_steps
        rest = border_rhs - to_host(blocks.coupling.T @ solution)
        return solution, self._scalars_inverse @ rest

    def multiply(self, vector: Array) -> Array:
        """The matrix with `border_changes` eliminated, times a vector."""
        blocks = self.blocks
        border_changes = -(self._elimination @ (blocks.coupling.T @ vector))
        m = blocks.design.total_cost
        product: Array = blocks.design.sum(_hessian_product, vector, border_changes, m, blocks.k)
        return product + blocks.lam * vector


class ExactPart(NamedTuple):
    """The rows of U that are not means."""

    rows: ExactRows
    weights: Array
    coupling: Array
    """Their part of B, of shape (rows, 3)."""


class ShrunkSums(NamedTuple):
    """Sums with the shrunk weights e: of squared entries, and of rows and weights by class."""

    squares: Array
    positives: Array
    positive: float
    negatives: Array
    negative: float

    def without(self, others: "ShrunkSums") -> "ShrunkSums":
        """The sums over all rows but the others."""
        return ShrunkSums(
            self.squares - others.squares,
            self.positives - others.positives,
            self.positive - others.positive,
            self.negatives - others.negatives,
            self.negative - others.negative,
        )


def _centred(blocks: KKTBlocks, sums: ShrunkSums) -> Array:
    """D from sums that are not centred."""
    xp, variance = blocks.design.arrays, sums.squares
    for product, total in [(sums.positives, sums.positive), (sums.negatives, sums.negative)]:
        if total > 0.0:
            variance = variance - product * (product / total)
    return blocks.lam + xp.maximum(variance, 0.0)


def _min_leverage(design: Design) -> float:
    """The leverage above which rows enter U such that the whole solve takes the least time.

    From the design's measured seconds for reading an entry, for a factor and for a solve by it.
    """
    between = to_host(design.sum(_count_leverages, LEVELS))
    counts = between.sum() - np.cumsum(between)[:-1]
    n_entries, n_rows = design.sum(_sizes)
    cost, per_row = design.arrays.costs, n_entries / max(n_rows, 1.0)
    step = cost.step + cost.vector * design.n_features + 2.0 * cost.read * n_entries
    step += counts * (2.0 * cost.read * per_row + cost.solve * counts)
    formed = counts**2 * (cost.factor * counts / 3.0 + 0.3 * cost.read * per_row)
    seconds = formed + STEPS * np.sqrt(1.0 + LEVELS) * step
    seconds[counts > min(MAX_EXACT_ROWS, design.most_exact / 2)] = np.inf
    return float(LEVELS[np.argmin(seconds)])


def _rest(blocks: KKTBlocks, exact: ExactPart) -> tuple[tuple[float, float], float]:
    """Weights of the negatives and positives outside U, and their part of the cap."""
    xp = blocks.design.arrays
    on_negatives, on_positives = blocks.scalars[0, 0], blocks.scalars[1, 1]
    negatives, positives, capped = xp.floats([exact.coupling[:, i].sum() for i in range(3)])
    rest = (
        max(on_negatives + negatives, 1e-12 * on_negatives, 1e-300),
        max(on_positives + positives, 1e-12 * on_positives, 1e-300),
    )
    return rest, (1.0 - blocks.scalars[0, 2]) - capped


def _means_of_rest(blocks: KKTBlocks, exact: ExactPart, rest: tuple[float, float]) -> Array:
    """Weighted means of the negatives and of the positives outside U, as two rows."""
    means = [
        (-blocks.coupling[:, i] + exact.rows.combine(exact.coupling[:, i])) / rest[i]
        for i in (0, 1)
    ]
    return blocks.design.arrays.stack(means)


def _stacked(parts: list[ExactPart], xp: Arrays) -> ExactPart:
    if len(parts) == 1:
        return parts[0]
    rows, weights, coupling = zip(*parts, strict=True)
    rest = xp.concatenate(weights), xp.concatenate(coupling)
    return ExactPart(rows[0].stacked(*rows[1:]), *rest)


# ---- in the blocks


@read_only
def _hessian_product(block: Block, vector: Array, border_changes: Array, m: float, k: int) -> Array:
    """(M - lam I) v + B border_changes, without the cancellation between the two."""
    state = state_of(block)
    at = state.linearised
    on_negatives = at.hessian_weights * (state.working_set.rows.scores(vector) - border_changes[0])
    on_negatives += at.cap_sensitivity * (border_changes[2] / k)
    rows = positives_of(block).rows
    product = rows.hessian_product(vector, state.hessian_weights / m, border_changes[1])
    product += state.working_set.rows.combine(on_negatives)
    return product


@read_only
def _sizes(block: Block) -> tuple[float, float]:
    """Entries and rows that a product with the Newton matrix reads."""
    positives, negatives = (side.rows for side in _both_classes(block))
    n_rows = positives.shape[0] + negatives.shape[0]
    return float(positives.n_entries + negatives.n_entries), float(n_rows)


def _both_classes(block: Block) -> tuple[WithSquares, WithSquares]:
    """The positives and the working set."""
    return positives_of(block), state_of(block).working_set


def _weights(block: Block, m: float) -> tuple[Array, Array]:
    """Weights of the positives and of the working set in the Newton matrix."""
    state = state_of(block)
    return state.hessian_weights / m, state.linearised.hessian_weights


def _reset_leverages(block: Block) -> None:
    """Set every leverage to zero, and compute the squared rows."""
    state, zeros = state_of(block), block.arrays.zeros
    for side in _both_classes(block):
        side.squared()
    state.leverages = zeros(len(state.hessian_weights)), zeros(len(state.working_set.where))


def _set_leverages(
    block: Block, m: float, inverse: Array, centres: list[tuple[Array, float]]
) -> None:
    """Every row's weight times its squared distance to its class's mean in the metric 1/D."""
    leverages = []
    for side, weights, (direction, offset) in zip(
        _both_classes(block), _weights(block, m), centres, strict=True
    ):
        distances = side.squared().scores(inverse) - 2.0 * side.rows.scores(direction) + offset
        leverages.append(weights * block.arrays.maximum(distances, 0.0))
    state_of(block).leverages = leverages[0], leverages[1]


@read_only
def _shrunk_sums(block: Block, m: float, least: float) -> ShrunkSums:
    """Sums with the shrunk weights, over the rows above a leverage."""
    xp, sums = block.arrays, []
    for side, weights, leverages in zip(
        _both_classes(block), _weights(block, m), state_of(block).leverages, strict=True
    ):
        shrunk = xp.where(leverages > least, weights / (1.0 + leverages), 0.0)
        squares, rows = side.squared().combine(shrunk), side.rows.combine(shrunk)
        sums.append((squares, rows, number(shrunk.sum())))
    (squares, rows, total), (more, of_negatives, negative) = sums
    return ShrunkSums(squares + more, rows, total, of_negatives, negative)


@read_only
def _count_leverages(block: Block, levels: Array) -> Array:
    """How many leverages lie between successive levels."""
    leverages = block.arrays.concatenate(list(state_of(block).leverages))
    return block.arrays.count_between(leverages, levels)


@read_only
def _exact_rows(block: Block, m: float, least: float, k: int) -> ExactPart:
    """The rows above a leverage: negatives of the working set, then positives."""
    xp, state = block.arrays, state_of(block)
    on_positives, on_negatives = _weights(block, m)
    positives, negatives = (xp.flatnonzero(part > least) for part in state.leverages)
    rows = state.working_set.rows.subset(negatives).exact()
    rows = rows.stacked(positives_of(block).rows.subset(positives).exact())
    weights = xp.concatenate([on_negatives[negatives], on_positives[positives]])
    coupling, n_neg = xp.zeros((len(weights), 3)), len(negatives)
    coupling[:n_neg, 0], coupling[n_neg:, 1] = -weights[:n_neg], -weights[n_neg:]
    coupling[:n_neg, 2] = state.linearised.cap_sensitivity[negatives] / k
    return ExactPart(rows, weights, coupling)
