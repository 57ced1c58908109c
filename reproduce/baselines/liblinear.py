"""The paper's two classifiers, fitted by LIBLINEAR through scikit-learn.

With X = s X', w = v / s and b = u / s the problem 1/2 (|w|^2 + b^2) + C sum_i l(w.x_i + b) is

    1 / s^2 (1/2 (|v|^2 + u^2) + C s^2 sum_i l(v.x'_i + u / s)),

so X / s with C s^2 and an intercept column of 1 / s gives the same weights; by a power of two
without any rounding. What remains is k = C |x|^2, the weight of the losses against the penalty.
LIBLINEAR squares gradients, of size C |x|, multiplies that with k, and squares weights, of size
1 / |x|; where these leave the range of numbers it runs on for ever. In units in which C |x| = 1
they are k and 1 / k^2.

Where rows repeat, the primal is given each once with its number as weight: the same sums in fewer
reads, and the same tolerance on the gradient.
"""

import math
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from reproduce.baselines.repeats import merge_repeats
from toppush.baselines.ranker import COUNT, POSITIVE, Constraints, WeightedRanker, read_local_rows
from toppush.designs.local import narrow_indices
from toppush.models.base import LABEL, unchanged_on_failure
from toppush.types import Array, Labels, Mask, Matrix

UNSCALED = 100
"""Powers of two that k may have before units are changed."""


def rarer_share(positive: Mask, weight: Array | None) -> float:
    """The share of the rarer class among rows that count, by which the primal's tol is scaled."""
    counted = positive if weight is None else positive[weight > 0.0]
    n_pos = int(np.count_nonzero(counted))
    return max(min(n_pos, len(counted) - n_pos), 1) / max(len(counted), 1)


class _LiblinearRanker(WeightedRanker):
    """Hands the rows to a scikit-learn classifier and takes over its weights."""

    C: float
    tol: float
    _largest_power: ClassVar[int]
    """Powers of two that k may have; beyond, LIBLINEAR has been seen to run on for ever."""
    _largest_entry: ClassVar[int]
    """Powers of two that an entry of X may have."""

    def _fit(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None) -> Self:
        with unchanged_on_failure(self):
            given = read_local_rows(self, X, y, sample_weight)
            tasks = given.tasks(self, 0)  # LIBLINEAR tells of no iteration
            X, positive, weight = given.rows.original, given.positive, given.sample_weight
            unit = self._unit(X, weight)
            model = self._model(self.C * unit**2, 1.0 / unit)
            if not self._is_dual(X):
                before = rarer_share(positive, weight)
                X, positive, weight = merge_repeats(X, positive, weight)
                # Fewer rows than columns would make scikit-learn turn to the dual.
                model.set_params(
                    tol=self.tol * (before / rarer_share(positive, weight)), dual=False
                )
            X = narrow_indices(X if unit == 1.0 else X.astype(np.float64) / unit)
            model.fit(X, positive, sample_weight=weight)
            self.classes_ = given.classes
            self.coef_ = model.coef_ / unit
            self.threshold_ = -float(model.intercept_[0])
            self.n_iter_ = int(np.max(model.n_iter_))
        if tasks is not None:
            tasks.end()
        return self

    def _unit(self, X: Matrix, weight: Array | None) -> float:
        """The number, a power of two, by which X is divided for LIBLINEAR."""
        entry = max(float(X.max()), -float(X.min()))
        cost = self._most_cost() * (1.0 if weight is None else float(np.max(weight)))
        if entry == 0.0 or cost == 0.0:
            return 1.0
        size, power = math.log2(entry), math.log2(cost) + 2.0 * math.log2(entry)
        if power > self._largest_power:
            raise ValueError(
                f"X has values up to {entry:.3g}, so that with C={self.C:g} the losses weigh "
                f"2^{power:.0f} times as much as the penalty, which is more than LIBLINEAR can "
                "add; divide the columns by numbers of their size, as MaxAbsScaler does."
            )
        if power <= UNSCALED or self._is_dual(X):
            return 1.0
        return 2.0 ** round(size - min(power, self._largest_entry))

    def _most_cost(self) -> float:
        """The most that a row of weight 1 costs."""
        return self.C

    def _is_dual(self, X: Matrix) -> bool:
        """Whether the dual is solved, step by step, which squares nothing but entries of X."""
        return False

    def _model(self, C: float, intercept: float) -> LogisticRegression | LinearSVC:
        """The classifier, with an intercept column of that value."""
        raise NotImplementedError


class LogisticRanker(_LiblinearRanker):
    """Logistic regression by LIBLINEAR: scikit-learn's weights as a ranker.

    Minimises ``1/2 (|w|^2 + b^2) + C sum_i log(1 + exp(-y_i (w.x_i + b)))``, y_i = +1 or -1,
    exactly as `LogisticRegression(solver="liblinear")`. A pass over the data is linear in its
    stored entries; a few dozen passes are usual.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the penalty on the weights.
    tol : float, default=1e-4
        LIBLINEAR's tolerance on the gradient.
    max_iter : int, default=100
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    coef_, threshold_, classes_, n_iter_, n_features_in_, feature_names_in_
        As for `TopPush`.
    intercept_ : array of shape (1,)
        The fitted b, minus `threshold_`: a positive prediction has probability above 1/2.

    Notes
    -----
    `sample_weight` scales each row's loss. LIBLINEAR computes in double precision.

    References
    ----------
    R.-E. Fan et al. LIBLINEAR: A Library for Large Linear Classification. JMLR 2008.
    W. Kotlowski, K. Dembczynski, E. Huellermeier. Bipartite Ranking through Minimization of
    Univariate Loss. ICML 2011.
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "C": POSITIVE,
        "tol": POSITIVE,
        "max_iter": COUNT,
        "positive": LABEL,
    }

    # scikit-learn lets no entry above 1e30 through to LIBLINEAR's logistic regression.
    _largest_power, _largest_entry = 360, 99

    def __init__(
        self, C: float = 1.0, *, tol: float = 1e-4, max_iter: int = 100, positive: object = None
    ) -> None:
        self.C, self.tol, self.max_iter, self.positive = C, tol, max_iter, positive

    def _model(self, C: float, intercept: float) -> LogisticRegression:
        return LogisticRegression(
            C=C,
            intercept_scaling=intercept,
            solver="liblinear",
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=0,
        )


class CostSensitiveSVM(_LiblinearRanker):
    """Linear SVM by LIBLINEAR in which an error on a positive costs more, or less.

    Minimises ``1/2 (|w|^2 + b^2) + C sum_i c_i (1 - y_i (w.x_i + b))_+^2`` with c_i =
    `positive_cost` for positives and 1 for negatives, exactly as `LinearSVC` with those class
    weights. A pass over the data is linear in its stored entries; a few dozen passes are usual.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the penalty on the weights.
    positive_cost : float, default=1.0
        What an error on a positive costs, that on a negative being 1.
    tol : float, default=1e-4
        LIBLINEAR's tolerance.
    max_iter : int, default=1000
    random_state : int, RandomState or None, default=None
        Order of the dual's coordinate steps, which are taken where rows are fewer than features.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    coef_, intercept_, threshold_, classes_, n_iter_, n_features_in_, feature_names_in_
        As for `LogisticRanker`; the sign of b is all that a prediction asks for.

    Notes
    -----
    `sample_weight` scales each row's loss, on top of its class's cost.

    References
    ----------
    R.-E. Fan et al. LIBLINEAR: A Library for Large Linear Classification. JMLR 2008.
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "C": POSITIVE,
        "positive_cost": POSITIVE,
        "tol": POSITIVE,
        "max_iter": COUNT,
        "random_state": ["random_state"],
        "positive": LABEL,
    }

    _largest_power, _largest_entry = 480, 480

    def __init__(
        self,
        C: float = 1.0,
        *,
        positive_cost: float = 1.0,
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: int | np.random.RandomState | None = None,
        positive: object = None,
    ) -> None:
        self.C, self.positive_cost, self.tol = C, positive_cost, tol
        self.positive = positive
        self.max_iter, self.random_state = max_iter, random_state

    def _most_cost(self) -> float:
        return self.C * max(self.positive_cost, 1.0)

    def _is_dual(self, X: Matrix) -> bool:
        return bool(X.shape[0] < X.shape[1])

    def _model(self, C: float, intercept: float) -> LinearSVC:
        return LinearSVC(
            C=C,
            intercept_scaling=intercept,
            class_weight={True: self.positive_cost, False: 1.0},
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )
