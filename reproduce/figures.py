"""The paper's figures of the influence of eps and lam, from runs of our own."""

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from sklearn.model_selection import train_test_split

from reproduce.datasets import Dataset
from reproduce.protocol import TEST_SHARE
from reproduce.results import Result
from reproduce.tables import Table
from toppush import TopPush
from toppush.metrics import FOUR, summary
from toppush.types import Array

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
            ranker = TopPush(lam, solver="paper", tol=tol, n_jobs=1).fit(X[train], y[train])
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
