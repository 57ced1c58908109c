"""The curves of an additive ranker, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from toppush.plots.history import NEEDS_MATPLOTLIB
from toppush.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST, ACROSS = 12, 4
"""Curves that are drawn by default, and how many in a row."""


class DrawnCurve(Protocol):
    """What is drawn of a curve; `TopPushAdditive.curves_` are such."""

    @property
    def name(self) -> str: ...
    @property
    def values(self) -> Array: ...
    @property
    def contribution(self) -> Array: ...
    @property
    def missing(self) -> float: ...
    @property
    def is_categorical(self) -> bool: ...


@dataclass(kw_only=True, eq=False, repr=False)
class CurvesDisplay:
    """What each column adds to the score, against its values.

    Make one with `from_estimator`. Values are drawn at even steps of their quantiles, as the
    curves see them, so a heavy tail does not press all others together.

    Parameters
    ----------
    curves : sequence
        As `TopPushAdditive.curves_`.

    Attributes
    ----------
    axes_ : list of matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from toppush import TopPushAdditive
    >>> from toppush.plots import CurvesDisplay
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> ranker = TopPushAdditive([0.1], tops=[0.1]).fit(X.iloc[:, :3], y)
    >>> display = CurvesDisplay.from_estimator(ranker)
    >>> len(display.axes_)
    3
    """

    curves: Sequence[DrawnCurve]
    axes_: "list[Axes]"
    figure_: "Figure"

    def __init__(self, *, curves: Sequence[DrawnCurve]) -> None:
        self.curves = curves

    @classmethod
    def from_estimator(cls, estimator: Any, columns: Sequence[int | str] | None = None) -> Self:
        """Draw the curves of a fitted ranker.

        Parameters
        ----------
        estimator : TopPushAdditive
        columns : sequence of int or str, optional
            Positions or names; by default the twelve whose curves rise the most.

        Returns
        -------
        display
        """
        if columns is not None:
            return cls(curves=[estimator.curve(column) for column in columns]).plot()
        curves = sorted(estimator.curves_, key=_rise, reverse=True)
        return cls(curves=[curve for curve in curves[:MOST] if _rise(curve) > 0.0]).plot()

    def plot(self) -> Self:
        """Draw the curves on a new figure."""
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError(NEEDS_MATPLOTLIB) from error
        across = max(min(ACROSS, len(self.curves)), 1)
        down = max(-(-len(self.curves) // across), 1)
        self.figure_ = Figure(figsize=(3.0 * across, 2.4 * down), layout="constrained")
        grid = self.figure_.subplots(down, across, squeeze=False, sharey=True)
        self.axes_ = list(grid.flat[: len(self.curves)])
        for unused in grid.flat[len(self.curves) :]:
            unused.set_visible(False)
        for axes, curve in zip(self.axes_, self.curves, strict=True):
            _draw(axes, curve)
        return self


def _rise(curve: DrawnCurve) -> float:
    heights = np.append(curve.contribution, curve.missing)
    return float(np.ptp(heights))


def _draw(axes: "Axes", curve: DrawnCurve) -> None:
    steps = np.arange(len(curve.values))
    axes.plot(steps, curve.contribution, "o" if curve.is_categorical else "-", color="#0b6e4f")
    if curve.missing:
        axes.axhline(curve.missing, color="#b5651d", linestyle=":", label="missing")
        axes.legend(frameon=False)
    shown = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), 5)).astype(int))
    axes.set_xticks(shown, [f"{curve.values[at]:.3g}" for at in shown])
    axes.set(title=curve.name)
    axes.grid(alpha=0.3)
