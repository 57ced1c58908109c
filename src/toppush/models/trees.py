"""The estimator of boosted trees that push positives above the top negatives."""

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.utils import Tags, check_array, check_random_state, check_X_y
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from toppush.designs.local import default_threads
from toppush.folds.cross_fitted import (
    Fold,
    drawn_folds,
    given_folds,
    in_order,
    joined,
    require_two_of_each,
    top_mean,
    weights_of,
)
from toppush.folds.expected_scores import n_averaged, narrowed, with_second_scores
from toppush.matrices import common_columns, dense, for_engine
from toppush.models.base import (
    DTYPES,
    LABEL,
    Ranker,
    refuse_elsewhere,
    two_classes,
    unchanged_on_failure,
)
from toppush.models.boosting import (
    LEAST_ROWS,
    Grown,
    Growth,
    GrowthLine,
    Rows,
    choose_rounds,
    grow,
    lightgbm,
    others_than,
)
from toppush.problem.objective import count_top
from toppush.system.threads import in_threads
from toppush.tables.frames import FROM_DTYPE, Categories, Formats, FrameColumns, Table
from toppush.tables.validation import require_sizes, validated
from toppush.types import Array, Labels, Mask, Matrix, Where

READING: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": DTYPES,
    "ensure_all_finite": "allow-nan",
}
"""How rows are checked."""


class TopPushTrees(Ranker):
    """Mean of boosted trees that push positives above the highest negatives, by LightGBM.

    Each member minimises sum_i sum_j p_j log(1 + exp(f_j - f_i)) over positives i and negatives
    j, p_j the part of a negative in the smoothed top. A member leaves one fold out, and
    all keep the number of rounds with the best mean NDCG of these folds; so the fit has scores of
    every row by a member that did not see it. Missing values and categories need no
    preparation. It needs `toppush[trees]`.

    Parameters
    ----------
    top : int or float, default=0.01
        How many negatives count as the top: a count if an int, a share of them if a float.
    loss : {"pairwise", "binary"}, default="pairwise"
        "binary" is the usual log loss of LightGBM, all else being the same.
    n_members : int, default=8
        Members that are averaged.
    n_leaves : int, default=31
        Leaves of a tree at most.
    learning_rate : float, default=0.1
    max_rounds : int, default=1000
        Trees of a member at most.
    categorical_features : "from_dtype", None or list, default="from_dtype"
        Columns that hold categories: by their type in a data frame (text or category), or by
        number, name or mask. Categories that a fit did not see count as gaps.
    cv : int, splitter or iterable of (train, held-out) pairs, optional
        Folds that the members leave out in turn; by default as many as there are members, drawn
        anew.
    n_jobs : int, optional
        By default all cores, or OMP_NUM_THREADS if set. The result does not depend on it.
    random_state : int, RandomState or None, default=0
    verbose : int, default=0
        1 shows a line that follows the fit.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    texts_ : list of str
        The members as LightGBM writes them.
    out_of_fold_ : array of shape (n_samples,)
        Scores of the training rows by members that did not see them, less the threshold; NaN for
        rows that every member saw. A fold's rows are scored after as many rounds as the other folds
        choose, and each member's scores have the same mean and standard deviation here, so that
        they make one ranking. With a single member its own fold chooses the rounds, and the scores
        are optimistic.
    second_scores_ : array of shape (n_samples,)
        Scores of an eighth of the training rows by a second member that did not see them; NaN for
        other rows.
    expected_scores_ : array of shape (n_samples,)
        Out-of-fold scores narrowed to the distribution that the mean of all members has on new
        rows; percentile scores compare with these.
    threshold_ : float
        Mean of the greatest expected scores of negatives, as many as make the top.
    n_rounds_, n_tried_ : list of int
        Trees of each member, and how many were grown to find where to stop.
    feature_importances_ : array of shape (n_features,)
        Shares in all that splits gained.
    columns_ : array of int or None
        Columns of sparse rows that the members know: those with enough entries for a leaf. None if
        they know all.
    categories_ : dict
        Number of a column -> its categories.
    formats_ : dict
        Number of a column of numbers written as text -> its decimal mark and its unit.
    classes_ : array of shape (2,)
        The second class is the positive one.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        If X has column names that are strings.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from toppush import TopPushTrees
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ranker = TopPushTrees(n_members=4).fit(X, y)
    >>> ranker.decision_function(X).shape
    (569,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "top": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="right"),
        ],
        "loss": [StrOptions({"pairwise", "binary"})],
        "n_members": [Interval(Integral, 1, None, closed="left")],
        "n_leaves": [Interval(Integral, 2, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_rounds": [Interval(Integral, 1, None, closed="left")],
        "categorical_features": [StrOptions({FROM_DTYPE}), "array-like", None],
        "cv": ["cv_object"],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "positive": LABEL,
    }

    texts_: list[str]
    threshold_: float
    categories_: Categories
    formats_: Formats
    columns_: Where | None
    _read_boosters: list[Any] | None

    def __init__(
        self,
        top: float = 0.01,
        *,
        loss: str = "pairwise",
        n_members: int = 8,
        n_leaves: int = 31,
        learning_rate: float = 0.1,
        max_rounds: int = 1000,
        categorical_features: Any = FROM_DTYPE,
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        positive: object = None,
    ) -> None:
        self.top = top
        self.loss = loss
        self.n_members = n_members
        self.n_leaves = n_leaves
        self.learning_rate = learning_rate
        self.max_rounds = max_rounds
        self.categorical_features = categorical_features
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.positive = positive

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None = None) -> Self:
        """Learn to rank the rows of X.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            NaN is a gap.
        y : array-like of shape (n_samples,)
            Two classes, of which `positive` names the one to rank first.
        sample_weight : array-like of shape (n_samples,), optional
            Counts relative to the mean weight; a row of weight 0 is left out.

        Returns
        -------
        self
        """
        lightgbm()
        with unchanged_on_failure(self):
            self._read_boosters = None
            X, y = self._read_training(X, y)
            self.classes_ = two_classes(y, self.positive)
            weight = weights_of(sample_weight, X)
            counted = np.arange(len(y)) if weight is None else np.flatnonzero(weight > 0)
            positive = np.asarray(y == self.classes_[1])[counted]
            require_two_of_each(positive, self.classes_)
            count_top(self.top, int((~positive).sum()))
            weight = None if weight is None else weight[counted]
            X = for_engine(X) if len(counted) == len(y) else for_engine(X)[counted]
            self.columns_ = common_columns(X, LEAST_ROWS)
            X, rng = self._kept(X), check_random_state(self.random_state)
            drawn, given = (
                drawn_folds(positive, self.n_members, rng),
                given_folds(self.cv, y, counted),
            )
            folds, again = with_second_scores(drawn if given is None else given, positive)
            members = self._grow(X, positive, weight, folds, rng)
            self._keep(members, again, X, counted, positive, len(y))
        return self

    def decision_function(self, X: Matrix) -> Array:
        """Scores less the threshold; higher ranks first.

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
        rows = self._read(X)
        scores = np.zeros(rows.shape[0])
        for booster in self._boosters():
            scores += self._raw_scores(booster, rows)
        return np.asarray(scores / len(self.texts_) - self.threshold_)

    def contributions(self, X: Matrix) -> Array:
        """What each column adds to a row's score, by TreeSHAP; the last column is the rest.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_features + 1)
            Rows sum to `decision_function`.
        """
        check_is_fitted(self)
        rows, n_jobs = self._read(X), self._threads()
        found = np.zeros((rows.shape[0], rows.shape[1] + 1))
        for booster in self._boosters():
            found += dense(booster.predict(rows, pred_contrib=True, num_threads=n_jobs))
        found /= len(self.texts_)
        found[:, -1] -= self.threshold_
        return np.column_stack([self._of_all(found[:, :-1]), found[:, -1:]])

    @property
    def feature_importances_(self) -> Array:
        """Shares in all that splits gained."""
        check_is_fitted(self)
        gains = sum(one.feature_importance("gain") for one in self._boosters())
        total = float(np.sum(gains))
        return self._of_all(np.asarray(gains / total if total > 0 else gains))

    def _read_training(self, X: Matrix, y: Labels) -> tuple[Matrix, NDArray[Any]]:
        """The rows as numbers; what the columns hold is learned."""
        refuse_elsewhere(self, X=X)
        self.categories_, self.formats_ = {}, {}
        if self.categorical_features is not None:
            columns = FrameColumns.of(X, self.categorical_features, read_dates=False)
            self.categories_, self.formats_ = columns.categories, columns.formats
        if not (self.categories_ or self.formats_):
            return validated(self, X, y, **READING)  # type: ignore[no-any-return]
        validate_data(self, X, y, skip_check_array=True)
        numbers, y = check_X_y(self._coded(X), y, **READING)
        require_sizes(numbers, Table(X).names, training=True)
        return numbers, y

    def _read(self, X: Matrix) -> Matrix:
        """Rows to score, as numbers."""
        refuse_elsewhere(self, X=X)
        if not (self.categories_ or self.formats_):
            return self._kept(for_engine(validated(self, X, reset=False, **READING)))
        validate_data(self, X, reset=False, skip_check_array=True)
        numbers = check_array(self._coded(X), **READING)
        require_sizes(numbers, Table(X).names)
        return numbers

    def _coded(self, X: Matrix) -> Array:
        """A table as numbers; a column of dates is refused."""
        return FrameColumns(len(Table(X).names), self.categories_, self.formats_).numbers(X)

    def _kept(self, X: Matrix) -> Matrix:
        """The columns that the members know."""
        return X if self.columns_ is None else X[:, self.columns_]

    def _of_all(self, values: Array) -> Array:
        """Values of the columns that the members know, and 0 for the others."""
        if self.columns_ is None:
            return values
        found = np.zeros((*values.shape[:-1], self.n_features_in_))
        found[..., self.columns_] = values
        return found

    def _grow(
        self,
        X: Matrix,
        positive: Mask,
        weight: Array | None,
        folds: list[Fold],
        rng: np.random.RandomState,
    ) -> list[Grown]:
        """All members, some at a time."""
        seeds = [int(seed) for seed in rng.randint(2**31 - 1, size=self.n_members)]
        growth = Growth(self.top, self.loss, self.n_leaves, self.learning_rate, self.max_rounds)
        rows = Rows(X, positive, weight, sorted(self.categories_), growth)
        line = GrowthLine(self.n_members) if self.verbose else None
        at_once, n_jobs = _shared(self._threads(), self.n_members)

        def member(number: int) -> Grown:
            tell = (lambda: None) if line is None else line.round
            fold = folds[number % len(folds)]
            grown = grow(rows, growth, fold, seeds[number], n_jobs, tell)
            if line is not None:
                line.done()
            return grown

        members = in_threads(member, range(self.n_members), at_once)
        if line is not None:
            line.close()
        return members

    def _keep(
        self,
        members: list[Grown],
        again: list[Where],
        X: Matrix,
        counted: Where,
        positive: Mask,
        n_rows: int,
    ) -> None:
        """Set the fitted attributes: all members keep the number of rounds with the best mean NDCG.

        The rows of a fold are scored with the number that is best on the other folds.
        """
        choose, everyone = choose_rounds(members), range(len(members))
        whole = [lightgbm().Booster(model_str=one.text) for one in members]
        n_trees = [one.n_trees_at(choose(everyone)) for one in members]
        self.texts_ = [
            booster.model_to_string(num_iteration=count)
            for booster, count in zip(whole, n_trees, strict=True)
        ]
        self._boosters()
        self.n_rounds_ = n_trees
        self.n_tried_ = [one.n_tried for one in members]
        chosen, first, second = [], [], []
        for place, (member, booster) in enumerate(zip(members, whole, strict=True)):
            held, other = member.held, again[place % len(again)]
            rounds = member.n_trees_at(choose(others_than(place, members)))
            by_rounds = self._raw_scores(booster, X[held], rounds)
            first.append((held, self._raw_scores(booster, X[held], n_trees[place])))
            second.append((other, self._raw_scores(booster, X[other], n_trees[place])))
            chosen.append((held, in_order(first[-1][1], by_rounds)))
        unseen, one_score = joined(chosen, len(positive)), joined(first, len(positive))
        second_score = joined(second, len(positive), units=first)
        n_models = n_averaged([member.held for member in members])
        expected = narrowed(unseen, one_score, second_score, n_models)
        self.threshold_ = top_mean(expected[~positive], self.top)
        self.out_of_fold_, self.second_scores_, self.expected_scores_ = np.full((3, n_rows), np.nan)
        self.out_of_fold_[counted] = unseen - self.threshold_
        self.second_scores_[counted] = second_score - self.threshold_
        self.expected_scores_[counted] = expected - self.threshold_

    def _raw_scores(self, booster: Any, rows: Matrix, n_trees: int = -1) -> Array:
        """Scores by the first trees of a member; by all if -1."""
        found: Array = booster.predict(
            rows, raw_score=True, num_iteration=n_trees, num_threads=self._threads()
        )
        return found

    def _threads(self) -> int:
        return default_threads() if self.n_jobs is None else self.n_jobs

    def _boosters(self) -> list[Any]:
        """The members, read from their texts once."""
        found = getattr(self, "_read_boosters", None)
        if found is None:
            engine = lightgbm()
            found = self._read_boosters = [engine.Booster(model_str=one) for one in self.texts_]
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_read_boosters": None}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # `predict` marks the very top, not the classes
        tags.input_tags.allow_nan = True
        return tags


def _shared(n_jobs: int, n_members: int) -> tuple[int, int]:
    """Members that grow at once, and the threads of each."""
    at_once = min(n_jobs, n_members)
    return at_once, max(1, n_jobs // at_once)
