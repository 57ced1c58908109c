"""The bounds of a solve as a picture."""

from typing import TYPE_CHECKING

from toppush.system.extras import needs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from toppush.problem.solution import Iteration

NEEDS_MATPLOTLIB = needs("a picture", "matplotlib")


def draw_history(history: "tuple[Iteration, ...]") -> "Figure":
    """Bounds of the objective against reads of the data and against seconds.

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
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(NEEDS_MATPLOTLIB) from error
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    bounds, gaps = figure.subplots(1, 2)
    passes, seconds = [at.passes for at in history], [at.seconds for at in history]
    lower, upper = [at.lower for at in history], [at.upper for at in history]
    bounds.plot(passes, upper, color="#b5651d", label="objective")
    bounds.plot(passes, lower, color="#0b6e4f", label="proven bound")
    bounds.fill_between(
        passes, lower, upper, color="#0b6e4f", alpha=0.12, label="the optimum lies here"
    )
    bounds.set(xlabel="reads of the data", ylabel="objective")
    bounds.legend(frameon=False)
    gap = [max((at.upper - at.lower) / max(abs(at.upper), 1e-300), 1e-17) for at in history]
    gaps.semilogy(seconds, gap, color="#333333", marker=".")
    gaps.set(xlabel="seconds", ylabel="relative gap")
    for axis in (bounds, gaps):
        axis.grid(alpha=0.3)
    return figure
