"""The top of a ranking as scikit-learn Displays: lists of growing length, and the ROC curve.

Both have a logarithmic axis, because what matters happens among the first rows. Ties are those
of `toppush.metrics`: a list that ends within a tie holds its positives in proportion, and a
threshold takes all rows of a tie or none.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toppush.metrics import TopCurve, top_curve
from toppush.plots.history import NEEDS_MATPLOTLIB

Array = NDArray[Any]

ALL_UP_TO = 100
"""List lengths that are drawn one by one; from there on a logarithmic grid."""


def list_lengths(longest: float, *, per_decade: int = 200) -> NDArray[np.int64]:
    """Whole numbers from 1 to `longest`: each up to 100, then about `per_decade` a decade."""
    last = int(longest)
    decades = max(np.log10(max(last, 1) / ALL_UP_TO), 0.0)
    grid = np.geomspace(min(ALL_UP_TO, last), last, 2 + int(decades * per_decade))
    lengths = np.append(np.arange(1, min(ALL_UP_TO, last) + 1), np.rint(grid))
    return np.unique(lengths.astype(np.int64))


class _Display:
    """What both displays share: where the scores come from, and the axes."""

    name: str | None
    pos_label: Any
    plot: Callable[..., Any]
    ax_: Any
    figure_: Any
    chance_level_: Any

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Rank the rows of X and draw the list.

        Parameters
        ----------
        estimator : fitted estimator or pipeline
            Its `decision_function` ranks, or else its `predict_proba`.
        X : array, sparse matrix or data frame of shape (n_rows, n_features)
        y : array of shape (n_rows,)
            Labels of two classes.
        sample_weight : array of shape (n_rows,), optional
        pos_label : optional
            The class that should be on top; by default the second of the estimator's classes.
        name : str, optional
            Name in the legend; by default the class of the estimator.
        ax : matplotlib Axes, optional
            Axes to draw on; by default those of a new figure.
        **kwargs
            As for `plot`.

        Returns
        -------
        display
        """
        scores, pos_label = _responses(estimator, X, pos_label)
        return cls.from_predictions(
            y,
            scores,
            sample_weight=sample_weight,
            pos_label=pos_label,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the list that scores make; O(n log n) for n rows.

        Parameters
        ----------
        y_true, y_score, sample_weight, pos_label
            The list, as at the head of `toppush.metrics`.
        name : str, optional
            Name in the legend.
        ax : matplotlib Axes, optional
            Axes to draw on; by default those of a new figure.
        **kwargs
            As for `plot`.

        Returns
        -------
        display
        """
        display = cls._of(top_curve(y_true, y_score, sample_weight, pos_label), name, pos_label)
        display.plot(ax=ax, **kwargs)
        return display

    @classmethod
    def _of(cls, curve: TopCurve, name: str | None, pos_label: Any) -> Self:
        raise NotImplementedError

    def _start(self, ax: Any, x_label: str, y_label: str) -> None:
        """Set the axes and their labels."""
        if ax is None:
            ax = _new_axes()
        self.ax_, self.figure_ = ax, ax.figure
        told = "" if self.pos_label is None else f" (positive label: {self.pos_label})"
        ax.set(xscale="log", xlabel=x_label, ylabel=y_label + told, ylim=(-0.02, 1.02))

    def _finish(self, despine: bool) -> Self:
        """Draw the legend where a line has a name."""
        if self.ax_.get_legend_handles_labels()[1]:
            self.ax_.legend(loc="best")
        if despine:
            self.ax_.spines[["top", "right"]].set_visible(False)
        return self


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
    name : str, optional
        Name in the legend.
    pos_label : optional
        The positive class, told on the axis.

    Attributes
    ----------
    ax_, figure_
        The matplotlib Axes and Figure.
    precision_line_, recall_line_
        The two lines.
    chance_level_
        The line of a random order, or None.

    Examples
    --------
    >>> display = TopCurveDisplay.from_predictions([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4])
    >>> display.precision.round(2).tolist()
    [1.0, 0.5, 0.67, 0.5]
    """

    def __init__(
        self,
        *,
        length: Array,
        precision: Array,
        recall: Array,
        prevalence: float | None = None,
        name: str | None = None,
        pos_label: Any = None,
    ) -> None:
        self.length = length
        self.precision = precision
        self.recall = recall
        self.prevalence = prevalence
        self.name = name
        self.pos_label = pos_label

    @classmethod
    def _of(cls, curve: TopCurve, name: str | None, pos_label: Any) -> Self:
        # Weights of which all sum to less than 1 have no list of length 1.
        length = list_lengths(curve.depth[-1]) if curve.depth[-1] >= 1 else curve.depth[-1:]
        hits = curve.hits_within(length)
        return cls(
            length=length,
            precision=hits / length,
            recall=hits / curve.n_pos,
            prevalence=curve.n_pos / float(curve.depth[-1]),
            name=name,
            pos_label=pos_label,
        )

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        precision_kwargs: dict[str, Any] | None = None,
        recall_kwargs: dict[str, Any] | None = None,
        plot_chance_level: bool = False,
        chance_level_kw: dict[str, Any] | None = None,
        despine: bool = False,
    ) -> Self:
        """Draw both lines.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; by default those of a new figure.
        name : str, optional
            Name in the legend; by default the display's own.
        precision_kwargs, recall_kwargs : dict, optional
            Passed to matplotlib's `plot`.
        plot_chance_level : bool, default=False
            Draw the precision of a random order as well.
        chance_level_kw : dict, optional
            Passed to matplotlib's `plot`.
        despine : bool, default=False
            Take the top and right spines away.

        Returns
        -------
        display
        """
        self._start(ax, "length of the list", "share")
        name = self.name if name is None else name
        prefix = "" if name is None else f"{name}: "
        style = {"label": f"{prefix}precision"} | (precision_kwargs or {})
        (self.precision_line_,) = self.ax_.plot(self.length, self.precision, **style)
        colour = self.precision_line_.get_color()
        style = {"label": f"{prefix}recall", "linestyle": "--", "color": colour}
        (self.recall_line_,) = self.ax_.plot(
            self.length, self.recall, **style | (recall_kwargs or {})
        )
        self.chance_level_ = None
        if plot_chance_level and self.prevalence is not None:
            style = {"label": "precision by chance", "color": "k", "linestyle": ":"}
            (self.chance_level_,) = self.ax_.plot(
                self.length[[0, -1]], [self.prevalence] * 2, **style | (chance_level_kw or {})
            )
        return self._finish(despine)


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
    name : str, optional
        Name in the legend.
    pos_label : optional
        The positive class, told on the axis.

    Attributes
    ----------
    ax_, figure_
        The matplotlib Axes and Figure.
    line_
        The curve.
    chance_level_
        The line of a random order, or None.
    """

    def __init__(
        self, *, fpr: Array, tpr: Array, name: str | None = None, pos_label: Any = None
    ) -> None:
        self.fpr = fpr
        self.tpr = tpr
        self.name = name
        self.pos_label = pos_label

    @classmethod
    def _of(cls, curve: TopCurve, name: str | None, pos_label: Any) -> Self:
        fpr, tpr = curve.alarms / curve.n_neg, curve.hits / curve.n_pos
        return cls(fpr=fpr, tpr=tpr, name=name, pos_label=pos_label)

    @property
    def left_end(self) -> float:
        """Where the rate 0 is drawn."""
        return float(self.fpr[self.fpr > 0][0]) / 2

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        curve_kwargs: dict[str, Any] | None = None,
        plot_chance_level: bool = False,
        chance_level_kw: dict[str, Any] | None = None,
        despine: bool = False,
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; by default those of a new figure.
        name : str, optional
            Name in the legend; by default the display's own.
        curve_kwargs : dict, optional
            Passed to matplotlib's `plot`.
        plot_chance_level : bool, default=False
            Draw the curve of a random order as well.
        chance_level_kw : dict, optional
            Passed to matplotlib's `plot`.
        despine : bool, default=False
            Take the top and right spines away.

        Returns
        -------
        display
        """
        self._start(ax, "false positive rate", "recall")
        style: dict[str, Any] = {"drawstyle": "steps-post", "label": name or self.name}
        (self.line_,) = self.ax_.plot(
            np.maximum(self.fpr, self.left_end), self.tpr, **style | (curve_kwargs or {})
        )
        self.chance_level_ = None
        if plot_chance_level:
            style = {"label": "by chance", "color": "k", "linestyle": ":"}
            rates = np.geomspace(self.left_end, 1.0, 100)
            (self.chance_level_,) = self.ax_.plot(rates, rates, **style | (chance_level_kw or {}))
        return self._finish(despine)


def _new_axes() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(NEEDS_MATPLOTLIB) from error
    return plt.subplots(layout="constrained")[1]


def _responses(estimator: Any, X: Any, pos_label: Any) -> tuple[Array, Any]:
    """Scores in favour of the positive class, and that class."""
    classes = list(estimator.classes_)
    if len(classes) != 2:
        raise ValueError(f"The estimator knows {len(classes)} classes; fit one of two classes.")
    wanted = classes[1] if pos_label is None else pos_label
    if wanted not in classes:
        raise ValueError(f"pos_label={wanted!r} is not a class; pass one of {classes}.")
    second = wanted == classes[1]
    if hasattr(estimator, "decision_function"):
        scores = np.asarray(estimator.decision_function(X))
        return (scores if second else -scores), wanted
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(X))[:, int(second)], wanted
    raise ValueError(
        f"{type(estimator).__name__} has neither decision_function nor predict_proba; "
        "pass its scores to from_predictions."
    )
