"""Accuracy at the top: positives above, negatives below the top-tau quantile of the scores.

    F(w) = 1/2 |w|^2 + C sum_neg (1 + w.x - q)_+ + C sum_pos (1 - w.x + q)_+,   q = q_tau(w)

is not convex, as q moves with w; with the quantile held at the score of row k it is: F_k. The
row at the quantile of w is some k, so min_k min_w F_k(w) bounds F from below. Boyd et al. (2012).
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, validate_data

from toppush.baselines.interior_point import Batch, Indices, ShiftedMachines
from toppush.baselines.pairs import BaselineRanker
from toppush.designs.local import default_threads
from toppush.estimators import DTYPES, Labels, Matrix, two_classes
from toppush.losses import Array
from toppush.solutions import Iteration, Solution, Status

EXACT_ROWS = 1000
"""`candidates="auto"` tries every row up to this many."""
N_CANDIDATES = 100
MAX_ENTRIES = 50_000_000
"""Of the dense copy of X; 0.37 GiB."""
BATCH_ENTRIES = 1 << 20
TIE = 1e-10
"""Scores this close, as a share of the largest, tie."""


class AccuracyAtTop(BaselineRanker):
    """Linear ranker that puts positives above, and negatives below, a quantile of the scores.

    Minimises 1/2 |w|^2 + C sum_i hinge of row i against q, where q is the top-`tau` quantile of
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
    n_threads : int, optional
        Batches at a time; by default all cores, or OMP_NUM_THREADS if set.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "tau": [None, Interval(Real, 0, 1, closed="neither")],
        "candidates": [StrOptions({"auto", "all"}), Interval(Integral, 1, None, closed="left")],
        "choose": [StrOptions({"quantile", "objective"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_threads": [None, Interval(Integral, 1, None, closed="left")],
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
        n_threads: int | None = None,
    ) -> None:
        self.C = C
        self.tau = tau
        self.candidates = candidates
        self.choose = choose
        self.tol = tol
        self.max_iter = max_iter
        self.n_threads = n_threads

    def _fit(self, X: Matrix, y: Labels, sample_weight: Any | None) -> Self:
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=DTYPES)
        classes, positive = two_classes(y)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = weight > 0.0
        for label, side in zip(classes, (~positive, positive), strict=True):
            if not np.any(side & kept):
                raise ValueError(
                    f"every row of class {label} has sample_weight 0, so y has one class left; "
                    "give some of them a weight."
                )
        basis = Basis.of(X[kept])
        sign, weight = np.where(positive[kept], 1.0, -1.0), weight[kept]
        machines = ShiftedMachines(basis.rows, sign, float(self.C) * weight)
        share = float(weight[sign > 0.0].sum() / weight.sum())
        quantile = Quantile(weight, share if self.tau is None else float(self.tau))
        threads = default_threads() if self.n_threads is None else self.n_threads
        n_candidates = self._n_candidates(sign.size)
        search = Search(machines, quantile, n_candidates, by_quantile=self.choose == "quantile")
        search.run(tol=self.tol, max_iter=self.max_iter, n_threads=threads)
        weights = basis.to_features(search.best.weights)
        offset = float(basis.center @ weights) if basis.center.size == weights.size else 0.0
        self.feasible_ = search.best.miss == 0.0
        return self._record(classes, search.solution(weights, offset))

    def _n_candidates(self, n_rows: int) -> int:
        if self.candidates == "auto":
            return n_rows if n_rows <= EXACT_ROWS else N_CANDIDATES
        return n_rows if self.candidates == "all" else min(int(self.candidates), n_rows)


@dataclass(frozen=True)
class Basis:
    """The rows in at most as many coordinates as there are rows, inner products unchanged."""

    rows: Array
    center: Array
    back: Array | None
    """Takes weights in these coordinates to weights of the features; None if they are those."""

    @classmethod
    def of(cls, X: Matrix) -> "Basis":
        """The features less their mean, which no problem sees, or an eigenbasis of X X'."""
        n_rows, n_features = X.shape
        n_entries = n_rows * min(n_rows, n_features)
        if n_entries > MAX_ENTRIES:
            raise ValueError(
                f"{n_rows} rows of {n_features} features need a dense copy of {n_entries} entries "
                f"({n_entries * 8 / 2**30:.2g} GiB), above the limit of {MAX_ENTRIES}; take a "
                "sample of the rows, or use TopPush with top=tau, which is linear in the rows."
            )
        if n_features <= n_rows:
            rows = safe_sparse_dot(X, np.eye(n_features), dense_output=True).astype(np.float64)
            center = rows.mean(axis=0)
            return cls(rows - center, center, None)
        gram = safe_sparse_dot(X, X.T, dense_output=True).astype(np.float64)
        values, vectors = np.linalg.eigh(gram)
        kept = values > values[-1] * n_rows * np.finfo(float).eps
        roots = np.sqrt(values[kept])
        back = safe_sparse_dot(X.T, vectors[:, kept] / roots, dense_output=True)
        return cls(vectors[:, kept] * roots, np.zeros(0), np.asarray(back, np.float64))

    def to_features(self, weights: Array) -> Array:
        """The same linear function on the features."""
        return weights if self.back is None else np.asarray(self.back @ weights)


class Standing(NamedTuple):
    """Where a row lies in a ranking."""

    miss: float
    """Weight of rows between it and the quantile; 0 if it is the quantile."""
    quantile: float


@dataclass(frozen=True)
class Quantile:
    """The top-tau quantile: the highest score with a share of at least tau at or above it."""

    weight: Array
    tau: float

    def value(self, scores: Array) -> float:
        """The quantile of these scores."""
        order = np.argsort(-scores, kind="stable")
        mass = np.cumsum(self.weight[order])
        return float(scores[order[np.searchsorted(mass, self._goal)]])

    def standing(self, scores: Array, row: int) -> Standing:
        """How far a row is from the quantile."""
        tie = TIE * float(np.max(np.abs(scores)))
        above = float(self.weight @ (scores > scores[row] + tie))
        at_least = float(self.weight @ (scores >= scores[row] - tie))
        miss = max(above - self._goal, self._goal - at_least, 0.0)
        if above >= self._goal:  # the rows above already make the share
            miss = max(miss, float(self.weight.min()))
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
class Search:
    """Problems tried so far, bounds below all of them, and the best solution."""

    machines: ShiftedMachines
    quantile: Quantile
    n_candidates: int
    by_quantile: bool = True
    history: list[Iteration] = field(default_factory=list)
    n_iter: int = 0
    unfinished: bool = False

    def __post_init__(self) -> None:
        n_rows = self.machines.sign.size
        self.bound = np.full(n_rows, -np.inf)
        self.open = np.ones(n_rows, bool)
        self.n_tried = 0
        mean = self.machines.cost * self.machines.sign @ self.machines.rows
        self.best = Chosen(-1, mean, np.inf, np.inf, 0.0)

    def run(self, *, tol: float, max_iter: int, n_threads: int) -> None:
        """Round after round, try the open rows nearest to the best weights' quantile."""
        began = time.perf_counter()
        with ThreadPoolExecutor(n_threads) as pool:
            while batches := self._next(n_threads):
                solved = pool.map(
                    lambda rows: self.machines.solve(rows, tol=tol, max_iter=max_iter), batches
                )
                for batch in solved:
                    self.take(batch, tol)
                lower, passes = float(self.bound.min()), float(self.n_iter)
                seconds = time.perf_counter() - began
                self.history.append(Iteration(self.best.objective, lower, passes, seconds))

    def _next(self, n_batches: int) -> list[Indices]:
        """The next batches of rows, a quarter of the candidates at most: they guide the rest."""
        if self.best.miss == 0.0 or not self.by_quantile:
            self.open &= self.bound < self.best.objective
        rows = np.flatnonzero(self.open)
        n_left = min(rows.size, self.n_candidates - self.n_tried)
        if n_left <= 0:
            return []
        scores = self.machines.rows @ self.best.weights
        distance = np.abs(scores[rows] - self.quantile.value(scores))
        largest = BATCH_ENTRIES // max(self.machines.rows.size, 1)
        size = max(1, min(64, largest, self.n_candidates // (4 * n_batches)))
        chosen = rows[np.argsort(distance, kind="stable")[: min(n_left, size * n_batches)]]
        return [chosen[start : start + size] for start in range(0, chosen.size, size)]

    def take(self, batch: Batch, tol: float) -> None:
        """Learn bounds from a batch, and keep its best solution."""
        self.open[batch.which] = False
        self.n_tried += batch.which.size
        self.n_iter += batch.n_iter
        self.unfinished |= bool(np.any(batch.upper - batch.lower > tol * batch.upper))
        bounds = self.machines.lower_for_all(batch.which, batch.duals)
        bounds[batch.which] = np.maximum(bounds[batch.which], batch.lower)
        np.maximum(self.bound, bounds, out=self.bound)
        self.consider(batch)

    def consider(self, batch: Batch) -> None:
        """Keep the best solution of a batch if it beats the best so far."""
        scores = self.machines.rows @ batch.weights.T
        for place, row in enumerate(batch.which):
            found = self._judge(int(row), batch.weights[place], scores[:, place])
            if self._rank(found) < self._rank(self.best):
                self.best = found

    def _rank(self, found: Chosen) -> tuple[float, float]:
        return (found.miss if self.by_quantile else 0.0), found.objective

    def _judge(self, row: int, weights: Array, scores: Array) -> Chosen:
        miss, quantile = self.quantile.standing(scores, row)
        sign, cost = self.machines.sign, self.machines.cost
        losses = np.maximum(1.0 - sign * (scores - quantile), 0.0)
        objective = 0.5 * float(weights @ weights) + float(cost @ losses)
        return Chosen(row, weights, miss, objective, quantile)

    def solution(self, weights: Array, offset: float) -> Solution:
        """The record, for weights of the features whose scores are higher by `offset`."""
        return Solution(
            weights=weights,
            threshold=self.best.quantile + offset,
            dual=np.empty(0),
            upper=self.best.objective,
            lower=float(self.bound.min()),
            n_iter=self.n_iter,
            status=Status.MAX_ITER if self.unfinished else Status.CONVERGED,
            history=tuple(self.history),
        )
