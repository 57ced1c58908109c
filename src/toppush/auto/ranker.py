"""The ranker that cross-validates several members and combines them."""

import warnings
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.utils import check_array, check_consistent_length, check_random_state, check_X_y
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from toppush import metrics
from toppush.auto import dask as on_dask
from toppush.auto.combination import choose_weights, unseen_scores
from toppush.auto.leaderboard import Leaderboard
from toppush.auto.members import (
    EFFORTS,
    MEMBERS,
    FitData,
    FittedMember,
    has_sparse_missing,
    named_members,
)
from toppush.auto.schedule import Schedule, known_rows, second_scores, standardised
from toppush.explain.columns import ColumnContributions
from toppush.folds.scores import FoldScores, n_averaged, narrowed
from toppush.folds.splits import groups_of, shared_folds, within
from toppush.matrices import for_engine
from toppush.metrics.cautions import few_positives, later_rows_caution, warn_of_perfect
from toppush.metrics.scoring import scores_of
from toppush.models.base import LABEL, refuse_elsewhere, unchanged_on_failure
from toppush.models.cross_fitted import READING, TOP, CrossFitted
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


class PlainMetrics(Set[str]):
    """Names of the metrics that need no parameters: a live view of `metrics.METRICS`."""

    @classmethod
    def _from_iterable(cls, names: Iterable[Any]) -> Set[Any]:
        return set(names)

    def __contains__(self, name: object) -> bool:
        return name in metrics.METRICS and not metrics.METRICS[str(name)].needs

    def __iter__(self) -> Iterator[str]:
        return (name for name in metrics.METRICS if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


PLAIN_METRICS = PlainMetrics()


class TopRanker(CrossFitted):
    """Cross-validate several model types and combine them: the best ranking without settings.

    Weights for a mean of the members' standardised scores are chosen greedily on bootstrap samples
    of out-of-fold scores, by average precision, NDCG and recall at 10 false positives; members
    without a weight are dropped. Data frames and Arrow tables need no preparation: strings, missing
    values, dates, categories, and numbers in strings are handled.

    Parameters
    ----------
    members : list, optional
        Names, estimators of scikit-learn, or pairs of a name and an estimator. Names are
        "logistic" (regression on columns or curves), "linear" (`TopPush`, likewise), "boosted"
        (LightGBM's log loss), "trees" (`TopPushTrees`), "small_trees" and "shallow_trees" (the
        same with 15 and 4 leaves, grown on all rows and columns), "target_trees" (with target
        statistics of categories), "forest", "kernel" (support vector machines), "additive" and
        "net".
        Estimators of your own take X as it is passed to `fit`; a warning reports those
        that explanations, model files and ONNX do not support. By default chosen by `effort`.
    effort : {"quick", "normal", "thorough"}, default="normal"
    seconds : float, optional
        Time limit: fit no base model that would exceed it, and combine the fitted ones. An
        interrupt ends `fit` with KeyboardInterrupt and leaves the estimator as it was.
    scoring : str, optional
        A metric of `toppush.metrics` by which to choose the weights instead.
    cv : int, splitter or iterable of (train, held-out) pairs, optional
        Folds that all members share; by default 3 to 5, shuffled.
    categorical_features : "from_dtype", None or list, default="from_dtype"
        Categorical columns, as for `TopPushTrees`.
    n_jobs : int, optional
        By default all cores, or OMP_NUM_THREADS if set. The result does not depend on it.
    random_state : int, RandomState or None, default=0
    verbose : int, default=0
        If 1, show progress.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    leaderboard_ : list of dict
        Each base model and the combination, the greatest "score" first: the mean of average
        precision, NDCG and recall at 10 false positives, or `scoring`, of the held-out rows. No
        setting is evaluated on the rows that it was chosen by. Intervals are of the average
        precision of the fold models on new rows, and None if rows have weights.
    members_ : dict
        Name -> fitted ranker, of members with a weight.
    weights_, centers_, scales_ : dict
        Name -> weight of its score, after the center is subtracted and divided by the scale.
    left_out_ : dict
        Name -> why a member was left out.
    out_of_fold_ : array of shape (n_samples,)
        Scores of the training rows by fits that did not see them, with weights chosen on other
        folds; NaN for rows that no fold held out.
    expected_scores_ : array of shape (n_samples,)
        Out-of-fold scores narrowed to the distribution that scores of new rows have, as fold models
        are averaged for these; percentile scores and calibrated probabilities are learned from it.
    threshold_ : float
        Mean expected score of the highest 1 % of the negatives.
    classes_ : array of shape (2,)
        The second class is the positive one.
    formats_ : dict
        Position of a column of numbers in strings -> its decimal mark and its unit.
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
        "effort": [StrOptions(EFFORTS.keys())],
        "seconds": [Interval(Real, 0, None, closed="neither"), None],
        "scoring": [StrOptions(PLAIN_METRICS), None],
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
    _board: Leaderboard | None
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
        self.members, self.effort, self.seconds = members, effort, seconds
        self.scoring, self.cv, self.categorical_features = scoring, cv, categorical_features
        self.n_jobs, self.random_state = n_jobs, random_state
        self.verbose, self.positive = verbose, positive

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Matrix,
        y: Labels,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the members, choose their weights and combine them.

        Parameters
        ----------
        X : data frame, array, sparse matrix or Dask collection of shape (n_samples, n_features)
            NaN is a missing value. Rows of Dask stay on the workers; members that need them in
            memory are left out.
        y : array-like of shape (n_samples,)
            Two classes, of which `positive` names the one to rank first.
        sample_weight : array-like of shape (n_samples,), optional
            Scaled to mean 1; members that take no weights are left out.
        groups : array-like of shape (n_samples,), optional
            Groups are never split across folds.

        Returns
        -------
        self
        """
        groups = None if groups is None else groups_of(groups)
        with unchanged_on_failure(self):
            members = named_members(self.members, EFFORTS[self.effort])
            if on_dask.holds(X):
                data = on_dask.read_training(self, X, y, sample_weight, groups)
                assert data.on_dask is not None
                counted, n_rows = data.on_dask.places, data.on_dask.n_rows
            else:
                data, counted, n_rows = self._read_training(X, y, sample_weight, groups)
                for name, member in members.items():
                    if member.left_out(data) is None and (limits := member.limits(data)):
                        warnings.warn(f"base model {name!r}: {limits}.", UserWarning, stacklevel=3)
            line = Line() if self.verbose else None
            schedule = Schedule(members, self.scoring, self.seconds, line)
            fitted, where = schedule.run(data)
            used = data if len(where) == data.n_rows else data.part(where)
            self._combine(fitted, used, counted[where], n_rows)
            self._warn_if_later_rows_differ(fitted, used)
            self.left_out_ = schedule.left_out
            schedule.close(self.weights_)
            self._warn_if_behind()
            assert self.out_of_fold_ is not None
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
        added = np.zeros((numbers.shape[0], self.n_features_in_ + 1))
        added[:, -1] = -self.threshold_
        sources = np.append(self._columns.sources, self.n_features_in_)
        for name, ranker in self.members_.items():
            factor = self.weights_[name] / self.scales_[name]
            raw = name in self.raw_
            rows, columns = (X, np.arange(len(added[0]))) if raw else (numbers, sources)
            added[:, -1] -= factor * self.centers_[name]
            if name in self.unexplained_:
                added[:, -1] += factor * scores_of(ranker, rows)
            else:
                own = ColumnContributions.of(ranker).contributions(rows)
                np.add.at(added.T, columns, factor * own.T)
        return added

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
        return min(getattr(each, "_n_explained", 64) for each in self.members_.values())

    @property
    def _columns(self) -> FrameColumns:
        return FrameColumns(self.n_features_in_, self.categories_, self.formats_, self.dates_)

    def _keep_columns(self, columns: FrameColumns) -> None:
        """Set the fitted attributes by which the columns of new rows are read."""
        self.categories_, self.dates_ = columns.categories, columns.dates
        self.formats_ = columns.formats

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _read_training(
        self, X: Matrix, y: Labels, sample_weight: ArrayLike | None, groups: NDArray[Any] | None
    ) -> tuple[FitData, Where, int]:
        """The rows with a weight above 0, which they are, and the number of all rows."""
        refuse_elsewhere(self, X=X)
        X, numbers, y, columns = self._numbers_of_training(X, y)
        check_consistent_length(y, groups)
        positive, weight, counted = self._read_classes(numbers, y, sample_weight)
        self._keep_columns(columns)
        effort = EFFORTS[self.effort]
        cv, seed = effort.n_folds if self.cv is None else self.cv, self._seed()
        folds = shared_folds(cv, positive, groups, counted, seed)
        matter = groups is not None or not (self.cv is None or isinstance(self.cv, Integral))
        _warn_of_leakage(numbers, X, columns, positive, counted)
        data = FitData(X, numbers, columns, positive, weight, [], effort, self.n_jobs, seed, matter)
        data = replace(data if weight is None else data.part(counted), folds=folds)
        return data, counted, len(positive)

    def _numbers_of_training(self, X: Any, y: Any) -> tuple[Any, Matrix, Any, FrameColumns]:
        """The rows as passed and as numbers, the labels, and how columns become numbers."""
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
            return self._refuse_sparse_missing(validated(self, X, reset=False, **READING))
        validate_data(self, X, reset=False, skip_check_array=True)
        numbers = check_array(self._columns.numbers(X), **READING)
        require_sizes(numbers, _names_of_numbers(X, self._columns))
        return numbers

    def _refuse_sparse_missing(self, X: Matrix) -> Matrix:
        """Rows as they are, unless members would take missing values for numbers."""
        lost = [n for n in self.members_ if n in MEMBERS and not MEMBERS[n].sparse_missing]
        if lost and has_sparse_missing(X):
            raise ValueError(
                f"Input X contains NaN in sparse rows, which {' and '.join(lost)} cannot score; "
                "fill them, or fit to rows that have some."
            )
        return for_engine(X)

    def _combine(
        self, fitted: dict[str, FittedMember], data: FitData, counted: Where, n_rows: int
    ) -> None:
        """Choose the weights, and set the fitted attributes."""
        scores, centers, scales = standardised(fitted, data)
        known, seed = np.flatnonzero(known_rows(fitted)), data.seed
        weights = choose_weights(scores, self.scoring, seed)
        folds = [within(fold, known) for fold in data.folds]
        combined = unseen_scores(scores, folds, weights, self.scoring, seed)
        second = (second_scores(fitted)[:, known] - centers[:, None]) / scales[:, None]
        used = weights > 0.0
        twice = weights[used] @ second[used]
        n_models = n_averaged([held for _, held in folds])
        expected = narrowed(combined, weights @ scores.scores, twice, n_models)
        by_fold = FoldScores(combined, twice, expected)
        self._keep_scores(by_fold, scores.positive, TOP, counted[known], n_rows)
        del self.second_scores_  # of no use for a combination
        chosen = [(place, name) for place, name in enumerate(fitted) if weights[place] > 0.0]
        self.members_ = {name: fitted[name].ranker for _, name in chosen}
        self.weights_ = {name: float(weights[place]) for place, name in chosen}
        self.centers_ = {name: float(centers[place]) for place, name in chosen}
        self.scales_ = {name: float(scales[place]) for place, name in chosen}
        self.raw_ = [name for _, name in chosen if fitted[name].raw]
        none = np.empty(0)
        light = {
            name: replace(member, out_of_fold=none, second=None, shuffled=None)
            for name, member in fitted.items()
        }
        self._board = Leaderboard(light, weights, scores, folds, self.scoring, seed, combined)
        self._rows_of_board = None

    def _warn_if_later_rows_differ(self, fitted: dict[str, FittedMember], data: FitData) -> None:
        """Warn if folds by time have a far lower average precision than shuffled folds."""
        members = [n for n in self.members_ if fitted[n].shuffled is not None]
        if not members or data.weight is not None:
            return
        weights = np.array([self.weights_[name] / self.scales_[name] for name in members])
        later = weights @ np.array([fitted[name].out_of_fold for name in members])
        shuffled = weights @ np.array([fitted[name].shuffled for name in members])
        known = ~np.isnan(later)
        if why := later_rows_caution(data.positive[known], later[known], shuffled[known]):
            warnings.warn(why, UserWarning, stacklevel=3)

    def _warn_if_behind(self) -> None:
        """Warn if a member ranks significantly better than the combination."""
        better = {} if self._board is None else self._board.better_members()
        for name, apart in better.items():
            warnings.warn(
                f"{name} alone ranks the held-out rows better than the combination: average "
                f"precision differs by {-apart.value:.4f} ({-apart.high:.4f} to {-apart.low:.4f}). "
                f"Fit TopRanker(members=[{name!r}]) if average precision is your metric.",
                UserWarning,
                stacklevel=3,
            )


def _names_of_numbers(X: Any, columns: FrameColumns) -> list[Any]:
    """The name or position of the column that each number is made of."""
    names = Table(X).names if Table(X).has_types else range(columns.width)
    return [names[source] for source in columns.sources]


def _warn_of_leakage(
    numbers: Matrix, X: Any, columns: FrameColumns, positive: Mask, counted: Where
) -> None:
    """Warn of columns that alone rank the rows with a weight almost perfectly."""
    names = _names_of_numbers(X, columns)
    if len(counted) < len(positive):
        numbers, positive = numbers[counted], positive[counted]
    if leaks := leaks_of_matrix(numbers, names, columns.categorical, positive):
        text = caution(leaks, "drop it from X before the fit")
        warnings.warn(text, LeakageWarning, stacklevel=5)
