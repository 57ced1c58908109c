"""The Newton system in the weights and three numbers, formed and factored or solved by CG.

    [ M   B ] [dw]     [rhs]      M = lam I + X+'diag(bend)X+ / m + Z'diag(theta)Z
    [ B'  S ] [d3]  =  [r3 ]      d3 = changes of level s, threshold T and pull G

B's columns are -Z'theta, -X+'bend/m and Z'kappa/k; S is 3 x 3. X+ are the positives, Z the band.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from toppush.designs import Block, Design
from toppush.designs.rows import inner_products, stack
from toppush.losses import Array
from toppush.solvers import band

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
    """S."""
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
    border = np.column_stack([-sums.stiff_product, -bend_product / m, sums.share_product / k])
    held = 1.0 - sums.share / k
    corner = np.array(
        [[sums.stiffness, 0.0, held], [0.0, bend / m, -1.0], [held, -1.0, -sums.give / k**2]]
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
            mean = (-frame.border[:, 0] - product) / np.sqrt(rest)
            matrix += mean[:, None] * mean
        matrix.flat[:: len(matrix) + 1] += frame.lam
        self._border = frame.border
        self._factor = factor(matrix)
        self._solved_border = dpotrs(self._factor, frame.border, lower=1)[0]
        self._corner = np.linalg.inv(frame.corner - frame.border.T @ self._solved_border)

    def solve(self, rhs: Array, r3: Array, rtol: float) -> tuple[Array, Array]:
        """Changes of the weights and of the three numbers, exactly."""
        part = dpotrs(self._factor, rhs, lower=1)[0]
        numbers = self._corner @ (r3 - self._border.T @ part)
        return part - self._solved_border @ numbers, numbers


def factor(matrix: Array) -> Array:
    """Cholesky factor, the diagonal raised as little as it takes."""
    found, info = dpotrf(matrix, lower=1)
    raised = 1e-12
    while info and raised < 1.0:
        matrix.flat[:: len(matrix) + 1] *= 1.0 + raised
        found, info = dpotrf(matrix, lower=1)
        raised *= 100.0
    return np.asarray(found)


@dataclass
class Memory:
    """Inner products kept between iterations of CG: of heavy negatives, and of positives."""

    rows: Any = None
    """Negatives that were ever heavy, in the order they came."""
    numbers: NDArray[Any] = field(default_factory=lambda: np.empty(0, int))
    """Their numbers among all negatives."""
    products: Array = field(default_factory=lambda: np.empty((0, 0)))
    with_positives: bool = False
    _positives: Any = None
    _among_positives: Array | None = None
    _across: Array | None = None

    def among(self, numbers: NDArray[Any], rows: Any) -> Array:
        """Inner products of these negatives, known by number, each computed once."""
        new = ~np.isin(numbers, self.numbers)
        if new.any():
            fresh, known = rows[new], len(self.numbers)
            self.rows = fresh if self.rows is None else stack([self.rows, fresh])
            self.numbers = np.concatenate([self.numbers, numbers[new]])
            size = len(self.numbers)
            self.products = _grown(self.products, size)
            block = inner_products(fresh, self.rows)
            self.products[known:size, :size] = block
            self.products[:known, known:size] = block[:, :known].T
        at = self._places(numbers)
        return np.asarray(self.products[at[:, None], at])

    def _places(self, numbers: NDArray[Any]) -> NDArray[Any]:
        order = np.argsort(self.numbers)
        return np.asarray(order[np.searchsorted(self.numbers, numbers, sorter=order)])

    def with_positive(
        self, design: Design, numbers: NDArray[Any], held: NDArray[Any]
    ) -> tuple[Any, Array, Array]:
        """Rows of these positives, and their products with these negatives and each other."""
        if self._positives is None:
            self._positives = stack(design.each(_positive_matrix))
            self._among_positives = inner_products(self._positives, self._positives)
            self._across = np.empty((0, self._positives.shape[0]))
        assert self._across is not None
        assert self._among_positives is not None
        if len(self._across) < len(self.numbers):
            fresh = inner_products(self.rows[len(self._across) :], self._positives)
            self._across = np.concatenate([self._across, fresh])
        across = self._across[self._places(numbers)[:, None], held]
        return self._positives[held], across, self._among_positives[held[:, None], held]


class Iterative:
    """Conjugate gradients on M with the three numbers eliminated.

    The preconditioner has the same border and lam I + U'diag(t)U in place of M, where the rows U
    are the heavy negatives one by one, the mean of the light ones, and the mean of the positives
    or, once CG has been slow, every positive that bends. It is inverted in the space of U.
    """

    def __init__(self, frame: Frame, memory: Memory) -> None:
        self._frame, self.n_steps = frame, 0
        self._last: tuple[Array, Array, float] | None = None
        self._corner = np.linalg.inv(frame.corner)
        self._build(memory)

    def _build(self, memory: Memory) -> None:
        frame = self._frame
        design, k = frame.design, frame.k
        least = HEAVY * frame.lam
        weights = design.gather(_heavy_weights)
        if np.count_nonzero(weights > least) > MOST_HEAVY:
            least = float(np.partition(weights, -MOST_HEAVY)[-MOST_HEAVY])
        found = design.each(_heavy_rows, least)
        rows = stack([part[0] for part in found])
        numbers, stiffness, share = (
            np.concatenate([part[place] for part in found]) for place in (1, 2, 3)
        )
        products, n_heavy = memory.among(numbers, rows), len(numbers)
        rest = max(frame.corner[0, 0] - stiffness.sum(), 1e-12 * frame.corner[0, 0])
        means = [(-frame.border[:, 0] - rows.T @ stiffness) / rest]
        single, mean_weights = stiffness, [rest]
        if memory.with_positives:
            bend = design.gather(_bends)
            held = np.flatnonzero(bend > 0.0)
            more, across, among = memory.with_positive(design, numbers, held)
            rows = stack([rows, more])
            products = np.block([[products, across], [across.T, among]])
            single = np.concatenate([stiffness, bend[held] / frame.n_pos])
        else:
            mean_weights.append(max(frame.corner[1, 1], 1e-300))
            means.append(frame.bend_product / (frame.n_pos * mean_weights[1]))
        n_single = len(single)
        size = n_single + len(means)
        self._rows, self._columns, self._means = rows, rows.T, np.array(means)
        gram = np.empty((size, size))
        gram[:n_single, :n_single] = products
        gram[:n_single, n_single:] = np.column_stack([rows @ mean for mean in means])
        gram[n_single:, :n_single] = gram[:n_single, n_single:].T
        gram[n_single:, n_single:] = self._means @ self._means.T
        self._n_single = n_single
        inverse = 1.0 / np.concatenate([single, mean_weights])
        inner = np.zeros((size, 3))  # the border in the space of U: B = U' inner
        inner[:n_heavy, 0], inner[n_single, 0] = -stiffness, -rest
        inner[:n_heavy, 2] = share / k
        inner[n_single, 2] = (frame.k * (1.0 - frame.corner[0, 2]) - share.sum()) / k
        if memory.with_positives:
            inner[n_heavy:n_single, 1] = -single[n_heavy:]
        else:
            inner[n_single + 1, 1] = -mean_weights[1]
        outer = gram @ inner
        gram.flat[:: size + 1] += frame.lam * inverse
        self._factor = factor(gram)
        self._inner = dpotrs(self._factor, inverse[:, None] * inner, lower=1)[0]
        self._middle = np.linalg.inv(frame.corner - outer.T @ self._inner)

    def solve(self, rhs: Array, r3: Array, rtol: float) -> tuple[Array, Array]:
        """The same up to rtol in the preconditioner's norm; begins at the last answer."""
        frame = self._frame
        goal = rhs - frame.border @ (self._corner @ r3)
        if self._last is None:
            found, image, reference = np.zeros_like(rhs), np.zeros_like(rhs), 0.0
        else:
            found, image, reference = self._last
            found = found.copy()
        residual = goal - image
        towards = self._precondition(residual)
        size = float(residual @ towards)
        reference = reference or size
        ahead, n_steps = towards, 0
        while size > rtol**2 * reference and n_steps < MAX_CG:
            forward = self._multiply(ahead)
            bend = float(ahead @ forward)
            if not bend > 0.0:
                break
            length = size / bend
            found += length * ahead
            residual = residual - length * forward
            towards = self._precondition(residual)
            size, previous = float(residual @ towards), size
            ahead = towards + (size / previous) * ahead
            n_steps += 1
        self._last = found, goal - residual, reference
        self.n_steps += n_steps
        return found, self._corner @ (r3 - frame.border.T @ found)

    def _multiply(self, vector: Array) -> Array:
        frame = self._frame
        numbers = -(self._corner @ (frame.border.T @ vector))
        product: Array = frame.design.sum(_curved, vector, numbers, frame.n_pos, frame.k)
        return product + frame.lam * vector

    def _precondition(self, vector: Array) -> Array:
        inside = np.concatenate([self._rows @ vector, self._means @ vector])
        lam = self._frame.lam
        solved = dpotrs(self._factor, inside, lower=1)[0]
        solved -= self._inner @ (lam * (self._middle @ (self._inner.T @ inside)))
        result = vector - self._columns @ solved[: self._n_single]
        result -= solved[self._n_single :] @ self._means
        return np.asarray(result / lam)


# ---- in the blocks


def _curved(block: Block, vector: Array, numbers: Array, n_pos: float, k: int) -> Array:
    """(M - lam I) v + B numbers, without the cancellation between the two."""
    state, tangent = block.state, block.state.tangent
    on_positives = state.positive_rows.scores(vector) - numbers[1]
    on_band = tangent.stiffness * (state.band.rows.scores(vector) - numbers[0])
    on_band += tangent.share * (numbers[2] / k)
    product: Array = state.positive_rows.combine(state.bend * on_positives / n_pos)
    product += state.band.rows.combine(on_band)
    return product


def _heavy_weights(block: Block) -> Array:
    return np.asarray(block.state.tangent.stiffness * block.state.band.norms)


def _heavy_rows(block: Block, least: float) -> tuple[Any, NDArray[Any], Array, Array]:
    """Rows, numbers among all negatives, stiffness and share of the heavy ones."""
    where = np.flatnonzero(band.heavy(block, least))
    working, tangent = block.state.band, block.state.tangent
    numbers = block.first_negative + working.where[where]
    rows = working.rows.subset(where).matrix()
    return rows, numbers, tangent.stiffness[where], tangent.share[where]


def _bends(block: Block) -> Array:
    return np.asarray(block.state.bend)


def _positive_matrix(block: Block) -> Any:
    return block.state.positive_rows.matrix()


def _grown(square: Array, size: int) -> Array:
    """The square in the corner of one at least this large, with room to grow."""
    if size <= len(square):
        return square
    larger = np.empty((int(1.5 * size), int(1.5 * size)))
    larger[: len(square), : len(square)] = square
    return larger
