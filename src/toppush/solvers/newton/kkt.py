"""The Newton system in the weights and three numbers, formed and factored or solved by CG.

    [ M   B ] [dw]     [rhs]      M = lam I + X+'diag(bend)X+ / m + Z'diag(theta)Z
    [ B'  S ] [d3]  =  [r3 ]      d3 = changes of level s, threshold T and pull G

B's columns are -Z'theta, -X+'bend/m and Z'kappa/k; S is 3 x 3. X+ are the positives, Z the band.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg.lapack import dgesv

from toppush.designs import Block, Design, read_only
from toppush.designs.arrays import Arrays, namespace, number, to_host
from toppush.designs.rows import ExactRows
from toppush.solvers.newton import working_set
from toppush.solvers.newton.state import WithSquares, part_of, positives_of
from toppush.types import Array

LIGHT = 3.0
"""Formed: negatives below this weight, times lam over their number, enter as their mean."""
MAX_CG = 600


@dataclass(frozen=True)
class Frame:
    """What every form of the system starts from."""

    design: Design
    lam: float
    k: int
    border: Array
    """B, of shape (d, 3)."""
    corner: Array
    """S, a NumPy array."""
    bend_product: Array
    """X+'bend."""

    @property
    def n_pos(self) -> float:
        """m, the positives' total weight."""
        return self.design.total_cost


def frame(
    design: Design, lam: float, k: int, sums: working_set.Border, bend_product: Array
) -> Frame:
    """Border and corner from the band's sums and the positives' bends."""
    m = design.total_cost
    columns = [-sums.stiff_product, -bend_product / m, sums.share_product / k]
    border = design.arrays.column_stack(columns)
    uncapped = 1.0 - sums.share / k
    corner = np.array(
        [
            [sums.stiffness, 0.0, uncapped],
            [0.0, sums.bend / m, -1.0],
            [uncapped, -1.0, -sums.give / k**2],
        ]
    )
    return Frame(design, lam, k, border, corner, bend_product)


def inverted(matrix: Array) -> Array:
    """Of three rows: NumPy's takes five times as long as LAPACK does."""
    *_, found, info = dgesv(matrix, np.eye(len(matrix)))
    if info:
        raise np.linalg.LinAlgError("Singular matrix")
    return np.asarray(found)


def factor(matrix: Array) -> Array:
    """Cholesky factor, the diagonal raised as little as it takes."""
    xp = namespace(matrix)
    found, info = xp.cholesky(matrix)
    raised = 1e-12
    while info and raised < 1.0:
        xp.diagonal(matrix)[:] *= 1.0 + raised
        found, info = xp.cholesky(matrix)
        raised *= 100.0
    return found


def norm(vector: Array) -> float:
    """|v|."""
    return math.sqrt(float(vector @ vector))


class System(Protocol):
    """A Newton system, ready to be solved for several right sides."""

    def solve(self, rhs: Array, r3: Array, rtol: float) -> tuple[Array, Array]:
        """Changes of the weights and of the three numbers."""


class Factored:
    """M as a d x d matrix, factored; for d up to a few thousand."""

    def __init__(self, frame: Frame, gram: Array, n_band: int) -> None:
        least = LIGHT * frame.lam / n_band
        heavy_gram, stiffness, product = frame.design.sum(working_set.heavy_gram, least)
        matrix = gram / frame.n_pos
        matrix += heavy_gram
        rest = frame.corner[0, 0] - stiffness
        if rest > 1e-9 * frame.corner[0, 0]:
            mean = (-frame.border[:, 0] - product) / rest**0.5
            matrix += mean[:, None] * mean
        self._arrays, self._border = frame.design.arrays, frame.border
        self._arrays.diagonal(matrix)[:] += frame.lam
        self._factor = factor(matrix)
        self._solved_border = self._arrays.cholesky_solve(self._factor, frame.border)
        self._corner = inverted(frame.corner - to_host(frame.border.T @ self._solved_border))

    def solve(self, rhs: Array, r3: Array, rtol: float) -> tuple[Array, Array]:
        """Changes of the weights and of the three numbers, exactly."""
        part = self._arrays.cholesky_solve(self._factor, rhs)
        numbers = self._corner @ (r3 - to_host(self._border.T @ part))
        return part - self._solved_border @ self._arrays.asarray(numbers), numbers


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


class Iterative:
    """Conjugate gradients on M with the three numbers eliminated, preconditioned."""

    def __init__(self, frame: Frame, spread: Spread) -> None:
        self._frame, self._arrays, self.n_steps = frame, frame.design.arrays, 0
        self._last: tuple[Array, Array, float] | None = None
        self._corner = inverted(frame.corner)
        self._pivot = self._arrays.asarray(self._corner)
        self._precondition = Preconditioner(frame, spread)

    def solve(self, rhs: Array, r3: Array, rtol: float) -> tuple[Array, Array]:
        """The same up to rtol in the preconditioner's norm; begins at the last answer."""
        frame, xp = self._frame, self._arrays
        goal = rhs - frame.border @ xp.asarray(self._corner @ r3)
        if self._last is None:
            found, image, reference = xp.zeros(len(rhs)), xp.zeros(len(rhs)), 0.0
        else:
            found, image, reference = self._last
            found = 1.0 * found
        residual = goal - image
        towards = self._precondition(residual)
        size = float(residual @ towards)
        reference = reference or size
        ahead, n_steps = towards, 0
        while size > rtol**2 * reference and n_steps < MAX_CG:
            forward = self._multiply(ahead)
            bend = ahead @ forward
            length = size / bend
            reached = residual - length * forward
            towards = self._precondition(reached)
            bent, remaining = xp.floats([bend, reached @ towards])
            if not bent > 0.0:
                break
            found += length * ahead
            residual, size, previous = reached, remaining, size
            ahead = towards + (size / previous) * ahead
            n_steps += 1
        self._last = found, goal - residual, reference
        self.n_steps += n_steps
        return found, self._corner @ (r3 - to_host(frame.border.T @ found))

    def _multiply(self, vector: Array) -> Array:
        frame = self._frame
        numbers = -(self._pivot @ (frame.border.T @ vector))
        product: Array = frame.design.sum(_curved, vector, numbers, frame.n_pos, frame.k)
        return product + frame.lam * vector


@read_only
@read_only
def _curved(block: Block, vector: Array, numbers: Array, n_pos: float, k: int) -> Array:
    """(M - lam I) v + B numbers, without the cancellation between the two."""
    part = part_of(block)
    tangent = part.tangent
    on_band = tangent.stiffness * (part.band.rows.scores(vector) - numbers[0])
    on_band += tangent.share * (numbers[2] / k)
    product = positives_of(block).rows.hessian_product(vector, part.bend / n_pos, numbers[1])
    product += part.band.rows.combine(on_band)
    return product


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
