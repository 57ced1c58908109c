"""The ranker that cross-validates several members and combines them."""

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import pairwise
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
from toppush.auto.text import Components, TermPlaces, TextRows
from toppush.explain.columns import ColumnContributions
from toppush.folds.scores import FoldScores, n_averaged, narrowed
from toppush.folds.splits import groups_of, shared_folds, within
from toppush.matrices import dense, for_engine, times
from toppush.metrics.cautions import few_positives, later_rows_caution, warn_of_perfect
from toppush.metrics.scoring import scores_of
from toppush.models.base import LABEL, DegenerateWarning, refuse_elsewhere, unchanged_on_failure
from toppush.models.cross_fitted import READING, CrossFitted
from toppush.models.progress import Line
from toppush.tables.frames import (
    FROM_DTYPE,
    FrameColumns,
    Table,
    are_plain,
    categorical_columns,
)
from toppush.tables.leakage import LeakageWarning, caution, leaks_of_matrix
from toppush.tables.text import Terms
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
ALL_EQUAL = (
    "all held-out rows of a fold have the same score, so the order of rows is arbitrary: the base "
    "models learned nothing from the columns of X. Check that they vary and are the intended ones."
)


class TopRanker(CrossFitted):
    """Cross-validate several model types and combine them: the best ranking without settings.

    Weights for a mean of the members' standardised scores are chosen greedily on bootstrap samples
    of out-of-fold scores, by average precision, NDCG and recall at 10 false positives; members
    without a weight are dropped. Data frames and Arrow tables need no preparation: strings, missing
    values, dates, categories, numbers in strings and free text are handled.

    Parameters
    ----------
    members : list, optional
        Names, estimators of scikit-learn, or pairs of a name and an estimator. Names are
        "logistic" (regression on columns or curves), "linear" (`TopPush`, likewise), "boosted"
        (LightGBM's log loss), "trees" (`TopPushTrees`), "small_trees" and "shallow_trees" (the
        same with 15 and 4 leaves, grown on all rows and columns), "target_trees" (with target
        statistics of categories), "forest", "kernel" (support vector machines), "catboost",
        "xgboost", "additive", "net" and "text" (regression on the words of free text; the others
        take 32 components of these). Some need a package that is not installed with toppush.
        Estimators of your own take X as it is passed to `fit`; a warning reports those
        that explanations, model files and ONNX do not support. By default chosen by `effort`.
    effort : {"quick", "normal", "thorough"}, default="normal"
    seconds : float, optional
        Time limit: fit no base model that would exceed it, and combine the fitted ones. Reading the
        rows counts; the first base model is always fitted. An interrupt ends `fit` with
        KeyboardInterrupt and leaves the estimator as it was.
    scoring : str, optional
        A metric of `toppush.metrics` by which to choose the weights instead.
    cv : int, splitter or iterable of (train, held-out) pairs, optional
        Folds that all members share; by default 3 to 5, shuffled.
    categorical_features : "from_dtype", None or list, default="from_dtype"
        Categorical columns, as for `TopPushTrees`.
    text_features : "from_dtype", None or list, default="from_dtype"
        Columns of free text: recognised in data frames, none, or names or positions. Of a matrix
        the positions of the columns that hold weights of terms, such as those of scikit-learn's
        `TfidfVectorizer`, or a list of positions for each text; its other columns should be few.
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
        Score above which the expected F1 score of new rows is greatest; scores are less this.
    calibration_ : Calibration
        Probabilities of scores, see `toppush.thresholds.probabilities`.
    classes_ : array of shape (2,)
        The second class is the positive one.
    formats_ : dict
        Position of a column of numbers in strings -> its decimal mark and its unit.
    text_terms_ : dict
        Position of a column of free text -> its `Terms`, whose `names` are the words.
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
        "text_features": [StrOptions({FROM_DTYPE}), "array-like", None],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "positive": LABEL,
    }

    members_: dict[str, Any]
    weights_: dict[str, float]
    centers_: dict[str, float]
    scales_: dict[str, float]
    text_terms_: dict[int, Terms]
    components_: Components | None
    term_places_: TermPlaces | None
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
        text_features: Any = FROM_DTYPE,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        positive: object = None,
    ) -> None:
        self.members, self.effort, self.seconds = members, effort, seconds
        self.scoring, self.cv, self.categorical_features = scoring, cv, categorical_features
        self.text_features, self.n_jobs, self.random_state = text_features, n_jobs, random_state
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
        began = time.perf_counter()
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
            if data.terms is None and self.members is None:
                members = {name: each for name, each in members.items() if not each.on_terms}
            line = Line() if self.verbose else None
            read = time.perf_counter() - began
            seconds = None if self.seconds is None else self.seconds - read
            schedule = Schedule(members, self.scoring, seconds, line)
            fitted, where = schedule.run(data)
            used = data if len(where) == data.n_rows else data.part(where)
            self._combine(fitted, used, counted[where], n_rows)
            self._warn_if_later_rows_differ(fitted, used)
            self.left_out_ = schedule.left_out
            schedule.close(self.weights_)
            self._warn_if_behind()
            assert self.out_of_fold_ is not None
            scores = self.out_of_fold_[counted[where]]
            if all(np.ptp(scores[held]) == 0.0 for _, held in used.folds):
                warnings.warn(ALL_EQUAL, DegenerateWarning, stacklevel=3)
            if why := few_positives(used.positive, scores):
                warnings.warn(why, UserWarning, stacklevel=3)
        return self

    def decision_function(self, X: Matrix) -> Array:
        """Weighted mean of the members' scores less the threshold; higher ranks first.

        `predict` gives the positive class for scores above 0.

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
        rows = self._read(X)
        total = np.full(rows.numbers.shape[0], -self.threshold_)
        for name, ranker in self.members_.items():
            scores = scores_of(ranker, self._taken_by(name, X, rows))
            total += self.weights_[name] / self.scales_[name] * (scores - self.centers_[name])
        return total

    def predict_proba(self, X: Matrix) -> Array:
        """Calibrated probabilities of both classes, learned from out-of-fold scores.

        They order rows as `decision_function` does.

        Parameters
        ----------
        X : data frame, array, sparse matrix or Dask collection of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, 2)
            Columns in the order of `classes_`: the positive class is the second. A Dask array if X
            is of Dask.
        """
        check_is_fitted(self)
        return on_dask.probabilities(self, X) if on_dask.holds(X) else super().predict_proba(X)

    def contributions(self, X: Matrix) -> Array:
        """What each column adds to a row's score; the last column is the rest.

        The weighted mean of what it adds to the base models' scores. The rest includes the whole
        score of base models that have no `contributions`, which are in `unexplained_`. What
        components of a text add is divided among the terms of the row by their magnitude.

        Parameters
        ----------
        X : data frame, array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_features + 1)
            Rows sum to `decision_function`.
        """
        check_is_fitted(self)
        added, of_terms = self._contributions_of(X)
        if self.components_ is None:
            return added
        if self.term_places_ is not None:
            added[:, self.term_places_.every] += dense(of_terms)
            return added
        for number, terms in self._by_text(of_terms).items():
            added[:, number] += terms.sum(axis=1)
        return added

    def _contributions_of(self, X: Matrix) -> tuple[Array, Matrix]:
        """Contributions of the columns apart from the terms of text, and those of the terms."""
        read, components = self._read(X), self.components_
        added = np.zeros((read.numbers.shape[0], self.n_features_in_ + 1))
        added[:, -1] = -self.threshold_
        sources = self._sources
        of_terms: Any = None if read.terms is None else 0.0 * read.terms
        for name, ranker in self.members_.items():
            factor = self.weights_[name] / self.scales_[name]
            rows = self._taken_by(name, X, read)
            added[:, -1] -= factor * self.centers_[name]
            if name in self.unexplained_:
                added[:, -1] += factor * scores_of(ranker, rows)
            elif name in self.on_terms_:
                of_terms += factor * times(rows, ranker.coef_[0])
                added[:, -1] -= factor * ranker.threshold_
            else:
                own = factor * ColumnContributions.of(ranker).contributions(rows)
                added[:, -1] += own[:, -1]
                columns = np.arange(self.n_features_in_) if name in self.raw_ else sources
                np.add.at(added.T, columns, own.T[: len(columns)])
                if components is not None and name not in self.raw_:
                    of_terms += components.shared_out(read.terms, own[:, len(columns) : -1])
        return added, of_terms

    @property
    def unexplained_(self) -> list[str]:
        """Names of the base models whose scores cannot be attributed to columns."""
        width = len(self._sources)
        width += 0 if self.components_ is None else len(self.components_.owners)
        return [
            name
            for name, ranker in self.members_.items()
            if name not in self.on_terms_
            and not ColumnContributions.explains(
                ranker, self.n_features_in_ if name in self.raw_ else width
            )
        ]

    def text_contributions(self, X: Matrix) -> dict[int, Matrix]:
        """What each term of the columns of free text adds to a row's score.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)

        Returns
        -------
        dict
            Position of a column -> CSR array of shape (n_samples, n_terms), in the order of the
            `names` of its `text_terms_`. Its rows sum to the contribution of the column, apart from
            that of the number of characters.
        """
        check_is_fitted(self)
        return self._by_text(self._contributions_of(X)[1]) if self.text_terms_ else {}

    def _by_text(self, of_terms: Matrix) -> dict[int, Matrix]:
        """The terms of each column of text."""
        assert self.components_ is not None
        ends = pairwise(np.cumsum([0, *self.components_.sizes]))
        return {
            number: of_terms[:, start:end]
            for number, (start, end) in zip(self.text_terms_, ends, strict=True)
        }

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
        width = self.n_features_in_
        if self.term_places_ is not None:
            width = len(self.term_places_.others(width))
        return FrameColumns(width, self.categories_, self.formats_, self.dates_, self.text_terms_)

    @property
    def _sources(self) -> Where:
        """The column of X of each number apart from the components of terms."""
        sources = self._columns.sources
        if self.term_places_ is None:
            return sources
        return self.term_places_.others(self.n_features_in_)[sources]

    def _keep_columns(self, columns: FrameColumns) -> None:
        """Set the fitted attributes by which the columns of new rows are read."""
        self.categories_, self.dates_ = columns.categories, columns.dates
        self.formats_, self.text_terms_ = columns.formats, columns.texts
        self.components_ = self.term_places_ = None

    def _taken_by(self, name: str, X: Any, rows: TextRows) -> Any:
        """Rows as a base model takes them."""
        if name in self.raw_:
            return X
        return rows.terms if name in self.on_terms_ else rows.numbers

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _read_training(
        self, X: Matrix, y: Labels, sample_weight: ArrayLike | None, groups: NDArray[Any] | None
    ) -> tuple[FitData, Where, int]:
        """The rows with a weight above 0, which they are, and the number of all rows."""
        refuse_elsewhere(self, X=X)
        X, rows, y, columns = self._numbers_of_training(X, y)
        check_consistent_length(y, groups)
        numbers, terms = rows
        positive, weight, counted = self._read_classes(numbers, y, sample_weight)
        effort = EFFORTS[self.effort]
        cv, seed = effort.n_folds if self.cv is None else self.cv, self._seed()
        folds = shared_folds(cv, positive, groups, counted, seed)
        matter = groups is not None or not (self.cv is None or isinstance(self.cv, Integral))
        names = _names_of_numbers(X, self._sources)
        _warn_of_leakage(numbers, names, columns, positive, counted)
        if terms is not None:
            self.components_ = Components.of(terms, self._text_sizes, seed)
            numbers = np.hstack([numbers, self.components_.transform(terms)])
        data = FitData(
            X, numbers, columns, positive, weight, [], effort, self.n_jobs, seed, matter, terms
        )
        data = replace(data if weight is None else data.part(counted), folds=folds)
        return data, counted, len(positive)

    @property
    def _text_sizes(self) -> list[int]:
        """Number of terms of each text."""
        if self.term_places_ is not None:
            return self.term_places_.sizes
        return [len(terms) for terms in self.text_terms_.values()]

    def _numbers_of_training(self, X: Any, y: Any) -> tuple[Any, TextRows, Any, FrameColumns]:
        """The rows as passed and as numbers, the labels, and how columns become numbers."""
        if are_plain(X, None) and (places := TermPlaces.of(self.text_features, X)):
            return self._split_training(X, y, places)
        if are_plain(X, self.categorical_features):
            X, y = validated(self, X, y, **READING)
            self._keep_columns(columns := FrameColumns(self.n_features_in_))
            return X, TextRows(for_engine(X)), y, columns
        require_columns(X)
        if not len(X):
            raise ValueError(f"X has no rows, and {len(y)} labels came with it; give some of both.")
        columns = FrameColumns.of(X, self.categorical_features, text_features=self.text_features)
        wanted = self.categorical_features
        keep = [] if isinstance(wanted, str) else categorical_columns(X, wanted)
        columns = columns.without_ids(X, keep)
        validate_data(self, X, y, skip_check_array=True)
        numbers, y = check_X_y(columns.numbers(X), y, **READING)
        require_sizes(numbers, _names_of_numbers(X, columns.sources), training=True)
        self._keep_columns(columns)
        return X, TextRows(numbers, columns.terms(X)), y, columns

    def _split_training(
        self, X: Any, y: Any, places: TermPlaces
    ) -> tuple[Any, TextRows, Any, FrameColumns]:
        """The same of a matrix that holds weights of terms, and columns of numbers."""
        X, y = validated(self, X, y, **READING)
        table, terms = places.split(X)
        others = places.others(X.shape[1]).tolist()
        wanted = self.categorical_features
        asked = [] if wanted is None or isinstance(wanted, str) else wanted
        categorical = Table(np.empty((0, X.shape[1]))).numbers_of(asked)
        if not set(categorical) <= set(others):
            raise ValueError(
                "a column is in categorical_features and in text_features; choose one."
            )
        columns = FrameColumns(len(others))
        if categorical:
            columns = FrameColumns.of(table, [others.index(number) for number in categorical])
        self._keep_columns(columns)
        self.term_places_ = places
        return X, TextRows(columns.numbers(table), terms), y, columns

    def _read(self, X: Matrix) -> TextRows:
        """Rows to score, as base models take them."""
        refuse_elsewhere(self, X=X)
        if self.term_places_ is not None:
            numbers, terms = self.term_places_.split(validated(self, X, reset=False, **READING))
            return self._with_components(self._columns.numbers(numbers), terms)
        table = self._columns
        learned = table.categories or table.formats or table.dates or table.texts
        if not (learned or Table(X).has_types):
            rows = validated(self, X, reset=False, **READING)
            return TextRows(self._refuse_sparse_missing(rows))
        validate_data(self, X, reset=False, skip_check_array=True)
        numbers = check_array(table.numbers(X), **READING)
        require_sizes(numbers, _names_of_numbers(X, table.sources))
        return self._with_components(numbers, table.terms(X))

    def _with_components(self, numbers: Array, terms: Matrix | None) -> TextRows:
        if terms is None or self.components_ is None:
            return TextRows(numbers)
        return TextRows(np.hstack([numbers, self.components_.transform(terms)]), terms)

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
        self._keep_scores(by_fold, scores.positive, scores.weight, counted[known], n_rows)
        del self.second_scores_  # of no use for a combination
        chosen = [(place, name) for place, name in enumerate(fitted) if weights[place] > 0.0]
        self.members_ = {name: fitted[name].ranker for _, name in chosen}
        self.weights_ = {name: float(weights[place]) for place, name in chosen}
        self.centers_ = {name: float(centers[place]) for place, name in chosen}
        self.scales_ = {name: float(scales[place]) for place, name in chosen}
        self.raw_ = [name for _, name in chosen if fitted[name].raw]
        self.on_terms_ = [name for _, name in chosen if fitted[name].on_terms]
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


def _names_of_numbers(X: Any, sources: Where) -> list[Any]:
    """The name or position of the column that each number is made of."""
    places: list[Any] = sources.tolist()
    names = Table(X).names if Table(X).has_types else None
    return places if names is None else [names[place] for place in places]


def _warn_of_leakage(
    numbers: Matrix, names: list[Any], columns: FrameColumns, positive: Mask, counted: Where
) -> None:
    """Warn of columns that alone rank the rows with a weight almost perfectly."""
    if len(counted) < len(positive):
        numbers, positive = numbers[counted], positive[counted]
    if leaks := leaks_of_matrix(numbers, names, columns.categorical, positive):
        text = caution(leaks, "drop it from X before the fit")
        warnings.warn(text, LeakageWarning, stacklevel=5)
