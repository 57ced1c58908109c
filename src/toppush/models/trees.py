"""Boosted trees with a pairwise loss at the top, as a cross-fitted ensemble."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.utils import check_array, check_random_state, check_X_y, gen_batches
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from toppush.designs.local import default_threads
from toppush.folds.scores import FoldScores, n_averaged, with_second_scores
from toppush.folds.splits import Folds, make_folds
from toppush.matrices import common_columns, dense, for_engine
from toppush.models.base import DTYPES, LABEL, refuse_elsewhere, unchanged_on_failure
from toppush.models.boosting import (
    BoostedMember,
    Growth,
    GrowthLine,
    TrainingBins,
    choose_rounds,
    grow,
    lightgbm,
    others_than,
)
from toppush.models.cross_fitted import CrossFitted
from toppush.models.target_statistics import (
    Tables,
    by_source,
    encoded,
    encoded_for_training,
    learn_tables,
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
"""How rows of numbers are validated."""
PART_NUMBERS = 1 << 22
"""Values of encoded rows that are in memory at a time, 32 MiB."""


class TopPushTrees(CrossFitted):
    """Mean of boosted trees that rank positives above the highest negatives, by LightGBM.

    Each member minimises sum_i sum_j p_j log(1 + exp(f_j - f_i)) over positives i and negatives
    j, where p_j is the share of a negative in the smoothed top. Each member leaves one fold out,
    and all keep the number of rounds with the best mean NDCG on these folds, so the fit has
    out-of-fold scores of every row. Missing values and categories need no preparation. Needs
    `toppush[trees]`.

    Parameters
    ----------
    top : int or float, default=0.01
        How many negatives count as the top: a count if an int, a share of them if a float.
    loss : {"pairwise", "binary"}, default="pairwise"
        "binary" is LightGBM's own log loss.
    n_members : int, default=8
        Number of members; their scores are averaged.
    n_leaves : int, default=31
        Maximum number of leaves of a tree.
    learning_rate : float, default=0.1
    max_rounds : int, default=1000
        Maximum number of trees of a member.
    subsample : float, default=0.7
        Share of the rows that a tree is grown on.
    colsample_bynode : float, default=0.3
        Share of the columns that a split is chosen from.
    min_child_samples : int, default=5
        Minimum number of rows of a leaf.
    category_encoding : {"native", "smoothed", "target"}, default="native"
        How categories are split: by LightGBM with its default regularisation, or with a stronger
        one (max_cat_to_onehot=8, cat_smooth=50, cat_l2=20, min_data_per_group=20); or by their
        smoothed share of positives and by the logarithm of their count. Shares of a row's category
        never contain its own label.
    categorical_features : "from_dtype", None or list, default="from_dtype"
        Categorical columns: by their type in a data frame (strings or categories), or by position,
        name or mask. Categories that a fit did not see count as missing.
    cv : int, splitter or iterable of (train, held-out) pairs, optional
        Folds that the members leave out in turn; by default as many as there are members, drawn
        anew.
    n_jobs : int, optional
        By default all cores, or OMP_NUM_THREADS if set. The result does not depend on it.
    random_state : int, RandomState or None, default=0
    verbose : int, default=0
        If 1, show progress.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    texts_ : list of str
        The members in LightGBM's model format.
    out_of_fold_ : array of shape (n_samples,)
        Scores of the training rows by members that did not see them, less the threshold; NaN for
        rows that every member saw. The rounds for a fold are those chosen on the other folds, and
        each member's scores are shifted and scaled to the same mean and standard deviation. With a
        single member its own fold chooses the rounds, and the scores are optimistic.
    second_scores_ : array of shape (n_samples,)
        Scores of an eighth of the training rows by a second member that did not see them; NaN for
        other rows.
    expected_scores_ : array of shape (n_samples,)
        Out-of-fold scores narrowed to the distribution that the mean of all members has on new
        rows; percentile scores refer to these.
    threshold_ : float
        Score above which the expected F1 score of new rows is greatest; scores are less this.
    calibration_ : Calibration
        Probabilities of scores, see `toppush.thresholds.probabilities`.
    n_rounds_, n_tried_ : list of int
        Trees of each member, and the rounds it was trained for.
    feature_importances_ : array of shape (n_features,)
        Share of each column in the total gain of all splits.
    columns_ : array of int or None
        Columns of sparse rows that the members use: those with enough entries for a leaf. None if
        they use all.
    categories_ : dict
        Position of a column -> its categories.
    category_statistics_ : dict
        With `category_encoding="target"`, position of a categorical column -> array of shape
        (1 + n_folds, n_categories + 1): log(1 + count) of each category, and its share of positives
        for the members of each fold; last for missing and unknown categories. Else empty.
    formats_ : dict
        Position of a column of numbers in strings -> its decimal mark and its unit.
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
        "subsample": [Interval(Real, 0, 1, closed="right")],
        "colsample_bynode": [Interval(Real, 0, 1, closed="right")],
        "min_child_samples": [Interval(Integral, 1, None, closed="left")],
        "category_encoding": [StrOptions({"native", "smoothed", "target"})],
        "categorical_features": [StrOptions({FROM_DTYPE}), "array-like", None],
        "cv": ["cv_object"],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "positive": LABEL,
    }

    texts_: list[str]
    categories_: Categories
    category_statistics_: Tables
    formats_: Formats
    columns_: Where | None

    def __init__(
        self,
        top: float = 0.01,
        *,
        loss: str = "pairwise",
        n_members: int = 8,
        n_leaves: int = 31,
        learning_rate: float = 0.1,
        max_rounds: int = 1000,
        subsample: float = 0.7,
        colsample_bynode: float = 0.3,
        min_child_samples: int = 5,
        category_encoding: str = "native",
        categorical_features: Any = FROM_DTYPE,
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        positive: object = None,
    ) -> None:
        self.top, self.loss, self.n_members = top, loss, n_members
        self.n_leaves, self.learning_rate, self.max_rounds = n_leaves, learning_rate, max_rounds
        self.subsample, self.colsample_bynode = subsample, colsample_bynode
        self.min_child_samples, self.category_encoding = min_child_samples, category_encoding
        self.categorical_features, self.cv, self.n_jobs = categorical_features, cv, n_jobs
        self.random_state, self.verbose, self.positive = random_state, verbose, positive

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None = None) -> Self:
        """Learn to rank the rows of X.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            NaN is a missing value.
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
            self._loaded = None
            X, y = self._read_training(X, y)
            positive, weight, counted = self._read_classes(X, y, sample_weight)
            rng = check_random_state(self.random_state)
            drawn = make_folds(self.cv, y, positive, counted, rng, self.n_members)
            X = for_engine(X) if len(counted) == len(y) else for_engine(X)[counted]
            positive = positive[counted]
            weight = None if weight is None else weight[counted]
            count_top(self.top, int((~positive).sum()))
            self.columns_ = common_columns(X, self.min_child_samples)
            X = self._kept(X)
            folds, again = with_second_scores(drawn, positive)
            members = self._grow(X, positive, weight, folds, rng)
            scores = self._keep_members(members, X, again)
            self._keep_scores(scores, positive, weight, counted, len(y))
        return self

    def _score(self, X: Matrix) -> Array:
        scores = np.zeros(X.shape[0])
        for place, booster in enumerate(self._models()):
            scores += self._raw_scores(booster, place, X)
        return scores / len(self.texts_)

    def _contributions(self, X: Matrix) -> Array:
        """By TreeSHAP."""
        added, n_jobs = np.zeros((X.shape[0], X.shape[1] + 1)), self._threads()
        for place, booster in enumerate(self._models()):
            rows = self._encoded(X, place)
            parts = dense(booster.predict(rows, pred_contrib=True, num_threads=n_jobs))
            added[:, :-1] += by_source(parts[:, :-1], self.category_statistics_)
            added[:, -1] += parts[:, -1]
        added /= len(self.texts_)
        return np.column_stack([self._of_all(added[:, :-1]), added[:, -1:]])

    @property
    def feature_importances_(self) -> Array:
        """Share of each column in the total gain of all splits."""
        check_is_fitted(self)
        gains = np.sum([each.feature_importance("gain") for each in self._models()], axis=0)
        gains = by_source(gains, self.category_statistics_)
        return self._of_all(gains / (float(np.sum(gains)) or 1.0))

    def _read_training(self, X: Matrix, y: Labels) -> tuple[Matrix, NDArray[Any]]:
        """The rows as numbers; learns categories and number formats."""
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
        """The columns that the members use."""
        return X if self.columns_ is None else X[:, self.columns_]

    def _of_all(self, values: Array) -> Array:
        """Values of the columns that the members use, and 0 for the others."""
        if self.columns_ is None:
            return values
        every = np.zeros((*values.shape[:-1], self.n_features_in_))
        every[..., self.columns_] = values
        return every

    def _grow(
        self,
        X: Matrix,
        positive: Mask,
        weight: Array | None,
        folds: Folds,
        rng: np.random.RandomState,
    ) -> list[BoostedMember]:
        """Train all members, some at a time."""
        seeds = [int(seed) for seed in rng.randint(2**31 - 1, size=self.n_members)]
        growth = Growth(
            self.top, self.loss, self.n_leaves, self.learning_rate, self.max_rounds,
            self.subsample, self.colsample_bynode, self.min_child_samples, self.category_encoding,
        )  # fmt: skip
        bins = self._bins(X, positive, weight, folds, rng, growth)
        line = GrowthLine(self.n_members) if self.verbose else None
        at_once = min(self._threads(), self.n_members)
        n_jobs = max(1, self._threads() // at_once)

        def train(number: int) -> BoostedMember:
            after_round = (lambda: None) if line is None else line.round
            place = number % len(folds)
            member = grow(bins(place), growth, folds[place], seeds[number], n_jobs, after_round)
            if line is not None:
                line.done()
            return member

        members = in_threads(train, range(self.n_members), at_once)
        if line is not None:
            line.close()
        return members

    def _bins(
        self,
        X: Matrix,
        positive: Mask,
        weight: Array | None,
        folds: Folds,
        rng: np.random.RandomState,
        growth: Growth,
    ) -> Callable[[int], TrainingBins]:
        """The rows in bins for each fold; shared unless categories are encoded for each fold."""
        self.category_statistics_ = {}
        if not self.categories_ or self.category_encoding != "target":
            rows = TrainingBins(X, positive, weight, sorted(self.categories_), growth)
            return lambda place: rows
        used = folds[: self.n_members]
        tables = learn_tables(X, self.categories_, positive, weight, used)
        seeds = rng.randint(2**31 - 1, size=len(used)).tolist()
        self.category_statistics_ = tables

        def bins(place: int) -> TrainingBins:
            known = encoded_for_training(
                X, tables, place, folds[place][0], positive, weight, seeds[place]
            )
            return TrainingBins(known, positive, weight, [], growth)

        return bins

    def _keep_members(
        self, members: list[BoostedMember], X: Matrix, again: list[Where]
    ) -> FoldScores:
        """Cut all members to the number of rounds with the best mean NDCG; score the training rows.

        The rows of a fold are scored with the number that is best on the other folds.
        """
        choose = choose_rounds(members)
        boosters = [lightgbm().Booster(model_str=member.text) for member in members]
        self.n_tried_ = [member.n_tried for member in members]
        self.n_rounds_ = [member.n_trees_at(choose(range(len(members)))) for member in members]
        self.texts_ = [
            booster.model_to_string(num_iteration=count)
            for booster, count in zip(boosters, self.n_rounds_, strict=True)
        ]
        self._models()
        chosen, final, second = [], [], []
        for place, (member, booster) in enumerate(zip(members, boosters, strict=True)):
            held, other = member.held, again[place % len(again)]
            by_others = member.n_trees_at(choose(others_than(place, members)))
            n_trees = self.n_rounds_[place]
            chosen.append((held, self._raw_scores(booster, place, X[held], by_others)))
            final.append((held, self._raw_scores(booster, place, X[held], n_trees)))
            second.append((other, self._raw_scores(booster, place, X[other], n_trees)))
        n_models = n_averaged([member.held for member in members])
        return FoldScores.of(chosen, final, second, X.shape[0], n_models)

    def _raw_scores(self, booster: Any, place: int, X: Matrix, n_trees: int = -1) -> Array:
        """Scores by the first trees of a member; by all if -1."""

        def predict(rows: Matrix) -> Any:
            n_jobs = self._threads()
            return booster.predict(rows, raw_score=True, num_iteration=n_trees, num_threads=n_jobs)

        if not self.category_statistics_:
            return np.asarray(predict(X))
        scores = np.empty(len(X))
        for part in gen_batches(len(X), 1 + PART_NUMBERS // X.shape[1]):
            scores[part] = predict(self._encoded(X[part], place))
        return scores

    def _encoded(self, X: Matrix, place: int) -> Matrix:
        """Rows as a member takes them."""
        if not (tables := self.category_statistics_):
            return X
        n_folds = len(next(iter(tables.values()))) - 1
        return encoded(X, tables, place % n_folds)

    def _threads(self) -> int:
        return default_threads() if self.n_jobs is None else self.n_jobs

    def _load(self) -> list[Any]:
        engine = lightgbm()
        return [engine.Booster(model_str=text) for text in self.texts_]
