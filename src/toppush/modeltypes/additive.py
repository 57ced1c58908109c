"""`--model additive` and `TopLinear`: scores that are a sum of curves of the columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toppush.modeltypes.base import About, FitRows, ModelType, Options, require_shapes
from toppush.modeltypes.linear import CertifiedType
from toppush.system.errors import ModelError
from toppush.tables.column_types import Category, Number, Text
from toppush.tables.columns import Columns
from toppush.types import Array

if TYPE_CHECKING:
    from toppush.modelfile.model import Model
    from toppush.modeltypes.onnx_graph import Graph

CURVES = {"values", "sizes", "levels", "common", "missing", "means"}
"""Entries of `TopLinear.curves_`."""


class Additive(CertifiedType):
    """A sum of curves, one for each column; missing values and categories have their own terms."""

    name = "additive"
    ranker_class = "toppush.models.additive.TopPushAdditive"
    form = "codes"
    scale = None

    def ranker(self, options: Options, rows: FitRows, seed: int) -> Any:
        self.require_folds(options, rows)
        parameters = self.search_parameters(options, rows, seed)
        return self.new_ranker(**parameters, categorical_features=rows.categorical)

    def settings(self, ranker: Any, options: Options) -> About:
        return super().settings(ranker, options) | {"curves": int(ranker.n_features_in_)}

    def describe(self, settings: About) -> str:
        count = settings["curves"]
        return f"The sum of a curve of each of {count} columns: {super().describe(settings)}."

    def n_weights(self, ranker: Any) -> int:
        parts = ranker.values_, ranker.common_, ranker.missing_
        return require_curves(ranker, ranker.levels_, *parts, curves=lambda: ranker._curves)

    def add_to_graph(self, graph: "Graph", model: "Model") -> str:
        ranker: Any = model.ranker
        curves = ranker.values_, ranker.levels_, ranker.common_
        sums = CurveSum(ranker, *curves, float(ranker.offset_), model.is_base_model)
        return sums.add_to_graph(graph, model.columns)


class BaseModelType(ModelType):
    """A model type that is saved and exported as a base model, and not fitted by itself."""

    form = "codes"
    scale = None

    def ranker(self, options: Options, rows: FitRows, seed: int) -> Any:
        raise NotImplementedError

    def settings(self, ranker: Any, options: Options) -> About:
        return {}

    def describe(self, settings: About) -> str:
        return ""


class TopLinearType(BaseModelType):
    """Weights of the columns, or of the features that their curves make."""

    name = "top linear"
    ranker_class = "toppush.auto.linear.TopLinear"

    def lighten(self, ranker: Any) -> None:
        super().lighten(ranker)
        ranker.cv = None

    def restore(self, ranker: Any, about: About) -> None:
        super().restore(ranker, about)
        curves = ranker.curves_
        n_weights = int(ranker.n_features_in_)
        if curves is not None:
            if set(curves) != CURVES:
                raise ModelError("its curves are not described as they should be.")
            if len(curves["values"]) != np.sum(curves["sizes"]) or np.min(curves["sizes"]) < 0:
                raise ModelError("its curves have values of another number than stated.")
            parts = (curves[name] for name in ("levels", "sizes", "common", "missing"))
            n_weights = require_curves(ranker, *parts, curves=lambda: ranker._curves)
        require_shapes(ranker, coef_=(1, n_weights))

    def add_to_graph(self, graph: "Graph", model: "Model") -> str:
        ranker: Any = model.ranker
        curves, threshold = ranker.curves_, float(ranker.threshold_)
        if curves is None:
            rows = graph.matrix(model.columns, ranker.n_features_in_)
            return graph.product(rows, ranker.coef_[0], threshold)
        values: list[Array] = np.split(curves["values"], np.cumsum(curves["sizes"])[:-1])
        levels, common = curves["levels"], curves["common"]
        sums = CurveSum(ranker, values, levels, common, -threshold, model.is_base_model)
        return sums.add_to_graph(graph, model.columns)


def require_curves(
    ranker: Any, levels: NDArray[Any], *parts: Sequence[Any], curves: Callable[[], Any]
) -> int:
    """Refuse curves that do not match the columns or the weights; the number of weights."""
    width = ranker.n_features_in_
    if any(len(part) != width for part in (levels, *parts)):
        raise ModelError(f"its curves are not those of {width} columns.")
    # A curve of n levels has 2^n weights; checked before such a curve is built.
    if np.max(levels) > np.log2(max(np.size(ranker.coef_), 1)):
        raise ModelError("its curves have more knots than weights.")
    built = curves()
    n_weights = int(built.starts[-1])
    if any(np.ndim(column.values) != 1 for column in built.columns):
        raise ModelError("its curves have values that are no lists.")
    if np.shape(built.means) != (n_weights,):
        raise ModelError(f"its curves make {n_weights} features of a row, and have other means.")
    return n_weights


@dataclass(frozen=True)
class CurveSum:
    """A score that is a sum over the columns, with the knots of each curve, for ONNX."""

    ranker: Any
    values: Sequence[Array]
    levels: NDArray[Any]
    """How often each column is divided; -1 for categories."""
    common: Array
    """The value of each column with a term of its own, NaN if there is none."""
    offset: float
    unknown_is_missing: bool = False
    """Whether unknown categories count as missing."""

    def add_to_graph(self, graph: "Graph", columns: Columns | None) -> str:
        """Add the score to an ONNX graph; the name of its output."""
        total = graph.constant([[self.offset]])
        width = self.ranker.n_features_in_
        if columns is None:
            rows = graph.rows(width)
            terms = [self._add_curve(graph, graph.column(rows, j), j) for j in range(width)]
        else:
            terms = [
                self._add_curve(graph, graph.number(column)[0], j)
                if isinstance(column, Number)
                else self._add_category(graph, column, j)
                for j, column in enumerate(columns.columns_)
                if not isinstance(column, Text)  # `onnx_bytes` refuses it
            ]
        for term in terms:
            total = graph.apply("Add", total, term)
        return graph.flat(total)

    def _term(self, j: int, values: Array) -> Array:
        """The term of a column in the score, at some of its values."""
        rows = np.full((len(values), self.ranker.n_features_in_), np.nan)
        rows[:, j] = values
        term: Array = self.ranker.contributions(rows)[:, j]
        return term

    def _knots(self, j: int) -> Array:
        """Every value at which the curve of a column of numbers may change its slope."""
        known, levels = self.values[j], int(self.levels[j])
        if levels < 0:
            raise ModelError("exports of curves know categories of tables alone.")
        values = known if len(known) else np.zeros(1)
        places = np.linspace(0.0, 1.0, len(values))
        between = np.interp(np.linspace(0.0, 1.0, (1 << levels) + 1), places, values)
        return np.unique(np.concatenate([values, between]))

    def _add_category(self, graph: "Graph", column: Category, j: int) -> str:
        """The term of a category, of an unknown one, or of a missing value."""
        n_categories = len(column.categories)
        unknown = np.nan if self.unknown_is_missing else n_categories
        codes = np.append(np.arange(float(n_categories)), [unknown, np.nan])
        terms = self._term(j, codes)
        code, missing = graph.category(column)
        term = graph.apply("Gather", graph.constant(terms[:-1]), code)
        at_missing = graph.constant([[terms[-1]]])
        return graph.apply("Where", graph.true(missing), at_missing, term)

    def _add_curve(self, graph: "Graph", column: str, j: int) -> str:
        """The curve by linear interpolation between its knots, constant beyond them."""
        knots, common = self._knots(j), float(self.common[j])
        # The curve continues through the common value, which has a term of its own.
        shifted = np.where(knots == common, np.nextafter(knots, np.inf), knots)
        terms = self._term(j, np.append(shifted, [np.nan, common]))
        heights, at_missing, at_common = terms[:-2], terms[-2], terms[-1]
        slopes = np.append(np.diff(heights) / np.diff(knots), 0.0)
        missing = graph.apply("IsNaN", column)
        value = graph.apply("Where", missing, graph.constant([[0.0]]), column)
        value = graph.apply("Min", value, graph.constant(knots[-1]))
        value = graph.apply("Max", value, graph.constant(knots[0]))
        above = graph.apply("Not", graph.apply("Less", value, graph.constant(knots[None, :])))
        place = graph.apply("Sub", graph.sum(graph.double(above)), graph.constant([[1.0]]))
        place = graph.integers(place)
        start, height, slope = (
            graph.apply("Gather", graph.constant(table), place)
            for table in (knots, heights, slopes)
        )
        rise = graph.apply("Mul", slope, graph.apply("Sub", value, start))
        term = graph.apply("Add", height, rise)
        if not np.isnan(common):
            is_common = graph.apply("Equal", column, graph.constant([[common]]))
            term = graph.apply("Where", is_common, graph.constant([[at_common]]), term)
        return graph.apply("Where", missing, graph.constant([[at_missing]]), term)
