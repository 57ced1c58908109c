"""What every form of the Newton system starts from: its border and its corner."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dgesv

from toppush.designs import Design
from toppush.designs.arrays import namespace
from toppush.solvers.newton import band
from toppush.types import Array


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


def frame(design: Design, lam: float, k: int, sums: band.Border, bend_product: Array) -> Frame:
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
