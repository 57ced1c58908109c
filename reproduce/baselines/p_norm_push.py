"""The P-Norm Push: between the mean over negatives (p = 1) and their maximum (p -> infinity)."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import logsumexp, softmax
from sklearn.utils._param_validation import Interval, StrOptions

from reproduce.baselines.pairs import Limits, Pair, TwoClasses
from toppush.baselines.ranker import POSITIVE, SHARED, Constraints, Task, WeightedRanker
from toppush.problem.losses import LOSSES, Loss
from toppush.problem.pairwise import PAIR_SUMS
from toppush.problem.solution import Solution, Status, safe_lower_bound
from toppush.solvers.driver import History
from toppush.types import Array


class Push(NamedTuple):
    """The norm and its slopes."""

    value: float
    on_positives: Array
    on_negatives: Array


PushNorm = Callable[[Pair, Pair, float], Push]


def exponential(scores: Pair, weights: Pair, p: float) -> Push:
    """For l = e^t, where h_j = e^(s_j) mean_i e^(-s_i): O(m + n)."""
    (on_pos, on_neg), (pos_weights, neg_weights) = scores, weights
    goods = np.log(pos_weights / pos_weights.sum()) - on_pos
    bads = np.log(neg_weights / neg_weights.sum()) + p * on_neg
    with np.errstate(over="ignore"):  # infinity is the honest value
        value = float(np.exp(logsumexp(goods) + logsumexp(bads) / p))
    if np.isinf(value):
        return Push(value, np.zeros_like(on_pos), np.zeros_like(on_neg))
    return Push(value, -value * softmax(goods), value * softmax(bads))


def by_pair_sums(name: str) -> PushNorm:
    """For a loss whose sums over pairs are known: O((m + n) log(m + n))."""

    def norm(scores: Pair, weights: Pair, p: float) -> Push:
        share, sums = weights[0] / weights[0].sum(), PAIR_SUMS[name](*scores)
        top = _top_loss(LOSSES[name], scores, share)
        value, pull = _norm(sums.over_positives(share, 0), top, weights, p)
        on_positives = -share * sums.over_negatives(pull, 1)
        return Push(value, on_positives, pull * sums.over_positives(share, 1))

    return norm


PUSH_NORMS: dict[str, PushNorm] = {
    "exponential": exponential,
    "truncated_quadratic": by_pair_sums("truncated_quadratic"),
    "logistic": by_pair_sums("logistic"),
}


def _top_loss(loss: Loss, scores: Pair, share: Array) -> float:
    """The greatest h_j, that of the highest negative."""
    return float(share @ loss.value(scores[1].max() - scores[0]))


def _norm(losses: Array, top: float, weights: Pair, p: float) -> tuple[float, Array]:
    """The norm and its slope in every h_j; powers are of h_j / top, so none overflows."""
    share = weights[1] / weights[1].sum()
    if not 0.0 < top < np.inf:
        return top, np.zeros_like(losses)
    value = top * float(share @ (losses / top) ** p) ** (1.0 / p)
    return value, share * (losses / value) ** (p - 1.0)


MEMORY = 20
"""Pairs of changes that the quasi-Newton step remembers."""
LARGEST = 1e300
"""Stands for an objective or a slope beyond all numbers, from which a line search turns back."""


class PNormPush(WeightedRanker):
    """Linear ranker that presses on negatives the more, the more positives they beat.

    Minimises ``lam/2 |w|^2 + (mean_j h_j^p)^(1/p)``, where h_j = mean_i l(w.z_j - w.x_i) is how
    badly the negative z_j does, by limited-memory quasi-Newton steps. The published objective is
    sum_j h_j^p without a penalty; the root leaves its minimiser in place, keeps `lam` comparable
    across p, and makes InfinitePush the limit: p = 1 is the pairwise ranking loss, p = infinity the
    Infinite Push.

    An iteration takes O((m+n)d) time for the exponential loss and O((m+n)(d + log(m+n))) for the
    others; memory is O(m+n) for all.

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
    max_iter, n_jobs, positive
        As for `InfinitePush`.

    Attributes
    ----------
    coef_, threshold_, classes_, n_iter_
        As for `InfinitePush`.
    solution_ : Solution
        `lower` is the objective less ``|gradient|^2 / (2 lam)``, which strong convexity proves to
        lie below the optimum; `dual` is empty.

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
        n_jobs: int | None = None,
        positive: object = None,
    ) -> None:
        self.lam, self.p, self.loss = lam, p, loss
        self.tol, self.max_iter, self.n_jobs = tol, max_iter, n_jobs
        self.positive = positive

    def _solve(self, task: Task) -> tuple[Solution, float]:
        both = TwoClasses(task.design, task.row_weights)
        problem = PNormProblem(both, PUSH_NORMS[self.loss], float(self.p), task.ridge(self.lam))
        solution = minimise(problem, Limits(self.tol, self.max_iter, task.callback))
        return solution, float(LOSSES[self.loss].value(np.zeros(1))[0])


@dataclass(frozen=True)
class PNormProblem:
    """``lam/2 |w|^2 + (mean_j h_j^p)^(1/p)`` and its gradient; two passes over the data."""

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


class _Certified:
    """The objective for SciPy, in units of which one step changes the scores by about 1.

    It keeps the best point that was looked at, and the bound that all of them prove: the function
    is convex even less lam/2 |w|^2, so it lies nowhere below f(w) - |gradient(w)|^2 / (2 lam).
    """

    def __init__(self, problem: PNormProblem, limits: Limits) -> None:
        self._problem, self._tol = problem, limits.tol
        self.history = History(problem.rows.design, limits.watch)
        self.weights = np.zeros(problem.rows.design.n_features)
        self.upper, self.lower, self.threshold = np.inf, 0.0, 0.0
        self.status = Status.MAX_ITER
        self._unit = 1.0
        self._asked, (self._value, gradient) = self.weights, self._evaluate(self.weights)
        self._unit = 1.0 / (float(np.linalg.norm(gradient)) or 1.0)
        self._gradient = self._unit * gradient

    def __call__(self, point: Array) -> tuple[float, Array]:
        """Objective and gradient; asked again where it stands, it does not read the rows."""
        if not np.array_equal(point, self._asked):
            self._value, self._gradient = self._evaluate(self._unit * point)
            self._asked, self._gradient = point.copy(), self._unit * self._gradient
        return self._value, self._gradient

    def _evaluate(self, weights: Array) -> tuple[float, Array]:
        value, gradient, threshold = self._problem.evaluate(weights)
        if value < self.upper:
            self.weights, self.upper, self.threshold = weights, value, threshold
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return LARGEST, np.zeros_like(gradient)
        scaled = gradient / np.sqrt(2.0 * self._problem.lam)  # its square might underflow before
        self.lower = max(self.lower, value - float(scaled @ scaled))
        return value, gradient

    def is_proven(self) -> bool:
        """Whether the bounds agree."""
        return self.upper - self.lower <= self._tol * abs(self.upper)

    def note(self, _: Array) -> None:
        """Tell of an iteration, and end SciPy's if it was the last."""
        if self.history.record(self.upper, self.lower, self.weights, self.threshold):
            self.status = Status.STOPPED
            raise StopIteration
        if self.is_proven():
            raise StopIteration


def minimise(problem: PNormProblem, limits: Limits) -> Solution:
    """SciPy's limited-memory quasi-Newton method, ended by a certificate or by rounding."""
    found, n_most = _Certified(problem, limits), limits.max_iter
    options = {"maxcor": MEMORY, "maxiter": n_most, "maxfun": sys.maxsize, "ftol": 0, "gtol": 0}
    if not found.is_proven():
        start, call = found.weights, {"callback": found.note, "options": options}
        optimize.minimize(found, start, jac=True, method="L-BFGS-B", **call)
    if found.is_proven():
        found.status = Status.CONVERGED
    elif found.status is Status.MAX_ITER and len(found.history) < n_most:
        found.status = Status.STALLED
    return Solution(
        weights=found.weights,
        threshold=found.threshold,
        dual=np.empty(0),
        upper=found.upper,
        lower=safe_lower_bound(found.upper, found.lower),
        n_iter=max(1, len(found.history)),
        status=found.status,
        history=tuple(found.history.iterations),
    )
