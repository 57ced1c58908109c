"""The Infinite Push: positives against the worst negative, over all pairs."""

from numbers import Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from reproduce.baselines.pair_admm import ElasticNet, alternate
from reproduce.baselines.pair_gradient import projected_gradient, published_gradient
from reproduce.baselines.pairs import MAX_PAIRS, PAIR_LOSSES, Limits, TwoClasses, require_pairs
from toppush.baselines.ranker import COUNT, POSITIVE, SHARED, Constraints, Task, WeightedRanker
from toppush.problem.objective import TopPushProblem
from toppush.problem.solution import Solution

BYTES_PER_PAIR = {"gradient": 24, "admm": 8, "published": 8}
"""The duals; with momentum also those before, and the point a step aims at."""
NO_SOLUTION = (
    "If the mean of the positives lies among the negatives, no lam changes that; "
    'TopPush(top="auto") finds the fewest negatives that must share the top.'
)


class PairRanker(WeightedRanker):
    """What the rankers share that hold a number for each pair."""

    _parameter_constraints: ClassVar[Constraints] = {
        **SHARED,
        "lam": POSITIVE,
        "loss": [StrOptions(set(PAIR_LOSSES))],
        "max_pairs": COUNT,
    }

    lam: float
    loss: str
    max_pairs: int

    def _problem(
        self, task: Task, lam: float, bytes_per_pair: int
    ) -> tuple[TopPushProblem, TwoClasses, Limits]:
        """What is solved, unless there are too many pairs."""
        design = task.design
        require_pairs(design.n_pos, design.n_neg, self.max_pairs, bytes_per_pair)
        problem = TopPushProblem(design, PAIR_LOSSES[self.loss], lam)
        limits = Limits(self.tol, self.max_iter, task.callback)
        return problem, TwoClasses(design, task.row_weights), limits


class InfinitePush(PairRanker):
    """Linear ranker that pushes down the negative that beats most positives, over all pairs.

    Minimises ``lam/2 |w|^2 + max_j mean_i l(w.z_j - w.x_i)`` over the positives x_i and negatives
    z_j, by gradient steps on one dual variable per pair, each projected (Agarwal 2011). An
    iteration takes O(mn + (m+n)d) time; memory is 8 mn bytes, 24 mn by default. For a
    non-decreasing loss the optimum is that of TopPush, which finds it in linear time: use this to
    compare, on small data.

    If the mean of the positives lies in the convex hull of the negatives, weights of zero are
    optimal for every lam and every loss; the fit then warns. What "published" returns there is
    where it stopped on the way.

    Parameters
    ----------
    lam : float, default=1.0
        Strength of the penalty on the weights.
    loss : {"hinge", "truncated_quadratic", "logistic", "exponential"}, default="hinge"
        The published loss is the hinge.
    solver : {"gradient", "admm", "published"}, default="gradient"
        "gradient" takes steps by a line search, with momentum that restarts when the objective
        rises; below lam = 0.1 or so they take thousands of iterations, for the hinge more.
        "admm", the iteration of `SparseInfinitePush`, takes some hundreds for every lam, and a
        third of the memory. "published" takes steps that shrink as 1/sqrt(t).
    tol : float, default=1e-4
        "gradient" and "admm" end when the duality gap is at most this share of the objective;
        "published" when the dual objective changes by at most this share, after ten iterations.
    max_iter : int, default=10000
    max_pairs : int, default=20000000
        More pairs are refused before any memory is taken; the default allows 0.45 GiB.
    n_jobs : int, optional
        Threads over blocks of rows; by default all cores, or OMP_NUM_THREADS if set.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    coef_, classes_, n_iter_
        As for `TopPush`.
    threshold_ : float
        The greatest score of a negative in the training rows.
    solution_ : Solution
        `dual` holds a number per row: the sum of the duals of its pairs.

    Notes
    -----
    `sample_weight`: a positive's weight scales its losses. A negative counts whole or, with
    weight zero, not at all.

    References
    ----------
    S. Agarwal. The Infinite Push: A New Support Vector Ranking Algorithm that Directly Optimizes
    Accuracy at the Absolute Top of the List. SDM 2011.
    """

    _remedy = NO_SOLUTION
    _parameter_constraints: ClassVar[Constraints] = {
        **PairRanker._parameter_constraints,
        "solver": [StrOptions(set(BYTES_PER_PAIR))],
    }

    def __init__(
        self,
        lam: float = 1.0,
        *,
        loss: str = "hinge",
        solver: str = "gradient",
        tol: float = 1e-4,
        max_iter: int = 10_000,
        max_pairs: int = MAX_PAIRS,
        n_jobs: int | None = None,
        positive: object = None,
    ) -> None:
        self.lam, self.loss, self.solver = lam, loss, solver
        self.tol, self.max_iter, self.max_pairs = tol, max_iter, max_pairs
        self.n_jobs, self.positive = n_jobs, positive

    def _solve(self, task: Task) -> tuple[Solution, float]:
        needed = BYTES_PER_PAIR[self.solver]
        problem, both, limits = self._problem(task, task.ridge(self.lam), needed)
        if self.solver == "admm":
            ridge = ElasticNet(l1=0.0, l2=problem.lam)
            solution = alternate(problem, both, ridge, limits)
        elif self.solver == "published":
            solution = published_gradient(problem, both, limits)
        else:
            solution = projected_gradient(problem, both, limits)
        return solution, problem.at_zero()


class SparseInfinitePush(PairRanker):
    """Linear ranker on few features that pushes down the worst negative, over all pairs.

    Minimises ``lam (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2) + max_j mean_i l(w.z_j - w.x_i)`` over
    the positives x_i and negatives z_j, by alternating directions with one multiplier per pair
    (Rakotomamonjy 2012). An iteration takes O(mn + (m+n)d) time; memory is 8 mn bytes.

    The published method finds the step of the loss by an inner iteration; here it is exact.

    Parameters
    ----------
    lam : float, default=0.1
        Strength of the penalty on the weights.
    l1_ratio : float, default=1.0
        Share of the l1 norm in the penalty: 1 is the published method, 0 the ridge.
    loss, max_iter, max_pairs, n_jobs, positive
        As for `InfinitePush`; the pairs that are allowed by default take 0.15 GiB.
    tol : float, default=1e-4
        Ends when the duality gap is at most this share of the objective.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
        Exactly zero where the penalty rules a feature out.
    threshold_, classes_, n_iter_, solution_
        As for `InfinitePush`.

    Notes
    -----
    `sample_weight`: as for `InfinitePush`.

    References
    ----------
    A. Rakotomamonjy. Sparse Support Vector Infinite Push. ICML 2012.
    """

    _remedy = f"Lower lam. {NO_SOLUTION}"
    _parameter_constraints: ClassVar[Constraints] = {
        **PairRanker._parameter_constraints,
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
    }

    def __init__(
        self,
        lam: float = 0.1,
        *,
        l1_ratio: float = 1.0,
        loss: str = "hinge",
        tol: float = 1e-4,
        max_iter: int = 10_000,
        max_pairs: int = MAX_PAIRS,
        n_jobs: int | None = None,
        positive: object = None,
    ) -> None:
        self.lam, self.l1_ratio, self.loss = lam, l1_ratio, loss
        self.tol, self.max_iter, self.max_pairs = tol, max_iter, max_pairs
        self.n_jobs, self.positive = n_jobs, positive

    def _solve(self, task: Task) -> tuple[Solution, float]:
        needed, ratio = BYTES_PER_PAIR["admm"], float(self.l1_ratio)
        problem, both, limits = self._problem(task, float(self.lam), needed)
        l2 = task.ridge(problem.lam * (1.0 - ratio)) if ratio < 1.0 else 0.0
        penalty = ElasticNet(problem.lam * ratio * task.scaling.scale, l2)
        return alternate(problem, both, penalty, limits), problem.at_zero()
