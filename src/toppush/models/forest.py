"""A forest of extremely randomised trees, grown fold by fold."""

from collections.abc import Iterator
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.tree._tree import NODE_DTYPE, Tree
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from toppush.designs.local import default_threads
from toppush.folds.cross_fitted import Fold, folds_of, require_two_of_each, top_mean, weights_of
from toppush.folds.expected_scores import n_averaged, narrowed, with_second_scores
from toppush.matrices import dense, in_single, is_thin
from toppush.models.base import LABEL, Ranker, refuse_elsewhere, two_classes, unchanged_on_failure
from toppush.system.threads import in_threads
from toppush.tables.validation import validated
from toppush.types import Array, Labels, Mask, Matrix, Where

TOP = 0.01
"""Share of the negatives that makes the top, by which scores are shifted."""
THIN = 0.05
"""Share of entries that are not zero up to which trees grow faster on sparse rows."""
GROWN_AT_ONCE = 24
"""Trees after which a thread looks whether to go on."""


class TopForest(Ranker):
    """Mean of extremely randomised trees, each a guess of the share of positives.

    The trees are scikit-learn's and see the rows of all folds but one, so the fit has scores of
    every row by trees that did not see it. Missing values need no preparation in dense rows;
    categories are taken as numbers.

    Parameters
    ----------
    n_trees : int, default=200
        Of all folds together.
    min_rows : int, default=2
        Rows of a leaf at least.
    cv : int, splitter or iterable of (train, held-out) pairs, optional
        By default four folds, drawn anew.
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
        Where the nodes of each tree begin, and where the last end.
    feature_, threshold_at_, right_, missing_left_, value_ : arrays, an entry for each node
        The column it splits by (-1: a leaf), the greatest value that goes left, where its right
        child is in its tree (the left one follows it), whether missing values go left, and the
        share of positives.
    out_of_fold_ : array of shape (n_samples,)
        Scores of the training rows by trees that did not see them, less the threshold; NaN for
        rows that every tree saw.
    second_scores_ : array of shape (n_samples,)
        Scores of an eighth of the training rows by the trees of a second fold, which did not see
        them either; NaN for other rows.
    expected_scores_ : array of shape (n_samples,)
        Out-of-fold scores narrowed to the distribution that the mean of all trees has on new rows.
    threshold_ : float
        Mean of the greatest of the expected scores of negatives, 1 % of them.
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
    threshold_: float
    _built: list[Any] | None

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
        self.n_trees = n_trees
        self.min_rows = min_rows
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.positive = positive

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
            X, y = validated(
                self, X, y, accept_sparse="csr", dtype=np.float64, ensure_all_finite="allow-nan"
            )
            self.classes_ = two_classes(y, self.positive)
            weight = weights_of(sample_weight, X)
            counted = np.arange(len(y)) if weight is None else np.flatnonzero(weight > 0)
            positive = np.asarray(y == self.classes_[1])
            require_two_of_each(positive[counted], self.classes_)
            rows = in_single(X if is_thin(X, THIN) else dense(X))
            folds = folds_of(self.cv, y, positive, counted, self.random_state)
            self._grow(rows, positive, weight, *with_second_scores(folds, positive))
        return self

    def decision_function(self, X: Matrix) -> Array:
        """Share of positives in the rows' leaves, less the threshold; higher ranks first.

        Only the order counts; a score above 0 exceeds that of the top training negatives and is
        not a decision.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
        """
        check_is_fitted(self)
        return _mean_share(self._trees(), self._read(X)) - self.threshold_

    def contributions(self, X: Matrix) -> Array:
        """What each column adds to a row's score; the last column is the rest.

        On the way from root to leaf, what a split changes in the share of positives belongs to
        its column (Saabas 2014).

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_features + 1)
            Rows sum to `decision_function`.
        """
        check_is_fitted(self)
        rows = dense(self._read(X))
        found = np.zeros((len(rows), self.n_features_in_ + 1))
        for first in self.starts_[:-1]:
            self._follow(rows, int(first), found)
        found /= len(self.starts_) - 1
        found[:, -1] -= self.threshold_
        return found

    def _follow(self, rows: NDArray[np.float32], first: int, found: Array) -> None:
        """Add what the splits of one tree change for each row."""
        node = np.full(len(rows), first)
        found[:, -1] += self.value_[first]
        active = np.flatnonzero(self.feature_[node] >= 0)
        while len(active):
            at = node[active]
            column = self.feature_[at]
            values = rows[active, column]
            left = np.where(
                np.isnan(values), self.missing_left_[at], values <= self.threshold_at_[at]
            )
            to = np.where(left, at + 1, first + self.right_[at])
            found[active, column] += self.value_[to] - self.value_[at]
            node[active] = to
            active = active[self.feature_[to] >= 0]

    def _read(self, X: Matrix) -> Matrix:
        """Rows to score, in single precision."""
        refuse_elsewhere(self, X=X)
        X = validated(
            self,
            X,
            reset=False,
            accept_sparse="csr",
            dtype=np.float64,
            ensure_all_finite="allow-nan",
        )
        return in_single(X)

    def _grow(
        self,
        X: Matrix,
        positive: Mask,
        weight: Array | None,
        folds: list[Fold],
        again: list[Where],
    ) -> None:
        """Set the fitted attributes."""
        per_fold = max(1, round(self.n_trees / len(folds)))
        rng = check_random_state(self.random_state)
        seeds = rng.randint(2**31 - 1, size=(len(folds), per_fold))
        jobs = [
            (fold, seeds[fold, at : at + GROWN_AT_ONCE])
            for fold in range(len(folds))
            for at in range(0, per_fold, GROWN_AT_ONCE)
        ]
        kept = [X[train] for train, _ in folds]

        def some(job: tuple[int, NDArray[Any]]) -> list[Tree]:
            fold, some_seeds = job
            train = folds[fold][0]
            grown = ExtraTreesClassifier(
                len(some_seeds),
                min_samples_leaf=self.min_rows,
                n_jobs=1,
                random_state=int(some_seeds[0]),
            )
            grown.fit(kept[fold], positive[train], None if weight is None else weight[train])
            return [one.tree_ for one in grown.estimators_]

        n_jobs = default_threads() if self.n_jobs is None else self.n_jobs
        trees = in_threads(some, jobs, min(n_jobs, len(jobs)))
        self._keep_trees([one for group in trees for one in group])
        self._keep_scores(X, positive, [held for _, held in folds], again, per_fold)

    def _keep_trees(self, trees: list[Tree]) -> None:
        """The trees as arrays."""
        self._built = None
        sizes = [one.node_count for one in trees]
        self.starts_ = np.concatenate([[0], np.cumsum(sizes)])
        self.feature_ = np.concatenate([np.maximum(one.feature, -1) for one in trees]).astype(
            np.int32
        )
        self.threshold_at_ = np.concatenate([one.threshold for one in trees])
        self.right_ = np.concatenate([one.children_right for one in trees]).astype(np.int32)
        self.missing_left_ = np.concatenate([one.missing_go_to_left for one in trees]).astype(bool)
        self.value_ = np.concatenate([one.value[:, 0, -1] for one in trees])

    def _keep_scores(
        self, X: Matrix, positive: Mask, held: list[Where], again: list[Where], per_fold: int
    ) -> None:
        """Out-of-fold scores, those to expect of new rows, and the threshold."""
        first, second = (self._scores_by_fold(X, rows, per_fold) for rows in (held, again))
        expected = narrowed(first, first, second, n_averaged(held))
        self.threshold_ = top_mean(expected[~positive], TOP)
        self.out_of_fold_ = first - self.threshold_
        self.second_scores_ = second - self.threshold_
        self.expected_scores_ = expected - self.threshold_

    def _scores_by_fold(self, X: Matrix, rows: list[Where], per_fold: int) -> Array:
        """Scores of some rows of each fold by its own trees; NaN of rows that no fold has."""
        total, times = np.zeros((2, X.shape[0]))
        trees = self._trees()
        for number, some in enumerate(rows):
            own = trees[number * per_fold : (number + 1) * per_fold]
            total[some] += _mean_share(own, X[some])
            times[some] += 1
        with np.errstate(invalid="ignore"):  # NaN where every tree saw the row
            return np.asarray(total / times)

    def _trees(self) -> list[Any]:
        """The trees as scikit-learn's, built from the arrays once."""
        found = getattr(self, "_built", None)
        if found is None:
            found = self._built = list(self._rebuilt())
        return found

    def _rebuilt(self) -> Iterator[Any]:
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
            yield tree

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_built": None}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # `predict` marks the very top, not the classes
        tags.input_tags.allow_nan = True
        return tags


def _require_tree(nodes: NDArray[Any], split: Mask, n_features: int) -> None:
    """Refuse nodes that would lead out of a tree, or round in it."""
    places = np.arange(len(nodes))[split]
    right, feature = nodes["right_child"][split], nodes["feature"][split]
    inside = len(nodes) and (right > places + 1).all() and (right < len(nodes)).all()
    if not inside or (feature >= n_features).any():
        raise ValueError("the nodes are no tree: one leads to where there is none.")


def _mean_share(trees: list[Any], rows: Matrix) -> Array:
    """Mean share of positives over some trees."""
    total = np.zeros(rows.shape[0])
    for tree in trees:
        total += tree.predict(rows).reshape(-1)
    return total / len(trees)
