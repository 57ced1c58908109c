"""The P-Norm Push: between the mean over negatives (p = 1) and their maximum (p -> infinity)."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from toppush.baselines.pairs import TwoClasses
from toppush.baselines.push_norms import PUSH_NORMS, PushNorm
from toppush.baselines.ranker import POSITIVE, SHARED, Constraints, Task, WeightedRanker
from toppush.problem.losses import LOSSES
from toppush.problem.solution import Solution, Status, proven_below
from toppush.solvers.journal import Journal
from toppush.types import Array

MEMORY = 20
"""Pairs of changes that the quasi-Newton step remembers."""
MAX_HALVINGS = 60
ROUNDING = 8 * float(np.finfo(np.float64).eps)

Evaluate = Callable[[Array], tuple[float, Array, float]]


class PNormPush(WeightedRanker):
    """Linear ranker that presses on negatives the more, the more positives they beat.

    Minimises lam/2 |w|^2 + (mean_j h_j^p)^(1/p), where h_j = mean_i l(w.z_j - w.x_i) is how badly
    the negative z_j does, by limited-memory quasi-Newton steps. The published objective is
    sum_j h_j^p without a penalty; the root leaves its minimiser in place, keeps `lam` comparable
    across p, and makes InfinitePush the limit: p = 1 is the pairwise ranking loss, p = infinity
    the Infinite Push.

    An iteration takes O((m+n)d) time for the exponential loss, O((m+n)(d + log(m+n))) for the
    truncated quadratic and O(mn + (m+n)d) for the logistic; memory is O(m+n) for all.

    Parameters
    ----------
    lam : float, default=1.0
        Strength of the penalty on the weights.
    p : float, default=4.0
        At least 1; the greater, the more the top of the list counts.
    loss : {"exponential", "truncated_quadratic", "logistic"}, default="exponential"
        The published loss is the exponential.
    tol : float, default=1e-4
        Ends when the certified gap is at most this share of the objective.
    max_iter, n_threads
        As for `InfinitePush`.

    Attributes
    ----------
    coef_, threshold_, classes_, n_iter_
        As for `InfinitePush`.
    solution_ : Solution
        `lower` is the objective less |gradient|^2 / (2 lam), which strong convexity proves to lie
        below the optimum; `dual` is empty.

    Notes
    -----
    `sample_weight`: both means are weighted, so a row of weight 2 counts as two rows.

    References
    ----------
    C. Rudin. The P-Norm Push: A Simple Convex Ranking Algorithm that Concentrates at the Top of
    the List. JMLR 10, 2009.
    """

    _remedy = "Lower lam or p."
    _parameter_constraints: ClassVar[Constraints] = {
        **SHARED,
        "lam": POSITIVE,
        "p": [Interval(Real, 1, None, closed="left")],
        "loss": [StrOptions(set(PUSH_NORMS))],
    }

    def __init__(
        self,
        lam: float = 1.0,
        *,
        p: float = 4.0,
        loss: str = "exponential",
        tol: float = 1e-4,
        max_iter: int = 10_000,
        n_threads: int | None = None,
    ) -> None:
        self.lam = lam
        self.p = p
        self.loss = loss
        self.tol = tol
        self.max_iter = max_iter
        self.n_threads = n_threads

    def _solve(self, task: Task) -> tuple[Solution, float]:
        both, journal = (
            TwoClasses(task.design, task.row_weights),
            Journal(task.design, task.watch),
        )
        problem = PNormProblem(both, PUSH_NORMS[self.loss], float(self.p), task.ridge(self.lam))
        found = quasi_newton(problem, journal, tol=self.tol, max_iter=self.max_iter)
        solution = Solution(
            weights=found.weights,
            threshold=found.threshold,
            dual=np.empty(0),
            upper=found.value,
            lower=proven_below(found.value, found.lower),
            n_iter=max(1, len(journal)),
            status=found.status,
            history=tuple(journal.history),
        )
        return solution, float(LOSSES[self.loss].value(np.zeros(1))[0])


@dataclass(frozen=True)
class PNormProblem:
    """lam/2 |w|^2 + (mean_j h_j^p)^(1/p) and its gradient; two passes over the data."""

    rows: TwoClasses
    norm: PushNorm
    p: float
    lam: float

    def evaluate(self, weights: Array) -> tuple[float, Array, float]:
        """Objective, gradient, and the greatest score of a negative."""
        scores = self.rows.scores(weights)
        push, threshold = self.norm(scores, self.rows.weights, self.p), float(scores[1].max())
        value = 0.5 * self.lam * float(weights @ weights) + push.value
        if not np.isfinite(value):
            return np.inf, np.zeros_like(weights), threshold
        slope = self.rows.combine(push.on_positives, push.on_negatives)
        return value, self.lam * weights + slope, threshold


@dataclass
class _Descent:
    """Where the descent stands."""

    weights: Array
    value: float
    gradient: Array
    threshold: float
    lam: float
    lower: float = 0.0
    status: Status = Status.MAX_ITER
    changes: deque[tuple[Array, Array]] = field(default_factory=lambda: deque(maxlen=MEMORY))

    def direction(self) -> Array:
        """Minus the inverse Hessian, as the remembered changes tell it, times the gradient."""
        ahead, kept = -self.gradient, []
        for step, turn in reversed(self.changes):
            factor = (step @ ahead) / (step @ turn)
            ahead = ahead - factor * turn
            kept.append(factor)
        if self.changes:
            step, turn = self.changes[-1]
            ahead = ahead * ((step @ turn) / (turn @ turn))
        else:
            ahead = ahead / max(1.0, self.lam, float(np.linalg.norm(self.gradient)))
        for (step, turn), factor in zip(self.changes, reversed(kept), strict=True):
            ahead = ahead + (factor - (turn @ ahead) / (step @ turn)) * step
        return np.asarray(ahead)

    def advance(self, evaluate: Evaluate) -> bool:
        """Halve the step until the value falls; False if none that matters does."""
        ahead = self.direction()
        fall, length, slack = float(self.gradient @ ahead), 1.0, ROUNDING * abs(self.value)
        for _ in range(MAX_HALVINGS):
            weights = self.weights + length * ahead
            value, gradient, threshold = evaluate(weights)
            # Where values no longer tell, the slope must: it has to shrink along the step.
            falls = value <= self.value + 1e-4 * length * fall
            flat = value <= self.value + slack and abs(gradient @ ahead) <= 0.9 * abs(fall)
            if falls or flat:
                self._remember(weights - self.weights, gradient - self.gradient)
                self.weights, self.value, self.gradient = weights, value, gradient
                self.threshold = threshold
                return True
            length *= 0.5
        return False

    def _remember(self, step: Array, turn: Array) -> None:
        if step @ turn > ROUNDING * float(np.linalg.norm(step) * np.linalg.norm(turn)):
            self.changes.append((step, turn))


def quasi_newton(problem: PNormProblem, journal: Journal, *, tol: float, max_iter: int) -> _Descent:
    """Minimise a smooth function that is convex even less lam/2 |w|^2.

    Such a function lies nowhere below f(w) - |gradient(w)|^2 / (2 lam), which certifies w.
    """
    start = np.zeros(problem.rows.design.n_features)
    descent = _Descent(start, *problem.evaluate(start), problem.lam)
    while True:
        size = float(descent.gradient @ descent.gradient)
        descent.lower = max(descent.lower, descent.value - size / (2.0 * problem.lam))
        if descent.value - descent.lower <= tol * abs(descent.value):
            descent.status = Status.CONVERGED
        if descent.status is not Status.MAX_ITER or len(journal) == max_iter:
            return descent
        if not descent.advance(problem.evaluate):
            descent.status = Status.STALLED
        if journal.note(descent.value, descent.lower, descent.weights, descent.threshold):
            descent.status = Status.STOPPED
