"""The form in which a solver sees the rows: as they are, or shifted and scaled, in float64.

A shift of all rows and a power of two change nothing in the problem, only the digits that its
sums lose. A sample of the rows tells whether they may stay as they are, which is fastest; a solve
that cannot prove its answer on them turns to the form that all rows ask for.
"""

import math
from dataclasses import replace
from typing import NamedTuple, TypeVar

from toppush.designs import UNSCALED, Block, Design, Scaling, precise, read_only
from toppush.designs.protocol import Records
from toppush.problem.objective import TopProblem
from toppush.types import Array

Problem = TypeVar("Problem", bound=TopProblem)

SAMPLE = 64
PLAIN_SIZES = (1e-8, 1e8)
"""Greatest entries, least and most, with which rows may stay as they are."""
FAR, FAR_SINGLE = 1e3, 1e1
"""Spreads that the mean may lie from the origin: of float64 rows, and of float32 rows or where
digits count. Below that a shift costs digits: it is exact only for rows that share it."""
SQUARED = 1e100
"""Size up to which entries may be squared and added up."""
MOST_SIZE, MOST_RATIO = 960.0, 1400.0
"""Powers of two that the greatest entry may be from 1, and its square from lam."""
BALANCE = 1e100
"""Most that the entries' square may exceed lam, or fall below it, before they share the size."""


class Seen(NamedTuple):
    """How the solvers see a design's rows."""

    form: Scaling
    final: bool
    """Whether all rows were asked, not a sample."""
    double: bool
    """Whether they are float64 as they were given."""
    length: float = math.inf
    """A bound on the length of a row, if known."""


def seen(problem: TopProblem) -> Seen:
    """How the rows are seen; a sample of them decides at first."""
    known = problem.design.known.find(Seen)
    return _take(problem.design, _look(problem, SAMPLE)) if known is None else known


def refine(problem: TopProblem) -> bool:
    """Turn to the form that all rows ask for; False if they have it already."""
    if seen(problem).final:
        return False
    _take(problem.design, _look(problem, None))
    return True


def in_form(problem: Problem) -> Problem:
    """The same problem on the rows as they are seen: lam shrinks as weights grow."""
    scale = seen(problem).form.scale
    return replace(problem, lam=problem.lam * scale * scale)


def answer_in(form: Scaling, weights: Array, threshold: float) -> tuple[Array, float]:
    """Weights and threshold for the rows as they were given, from those in some form."""
    if form.centre is not None:
        threshold += float(form.centre @ weights)
    return weights if form.scale == 1.0 else form.scale * weights, threshold


def _take(design: Design, how: Seen) -> Seen:
    """Let the rows take a form; what was known of them in another one is forgotten."""
    design.known = Records()
    if how.final or not how.form.is_identity:
        design.apply(Block.rescale, how.form)
    return design.known.keep(how)


def _look(problem: TopProblem, n_sample: int | None) -> Seen:
    """The shift and scale that a sample of the rows needs, or that all rows can use."""
    parts = problem.design.each(moments, n_sample)
    size, final = max(part.size for part in parts), n_sample is None
    double = all(part.is_double for part in parts)
    if size == 0.0:
        return Seen(UNSCALED, final, double, 0.0)
    require_reach(size, problem.lam)
    shares = [part.size / size for part in parts]
    n_rows = sum(part.n_rows for part in parts)
    mean = sum(part.total * share for part, share in zip(parts, shares, strict=True)) / n_rows
    squares = sum(part.squares * share**2 for part, share in zip(parts, shares, strict=True))
    far = float(mean @ mean)
    spread = max(squares / n_rows - far, 0.0)
    shifted = far > (FAR if double and not final else FAR_SINGLE) ** 2 * spread
    scaled = final or not PLAIN_SIZES[0] <= size <= PLAIN_SIZES[1]
    if not (shifted or scaled):
        return Seen(UNSCALED, final, double, size * math.sqrt(problem.design.n_features))
    scale = _scale(size, problem.lam) if scaled else 1.0
    return Seen(Scaling(scale, scale * size * mean if shifted else None), final, double)


def require_reach(size: float, lam: float) -> None:
    """Refuse rows whose squares are too far from lam for float64, however they are scaled."""
    if not (abs(math.log2(size)) <= MOST_SIZE and abs(_ratio(size, lam)) <= MOST_RATIO):
        raise ValueError(
            f"the largest entry of X is {size:.3g} and lam is {lam:.3g}: their weights would be "
            "beyond float64. Multiply the columns by a power of ten, or correct entries that "
            "are not meant to be so far from 1."
        )


def _ratio(size: float, lam: float) -> float:
    """The power of two by which squared entries exceed lam."""
    return 2.0 * math.log2(size) - math.log2(lam)


def _scale(size: float, lam: float) -> float:
    """A power of two that brings entries near 1, or half of the way if lam is far from them."""
    ratio = _ratio(size, lam)
    excess = math.copysign(max(abs(ratio) - math.log2(BALANCE), 0.0), ratio) / 4.0
    return math.ldexp(1.0, round(excess - math.log2(size)))


class Moments(NamedTuple):
    """What some rows say of their place, in units of the greatest entry of all."""

    n_rows: int
    is_double: bool
    size: float
    total: Array
    """Sum of the rows; zero where they cannot be shifted, and so their squares."""
    squares: float


@read_only
def moments(block: Block, n_sample: int | None) -> Moments:
    """Of about so many of the block's rows, or of all."""
    given, size = block.original, block.original.largest()
    if size == 0.0 or not given.can_center:
        none = block.arrays.zeros(given.shape[1])
        return Moments(given.shape[0], given.is_double, size, none, 0.0)
    rows = given if n_sample is None else block.sample(n_sample)
    scale = 1.0 if 1.0 / SQUARED <= size <= SQUARED else _scale(size, 1.0)
    rows, by = precise(rows, Scaling(scale)), 1.0 / (size * scale)
    total = by * rows.combine(block.arrays.broadcast_to(1.0, rows.shape[0]))
    squares = by**2 * float(rows.squared_norms().sum())
    return Moments(rows.shape[0], given.is_double, size, total, squares)
