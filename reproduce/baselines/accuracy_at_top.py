"""Accuracy at the top: positives above, negatives below the top-tau quantile of the scores.

    F(w) = 1/2 |w|^2 + C sum_neg (1 + w.x - q)_+ + C sum_pos (1 - w.x + q)_+,   q = q_tau(w)

is not convex, as q moves with w; with the quantile held at the score of row k it is: F_k. The
row at the quantile of w is some k, so min_k min_w F_k(w) bounds F from below. Boyd et al. (2012).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions

from reproduce.baselines.interior_point import Batch, Remembered, ShiftedMachines
from toppush.baselines.ranker import COUNT, POSITIVE, SHARED, Constraints, Task, WeightedRanker
from toppush.designs.rows import ExactRows
from toppush.problem.solution import Solution, Status, safe_lower_bound
from toppush.solvers.driver import Callback, History
from toppush.system.threads import in_threads
from toppush.types import Array, Labels, Matrix, Where

EXACT_ROWS = 1000
"""`candidates="auto"` tries every row up to this many."""
N_CANDIDATES = 100
MAX_ENTRIES = 50_000_000
"""Of the dense copy of X; 0.37 GiB."""
BATCH_ENTRIES = 1 << 20
TIE = 1e-10
"""Scores this close, as a share of the largest, tie."""


class AccuracyAtTop(WeightedRanker):
    """Linear ranker that puts positives above, and negatives below, a quantile of the scores.

    Minimises ``1/2 |w|^2 + C sum_i hinge of row i against q``, where q is the top-`tau` quantile of
    the scores of all rows: one convex problem for each row whose score may be q. Of the problems
    whose solution has that row at the quantile, the one of least objective is taken; if there is
    none, the solution whose row is nearest to the quantile (Boyd et al. 2012). Or, of all
    solutions, the one whose own quantile gives the least objective: `choose="objective"`.

    The problems are solved in batches by interior points; the duals of those solved bound all
    others from below, and a problem that cannot beat the best is skipped. A problem takes about
    ten iterations of O(N r^2) for N rows of r = min(N, d) features, and all N of them O(N^2 r^2).

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses.
    tau : float, optional
        Share of the rows at the top, between 0 and 1; by default the share of positives.
    candidates : {"auto", "all"} or int, default="auto"
        How many rows may be the quantile: "all" is exact; a number tries those nearest to the
        quantile of the best weights so far. "auto" is "all" up to 1000 rows, then 100.
    choose : {"quantile", "objective"}, default="quantile"
        Which solution to take, as said above. The published rule first looks at the quantile.
        On the first 512 rows of diabetes (C=1, tau the positives' share) it ends at an objective
        of 335, with AP .85, where "objective" finds 302, with AP .87.
    tol : float, default=1e-4
        Relative duality gap of each problem.
    max_iter : int, default=100
        Interior-point iterations of each problem.
    n_jobs : int, optional
        Batches at a time; by default all cores, or OMP_NUM_THREADS if set.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
    threshold_ : float
        The top-tau quantile of the training scores. Its own row ties with it, so `predict` calls
        one row less than a share of tau positive.
    feasible_ : bool
        Whether the chosen problem's row lies at the quantile.
    classes_ : array of shape (2,)
        The second class is the positive one.
    n_iter_ : int
        Interior-point iterations of all problems together.
    solution_ : Solution
        `upper` is F(w) with the quantile of w itself and `lower` bounds F from below over all w
        and every row, tried or not; between the two lies what the relaxation leaves open, so the
        gap does not close. `dual` is empty.

    Notes
    -----
    `sample_weight` scales a row's C and its share in the quantile: a row of weight 2 counts as
    two rows. X is copied into a dense array of N x min(N, d).

    References
    ----------
    S. Boyd, C. Cortes, M. Mohri, A. Radovanovic. Accuracy at the Top. NIPS 2012.
    """

    feasible_: bool

    _remedy = "Raise C."
    _remembered: Remembered | None = None
    """Problems that fits with other taus solved."""
    _parameter_constraints: ClassVar[Constraints] = {
        **SHARED,
        "C": POSITIVE,
        "tau": [None, Interval(Real, 0, 1, closed="neither")],
        "candidates": [StrOptions({"auto", "all"}), *COUNT],
        "choose": [StrOptions({"quantile", "objective"})],
        "tol": POSITIVE,
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        tau: float | None = None,
        candidates: str | int = "auto",
        choose: str = "quantile",
        tol: float = 1e-4,
        max_iter: int = 100,
        n_jobs: int | None = None,
        positive: object = None,
    ) -> None:
        self.C, self.tau, self.candidates, self.choose = C, tau, candidates, choose
        self.tol, self.max_iter, self.n_jobs = tol, max_iter, n_jobs
        self.positive = positive

    def fit_taus(
        self,
        X: Matrix,
        y: Labels,
        taus: Sequence[float],
        sample_weight: ArrayLike | None = None,
    ) -> list[Self]:
        """Rankers for several taus, as if each were fitted alone.

        The problems of the rows are the same for every tau and are solved once, which takes most
        of the time; their solutions are held meanwhile, up to N^2 numbers for N rows.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        taus : sequence of float

        Returns
        -------
        list of AccuracyAtTop
            One for each tau; this ranker stays as it is.
        """
        remembered, rankers = Remembered(), []
        for tau in taus:
            ranker = clone(self).set_params(tau=tau)
            ranker._remembered = remembered
            rankers.append(ranker.fit(X, y, sample_weight))
            del ranker._remembered
        return rankers

    def _solve(self, task: Task) -> tuple[Solution, float]:
        kept = np.flatnonzero(task.row_weights)
        basis = Basis.of(task.rows.subset(kept).exact(), task.scaling.scale)
        sign, weight = np.where(task.training.positive[kept], 1.0, -1.0), task.row_weights[kept]
        machines = ShiftedMachines(basis.rows, sign, float(self.C) * weight)
        share = float(weight[sign > 0.0].sum() / weight.sum())
        quantile = Quantile(weight, share if self.tau is None else float(self.tau))
        n_candidates = self._n_candidates(sign.size)
        search = QuantileSearch(
            machines, quantile, n_candidates, by_quantile=self.choose == "quantile"
        )
        known = self._remembered
        solve = machines.solve if known is None else partial(known.solve, machines)
        solution = search.run(
            basis,
            partial(solve, max_iter=self.max_iter),
            tol=self.tol,
            n_jobs=task.design.n_jobs,
            callback=task.callback,
        )
        self.feasible_ = search.best.miss == 0.0
        weights = task.design.narrow(basis.widen(solution.weights))
        return replace(solution, weights=weights), search.at_zero

    def _most_steps(self) -> None:
        """Open: a callback hears of each round of problems."""

    def _n_candidates(self, n_rows: int) -> int:
        if self.candidates == "auto":
            return n_rows if n_rows <= EXACT_ROWS else N_CANDIDATES
        return n_rows if self.candidates == "all" else min(int(self.candidates), n_rows)


@dataclass
class Basis:
    """The rows in at most as many coordinates as there are rows, inner products unchanged.

    The problems' penalty is fixed, so these are rows of the size that they were given in.
    """

    rows: Array
    center: Array
    """Of the features; the rows are those less it."""
    back: Array | None
    """Takes weights in these coordinates to weights of the features; None if they are those."""
    scale: float
    """The features are this times those that were given."""
    data_passes: float = 0.0

    @classmethod
    def of(cls, given: ExactRows, scale: float = 1.0) -> "Basis":
        """The features less their mean, which no problem sees, or an eigenbasis of X X'."""
        n_rows, n_features = given.shape
        n_entries = n_rows * min(n_rows, n_features)
        if n_entries > MAX_ENTRIES:
            raise ValueError(
                f"{n_rows} rows of {n_features} features need a dense copy of {n_entries} entries "
                f"({n_entries * 8 / 2**30:.2g} GiB), above the limit of {MAX_ENTRIES}; take a "
                "sample of the rows, or use TopPush with top=tau, which is linear in the rows."
            )
        if n_features <= n_rows:
            rows = given.dense()
            center = rows.mean(axis=0)
            return cls((rows - center) / scale, center, None, scale)
        values, vectors = np.linalg.eigh(given.inner_products(given))
        kept = values > values[-1] * n_rows * np.finfo(float).eps
        roots = np.sqrt(values[kept])
        back = given.combine(vectors[:, kept] / roots)
        return cls(vectors[:, kept] * (roots / scale), np.zeros(n_features), back, scale)

    def widen(self, weights: Array) -> Array:
        """The same linear function on the features."""
        return np.asarray((weights if self.back is None else self.back @ weights) / self.scale)

    def threshold(self, weights: Array, quantile: float) -> float:
        """The quantile among the scores of the features."""
        return quantile + float(self.center @ self.widen(weights))


class Standing(NamedTuple):
    """Where rows lie, each in a ranking of its own."""

    miss: Array
    """Weight of rows between it and the quantile; 0 if it is the quantile."""
    quantile: Array


@dataclass(frozen=True)
class Quantile:
    """The top-tau quantile: the highest score with a share of at least tau at or above it."""

    weight: Array
    tau: float

    def value(self, scores: Array) -> Array:
        """The quantile of each column of scores."""
        order = np.argsort(-scores, axis=0, kind="stable")
        place = np.sum(np.cumsum(self.weight[order], axis=0) < self._goal, axis=0)
        columns = np.arange(scores.shape[1])
        return np.asarray(scores[order[place, columns], columns])

    def standing(self, scores: Array, rows: Where) -> Standing:
        """How far row k is from the quantile of column k."""
        own, tie = scores[rows, np.arange(rows.size)], TIE * np.max(np.abs(scores), axis=0)
        above, at_least = self.weight @ (scores > own + tie), self.weight @ (scores >= own - tie)
        miss = np.maximum(above - self._goal, np.maximum(self._goal - at_least, 0.0))
        full = above >= self._goal  # the rows above already make the share
        miss[full] = np.maximum(miss[full], self.weight.min())
        return Standing(miss, self.value(scores))

    @property
    def _goal(self) -> float:
        total = float(self.weight.sum())
        return min(self.tau * total * (1.0 - 1e-12), total)


@dataclass(frozen=True)
class Chosen:
    """The weights of a problem, as the true problem sees them."""

    row: int
    weights: Array
    miss: float
    objective: float
    """F with the weights' own quantile."""
    quantile: float


@dataclass
class QuantileSearch:
    """Problems tried so far, bounds below all of them, and the best solution."""

    machines: ShiftedMachines
    quantile: Quantile
    n_candidates: int
    by_quantile: bool = True
    n_iter: int = 0
    unfinished: bool = False

    def __post_init__(self) -> None:
        n_rows = self.machines.sign.size
        self.bound = np.zeros(n_rows)  # no loss is negative
        self.open = np.ones(n_rows, bool)
        self.n_tried = 0
        mean = self.machines.cost * self.machines.sign @ self.machines.rows
        self.best = Chosen(-1, mean, np.inf, np.inf, 0.0)

    @property
    def at_zero(self) -> float:
        """F(0), where every score ties."""
        return float(self.machines.cost.sum())

    def run(
        self,
        basis: Basis,
        solve: Callable[..., Batch],
        *,
        tol: float,
        n_jobs: int,
        callback: Callback | None,
    ) -> Solution:
        """Round after round, try the open rows nearest to the best weights' quantile."""
        history, stopped = History(basis, callback), False
        while not stopped and (batches := self._next(n_jobs)):
            for batch in in_threads(partial(solve, tol=tol), batches, n_jobs):
                self.take(batch, tol)
            basis.data_passes = float(self.n_iter)
            latest = self._solution(basis, history)
            stopped = history.record(latest.upper, latest.lower, latest.weights, latest.threshold)
        found = self._solution(basis, history)
        return replace(found, status=Status.STOPPED) if stopped else found

    def _next(self, n_batches: int) -> list[Where]:
        """The next batches of rows, a quarter of the candidates at most: they guide the rest."""
        if self.best.miss == 0.0 or not self.by_quantile:
            self.open &= self.bound < self.best.objective
        rows = np.flatnonzero(self.open)
        n_left = min(rows.size, self.n_candidates - self.n_tried)
        if n_left <= 0:
            return []
        scores = self.machines.rows @ self.best.weights
        distance = np.abs(scores[rows] - self.quantile.value(scores[:, None]))
        largest = BATCH_ENTRIES // max(self.machines.rows.size, 1)
        size = max(1, min(64, largest, self.n_candidates // (4 * n_batches)))
        chosen = rows[np.argsort(distance, kind="stable")[: min(n_left, size * n_batches)]]
        return [chosen[start : start + size] for start in range(0, chosen.size, size)]

    def take(self, batch: Batch, tol: float) -> None:
        """Learn bounds from a batch, and keep its best solution."""
        self.open[batch.which] = False
        self.n_tried += batch.which.size
        self.n_iter += int(batch.n_iter.sum())
        self.unfinished |= not np.all(batch.upper - batch.lower <= tol * batch.upper)
        bounds = self.machines.lower_for_all(batch.which, batch.duals.T)
        bounds[batch.which] = np.fmax(bounds[batch.which], batch.lower)
        np.fmax(self.bound, bounds, out=self.bound)
        self.consider(batch.which, batch.weights)

    def consider(self, which: Where, weights: Array) -> None:
        """Keep the best of some problems' solutions if it beats the best so far."""
        scores = self.machines.rows @ weights.T
        miss, quantile = self.quantile.standing(scores, which)
        losses = np.maximum(1.0 - self.machines.sign[:, None] * (scores - quantile), 0.0)
        objective = 0.5 * np.sum(np.square(weights), axis=1) + self.machines.cost @ losses
        first = np.lexsort((objective, miss) if self.by_quantile else (objective,))[0]
        numbers = (float(of_all[first]) for of_all in (miss, objective, quantile))
        found = Chosen(int(which[first]), weights[first], *numbers)
        if self._rank(found) < self._rank(self.best):
            self.best = found

    def _rank(self, found: Chosen) -> tuple[float, float]:
        return (found.miss if self.by_quantile else 0.0), found.objective

    def _solution(self, basis: Basis, history: History) -> Solution:
        """The record of the best, or of weights of zero if no objective is a number."""
        best = self.best
        if not np.isfinite(best.objective):
            best = replace(best, weights=0.0 * best.weights, objective=self.at_zero)
        return Solution(
            weights=best.weights,
            threshold=basis.threshold(best.weights, best.quantile),
            dual=np.empty(0),
            upper=best.objective,
            lower=safe_lower_bound(best.objective, float(self.bound.min())),
            n_iter=self.n_iter,
            status=Status.MAX_ITER if self.unfinished else Status.CONVERGED,
            history=tuple(history.iterations),
        )
