"""Rankers by cutting planes: RankSVM, MAPSVM, PartialAUCSVM and OWPC.

Each defines its risk. The threshold is the highest score of a training negative, so a positive
prediction means "above all of them".
"""

from numbers import Integral, Real
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions

from toppush.baselines.ranker import (
    POSITIVE,
    SHARED,
    BaselineRanker,
    Constraints,
    Task,
    WeightedRanker,
)
from toppush.baselines.risks import AveragePrecisionHinge, OrderedHinge, PairHinge, PartialAreaHinge
from toppush.problem.objective import count_top
from toppush.problem.solution import Solution
from toppush.solvers.cutting_plane import Risk, RiskProblem, cutting_plane
from toppush.types import Array, Labels, Matrix


class CuttingPlaneRanker(BaselineRanker):
    """What rankers by cutting planes share; a subclass defines its risk."""

    _remedy = (
        "Raise C, or let more negatives count where the ranker has an option for it "
        "(fpr_high, top)."
    )
    _parameter_constraints: ClassVar[Constraints] = {
        **SHARED,
        "C": POSITIVE,
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        C: float = 1000.0,
        *,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        verbose: int = 0,
        positive: object = None,
    ) -> None:
        self.C, self.tol, self.max_iter = C, tol, max_iter
        self.n_jobs, self.verbose, self.positive = n_jobs, verbose, positive

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X, y
            As for `RankSVM`; rows have no weights.

        Returns
        -------
        self
        """
        return self._fit(X, y, None)

    def _solve(self, task: Task) -> tuple[Solution, float]:
        positive, weight = task.training.positive, task.row_weights
        counts = weight > 0.0
        risk = self._risk(weight[positive & counts], weight[~positive & counts])
        problem = RiskProblem(task.design, risk, float(self.C), task.ridge(1.0))
        solution = cutting_plane(
            problem, tol=self.tol, max_iter=self.max_iter, callback=task.callback
        )
        return solution, problem.at_zero()

    def _risk(self, positive_weight: Array, negative_weight: Array) -> Risk:
        """The risk for the rows with these weights, all above 0."""
        raise NotImplementedError


class RankSVM(WeightedRanker, CuttingPlaneRanker):
    """Linear SVM over all pairs of a positive and a negative: the area under the ROC curve.

    Minimises ``1/2 |w|^2 + C mean_ij (1 - w.(x_i - z_j))_+`` over positives x_i and negatives
    z_j. The pairs are never formed: an evaluation costs two reads of the data and two sorts of the
    scores; some dozens to a few hundred evaluations are usual.

    Parameters
    ----------
    C : float, default=1000.0
        Weight of the mean pair loss against the penalty on the weights.
    tol : float, default=1e-3
        Ends when upper and lower bound of the objective agree up to this share.
    max_iter : int, default=1000
    n_jobs : int, optional
        Threads over blocks of rows; by default all cores, or OMP_NUM_THREADS if set.
    verbose : int, default=0
        If 1, show progress.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    coef_, intercept_, classes_, n_iter_, n_features_in_, feature_names_in_
        As for `TopPush`.
    threshold_ : float
        The highest score of a training negative.
    solution_ : Solution
        As for `TopPush`; its `dual` is empty.

    Notes
    -----
    `sample_weight`: a pair counts by the product of its rows' weights, as if rows were repeated.

    References
    ----------
    T. Joachims. Training Linear SVMs in Linear Time. KDD 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MaxAbsScaler
    >>> from toppush.baselines import RankSVM
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ranker = make_pipeline(MaxAbsScaler(), RankSVM()).fit(X, y)
    >>> round(ranker.score(X, y), 2)
    1.0
    """

    def _risk(self, positive_weight: Array, negative_weight: Array) -> PairHinge:
        return PairHinge(
            positive_weight / positive_weight.sum(), negative_weight / negative_weight.sum()
        )


class MAPSVM(CuttingPlaneRanker):
    """Linear structural SVM for average precision.

    Minimises ``1/2 |w|^2 + C max over rankings of [1 - AP - 2/(mn) sum (w.x_i - w.z_j)]``, the sum
    over the pairs of a positive x_i and a negative z_j that the ranking puts above it. The worst
    ranking is found exactly, in O((m + n) log n) after two sorts.

    Parameters
    ----------
    C, tol, max_iter, n_jobs, verbose, positive
        As for `RankSVM`; C is the weight of the risk.

    Attributes
    ----------
    coef_, intercept_, threshold_, classes_, n_iter_, solution_, n_features_in_, feature_names_in_
        As for `RankSVM`.

    References
    ----------
    Y. Yue, T. Finley, F. Radlinski, T. Joachims. A Support Vector Method for Optimizing Average
    Precision. SIGIR 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import maxabs_scale
    >>> from toppush.baselines import MAPSVM
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ranker = MAPSVM(C=10.0).fit(maxabs_scale(X), y)
    >>> round(ranker.score(maxabs_scale(X), y), 2)
    0.99
    """

    def _risk(self, positive_weight: Array, negative_weight: Array) -> AveragePrecisionHinge:
        return AveragePrecisionHinge()


class PartialAUCSVM(CuttingPlaneRanker):
    """Linear structural SVM for the ROC area between two false-positive rates.

    Minimises ``1/2 |w|^2 + C R(w)``, R the tight structural hinge of Narasimhan and Agarwal (KDD
    2013). With `fpr_low` = 0 that is the mean of ``(1 - w.(x_i - z_j))_+`` over all positives and
    the highest-scored negatives. An evaluation costs two reads of the data and one sort of those
    negatives.

    Parameters
    ----------
    C, tol, max_iter, n_jobs, verbose, positive
        As for `RankSVM`; C is the weight of the risk.
    fpr_low, fpr_high : float, default=0.0 and 0.1
        The range, as shares of the n negatives: ranks ceil(n fpr_low) + 1 to floor(n fpr_high)
        count, and never fewer than one. A share of 1/n or less for `fpr_high` is the setting of
        the TopPush paper, the single highest negative.

    Attributes
    ----------
    coef_, intercept_, threshold_, classes_, n_iter_, solution_, n_features_in_, feature_names_in_
        As for `RankSVM`.

    References
    ----------
    H. Narasimhan, S. Agarwal. SVM_pAUC^tight: A New Support Vector Method for Optimizing Partial
    AUC Based on a Tight Convex Upper Bound. KDD 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import maxabs_scale
    >>> from toppush.baselines import PartialAUCSVM
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ranker = PartialAUCSVM(fpr_high=0.1, C=10.0).fit(maxabs_scale(X), y)
    >>> round(ranker.score(maxabs_scale(X), y), 2)
    1.0
    """

    _parameter_constraints: ClassVar[Constraints] = {
        **CuttingPlaneRanker._parameter_constraints,
        "fpr_low": [Interval(Real, 0, 1, closed="left")],
        "fpr_high": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(
        self,
        C: float = 1000.0,
        *,
        fpr_low: float = 0.0,
        fpr_high: float = 0.1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        verbose: int = 0,
        positive: object = None,
    ) -> None:
        super().__init__(
            C, tol=tol, max_iter=max_iter, n_jobs=n_jobs, verbose=verbose, positive=positive
        )
        self.fpr_low, self.fpr_high = fpr_low, fpr_high

    def _risk(self, positive_weight: Array, negative_weight: Array) -> PartialAreaHinge:
        return PartialAreaHinge(*rank_range(self.fpr_low, self.fpr_high, len(negative_weight)))


class OWPC(CuttingPlaneRanker):
    """Ordered weighted pairwise classification: the worst pairs of each positive count most.

    Minimises ``1/2 |w|^2 + C mean_i sum_r v_r L_i(r)``, where L_i(r) is the r-th largest of the
    losses ``(1 - w.(x_i - z_j))_+`` of positive x_i against the negatives z_j, and the shares v
    fall with r and sum to 1. An evaluation costs two reads of the data and two sorts of the scores.

    Parameters
    ----------
    C, tol, max_iter, n_jobs, verbose, positive
        As for `RankSVM`; C is the weight of the mean loss.
    owa : {"inverse", "top", "mean"} or array, default="inverse"
        The shares: "inverse" is proportional to 1/r, "top" is 1/k for the first k ranks, "mean"
        is 1/n for all, which makes it RankSVM. An array gives them by rank, never rising; ranks
        past its end get 0, and it is scaled to sum 1.
    top : int or float, default=0.1
        The k of "top": a count if an int, a share of the negatives if a float.

    Attributes
    ----------
    coef_, intercept_, threshold_, classes_, n_iter_, solution_, n_features_in_, feature_names_in_
        As for `RankSVM`.

    References
    ----------
    N. Usunier, D. Buffoni, P. Gallinari. Ranking with Ordered Weighted Pairwise Classification.
    ICML 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import maxabs_scale
    >>> from toppush.baselines import OWPC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ranker = OWPC(C=10.0).fit(maxabs_scale(X), y)
    >>> round(ranker.score(maxabs_scale(X), y), 2)
    1.0
    """

    _parameter_constraints: ClassVar[Constraints] = {
        **CuttingPlaneRanker._parameter_constraints,
        "owa": [StrOptions({"inverse", "top", "mean"}), "array-like"],
        "top": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="right"),
        ],
    }

    def __init__(
        self,
        C: float = 1000.0,
        *,
        owa: str | ArrayLike = "inverse",
        top: float = 0.1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        verbose: int = 0,
        positive: object = None,
    ) -> None:
        super().__init__(
            C, tol=tol, max_iter=max_iter, n_jobs=n_jobs, verbose=verbose, positive=positive
        )
        self.owa, self.top = owa, top

    def _risk(self, positive_weight: Array, negative_weight: Array) -> OrderedHinge:
        return OrderedHinge(rank_shares(self.owa, self.top, len(negative_weight)))


def rank_range(fpr_low: float, fpr_high: float, n_neg: int) -> tuple[int, int]:
    """Number of negatives before the range and up to its end; integers survive rounding."""
    low = int(np.ceil(n_neg * fpr_low - 1e-9))
    high = max(low + 1, int(np.floor(n_neg * fpr_high + 1e-9)))
    if fpr_low >= fpr_high or high > n_neg:
        raise ValueError(
            f"fpr_low={fpr_low!r} and fpr_high={fpr_high!r} leave none of the {n_neg} negatives "
            "between them; lower fpr_low or raise fpr_high."
        )
    return low, high


def rank_shares(owa: str | ArrayLike, top: float, n_neg: int) -> Array:
    """Shares of the ranks, falling, summing to 1, without the zeros at the end."""
    if isinstance(owa, str):
        count = count_top(top, n_neg) if owa == "top" else n_neg
        shares = 1.0 / np.arange(1, count + 1) if owa == "inverse" else np.ones(count)
    else:
        shares = _check_shares(np.asarray(owa, dtype=np.float64), n_neg)
    shares = shares[: np.count_nonzero(shares)]
    return np.asarray(shares / shares.sum())


def _check_shares(shares: Array, n_neg: int) -> Array:
    if shares.ndim != 1 or not 1 <= shares.size <= n_neg:
        raise ValueError(
            f"owa has shape {shares.shape}, but there are {n_neg} negatives; give one share for "
            f"each rank, 1 to {n_neg} of them."
        )
    falls = np.isfinite(shares).all() and np.all(np.diff(shares) <= 0.0)
    if not falls or shares[-1] < 0.0 or shares[0] <= 0.0:
        raise ValueError(
            f"owa={shares!r} must start above 0, never rise and never turn negative, or the "
            "problem is not convex; sort it in falling order."
        )
    return shares
