"""The ranker that chooses among members and combines them."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.utils import (
    Tags,
    check_array,
    check_consistent_length,
    check_random_state,
    check_X_y,
)
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from toppush import metrics
from toppush.auto import dask as on_dask
from toppush.auto.combination import choose_weights, unseen_scores
from toppush.auto.leaderboard import Board, Entry
from toppush.auto.members import (
    EFFORTS,
    NO_SPARSE_GAPS,
    Candidate,
    Given,
    Member,
    Settings,
    named_members,
    sparse_gaps,
)
from toppush.auto.schedule import Course, Done, held_scores, second_scores, standardised
from toppush.explain.columns import ColumnContributions
from toppush.folds.cross_fitted import require_two_of_each, top_mean, weights_of, within
from toppush.folds.expected_scores import n_averaged, narrowed
from toppush.folds.shared import groups_of, shared_folds
from toppush.matrices import for_engine
from toppush.metrics.cautions import few_positives, warn_of_perfect
from toppush.metrics.scoring import scores_of
from toppush.models.base import LABEL, Ranker, refuse_elsewhere, two_classes, unchanged_on_failure
from toppush.models.progress import Line
from toppush.tables.frames import (
    FROM_DTYPE,
    FrameColumns,
    Table,
    are_plain,
    categorical_columns,
)
from toppush.tables.leakage import LeakageWarning, caution, leaks_of_matrix
from toppush.tables.validation import require_columns, require_sizes, validated
from toppush.types import Array, Labels, Mask, Matrix, Where

TOP = 0.01
"""Share of the negatives that makes the top, by which scores are shifted."""
READING: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": np.float64,
    "ensure_all_finite": "allow-nan",
}
"""How rows are checked."""
PLAIN_MEASURES = {name for name, one in metrics.METRICS.items() if not one.needs}


class TopRanker(Ranker):
    """The best list without asking: members of several kinds, chosen and combined by folds.

    Every member scores each training row by a fit that did not see it. Weights for a mean of the
    standardised scores are then chosen greedily, on bootstrap samples of these rows, by their
    average precision, NDCG and recall before ten negatives; members without a weight are dropped.
    Data frames and Arrow tables come as they are: strings, missing values, dates, categories, and
    numbers written as text.

    Parameters
    ----------
    members : list, optional
        Names, estimators of scikit-learn, or pairs of a name and an estimator. Names are
        "logistic" (regression on columns or curves), "linear" (`TopPush`, likewise), "boosted"
        (LightGBM's log loss), "trees" (`TopPushTrees`), "forest", "additive" and "net".
        Estimators of your own are given the rows as they came; a warning reports those
        that explanations, model files and ONNX cannot express. By default by `effort`.
    effort : {"quick", "normal", "thorough"}, default="normal"
    seconds : float, optional
        Begin no base model that would not be done by then, and combine those that are done. An
        interrupt ends `fit` with KeyboardInterrupt and leaves the estimator as it was.
    scoring : str, optional
        A measure of `toppush.metrics` by which weights are chosen instead.
    cv : int, splitter or iterable of (train, held-out) pairs, optional
        Folds that all members share; by default 3 to 5, shuffled.
    categorical_features : "from_dtype", None or list, default="from_dtype"
        Columns that hold categories, as for `TopPushTrees`.
    n_jobs : int, optional
        By default all cores, or OMP_NUM_THREADS if set. The result does not depend on it.
    random_state : int, RandomState or None, default=0
    verbose : int, default=0
        1 shows a line that follows the fit.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    leaderboard_ : list of dict
        Each base model and the combination, the greatest "score" first: the mean of average
        precision, NDCG and recall at 10 false positives, or `scoring`, of the held-out rows. No
        choice of a fit is judged by the rows that made it. Intervals are of the average precision
        of the fold models on fresh rows, and None if rows have weights. Made when asked.
    members_ : dict
        Name -> fitted ranker, of those that have a weight.
    weights_, centers_, scales_ : dict
        Name -> weight of its score, once less its center and divided by its scale.
    left_out_ : dict
        Name -> why a member is not among them.
    out_of_fold_ : array of shape (n_samples,)
        Scores of the training rows by fits that did not see them, with weights that other folds
        chose; NaN for rows that no fold held out.
    expected_scores_ : array of shape (n_samples,)
        Out-of-fold scores narrowed to the distribution that scores of new rows have, as fold models
        are averaged for these; percentile scores and calibrated probabilities are learned from it.
    threshold_ : float
        Mean of the greatest expected scores of negatives, 1 % of them.
    classes_ : array of shape (2,)
        The second class is the positive one.
    formats_ : dict
        Number of a column of numbers written as text -> its decimal mark and its unit.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        If X has column names that are strings.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from toppush import TopRanker
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ranker = TopRanker(effort="quick").fit(X, y)
    >>> ranker.leaderboard_[0]["average_precision"] > 0.99
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "members": ["array-like", None],
        "effort": [StrOptions(set(EFFORTS))],
        "seconds": [Interval(Real, 0, None, closed="neither"), None],
        "scoring": [StrOptions(PLAIN_MEASURES), None],
        "cv": ["cv_object"],
        "categorical_features": [StrOptions({FROM_DTYPE}), "array-like", None],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "positive": LABEL,
    }

    members_: dict[str, Any]
    weights_: dict[str, float]
    centers_: dict[str, float]
    scales_: dict[str, float]
    threshold_: float
    _board: Board | None
    _rows_of_board: list[dict[str, Any]] | None

    def __init__(
        self,
        members: Sequence[Any] | None = None,
        *,
        effort: str = "normal",
        seconds: float | None = None,
        scoring: str | None = None,
        cv: Any = None,
        categorical_features: Any = FROM_DTYPE,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        positive: object = None,
    ) -> None:
        self.members = members
        self.effort = effort
        self.seconds = seconds
        self.scoring = scoring
        self.cv = cv
        self.categorical_features = categorical_features
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.positive = positive

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Matrix,
        y: Labels,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the members, choose and combine.

        Parameters
        ----------
        X : data frame, array, sparse matrix or Dask collection of shape (n_samples, n_features)
            NaN is a gap. Rows of Dask stay on the workers, and members that need them here are
            left out.
        y : array-like of shape (n_samples,)
            Two classes, of which `positive` names the one to rank first.
        sample_weight : array-like of shape (n_samples,), optional
            Members are given them with mean 1; those that take none are left out.
        groups : array-like of shape (n_samples,), optional
            Rows of a group stay in one fold.

        Returns
        -------
        self
        """
        groups = None if groups is None else groups_of(groups)
        with unchanged_on_failure(self):
            asked = named_members(self.members, EFFORTS[self.effort])
            members: Mapping[str, Candidate] = asked
            if on_dask.holds(X):
                dealt = on_dask.read_training(self, X, y, sample_weight, groups)
                given, counted, n_rows = dealt.given, dealt.places, dealt.n_rows
                members = on_dask.members_for(dealt, asked)
            else:
                given, counted, n_rows = self._read_training(X, y, sample_weight, groups)
                self._warn_of_limits(asked, given)
            line = Line() if self.verbose else None
            course = Course(members, self._settings(), self.scoring, self.seconds, line)
            done, where = course.run(given)
            used = given if len(where) == given.n_rows else given.part(where)
            self._combine(done, used, counted[where], n_rows)
            self.left_out_ = course.left_out
            course.close(self.weights_)
            self._warn_if_behind()
            if why := few_positives(used.positive, self.out_of_fold_[counted[where]]):
                warnings.warn(why, UserWarning, stacklevel=3)
        return self

    def decision_function(self, X: Matrix) -> Array:
        """Weighted mean of the members' scores less the threshold; higher ranks first.

        Only the order counts; a score above 0 exceeds that of the top training negatives and is
        not a decision.

        Parameters
        ----------
        X : data frame, array, sparse matrix or Dask collection of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
            A NumPy array, or a Dask array if X is of Dask; `predict` likewise.
        """
        check_is_fitted(self)
        if on_dask.holds(X):
            return on_dask.scores(self, X)
        numbers = self._read(X)
        total = np.full(numbers.shape[0], -self.threshold_)
        for name, ranker in self.members_.items():
            scores = scores_of(ranker, X if name in self.raw_ else numbers)
            total += self.weights_[name] / self.scales_[name] * (scores - self.centers_[name])
        return total

    def contributions(self, X: Matrix) -> Array:
        """What each column adds to a row's score; the last column is the rest.

        The weighted mean of what it adds to the base models' scores. The rest includes the whole
        score of base models that have no `contributions`, which are in `unexplained_`.

        Parameters
        ----------
        X : data frame, array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_features + 1)
            Rows sum to `decision_function`.
        """
        check_is_fitted(self)
        numbers = self._read(X)
        found = np.zeros((numbers.shape[0], self.n_features_in_ + 1))
        found[:, -1] = -self.threshold_
        home = np.append(self._columns.sources, self.n_features_in_)
        for name, ranker in self.members_.items():
            part = self.weights_[name] / self.scales_[name]
            rows, places = (X, np.arange(len(found[0]))) if name in self.raw_ else (numbers, home)
            found[:, -1] -= part * self.centers_[name]
            if name in self.unexplained_:
                found[:, -1] += part * scores_of(ranker, rows)
            else:
                own = ColumnContributions.of(ranker).contributions(rows)
                np.add.at(found.T, places, part * own.T)
        return found

    @property
    def unexplained_(self) -> list[str]:
        """Names of the base models whose scores cannot be attributed to columns."""
        width = len(self._columns.sources)
        return [
            name
            for name, ranker in self.members_.items()
            if not ColumnContributions.explains(
                ranker, self.n_features_in_ if name in self.raw_ else width
            )
        ]

    @property
    def leaderboard_(self) -> list[dict[str, Any]]:
        """Each base model and the combination, sorted by their score on held-out rows."""
        check_is_fitted(self)
        if self._rows_of_board is None:
            rows = self._rows_of_board = self._board.rows() if self._board is not None else []
            warn_of_perfect({row["name"]: row["average_precision"] for row in rows})
        return self._rows_of_board

    @property
    def _n_explained(self) -> int:
        return min(getattr(one, "_n_explained", 64) for one in self.members_.values())

    @property
    def _columns(self) -> FrameColumns:
        return FrameColumns(self.n_features_in_, self.categories_, self.formats_, self.dates_)

    def _keep_columns(self, columns: FrameColumns) -> None:
        """Set the fitted attributes that say how the columns of new rows are read."""
        self.categories_, self.dates_ = columns.categories, columns.dates
        self.formats_ = columns.formats

    def _settings(self) -> Settings:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return Settings(EFFORTS[self.effort], self.n_jobs, seed)

    def _read_training(
        self, X: Matrix, y: Labels, sample_weight: ArrayLike | None, groups: NDArray[Any] | None
    ) -> tuple[Given, Where, int]:
        """Rows that weigh something, which they are, and how many there are with the others."""
        refuse_elsewhere(self, X=X)
        X, numbers, y, columns = self._numbers_of_training(X, y)
        check_consistent_length(y, groups)
        self.classes_ = two_classes(y, self.positive)
        weight = weights_of(sample_weight, numbers)
        counted = np.arange(len(y)) if weight is None else np.flatnonzero(weight > 0)
        positive = np.asarray(y == self.classes_[1])
        require_two_of_each(positive[counted], self.classes_)
        self._keep_columns(columns)
        cv = EFFORTS[self.effort].n_folds if self.cv is None else self.cv
        folds = shared_folds(cv, positive, groups, counted, self._settings().seed)
        matter = groups is not None or not (self.cv is None or isinstance(self.cv, Integral))
        _warn_of_leakage(numbers, X, columns, positive, counted)
        whole = Given(X, numbers, columns, positive, weight, [], matter)
        given = replace(whole if weight is None else whole.part(counted), folds=folds)
        return given, counted, len(positive)

    def _numbers_of_training(self, X: Any, y: Any) -> tuple[Any, Matrix, Any, FrameColumns]:
        """The rows as they came and as numbers, the labels, and what was learned of columns."""
        if are_plain(X, self.categorical_features):
            X, y = validated(self, X, y, **READING)
            return X, for_engine(X), y, FrameColumns(self.n_features_in_)
        require_columns(X)
        if not len(X):
            raise ValueError(f"X has no rows, and {len(y)} labels came with it; give some of both.")
        columns = FrameColumns.of(X, self.categorical_features)
        wanted = self.categorical_features
        keep = [] if isinstance(wanted, str) else categorical_columns(X, wanted)
        columns = columns.without_ids(X, keep)
        validate_data(self, X, y, skip_check_array=True)
        numbers, y = check_X_y(columns.numbers(X), y, **READING)
        require_sizes(numbers, _names_of_numbers(X, columns), training=True)
        return X, numbers, y, columns

    def _read(self, X: Matrix) -> Matrix:
        """Rows to score, as numbers."""
        refuse_elsewhere(self, X=X)
        if not (self.categories_ or self.formats_ or self.dates_ or Table(X).has_types):
            return self._refuse_sparse_gaps(validated(self, X, reset=False, **READING))
        validate_data(self, X, reset=False, skip_check_array=True)
        numbers = check_array(self._columns.numbers(X), **READING)
        require_sizes(numbers, _names_of_numbers(X, self._columns))
        return numbers

    def _refuse_sparse_gaps(self, X: Matrix) -> Matrix:
        """Rows as they are, unless members would take their gaps for numbers."""
        lost = [name for name in self.members_ if name in NO_SPARSE_GAPS]
        if lost and sparse_gaps(X):
            raise ValueError(
                f"Input X contains NaN in sparse rows, which {' and '.join(lost)} cannot score; "
                "fill them, or fit to rows that have some."
            )
        return for_engine(X)

    def _combine(self, done: dict[str, Done], given: Given, counted: Where, n_rows: int) -> None:
        """Choose the weights, and set the fitted attributes."""
        lists, centers, scales = standardised(done, given)
        known, seed = np.flatnonzero(held_scores(done)[1]), self._settings().seed
        weights = choose_weights(lists, self.scoring, seed)
        folds = [within(fold, known) for fold in given.folds]
        combined = unseen_scores(lists, folds, weights, self.scoring, seed)
        units = (second_scores(done)[:, known] - centers[:, None]) / scales[:, None]
        used = weights > 0.0
        expected = narrowed(
            combined,
            lists.combined(weights),
            weights[used] @ units[used],
            n_averaged([held for _, held in folds]),
        )
        self.threshold_ = top_mean(expected[~lists.positive], TOP)
        chosen = [(place, name) for place, name in enumerate(done) if weights[place] > 0.0]
        self.members_ = {name: done[name].fitted.ranker for _, name in chosen}
        self.weights_ = {name: float(weights[place]) for place, name in chosen}
        self.centers_ = {name: float(centers[place]) for place, name in chosen}
        self.scales_ = {name: float(scales[place]) for place, name in chosen}
        self.raw_ = [name for _, name in chosen if done[name].fitted.raw]
        self.out_of_fold_, self.expected_scores_ = np.full((2, n_rows), np.nan)
        self.out_of_fold_[counted[known]] = combined - self.threshold_
        self.expected_scores_[counted[known]] = expected - self.threshold_
        entries = [
            Entry(name, float(weights[place]), one.seconds, one.n_rows, one.fitted.ranker)
            for place, (name, one) in enumerate(done.items())
        ]
        self._board, self._rows_of_board = (
            Board(entries, lists, folds, self.scoring, seed, combined),
            None,
        )

    def _warn_of_limits(self, members: Mapping[str, Member], given: Given) -> None:
        """Report before the fit what cannot be done with base models of one's own."""
        settings = Settings(EFFORTS[self.effort], self.n_jobs, seed=0)
        for name, member in members.items():
            if member.left_out(given) is None and (limits := member.limits(given, settings)):
                warnings.warn(f"base model {name!r}: {limits}.", UserWarning, stacklevel=4)

    def _warn_if_behind(self) -> None:
        """Say so if a member ranks better than the combination by more than noise."""
        for name, apart in {} if self._board is None else self._board.behind().items():
            warnings.warn(
                f"{name} alone ranks the held-out rows better than the combination: average "
                f"precision differs by {-apart.value:.4f} ({-apart.high:.4f} to {-apart.low:.4f}). "
                f"Fit TopRanker(members=[{name!r}]) if that is the measure you want.",
                UserWarning,
                stacklevel=3,
            )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # `predict` marks the very top, not the classes
        tags.input_tags.allow_nan = True
        return tags


def _names_of_numbers(X: Any, columns: FrameColumns) -> list[Any]:
    """The column of X from which each number is made, by its name or position."""
    names = Table(X).names if Table(X).has_types else range(columns.width)
    return [names[source] for source in columns.sources]


def _warn_of_leakage(
    numbers: Matrix, X: Any, columns: FrameColumns, positive: Mask, counted: Where
) -> None:
    """Warn of columns that alone rank the rows that count almost perfectly."""
    of_each = _names_of_numbers(X, columns)
    every = len(counted) == len(positive)
    rows = numbers if every else numbers[counted]
    side = positive if every else positive[counted]
    if leaks := leaks_of_matrix(rows, of_each, columns.categorical, side):
        text = caution(leaks, "drop it from X before the fit")
        warnings.warn(text, LeakageWarning, stacklevel=5)
