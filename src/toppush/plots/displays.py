"""The top of a ranking as scikit-learn Displays: lists of growing length, and the ROC curve.

Both have a logarithmic axis, because what matters happens among the first rows. Ties are those
of `toppush.metrics`: a list that ends within a tie holds its positives in proportion, and a
threshold takes all rows of a tie or none. A display that is drawn has the matplotlib Axes and
Figure as `ax_` and `figure_`, and as `chance_level_` the line of a random order, or None.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toppush.metrics import TopCurve, top_curve
from toppush.metrics.labels import positive_label
from toppush.plots.history import NEEDS_MATPLOTLIB
from toppush.types import Array, Matrix, Where

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

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
    """What both displays share: where the scores come from, the axes, the line of chance."""

    axes: ClassVar[tuple[str, str]]
    """What the axes are called."""
    name: str | None
    pos_label: object
    ax_: "Axes"
    figure_: "Figure | SubFigure"
    chance_level_: "Line2D | None"
    _draw: Callable[..., None]
    """Draws the lines, given a name and their styles."""

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Matrix, y: ArrayLike, *, pos_label: object = None, **kwargs: Any
    ) -> Self:
        """Rank the rows of X and draw the list.

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
        """Draw the list that scores make; O(n log n) for n rows.

        Parameters
        ----------
        y_true, y_score, sample_weight, pos_label
            The list, as at the head of `toppush.metrics.ranking`.
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
        """What a random order gives, if that is known: a label, and the points of its line."""

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
            Draw what a random order gives as well.
        chance_level_kw : dict, optional
            Passed to matplotlib's `plot`.
        despine : bool, default=False
            Take the top and right spines away.
        **styles : dict
            Passed to matplotlib's `plot`: `precision_kwargs` and `recall_kwargs` of a
            `TopCurveDisplay`, `curve_kwargs` of a `TopRocDisplay`.

        Returns
        -------
        display
        """
        self.ax_ = ax = _new_axes() if ax is None else ax
        self.figure_ = ax.figure
        told = "" if self.pos_label is None else f" (positive label: {self.pos_label})"
        x_label, y_label = self.axes
        ax.set(xscale="log", xlabel=x_label, ylabel=y_label + told, ylim=(-0.02, 1.02))
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
    """Precision and recall against the length of the list, on a logarithmic axis.

    Make one with `from_estimator` or `from_predictions`. Parameters are kept as attributes.

    Parameters
    ----------
    length : array of shape (n_points,)
        Lengths of the list, in rows or, with sample weights, in units of weight.
    precision : array of shape (n_points,)
        Share of positives among the first rows, as `toppush.metrics.precision_at_k`.
    recall : array of shape (n_points,)
        Share of all positives that the first rows hold, as `toppush.metrics.recall_at_k`.
    prevalence : float, optional
        Share of positives in the whole list: the precision of a list in random order.
    name, pos_label : optional
        Name in the legend, and the positive class, told on the axis.

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
        # Weights of which all sum to less than 1 have no list of length 1.
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


def _new_axes() -> "Axes":
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(NEEDS_MATPLOTLIB) from error
    return plt.figure(layout="constrained").add_subplot()


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
