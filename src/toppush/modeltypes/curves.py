"""Rankers that are a sum of curves of the columns, as ONNX."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toppush.system.errors import ModelError
from toppush.tables.column_types import Category, Column, Number
from toppush.tables.columns import Columns
from toppush.types import Array

if TYPE_CHECKING:
    from toppush.export.onnx_graph import Graph


@dataclass(frozen=True)
class Curved:
    """A ranker whose score is a sum over the columns, and where each of its curves bends."""

    ranker: Any
    values: Sequence[Array]
    levels: NDArray[Any]
    """Of each column how often it is divided; -1 of categories."""
    common: Array
    """Of each column a value with a height of its own, NaN if there is none."""
    offset: float
    unknown_is_gap: bool = False
    """Whether texts that are not known count as missing."""

    def heights_at(self, j: int, values: Array) -> Array:
        """What a column adds to the score at some values."""
        rows = np.full((len(values), self.ranker.n_features_in_), np.nan)
        rows[:, j] = values
        added: Array = self.ranker.contributions(rows)[:, j]
        return added

    def shape(self, j: int) -> "Shape":
        """The curve of a column of numbers, with every point at which it bends."""
        known, levels = self.values[j], int(self.levels[j])
        if levels < 0:
            raise ModelError("exports of curves know categories of tables alone.")
        values = known if len(known) else np.zeros(1)
        places = np.linspace(0.0, 1.0, len(values))
        bends = np.interp(np.linspace(0.0, 1.0, (1 << levels) + 1), places, values)
        points = np.unique(np.concatenate([values, bends]))
        common = float(self.common[j])
        # The curve goes on through the common value, which has a height of its own.
        asked = np.where(points == common, np.nextafter(points, np.inf), points)
        heights = self.heights_at(j, np.append(asked, [np.nan, common]))
        return Shape(points, heights[:-2], float(heights[-2]), common, float(heights[-1]))

    def text_levels(self, j: int, column: Category) -> tuple[Array, float]:
        """What each text adds, then an unknown one; and what a gap adds."""
        n_texts = len(column.categories)
        unknown = np.nan if self.unknown_is_gap else n_texts
        found = self.heights_at(j, np.append(np.arange(float(n_texts)), [unknown, np.nan]))
        return found[:-1], float(found[-1])

    def on_graph(self, graph: "Graph", columns: Columns | None) -> str:
        """The score as ONNX."""
        total = graph.constant([[self.offset]])
        width = self.ranker.n_features_in_
        if columns is None:
            rows = graph.rows(width)
            given = [graph.column(rows, j) for j in range(width)]
            parts = [_on_graph(graph, one, self.shape(j)) for j, one in enumerate(given)]
        else:
            named = enumerate(columns.columns_)
            parts = [self._column_on_graph(graph, one, j) for j, one in named]
        for part in parts:
            total = graph.apply("Add", total, part)
        return graph.flat(total)

    def _column_on_graph(self, graph: "Graph", column: Column, j: int) -> str:
        if isinstance(column, Number):
            return _on_graph(graph, graph.number(column)[0], self.shape(j))
        levels, gap = self.text_levels(j, column)
        place, gaps = graph.place(column)
        added = graph.apply("Gather", graph.constant(levels), place)
        return graph.apply("Where", graph.true(gaps), graph.constant([[gap]]), added)


def require_sound(
    ranker: Any, levels: NDArray[Any], *parts: Sequence[Any], curves: Callable[[], Any]
) -> int:
    """Refuse curves that are not those of the columns, or bend where there is no weight.

    The number of weights, one for each that the curves make of a row.
    """
    width = ranker.n_features_in_
    if any(len(part) != width for part in (levels, *parts)):
        raise ModelError(f"its curves are not those of {width} columns.")
    # A curve has 2^levels weights, and is walked down level by level.
    if np.max(levels) > np.log2(max(np.size(ranker.coef_), 1)):
        raise ModelError("its curves have more bends than weights.")
    made = curves()
    n_weights = int(made.starts[-1])
    if any(np.ndim(column.values) != 1 for column in made.columns):
        raise ModelError("its curves have values that are no lists.")
    if np.shape(made.means) != (n_weights,):
        raise ModelError(f"its curves make {n_weights} numbers of a row, and have other means.")
    return n_weights


class Shape(NamedTuple):
    """What a column adds: straight lines between points, level beyond them."""

    values: Array
    heights: Array
    missing: float
    common: float
    """A value with a height of its own, NaN if there is none."""
    at_common: float


def _on_graph(graph: "Graph", given: str, shape: Shape) -> str:
    """Which two points a value lies between, and how high the line is there."""
    points, heights = shape.values, shape.heights
    slopes = np.append(np.diff(heights) / np.diff(points), 0.0)
    value = graph.apply("Where", graph.apply("IsNaN", given), graph.constant([[0.0]]), given)
    ends = graph.constant(points[0]), graph.constant(points[-1])
    value = graph.apply("Max", graph.apply("Min", value, ends[1]), ends[0])
    above = graph.apply("Not", graph.apply("Less", value, graph.constant(points[None, :])))
    place = graph.apply("Sub", graph.sum(graph.double(above)), graph.constant([[1.0]]))
    place = graph.integers(place)
    start, height, slope = (
        graph.apply("Gather", graph.constant(one), place) for one in (points, heights, slopes)
    )
    risen = graph.apply("Mul", slope, graph.apply("Sub", value, start))
    found = graph.apply("Add", height, risen)
    if not np.isnan(shape.common):
        is_common = graph.apply("Equal", given, graph.constant([[shape.common]]))
        found = graph.apply("Where", is_common, graph.constant([[shape.at_common]]), found)
    gaps = graph.apply("IsNaN", given)
    return graph.apply("Where", gaps, graph.constant([[shape.missing]]), found)
