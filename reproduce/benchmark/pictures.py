"""Pictures of the benchmark: the means on all data sets, and mean ranks."""

from collections.abc import Set
from typing import TYPE_CHECKING

import numpy as np

from reproduce.benchmark.statistics import Ranks
from reproduce.figures import INK, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Picture = tuple["Figure", str]
OURS_INK = "#0b6e4f"
SMALLEST = 11.0, 3.4
"""Inches across and down in which the words have room, however few rankers there are."""


def draw_winners(ranks: Ranks, metric: str, ours: Set[str]) -> Picture:
    """A cell for every method and data set: the mean, the darker the better its rank."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("ranks", ["#0b6e4f", "#7cc4a4", "#f4f4f0"])
    n_sets, n_rankers = ranks.means.shape
    size = max(3.0 + 0.72 * n_sets, SMALLEST[0]), max(1.6 + 0.32 * n_rankers, SMALLEST[1])
    figure, (axis,) = new_axes(1, *size)
    order = ranks.order
    shown = (ranks.table[:, order].T - 1.0) / max(n_rankers - 1, 1)
    missing = np.isnan(ranks.means[:, order].T)
    axis.imshow(np.where(missing, np.nan, shown), cmap=colours, aspect="auto", vmin=0.0, vmax=1.0)
    for row, ranker in enumerate(order):
        for column in range(n_sets):
            value, is_dark = ranks.means[column, ranker], shown[row, column] < 0.3
            _write(axis, row, column, value, dark=is_dark and not missing[row, column])
    axis.set_xticks(range(n_sets), ranks.sets, rotation=35, ha="left")
    axis.xaxis.tick_top()
    labels = [f"{ranks.names[i]}   {ranks.mean[i]:.1f}" for i in order]
    axis.set_yticks(range(n_rankers), labels)
    _colour_ours(axis, [ranks.names[i] for i in order], ours)
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    axis.set_xlabel(
        f"{metric.capitalize()}: mean over splits, darker where its rank is better; a dash: no "
        "result.\nBehind the names: mean rank over the data sets. Green: TopRanker.",
        loc="left",
    )
    words = f"{metric} of {n_rankers} methods on {n_sets} data sets, in the order of mean ranks."
    return figure, words


def _write(axis: "Axes", row: int, column: int, value: float, *, dark: bool) -> None:
    text = "-" if np.isnan(value) else f"{value:.{2 if value >= 0.1 else 3}f}".removeprefix("0")
    colour = "white" if dark else INK
    axis.text(column, row, text, ha="center", va="center", fontsize=8.5, color=colour)


def _colour_ours(axis: "Axes", names: list[str], ours: Set[str]) -> None:
    for label, name in zip(axis.get_yticklabels(), names, strict=True):
        if name in ours:
            label.set(color=OURS_INK, fontweight="bold")


def draw_ranks(by_metric: dict[str, Ranks], ours: Set[str]) -> Picture:
    """Mean ranks by some metrics; a bar joins methods that are not significantly apart."""
    n_rankers = max(len(ranks.names) for ranks in by_metric.values())
    height = max(1.2 + 0.26 * n_rankers, SMALLEST[1])
    figure, axes = new_axes(len(by_metric), 4.6 * len(by_metric), height)
    for axis, (metric, ranks) in zip(axes, by_metric.items(), strict=True):
        _draw_ladder(axis, ranks, ours)
        axis.set_title(metric, loc="left")
    axes[0].set_xlabel("mean rank (1 is best); bars join what is not significantly apart")
    words = "Critical differences: mean ranks by " + ", ".join(by_metric) + "."
    return figure, words


def _draw_ladder(axis: "Axes", ranks: Ranks, ours: Set[str]) -> None:
    order = ranks.order
    names = [ranks.names[i] for i in order]
    colours = [OURS_INK if name in ours else "#8a94a3" for name in names]
    axis.barh(range(len(order)), ranks.mean[order], color=colours, height=0.62, zorder=2)
    widest = float(ranks.mean.max())
    for number, (first, last) in enumerate(ranks.groups()):
        at = widest * (1.06 + 0.03 * number)
        axis.plot([at, at], [first - 0.3, last + 0.3], color=INK, linewidth=2.0, clip_on=False)
    axis.set_yticks(range(len(order)), names)
    _colour_ours(axis, names, ours)
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)
