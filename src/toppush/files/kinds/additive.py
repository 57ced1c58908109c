"""`--model additive`: TopPushAdditive, a curve of each column, with a certificate."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from toppush.files.column_types import Category, Number
from toppush.files.errors import ModelError
from toppush.files.kinds.base import About, FitRows, Options
from toppush.files.kinds.searched import Searched
from toppush.types import Array

if TYPE_CHECKING:
    from toppush.files.model.fitted import Model
    from toppush.files.model.graph import Graph


class Additive(Searched):
    """A sum of curves, one for each column; gaps and texts have levels of their own."""

    name = "additive"
    home = "toppush.nonlinear.additive.TopPushAdditive"
    form = "codes"
    scale = None

    def more(self, rows: FitRows, seed: int) -> Options:
        return {"categorical_features": rows.coded}

    def settings(self, ranker: Any, options: Options) -> About:
        return super().settings(ranker, options) | {"curves": int(ranker.n_features_in_)}

    def subject(self, settings: About) -> str:
        return f"The sum of a curve of each of {settings['curves']} columns: "

    def restore(self, ranker: Any, about: About) -> None:
        super().restore(ranker, about)
        parts = ranker.values_, ranker.levels_, ranker.common_, ranker.missing_
        if any(len(part) != ranker.n_features_in_ for part in parts):
            raise ModelError(f"its curves are not those of {ranker.n_features_in_} columns.")
        # A curve has 2^levels weights, and is walked down level by level.
        if np.max(ranker.levels_) > np.log2(max(np.size(ranker.coef_), 1)):
            raise ModelError("its curves have more bends than weights.")

    def graph(self, graph: "Graph", model: "Model") -> str:
        ranker: Any = model.ranker
        total = graph.constant([[ranker.offset_]])
        if model.columns is None:
            rows = graph.rows(ranker.n_features_in_)
            given = [graph.column(rows, j) for j in range(ranker.n_features_in_)]
            parts = [_on_graph(graph, one, shape_of(ranker, j)) for j, one in enumerate(given)]
        else:
            named = enumerate(model.columns.columns_)
            parts = [_column_on_graph(graph, one, ranker, j) for j, one in named]
        for part in parts:
            total = graph.apply("Add", total, part)
        return graph.flat(total)

    def exported(self, model: "Model") -> About:
        ranker: Any = model.ranker
        known = model.columns.columns_ if model.columns is not None else []
        named: Sequence[Number | Category | None] = known or [None] * ranker.n_features_in_
        return {
            "format": "toppush curves 1",
            "offset": ranker.offset_,
            "columns": [_as_json(one, ranker, j) for j, one in enumerate(named)],
        }


class Shape(NamedTuple):
    """What a column adds: straight lines between points, level beyond them."""

    values: Array
    heights: Array
    missing: float
    common: float
    """A value with a height of its own, NaN if there is none."""
    at_common: float


def shape_of(ranker: Any, j: int) -> Shape:
    """The curve of a column of numbers, with every point at which it bends."""
    known, levels = ranker.values_[j], int(ranker.levels_[j])
    if levels < 0:
        raise ModelError("exports of curves know categories of tables alone.")
    values = known if len(known) else np.zeros(1)
    places = np.linspace(0.0, 1.0, len(values))
    bends = np.interp(np.linspace(0.0, 1.0, (1 << levels) + 1), places, values)
    points = np.unique(np.concatenate([values, bends]))
    common = float(ranker.common_[j])
    # The curve goes on through the common value, which has a height of its own.
    asked = np.where(points == common, np.nextafter(points, np.inf), points)
    heights = heights_at(ranker, j, np.append(asked, [np.nan, common]))
    return Shape(points, heights[:-2], float(heights[-2]), common, float(heights[-1]))


def heights_at(ranker: Any, j: int, values: Array) -> Array:
    """What a column adds to the score at some values."""
    rows = np.full((len(values), ranker.n_features_in_), np.nan)
    rows[:, j] = values
    added: Array = ranker.contributions(rows)[:, j]
    return added


def _levels(ranker: Any, j: int, column: Category) -> tuple[Array, float]:
    """What each text adds, then an unknown one; and what a gap adds."""
    places = np.append(np.arange(len(column.texts) + 1.0), np.nan)
    found = heights_at(ranker, j, places)
    return found[:-1], float(found[-1])


def _as_json(column: Number | Category | None, ranker: Any, j: int) -> About:
    name = {"column": j} if column is None else {"name": column.name}
    if isinstance(column, Category):
        levels, gap = _levels(ranker, j, column)
        texts = dict(zip(column.texts, levels[:-1].tolist(), strict=True))
        return name | {"texts": texts, "unknown": float(levels[-1]), "missing": gap}
    shape = shape_of(ranker, j)
    found = {"values": shape.values.tolist(), "adds": shape.heights.tolist()}
    if not np.isnan(shape.common):
        found |= {"common": shape.common, "common_adds": shape.at_common}
    return name | found | {"missing": shape.missing}


def _column_on_graph(graph: "Graph", column: Number | Category, ranker: Any, j: int) -> str:
    if isinstance(column, Number):
        return _on_graph(graph, graph.number(column)[0], shape_of(ranker, j))
    levels, gap = _levels(ranker, j, column)
    place, gaps = graph.place(column)
    added = graph.apply("Gather", graph.constant(levels), place)
    return graph.apply("Where", graph.true(gaps), graph.constant([[gap]]), added)


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
