"""Whole grids of lam and top: the path on some rows, and the choice by cross-validation."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from toppush import metrics
from toppush.designs import Block, Design, Placed, Spread, open_design, score, some_rows
from toppush.designs.arrays import to_host
from toppush.designs.local import default_threads, one_blas_thread
from toppush.estimators.base import (
    LinearRanker,
    read_placed_rows,
    require_both,
    unchanged_on_failure,
)
from toppush.estimators.choice import Held, as_good_as_the_best, held_out_scorer, results
from toppush.estimators.progress import Tally
from toppush.estimators.toppush import AUTO_TOL, TopPush
from toppush.metrics.head import Head, first_negatives
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem, count_top
from toppush.problem.solution import Solution
from toppush.solvers import automatic_top, solve, zero_is_optimal
from toppush.solvers.newton.positives import mean_difference
from toppush.system.threads import in_threads
from toppush.types import Array, Labels, Matrix

N_LAMS, N_AVERAGED_LAMS, LAM_RANGE = 9, 5, 1e-4
"""An average needs no fine grid: half the lams, half the time."""
N_MORE, LEAST_LAM = 2, 1e-8
"""Lams that a grid grows by at its lower end if that wins, down to this share of the greatest."""
FIRST_GAIN = 0.01
"""At the greatest lam, no weights beat zero by more than this share of the objective."""
TOPS, MORE_TOPS = (1, 0.001, 0.01, 0.03, 0.1), (0.5, 1.0)
"""The default tops; and those, slower to fit, that are tried while the greatest so far wins."""
AVERAGED_TOPS = (1, 0.001, 0.01, 0.1)
TOL, AVERAGED_TOL = 1e-4, 1e-2
"""Relative gap of a search's fits. The closer they are, the more alike, and the less an average
of them is worth."""
DIRECTION_ENTRIES = 1 << 28
"""The most weights of fold fits that an average holds: 2 GiB."""
ENTRIES_PER_FOLD = 1 << 18
"""Below this many stored entries folds at the same time only wait for each other."""
Rows = tuple[Matrix, Any, Any]
"""X, which rows are positive, and their weights or None."""


@dataclass(frozen=True)
class Path:
    """Solutions over a grid.

    Attributes
    ----------
    lams : array
        Decreasing.
    tops : tuple
    solutions : tuple of tuples of Solution
        `solutions[i][j]` belongs to `tops[i]` and `lams[j]`.
    """

    lams: Array
    tops: tuple[float, ...]
    solutions: tuple[tuple[Solution, ...], ...]

    @property
    def coefs(self) -> Array:
        """Weights, of shape (n_tops, n_lams, n_features)."""
        return np.array([[one.weights for one in row] for row in self.solutions])


def toppush_path(
    X: Matrix,
    y: Labels,
    *,
    lams: Sequence[float] | None = None,
    tops: Sequence[float | str] = (1,),
    loss: str = "truncated_quadratic",
    tol: float = 1e-4,
    sample_weight: Any | None = None,
    n_threads: int | None = None,
    device: str | None = None,
) -> Path:
    """Solutions for every lam and top, each solve begun at its neighbour's weights.

    Parameters
    ----------
    X, y, sample_weight
        As for `TopPush.fit`.
    lams : sequence of float, optional
        By default nine values from the lam at which nothing beats weights of zero by more than
        1 % down to a ten-thousandth of it.
    tops : sequence of int or float
        Counts or shares of the negatives, or "auto", as for `TopPush`.
    loss, tol, n_threads, device
        As for `TopPush`.

    Returns
    -------
    Path
    """
    ranker = TopPush(loss=loss, tol=tol, n_threads=n_threads, device=device)
    ranker._validate_params()
    X, _, classes, positive, sample_weight = read_placed_rows(ranker, X, y, sample_weight, device)
    with open_design(X, positive, sample_weight, n_threads=n_threads) as design:
        require_both(design, classes)
        grid = read_lams(lams, design, loss)
        return follow(design, grid, read_tops(tops, design, loss, grid, tol), loss, tol)


def read_lams(
    lams: Sequence[float] | None, design: Design, loss: str, n_lams: int = N_LAMS
) -> Array:
    """The lams in decreasing order, each once; chosen from the data if none are given."""
    if lams is None:
        return lam_grid(design, loss, n_lams)
    grid = np.unique(np.asarray(lams, float))[::-1]
    if not np.all((grid > 0.0) & (grid < np.inf)):
        raise ValueError(f"every lam must be above 0 and finite, found {list(lams)!r}.")
    return grid


def lam_grid(design: Design, loss: str, n_lams: int = N_LAMS) -> Array:
    """Decreasing lams from where nothing beats zero by more than `FIRST_GAIN`.

    Along g = mean positive - mean negative, and so along any better direction, the objective
    falls by at most (l'(0) |g|)^2 / (2 lam).
    """
    difference = design.sum(mean_difference, design.total_cost, design.n_neg)
    zero = np.zeros(1)
    steep = float(LOSSES[loss].slope(zero)[0]) ** 2 * float(difference @ difference)
    first = steep / (2.0 * FIRST_GAIN * float(LOSSES[loss].value(zero)[0]))
    return (first or 1.0) * np.geomspace(1.0, LAM_RANGE, n_lams)


def lams_below(lams: Array, greatest: float) -> Array:
    """The next lams of a decreasing grid; none below the bound, or of a grid of one lam."""
    step = lams[-1] / lams[-2] if len(lams) > 1 else 1.0
    more = lams[-1] * step ** np.arange(1, N_MORE + 1)
    return np.asarray(more[(more < lams[-1]) & (more >= 0.99 * LEAST_LAM * greatest)])


def follow(
    design: Design,
    lams: Array,
    tops: tuple[float, ...],
    loss: str,
    tol: float,
    *,
    done: Callable[[], None] = lambda: None,
) -> Path:
    """The path on a design: down the lams for each top, from the lam above.

    `done` is called after each solve.
    """
    rows = []
    for top in tops:
        k, start, row = count_top(top, design.n_neg), None, []
        for lam in lams:
            problem = TopPushProblem(design, LOSSES[loss], float(lam), k)
            start = solve(problem, tol=tol, max_iter=1000, start=start)
            row.append(start)
            done()
        rows.append(tuple(row))
    return Path(lams, tops, tuple(rows))


def follow_solvable(
    design: Design,
    lams: Array,
    tops: tuple[float, ...],
    loss: str,
    tol: float,
    *,
    done: Callable[[], None] = lambda: None,
) -> Path:
    """The path, but one solve stands for all pairs at which it shows that zero is optimal.

    The objective grows with lam and falls with k, so a bound below it holds for every greater lam
    and smaller k. Each top, the greatest first, therefore begins at the least lam.
    """
    counts = [count_top(top, design.n_neg) for top in tops]
    rows: list[tuple[Solution, ...]] = [()] * len(tops)
    proof: Solution | None = None
    problem = TopPushProblem(design, LOSSES[loss], 1.0)
    solved = partial(follow, design, loss=loss, tol=tol, done=done)
    for i in sorted(range(len(tops)), key=lambda i: -counts[i]):
        if proof is None:
            ((least,),) = solved(lams=lams[-1:], tops=tops[i : i + 1]).solutions
            proof = least if zero_is_optimal(least, problem, tol) else None
            rest = lams[:-1]
        else:
            rest = lams
        if proof is None:
            (above,) = solved(lams=rest, tops=tops[i : i + 1]).solutions
            rows[i] = (*above, least)
        else:
            rows[i] = (proof,) * len(lams)
            for _ in rest:
                done()
    return Path(lams, tops, tuple(rows))


class Fold(NamedTuple):
    """What the fits on a fold's training rows give.

    Attributes
    ----------
    scores : array of shape (n_tops * n_lams, n_test)
        Of the held-out rows, less the threshold of the fit, so that 0 means as high as its top.
    directions : array of shape (n_tops * n_lams, n_features), or None
        The weights with length 1, if they are wanted.
    degenerate : array of shape (n_tops * n_lams,)
        Where the certificate shows that weights of zero are optimal.
    n_iter : int
    seconds : float
    """

    scores: Array
    directions: Array | None
    degenerate: NDArray[np.bool_]
    n_iter: int
    seconds: float

    @classmethod
    def of(
        cls, fits: list[Solution], problem: TopPushProblem, tol: float, began: float, wanted: bool
    ) -> Self:
        """What is known of fits before any row is scored; their directions if `wanted`."""
        return cls(
            np.empty(0),
            np.array([unit(one.weights) for one in fits]) if wanted else None,
            np.array([zero_is_optimal(one, problem, tol) for one in fits]),
            sum(one.n_iter for one in fits),
            time.perf_counter() - began,
        )

    def joined(self, other: "Fold") -> "Fold":
        """The fits of both, without scores."""
        directions = None
        if self.directions is not None and other.directions is not None:
            directions = np.vstack([self.directions, other.directions])
        return Fold(
            np.empty(0),
            directions,
            np.append(self.degenerate, other.degenerate),
            self.n_iter + other.n_iter,
            self.seconds + other.seconds,
        )


def fit_fold(
    X: Matrix,
    positive: NDArray[np.bool_],
    sample_weight: Array | None,
    fold: tuple[NDArray[Any], NDArray[Any]],
    lams: Array,
    tops: tuple[float, ...],
    loss: str,
    tol: float,
    *,
    directions: bool = False,
    **followed: Any,
) -> Fold:
    """Fit the whole grid to a fold's training rows and score the others.

    Rows that the fold does not train on stay where they are and weigh nothing, so no fold
    copies X. `followed` goes to `follow`.
    """
    began = time.perf_counter()
    train, test = fold
    weight = np.zeros(len(positive))
    weight[train] = 1.0 if sample_weight is None else sample_weight[train]
    with open_design(X, positive, weight, n_threads=1) as design:
        require_both(design, np.array([False, True]))
        path = _path(directions)(design, lams, tops, loss, tol, **followed)
        fits = [one for row in path.solutions for one in row]
        problem = TopPushProblem(design, LOSSES[loss], 1.0)
        fitted = Fold.of(fits, problem, tol, began, directions)
    rows = some_rows(X, test)
    scores = np.asarray([score(rows, one.weights) - one.threshold for one in fits])
    return fitted._replace(scores=scores)


def _path(directions: bool) -> Callable[..., Path]:
    """An average wants the direction of every pair."""
    return follow if directions else follow_solvable


def unit(weights: Array) -> Array:
    """The same direction with length 1; zero stays zero."""
    length = float(np.linalg.norm(weights))
    return np.asarray(weights / length if length else weights)


def measure_spread(
    X: Spread,
    positive: Any,
    sample_weight: Any | None,
    fold: tuple[Any, Any],
    grid: tuple[Array, tuple[float, ...], str, float],
    measure: Callable[..., Any],
    n_false: float | None,
    *,
    directions: bool = False,
    **followed: Any,
) -> tuple[list[Any], Fold]:
    """Measures of the held-out rows of a fold for the whole grid, and the fits without scores.

    Rows over many machines are masked where they are. The measures are `measure` of lazy scores
    and, for the default rule, the heads of the list down to the `n_false`-th negative, joined
    from those of its parts.
    """
    began, (train, test), (*_, loss, tol) = time.perf_counter(), fold, grid
    weight = train * (1.0 if sample_weight is None else sample_weight)
    with open_design(X, positive, weight) as design:
        require_both(design, np.array([False, True]))
        path = _path(directions)(design, *grid, **followed)
        fits = [one for row in path.solutions for one in row]
        problem = TopPushProblem(design, LOSSES[loss], 1.0)
        fitted = Fold.of(fits, problem, tol, began, directions)
    held = X.subset(test)
    truth, weight = positive[test], None if sample_weight is None else sample_weight[test]
    lists = (held.scores(one.weights) - one.threshold for one in fits)
    measured = [measure(truth, scores, weight) for scores in lists]
    if n_false is None:
        return measured, fitted
    points = [(one.weights, one.threshold) for one in fits]
    parts = held.of_parts(_heads, [truth, weight], points, n_false)
    heads = (Head.join(heads) for heads in zip(*parts, strict=True))
    return list(map(Held, heads, measured)), fitted


def _heads(
    X: Matrix,
    positive: NDArray[np.bool_],
    weight: Array | None,
    points: Sequence[tuple[Array, float]],
    n_false: float,
) -> list[Head]:
    return [
        Head.of(positive, score(X, weights) - threshold, weight, n_false)
        for weights, threshold in points
    ]


class TopPushCV(LinearRanker):
    """TopPush with lam and top chosen by cross-validation.

    The folds share X and run in parallel; each follows the whole grid with warm starts. Then the
    best pair is fitted on all rows, to the tolerance of the folds' fits and with a certificate;
    or, with `combine="average"`, the directions of all pairs that the folds cannot tell from the
    best are averaged.

    Parameters
    ----------
    lams : sequence of float, optional
        By default nine values chosen from the data, see `toppush_path`; five for an average.
        While the least of them is the best, two smaller ones are added, down to 1e-8 of the
        greatest; a warning tells if that is the best still. Above the greatest the direction of
        the weights changes no more. An average keeps to its five.
    tops : sequence of int, float or "auto", optional
        Counts or shares of the negatives, or what `TopPush(top="auto")` finds on all rows. Counts
        above a fold's negatives are left out. By default 1, 0.001, 0.01, 0.03 and 0.1; if the
        greatest wins or none has a solution also 0.5, and then 1.0. For an average 1, 0.001, 0.01
        and 0.1.
    loss : {"truncated_quadratic", "logistic", "exponential"}
    scoring : str or callable, optional
        By default the rule of `choice.py`: of the pairs whose average precision (mean over the
        folds) is at most 0.01 below the best, the one with the greatest mean recall before the
        first 0.1 % of the negatives, in one list of the held-out rows of all folds, each scored
        relative to its fold's top. A name of `toppush.metrics` or of scikit-learn, or a scorer:
        the pair with the best mean over the folds. docs/evidence.md compares rules. Whatever the
        rule, a pair at which weights of zero are optimal on some fold comes after all others.
    combine : {"best", "average"}, default="best"
        "best" fits the best pair on all rows. "average" takes the mean direction of the folds' fits
        over every pair whose score is within two standard errors of the best (of the difference
        over the folds). With few rows at the top the choice of one pair is mostly luck and the mean
        ranks clearly better; with many it is about as good, see docs/results.md. An average solves
        no one problem, so it has no certificate and tells callbacks nothing.
    cv : int, splitter or iterable, default=5
        Folds, stratified by class if an int. For a Dask collection an int, and its rows should
        be persisted: the folds are masks of them.
    tol : float, optional
        Relative duality gap at which the fits end, those of the folds and the last one alike. By
        default 1e-4; 1e-2 for an average.
    n_threads : int, optional
        Folds at a time, and threads of the final fit.
    device : str, optional
        As for `TopPush`; the folds then run one after another.
    verbose : int, default=0
        1 shows a line that counts the folds' fits, and one that follows the final fit.

    Attributes
    ----------
    lam_, top_
        The chosen pair.
    best_score_ : float
        Its mean score over the folds; by default its recall on the joint list.
    lams_ : array
        All lams that were tried, in decreasing order; those that were added only with the top
        that won.
    cv_results_ : dict of arrays
        As scikit-learn's `GridSearchCV`: `params`, `param_lam`, `param_top`,
        `split0_test_score`, ..., `mean_test_score`, `std_test_score`, `rank_test_score`,
        `mean_fit_time`; `degenerate`, where weights of zero are optimal on some fold; and by
        default `joint_test_score` and `mean_average_precision`, which then make the ranks.
    members_ : list of dict
        The pairs whose directions make the average; with "best" the one pair.
    coef_, intercept_, threshold_, classes_, n_iter_, n_features_in_
        As `TopPush`. An average has length 1, and its threshold is that of `top_`.
    solution_ : Solution
        As `TopPush`; only with "best".
    """

    lam_: float
    top_: float
    lams_: Array

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "lams": [None, "array-like"],
        "tops": [None, "array-like"],
        "loss": [StrOptions(LOSSES.keys())],
        "scoring": [None, str, callable],
        "combine": [StrOptions({"best", "average"})],
        "cv": ["cv_object", HasMethods(["split"])],
        "tol": [None, Interval(Real, 0, None, closed="neither")],
        "n_threads": [None, Interval(Integral, 1, None, closed="left")],
        "device": [None, str],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        lams: Sequence[float] | None = None,
        *,
        tops: Sequence[float | str] | None = None,
        loss: str = "truncated_quadratic",
        scoring: str | Any | None = None,
        combine: str = "best",
        cv: Any = 5,
        tol: float | None = None,
        n_threads: int | None = None,
        device: str | None = None,
        verbose: int = 0,
    ) -> None:
        self.lams = lams
        self.tops = tops
        self.loss = loss
        self.scoring = scoring
        self.combine = combine
        self.cv = cv
        self.tol = tol
        self.n_threads = n_threads
        self.device = device
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Matrix, y: Labels, sample_weight: Any | None = None) -> Self:
        """Choose lam and top by cross-validation, then fit all rows.

        Parameters
        ----------
        X, y, sample_weight
            As for `TopPush.fit`; the weights enter the fits, and the measures of
            `toppush.metrics`.
        """
        self._check_callbacks()
        with unchanged_on_failure(self):
            X, _, classes, positive, sample_weight = read_placed_rows(
                self, X, y, sample_weight, self.device
            )
            positive = positive if isinstance(X, Spread) else to_host(positive)
            rows = X, positive, sample_weight
            folds = self._choose(rows, classes)
            if self.combine == "average":
                self._average(folds, rows, classes)
            else:
                self._fit_best(rows, classes)
        return self

    def _check_callbacks(self) -> None:
        """Refuse callbacks that an average would never call."""
        if self.combine == "average" and getattr(self, "_skl_callbacks", None):
            raise ValueError(
                'combine="average" has no fit that callbacks could follow; take them off with '
                'set_callbacks(), or fit combine="best".'
            )

    @property
    def _fit_tol(self) -> float:
        if self.tol is not None:
            return self.tol
        return AVERAGED_TOL if self.combine == "average" else TOL

    def _fit_best(self, rows: Rows, classes: NDArray[Any]) -> None:
        """Fit the best pair on all rows."""
        final = TopPush(
            self.lam_,
            top=self.top_,
            loss=self.loss,
            tol=self._fit_tol,
            n_threads=self.n_threads,
            device=self.device,
            verbose=self.verbose,
        )
        if hasattr(self, "_skl_callbacks"):
            final.set_callbacks(*self._skl_callbacks)
        final.fit(*rows)
        self.members_ = [{"lam": self.lam_, "top": self.top_}]
        self._keep(final.solution_, classes)

    def _average(self, folds: list[Fold], rows: Rows, classes: NDArray[Any]) -> None:
        """Average the directions of the pairs that are as good as the best."""
        found = self.cv_results_
        table = np.array([found[f"split{fold}_test_score"] for fold in range(len(folds))])
        good = as_good_as_the_best(table)
        self.members_ = [pair for pair, ok in zip(found["params"], good, strict=True) if ok]
        weights = unit(sum(np.sum(fold.directions[good], axis=0) for fold in folds))  # type: ignore
        with open_design(*rows, n_threads=self.n_threads) as design:
            design.tell(Block.score, design.narrow(weights))
            k = count_top(self.top_, design.n_neg)
            self.threshold_ = TopPushProblem(design, LOSSES[self.loss], 1.0, k).threshold()
        self.classes_, self.coef_ = classes, weights[None, :]
        self.n_iter_ = sum(fold.n_iter for fold in folds)
        if hasattr(self, "solution_"):
            del self.solution_

    def _choose(self, rows: Rows, classes: NDArray[Any]) -> list[Fold]:
        """Set the grid, its scores on the folds, and the best pair; the folds' fits."""
        search = self._search(rows, classes)
        best, first_lams = search.run(self.lams_, search.tops), self.lams_
        while more := self._more(search, best, first_lams):
            best = search.run(*more)
        search.end()
        self.lams_ = np.unique([pair["lam"] for pair in search.pairs])[::-1]
        self.cv_results_ = search.table
        deciding = "mean_test_score" if self.scoring is not None else "joint_test_score"
        self.best_score_ = float(self.cv_results_[deciding][best])
        self.lam_, self.top_ = search.pairs[best]["lam"], search.pairs[best]["top"]
        if self.lams is None and self.lam_ <= LEAST_LAM * 1.01 * first_lams[0]:
            warnings.warn(
                f"The best lam is {self.lam_:.3g}, the least that the default grid grows to; "
                "smaller ones may rank better: give them as lams.",
                stacklevel=4,
            )
        return search.fitted

    def _more(
        self, search: "_Search", best: int, first_lams: Array
    ) -> tuple[Array, tuple[float, ...]] | None:
        """What a default grid grows by if its best pair is at an end of it."""
        if self.combine == "average":
            return None
        lam, top = search.pairs[best]["lam"], search.pairs[best]["top"]
        tried = [pair["lam"] for pair in search.pairs if pair["top"] is top]
        unsolved = bool(search.table["degenerate"][best])
        if self.lams is None and lam == tried[-1] and not unsolved:
            more = lams_below(np.array(tried), first_lams[0])
            if len(more):
                return more, (top,)
        if self.tops is not None:
            return None
        greatest = max(share for share in search.table["param_top"] if isinstance(share, float))
        further = [share for share in MORE_TOPS if share > greatest]
        wins = top == greatest or unsolved
        return (first_lams, (further[0],)) if wins and further else None

    def _search(self, rows: Rows, classes: NDArray[Any]) -> "_Search":
        """The folds with what is to be tried on them; sets the first lams."""
        X, positive, sample_weight = rows
        folds = self._folds(X, positive)
        if not folds:
            raise ValueError(f"cv={self.cv!r} makes no folds; give at least one.")
        average, tol = self.combine == "average", self._fit_tol
        with open_design(X, positive, sample_weight, n_threads=self.n_threads) as design:
            require_both(design, classes)
            n_lams = N_AVERAGED_LAMS if average else N_LAMS
            self.lams_ = read_lams(self.lams, design, self.loss, n_lams)
            default = AVERAGED_TOPS if average else TOPS
            given = default if self.tops is None else self.tops
            tops = read_tops(given, design, self.loss, self.lams_, tol)
            tops = tuple(top for top in tops if fits(top, design.n_neg // 2))
        if not tops or not len(self.lams_):
            raise ValueError(
                f"the grid is empty: lams={self.lams!r}, tops={self.tops!r} for "
                f"{design.n_neg} negatives; give at least one of each that fits the folds."
            )
        threads = default_threads() if self.n_threads is None else self.n_threads
        workers = max(1, min(threads, len(folds), design.n_entries // ENTRIES_PER_FOLD))
        heads = None if self.scoring is not None else first_negatives(design.n_neg)
        return _Search(
            rows,
            folds,
            tops,
            loss=self.loss,
            tol=tol,
            measure=self._measure(classes, heads, isinstance(X, Spread)),
            heads=heads,
            directions=average,
            workers=1 if isinstance(X, Placed) else workers,
            tally=Tally(0) if self.verbose else None,
        )

    def _folds(self, X: Matrix, positive: Any) -> list[tuple[Any, Any]]:
        """Rows that each fold trains on and holds out."""
        if not isinstance(X, Spread):
            given = np.empty(len(positive)) if isinstance(X, Placed) else X
            return list(check_cv(self.cv, positive, classifier=True).split(given, positive))
        if not isinstance(self.cv, Integral):
            raise ValueError(
                f"cv={self.cv!r} would need all labels in one place; for a Dask collection give "
                "the number of folds."
            )
        if not (self.scoring is None or self.scoring in metrics.METRICS):
            raise ValueError(
                f"scoring={self.scoring!r} would need all scores in one place; for a Dask "
                f"collection leave it out or name one of {sorted(metrics.METRICS)}."
            )
        return X.folds(positive, int(self.cv))

    def _measure(
        self, classes: NDArray[Any], heads: float | None, spread: bool
    ) -> Callable[..., Any]:
        """What is kept of the held-out rows of a fold: a score, or what the default rule needs."""
        if heads is None:
            return held_out_scorer(self.scoring, classes)
        if spread:
            return held_out_scorer("average_precision", classes)
        return partial(Held.of, n_false=heads)


@dataclass
class _Search:
    """The folds, and what was found on them for the pairs that were tried so far."""

    rows: Rows
    folds: list[tuple[Any, Any]]
    tops: tuple[float, ...]
    loss: str
    tol: float
    measure: Callable[..., Any]
    heads: float | None
    directions: bool
    workers: int
    tally: Tally | None
    pairs: list[dict[str, Any]] = field(default_factory=list)
    held: list[list[Any]] = field(default_factory=list)
    fitted: list[Fold] = field(default_factory=list)
    table: dict[str, Any] = field(default_factory=dict)

    def run(self, lams: Array, tops: tuple[float, ...]) -> int:
        """Try more pairs; the index of the best of all so far."""
        self.pairs += [{"lam": float(lam), "top": top} for top in tops for lam in lams]
        self._check_memory()
        if self.tally is not None:
            self.tally.total += len(self.folds) * len(tops) * len(lams)
        run = partial(self._run_fold, grid=(lams, tops, self.loss, self.tol))
        with one_blas_thread():
            found = in_threads(run, self.folds, self.workers)
        if self.held:
            held = zip(self.held, found, strict=True)
            self.held = [[*before, *now] for before, (now, _) in held]
            fitted = zip(self.fitted, found, strict=True)
            self.fitted = [before.joined(now) for before, (_, now) in fitted]
        else:
            self.held, self.fitted = [held for held, _ in found], [fold for _, fold in found]
        degenerate = np.array([fold.degenerate for fold in self.fitted])
        seconds = [fold.seconds for fold in self.fitted]
        self.table = results(self.pairs, self.held, degenerate, seconds)
        return int(np.argmin(self.table["rank_test_score"]))

    def end(self) -> None:
        """Let the line that counts the fits stay."""
        if self.tally is not None:
            self.tally.close()

    def _run_fold(self, fold: tuple[Any, Any], grid: tuple[Any, ...]) -> tuple[list[Any], Fold]:
        (X, positive, sample_weight), (_, test) = self.rows, fold
        done = (lambda: None) if self.tally is None else self.tally
        how: dict[str, Any] = {"directions": self.directions, "done": done}
        if isinstance(X, Spread):
            return measure_spread(*self.rows, fold, grid, self.measure, self.heads, **how)
        fitted = fit_fold(*self.rows, fold, *grid, **how)
        weight = None if sample_weight is None else sample_weight[test]
        held = [self.measure(positive[test], one, weight) for one in fitted.scores]
        return held, fitted._replace(scores=np.empty(0))

    def _check_memory(self) -> None:
        """Refuse an average whose members do not fit into memory."""
        n_entries = len(self.folds) * len(self.pairs) * self.rows[0].shape[1]
        if self.directions and n_entries > DIRECTION_ENTRIES:
            raise ValueError(
                f'combine="average" would hold {n_entries:,} weights at once, more than '
                f'{DIRECTION_ENTRIES:,}; give fewer lams or tops, or combine="best".'
            )


def read_tops(
    tops: Sequence[float | str], design: Design, loss: str, lams: Array, tol: float
) -> tuple[float, ...]:
    """The tops, each a count or a share; "auto" becomes the share that it finds.

    Whether weights of zero are optimal does not depend on lam; what beats them shows best at the
    least one.
    """
    for top in tops:
        count = isinstance(top, Integral) and not isinstance(top, bool) and int(top) >= 1
        share = not isinstance(top, (Integral, str)) and isinstance(top, Real) and 0 < top <= 1
        if not (count or share or top == "auto"):
            raise ValueError(
                f"tops holds {top!r}; each must be a count of at least 1, a share above 0 and at "
                'most 1.0, or "auto".'
            )
    found: list[Any] = list(tops)
    if "auto" in found and len(lams):
        problem = TopPushProblem(design, LOSSES[loss], float(lams[-1]))
        k = automatic_top(problem, tol=max(tol, AUTO_TOL))
        found[found.index("auto")] = (k - 0.5) / design.n_neg  # rounds up to k
    return tuple(found)


def fits(top: float, n_neg: int) -> bool:
    """Whether `top` is a share, or a count of at most so many negatives."""
    return not isinstance(top, Integral) or int(top) <= n_neg
