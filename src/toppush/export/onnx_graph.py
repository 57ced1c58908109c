"""A graph of ONNX in the making: inputs for columns, constants, steps, a score."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.base import BaseEstimator

from toppush.export.linear import scaling
from toppush.system.errors import ModelError
from toppush.system.extras import needs
from toppush.tables.column_types import Category, Number
from toppush.tables.columns import Columns
from toppush.types import Array

OPSET, ML_OPSET = 17, 3
ML = "ai.onnx.ml"
SCORE = "score"
UNNAMED = "X"
"""The input of a model without column names."""


class Graph:
    """Nodes, constants and inputs as they come; names are numbers."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError as error:
            raise ImportError(needs("an export to ONNX", "onnx")) from error
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []

    def input(self, name: str, width: int, *, texts: bool = False) -> str:
        """A column or a matrix that the caller gives; asked for again, the same one."""
        if any(one.name == name for one in self.inputs):
            return name
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
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)]
        made = helper.make_model(graph, opset_imports=opsets, producer_name="toppush")
        made.ir_version = 8
        self.onnx.checker.check_model(made, full_check=True)
        return made.SerializeToString()  # type: ignore[no-any-return]

    def rows(self, width: int) -> str:
        """The matrix of a model without column names."""
        return self.input(UNNAMED, width)

    def number(self, column: Number) -> tuple[str, str]:
        """A column of numbers, its gaps filled unless they are kept, and 1 where there was one."""
        given = self.input(column.name, 1)
        gaps = self.apply("IsNaN", given)
        filled = self.apply("Where", gaps, self.constant([[column.fill]]), given)
        return given if column.keep_nan else filled, self.double(gaps)

    def place(self, column: Category) -> tuple[str, str]:
        """Where each text stands in the list, after its end if nowhere; 1 where there is none."""
        given = self.input(column.name, 1, texts=True)
        count = len(column.categories)
        encode = partial(self.apply, "LabelEncoder", given, domain=ML)
        place = encode(
            keys_strings=column.categories, values_int64s=list(range(count)), default_int64=count
        )
        return place, self.double(encode(keys_strings=[""], values_int64s=[1], default_int64=0))

    def picked(self, table: ArrayLike, place: str) -> str:
        """A row of a table for each place."""
        return self.apply("Gather", self.constant(table), self.flat(place))

    def matrix(self, columns: Columns | None, width: int) -> str:
        """All columns as numbers, side by side."""
        if columns is None:
            return self.rows(width)
        parts = []
        for one in columns.columns_:
            if isinstance(one, Number):
                value, gaps = self.number(one)
            else:
                place, gaps = self.place(one)
                # A text that is not known has the place after the last, which is cut off.
                value = self.picked(
                    np.eye(len(one.categories) + 1)[:, : len(one.categories)], place
                )
            parts += [value, gaps] if one.has_indicator else [value]
        return self.apply("Concat", *parts, axis=1)

    def codes(self, columns: Columns | None, width: int) -> str:
        """All columns as numbers, texts by their place; NaN for gaps and texts not known."""
        if columns is None:
            return self.rows(width)
        parts = []
        for one in columns.columns_:
            if isinstance(one, Number):
                parts.append(self.number(one)[0])
            else:
                places = np.append(np.arange(float(len(one.categories))), np.nan)
                parts.append(self.picked(places[:, None], self.place(one)[0]))
        return self.apply("Concat", *parts, axis=1)

    def scaled(
        self, columns: Columns | None, before: list[tuple[str, BaseEstimator]], width: int
    ) -> str:
        """All columns as numbers, scaled as the steps before the ranker do."""
        found = scaling([step for _, step in before[columns is not None :]], width)
        if found is None:
            raise ModelError("ONNX export knows the scalers MaxAbsScaler and StandardScaler.")
        factor, shift = found
        rows = self.apply("Mul", self.matrix(columns, width), self.constant(factor))
        return self.apply("Sub", rows, self.constant(shift))

    def gaussian(self, rows: str, centers: Array, gamma: float) -> str:
        """exp(-gamma |x - z|^2) of every row and every center."""
        squares = self.sum(self.apply("Mul", rows, rows))
        cross = self.apply("MatMul", rows, self.constant(-2.0 * centers.T))
        distances = self.apply("Add", squares, cross)
        distances = self.apply("Add", distances, self.constant((centers**2).sum(axis=1)))
        return self.apply("Exp", self.apply("Mul", distances, self.constant(-gamma)))

    def product(self, rows: str, weights: Array, threshold: float) -> str:
        """The product of rows and weights, less the threshold."""
        scores = self.apply("MatMul", rows, self.constant(weights))
        return self.apply("Sub", scores, self.constant(threshold))

    def column(self, rows: str, number: int) -> str:
        """One column of a matrix, as a matrix."""
        return self.apply("Gather", rows, self.constant([number], np.int64), axis=1)

    def sum(self, rows: str) -> str:
        """The sum of each row, as a column."""
        return self.apply("ReduceSum", rows, self._last())

    def flat(self, column: str) -> str:
        """A column as a list."""
        return self.apply("Squeeze", column, self._last())

    def single(self, values: str) -> str:
        """Doubles as single precision has them, what is too large for it cut."""
        most = self.constant(float(np.finfo(np.float32).max))
        least = self.constant(-float(np.finfo(np.float32).max))
        cut = self.apply("Where", self.apply("Greater", values, most), most, values)
        cut = self.apply("Where", self.apply("Less", cut, least), least, cut)
        return self.double(self.apply("Cast", cut, to=self.onnx.TensorProto.FLOAT))

    def tensor(self, values: Array) -> Any:
        """Doubles as an attribute of a node."""
        return self.onnx.numpy_helper.from_array(np.asarray(values, np.float64))

    def double(self, values: str) -> str:
        """Values as doubles."""
        return self.apply("Cast", values, to=self.onnx.TensorProto.DOUBLE)

    def integers(self, values: str) -> str:
        """Values as whole numbers."""
        return self.apply("Cast", values, to=self.onnx.TensorProto.INT64)

    def true(self, values: str) -> str:
        """Whether values are not 0."""
        return self.apply("Cast", values, to=self.onnx.TensorProto.BOOL)

    def _last(self) -> str:
        return self.constant([1], np.int64)
