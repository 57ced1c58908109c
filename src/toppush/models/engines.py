"""Boosted trees that an engine other than LightGBM trains, kept as trees of LightGBM.

They are scored, explained, saved and exported as those of `TopPushTrees`, without the package that
trained them. `catboost_trees.py` and `xgboost_trees.py` have a ranker each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from toppush.folds.splits import Fold, Folds
from toppush.matrices import dense, in_single
from toppush.models.base import LABEL
from toppush.models.boosting import BoostedMember
from toppush.models.cross_fitted import TOP
from toppush.models.lightgbm_text import (
    CATEGORICAL,
    DEFAULT_LEFT,
    MISSING_AT,
    NANS,
    Tree,
    written,
)
from toppush.models.trees import TopPushTrees
from toppush.system.threads import in_threads
from toppush.tables.frames import FROM_DTYPE
from toppush.types import Array, Mask, Matrix, Where

BY_NUMBER, BY_CATEGORY = DEFAULT_LEFT | NANS << MISSING_AT, CATEGORICAL | NANS << MISSING_AT
"""Decisions of LightGBM's nodes; missing numbers go left."""


@dataclass(frozen=True)
class EngineRows:
    """The training rows; columns of categories hold their codes 0, 1, ..."""

    X: NDArray[np.float32]
    """NaN is a missing value."""
    positive: Mask
    weight: Array | None
    n_codes: dict[int, int]
    """Position of a column of categories -> how many there are."""

    def part(self, where: Where) -> "EngineRows":
        """Some of the rows."""
        weight = None if self.weight is None else self.weight[where]
        return EngineRows(self.X[where], self.positive[where], weight, self.n_codes)

    @property
    def vary(self) -> bool:
        """Whether any column has two values: CatBoost refuses others."""
        same = (self.X[0] == self.X) | (np.isnan(self.X) & np.isnan(self.X[0]))
        return not bool(same.all())


class Leaves(NamedTuple):
    """A tree with the weight of the training rows in each leaf."""

    tree: Tree
    weight: Array


class EngineTrees(TopPushTrees):
    """Mean of boosted trees with the log loss, trained by another engine than LightGBM.

    Folds, the choice of the number of trees and the out-of-fold scores are those of
    `TopPushTrees`. Sparse rows are trained on as dense ones.

    Parameters
    ----------
    n_members : int, default=4
        Number of members; their scores are averaged.
    depth : int, default=5
        Maximum depth of a tree.
    learning_rate : float, default=0.1
    max_rounds : int, default=1000
        Maximum number of trees of a member.
    categorical_features : "from_dtype", None or list, default="from_dtype"
        Categorical columns, as for `TopPushTrees`.
    cv : int, splitter or iterable of (train, held-out) pairs, optional
        Folds that the members leave out in turn, as for `TopPushTrees`.
    n_jobs : int, optional
        By default all cores, or OMP_NUM_THREADS if set. The result does not depend on it.
    random_state : int, RandomState or None, default=0
    verbose : int, default=0
        Without effect.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    Those of `TopPushTrees`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_members": [Interval(Integral, 1, None, closed="left")],
        "depth": [Interval(Integral, 1, 10, closed="both")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_rounds": [Interval(Integral, 1, None, closed="left")],
        "categorical_features": [StrOptions({FROM_DTYPE}), "array-like", None],
        "cv": ["cv_object"],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "positive": LABEL,
    }
    top = TOP
    loss = "binary"
    min_child_samples = 1

    def __init__(
        self,
        n_members: int = 4,
        *,
        depth: int = 5,
        learning_rate: float = 0.1,
        max_rounds: int = 1000,
        categorical_features: Any = FROM_DTYPE,
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        positive: object = None,
    ) -> None:
        self.n_members, self.depth = n_members, depth
        self.learning_rate, self.max_rounds = learning_rate, max_rounds
        self.categorical_features, self.cv, self.n_jobs = categorical_features, cv, n_jobs
        self.random_state, self.verbose, self.positive = random_state, verbose, positive

    def _train(self, train: EngineRows, held: EngineRows, seed: int, n_jobs: int) -> "Trained":
        """Train a member until its held-out rows are ranked no better."""
        raise NotImplementedError

    def _grow(
        self,
        X: Matrix,
        positive: Mask,
        weight: Array | None,
        folds: Folds,
        rng: np.random.RandomState,
    ) -> list[BoostedMember]:
        """Train all members, some at a time."""
        self.category_statistics_ = {}
        seeds = rng.randint(2**31 - 1, size=self.n_members)
        n_codes = {column: len(known) for column, known in sorted(self.categories_.items())}
        rows = EngineRows(in_single(dense(X)), positive, weight, n_codes)
        at_once = min(self._threads(), self.n_members)
        n_jobs = max(1, self._threads() // at_once)

        def train(number: int) -> BoostedMember:
            fold: Fold = folds[number % len(folds)]
            own, held = (rows.part(where) for where in fold)
            return self._train(own, held, int(seeds[number]), n_jobs).member(fold[1], X.shape[1])

        return in_threads(train, range(self.n_members), at_once)


@dataclass(frozen=True)
class Trained:
    """The trees of a member, and the NDCG of its held-out rows after some of them."""

    trees: Sequence[Leaves]
    quality: Sequence[float]
    n_trees: Sequence[int]
    """Number of trees at each evaluation."""

    def member(self, held: Where, n_features: int) -> BoostedMember:
        """The same with the trees in LightGBM's format."""
        trees, weights = zip(*self.trees, strict=True)
        text = written(trees, weights, n_features)
        return BoostedMember(
            text, held, np.array(self.quality), np.array(self.n_trees), len(self.trees)
        )


def set_of_left(goes_right: Mask, missing_right: bool) -> tuple[Where, bool]:
    """A split by categories as LightGBM has it: the set of categories that its left child gets.

    There missing and unknown categories go right. So if they go left here, the children are
    exchanged; the second value says whether.
    """
    codes = np.flatnonzero(~goes_right if missing_right else goes_right)
    return codes, not missing_right
