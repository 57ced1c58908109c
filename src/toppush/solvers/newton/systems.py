"""The Newton system in the weights and three numbers, formed and factored or solved by CG.

    [ M   B ] [dw]     [rhs]      M = lam I + X+'diag(bend)X+ / m + Z'diag(theta)Z
    [ B'  S ] [d3]  =  [r3 ]      d3 = changes of level s, threshold T and pull G

B's columns are -Z'theta, -X+'bend/m and Z'kappa/k; S is 3 x 3. X+ are the positives, Z the band.
"""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from toppush.designs import Block, Design, only_asks
from toppush.designs.arrays import Arrays, namespace, to_host
from toppush.designs.rows import ExactRows
from toppush.solvers.newton import band
from toppush.solvers.newton.state import part_of, positives_of
from toppush.types import Array

LIGHT = 3.0
"""Formed: negatives below this weight, times lam over their number, enter as their mean."""
HEAVY = 5.0
"""CG: negatives above this weight, times lam, enter the preconditioner one by one."""
MOST_HEAVY = 3000
MAX_CG = 200
SLOW_CG = 200
"""CG steps in one iteration after which the positives, if few, enter the preconditioner too;
it is then nearly exact, and the tolerance is multiplied by `WITH_POSITIVES_RTOL`."""
FEW_POSITIVES = 4000
WITH_POSITIVES_RTOL = 0.03


def norm(vector: Array) -> float:
    """|v|."""
    return math.sqrt(float(vector @ vector))


def few_positives(design: Design) -> bool:
    """Whether the positives may enter the preconditioner one by one."""
    return design.n_pos <= min(FEW_POSITIVES, design.most_exact / 2)


class System(Protocol):
    """A Newton system, ready to be solved for several right sides."""

    def solve(self, rhs: Array, r3: Array, rtol: float) -> tuple[Array, Array]:
        """Changes of the weights and of the three numbers."""


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
    design: Design, lam: float, k: int, sums: band.Border, bend_product: Array, bend: float
) -> Frame:
    """Border and corner from the band's sums and the positives' bends."""
    m = design.total_cost
    columns = [-sums.stiff_product, -bend_product / m, sums.share_product / k]
    border = design.arrays.column_stack(columns)
    uncapped = 1.0 - sums.share / k
    corner = np.array(
        [
            [sums.stiffness, 0.0, uncapped],
            [0.0, bend / m, -1.0],
            [uncapped, -1.0, -sums.give / k**2],
        ]
    )
    return Frame(design, lam, k, border, corner, bend_product)


class Factored:
    """M as a d x d matrix, factored; for d up to a few thousand."""

    def __init__(self, frame: Frame, gram: Array, n_band: int) -> None:
        least = LIGHT * frame.lam / n_band
        heavy_gram, stiffness, product = frame.design.sum(band.heavy_gram, least)
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
        self._corner = np.linalg.inv(frame.corner - to_host(frame.border.T @ self._solved_border))

    def solve(self, rhs: Array, r3: Array, rtol: float) -> tuple[Array, Array]:
        """Changes of the weights and of the three numbers, exactly."""
        part = self._arrays.cholesky_solve(self._factor, rhs)
        numbers = self._corner @ (r3 - to_host(self._border.T @ part))
        return part - self._solved_border @ self._arrays.asarray(numbers), numbers


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


@dataclass
class Memory:
    """Inner products kept between iterations of CG: of heavy negatives, and of positives."""

    arrays: Arrays
    most: float = np.inf
    """Negatives to know at most; with more, all are forgotten but those asked for."""
    rows: ExactRows | None = None
    """Negatives that were ever heavy, in the order they came."""
    numbers: NDArray[Any] = field(default_factory=lambda: np.empty(0, int))
    """Their numbers among all negatives."""
    with_positives: bool = False
    products: Array = field(init=False)
    _positives: ExactRows | None = None
    _among_positives: Array | None = None
    _across: Array | None = None

    def __post_init__(self) -> None:
        self.products = self.arrays.empty((0, 0))

    def among(self, numbers: NDArray[Any], rows: ExactRows) -> Array:
        """Inner products of these negatives, known by number, each computed once."""
        new = np.flatnonzero(~np.isin(numbers, self.numbers))
        if len(self.numbers) + len(new) > self.most:
            self._forget()
            new = np.arange(len(numbers))
        if len(new):
            fresh, known = rows.subset(self.arrays.asarray(new)), len(self.numbers)
            self.rows = fresh if self.rows is None else self.rows.stacked(fresh)
            self.numbers = np.concatenate([self.numbers, numbers[new]])
            size = len(self.numbers)
            self._make_room(size)
            block = fresh.inner_products(self.rows)
            self.products[known:size, :size] = block
            self.products[:known, known:size] = block[:, :known].T
        at = self._places(numbers)
        products: Array = self.products[at[:, None], at]
        return products

    def _forget(self) -> None:
        """Start over with the negatives."""
        self.rows, self.numbers = None, np.empty(0, int)
        self.products = self.arrays.empty((0, 0))
        if self._across is not None:
            self._across = self._across[:0]

    def _make_room(self, size: int) -> None:
        """Let the table of products hold so many rows and more."""
        old = self.products
        if size > len(old):
            self.products = self.arrays.empty((int(1.5 * size), int(1.5 * size)))
            self.products[: len(old), : len(old)] = old

    def _places(self, numbers: NDArray[Any]) -> Any:
        order = np.argsort(self.numbers)
        found = order[np.searchsorted(self.numbers, numbers, sorter=order)]
        return self.arrays.asarray(found)

    def with_positive(
        self, design: Design, numbers: NDArray[Any], bent: NDArray[Any]
    ) -> tuple[ExactRows, Array, Array]:
        """Rows of these positives, and their products with these negatives and each other."""
        if self._positives is None:
            self._positives = _stacked(design.each(_exact_positives))
            self._among_positives = self._positives.inner_products(self._positives)
            self._across = self.arrays.empty((0, self._positives.shape[0]))
        assert self._across is not None
        assert self._among_positives is not None
        known = len(self._across)
        if known < len(self.numbers):
            assert self.rows is not None
            later = self.arrays.asarray(np.arange(known, len(self.numbers)))
            fresh = self.rows.subset(later).inner_products(self._positives)
            self._across = self.arrays.concatenate([self._across, fresh])
        at = self.arrays.asarray(bent)
        across = self._across[self._places(numbers)[:, None], at]
        return self._positives.subset(at), across, self._among_positives[at[:, None], at]


def _stacked(parts: list[ExactRows]) -> ExactRows:
    return parts[0] if len(parts) == 1 else parts[0].stacked(*parts[1:])


class _Heavy(NamedTuple):
    """The negatives that weigh most in the Newton matrix."""

    rows: ExactRows
    numbers: NDArray[Any]
    """Among all negatives; a NumPy array."""
    stiffness: Array
    share: Array


def _find_heavy(design: Design, least: float) -> _Heavy:
    """Those above a weight, or the greatest if there are too many."""
    weights = design.gather(band.weights_in_matrix)
    most = int(min(MOST_HEAVY, design.most_exact / 2))
    if np.count_nonzero(weights > least) > most:
        least = float(np.partition(weights, -most)[-most])
    rows, *others = zip(*design.each(_heavy_rows, least), strict=True)
    numbers, stiffness, share = (design.arrays.concatenate(parts) for parts in others)
    return _Heavy(_stacked(list(rows)), to_host(numbers), stiffness, share)


class Iterative:
    """Conjugate gradients on M with the three numbers eliminated.

    The preconditioner has the same border and lam I + U'diag(t)U in place of M, where the rows U
    are the heavy negatives one by one, the mean of the light ones, and the mean of the positives
    or, once CG has been slow, every positive that bends. It is inverted in the space of U.
    """

    def __init__(self, frame: Frame, memory: Memory) -> None:
        self._frame, self._arrays, self.n_steps = frame, frame.design.arrays, 0
        self._last: tuple[Array, Array, float] | None = None
        self._corner = np.linalg.inv(frame.corner)
        self._pivot = self._arrays.asarray(self._corner)
        self._build(memory)

    def _build(self, memory: Memory) -> None:
        frame, xp, k = self._frame, self._arrays, self._frame.k
        heavy = _find_heavy(frame.design, HEAVY * frame.lam)
        products, n_heavy = memory.among(heavy.numbers, heavy.rows), len(heavy.numbers)
        heavy_share, stiffness = xp.floats([heavy.share.sum(), heavy.stiffness.sum()])
        rest = max(frame.corner[0, 0] - stiffness, 1e-12 * frame.corner[0, 0])
        means = [(-frame.border[:, 0] - heavy.rows.combine(heavy.stiffness)) / rest]
        self._rows, single, mean_weights = heavy.rows, heavy.stiffness, [rest]
        if memory.with_positives:
            bend = frame.design.gather(_bends)
            bent = np.flatnonzero(bend > 0.0)
            more, across, among = memory.with_positive(frame.design, heavy.numbers, bent)
            self._rows = heavy.rows.stacked(more)
            products = _bordered(products, across, among)
            single = xp.concatenate([single, xp.asarray(bend[bent] / frame.n_pos)])
        else:
            mean_weights.append(max(frame.corner[1, 1], 1e-300))
            means.append(frame.bend_product / (frame.n_pos * mean_weights[1]))
        n_single, self._means = len(single), xp.stack(means)
        self._n_single, size = n_single, n_single + len(means)
        outside = xp.column_stack([self._rows.scores(mean) for mean in means])
        gram = _bordered(products, outside, self._means @ self._means.T)
        inner = xp.zeros((size, 3))  # the border in the space of U: B = U' inner
        inner[:n_heavy, 0], inner[n_single, 0] = -heavy.stiffness, -rest
        inner[:n_heavy, 2] = heavy.share / k
        inner[n_single, 2] = (k * (1.0 - frame.corner[0, 2]) - heavy_share) / k
        if memory.with_positives:
            inner[n_heavy:n_single, 1] = -single[n_heavy:]
        else:
            inner[n_single + 1, 1] = -mean_weights[1]
        outer = gram @ inner
        inverse = 1.0 / xp.concatenate([single, xp.asarray(mean_weights)])
        xp.diagonal(gram)[:] += frame.lam * inverse
        self._solve = xp.solver(factor(gram))
        self._inner = self._solve(inverse[:, None] * inner)
        middle = np.linalg.inv(frame.corner - to_host(outer.T @ self._inner))
        self._middle = xp.asarray(middle)

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

    def _precondition(self, vector: Array) -> Array:
        lam, n_single = self._frame.lam, self._n_single
        inside = self._arrays.concatenate([self._rows.scores(vector), self._means @ vector])
        solved = self._solve(inside)
        solved -= self._inner @ (lam * (self._middle @ (self._inner.T @ inside)))
        result = vector - self._rows.combine(solved[:n_single])
        result -= solved[n_single:] @ self._means
        return result / lam


def _bordered(square: Array, side: Array, corner: Array) -> Array:
    """[[square, side], [side', corner]]."""
    inner, size = len(square), len(square) + len(corner)
    whole = namespace(square).empty((size, size))
    whole[:inner, :inner], whole[:inner, inner:] = square, side
    whole[inner:, :inner], whole[inner:, inner:] = side.T, corner
    return whole


# ---- in the blocks


@only_asks
def _curved(block: Block, vector: Array, numbers: Array, n_pos: float, k: int) -> Array:
    """(M - lam I) v + B numbers, without the cancellation between the two."""
    part = part_of(block)
    tangent = part.tangent
    on_band = tangent.stiffness * (part.band.rows.scores(vector) - numbers[0])
    on_band += tangent.share * (numbers[2] / k)
    product = positives_of(block).rows.curved(vector, part.bend / n_pos, numbers[1])
    product += part.band.rows.combine(on_band)
    return product


@only_asks
def _heavy_rows(block: Block, least: float) -> tuple[ExactRows, Any, Array, Array]:
    """Rows, numbers among all negatives, stiffness and share of the heavy ones."""
    where = block.arrays.flatnonzero(band.heavy(block, least))
    working, tangent = part_of(block).band, part_of(block).tangent
    numbers = block.first_negative + working.where[where]
    return (
        working.rows.subset(where).exact(),
        numbers,
        tangent.stiffness[where],
        tangent.share[where],
    )


@only_asks
def _bends(block: Block) -> Array:
    return part_of(block).bend


@only_asks
def _exact_positives(block: Block) -> ExactRows:
    return positives_of(block).rows.exact()
