"""Sums over the positives at a point: their pulls, their bends and, if formed, the Gram matrix."""

from toppush.designs.arrays import namespace
from toppush.problem.objective import TopPushProblem
from toppush.problem.tops import ROUNDING
from toppush.solvers.newton import positives
from toppush.solvers.newton.state import Gram
from toppush.solvers.newton.systems import norm
from toppush.types import Array

SLACK = 0.1
"""Share by which the bends of losses other than the truncated quadratic may be off."""


class Pulls:
    """The sums, followed from point to point.

    Attributes
    ----------
    total, squares : float
        Sum c l' and sum c l'^2.
    product, bend_product : array
        X'pull, and X'bend with the bends that the Newton matrix holds.
    """

    total: float
    squares: float
    product: Array
    bend_product: Array
    _weights: Array
    _threshold: float

    def __init__(self, problem: TopPushProblem, *, formed: bool, careful: bool) -> None:
        self._problem, self.formed = problem, formed
        self._careful = careful  # every point takes its sums anew from the rows
        self._quadratic = problem.loss.conjugate_curvature is not None

    @property
    def gram(self) -> Gram:
        """The Gram matrix as it was last formed."""
        gram = self._problem.design.known.find(Gram)
        assert gram is not None
        return gram

    @property
    def from_gram(self) -> bool:
        """Whether pulls are taken from the Gram matrix: pull = bend (1 + T - w.x), no read."""
        return self.formed and self._quadratic and not self._careful

    def update(self, weights: Array, threshold: float) -> None:
        """Take the sums at the scores that the blocks hold, which are of these weights."""
        design = self._problem.design
        self._weights, self._threshold = weights, threshold
        self.total, self.squares = design.sum(
            positives.bend_and_pull, self._problem.loss, threshold
        )
        if not self.formed:
            self.product, self.bend_product = design.sum(positives.pull_and_bend_products)
            return
        self._follow_gram()
        gram = self.gram
        self.bend_product = gram.bend_product
        if self.from_gram:
            self.product = (1.0 + threshold) * gram.bend_product
            self.product -= gram.matrix @ weights
        else:
            self.read_product()

    def read_product(self) -> None:
        """Take the pulls' product from the rows."""
        self.product = self._problem.design.sum(positives.pull_product)

    def _follow_gram(self) -> None:
        """Bring the Gram matrix to the latest bends; an earlier solve's will do to begin with."""
        design = self._problem.design
        n_changed, n_bent = design.sum(positives.count_changes, 0.0 if self._quadratic else SLACK)
        before = design.known.find(Gram)
        if before is None or self._careful or n_changed >= n_bent:
            self._keep_gram(None)
        elif n_changed:
            self._keep_gram(before)

    def _keep_gram(self, before: Gram | None) -> None:
        """Add the changes to what there was, or form it anew."""
        design = self._problem.design
        design.known.take(Gram)
        matrix, product = design.sum(positives.update_gram, before is None)
        largest = turnover = 0.0, 0.0
        trace = 0.0
        if before is not None:
            matrix, product = before.matrix + matrix, before.bend_product + product
            largest, turnover, trace = before.largest, before.turnover, _trace(before.matrix)
        sizes = norm(matrix.reshape(-1)), norm(product)
        largest = max(largest[0], sizes[0]), max(largest[1], sizes[1])
        bends = 2.0 * design.total_cost / (self._problem.loss.conjugate_curvature or 1.0)
        turnover = turnover[0] + 2.0 * bends, turnover[1] + trace + _trace(matrix)
        design.known.keep(Gram(matrix, product, largest, turnover))

    @property
    def turnover(self) -> tuple[float, float]:
        """That of the Gram matrix which the product was taken from, if it was."""
        return self.gram.turnover if self.from_gram else (0.0, 0.0)

    def in_doubt(self, push: Array, sure: float) -> bool:
        """Whether pulls taken from the Gram matrix lost digits that a bound needs.

        It was summed up over all changes, each rounded in proportion to the largest there was.
        """
        if not self.from_gram:
            return False
        curvature, largest = self._problem.loss.conjugate_curvature or 0.0, self.gram.largest
        size = abs(1.0 + self._threshold) * largest[1] + largest[0] * norm(self._weights)
        off, length = ROUNDING * size, norm(push)
        known = length * length / self._problem.scale + curvature * self.squares
        return bool(off * (2.0 * length + off) / self._problem.scale > sure * known)


def _trace(matrix: Array) -> float:
    return float(namespace(matrix).diagonal(matrix).sum())
