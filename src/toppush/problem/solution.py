"""What every solver returns: the weights with a certificate, and how the solve ended."""

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from toppush.types import Array


class Status(Enum):
    """How a solve ended, as a sentence the user can act on.

    Examples
    --------
    >>> from toppush import Status
    >>> Status.MAX_ITER.value
    'max_iter came first; raise it or loosen tol.'
    >>> Status.MAX_ITER.success
    False
    """

    CONVERGED = "The duality gap fell below tol."
    SETTLED = "The dual objective changed by less than tol (relative); see gap for how close it is."
    SEPARATED = (
        "The objective fell to less than 1e-20 of that of weights of zero: every positive is above "
        "the top, and float64 has no digits left for the bound."
    )
    STALLED = "Steps became too small to matter; see gap for how close it is."
    DIVERGED = "The weights are far worse than zero; scale the features, raise lam or lower tol."
    STOPPED = "A callback asked to stop."
    MAX_ITER = "max_iter came first; raise it or loosen tol."

    def __reduce__(self) -> tuple[type["Status"], tuple[str]]:
        """Pickle by value, so that formats without enumerations can store it."""
        return type(self), (self.value,)

    @property
    def success(self) -> bool:
        """Whether the solve reached its goal."""
        return self not in (Status.MAX_ITER, Status.STALLED, Status.DIVERGED)


class Iteration(NamedTuple):
    """The bounds after an iteration."""

    upper: float
    lower: float
    data_passes: float
    """Reads of the whole data so far; a product with X or X' is one."""
    seconds: float


def safe_lower_bound(upper: float, lower: float) -> float:
    """A lower bound of a non-negative optimum from two computed bounds.

    Bounds that cross show the size of rounding: the lower one is put as far below the upper one as
    it was above.
    """
    return max(0.0, min(lower, 2.0 * upper - lower))


@dataclass(frozen=True, slots=True)
class Solution:
    """Weights with their certificate: the optimum lies between `lower` and `upper`.

    Attributes
    ----------
    weights : array of shape (n_features,)
    threshold : float
        T(w) on the training rows: the mean of the k greatest scores of negatives. Baselines
        document theirs.
    dual : array of shape (n_rows,)
        Dual variable of each row: alpha of a positive, beta of a negative. Empty for baselines
        whose duals belong to cuts, to other problems or to nothing.
    upper : float
        Objective at `weights`.
    lower : float
        Certified bound below the optimum, from a feasible dual point.
    n_iter : int
    status : Status
    history : tuple of Iteration

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import maxabs_scale
    >>> from toppush import TopPush
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> solution = TopPush(lam=0.01).fit(maxabs_scale(X), y).solution_
    >>> solution.lower <= solution.upper
    True
    >>> solution.relative_gap < 1e-4
    True
    >>> solution.status.value
    'The duality gap fell below tol.'
    """

    weights: Array
    threshold: float
    dual: Array = field(repr=False)
    upper: float
    lower: float
    n_iter: int
    status: Status
    history: tuple[Iteration, ...] = field(default=(), repr=False)

    @classmethod
    def guess(cls, weights: Array) -> "Solution":
        """Weights without bounds, to start a solve from."""
        none = np.empty(0)
        return cls(weights, np.nan, none, np.inf, -np.inf, 0, Status.STOPPED)

    def plot(self) -> Any:
        """Draw upper and lower bound against reads of the data and against seconds.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from toppush.plots import draw_history

        return draw_history(self.history)

    @property
    def gap(self) -> float:
        """Bound on the distance of the objective at `weights` from the optimum."""
        return self.upper - self.lower

    @property
    def relative_gap(self) -> float:
        """The gap relative to the objective."""
        return relative_gap(self.upper, self.lower)


def relative_gap(upper: float, lower: float) -> float:
    """The gap between two bounds as a share of the upper one; infinite if that is."""
    if not math.isfinite(upper):
        return math.inf
    return (upper - lower) / abs(upper) if upper else upper - lower


def closed(upper: float, lower: float, tol: float) -> bool:
    """Whether two bounds agree to a share of the upper one."""
    return relative_gap(upper, lower) <= tol
