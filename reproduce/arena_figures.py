"""The arena's pictures: who wins where, and mean ranks with what may be chance."""

from typing import TYPE_CHECKING

import numpy as np

from reproduce.contestants import CONTESTANTS
from reproduce.figures import INK, new_axes
from reproduce.ranks import Ranks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Picture = tuple["Figure", str]
KIND = {one.title: one.kind for one in CONTESTANTS.values()}
OURS_INK = "#0b6e4f"
SMALLEST = 11.0, 3.4
"""Inches across and down in which the words have room, however few rankers there are."""


def draw_winners(ranks: Ranks, measure: str, titles: dict[str, str]) -> Picture:
    """A field for every ranker and set: the mean, the greener the better its rank."""
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
    labels = [_short(titles[one]) for one in ranks.sets]
    axis.set_xticks(range(n_sets), labels, rotation=35, ha="left")
    axis.xaxis.tick_top()
    labels = [f"{ranks.names[i]}   {ranks.mean[i]:.1f}" for i in order]
    axis.set_yticks(range(n_rankers), labels)
    _colour_ours(axis, [ranks.names[i] for i in order])
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    axis.set_xlabel(
        f"{measure.capitalize()} negatives: mean over random splits. Darker is better on that set; "
        "a dash: too few splits.\nBehind the names: mean rank over the sets. Green names are ours. "
        "A star: a part of the set.",
        loc="left",
    )
    words = f"{measure} of {n_rankers} rankers on {n_sets} data sets, in the order of mean ranks."
    return figure, words


def _short(title: str) -> str:
    """A set's name, with a star instead of the share of it that there is."""
    name, is_part, _ = title.partition(" (")
    return f"{name}*" if is_part else name


def _write(axis: "Axes", row: int, column: int, value: float, *, dark: bool) -> None:
    text = "-" if np.isnan(value) else f"{value:.{2 if value >= 0.1 else 3}f}".removeprefix("0")
    colour = "white" if dark else INK
    axis.text(column, row, text, ha="center", va="center", fontsize=8.5, color=colour)


def _colour_ours(axis: "Axes", names: list[str]) -> None:
    for label, name in zip(axis.get_yticklabels(), names, strict=True):
        if KIND[name] == "ours":
            label.set(color=OURS_INK, fontweight="bold")


def draw_ranks(by_measure: dict[str, Ranks]) -> Picture:
    """Mean ranks by some measures; a bar joins rankers that chance may have parted."""
    n_rankers = max(len(ranks.names) for ranks in by_measure.values())
    height = max(1.2 + 0.26 * n_rankers, SMALLEST[1])
    figure, axes = new_axes(len(by_measure), 4.6 * len(by_measure), height)
    for axis, (measure, ranks) in zip(axes, by_measure.items(), strict=True):
        _draw_ladder(axis, ranks)
        axis.set_title(measure, loc="left")
    axes[0].set_xlabel("mean rank (1 is best); bars join what is not significantly apart")
    words = "Critical differences: mean ranks by " + ", ".join(by_measure) + "."
    return figure, words


def _draw_ladder(axis: "Axes", ranks: Ranks) -> None:
    order = ranks.order
    names = [ranks.names[i] for i in order]
    colours = [OURS_INK if KIND[name] == "ours" else "#8a94a3" for name in names]
    axis.barh(range(len(order)), ranks.mean[order], color=colours, height=0.62, zorder=2)
    widest = float(ranks.mean.max())
    for number, (first, last) in enumerate(ranks.groups()):
        at = widest * (1.06 + 0.03 * number)
        axis.plot([at, at], [first - 0.3, last + 0.3], color=INK, linewidth=2.0, clip_on=False)
    axis.set_yticks(range(len(order)), names)
    _colour_ours(axis, names)
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)
