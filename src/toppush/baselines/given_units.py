"""The rows as a baseline works on them, and its answer for the rows as they were given.

The problems of the baselines see differences of scores alone, so a shift of all rows changes
nothing, and scale (x - center) with weights w has the scores of x with scale w, less a constant.
"""

from dataclasses import dataclass, replace

import numpy as np

from toppush.designs.usual import UsualRows
from toppush.problem.solution import Iteration, Solution
from toppush.solvers.journal import Watch
from toppush.types import Array


@dataclass(frozen=True)
class GivenUnits:
    """Takes what is found on usual rows back to the rows as they were given."""

    rows: UsualRows

    def solution(self, found: Solution) -> Solution:
        """The same solution."""
        weights, threshold = self._answer(found.weights, found.threshold)
        return replace(found, weights=weights, threshold=threshold)

    def watched(self, watch: Watch | None) -> Watch | None:
        """The same watcher."""
        if watch is None:
            return None

        def tell(history: tuple[Iteration, ...], weights: Array, threshold: float) -> bool:
            return watch(history, *self._answer(weights, threshold))

        return tell

    def _answer(self, weights: Array, threshold: float) -> tuple[Array, float]:
        weights, center = self.rows.scale * weights, self.rows.center
        return weights, threshold + (0.0 if center is None else float(center @ weights))


def rescaled_penalty(penalty: float, scale: float) -> float:
    """What penalty/2 |w|^2 is to weights of rows times scale: penalty scale^2.

    Refused if it is no number of full precision.
    """
    found = penalty * scale * scale
    if not np.finfo(np.float64).tiny <= found < np.inf:
        raise ValueError(
            f"X has entries of size {1.0 / scale:.1g}, which beside a penalty of {penalty:.3g} on "
            "the weights overflow; scale the features first, such as by MaxAbsScaler."
        )
    return found
