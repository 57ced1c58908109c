"""The Newton system in the weights and three numbers, formed and factored or solved by CG.

    [ M   B ] [dw]     [rhs]      M = lam I + X+'diag(bend)X+ / m + Z'diag(theta)Z
    [ B'  S ] [d3]  =  [r3 ]      d3 = changes of level s, threshold T and pull G

B's columns are -Z'theta, -X+'bend/m and Z'kappa/k; S is 3 x 3. X+ are the positives, Z the band.
"""

import math
from typing import Protocol

from toppush.designs import Block, read_only
from toppush.designs.arrays import to_host
from toppush.solvers.newton import band
from toppush.solvers.newton.frame import Frame, factor, inverted
from toppush.solvers.newton.preconditioner import Preconditioner, Spread
from toppush.solvers.newton.state import part_of, positives_of
from toppush.types import Array

LIGHT = 3.0
"""Formed: negatives below this weight, times lam over their number, enter as their mean."""
MAX_CG = 600


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
        self._corner = inverted(frame.corner - to_host(frame.border.T @ self._solved_border))

    def solve(self, rhs: Array, r3: Array, rtol: float) -> tuple[Array, Array]:
        """Changes of the weights and of the three numbers, exactly."""
        part = self._arrays.cholesky_solve(self._factor, rhs)
        numbers = self._corner @ (r3 - to_host(self._border.T @ part))
        return part - self._solved_border @ self._arrays.asarray(numbers), numbers


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


# ---- in the blocks


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
