"""One solver for every convex risk that gives cuts: planes below it, kept and minimised over.

    minimise F(w) = ridge/2 |w|^2 + C R(w),    R(w) >= a_k.w + b_k for every cut k,  R >= 0

All values below are those of F/C = lam/2 |w|^2 + R with lam = ridge/C: they are of size 1 whatever
C. The model replaces R by the highest of its cuts. Its minimiser, found exactly through its dual (a
quadratic programme over the cuts' multipliers), proves a bound below the optimum. To ask there
next, as the plain method does, jumps about for large C. So the target is the minimiser of the
model plus a pull towards the best point so far, adapted until the target takes away a good part
of the gap in the model (the idea of level bundles, Lemarechal et al. 1995); the best point moves
towards it by a line search (OCAS, Franc and Sonnenburg 2008), and every point that the search
looks at leaves its cut in the model. Multipliers -> shares.

R is a function of the scores of all rows, of which it needs the order: each question gathers one
vector of row length. Everything else of row length stays in the blocks.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import daxpy
from scipy.linalg.lapack import dgetrf, dgetrs

from toppush.designs import Block, Design
from toppush.problem.solution import Solution, Status, proven_below
from toppush.solvers.driver import Standing, Watch, follow, solving
from toppush.types import Array

MAX_IDLE = 3
"""Iterations without a share after which a cut is dropped.

A fit of SVM-MAP to a fold of news20 at C = 10^4 takes 321 iterations and 12.2 s, and 348 and 18.5 s
where a cut may idle for 20: more cuts, longer sums, larger programmes.
"""
USUAL_CUTS = 100
"""Cuts that a model of a hard problem holds, and that a look at them goes through."""
MAX_LOOKS = 3
"""Points a line search looks at."""
FLAT = 0.1
"""A line search ends where the slope has fallen to this part of the slope at the target."""
BAND = 0.2, 0.6
"""What part of the gap the target may leave in the model before the pull doubles or halves.

OWPC of news20 at C = 1000 has a gap of 10 % after 250 iterations, and of 82 % without the pull.
"""
STRONGEST = 2.0**64
"""Limit of the pull, and of its inverse."""
EXACT = 1e-6
"""Relative gap below which there is no pull: the model's minimiser then is the exact answer."""
MAX_QUIET = 20
"""Iterations without any progress of the gap that end the solve: rounding is all that is left."""


class Cut(NamedTuple):
    """A plane below a risk, touching it at the scores it was asked at: offset + c.scores."""

    offset: float
    on_positives: Array
    on_negatives: Array


class Risk(Protocol):
    """A convex risk of the scores that is nowhere negative."""

    def cut(self, positives: Array, negatives: Array) -> Cut:
        """Value and subgradient at the scores of the positives and of the negatives."""


@dataclass(frozen=True)
class RiskProblem:
    """ridge/2 |w|^2 + C R(scores of w)."""

    design: Design
    risk: Risk
    C: float
    ridge: float = 1.0

    def at_zero(self) -> float:
        """F(0), where every score ties."""
        cut = self.risk.cut(np.zeros(self.design.n_pos), np.zeros(self.design.n_neg))
        return self.C * cut.offset


def cutting_plane(
    problem: RiskProblem, *, tol: float = 1e-3, max_iter: int = 1000, watch: Watch | None = None
) -> Solution:
    """Minimise until upper - lower <= tol * upper.

    Both bounds are proven: `upper` is the objective at the weights, `lower` the least value of
    the model. An iteration costs one product with X, and a question to the risk and a product
    with X' for each of the two or three points that its line search looks at. `Solution.dual`
    is empty: the dual variables belong to cuts, not to rows.
    """
    with solving(problem.design, watch) as journal:
        bundle = Bundle(problem, tol)
        status = follow(bundle, journal, max_iter=max_iter)
        found = bundle.solution(status, len(journal))
    return journal.settled(found)


@dataclass(frozen=True)
class _Look:
    """A point, the objective there and a subgradient of it."""

    weights: Array
    value: float
    gradient: Array


class Bundle:
    """The driver's side: the best point and the model; the blocks hold its rows' scores."""

    here: _Look

    def __init__(self, problem: RiskProblem, tol: float) -> None:
        signs = problem.design.gather(_signs)
        self.positives, self.negatives = np.flatnonzero(signs > 0.0), np.flatnonzero(signs < 0.0)
        self.problem, self.tol, self.n_rows = problem, tol, len(signs)
        self.model = _Model(problem.ridge / problem.C, _space(problem.design))
        self.bound, self.pull, self.n_quiet = 0.0, 1.0, 0

    @property
    def gap(self) -> float:
        """How far the best point can be from the optimum."""
        return self.here.value - self.bound

    def begin(self) -> None:
        """One step from zero, with the cut there and the one that says R >= 0."""
        zero = np.zeros(self.problem.design.n_features)
        self.problem.design.each(_begin)
        self.model.add(zero, np.zeros(self.n_rows), 0.0)
        self.here = self._look(zero, 0.0)
        self.advance()

    def standing(self) -> Standing:
        """The best point with the highest score of a negative, and the least value of the model."""
        C, top = self.problem.C, self.problem.design.max(_top_negative_here)[0]
        return C * self.here.value, C * self.bound, self.here.weights, top

    def advance(self) -> None:
        """Minimise the model, choose a target, and search the line that leads to it."""
        before = self.gap
        least, bound = self.model.minimise(self.here.weights)
        self.bound = max(self.bound, bound)
        target = self._pulled() if self.gap > EXACT * self.here.value else least
        self.problem.design.each(_aim, target)
        share, found = self._search_line(target)
        # At the end the two agree up to rounding; the model's minimiser is the exact one.
        if found.value <= self.here.value + 4 * np.finfo(float).eps * abs(self.here.value):
            self.problem.design.each(_advance, share)
            self.here = found
        self.n_quiet = 0 if self.gap < before else self.n_quiet + 1

    def ended(self) -> Status | None:
        """Whether the gap is closed, or has long been the same."""
        if self.gap <= self.tol * self.here.value:
            return Status.CONVERGED
        return Status.STALLED if self.n_quiet == MAX_QUIET else None

    def solution(self, status: Status, n_iter: int) -> Solution:
        """The record of the best point."""
        C, here, design = self.problem.C, self.here, self.problem.design
        lower, none = C * proven_below(here.value, self.bound), np.empty(0)
        design.each(Block.score, here.weights)
        top = design.max(_top_negative)[0]
        return Solution(here.weights, top, none, C * here.value, lower, n_iter, status)

    def _pulled(self) -> Array:
        """The model's minimiser under the pull, which adapts to the part of the gap it leaves."""
        target, value = self.model.minimise_near(self.here.weights, self.pull)
        left = (value - self.bound) / self.gap
        if not BAND[0] <= left <= BAND[1]:
            pull = self.pull * (2.0 if left < BAND[0] else 0.5)
            self.pull = min(max(pull, 1.0 / STRONGEST), STRONGEST)
        return target

    def _search_line(self, target: Array) -> tuple[float, _Look]:
        """The best of a few points on the way to the target, and how far along it lies."""
        way = target - self.here.weights
        best_share, best = 1.0, self._look(target, 1.0)
        low, high = (0.0, float(self.here.gradient @ way)), (1.0, float(best.gradient @ way))
        flat = FLAT * abs(high[1])
        for _ in range(MAX_LOOKS - 1):
            if high[1] <= 0.0 or high[0] - low[0] < 1e-4:
                break
            share = _between_slopes(low, high)
            look = self._look(self.here.weights + share * way, share)
            if look.value < best.value:
                best_share, best = share, look
            slope = float(look.gradient @ way)
            low, high = ((share, slope), high) if slope < 0.0 else (low, (share, slope))
            if abs(slope) <= flat:
                break
        return best_share, best

    def _look(self, weights: Array, share: float) -> _Look:
        """Ask the risk at the point a share of the way to the target, and keep the cut."""
        design = self.problem.design
        scores = design.gather(partial(_on_the_way, share=share))
        offset, on_positives, on_negatives = self.problem.risk.cut(
            scores[self.positives], scores[self.negatives]
        )
        coefficients = np.zeros(self.n_rows)
        coefficients[self.positives], coefficients[self.negatives] = on_positives, on_negatives
        plane = _combined(design, coefficients)
        self.model.add(plane, coefficients, offset)
        height = offset + float(plane @ weights)
        value = self.model.penalty(weights) + height
        return _Look(weights, value, self.model.lam * weights + plane)


def _between_slopes(low: tuple[float, float], high: tuple[float, float]) -> float:
    """Where the line through two slopes crosses zero, a tenth off either end at least."""
    (left, falling), (right, rising) = low, high
    part = falling / (falling - rising) if falling < 0.0 else 0.0
    return left + min(max(part, 0.1), 0.9) * (right - left)


class _Space(Protocol):
    """How cuts are kept: as vectors, whose products with weights those that face them give."""

    def kept(self, plane: Array, coefficients: Array) -> Array:
        """A cut, given by its plane and by the coefficients of the rows that it is the sum of."""

    def facing(self, weights: Array) -> Array:
        """The vector whose product with a cut that is kept is weights @ plane."""

    def whole(self, mix: Array) -> Array:
        """The plane of a sum of cuts that are kept."""


@dataclass(frozen=True)
class _ByColumns:
    """Cuts on the columns that some row uses.

    The sample of url uses 34,444 of 3.2 million: RankSVM peaks at 476 MB, and at 2.3 GB with
    whole cuts.
    """

    used: NDArray[np.bool_]

    def kept(self, plane: Array, coefficients: Array) -> Array:
        return plane[self.used]

    def facing(self, weights: Array) -> Array:
        return weights[self.used]

    def whole(self, mix: Array) -> Array:
        weights = np.zeros(len(self.used))
        weights[self.used] = mix
        return weights


@dataclass(frozen=True)
class _ByRows:
    """Cuts as coefficients of the rows: shorter where rows are fewer than columns.

    What faces weights is their scores, so every cut costs one more product with X, and every
    minimiser one with X'.
    """

    design: Design

    def kept(self, plane: Array, coefficients: Array) -> Array:
        return coefficients

    def facing(self, weights: Array) -> Array:
        return self.design.gather(_scores_of, weights)

    def whole(self, mix: Array) -> Array:
        return _combined(self.design, mix)


def _space(design: Design) -> _Space:
    """The space in which an iteration reads less: that goes twice through the cuts.

    By rows it takes about six products more, each of which reads an index with every entry.
    """
    used: NDArray[np.bool_] = np.asarray(design.sum(_random_mix) != 0.0)
    n_rows, n_entries = design.sum(_size)
    spared = 2.0 * USUAL_CUTS * (np.count_nonzero(used) - n_rows)
    return _ByRows(design) if spared > 6.0 * 1.5 * n_entries else _ByColumns(used)


@dataclass
class _Model:
    """The cuts, their products with each other, and their shares in the two minimisers."""

    lam: float
    space: _Space
    cuts: list[Array] = field(default_factory=list)
    new: list[Array] = field(default_factory=list)
    """What faces the cuts whose products are not known yet."""
    offsets: Array = field(default_factory=lambda: np.empty(0))
    gram: Array = field(default_factory=lambda: np.empty((0, 0)))
    heights: Array = field(default_factory=lambda: np.empty(0))
    """Products with the anchor."""
    shares: Array = field(default_factory=lambda: np.empty((2, 0)))
    """Those in the minimiser, and in the one under a pull."""
    idle: Array = field(default_factory=lambda: np.empty(0))

    def add(self, plane: Array, coefficients: Array, offset: float) -> None:
        """One more cut."""
        self.cuts.append(self.space.kept(plane, coefficients))
        self.new.append(self.space.facing(plane))
        self.offsets = np.append(self.offsets, offset)
        self.shares, self.idle = np.pad(self.shares, ((0, 0), (0, 1))), np.append(self.idle, 0.0)

    def _multiply(self, anchor: Array) -> None:
        """Products of the new cuts and of the anchor with all cuts, which are read once."""
        n_known, n_new = len(self.gram), len(self.new)
        facing = np.stack([*self.new, self.space.facing(anchor)])
        products = np.array([facing @ cut for cut in self.cuts])
        self.gram = np.pad(self.gram, (0, n_new))
        self.gram[:, n_known:], self.gram[n_known:] = products[:, :-1], products[:, :-1].T
        self.heights, self.new = products[:, -1], []

    def penalty(self, weights: Array) -> float:
        """lam/2 |w|^2."""
        return 0.5 * self.lam * float(weights @ weights)

    def minimise(self, anchor: Array) -> tuple[Array, float]:
        """Minimiser and least value of the model; cuts that had no share for long go.

        The anchor is that of `minimise_near`, whose products are made on the way.
        """
        self._multiply(anchor)
        self._keep(np.flatnonzero(self.idle < MAX_IDLE))
        shares = minimise_on_simplex(self.gram / self.lam, self.offsets, 1.0, self.shares[0])
        self.shares[0] = shares
        self.idle = np.where(shares > 0.0, 0.0, self.idle + 1.0)
        weights = self._mix(shares) / -self.lam
        return weights, float(shares @ self.offsets) - self.penalty(weights)

    def minimise_near(self, anchor: Array, pull: float) -> tuple[Array, float]:
        """Minimiser of the model + pull lam/2 |w - anchor|^2, and the model's value there."""
        stiff = 1.0 + pull
        lifted = self.offsets + pull / stiff * self.heights
        gram = self.gram / (self.lam * stiff)
        shares = minimise_on_simplex(gram, lifted, 1.0, self.shares[1])
        self.shares[1] = shares
        self.idle[shares > 0.0] = 0.0
        weights = (pull * anchor - self._mix(shares) / self.lam) / stiff
        return weights, self.penalty(weights) + float(np.max(lifted - gram @ shares))

    def _mix(self, shares: Array) -> Array:
        """The plane of the cuts by their shares."""
        total = np.zeros(len(self.cuts[0]))
        for k in np.flatnonzero(shares) if total.size else ():  # BLAS takes no empty vector
            total = daxpy(self.cuts[k], total, a=shares[k])  # in place
        return self.space.whole(total)

    def _keep(self, kept: NDArray[np.intp]) -> None:
        if len(kept) == len(self.cuts):
            return
        self.cuts = [self.cuts[k] for k in kept]
        self.gram = self.gram[np.ix_(kept, kept)]
        self.offsets, self.shares = self.offsets[kept], self.shares[:, kept]
        self.heights, self.idle = self.heights[kept], self.idle[kept]


def _combined(design: Design, coefficients: Array) -> Array:
    """X' times a coefficient for each row."""
    design.scatter(_receive, coefficients)
    plane: Array = design.sum(_combine)
    return plane


# What follows runs in the blocks; the vectors are over all rows of the block.


def _signs(block: Block) -> Array:
    return block.join(1.0, -1.0)


def _size(block: Block) -> tuple[float, float]:
    return block.rows.shape[0], block.rows.n_entries


def _random_mix(block: Block) -> Array:
    """Not zero in the columns that some row uses: random weights of the rows do not cancel."""
    return block.rows.combine(np.random.default_rng(0).random(block.rows.shape[0]))


class Part:
    """A block's scores at the best point and at the target, and the coefficients of a cut."""

    here: Array
    target: Array
    coefficients: Array


def _begin(block: Block) -> None:
    part = block.work.of(Part)
    part.here = part.target = np.zeros(block.rows.shape[0])


def _scores_of(block: Block, weights: Array) -> Array:
    return block.rows.scores(weights)


def _aim(block: Block, target: Array) -> None:
    block.work.of(Part).target = block.rows.scores(target)


def _on_the_way(block: Block, share: float) -> Array:
    """Scores at the point a share of the way from here to the target."""
    part = block.work.of(Part)
    if share == 1.0:
        return np.array(part.target)
    way = part.target - part.here
    way *= share
    way += part.here
    return np.asarray(way)


def _advance(block: Block, share: float) -> None:
    block.work.of(Part).here = _on_the_way(block, share)


def _receive(block: Block, coefficients: Array) -> None:
    block.work.of(Part).coefficients = coefficients


def _combine(block: Block) -> Array:
    return block.rows.combine(block.work.of(Part).coefficients)


def _top_negative_here(block: Block) -> tuple[float]:
    return (float(np.max(block.split(block.work.of(Part).here)[1], initial=-np.inf)),)


def _top_negative(block: Block) -> tuple[float]:
    return (float(np.max(block.scores[1], initial=-np.inf)),)


EPS = float(np.finfo(np.float64).eps)


def minimise_on_simplex(gram: Array, linear: Array, total: float, start: Array) -> Array:
    """Minimiser of 1/2 a'G a - q'a over a >= 0, sum a = total.

    Primal active set: solve with the entries in use free, walk towards that point until an entry
    would turn negative and drop it, and once all stay positive let in the entry with the
    steepest descent. The objective falls with every change of the set, so it ends; G may be
    singular. A round solves one linear system as large as the set.

    Parameters
    ----------
    gram : array of shape (k, k)
        G, positive semidefinite.
    linear : array of shape (k,)
    total : float
        Above zero.
    start : array of shape (k,)
        A point to begin at, such as the last minimiser; all zero if there is none.

    Returns
    -------
    array of shape (k,)
    """
    point = start * (total / start.sum()) if start.any() else _best_corner(gram, linear, total)
    used = [int(entry) for entry in np.flatnonzero(point)]
    for _ in range(20 * len(linear) + 100):
        free = _minimise_freely(gram[np.ix_(used, used)], linear[used], total)
        if free.min() > 0.0:
            point[used] = free
            entering = _steepest(gram, linear, point, used)
            if entering is None:
                break
            used.append(entering)
        else:
            point[used] = _walk(point[used], free)
            used = [entry for entry in used if point[entry] > 0.0]
    return np.asarray(point * (total / point.sum()))


def _best_corner(gram: Array, linear: Array, total: float) -> Array:
    corner = np.zeros(len(linear))
    corner[np.argmin(0.5 * total * np.diag(gram) - linear)] = total
    return corner


def _minimise_freely(gram: Array, linear: Array, total: float) -> Array:
    """Minimiser with sum total and signs free.

    A ridge at the level of rounding gives a singular matrix, and one that is lost beside the
    linear part, a far-away answer, whose direction is what counts; one step of refinement takes
    the ridge's error out of a regular one.
    """
    size = len(linear)
    wanted = linear - linear.max()  # the same for every point of this sum
    scale = max(float(np.trace(gram)) / size, EPS * -float(wanted.min()) / total) or 1.0
    matrix = np.ones((size + 1, size + 1))
    matrix[:size, :size], matrix[size, size] = gram / scale, 0.0
    wanted = np.append(wanted / scale, total)
    ridged = matrix.copy()
    ridged[np.arange(size), np.arange(size)] += 64 * EPS
    factors, swaps, _ = dgetrf(ridged)  # four times faster than an inverse of size 100
    answer = dgetrs(factors, swaps, wanted)[0]
    answer += dgetrs(factors, swaps, wanted - matrix @ answer)[0]
    return np.asarray(answer[:size])


def _steepest(gram: Array, linear: Array, point: Array, used: list[int]) -> int | None:
    """The unused entry that would lower the objective fastest, None if none would."""
    pull = gram @ point
    slope = pull - linear
    level = float(slope[used] @ point[used]) / float(point[used].sum())
    entering = int(np.argmin(slope))
    rounding = 8 * EPS * float(np.max(np.abs(pull) + np.abs(linear)))
    return entering if entering not in used and slope[entering] < level - rounding else None


def _walk(here: Array, there: Array) -> Array:
    """As far from here to there as no entry turns negative; the one that stops it becomes 0."""
    falling = np.flatnonzero(there <= 0.0)
    lengths = here[falling] / (here[falling] - there[falling] + np.finfo(float).tiny)
    point = here + lengths.min() * (there - here)
    point[falling[lengths <= lengths.min()]] = 0.0
    return np.asarray(np.maximum(point, 0.0))
