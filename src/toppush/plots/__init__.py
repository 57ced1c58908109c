"""Pictures; matplotlib is imported when one is drawn."""

from toppush.plots.curves import CurvesDisplay
from toppush.plots.displays import TopCurveDisplay, TopRocDisplay, list_lengths
from toppush.plots.history import draw_history

__all__ = ["CurvesDisplay", "TopCurveDisplay", "TopRocDisplay", "draw_history", "list_lengths"]
