"""matplotlib displays of rankings, of additive rankers and of solves.

`TopCurveDisplay` and `TopRocDisplay` have a logarithmic axis, because what matters happens among
the first rows. Ties are those of `toppush.metrics`: a ranked list that ends within a tie holds its
positives in proportion, and a threshold takes all rows of a tie or none. A display that is drawn
has the matplotlib Axes and Figure as `ax_` and `figure_`, and as `chance_level_` the line of a
random order, or None. matplotlib is imported when something is drawn.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toppush.metrics import TopCurve, top_curve
from toppush.metrics.positive_class import positive_label
from toppush.system.extras import needs
from toppush.types import Array, Matrix, Where

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

    from toppush.problem.solution import Iteration

__all__ = ["CurvesDisplay", "TopCurveDisplay", "TopRocDisplay", "draw_history", "list_lengths"]

MOST, ACROSS = 12, 4
"""Curves that are drawn by default, and how many in a row."""
Length = Array | Where
Style = dict[str, Any]
"""What matplotlib's `plot` takes by keyword."""

ALL_UP_TO = 100
"""List lengths that are drawn one by one; from there on a logarithmic grid."""


def list_lengths(longest: float, *, per_decade: int = 200) -> NDArray[np.int64]:
    """Whole numbers from 1 to `longest`: each up to 100, then about `per_decade` a decade.

    Examples
    --------
    >>> from toppush.plots import list_lengths
    >>> list_lengths(5)
    array([1, 2, 3, 4, 5])
    >>> list_lengths(1000, per_decade=4)[-3:]
    array([ 398,  631, 1000])
    """
    last = int(longest)
    decades = max(np.log10(max(last, 1) / ALL_UP_TO), 0.0)
    grid = np.geomspace(min(ALL_UP_TO, last), last, 2 + int(decades * per_decade))
    lengths = np.append(np.arange(1, min(ALL_UP_TO, last) + 1), np.rint(grid))
    return np.unique(lengths.astype(np.int64))


class _Display(ABC):
    """Base of the displays of one ranking."""

    axes: ClassVar[tuple[str, str]]
    """Their labels."""
    name: str | None
    pos_label: object
    ax_: "Axes"
    figure_: "Figure | SubFigure"
    chance_level_: "Line2D | None"
    _draw: Callable[..., None]
    """Draws the lines, by a name and their styles."""

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Matrix, y: ArrayLike, *, pos_label: object = None, **kwargs: Any
    ) -> Self:
        """Rank the rows of X and draw the ranking.

        Parameters
        ----------
        estimator : fitted estimator or pipeline
            Its `decision_function` ranks, or else its `predict_proba`.
        X : array, sparse matrix or data frame of shape (n_rows, n_features)
        y : array of shape (n_rows,)
            Labels of two classes.
        pos_label : optional
            The class that should be on top; by default the one that a ranker of this package
            ranks first, else as at the head of `toppush.metrics.ranking`.
        **kwargs
            As for `from_predictions`; the name in the legend is by default the estimator's class.

        Returns
        -------
        display
        """
        scores, pos_label = _responses(estimator, X, y, pos_label)
        kwargs = {"name": type(estimator).__name__} | kwargs
        return cls.from_predictions(y, scores, pos_label=pos_label, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: object = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the ranking by some scores; O(n log n) for n rows.

        Parameters
        ----------
        y_true, y_score, sample_weight, pos_label
            The ranking, as at the head of `toppush.metrics.ranking`.
        name : str, optional
            Name in the legend.
        **kwargs
            As for `plot`.

        Returns
        -------
        display
        """
        display = cls._of(top_curve(y_true, y_score, sample_weight, pos_label), name, pos_label)
        return display.plot(**kwargs)

    @classmethod
    @abstractmethod
    def _of(cls, curve: TopCurve, name: str | None, pos_label: object) -> Self: ...

    @abstractmethod
    def _chance(self) -> tuple[str, Length, Array] | None:
        """The line of a random order, if it is known: its label and its points."""

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        name: str | None = None,
        plot_chance_level: bool = False,
        chance_level_kw: Style | None = None,
        despine: bool = False,
        **styles: Style | None,
    ) -> Self:
        """Draw the lines.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; by default those of a new figure.
        name : str, optional
            Name in the legend; by default the display's own.
        plot_chance_level : bool, default=False
            Draw the line of a random order as well.
        chance_level_kw : dict, optional
            Passed to matplotlib's `plot`.
        despine : bool, default=False
            Remove the top and right spines.
        **styles : dict
            Passed to matplotlib's `plot`: `precision_kwargs` and `recall_kwargs` of a
            `TopCurveDisplay`, `curve_kwargs` of a `TopRocDisplay`.

        Returns
        -------
        display
        """
        if ax is None:
            ax = _matplotlib("pyplot").figure(layout="constrained").add_subplot()
        self.ax_ = ax
        self.figure_ = ax.figure
        label = "" if self.pos_label is None else f" (positive label: {self.pos_label})"
        x_label, y_label = self.axes
        ax.set(xscale="log", xlabel=x_label, ylabel=y_label + label, ylim=(-0.02, 1.02))
        self._draw(self.name if name is None else name, **styles)
        self.chance_level_ = None
        if plot_chance_level and (chance := self._chance()) is not None:
            style: Style = {"label": chance[0], "color": "k", "linestyle": ":"}
            (self.chance_level_,) = ax.plot(*chance[1:], **style | (chance_level_kw or {}))
        if ax.get_legend_handles_labels()[1]:
            ax.legend(loc="best")
        if despine:
            ax.spines[["top", "right"]].set_visible(False)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class TopCurveDisplay(_Display):
    """Precision and recall of the first k rows against k, on a logarithmic axis.

    Make one with `from_estimator` or `from_predictions`. Parameters are kept as attributes.

    Parameters
    ----------
    length : array of shape (n_points,)
        Values of k, in rows or, with sample weights, in units of weight.
    precision : array of shape (n_points,)
        Share of positives among the first rows, as `toppush.metrics.precision_at_k`.
    recall : array of shape (n_points,)
        Share of all positives that the first rows hold, as `toppush.metrics.recall_at_k`.
    prevalence : float, optional
        Share of positives among all rows: the precision of a random order.
    name, pos_label : optional
        Name in the legend, and the positive class, shown on the axis.

    Attributes
    ----------
    ax_, figure_, chance_level_
        As at the head of this module.
    precision_line_, recall_line_
        The two lines.

    Examples
    --------
    >>> from toppush.plots import TopCurveDisplay
    >>> display = TopCurveDisplay.from_predictions([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4])
    >>> display.precision.round(2).tolist()
    [1.0, 0.5, 0.67, 0.5]
    """

    axes = ("length of the list", "share")

    length: Length
    precision: Array
    recall: Array
    prevalence: float | None = None
    name: str | None = None
    pos_label: object = None

    @classmethod
    def _of(cls, curve: TopCurve, name: str | None, pos_label: object) -> Self:
        # If all weights sum to less than 1, there is no list of length 1.
        length = list_lengths(curve.depth[-1]) if curve.depth[-1] >= 1 else curve.depth[-1:]
        hits = curve.positives_within(length)
        return cls(
            length=length,
            precision=hits / length,
            recall=hits / curve.n_pos,
            prevalence=curve.n_pos / float(curve.depth[-1]),
            name=name,
            pos_label=pos_label,
        )

    def _draw(
        self,
        name: str | None,
        precision_kwargs: Style | None = None,
        recall_kwargs: Style | None = None,
    ) -> None:
        prefix = "" if name is None else f"{name}: "
        style: Style = {"label": f"{prefix}precision"} | (precision_kwargs or {})
        (self.precision_line_,) = self.ax_.plot(self.length, self.precision, **style)
        colour = self.precision_line_.get_color()
        style = {"label": f"{prefix}recall", "linestyle": "--", "color": colour}
        style |= recall_kwargs or {}
        (self.recall_line_,) = self.ax_.plot(self.length, self.recall, **style)

    def _chance(self) -> tuple[str, Length, Array] | None:
        if self.prevalence is None:
            return None
        return "precision by chance", self.length[[0, -1]], np.full(2, self.prevalence)


@dataclass(kw_only=True, eq=False, repr=False)
class TopRocDisplay(_Display):
    """The ROC curve near zero false positives, on a logarithmic axis.

    Make one with `from_estimator` or `from_predictions`. Parameters are kept as attributes. The
    curve is a staircase: between two thresholds nothing is interpolated, as in
    `toppush.metrics.recall_at_fpr`. The rate 0, which such an axis does not have, is drawn at the
    left end, at half the rate of the first false alarm.

    Parameters
    ----------
    fpr : array of shape (n_points,)
        False positive rates from 0 to 1.
    tpr : array of shape (n_points,)
        Recall at those rates.
    name, pos_label : optional
        As for `TopCurveDisplay`.

    Attributes
    ----------
    ax_, figure_, chance_level_
        As at the head of this module.
    line_
        The curve.

    Examples
    --------
    >>> from toppush.plots import TopRocDisplay
    >>> display = TopRocDisplay.from_predictions([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4])
    >>> display.tpr
    array([0. , 0.5, 0.5, 1. , 1. ])
    """

    axes = ("false positive rate", "recall")

    fpr: Array
    tpr: Array
    name: str | None = None
    pos_label: object = None

    @classmethod
    def _of(cls, curve: TopCurve, name: str | None, pos_label: object) -> Self:
        fpr, tpr = curve.false_positives / curve.n_neg, curve.true_positives / curve.n_pos
        return cls(fpr=fpr, tpr=tpr, name=name, pos_label=pos_label)

    @property
    def left_end(self) -> float:
        """Where the rate 0 is drawn."""
        return float(self.fpr[self.fpr > 0][0]) / 2

    def _draw(self, name: str | None, curve_kwargs: Style | None = None) -> None:
        style: Style = {"drawstyle": "steps-post", "label": name} | (curve_kwargs or {})
        (self.line_,) = self.ax_.plot(np.maximum(self.fpr, self.left_end), self.tpr, **style)

    def _chance(self) -> tuple[str, Array, Array]:
        rates = np.geomspace(self.left_end, 1.0, 100)
        return "by chance", rates, rates


def _matplotlib(module: str) -> Any:
    """A module of matplotlib, which is imported on first use."""
    try:
        return import_module(f"matplotlib.{module}")
    except ImportError as error:
        raise ImportError(needs("a picture", "matplotlib")) from error


def _responses(estimator: Any, X: Matrix, y: ArrayLike, pos_label: object) -> tuple[Array, object]:
    """Scores in favour of the positive class, and that class."""
    classes = np.asarray(estimator.classes_).tolist()
    if len(classes) != 2:
        raise ValueError(f"The estimator knows {len(classes)} classes; fit one of two classes.")
    wanted = positive_label(y, [estimator], pos_label, option="pos_label")
    second = wanted in (None, classes[1])
    if hasattr(estimator, "decision_function"):
        scores = np.asarray(estimator.decision_function(X))
        return (scores if second else -scores), wanted
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(X))[:, int(second)], wanted
    raise ValueError(
        f"{type(estimator).__name__} has neither decision_function nor predict_proba; "
        "pass its scores to from_predictions."
    )


class CurvesDisplay:
    """Contribution of each column to the score, against its values.

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

    curves: Sequence[Any]
    axes_: "list[Axes]"
    figure_: "Figure"

    def __init__(self, *, curves: Sequence[Any]) -> None:
        self.curves = curves

    @classmethod
    def from_estimator(cls, estimator: Any, columns: Sequence[int | str] | None = None) -> Self:
        """Draw the curves of a fitted ranker.

        Parameters
        ----------
        estimator : TopPushAdditive
        columns : sequence of int or str, optional
            Positions or names; by default the twelve whose curves have the widest range.

        Returns
        -------
        display
        """
        if columns is not None:
            return cls(curves=[estimator.curve(column) for column in columns]).plot()
        curves = sorted(estimator.curves_, key=_range, reverse=True)
        return cls(curves=[curve for curve in curves[:MOST] if _range(curve) > 0.0]).plot()

    def plot(self) -> Self:
        """Draw the curves on a new figure."""
        across = max(min(ACROSS, len(self.curves)), 1)
        down = max(-(-len(self.curves) // across), 1)
        figure = _matplotlib("figure").Figure
        self.figure_ = figure(figsize=(3.0 * across, 2.4 * down), layout="constrained")
        grid = self.figure_.subplots(down, across, squeeze=False, sharey=True)
        self.axes_ = list(grid.flat[: len(self.curves)])
        for unused in grid.flat[len(self.curves) :]:
            unused.set_visible(False)
        for axes, curve in zip(self.axes_, self.curves, strict=True):
            _draw(axes, curve)
        return self


def _range(curve: Any) -> float:
    heights = np.append(curve.contribution, curve.missing)
    return float(np.ptp(heights))


def _draw(axes: "Axes", curve: Any) -> None:
    steps = np.arange(len(curve.values))
    axes.plot(steps, curve.contribution, "o" if curve.is_categorical else "-", color="#0b6e4f")
    if curve.missing:
        axes.axhline(curve.missing, color="#b5651d", linestyle=":", label="missing")
        axes.legend(frameon=False)
    shown = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), 5)).astype(int))
    axes.set_xticks(shown, [f"{curve.values[at]:.3g}" for at in shown])
    axes.set(title=curve.name)
    axes.grid(alpha=0.3)


def draw_history(history: "tuple[Iteration, ...]") -> "Figure":
    """The bounds of a solve against reads of the data, and their relative gap against seconds.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush import TopPush
    >>> from toppush.plots import draw_history
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 3)), np.arange(200) < 40
    >>> X[y] += 2.0
    >>> figure = draw_history(TopPush(top=5).fit(X, y).solution_.history)
    >>> len(figure.axes)
    2
    """
    figure: Figure = _matplotlib("figure").Figure(figsize=(9, 3.4), layout="constrained")
    bounds, relative = figure.subplots(1, 2)
    passes, seconds = [at.data_passes for at in history], [at.seconds for at in history]
    lower, upper = [at.lower for at in history], [at.upper for at in history]
    bounds.plot(passes, upper, color="#b5651d", label="objective")
    bounds.plot(passes, lower, color="#0b6e4f", label="certified bound")
    bounds.fill_between(
        passes, lower, upper, color="#0b6e4f", alpha=0.12, label="the optimum lies here"
    )
    bounds.set(xlabel="reads of the data", ylabel="objective")
    bounds.legend(frameon=False)
    gap = [max((at.upper - at.lower) / max(abs(at.upper), 1e-300), 1e-17) for at in history]
    relative.semilogy(seconds, gap, color="#333333", marker=".")
    relative.set(xlabel="seconds", ylabel="relative gap")
    for axis in (bounds, relative):
        axis.grid(alpha=0.3)
    return figure
