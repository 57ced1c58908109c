"""What the methods over pairs share: both classes' scores, the limit on pairs, the estimator.

A pair is a negative z_j with a positive x_i. Arrays over pairs have a row per negative; they are
read and written some rows at a time, so that what NumPy makes on the way stays in the cache.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning

from toppush.designs import Block, Design, LocalDesign
from toppush.estimators import (
    Labels,
    LinearRanker,
    Matrix,
    read_rows,
    require_both,
    unchanged_on_failure,
)
from toppush.losses import LOSSES, Array, Loss
from toppush.solutions import Iteration, Solution

CHUNK = 1 << 15
"""Pairs per step: 256 KB."""
MAX_PAIRS = 20_000_000
PATIENCE = 1000
STUCK = 1e-5
"""Relative gap that products of float32 rows may leave; above it, slow is not stuck."""


@dataclass(frozen=True)
class Hinge:
    """l(t) = (1 + t)_+, the support vector methods' loss; l*(a) = -a on [0, 1]."""

    name: ClassVar[str] = "hinge"
    dual_limit: ClassVar[float] = 1.0
    conjugate_curvature: ClassVar[float | None] = None

    def value(self, violation: Array) -> Array:
        """(1 + t)_+."""
        return np.maximum(1.0 + violation, 0.0)

    def slope(self, violation: Array) -> Array:
        """1 above t = -1, else 0."""
        return np.where(violation > -1.0, 1.0, 0.0)

    def curvature(self, violation: Array) -> Array:
        """0 on both sides of the kink."""
        return np.zeros_like(violation)

    def conjugate(self, dual: Array) -> Array:
        """-a on [0, 1]."""
        return np.where((dual >= 0.0) & (dual <= 1.0), -dual, np.inf)

    def conjugate_slope(self, dual: Array) -> Array:
        """-1, the violation at the kink."""
        return np.full_like(dual, -1.0)

    def dual_prox(self, point: Array, stiffness: Array | float) -> tuple[Array, Array]:
        """Minimiser of -a + stiffness/2 (a - point)^2 on [0, 1], and da/dpoint."""
        free = point + 1.0 / stiffness
        return np.clip(free, 0.0, 1.0), np.where((free > 0.0) & (free < 1.0), 1.0, 0.0)


PAIR_LOSSES: dict[str, Loss] = {Hinge.name: Hinge(), **LOSSES}


def row_chunks(n_rows: int, width: int) -> Iterator[slice]:
    """Ranges of rows of about CHUNK entries."""
    step = max(1, CHUNK // max(width, 1))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def require_pairs(n_pos: int, n_neg: int, max_pairs: int, bytes_per_pair: int) -> None:
    """Refuse, before anything is allocated, more pairs than allowed."""
    n_pairs = n_pos * n_neg
    if n_pairs > max_pairs:
        raise ValueError(
            f"{n_pos} positives and {n_neg} negatives make {n_pairs} pairs, which need "
            f"{n_pairs * bytes_per_pair / 2**30:.2g} GiB; max_pairs={max_pairs} allows "
            f"{max_pairs * bytes_per_pair / 2**30:.2g} GiB. Raise max_pairs to at least {n_pairs} "
            "if the memory is there, or use TopPush, which solves the problem without pairs in "
            "time and memory linear in the rows."
        )


def is_stuck(history: list[Iteration]) -> bool:
    """Whether rounding is all that is left of the gap, and 1000 iterations did not shrink it."""
    if len(history) <= PATIENCE:
        return False
    now, then = history[-1], history[-1 - PATIENCE]
    gap, before = now.upper - now.lower, then.upper - then.lower
    return gap <= STUCK * abs(now.upper) and gap > 0.99 * before


class TwoClasses:
    """The scores of the positives and of the negatives as two vectors, and back to features.

    Methods over pairs meet every positive with every negative, so these vectors leave the
    blocks; the rows stay there.
    """

    def __init__(self, design: Design, sample_weight: Array | None = None) -> None:
        self.design = design
        side = design.gather(_sides)
        self._where = np.flatnonzero(side > 0), np.flatnonzero(side < 0)
        self._n_rows = side.size
        weight = np.ones(side.size) if sample_weight is None else sample_weight
        self.weights = self.split(weight)
        """Weights of the positives and of the negatives."""

    def split(self, vector: Array) -> tuple[Array, Array]:
        """The positives' and the negatives' entries of a vector over all rows."""
        return vector[self._where[0]], vector[self._where[1]]

    def join(self, on_positives: Array, on_negatives: Array) -> Array:
        """A vector over all rows; rows of weight zero get 0."""
        vector = np.zeros(self._n_rows)
        vector[self._where[0]], vector[self._where[1]] = on_positives, on_negatives
        return vector

    def scores(self, weights: Array) -> tuple[Array, Array]:
        """X+ w and X- w; the blocks keep them too."""
        self.design.each(Block.score, weights)
        return self.split(self.design.gather(_joined_scores))

    def combine(self, on_positives: Array, on_negatives: Array) -> Array:
        """X+' u + X-' v."""
        self.design.scatter(_receive, self.join(on_positives, on_negatives))
        total: Array = self.design.sum(_combined)
        return total


def _sides(block: Block) -> Array:
    return block.join(1.0, -1.0)


def _joined_scores(block: Block) -> Array:
    return block.join(*block.scores)


def _receive(block: Block, vector: Array) -> None:
    block.state.vector = vector


def _combined(block: Block) -> Array:
    return block.rows.combine(block.state.vector)


class BaselineRanker(LinearRanker):
    """Fit of a published linear ranker: validate, build the blocks, solve, record.

    A subclass gives `_solve(design, sample_weight)`.
    """

    n_threads: int | None
    solution_: Solution

    def _solve(self, design: LocalDesign, sample_weight: Array | None) -> Solution:
        raise NotImplementedError

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels, sample_weight: Any | None = None) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)
            Two classes; the greater one is positive.
        sample_weight : array of shape (n_samples,), optional
            See the class for what a weight means; a row of weight zero is out.

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            return self._fit(X, y, sample_weight)

    def _fit(self, X: Matrix, y: Labels, sample_weight: Any | None) -> Self:
        X, _, classes, positive, sample_weight = read_rows(self, X, y, sample_weight)
        with LocalDesign(X, positive, sample_weight, n_threads=self.n_threads) as design:
            require_both(design, classes)
            solution = self._solve(design, sample_weight)
        return self._record(classes, solution)

    def _record(self, classes: NDArray[Any], solution: Solution) -> Self:
        self._keep(solution, classes)
        if not solution.status.success:
            warnings.warn(
                f"{solution.status.value} After {solution.n_iter} iterations the objective is "
                f"{solution.upper:.6g} and the optimum is not below {solution.lower:.6g}.",
                ConvergenceWarning,
                stacklevel=5,
            )
        return self
