"""TopPush with lam and top chosen by cross-validation."""

import warnings
from collections.abc import Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from toppush.metrics.partial_curve import first_negatives
from toppush.models.base import (
    LABEL,
    LinearRanker,
    TrainingRows,
    read_training,
    require_both,
    unchanged_on_failure,
)
from toppush.models.linear import TopPush, require_pairwise
from toppush.models.path import N_LAMS, Grid, is_least, lams_below, read_lams, read_tops
from toppush.models.progress import FitCounter
from toppush.models.search import Evaluate, PairSearch, Scorer, evaluate_by, evaluate_heads
from toppush.problem.losses import LOSSES
from toppush.types import Array, Labels, Matrix

TOPS, MORE_TOPS = (1, 0.001, 0.01, 0.03, 0.1), (0.5, 1.0)
"""The default tops; and those, slower to fit, that are tried while the greatest so far wins."""
TOL = 1e-4
"""Relative gap of a search's fits."""


class TopPushCV(LinearRanker):
    """TopPush with lam and top chosen by cross-validation.

    The folds share X and run in parallel; each follows the grid with warm starts. If there are more
    than ten pairs, all are tried on every third fold, and the best quarter there, at least ten, on
    the others; `cv_results_["n_folds"]` shows which. Then the best pair is fitted on all rows, with
    a certificate.

    Parameters
    ----------
    lams : sequence of float, optional
        By default nine values chosen from the data, see `toppush_path`.
        While the least of them is the best, two smaller ones are added, down to 1e-8 of the
        greatest, with a warning if that is still the best. Above the greatest the direction of
        the weights does not change.
    tops : sequence of int, float or "auto", optional
        Counts or shares of the negatives, or what `TopPush(top="auto")` finds on all rows. Counts
        above a fold's negatives are left out. By default 1, 0.001, 0.01, 0.03 and 0.1; if the
        greatest wins or none has a solution also 0.5, and then 1.0.
    pairwise : bool or "cv", default=False
        Which family, as for `TopPush`; "cv" cross-validates both, in at least twice the time.
    loss : {"truncated_quadratic", "logistic", "exponential"}
    scoring : str or callable, optional
        By default `by_the_top`, the rule of `toppush.models.search`: of the pairs whose average
        precision (mean over the folds) is at most 0.01 below the best, the one with the greatest
        mean recall before the first 0.1 % of the negatives, in one ranking of the held-out rows of
        all folds, each scored relative to its fold's top. With a name of `toppush.metrics` or of
        scikit-learn, or a scorer: the pair with the best mean over the folds. docs/evidence.md
        compares the rules. With any rule, a pair at which weights of zero are optimal on some fold
        comes after all others.
    cv : int, splitter or iterable, default=5
        Folds, stratified by class if an int. For a Dask collection an int, and its rows should
        be persisted: the folds are masks of them.
    tol : float, optional
        Relative duality gap at which all fits end. By default the last one ends at 1e-4, and those
        of the folds also where the gap is 3 % of the objective and of the possible gain over
        weights of zero.
    n_jobs : int, optional
        Folds at a time, and threads of the final fit.
    device : str, optional
        As for `TopPush`; the folds then run one after another.
    verbose : int, default=0
        If 1, show progress.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    lam_, top_
        The chosen pair.
    pairwise_ : bool
        The chosen family.
    best_score_ : float
        Its mean score over the folds; by default its recall on the joint list.
    lams_ : array
        All lams that were tried, in decreasing order; those that were added only with the top
        that won.
    cv_results_ : dict of arrays
        As scikit-learn's `GridSearchCV`: `params`, `param_lam`, `param_top`,
        `split0_test_score`, ..., `mean_test_score`, `std_test_score`, `rank_test_score`,
        `mean_fit_time`; unless `pairwise=False` also `param_pairwise`; `degenerate`, where weights
        of zero are optimal on some fold; `n_folds`, on how many a pair was tried; and by default
        `joint_test_score` and `mean_average_precision`, which then make the ranks. A pair that was
        dropped has NaN for the folds it was not tried on, means over the others, and a rank after
        those that were not.
    coef_, intercept_, threshold_, classes_, n_iter_, n_features_in_
        As `TopPush`.
    solution_ : Solution
        As `TopPush`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MaxAbsScaler
    >>> from toppush import TopPushCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> chooser = TopPushCV([0.1, 0.001], tops=[1, 0.1], cv=3)
    >>> ranker = make_pipeline(MaxAbsScaler(), chooser).fit(X, y)
    >>> ranker[-1].lam_, ranker[-1].top_
    (0.001, 0.1)
    """

    lam_: float
    top_: float
    lams_: Array
    pairwise_: bool = False
    pairwise: bool | str = False  # models of versions before have none

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "lams": [None, "array-like"],
        "tops": [None, "array-like"],
        "pairwise": ["boolean", StrOptions({"cv"})],
        "loss": [StrOptions(LOSSES.keys())],
        "scoring": [None, str, callable],
        "cv": ["cv_object", HasMethods(["split"])],
        "tol": [None, Interval(Real, 0, None, closed="neither")],
        "n_jobs": [None, Interval(Integral, 1, None, closed="left")],
        "device": [None, str],
        "verbose": ["verbose"],
        "positive": LABEL,
    }

    def __init__(
        self,
        lams: Sequence[float] | None = None,
        *,
        tops: Sequence[float | str] | None = None,
        pairwise: bool | str = False,
        loss: str = "truncated_quadratic",
        scoring: str | Scorer | None = None,
        cv: Any = 5,
        tol: float | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
        verbose: int = 0,
        positive: object = None,
    ) -> None:
        self.lams, self.tops, self.pairwise = lams, tops, pairwise
        self.loss, self.scoring = loss, scoring
        self.cv, self.tol = cv, tol
        self.n_jobs, self.device, self.verbose = n_jobs, device, verbose
        self.positive = positive

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None = None) -> Self:
        """Choose lam and top by cross-validation, then fit all rows.

        Parameters
        ----------
        X, y, sample_weight
            As for `TopPush.fit`; the weights enter the fits, and every measure that is named;
            a scorer function is called without them.
        """
        with unchanged_on_failure(self):
            training = read_training(self, X, y, sample_weight, self.device)
            self._choose(training)
            self._fit_best(training)
        return self

    @property
    def _families(self) -> tuple[bool, ...]:
        return (False, True) if self.pairwise == "cv" else (bool(self.pairwise),)

    @property
    def _fit_tol(self) -> float:
        return TOL if self.tol is None else self.tol

    def _fit_best(self, training: TrainingRows) -> None:
        """Fit the best pair on all rows."""
        final = TopPush(
            self.lam_,
            top=self.top_,
            pairwise=self.pairwise_,
            loss=self.loss,
            tol=self._fit_tol,
            n_jobs=self.n_jobs,
            device=self.device,
            verbose=self.verbose,
        )
        if hasattr(self, "_skl_callbacks"):
            final.set_callbacks(*self._skl_callbacks)
        final.fit(training.rows, training.positive, training.sample_weight)
        self._keep(final.solution_, training.classes)

    def _choose(self, training: TrainingRows) -> None:
        """Set the grid, its scores on the folds, and the best pair."""
        search = self._search(training)
        best, first_lams = search.begin(self._families), self.lams_
        while more := self._more(search, best, first_lams):
            best = search.run(*more)
        search.end()
        self.lams_ = np.unique([pair["lam"] for pair in search.pairs])[::-1]
        self.cv_results_ = search.table
        deciding = "mean_test_score" if self.scoring is not None else "joint_test_score"
        self.best_score_ = float(self.cv_results_[deciding][best])
        chosen = search.pairs[best]
        self.lam_, self.top_ = chosen["lam"], chosen["top"]
        self.pairwise_ = chosen.get("pairwise", False)
        if self.lams is None and is_least(self.lam_, first_lams[0]):
            warnings.warn(
                f"The best lam is {self.lam_:.3g}, the least that the default grid grows to; "
                "smaller ones may rank better: give them as lams.",
                stacklevel=4,
            )

    def _more(
        self, search: PairSearch, best: int, first_lams: Array
    ) -> tuple[Array, tuple[float, ...], bool] | None:
        """What a default grid grows by if its best pair is at an end of it."""
        chosen = search.pairs[best]
        lam, top, pairwise = chosen["lam"], chosen["top"], chosen.get("pairwise", False)
        family = [pair for pair in search.pairs if pair.get("pairwise", False) == pairwise]
        tried = [pair["lam"] for pair in family if pair["top"] is top]
        unsolved = bool(search.table["degenerate"][best])
        if self.lams is None and lam == tried[-1] and not unsolved:
            more = lams_below(np.array(tried), first_lams[0])
            if len(more):
                return more, (top,), pairwise
        if self.tops is not None:
            return None
        greatest = max(pair["top"] for pair in family if isinstance(pair["top"], float))
        further = [share for share in MORE_TOPS if share > greatest]
        wins = top == greatest or unsolved
        return (first_lams, (further[0],), pairwise) if wins and further else None

    def _search(self, training: TrainingRows) -> PairSearch:
        """The folds with what is to be tried on them; sets the first lams."""
        if self.pairwise:
            require_pairwise(self.loss)
        folds = training.rows.folds(self.cv, training.positive)
        if not folds:
            raise ValueError(f"cv={self.cv!r} makes no folds; give at least one.")
        tol = self._fit_tol
        with training.design(self.n_jobs) as design:
            require_both(design, training.classes)
            self.lams_ = read_lams(self.lams, design, self.loss, N_LAMS)
            wanted = TOPS if self.tops is None else self.tops
            tops = read_tops(wanted, design, self.loss, self.lams_, tol)
            most = design.n_neg // 2  # of a count; a share always fits
            tops = tuple(top for top in tops if not isinstance(top, Integral) or top <= most)
        if not tops or not len(self.lams_):
            raise ValueError(
                f"the grid is empty: lams={self.lams!r}, tops={self.tops!r} for "
                f"{design.n_neg} negatives; give at least one of each that fits the folds."
            )
        return PairSearch(
            training,
            folds,
            Grid(self.lams_, tops, self.loss, tol, rough=self.tol is None),
            self._evaluation(training, design.n_neg),
            n_jobs=self.n_jobs,
            counter=FitCounter(0) if self.verbose else None,
            families=bool(self.pairwise),
        )

    def _evaluation(self, training: TrainingRows, n_neg: int) -> Evaluate:
        """What is kept of the held-out rows of a fold."""
        if self.scoring is None:
            return partial(evaluate_heads, n_false=first_negatives(n_neg))
        return evaluate_by(self.scoring, training.rows, training.classes)
