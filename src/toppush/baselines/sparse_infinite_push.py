"""The Infinite Push with a penalty that leaves most features out."""

from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from toppush.baselines.pair_admm import BYTES_PER_PAIR, ElasticNet, alternate
from toppush.baselines.pairs import (
    MAX_PAIRS,
    PAIR_LOSSES,
    BaselineRanker,
    TwoClasses,
    require_pairs,
)
from toppush.designs import LocalDesign
from toppush.losses import Array
from toppush.problems import TopPushProblem
from toppush.solutions import Solution


class SparseInfinitePush(BaselineRanker):
    """Linear ranker on few features that pushes down the worst negative, over all pairs.

    Minimises lam (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2) + max_j mean_i l(w.z_j - w.x_i) over
    the positives x_i and negatives z_j, by alternating directions with one multiplier per pair
    (Rakotomamonjy 2012). An iteration takes O(mn + (m+n)d) time; memory is 8 mn bytes.

    The published method finds the step of the loss by an inner iteration; here it is exact.

    Parameters
    ----------
    lam : float, default=0.1
        Strength of the penalty on the weights.
    l1_ratio : float, default=1.0
        Share of the l1 norm in the penalty: 1 is the published method, 0 the ridge.
    loss : {"hinge", "truncated_quadratic", "logistic", "exponential"}, default="hinge"
        The published loss is the hinge.
    tol : float, default=1e-4
        Ends when the duality gap is at most this share of the objective.
    max_iter : int, default=10000
    max_pairs : int, default=20000000
        More pairs are refused before any memory is taken; the default allows 0.15 GiB.
    n_threads : int, optional
        Threads over blocks of rows; by default all cores, or OMP_NUM_THREADS if set.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
        Exactly zero where the penalty rules a feature out.
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
    A. Rakotomamonjy. Sparse Support Vector Infinite Push. ICML 2012.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "lam": [Interval(Real, 0, None, closed="neither")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "loss": [StrOptions(set(PAIR_LOSSES))],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_pairs": [Interval(Integral, 1, None, closed="left")],
        "n_threads": [None, Interval(Integral, 1, None, closed="left")],
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
        n_threads: int | None = None,
    ) -> None:
        self.lam = lam
        self.l1_ratio = l1_ratio
        self.loss = loss
        self.tol = tol
        self.max_iter = max_iter
        self.max_pairs = max_pairs
        self.n_threads = n_threads

    def _solve(self, design: LocalDesign, sample_weight: Array | None) -> Solution:
        require_pairs(design.n_pos, design.n_neg, self.max_pairs, BYTES_PER_PAIR)
        return alternate(
            TopPushProblem(design, PAIR_LOSSES[self.loss], float(self.lam)),
            TwoClasses(design, sample_weight),
            ElasticNet(float(self.lam), float(self.l1_ratio)),
            tol=self.tol,
            max_iter=self.max_iter,
        )
