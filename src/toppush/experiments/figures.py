"""The paper's figures from runs of our own: time against size, and the influence of eps and lam."""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split

from toppush import TopPush
from toppush.datasets import Dataset
from toppush.experiments.protocol import TEST_SHARE
from toppush.experiments.results import Result
from toppush.experiments.tables import Table
from toppush.metrics import FOUR, summary
from toppush.types import Array, Mask, Matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#333333"
LINES = ["#0b6e4f", "#1f6fb4", "#c0392b", "#e0a100", "#7b6fd0"]
MARKERS = "osD^v"
TITLES = [one.title for one in FOUR]
Tell = Callable[[str], None]


def new_axes(n: int, width: float, height: float) -> tuple["Figure", Sequence["Axes"]]:
    """A figure with axes side by side and a light grid, drawn without a screen."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, n, squeeze=False)[0]
    for axis in axes:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


class Timing(NamedTuple):
    """A fit of some rows."""

    n_rows: int
    solver: str
    lam: float
    seconds: float
    n_iter: int


def scalability(
    dataset: Dataset, lams: Sequence[float], sizes: Sequence[int], seed: int, tell: Tell
) -> Result:
    """Training time against the number of rows for several lams, by both solvers."""
    order = np.random.default_rng(seed).permutation(dataset.y.size)
    rows, X = [], dataset.scaled()
    for n_rows in sizes:
        part = np.sort(order[:n_rows])
        some, labels = X[part], dataset.y[part]
        for solver in ("paper", "newton"):
            for lam in lams:
                tell(f"{n_rows:,} rows, {solver}, lam {lam:g}")
                rows.append(Timing(n_rows, solver, lam, *_timed(some, labels, lam, solver)))
    title = f"Training time against rows: {dataset.title}"
    columns = ["rows", "solver", "lam", "CPU seconds", "iterations"]
    table = Table(
        "figure-scalability",
        title,
        columns,
        [[f"{n}", solver, f"{lam:g}", f"{s:.4g}", str(i)] for n, solver, lam, s, i in rows],
        [_slopes(rows, solver, lams) for solver in ("paper", "newton")],
    )
    words = "Seconds against rows on logarithmic axes, a line for each lam, and a linear reference."
    figures = {"figure-scalability": (_draw_scalability(rows, lams, dataset.title), words)}
    config = {"data": dataset.title, "lams": list(lams), "sizes": list(sizes), "seed": seed}
    return Result("figure-scalability", title, [table], figures, config)


def _points(rows: Sequence[Timing], solver: str, lam: float) -> list[tuple[int, float]]:
    """Rows and seconds of one line of the figure."""
    return [(row.n_rows, row.seconds) for row in rows if (row.solver, row.lam) == (solver, lam)]


def _timed(X: Matrix, y: Mask, lam: float, solver: str) -> tuple[float, int]:
    """CPU seconds and iterations; the better of two fits, as a first one warms caches."""
    best = float("inf")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            began = time.process_time()
            ranker = TopPush(lam, solver=solver, n_threads=1).fit(X, y)
            best = min(best, time.process_time() - began)
    return best, int(ranker.n_iter_)


def _slopes(rows: Sequence[Timing], solver: str, lams: Sequence[float]) -> str:
    found = []
    for lam in lams:
        sizes, seconds = np.log(_points(rows, solver, lam)).T
        found.append(f"{np.polyfit(sizes, seconds, 1)[0]:.2f} (lam {lam:g})")
    return f"Slopes of log time against log rows, solver {solver}: {', '.join(found)}."


def _draw_scalability(rows: Sequence[Timing], lams: Sequence[float], title: str) -> "Figure":
    figure, axes = new_axes(2, 10.5, 4.4)
    names = {"paper": "the paper's method, eps 1e-4", "newton": "newton, gap 1e-4"}
    for axis, (solver, name) in zip(axes, names.items(), strict=True):
        for lam, colour, marker in zip(lams, LINES, MARKERS, strict=False):
            sizes, seconds = zip(*_points(rows, solver, lam), strict=True)
            axis.loglog(sizes, seconds, f"{marker}-", color=colour, label=f"lam = {lam:g}")
        middle = np.median([row.seconds / row.n_rows for row in rows if row.solver == solver])
        ends = np.array([min(sizes), max(sizes)])
        axis.loglog(ends, ends * middle, "-.", color="black", label="linear")
        axis.set(xlabel="training rows", ylabel="CPU seconds, one thread")
        axis.set_title(f"{title}: {name}", loc="left", fontsize=10)
        axis.legend(frameon=False, fontsize=9)
    return figure


def influence(
    dataset: Dataset, what: str, values: Sequence[float], seed: int, tell: Tell
) -> Result:
    """Iterations and measures of the paper's solver against eps (lam = 1) or lam (eps = 1e-4)."""
    X, y = dataset.scaled(), dataset.y
    train, test = train_test_split(np.arange(y.size), test_size=TEST_SHARE, random_state=seed)
    rows = []
    for value in values:
        tell(f"{what} {value:g}")
        lam, tol = (1.0, value) if what == "epsilon" else (value, 1e-4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ranker = TopPush(lam, solver="paper", tol=tol, n_threads=1).fit(X[train], y[train])
        scores = ranker.decision_function(X[test])
        measured = summary(y[test], scores).values()
        rows.append([value, ranker.n_iter_, ranker.solution_.relative_gap, *measured])
    name = f"figure-{what}"
    title = f"Influence of {what} on {dataset.title}"
    columns = [what, "iterations", "relative gap", *TITLES]
    cells = [
        [f"{row[0]:g}", str(row[1]), f"{row[2]:.2g}", *(f"{v:.4f}" for v in row[3:])]
        for row in rows
    ]
    fixed = "lam = 1" if what == "epsilon" else "eps = 1e-4"
    note = f"The paper's solver, {fixed}, one split (seed {seed}): 2/3 training, measures on 1/3."
    words = f"Left: iterations against {what}; right: the four measures on held-out rows."
    figures = {name: (_draw_influence(np.array(rows, float), what), words)}
    config = {"data": dataset.title, what: list(values), "seed": seed}
    return Result(name, title, [Table(name, title, columns, cells, [note])], figures, config)


def _draw_influence(rows: Array, what: str) -> "Figure":
    figure, (left, right) = new_axes(2, 10.5, 4.2)
    label = "eps" if what == "epsilon" else "lam"
    left.loglog(rows[:, 0], rows[:, 1], "o-", color=LINES[0])
    left.set(xlabel=label, ylabel="iterations")
    for i, title in enumerate(TITLES):
        right.semilogx(rows[:, 0], rows[:, 3 + i], f"{MARKERS[i]}-", color=LINES[i], label=title)
    right.set(xlabel=label, ylabel="held-out measure", ylim=(0, 1.02))
    right.legend(frameon=False, fontsize=9)
    return figure
