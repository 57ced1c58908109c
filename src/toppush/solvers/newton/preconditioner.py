"""What conjugate gradients are preconditioned by: every column, and the rows that weigh most.

    P = diag(D) + U'TU  in place of  M = lam I + X'WX

X are the positives and the band, W their weights in the Newton matrix. U are the heaviest rows, and
the means of the others of either class. D stands for the others' spread around the means,

    D_j = lam + sum_i e_i (x_ij - mean_j)^2,   e_i = w_i / (1 + w_i h_i),
    h_i = sum_j (x_ij - mean_j)^2 / D_j

so that 1/D is the diagonal of M's inverse where columns are many: a row that others of its columns
fit already (its leverage w h is large) holds a column less. The rows U are as many as pay: their
factor, against steps of conjugate gradients that grow with the greatest leverage outside of U.
"""

from typing import NamedTuple

import numpy as np

from toppush.designs import Block, Design, read_only
from toppush.designs.arrays import Arrays, number, to_host
from toppush.designs.rows import ExactRows
from toppush.solvers.newton.frame import Frame, factor, inverted
from toppush.solvers.newton.state import WithSquares, part_of, positives_of
from toppush.types import Array

ROUNDS = 1
"""Of D and h in turn; the first D is that of the iteration before."""
LEVELS = 2.0 ** np.arange(-2, 60)
"""Leverages above which rows may be taken into U one by one."""
STEPS = 3.0
"""Steps of conjugate gradients for a leverage of one; they grow as its root."""
MOST_HEAVY = 6000


class Spread:
    """D, from iteration to iteration."""

    def __init__(self) -> None:
        self.found: Array | None = None

    def update(self, frame: Frame) -> "ShrunkSums":
        """Bring D to the latest weights, and leave every row's leverage in the blocks."""
        design = frame.design
        if self.found is None:
            design.apply(_forget_leverages)
            self.found = _centred(frame, design.sum(_shrunk_sums, frame.n_pos, -1.0))
        for _ in range(ROUNDS):
            inverse = 1.0 / self.found
            centres = [(mean * inverse, float(mean @ (mean * inverse))) for mean in _means(frame)]
            design.apply(_set_leverages, frame.n_pos, inverse, centres)
            sums: ShrunkSums = design.sum(_shrunk_sums, frame.n_pos, -1.0)
            self.found = _centred(frame, sums)
        return sums


class Preconditioner:
    """P with the border of the three numbers, as one operator; inverted in the space of U."""

    def __init__(self, frame: Frame, spread: Spread) -> None:
        xp, k = frame.design.arrays, frame.k
        sums, least = spread.update(frame), _worthwhile(frame.design)
        heavy = _stacked(frame.design.each(_heavy_rows, frame.n_pos, least, k), xp)
        n_heavy = self._n_heavy = len(heavy.weights)
        if n_heavy:
            sums = sums.without(frame.design.sum(_shrunk_sums, frame.n_pos, least))
        self._arrays, self._root = xp, 1.0 / xp.sqrt(_centred(frame, sums))
        rest, share = _rest(frame, heavy)
        means = _light_means(frame, heavy, rest)
        self._rows, self._means = heavy.rows.scaled(self._root), means * self._root
        outside = xp.column_stack([self._rows.scores(mean) for mean in self._means])
        products = self._rows.inner_products(self._rows)
        gram = _bordered(products, outside, self._means @ self._means.T, xp)
        inner = xp.zeros((n_heavy + 2, 3))  # the border in the space of U: B = U' inner
        inner[:n_heavy] = heavy.border
        inner[n_heavy, 0], inner[n_heavy + 1, 1] = -rest[0], -rest[1]
        inner[n_heavy, 2] = share
        outer = gram @ inner
        inverse = 1.0 / xp.concatenate([heavy.weights, xp.asarray(np.array(rest))])
        xp.diagonal(gram)[:] += inverse
        self._solve = xp.solver(factor(gram))
        self._inner = self._solve(inverse[:, None] * inner)
        middle = frame.corner - to_host(outer.T @ self._inner)
        self._middle = xp.asarray(inverted(middle))

    def __call__(self, vector: Array) -> Array:
        """P's inverse times a vector."""
        scaled, n_heavy = vector * self._root, self._n_heavy
        inside = self._arrays.concatenate([self._rows.scores(scaled), self._means @ scaled])
        solved = self._solve(inside)
        solved -= self._inner @ (self._middle @ (self._inner.T @ inside))
        scaled -= self._rows.combine(solved[:n_heavy])
        scaled -= solved[n_heavy:] @ self._means
        scaled *= self._root
        return scaled


class Heavy(NamedTuple):
    """The rows U one by one."""

    rows: ExactRows
    weights: Array
    border: Array
    """Their part of the border, of shape (rows, 3)."""


class ShrunkSums(NamedTuple):
    """Sums over rows with the shrunk weights e: of squares, and of rows and weights by class."""

    squares: Array
    positives: Array
    positive: float
    band: Array
    negative: float

    def without(self, others: "ShrunkSums") -> "ShrunkSums":
        """Over these rows but not the others, which are some of them."""
        return ShrunkSums(
            self.squares - others.squares,
            self.positives - others.positives,
            self.positive - others.positive,
            self.band - others.band,
            self.negative - others.negative,
        )


def _means(frame: Frame) -> tuple[Array, Array]:
    """Weighted means of the positives and of the band."""
    bend, stiffness = max(frame.corner[1, 1], 1e-300), max(frame.corner[0, 0], 1e-300)
    return frame.bend_product / (frame.n_pos * bend), -frame.border[:, 0] / stiffness


def _centred(frame: Frame, sums: ShrunkSums) -> Array:
    """D from sums that are not centred."""
    xp, spread = frame.design.arrays, sums.squares
    for product, total in [(sums.positives, sums.positive), (sums.band, sums.negative)]:
        if total > 0.0:
            spread = spread - product * (product / total)
    return frame.lam + xp.maximum(spread, 0.0)


def _worthwhile(design: Design) -> float:
    """The leverage above which rows enter U: where the whole solve takes least.

    Seconds are those of the design's arrays: of reading an entry, of the factor, of a solve by it.
    """
    between = to_host(design.sum(_leverages_between, LEVELS))
    counts = between.sum() - np.cumsum(between)[:-1]
    n_entries, n_rows = design.sum(_sizes)
    cost, per_row = design.arrays.costs, n_entries / max(n_rows, 1.0)
    step = cost.step + cost.vector * design.n_features + 2.0 * cost.read * n_entries
    step += counts * (2.0 * cost.read * per_row + cost.solve * counts)
    formed = counts**2 * (cost.factor * counts / 3.0 + 0.3 * cost.read * per_row)
    seconds = formed + STEPS * np.sqrt(1.0 + LEVELS) * step
    seconds[counts > min(MOST_HEAVY, design.most_exact / 2)] = np.inf
    return float(LEVELS[np.argmin(seconds)])


def _rest(frame: Frame, heavy: Heavy) -> tuple[tuple[float, float], float]:
    """Weights of the light negatives and positives together, and the negatives' part of a cap."""
    xp, stiffness, bend = frame.design.arrays, frame.corner[0, 0], frame.corner[1, 1]
    on_band, on_positives, shared = xp.floats(
        [heavy.border[:, 0].sum(), heavy.border[:, 1].sum(), heavy.border[:, 2].sum()]
    )
    rest = (
        max(stiffness + on_band, 1e-12 * stiffness, 1e-300),
        max(bend + on_positives, 1e-12 * bend, 1e-300),
    )
    return rest, (1.0 - frame.corner[0, 2]) - shared


def _light_means(frame: Frame, heavy: Heavy, rest: tuple[float, float]) -> Array:
    """Weighted means of the light negatives and of the light positives, one below the other."""
    band = -frame.border[:, 0] + heavy.rows.combine(heavy.border[:, 0])
    positives = -frame.border[:, 1] + heavy.rows.combine(heavy.border[:, 1])
    return frame.design.arrays.stack([band / rest[0], positives / rest[1]])


def _stacked(parts: list[Heavy], xp: Arrays) -> Heavy:
    if len(parts) == 1:
        return parts[0]
    rows, weights, border = zip(*parts, strict=True)
    return Heavy(rows[0].stacked(*rows[1:]), xp.concatenate(weights), xp.concatenate(border))


def _bordered(square: Array, side: Array, corner: Array, xp: Arrays) -> Array:
    """[[square, side], [side', corner]]."""
    inner, size = len(square), len(square) + len(corner)
    whole = xp.empty((size, size))
    whole[:inner, :inner], whole[:inner, inner:] = square, side
    whole[inner:, :inner], whole[inner:, inner:] = side.T, corner
    return whole


# ---- in the blocks


@read_only
def _sizes(block: Block) -> tuple[float, float]:
    """Entries and rows that a product of the Newton matrix reads."""
    positives, rows = positives_of(block).rows, part_of(block).band.rows
    return float(positives.n_entries + rows.n_entries), float(positives.shape[0] + rows.shape[0])


def _sides(block: Block) -> tuple[WithSquares, WithSquares]:
    """The positives and the band."""
    return positives_of(block), part_of(block).band


def _weights(block: Block, n_pos: float) -> tuple[Array, Array]:
    """Weights of the positives and of the band in the Newton matrix."""
    part = part_of(block)
    return part.bend / n_pos, part.tangent.stiffness


def _forget_leverages(block: Block) -> None:
    """Take every leverage for zero, and make the squares that sums will ask for."""
    part, zeros = part_of(block), block.arrays.zeros
    for side in _sides(block):
        side.squared()
    part.leverages = zeros(len(part.bend)), zeros(len(part.band.where))


def _set_leverages(
    block: Block, n_pos: float, inverse: Array, centres: list[tuple[Array, float]]
) -> None:
    """Every row's weight times its squared distance from its class's mean in D's inverse."""
    found = []
    given = zip(_sides(block), _weights(block, n_pos), centres, strict=True)
    for side, weights, (towards, offset) in given:
        distances = side.squared().scores(inverse) - 2.0 * side.rows.scores(towards) + offset
        found.append(weights * block.arrays.maximum(distances, 0.0))
    part_of(block).leverages = found[0], found[1]


@read_only
def _shrunk_sums(block: Block, n_pos: float, least: float) -> ShrunkSums:
    """Sums with the shrunk weights, over the rows above a leverage."""
    xp, sums = block.arrays, []
    given = zip(_sides(block), _weights(block, n_pos), part_of(block).leverages, strict=True)
    for side, weights, leverages in given:
        shrunk = xp.where(leverages > least, weights / (1.0 + leverages), 0.0)
        squares, rows = side.squared().combine(shrunk), side.rows.combine(shrunk)
        sums.append((squares, rows, number(shrunk.sum())))
    (squares, rows, total), (more, of_band, negative) = sums
    return ShrunkSums(squares + more, rows, total, of_band, negative)


@read_only
def _leverages_between(block: Block, levels: Array) -> Array:
    """How many rows have leverages up to the first of rising levels, up to the next, and so on."""
    leverages = block.arrays.concatenate(list(part_of(block).leverages))
    return block.arrays.count_between(leverages, levels)


@read_only
def _heavy_rows(block: Block, n_pos: float, least: float, k: int) -> Heavy:
    """The rows above a leverage: negatives of the band, then positives."""
    xp, part = block.arrays, part_of(block)
    bends, stiffness = _weights(block, n_pos)
    on_positives, on_band = (xp.flatnonzero(one > least) for one in part.leverages)
    rows = part.band.rows.subset(on_band).exact()
    rows = rows.stacked(positives_of(block).rows.subset(on_positives).exact())
    weights = xp.concatenate([stiffness[on_band], bends[on_positives]])
    border, n_neg = xp.zeros((len(weights), 3)), len(on_band)
    border[:n_neg, 0], border[n_neg:, 1] = -weights[:n_neg], -weights[n_neg:]
    border[:n_neg, 2] = part.tangent.share[on_band] / k
    return Heavy(rows, weights, border)
