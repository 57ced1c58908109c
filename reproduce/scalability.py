"""Time against rows on data with a signal: TopPush, the paper's method and LIBLINEAR.

One thread, CPU seconds. Both solvers of our problem go on until they have proven a relative gap
of `TOL`; the paper's does without its own rule, which proves nothing, and is stopped at a limit.
LIBLINEAR has its default penalty and tolerance; what it reached is computed afterwards, from the
dual of its own problem. A competitor whose fit took longer than the limit is not given more rows.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import entr, expit
from sklearn.linear_model import LogisticRegression

from reproduce.datasets import Dataset, made
from reproduce.figures import INK, LINES, Tell, new_axes
from reproduce.results import Result
from reproduce.tables import Table
from toppush import TopPush
from toppush.designs import LocalDesign
from toppush.metrics import average_precision
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem
from toppush.problem.solution import Iteration, Solution
from toppush.solvers import solve
from toppush.types import Array, Json, Mask, Matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "figure-scalability"
TOL, LOSS = 1e-3, LOSSES["truncated_quadratic"]
N_HELD_OUT = 20_000
N_SIZES, GROWTH = 6, 4
N_LAST = 3
"""Sizes of the second slope: at small ones set-up and caches show."""
MADE_COLUMNS, MADE_DRAWS = 10_000, 20
"""Of made-url: with its own 116 draws a row, 2 million rows would hold 200 million entries."""
OURS, PAPER, LIBLINEAR = "TopPush", "paper", "LIBLINEAR"
STYLES = {OURS: ("o-", LINES[0]), PAPER: ("s-", LINES[2]), LIBLINEAR: ("D-", LINES[1])}
LABELS = {
    OURS: f"TopPush, proven gap {TOL:g}",
    PAPER: f"the paper's method, proven gap {TOL:g}",
    LIBLINEAR: "LIBLINEAR, C = 1, its own tolerance",
}


class Reached(NamedTuple):
    """What a fit came to: CPU seconds, weights, and the bounds on its objective."""

    seconds: float
    weights: Array
    n_iter: int
    upper: float
    lower: float
    """Of the optimum."""
    at_zero: float
    """Objective of weights of zero."""


class Timing(NamedTuple):
    """A fit of some rows."""

    n_rows: int
    seconds: float
    n_iter: int
    gap: float
    """Relative: the share of the objective that is open."""
    objective: float
    """Over that of weights of zero."""
    ap: float
    """Average precision on held-out rows."""


@dataclass
class Line:
    """A method at one penalty, over growing rows."""

    method: str
    lam: float | None
    fit: Callable[[Matrix, Mask], Reached]
    timings: list[Timing] = field(default_factory=list)

    @property
    def finished(self) -> list[Timing]:
        """The fits that got where they were meant to; LIBLINEAR's end by its own rule."""
        return [one for one in self.timings if one.gap <= TOL or self.method == LIBLINEAR]

    def is_over(self, limit: float) -> bool:
        """Whether it is a competitor whose last fit took too long."""
        return self.method != OURS and bool(self.timings) and self.timings[-1].seconds > limit

    def slope(self, n_last: int = N_SIZES) -> str:
        """Of log time against log rows, over the last of the fits that finished."""
        points = [(one.n_rows, one.seconds) for one in self.finished[-n_last:]]
        if len(points) < 2:
            return "-"
        rows, seconds = np.log(points).T
        return f"{np.polyfit(rows, seconds, 1)[0]:.2f}"

    def cells(self) -> Iterator[list[str]]:
        """Its rows of the table."""
        lam = "-" if self.lam is None else f"{self.lam:g}"
        for one in self.timings:
            numbers = [f"{one.seconds:.3g}", f"{one.n_iter}", f"{one.gap:.1e}"]
            quality = [f"{one.objective:.3f}", f"{one.ap:.3f}"]
            stopped = "" if one in self.finished else "stopped"
            yield [f"{one.n_rows}", self.method, lam, *numbers, *quality, stopped]


def made_rows(largest: int, seed: int) -> Dataset:
    """Made data like url's with fewer columns and entries, and rows to hold out."""
    size = {"n_rows": largest + N_HELD_OUT, "n_columns": MADE_COLUMNS, "per_row": MADE_DRAWS}
    return Dataset("made-url", *made("made-url", **size, seed=seed), files=(), is_made=True)


def sizes_up_to(largest: int) -> list[int]:
    """Numbers of rows, each a fixed multiple of the one before."""
    return [largest // GROWTH**power for power in range(N_SIZES - 1, -1, -1)]


def scalability(
    dataset: Dataset,
    lams: Sequence[float],
    sizes: Sequence[int],
    *,
    seed: int,
    limit: float,
    tell: Tell,
) -> Result:
    """Training time against rows: TopPush and the paper's method for several lams, LIBLINEAR."""
    X, y = dataset.scaled(), dataset.y
    order = np.random.default_rng(seed).permutation(y.size)
    held = order[max(sizes) :][:N_HELD_OUT]
    held_out, lines = (X[held], y[held]), lines_of(lams, limit)
    parts = [np.sort(order[:n_rows]) for n_rows in sizes]
    for line in lines:
        timed(line, X[parts[0]], y[parts[0]], held_out)  # imports and caches
    for part in parts:
        some, labels = X[part], y[part]
        for line in lines:
            if not line.is_over(limit):
                tell(f"{part.size:,} rows, {line.method}, lam {line.lam or '-'}")
                line.timings.append(timed(line, some, labels, held_out))
    return _result(dataset, lines, sizes, seed, limit)


def lines_of(lams: Sequence[float], limit: float) -> list[Line]:
    """All that is timed."""
    ours = [Line(OURS, lam, partial(fit_ours, lam)) for lam in lams]
    paper = [Line(PAPER, lam, partial(fit_by_the_paper, lam, limit)) for lam in lams]
    return [*ours, *paper, Line(LIBLINEAR, None, fit_liblinear)]


def timed(line: Line, X: Matrix, y: Mask, held_out: tuple[Matrix, Mask]) -> Timing:
    """A fit, and what it came to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a fit that was stopped
        found = line.fit(X, y)
    gap, objective = (found.upper - found.lower) / found.upper, found.upper / found.at_zero
    rows, labels = held_out
    ap = float(average_precision(labels, rows @ found.weights))
    return Timing(y.size, found.seconds, found.n_iter, gap, objective, ap)


def fit_ours(lam: float, X: Matrix, y: Mask) -> Reached:
    """TopPush by its default solver."""
    began = time.process_time()
    found = TopPush(lam, tol=TOL, n_jobs=1).fit(X, y).solution_
    return _proven(found, time.process_time() - began)


def fit_by_the_paper(lam: float, limit: float, X: Matrix, y: Mask) -> Reached:
    """The paper's iteration until it has proven the gap, or the time is up."""
    began = time.process_time()

    def arrived(history: tuple[Iteration, ...], weights: Array, threshold: float) -> bool:
        upper, lower = history[-1][:2]
        return upper - lower <= TOL * upper or time.process_time() - began > limit

    with LocalDesign(X, y, n_jobs=1) as design:
        problem = TopPushProblem(design, LOSS, lam)
        found = solve(problem, solver="paper", tol=0.0, max_iter=10**9, callback=arrived)
    return _proven(found, time.process_time() - began)


def _proven(found: Solution, seconds: float) -> Reached:
    at_zero = float(LOSS.value(np.zeros(1))[0])
    return Reached(seconds, found.weights, found.n_iter, found.upper, found.lower, at_zero)


def fit_liblinear(X: Matrix, y: Mask) -> Reached:
    """Logistic regression as scikit-learn sets it; the bounds are not part of its time."""
    began = time.process_time()
    model = LogisticRegression(solver="liblinear", max_iter=1000).fit(X, y)
    seconds = time.process_time() - began
    weights, bounds = model.coef_[0], logistic_bounds(model, X, y)
    return Reached(seconds, weights, int(model.n_iter_[0]), *bounds, model.C * y.size * np.log(2.0))


def logistic_bounds(model: LogisticRegression, X: Matrix, y: Mask) -> tuple[float, float]:
    """Objective of a logistic regression whose intercept is penalised, and what its dual proves.

    1/2 |w|^2 + C sum_i log(1 + e^(-s_i)) >= C sum_i H(p_i) - 1/2 |C sum_i p_i y_i x_i|^2 for any
    shares p, with H their entropy; taken at p_i = 1 / (1 + e^(s_i)). Two products with X.
    """
    signs = np.where(y, 1.0, -1.0)
    margins = signs * (X @ model.coef_[0] + model.intercept_[0])
    wrong = expit(-margins)
    push = model.C * wrong * signs
    direction = np.append(X.T @ push, push.sum())
    weights = np.append(model.coef_[0], model.intercept_[0])
    upper = 0.5 * weights @ weights + model.C * np.logaddexp(0.0, -margins).sum()
    entropy = entr(wrong).sum() + entr(expit(margins)).sum()
    return float(upper), float(model.C * entropy - 0.5 * direction @ direction)


def _result(
    dataset: Dataset,
    lines: Sequence[Line],
    sizes: Sequence[int],
    seed: int,
    limit: float,
) -> Result:
    n_rows, n_columns = dataset.X.shape
    title = f"Training time against rows: {dataset.title}"
    about = f"{n_columns:,} columns, {dataset.X.nnz / n_rows:.0f} entries a row"
    columns = ["rows", "method", "lam", "CPU seconds", "iterations", "relative gap"]
    columns += ["objective", "held-out AP", ""]
    cells = sorted((row for line in lines for row in line.cells()), key=lambda row: int(row[0]))
    notes = [*_slopes(lines), f"Rows: {dataset.title}, {about}.", *_explained(limit)]
    table = Table(NAME, title, columns, cells, notes)
    words = "CPU seconds against rows on logarithmic axes, a panel for each lam."
    figure = draw(lines, f"{dataset.title}: {about}", limit)
    lams = sorted({line.lam for line in lines if line.lam is not None}, reverse=True)
    config: Json = {"data": dataset.title, "rows": about, "lams": lams, "sizes": list(sizes)}
    config |= {"seed": seed, "limit": limit, "tol": TOL}
    return Result(NAME, title, [table], {NAME: (figure, words)}, config)


def _slopes(lines: Sequence[Line]) -> Iterator[str]:
    for method in (OURS, PAPER, LIBLINEAR):
        found = [_slopes_of(line) for line in lines if line.method == method]
        yield f"Slopes of log time against log rows, {method}: {', '.join(found)}."


def _slopes_of(line: Line) -> str:
    lam = "" if line.lam is None else f"lam {line.lam:g}, "
    n_sizes = len(line.finished)
    last = f"; the last {N_LAST}: {line.slope(N_LAST)}" if n_sizes > N_LAST else ""
    return f"{line.slope()} ({lam}{n_sizes} sizes{last})"


def _explained(limit: float) -> list[str]:
    return [
        f"TopPush and the paper's method go on to a proven relative gap of {TOL:g}; the paper's is "
        f"stopped after {limit:g} CPU seconds, and slopes leave out what was stopped.",
        "LIBLINEAR is scikit-learn's logistic regression with its default C = 1 and tolerance. It "
        "proves nothing: its gap was computed afterwards, from the dual of its own problem.",
        f"A competitor whose fit took more than {limit:g} CPU seconds is not given more rows. One "
        "thread, one fit each.",
        "Objectives are those of the method's own problem over that of weights of zero; AP is on "
        f"up to {N_HELD_OUT:,} rows that no fit has seen.",
    ]


def draw(lines: Sequence[Line], title: str, limit: float) -> "Figure":
    """A panel for each lam, LIBLINEAR's line in all of them."""
    lams = sorted({line.lam for line in lines if line.lam is not None}, reverse=True)
    figure, axes = new_axes(len(lams), 4.6 * len(lams), 4.8)
    for lam, axis in zip(lams, axes, strict=True):
        shown = [line for line in lines if line.lam in (lam, None)]
        for line in shown:
            _draw_line(axis, line)
        _draw_linear(axis, shown[0])
        axis.set(xlabel="training rows")
        axis.set_title(f"lam = {lam:g}", loc="left")
        axis.legend(loc="upper left", frameon=False, fontsize=9)
    _same_heights(axes)
    axes[0].set_ylabel("CPU seconds to fit, one thread")
    figure.suptitle(
        f"{title}. Slopes before the names; hollow: stopped at {limit:g} s",
        x=0.01,
        ha="left",
        fontsize=11,
    )
    return figure


def _draw_line(axis: "Axes", line: Line) -> None:
    style, colour = STYLES[line.method]
    sizes, seconds = zip(*((one.n_rows, one.seconds) for one in line.timings), strict=True)
    label = f"{line.slope()}  {LABELS[line.method]}"
    width = 2.6 if line.method == OURS else 1.6
    axis.loglog(sizes, seconds, style, color=colour, linewidth=width, markersize=5, label=label)
    for one in line.timings:
        if one not in line.finished:
            axis.loglog(one.n_rows, one.seconds, style[0], mec=colour, mfc="white", markersize=8)


def _draw_linear(axis: "Axes", line: Line) -> None:
    """Where time would be if it grew as the rows do, up to the line's last point."""
    ends = np.array([line.timings[0].n_rows, line.timings[-1].n_rows])
    seconds = ends * line.timings[-1].seconds / ends[1]
    axis.loglog(ends, seconds, "-.", color=INK, linewidth=1, label="1.00  linear")


def _same_heights(axes: Sequence["Axes"]) -> None:
    """Room for the legends above, and the same seconds at the same height."""
    low = min(axis.get_ylim()[0] for axis in axes)
    high = max(axis.get_ylim()[1] for axis in axes)
    for axis in axes:
        axis.set_ylim(low, 30 * high)
