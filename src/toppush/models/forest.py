"""A forest of extremely randomised trees, as a cross-fitted ensemble."""

from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.tree._tree import NODE_DTYPE, Tree
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from toppush.designs.local import default_threads
from toppush.folds.scores import (
    FoldScores,
    mean_over_fits,
    n_averaged,
    narrowed,
    with_second_scores,
)
from toppush.folds.splits import make_folds
from toppush.matrices import dense, in_single, is_thin
from toppush.models.base import LABEL, refuse_elsewhere, unchanged_on_failure
from toppush.models.cross_fitted import READING, CrossFitted
from toppush.system.threads import in_threads
from toppush.tables.validation import validated
from toppush.types import Array, Labels, Mask, Matrix, Where

THIN = 0.05
"""Share of non-zero entries up to which trees grow faster on sparse rows."""
GROWN_AT_ONCE = 24
"""Trees after which a thread checks for an interrupt."""


class TopForest(CrossFitted):
    """Mean of extremely randomised trees, each of which estimates the share of positives.

    The trees are scikit-learn's; each is trained on all folds but one, so the fit has out-of-fold
    scores of every row. Missing values need no preparation in dense rows; categories are taken as
    numbers.

    Parameters
    ----------
    n_trees : int, default=200
        Of all folds together.
    min_rows : int, default=2
        Minimum number of rows of a leaf.
    cv : int, splitter or iterable of (train, held-out) pairs, optional
        By default four shuffled folds.
    n_jobs : int, optional
        By default all cores, or OMP_NUM_THREADS if set. The result does not depend on it.
    random_state : int, RandomState or None, default=0
    verbose : int, default=0
        Without effect.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    starts_ : array of int
        The position of the first node of each tree, and the number of all nodes.
    feature_, threshold_at_, right_, missing_left_, value_ : arrays, an entry for each node
        The column of the split (-1: a leaf), the greatest value that goes left, the position of the
        right child in the tree (the left one follows the node), whether missing values go left, and
        the share of positives.
    out_of_fold_ : array of shape (n_samples,)
        Scores of the training rows by trees that did not see them, less the threshold; NaN for
        rows that every tree saw.
    second_scores_ : array of shape (n_samples,)
        Scores of an eighth of the training rows by the trees of a second fold, which did not see
        them either; NaN for other rows.
    expected_scores_ : array of shape (n_samples,)
        Out-of-fold scores narrowed to the distribution that the mean of all trees has on new rows.
    threshold_ : float
        Score above which the expected F1 score of new rows is greatest; scores are less this.
    calibration_ : Calibration
        Probabilities of scores, see `toppush.thresholds.probabilities`.
    classes_ : array of shape (2,)
        The second class is the positive one.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)
        If X has column names that are strings.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from toppush.models.forest import TopForest
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> TopForest(40).fit(X, y).decision_function(X).shape
    (569,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_trees": [Interval(Integral, 1, None, closed="left")],
        "min_rows": [Interval(Integral, 1, None, closed="left")],
        "cv": ["cv_object"],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "positive": LABEL,
    }

    starts_: Where
    feature_: NDArray[np.int32]
    threshold_at_: Array
    right_: NDArray[np.int32]
    missing_left_: Mask
    value_: Array

    def __init__(
        self,
        n_trees: int = 200,
        *,
        min_rows: int = 2,
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        positive: object = None,
    ) -> None:
        self.n_trees, self.min_rows, self.cv, self.n_jobs = n_trees, min_rows, cv, n_jobs
        self.random_state, self.verbose, self.positive = random_state, verbose, positive

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None = None) -> Self:
        """Grow the trees.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Numbers; NaN is a missing value, in dense rows.
        y : array-like of shape (n_samples,)
            Two classes, of which `positive` names the one to rank first.
        sample_weight : array-like of shape (n_samples,), optional
            Counts relative to the mean weight; a row of weight 0 is left out.

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            refuse_elsewhere(self, X=X)
            X, y = validated(self, X, y, **READING)
            positive, weight, counted = self._read_classes(X, y, sample_weight)
            rng = check_random_state(self.random_state)
            places = make_folds(self.cv, y, positive, counted, rng)
            folds = [(counted[train], counted[held]) for train, held in places]
            folds, again = with_second_scores(folds, positive)
            rows = in_single(X if is_thin(X, THIN) else dense(X))
            per_fold = max(1, round(self.n_trees / len(folds)))
            self._grow(rows, positive, weight, [train for train, _ in folds], per_fold)
            held = [where for _, where in folds]
            first, second = (self._fold_scores(rows, parts, per_fold) for parts in (held, again))
            expected = narrowed(first, first, second, n_averaged(held))
            scores = FoldScores(first, second, expected)
            self._keep_scores(scores, positive, weight, np.arange(len(y)), len(y))
        return self

    def _score(self, X: Matrix) -> Array:
        return _mean_share(self._models(), X)

    def _contributions(self, X: Matrix) -> Array:
        """By path: what a split changes in the share of positives counts for its column.

        A. Saabas. Interpreting random forests. 2014.
        """
        rows = dense(X)
        added = np.zeros((len(rows), self.n_features_in_ + 1))
        for first in self.starts_[:-1]:
            self._follow(rows, int(first), added)
        added /= len(self.starts_) - 1
        return added

    def _follow(self, rows: NDArray[np.float32], first: int, added: Array) -> None:
        """Add what the splits of one tree change for each row."""
        node = np.full(len(rows), first)
        added[:, -1] += self.value_[first]
        active = np.flatnonzero(self.feature_[node] >= 0)
        while len(active):
            at = node[active]
            column = self.feature_[at]
            values = rows[active, column]
            left = np.where(
                np.isnan(values), self.missing_left_[at], values <= self.threshold_at_[at]
            )
            to = np.where(left, at + 1, first + self.right_[at])
            added[active, column] += self.value_[to] - self.value_[at]
            node[active] = to
            active = active[self.feature_[to] >= 0]

    def _read(self, X: Matrix) -> Matrix:
        return in_single(super()._read(X))

    def _grow(
        self, X: Matrix, positive: Mask, weight: Array | None, trained: list[Where], per_fold: int
    ) -> None:
        """Grow the trees of each fold on the rows that it trains on."""
        rng = check_random_state(self.random_state)
        seeds = rng.randint(2**31 - 1, size=(len(trained), per_fold))
        jobs = [
            (fold, seeds[fold, at : at + GROWN_AT_ONCE])
            for fold in range(len(trained))
            for at in range(0, per_fold, GROWN_AT_ONCE)
        ]
        kept = [X[train] for train in trained]

        def train_some(job: tuple[int, NDArray[Any]]) -> list[Tree]:
            fold, some_seeds = job
            train = trained[fold]
            forest = ExtraTreesClassifier(
                len(some_seeds),
                min_samples_leaf=self.min_rows,
                n_jobs=1,
                random_state=int(some_seeds[0]),
            )
            forest.fit(kept[fold], positive[train], None if weight is None else weight[train])
            return [each.tree_ for each in forest.estimators_]

        n_jobs = default_threads() if self.n_jobs is None else self.n_jobs
        groups = in_threads(train_some, jobs, min(n_jobs, len(jobs)))
        self._keep_trees([tree for group in groups for tree in group])

    def _keep_trees(self, trees: list[Tree]) -> None:
        """Keep the trees as arrays."""
        self._loaded = None
        self.starts_ = np.concatenate([[0], np.cumsum([tree.node_count for tree in trees])])
        self.feature_ = np.concatenate([np.maximum(tree.feature, -1) for tree in trees]).astype(
            np.int32
        )
        self.threshold_at_ = np.concatenate([tree.threshold for tree in trees])
        self.right_ = np.concatenate([tree.children_right for tree in trees]).astype(np.int32)
        left = [tree.missing_go_to_left for tree in trees]
        self.missing_left_ = np.concatenate(left).astype(bool)
        self.value_ = np.concatenate([tree.value[:, 0, -1] for tree in trees])

    def _fold_scores(self, X: Matrix, rows: list[Where], per_fold: int) -> Array:
        """Scores of some rows of each fold by its own trees; NaN for rows of no fold."""
        trees = self._models()
        own = (trees[number * per_fold : (number + 1) * per_fold] for number in range(len(rows)))
        parts = ((some, _mean_share(of, X[some])) for some, of in zip(rows, own, strict=True))
        return mean_over_fits(parts, X.shape[0])

    def _load(self) -> list[Any]:
        """scikit-learn's trees, made of the arrays."""
        trees = []
        for first, end in zip(self.starts_[:-1], self.starts_[1:], strict=True):
            part = slice(int(first), int(end))
            split = self.feature_[part] >= 0
            nodes = np.zeros(int(end - first), NODE_DTYPE)
            nodes["left_child"] = np.where(split, np.arange(1, len(nodes) + 1), -1)
            nodes["right_child"] = np.where(split, self.right_[part], -1)
            nodes["feature"] = np.where(split, self.feature_[part], -2)
            nodes["threshold"] = self.threshold_at_[part]
            nodes["missing_go_to_left"] = self.missing_left_[part]
            _require_tree(nodes, split, self.n_features_in_)
            tree = Tree(self.n_features_in_, np.array([1]), 1)
            values = np.ascontiguousarray(self.value_[part].reshape(-1, 1, 1))
            state = {"max_depth": 0, "node_count": len(nodes), "nodes": nodes, "values": values}
            tree.__setstate__(state)
            trees.append(tree)
        return trees


def _require_tree(nodes: NDArray[Any], split: Mask, n_features: int) -> None:
    """Refuse nodes whose children lie outside of the tree, or before them."""
    places = np.arange(len(nodes))[split]
    right, feature = nodes["right_child"][split], nodes["feature"][split]
    inside = len(nodes) and (right > places + 1).all() and (right < len(nodes)).all()
    if not inside or (feature >= n_features).any():
        raise ValueError("the nodes are no tree: a child is missing.")


def _mean_share(trees: list[Any], rows: Matrix) -> Array:
    """Mean share of positives over some trees."""
    total = np.zeros(rows.shape[0])
    for tree in trees:
        total += tree.predict(rows).reshape(-1)
    return total / len(trees)
