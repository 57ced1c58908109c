"""The Infinite Push: positives against the worst negative, over all pairs."""

from typing import ClassVar

from sklearn.utils._param_validation import StrOptions

from toppush.baselines import pair_admm, pair_gradient
from toppush.baselines.pairs import MAX_PAIRS, PAIR_LOSSES, TwoClasses, require_pairs
from toppush.baselines.ranker import COUNT, POSITIVE, SHARED, Constraints, Task, WeightedRanker
from toppush.problem.objective import TopPushProblem
from toppush.problem.solution import Solution

BYTES_PER_PAIR = {"gradient": 24, "admm": 8, "published": 8}
"""The duals; with momentum also those before, and the point a step aims at."""
NO_SOLUTION = (
    "If the mean of the positives lies among the negatives, no lam changes that; "
    'TopPush(top="auto") finds the fewest negatives that must share the top.'
)


class InfinitePush(WeightedRanker):
    """Linear ranker that pushes down the negative that beats most positives, over all pairs.

    Minimises lam/2 |w|^2 + max_j mean_i l(w.z_j - w.x_i) over the positives x_i and negatives
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
    n_threads : int, optional
        Threads over blocks of rows; by default all cores, or OMP_NUM_THREADS if set.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
    threshold_ : float
        The greatest score of a negative in the training rows.
    classes_ : array of shape (2,)
        The second class is the positive one.
    n_iter_ : int
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
        **SHARED,
        "lam": POSITIVE,
        "loss": [StrOptions(set(PAIR_LOSSES))],
        "solver": [StrOptions(set(BYTES_PER_PAIR))],
        "max_pairs": COUNT,
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
        n_threads: int | None = None,
    ) -> None:
        self.lam = lam
        self.loss = loss
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_pairs = max_pairs
        self.n_threads = n_threads

    def _solve(self, task: Task) -> tuple[Solution, float]:
        design = task.design
        require_pairs(design.n_pos, design.n_neg, self.max_pairs, BYTES_PER_PAIR[self.solver])
        problem = TopPushProblem(design, PAIR_LOSSES[self.loss], task.ridge(self.lam))
        both = TwoClasses(design, task.row_weights)
        limits = self.tol, self.max_iter, task.watch
        if self.solver == "admm":
            ridge = pair_admm.ElasticNet(l1=0.0, l2=problem.lam)
            solution = pair_admm.alternate(problem, both, ridge, *limits)
        elif self.solver == "published":
            solution = pair_gradient.published_gradient(problem, both, *limits)
        else:
            solution = pair_gradient.projected_gradient(problem, both, *limits)
        return solution, problem.at_zero()
