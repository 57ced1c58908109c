"""What the methods over pairs share: both classes' scores, the losses, the limit on pairs.

A pair is a negative z_j with a positive x_i. Arrays over pairs have a row per negative; they are
read and written some rows at a time, so that what NumPy makes on the way stays in the cache.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from toppush.designs import Block, Design
from toppush.problem.losses import LOSSES, Loss
from toppush.solvers.driver import Callback
from toppush.solvers.pairwise import ClassVectors
from toppush.types import Array

CHUNK = 1 << 15
"""Pairs per step: 256 KB."""
MAX_PAIRS = 20_000_000
POWER_ROUNDS = 30

Pair = tuple[Array, Array]
"""An entry for each positive, and for each negative."""


@dataclass(frozen=True)
class Hinge:
    """l(t) = (1 + t)_+, for methods that need no slope; l*(a) = -a on [0, 1]."""

    name: ClassVar[str] = "hinge"
    dual_limit: ClassVar[float] = 1.0
    conjugate_curvature: ClassVar[float | None] = None

    def value(self, violation: Array) -> Array:
        return np.maximum(1.0 + violation, 0.0)

    def slope(self, violation: Array) -> Array:
        return np.where(violation > -1.0, 1.0, 0.0)

    def curvature(self, violation: Array) -> Array:
        return np.zeros_like(violation)

    def conjugate(self, dual: Array) -> Array:
        return np.where((dual >= 0.0) & (dual <= 1.0), -dual, np.inf)

    def conjugate_slope(self, dual: Array) -> Array:
        return np.full_like(dual, -1.0)

    def raised(self, mean: float, by: float) -> float:
        return mean + by

    def dual_prox(self, point: Array, weight: Array | float) -> tuple[Array, Array]:
        free = point + 1.0 / weight
        return np.clip(free, 0.0, 1.0), np.where((free > 0.0) & (free < 1.0), 1.0, 0.0)


PAIR_LOSSES: dict[str, Loss] = {Hinge.name: Hinge(), **LOSSES}


class Limits(NamedTuple):
    """When a solve ends, and who follows it."""

    tol: float
    max_iter: int
    watch: Callback | None = None


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


class TwoClasses(ClassVectors):
    """The scores of the positives and of the negatives as two vectors, and back to features.

    Methods over pairs meet every positive with every negative, so these vectors leave the
    blocks; the rows stay there.
    """

    def __init__(self, design: Design, row_weights: Array) -> None:
        super().__init__(design)
        self.weights = self.split(row_weights)
        """Weights of the positives and of the negatives."""

    def scores(self, weights: Array) -> Pair:
        """X+ w and X- w; the blocks keep them too."""
        self.design.each(Block.score, weights)
        return self.split(self.design.gather(_joined_scores))


def normal_product(rows: TwoClasses) -> Callable[[Array], Array]:
    """The product of D'D with weights, D having a row x_i - z_j for every pair."""
    n_pos, n_neg = (side.size for side in rows.weights)

    def apply(weights: Array) -> Array:
        on_pos, on_neg = rows.scores(weights)
        return rows.combine(n_neg * on_pos - on_neg.sum(), n_pos * on_neg - on_pos.sum())

    return apply


def greatest_eigenvalue(apply: Callable[[Array], Array], n_features: int) -> float:
    """About the greatest eigenvalue of a symmetric product, by the power method; 1 if it is 0."""
    vector = np.random.default_rng(0).normal(size=n_features)
    size = 0.0
    for _ in range(POWER_ROUNDS):
        vector = apply(vector / np.linalg.norm(vector))
        size = float(np.linalg.norm(vector))
        if not size:
            return 1.0
    return size


def _joined_scores(block: Block) -> Array:
    return block.join(*block.scores)
