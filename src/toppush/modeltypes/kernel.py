"""`TopKernel` as a base model: kernel machines, which are arrays."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from toppush.models.kernel import N_KNOTS, KernelColumns
from toppush.modeltypes.additive import BaseModelType
from toppush.modeltypes.base import require_numbers, require_shapes
from toppush.system.errors import ModelError

if TYPE_CHECKING:
    from toppush.modelfile.model import Model
    from toppush.modeltypes.onnx_graph import Graph

POSITIONS = ("numbers", "missing", "categorical")
"""Entries of `TopKernel.columns_` that hold positions of columns."""


class KernelType(BaseModelType):
    """The mean of several kernel machines with the same gamma."""

    name = "kernel"
    ranker_class = "toppush.auto.kernel.TopKernel"

    def lighten(self, ranker: Any) -> None:
        super().lighten(ranker)
        ranker.cv = None

    def restore(self, ranker: Any, about: Any) -> None:
        super().restore(ranker, about)
        width = require_columns(ranker.columns_, ranker.n_features_in_)
        n_machines, n_support = len(ranker.intercept_), len(ranker.support_vectors_)
        require_numbers(ranker, "support_vectors_", (n_support, width))
        require_numbers(ranker, "dual_coef_", (n_machines, n_support))
        require_numbers(ranker, "intercept_", (n_machines,))
        require_shapes(ranker, background_=(len(ranker.background_), ranker.n_features_in_))
        if not n_machines or np.ndim(ranker.gamma_) or not 0.0 < ranker.gamma_ < np.inf:
            raise ModelError("its kernel has no machine, or a gamma that is not above 0.")

    def add_to_graph(self, graph: "Graph", model: "Model") -> str:
        ranker: Any = model.ranker
        columns = KernelColumns(**ranker.columns_)
        rows = graph.codes(model.columns, ranker.n_features_in_)
        parts = add_curves(graph, rows, columns) + add_indicators(graph, rows, columns)
        if not parts:
            parts = [graph.apply("Mul", graph.column(rows, 0), graph.constant(0.0))]
        prepared = graph.apply("Concat", *parts, axis=1)
        similar = graph.gaussian(prepared, ranker.support_vectors_, float(ranker.gamma_))
        threshold = float(ranker.threshold_ - ranker.intercept_.mean())
        return graph.product(similar, ranker.dual_coef_.mean(axis=0), threshold)


def require_columns(columns: Any, n_features: int) -> int:
    """Refuse prepared columns of other columns than the ranker has; the number of them."""
    names = [field.name for field in fields(KernelColumns)]
    if not isinstance(columns, dict) or set(columns) != set(names):
        raise ModelError("its prepared columns are not described as they should be.")
    shapes = {name: np.shape(columns[name]) for name in names}
    n_numbers, n_categories = len(columns["numbers"]), len(columns["categorical"])
    wanted = {
        "numbers": (n_numbers,),
        "knots": (n_numbers, N_KNOTS),
        "heights": (n_numbers, N_KNOTS),
        "at_missing": (n_numbers,),
        "missing": (len(columns["missing"]),),
        "categorical": (n_categories,),
        "categories": (n_categories,),
    }
    if shapes != wanted:
        raise ModelError(f"its prepared columns have the shapes {shapes}, which do not fit.")
    for name in names:
        values = np.asarray(columns[name])
        if name in POSITIONS:
            right = values.dtype.kind == "i" and ((values >= 0) & (values < n_features)).all()
        else:
            right = values.dtype == np.float64 and np.isfinite(values).all()
        if not right:
            raise ModelError(f"its prepared columns have {name} that are not possible.")
    if (np.diff(columns["knots"], axis=1) < 0.0).any():
        raise ModelError("its prepared columns have knots that do not ascend.")
    return max(n_numbers + len(columns["missing"]) + n_categories, 1)


def add_curves(graph: "Graph", rows: str, columns: KernelColumns) -> list[str]:
    """The heights of the columns of numbers: a sum of pieces, all of which are clipped lines."""
    if not len(columns.numbers):
        return []
    values = graph.apply("Gather", rows, graph.constant(columns.numbers, np.int64), axis=1)
    missing = graph.apply("IsNaN", values)
    knots, heights = columns.knots[:, :-1], columns.heights
    widths = np.diff(columns.knots, axis=1)
    slopes = np.diff(heights, axis=1) / np.where(widths > 0.0, widths, 1.0)
    filled = graph.apply("Where", missing, graph.constant(0.0), values)
    above = graph.apply(
        "Sub",
        graph.apply("Unsqueeze", filled, graph.constant([2], np.int64)),
        graph.constant(knots),
    )
    inside = graph.apply(
        "Min", graph.apply("Max", above, graph.constant(0.0)), graph.constant(widths)
    )
    rises = graph.apply("Mul", inside, graph.constant(slopes))
    total = graph.apply("ReduceSum", rises, graph.constant([2], np.int64), keepdims=0)
    curve = graph.apply("Add", total, graph.constant(heights[:, 0]))
    return [graph.apply("Where", missing, graph.constant(columns.at_missing), curve)]


def add_indicators(graph: "Graph", rows: str, columns: KernelColumns) -> list[str]:
    """Indicators of missing values, and of categories."""
    parts = []
    if len(columns.missing):
        some = graph.apply("Gather", rows, graph.constant(columns.missing, np.int64), axis=1)
        parts.append(graph.double(graph.apply("IsNaN", some)))
    if len(columns.categorical):
        codes = graph.apply("Gather", rows, graph.constant(columns.categorical, np.int64), axis=1)
        same = graph.apply("Equal", codes, graph.constant(columns.categories))
        parts.append(graph.double(same))
    return parts
