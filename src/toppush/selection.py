"""Whole grids of lam and top: the path on some rows, and the choice by cross-validation."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import _fit_context
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from toppush import metrics
from toppush.arrays import Array, to_host
from toppush.designs import Block, Design, Placed, Spread, open_design, score, some_rows
from toppush.designs.local import default_threads, one_blas_thread
from toppush.estimators import (
    Labels,
    LinearRanker,
    Matrix,
    TopPush,
    read_placed_rows,
    require_both,
    unchanged_on_failure,
)
from toppush.heads import Head, first_negatives
from toppush.losses import LOSSES
from toppush.problems import TopPushProblem, count_top
from toppush.solutions import Solution
from toppush.solvers import solve
from toppush.solvers.band import mean_difference
from toppush.threads import in_threads

N_LAMS, N_AVERAGED_LAMS, LAM_RANGE = 9, 5, 1e-4
"""An average needs no fine grid: half the lams, half the time."""
FIRST_GAIN = 0.01
"""At the greatest lam, no weights beat zero by more than this share of the objective."""
TOPS = (1, 0.001, 0.01, 0.1)
FOLD_TOL = 100.0
"""How much coarser the folds' fits are: 1.4 to 1.7 times as fast as with 10, as good a choice."""
DIRECTION_ENTRIES = 1 << 28
"""The most weights of fold fits that an average holds: 2 GiB."""
ENTRIES_PER_FOLD = 1 << 18
"""Below this many stored entries folds at the same time only wait for each other."""


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
    tops: Sequence[float] = (1,),
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
        Counts or shares of the negatives.
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
        return follow(design, read_lams(lams, design, loss), read_tops(tops), loss, tol)


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


def follow(design: Design, lams: Array, tops: tuple[float, ...], loss: str, tol: float) -> Path:
    """The path on a design: down the lams for each top, from the lam above."""
    rows = []
    for top in tops:
        k, start, row = count_top(top, design.n_neg), None, []
        for lam in lams:
            problem = TopPushProblem(design, LOSSES[loss], float(lam), k)
            start = solve(problem, solver="newton", tol=tol, max_iter=1000, start=start)
            row.append(start)
        rows.append(tuple(row))
    return Path(lams, tops, tuple(rows))


class Fold(NamedTuple):
    """What the fits on a fold's training rows give.

    Attributes
    ----------
    scores : array of shape (n_tops * n_lams, n_test)
        Of the held-out rows, less the threshold of the fit, so that 0 means as high as its top.
    directions : array of shape (n_tops * n_lams, n_features), or None
        The weights with length 1, if they are wanted.
    n_iter : int
    seconds : float
    """

    scores: Array
    directions: Array | None
    n_iter: int
    seconds: float


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
) -> Fold:
    """Fit the whole grid to a fold's training rows and score the others.

    Rows that the fold does not train on stay where they are and weigh nothing, so no fold
    copies X.
    """
    began = time.perf_counter()
    train, test = fold
    weight = np.zeros(len(positive))
    weight[train] = 1.0 if sample_weight is None else sample_weight[train]
    with open_design(X, positive, weight, n_threads=1) as design:
        require_both(design, np.array([False, True]))
        path = follow(design, lams, tops, loss, tol)
    seconds = time.perf_counter() - began
    rows, fits = some_rows(X, test), [one for row in path.solutions for one in row]
    return Fold(
        np.asarray([score(rows, one.weights) - one.threshold for one in fits]),
        np.array([unit(one.weights) for one in fits]) if directions else None,
        sum(one.n_iter for one in fits),
        seconds,
    )


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
) -> tuple[list[Any], Fold]:
    """Measures of the held-out rows of a fold for the whole grid, and the fits without scores.

    Rows over many machines are masked where they are. The measures are `measure` of lazy scores
    or, down to the `n_false`-th negative, the heads of the list, joined from those of its parts.
    """
    began, (train, test) = time.perf_counter(), fold
    weight = train * (1.0 if sample_weight is None else sample_weight)
    with open_design(X, positive, weight) as design:
        require_both(design, np.array([False, True]))
        fits = [one for row in follow(design, *grid).solutions for one in row]
    fitted = Fold(
        np.empty(0),
        np.array([unit(one.weights) for one in fits]) if directions else None,
        sum(one.n_iter for one in fits),
        time.perf_counter() - began,
    )
    held = X.subset(test)
    truth, weight = positive[test], None if sample_weight is None else sample_weight[test]
    if n_false is None:
        lists = (held.scores(one.weights) - one.threshold for one in fits)
        return [measure(truth, scores, weight) for scores in lists], fitted
    points = [(one.weights, one.threshold) for one in fits]
    parts = held.of_parts(_heads, [truth, weight], points, n_false)
    return [Head.join(heads) for heads in zip(*parts, strict=True)], fitted


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
    best pair is fitted on all rows, with a certificate; or, with `combine="average"`, the
    directions of all pairs that the folds cannot tell from the best are averaged.

    Parameters
    ----------
    lams : sequence of float, optional
        By default nine values chosen from the data, see `toppush_path`; five for an average.
    tops : sequence of int or float, default=(1, 0.001, 0.01, 0.1)
        Counts or shares of the negatives. Counts above a fold's negatives are left out.
    loss : {"truncated_quadratic", "logistic", "exponential"}
    scoring : str or callable, optional
        A name of `toppush.metrics` or of scikit-learn, or a scorer; the pair with the best mean
        over the folds is chosen. By default the held-out rows of all folds make one list, scored
        relative to the fold's top, and the pair with the best mean recall before the first 0.1 % of
        its negatives is chosen. That stands for the very top, and is less noisy than the paper's
        rule, "positives_at_top". Where more of the list matters, "ndcg" or "average_precision" rank
        it better; docs/evidence.md compares the rules.
    combine : {"best", "average"}, default="best"
        "best" fits the best pair on all rows. "average" takes the mean direction of the folds' fits
        over every pair whose score is within two standard errors of the best (of the difference
        over the folds). With few rows at the top the choice of one pair is mostly luck and the mean
        ranks clearly better; with many it is about as good, see docs/results.md. An average solves
        no one problem, so it has no certificate.
    cv : int, splitter or iterable, default=5
        Folds, stratified by class if an int. For a Dask collection an int, and its rows should
        be persisted: the folds are masks of them.
    tol : float, default=1e-4
        Relative duality gap of the final fit; the folds' fits go to a hundred times that.
    n_threads : int, optional
        Folds at a time, and threads of the final fit.
    device : str, optional
        As for `TopPush`; the folds then run one after another.
    verbose : int, default=0
        1 shows a line that follows the final fit.

    Attributes
    ----------
    lam_, top_
        The chosen pair.
    best_score_ : float
        Its mean score over the folds; by default its score on the joint list.
    lams_ : array
        The grid of lam.
    cv_results_ : dict of arrays
        As scikit-learn's `GridSearchCV`: `params`, `param_lam`, `param_top`,
        `split0_test_score`, ..., `mean_test_score`, `std_test_score`, `rank_test_score`,
        `mean_fit_time`; and by default `joint_test_score`, which then makes the ranks.
    members_ : list of dict
        The pairs whose directions make the average; with "best" the one pair.
    coef_, intercept_, threshold_, classes_, n_iter_, n_features_in_
        As `TopPush`. An average has length 1, and its threshold is that of `top_`.
    solution_ : Solution
        As `TopPush`; only with "best".
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "lams": [None, "array-like"],
        "tops": ["array-like"],
        "loss": [StrOptions(set(LOSSES))],
        "scoring": [None, str, callable],
        "combine": [StrOptions({"best", "average"})],
        "cv": ["cv_object", HasMethods(["split"])],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "n_threads": [None, Interval(Integral, 1, None, closed="left")],
        "device": [None, str],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        lams: Sequence[float] | None = None,
        *,
        tops: Sequence[float] = TOPS,
        loss: str = "truncated_quadratic",
        scoring: str | Any | None = None,
        combine: str = "best",
        cv: Any = 5,
        tol: float = 1e-4,
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
        with unchanged_on_failure(self):
            X, _, classes, positive, sample_weight = read_placed_rows(
                self, X, y, sample_weight, self.device
            )
            positive = positive if isinstance(X, Spread) else to_host(positive)
            folds = self._choose(X, positive, sample_weight, classes)
            if self.combine == "average":
                self._average(folds, X, positive, sample_weight, classes)
            else:
                self._fit_best(X, positive, sample_weight, classes)
        return self

    def _fit_best(
        self,
        X: Matrix,
        positive: NDArray[np.bool_],
        sample_weight: Array | None,
        classes: NDArray[Any],
    ) -> None:
        """Fit the best pair on all rows."""
        final = TopPush(
            self.lam_,
            top=self.top_,
            loss=self.loss,
            tol=self.tol,
            n_threads=self.n_threads,
            device=self.device,
            verbose=self.verbose,
        )
        if hasattr(self, "_skl_callbacks"):
            final.set_callbacks(*self._skl_callbacks)
        final.fit(X, positive, sample_weight)
        self.members_ = [{"lam": self.lam_, "top": self.top_}]
        self._keep(final.solution_, classes)

    def _average(
        self,
        folds: list[Fold],
        X: Matrix,
        positive: NDArray[np.bool_],
        sample_weight: Array | None,
        classes: NDArray[Any],
    ) -> None:
        """Average the directions of the pairs that are as good as the best."""
        results = self.cv_results_
        table = np.array([results[f"split{fold}_test_score"] for fold in range(len(folds))])
        good = as_good_as_the_best(table)
        self.members_ = [pair for pair, ok in zip(results["params"], good, strict=True) if ok]
        weights = unit(sum(np.sum(fold.directions[good], axis=0) for fold in folds))  # type: ignore
        with open_design(X, positive, sample_weight, n_threads=self.n_threads) as design:
            design.tell(Block.score, design.narrow(weights))
            k = count_top(self.top_, design.n_neg)
            self.threshold_ = TopPushProblem(design, LOSSES[self.loss], 1.0, k).threshold()
        self.classes_, self.coef_ = classes, weights[None, :]
        self.n_iter_ = sum(fold.n_iter for fold in folds)
        if hasattr(self, "solution_"):
            del self.solution_

    def _choose(
        self,
        X: Matrix,
        positive: NDArray[np.bool_],
        sample_weight: Array | None,
        classes: NDArray[Any],
    ) -> list[Fold]:
        """Set the grid, its scores on the folds, and the best pair; the folds' fits."""
        folds = self._folds(X, positive)
        if not folds:
            raise ValueError(f"cv={self.cv!r} makes no folds; give at least one.")
        with open_design(X, positive, sample_weight, n_threads=self.n_threads) as design:
            require_both(design, classes)
            n_lams = N_AVERAGED_LAMS if self.combine == "average" else N_LAMS
            self.lams_ = read_lams(self.lams, design, self.loss, n_lams)
            tops = tuple(top for top in read_tops(self.tops) if fits(top, design.n_neg // 2))
        if not tops or not len(self.lams_):
            raise ValueError(
                f"the grid is empty: lams={self.lams!r}, tops={self.tops!r} for "
                f"{design.n_neg} negatives; give at least one of each that fits the folds."
            )

        measure, average = self._measure(classes, design.n_neg), self.combine == "average"
        heads = None if self.scoring is not None else first_negatives(design.n_neg)
        if average:
            self._check_memory(len(folds) * len(tops) * len(self.lams_) * X.shape[1])

        def run(fold: tuple[NDArray[Any], NDArray[Any]]) -> tuple[list[Any], Fold]:
            rows = X, positive, sample_weight, fold
            grid = self.lams_, tops, self.loss, FOLD_TOL * self.tol
            if isinstance(X, Spread):
                return measure_spread(*rows, grid, measure, heads, directions=average)
            fitted, test = fit_fold(*rows, *grid, directions=average), fold[1]
            weight = None if sample_weight is None else sample_weight[test]
            held = [measure(positive[test], one, weight) for one in fitted.scores]
            return held, fitted._replace(scores=np.empty(0))

        threads = default_threads() if self.n_threads is None else self.n_threads
        workers = max(1, min(threads, len(folds), design.n_entries // ENTRIES_PER_FOLD))
        workers = 1 if isinstance(X, Placed) else workers
        with one_blas_thread():
            found = in_threads(run, folds, workers)
        grid = [{"lam": float(lam), "top": top} for top in tops for lam in self.lams_]
        self.cv_results_ = _results(
            grid, [held for held, _ in found], [f.seconds for _, f in found]
        )
        best = int(np.argmin(self.cv_results_["rank_test_score"]))
        deciding = "mean_test_score" if self.scoring is not None else "joint_test_score"
        self.best_score_ = float(self.cv_results_[deciding][best])
        self.lam_, self.top_ = grid[best]["lam"], grid[best]["top"]
        return [fitted for _, fitted in found]

    def _check_memory(self, n_entries: int) -> None:
        """Refuse an average whose members do not fit into memory."""
        if n_entries > DIRECTION_ENTRIES:
            raise ValueError(
                f'combine="average" would hold {n_entries:,} weights at once, more than '
                f'{DIRECTION_ENTRIES:,}; give fewer lams or tops, or combine="best".'
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

    def _measure(self, classes: NDArray[Any], n_neg: int) -> Callable[..., Any]:
        """What is kept of the held-out rows of a fold: a score, or the head of their list."""
        if self.scoring is not None:
            return _held_out_scorer(self.scoring, classes)
        n_false = first_negatives(n_neg)
        return lambda y, scores, weight: Head.of(y, scores, weight, n_false)


def as_good_as_the_best(scores: Array) -> NDArray[np.bool_]:
    """Which columns are within two standard errors of the one with the best mean.

    The error is that of the mean over the folds of the difference between the two.

    Parameters
    ----------
    scores : array of shape (n_folds, n_pairs)
    """
    behind = scores[:, [np.argmax(np.round(scores.mean(axis=0), 12))]] - scores
    error = behind.std(axis=0, ddof=min(1, len(scores) - 1)) / np.sqrt(len(scores))
    good: NDArray[np.bool_] = np.round(behind.mean(axis=0), 12) <= 2.0 * error
    return good


def read_tops(tops: Sequence[float]) -> tuple[float, ...]:
    """The tops, each a count or a share."""
    for top in tops:
        count = isinstance(top, Integral) and not isinstance(top, bool) and int(top) >= 1
        share = not isinstance(top, (Integral, str)) and isinstance(top, Real) and 0 < top <= 1
        if not (count or share):
            raise ValueError(
                f"tops holds {top!r}; each must be a count of at least 1 or a share above 0 and "
                "at most 1.0."
            )
    return tuple(tops)


def fits(top: float, n_neg: int) -> bool:
    """Whether `top` is a share, or a count of at most so many negatives."""
    return not isinstance(top, Integral) or int(top) <= n_neg


HeldOutScore = Callable[[NDArray[np.bool_], Array, Array | None], float]


def _held_out_scorer(scoring: Any, classes: NDArray[Any]) -> HeldOutScore:
    """A function of labels, scores and weights from any way to name a measure."""
    if isinstance(scoring, str) and scoring in metrics.METRICS:
        measure = metrics.METRICS[scoring]
        metrics.scorer(scoring)  # says which parameters are missing
        sign = -1.0 if scoring.endswith("loss") else 1.0
        return lambda y, scores, weight: sign * measure(y, scores, sample_weight=weight)
    scorer = get_scorer(scoring) if isinstance(scoring, str) else scoring

    def by_scorer(y: NDArray[np.bool_], scores: Array, weight: Array | None) -> float:
        return float(scorer(_Scored(classes), scores[:, None], classes[y.astype(int)]))

    return by_scorer


class _Scored(LinearRanker):
    """Stands for a fitted ranker whose one feature is the score, so that scorers can ask it."""

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes_ = classes
        self.threshold_ = 0.0

    def decision_function(self, X: Matrix) -> Array:
        """The scores themselves."""
        return np.asarray(X[:, 0], np.float64)


def _results(
    grid: list[dict[str, Any]], held: list[list[Any]], seconds: list[float]
) -> dict[str, Any]:
    """Scores by fold and their mean; of heads also the score of the joint list, which decides."""
    joint, scores = {}, held
    if isinstance(held[0][0], Head):
        scores = [[head.recall() for head in heads] for heads in held]
        joint = {
            "joint_test_score": np.array(
                [Head.join(heads).recall() for heads in zip(*held, strict=True)]
            )
        }
    table = np.array(scores)
    mean = table.mean(axis=0)
    deciding = joint.get("joint_test_score", mean)
    return {
        "params": grid,
        "param_lam": np.array([point["lam"] for point in grid]),
        "param_top": np.array([point["top"] for point in grid], object),
        **{f"split{fold}_test_score": row for fold, row in enumerate(table)},
        "mean_test_score": mean,
        "std_test_score": table.std(axis=0),
        **joint,
        "rank_test_score": rankdata(-np.round(deciding, 12), method="min").astype(np.int32),
        "mean_fit_time": np.full(len(grid), np.mean(seconds) / len(grid)),
    }
