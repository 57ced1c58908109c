"""The Infinite Push with a penalty that leaves most features out."""

from numbers import Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from reproduce.baselines.infinite_push import BYTES_PER_PAIR, NO_SOLUTION, PairRanker
from reproduce.baselines.pair_admm import ElasticNet, alternate
from reproduce.baselines.pairs import MAX_PAIRS
from toppush.baselines.ranker import Constraints, Task
from toppush.problem.solution import Solution


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
        penalty = ElasticNet(problem.lam * ratio * task.form.scale, l2)
        return alternate(problem, both, penalty, limits), problem.at_zero()
