"""A support vector machine with the Gaussian kernel, cross-validated, for few rows."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from toppush.auto.search import CachedFits, SettingSearch, TunedRanker, WeightedRows
from toppush.designs.local import default_threads
from toppush.explain.contributions import shapley, some_background
from toppush.folds.scores import FoldScores, Part, in_order, n_averaged, with_second_scores
from toppush.folds.splits import Folds, in_turn, some_rows, within
from toppush.matrices import dense
from toppush.models.base import LABEL, unchanged_on_failure
from toppush.models.kernel import CURVES, KernelColumns, Machine
from toppush.system.threads import check_cancelled, in_threads
from toppush.types import Array, Labels, Mask, Matrix, Where

SETTINGS = ((1.0, 0.25), (10.0, 0.25), (1.0, 1.0), (10.0, 1.0))
"""The cost of errors, and the factor of gamma, which are tried with each scaling."""
MACHINE_ROWS = 5_000
"""Rows that a machine learns from at most: the time grows with their square where classes overlap.
"""
CACHE = 500
"""Megabytes of kernel values that are kept while a machine is fitted."""
MOST_STEPS, FEWEST_STEPS = 100, 10_000
"""Maximum number of steps of the optimiser: for each row, and not less than the second number."""
N_BACKGROUND = 4
"""Rows with which `contributions` compares others."""


class Setting(NamedTuple):
    """How columns are scaled, the cost of errors, and the factor of the kernel's gamma."""

    curve: str
    cost: float
    width: float


class TopKernel(TunedRanker):
    """Support vector machines with the Gaussian kernel, one for each fold.

    The score is sum_k a_k exp(-gamma |x - x_k|^2) over support vectors x_k. Columns of numbers are
    scaled to about unit variance, missing values are filled with the median and get an indicator,
    categories become indicators; rare ones and unknown ones have none. The scaling, the
    cost of errors and gamma are chosen by cross-validation on some 1,200 rows. A machine learns
    from 5,000 rows at most, of both classes in proportion.

    Parameters
    ----------
    curve : {"auto", "asinh", "normal"}, default="auto"
        Scaling of columns of numbers: the inverse hyperbolic sine of standardised values, or normal
        quantiles. "auto" cross-validates.
    categorical_features : list of int, optional
        Positions of categorical columns.
    cv : int, splitter or iterable of (train, held-out) pairs, optional
        By default four shuffled folds.
    n_jobs : int, optional
        By default all cores, or OMP_NUM_THREADS if set. The result does not depend on it.
    random_state : int, RandomState or None, default=0
        Shuffles the folds.
    verbose : int, default=0
        Without effect.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    curve_, cost_, gamma_ : str, float, float
        The chosen scaling, the cost of errors (C of `sklearn.svm.SVC`), and gamma of the kernel.
    columns_ : dict of arrays
        How columns are prepared, see `KernelColumns`.
    support_vectors_ : array of shape (n_support, n_prepared)
        Prepared rows that are a support vector of at least one machine.
    dual_coef_, intercept_ : arrays of shape (n_machines, n_support), (n_machines,)
        Coefficients of each machine.
    background_ : array of shape (4, n_features)
        Training rows with which `contributions` compares others.
    out_of_fold_ : array of shape (n_samples,)
        Scores of the training rows by machines that did not see them, with settings that were
        chosen on other rows, less the threshold; NaN for rows that no fold holds out.
    second_scores_, expected_scores_ : arrays of shape (n_samples,)
        Scores of an eighth of the rows by a second machine that did not see them; and out-of-fold
        scores narrowed to the distribution that the mean of all machines has on new rows.
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
    >>> from toppush.auto.kernel import TopKernel
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> TopKernel().fit(X, y).decision_function(X).shape
    (569,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "curve": [StrOptions({"auto", *CURVES})],
        "categorical_features": ["array-like", None],
        "cv": ["cv_object"],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "positive": LABEL,
    }
    _search_rows = 1_200, 300

    columns_: dict[str, Any]
    support_vectors_: Array
    dual_coef_: Array
    intercept_: Array

    def __init__(
        self,
        curve: str = "auto",
        *,
        categorical_features: Any = None,
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        positive: object = None,
    ) -> None:
        self.curve, self.categorical_features = curve, categorical_features
        self.cv, self.n_jobs, self.random_state = cv, n_jobs, random_state
        self.verbose, self.positive = verbose, positive

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the settings, then fit a machine for each fold.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Numbers; NaN is a missing value, in dense rows. Sparse rows are made dense.
        y : array-like of shape (n_samples,)
            Two classes, of which `positive` names the one to rank first.
        sample_weight : array-like of shape (n_samples,), optional
            Counts relative to the mean weight; a row of weight 0 is left out.

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            rows, folds = self._read_training(X, y, sample_weight)
            n_rows, counted = len(rows.positive), np.flatnonzero(rows.mass > 0.0)
            rows = rows.part(counted, dense(rows.X))
            folds = [within(fold, counted) for fold in folds]
            scores = self._fit_machines(rows, folds, self._search(rows, folds))
            self._keep_scores(scores, rows.positive, rows.weight, counted, n_rows)
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            self.background_ = some_background(rows.X, seed)[:N_BACKGROUND]
        return self

    def _score(self, X: Matrix) -> Array:
        coef, intercept = self.dual_coef_.mean(axis=0), float(self.intercept_.mean())
        machine = Machine(self.support_vectors_, coef, intercept, self.gamma_)
        return machine.scores(KernelColumns(**self.columns_).transform(dense(X)))

    def _contributions(self, X: Matrix) -> Array:
        """By Shapley values against `background_`: eight scores for each column."""
        return shapley(self._score, X, self.background_)

    @property
    def _n_explained(self) -> int:
        return 64

    def _tried(self, rows: WeightedRows) -> Iterator[tuple[Setting, CachedFits]]:
        for curve in CURVES if self.curve == "auto" else (self.curve,):
            prepared = PreparedRows.of(rows, curve)
            for cost, width in SETTINGS:
                setting = Setting(curve, cost, width)
                yield setting, CachedFits(partial(prepared.scores_of_all, setting))

    def _fit_machines(self, rows: WeightedRows, folds: Folds, search: SettingSearch) -> FoldScores:
        """Fit a machine for each fold with the best setting, and score the training rows."""
        setting, n_rows = search.settings[search.best], len(rows.positive)
        prepared = PreparedRows.of(rows, setting.curve)
        folds, again = with_second_scores(folds, rows.positive)
        n_jobs = min(default_threads() if self.n_jobs is None else self.n_jobs, len(folds))
        trained = [train for train, _ in folds]
        machines = in_threads(partial(prepared.machine, setting), trained, n_jobs)
        held = [held for _, held in folds]
        final, second = (
            [
                (where, machine.scores(prepared.rows[where]))
                for machine, where in zip(machines, parts, strict=True)
            ]
            for parts in (held, again)
        )
        chosen = self._chosen(rows, folds, search, final)
        self.curve_, self.cost_, self.gamma_ = setting.curve, setting.cost, machines[0].gamma
        self.columns_ = vars(prepared.columns).copy()
        self.intercept_ = np.array([machine.intercept for machine in machines])
        coef = np.stack([machine.coef_of_all(n_rows) for machine in machines])
        used = np.flatnonzero(coef.any(axis=0))
        self.support_vectors_, self.dual_coef_ = prepared.rows[used], coef[:, used]
        return FoldScores.of(chosen, final, second, n_rows, n_averaged(held))

    def _chosen(
        self, rows: WeightedRows, folds: Folds, search: SettingSearch, final: list[Part]
    ) -> list[Part]:
        """Scores of each fold's rows, in the order of the setting that is best on other folds."""
        prepared = cache(lambda curve: PreparedRows.of(rows, curve))
        chosen = [(held, scores.copy()) for held, scores in final]
        for number, turn in enumerate(in_turn(folds, rows.positive)):
            place = search.best_in(number)
            if place == search.best:
                continue
            setting, judged = search.settings[place], turn.judged
            if len(search.scores[place]) == len(rows.positive):
                scores = search.scores[place][judged]
            else:
                own = prepared(setting.curve)
                scores = own.machine(setting, folds[turn.fold][0]).scores(own.rows[judged])
            held, values = chosen[turn.fold]
            here = np.isin(held, judged)
            values[here] = in_order(final[turn.fold][1][here], scores)
        return chosen


@dataclass(frozen=True)
class PreparedRows:
    """Training rows as machines see them."""

    rows: Array
    positive: Mask
    weight: Array | None
    columns: KernelColumns
    variance: float
    """Of all prepared columns together, about their number."""

    @classmethod
    def of(cls, rows: WeightedRows, curve: str) -> "PreparedRows":
        """Prepare dense rows; no labels are used, so folds may share it."""
        columns = KernelColumns.of(rows.X, rows.categorical, curve)
        prepared = columns.transform(rows.X)
        variance = float(prepared.var(axis=0).sum()) or 1.0
        return cls(prepared, rows.positive, rows.weight, columns, variance)

    def machine(self, setting: Setting, train: Where) -> Machine:
        """A machine of some of the rows."""
        check_cancelled()
        train = train[some_rows(self.positive[train], MACHINE_ROWS)]
        model = SVC(
            C=setting.cost,
            gamma=setting.width / self.variance,
            cache_size=CACHE,
            max_iter=max(MOST_STEPS * len(train), FEWEST_STEPS),
        )
        weight = None if self.weight is None else self.weight[train]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(self.rows[train], self.positive[train], weight)
        coef, intercept = model.dual_coef_[0], float(model.intercept_[0])
        return Machine(model.support_vectors_, coef, intercept, model.gamma, train[model.support_])

    def scores_of_all(self, setting: Setting, train: Where) -> Array:
        """Scores of all rows by a machine of some of them."""
        return self.machine(setting, train).scores(self.rows)
