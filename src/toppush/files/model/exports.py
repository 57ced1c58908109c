"""Models for other programs: ONNX, and the weights by column name as JSON."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.kernel_approximation import Nystroem

from toppush.designs import dense
from toppush.files.columns import Category, Columns, Number
from toppush.files.errors import ModelError, need
from toppush.files.model.fitted import About, Model
from toppush.files.model.linear import ColumnPart, LinearScore, scaling
from toppush.files.model.saving import require_no_training_rows
from toppush.system.writing import write_bytes, write_text
from toppush.types import Array

OPSET, ML_OPSET = 17, 3
SCORE = "score"
UNNAMED = "X"
"""The input of a model without column names."""


def export_json(model: Model, path: str | Path) -> None:
    """Write the weights of a linear model by column name, for any program that can add.

    score = sum over columns of (weight x value, "missing" where there is none; or the part of the
    text, "missing", or 0 for a text that is not listed) - threshold.

    Parameters
    ----------
    model : Model
    path : path
    """
    require_no_training_rows(path, model.about)
    linear = model.linear
    if linear is None:
        raise ModelError("weights by column are those of a linear model, and this has a kernel.")
    if linear.columns is None:
        weights: About = {"weights": linear.weights.tolist()}
    else:
        weights = {"columns": {part.column.name: _as_json(part) for part in linear.parts()}}
    about = {"format": "toppush weights 1", "label": model.about.get("label")}
    text = json.dumps(about | {"threshold": linear.threshold} | weights, indent=1, allow_nan=False)
    write_text(path, text + "\n")


def _as_json(part: ColumnPart) -> About:
    if isinstance(part.column, Number):
        weight = float(part.weights[0])
        return {"weight": weight, "missing": weight * part.column.fill + part.gap}
    texts = dict(zip(part.column.texts, part.weights[:-1].tolist(), strict=True))
    return {"texts": texts, "missing": part.gap}


def export_onnx(model: Model, path: str | Path) -> None:
    """Write the model as an ONNX graph, in double precision.

    Inputs are the columns by name, each of shape (rows, 1): double numbers, NaN where missing, and
    strings, empty where missing; or one matrix X of doubles. The output is "score", or "toppush
    score" if a column has that name.

    Parameters
    ----------
    model : Model
    path : path
    """
    require_no_training_rows(path, model.about)
    graph = _Graph()
    linear = model.linear
    score = _kernel_graph(graph, model) if linear is None else _linear_graph(graph, linear)
    write_bytes(path, graph.finish(score))


class _Graph:
    """Nodes, constants and inputs as they come; names are numbers."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError as error:
            raise need("onnx", error) from None
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []

    def input(self, name: str, width: int, *, texts: bool = False) -> str:
        """A column or a matrix that the caller gives."""
        proto = self.onnx.TensorProto
        kind = proto.STRING if texts else proto.DOUBLE
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, ["rows", width]))
        return name

    def constant(self, value: ArrayLike, kind: DTypeLike = np.float64) -> str:
        """An array that is part of the model."""
        name = f"toppush constant {len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def apply(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """A node, and the name of what it gives."""
        name = f"toppush step {len(self.nodes)}"
        make = self.onnx.helper.make_node
        self.nodes.append(make(operator, list(inputs), [name], domain=domain, **attributes))
        return name

    def finish(self, score: str) -> bytes:
        """The model as bytes, checked."""
        helper = self.onnx.helper
        taken = any(one.name == SCORE for one in self.inputs)
        name = f"toppush {SCORE}" if taken else SCORE
        self.nodes.append(helper.make_node("Identity", [score], [name]))
        output = helper.make_tensor_value_info(name, self.onnx.TensorProto.DOUBLE, ["rows"])
        graph = helper.make_graph(self.nodes, "toppush", self.inputs, [output], self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        made = helper.make_model(graph, opset_imports=opsets, producer_name="toppush")
        made.ir_version = 8
        self.onnx.checker.check_model(made, full_check=True)
        return made.SerializeToString()  # type: ignore[no-any-return]


def _linear_graph(graph: _Graph, linear: LinearScore) -> str:
    if linear.columns is None:
        rows = graph.input(UNNAMED, len(linear.weights))
        return _product(graph, rows, linear.weights, linear.threshold)
    total = graph.constant([[-linear.threshold]])
    for part in linear.parts():
        if isinstance(part.column, Number):
            value, gaps = _number(graph, part.column)
            added = graph.apply("Mul", value, graph.constant(part.weights[0]))
        else:
            place, gaps = _place(graph, part.column)
            added = graph.apply("Gather", graph.constant(part.weights), place)
        total = graph.apply("Add", total, added)
        if part.gap:
            total = graph.apply("Add", total, graph.apply("Mul", gaps, graph.constant(part.gap)))
    return graph.apply("Squeeze", total, graph.constant([1], np.int64))


def _kernel_graph(graph: _Graph, model: Model) -> str:
    """Columns as numbers, scaled; their kernel with the landmarks; one product."""
    *before, (_, kernel), (_, ranker) = model.pipeline.steps
    if not isinstance(kernel, Nystroem) or kernel.kernel != "rbf":
        raise ModelError(f"ONNX export knows linear models and Nystroem, and this has {kernel!r}.")
    scalers = [step for _, step in before[model.columns is not None :]]
    found = scaling(scalers, kernel.n_features_in_)
    if found is None:
        raise ModelError("ONNX export knows the scalers MaxAbsScaler and StandardScaler.")
    factor, shift = found
    rows = _matrix(graph, model.columns, kernel.n_features_in_)
    rows = graph.apply("Mul", rows, graph.constant(factor))
    rows = graph.apply("Sub", rows, graph.constant(shift))
    centers = np.asarray(dense(kernel.components_), np.float64)
    last = graph.constant([1], np.int64)
    squares = graph.apply("ReduceSum", graph.apply("Mul", rows, rows), last)
    cross = graph.apply("MatMul", rows, graph.constant(-2.0 * centers.T))
    distances = graph.apply("Add", squares, cross)
    distances = graph.apply("Add", distances, graph.constant((centers**2).sum(axis=1)))
    similar = graph.apply("Exp", graph.apply("Mul", distances, graph.constant(-kernel.gamma)))
    weights = kernel.normalization_.T @ ranker.coef_[0]
    return _product(graph, similar, weights, float(ranker.threshold_))


def _matrix(graph: _Graph, columns: Columns | None, width: int) -> str:
    """All columns as numbers, side by side."""
    if columns is None:
        return graph.input(UNNAMED, width)
    parts = []
    for one in columns.columns_:
        if isinstance(one, Number):
            value, gaps = _number(graph, one)
        else:
            place, gaps = _place(graph, one)
            # A text that is not known has the place after the last, which is cut off.
            eye = np.eye(len(one.texts) + 1)[:, : len(one.texts)]
            flat = graph.apply("Squeeze", place, graph.constant([1], np.int64))
            value = graph.apply("Gather", graph.constant(eye), flat)
        parts += [value, gaps] if one.marks else [value]
    return graph.apply("Concat", *parts, axis=1)


def _number(graph: _Graph, column: Number) -> tuple[str, str]:
    """A column of numbers with its gaps filled, and 1 where there was one."""
    given = graph.input(column.name, 1)
    gaps = graph.apply("IsNaN", given)
    value = graph.apply("Where", gaps, graph.constant([[column.fill]]), given)
    return value, graph.apply("Cast", gaps, to=graph.onnx.TensorProto.DOUBLE)


def _place(graph: _Graph, column: Category) -> tuple[str, str]:
    """Where each text stands in the list, after its end if nowhere, and 1 where there is none."""
    given = graph.input(column.name, 1, texts=True)
    count = len(column.texts)
    encode = partial(graph.apply, "LabelEncoder", given, domain="ai.onnx.ml")
    place = encode(keys_strings=column.texts, values_int64s=list(range(count)), default_int64=count)
    gaps = encode(keys_strings=[""], values_int64s=[1], default_int64=0)
    return place, graph.apply("Cast", gaps, to=graph.onnx.TensorProto.DOUBLE)


def _product(graph: _Graph, rows: str, weights: Array, threshold: float) -> str:
    """The product of rows and weights, less the threshold."""
    scores = graph.apply("MatMul", rows, graph.constant(weights))
    return graph.apply("Sub", scores, graph.constant(threshold))
