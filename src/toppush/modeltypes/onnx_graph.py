"""Builds an ONNX graph: inputs for columns, constants, operators and the score."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.base import BaseEstimator

from toppush.modeltypes.linear_score import scaling
from toppush.system.errors import ModelError
from toppush.system.extras import needs
from toppush.tables.column_types import Category, Column, Number
from toppush.tables.columns import Columns
from toppush.thresholds.probabilities import Calibration
from toppush.types import Array

OPSET, ML_OPSET = 17, 3
ML = "ai.onnx.ml"
SCORE, PROBABILITY = "score", "probability"
UNNAMED = "X"
"""The input of a model without column names."""


class Graph:
    """Nodes, constants and inputs, added one by one; methods return names of outputs."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError as error:
            raise ImportError(needs("an export to ONNX", "onnx")) from error
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []

    def finish(self, score: str, calibration: Calibration | None = None) -> bytes:
        """The checked model as bytes, with the score and, if it is known, the probability."""
        helper = self.onnx.helper
        outputs = [self.output(SCORE, score)]
        if calibration is not None:
            outputs.append(self.output(PROBABILITY, self.probability(score, calibration)))
        graph = helper.make_graph(self.nodes, "toppush", self.inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="toppush")
        model.ir_version = 8
        self.onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString()  # type: ignore[no-any-return]

    # ---- inputs, constants and operators

    def input(self, name: str, width: int, *, strings: bool = False) -> str:
        """A column or matrix of the caller; added on first use."""
        if not any(known.name == name for known in self.inputs):
            proto = self.onnx.TensorProto
            dtype = proto.STRING if strings else proto.DOUBLE
            info = self.onnx.helper.make_tensor_value_info(name, dtype, ["rows", width])
            self.inputs.append(info)
        return name

    def output(self, name: str, values: str) -> Any:
        """Name a vector as an output, with "toppush" before it if a column has that name."""
        taken = any(known.name == name for known in self.inputs)
        name = f"toppush {name}" if taken else name
        self.nodes.append(self.onnx.helper.make_node("Identity", [values], [name]))
        double = self.onnx.TensorProto.DOUBLE
        return self.onnx.helper.make_tensor_value_info(name, double, ["rows"])

    def constant(self, value: ArrayLike, dtype: DTypeLike = np.float64) -> str:
        """An array that is part of the model."""
        name = f"toppush constant {len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def apply(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """A node of an operator."""
        name = f"toppush step {len(self.nodes)}"
        make = self.onnx.helper.make_node
        self.nodes.append(make(operator, list(inputs), [name], domain=domain, **attributes))
        return name

    def tensor(self, values: Array) -> Any:
        """Doubles as an attribute of a node."""
        return self.onnx.numpy_helper.from_array(np.asarray(values, np.float64))

    def double(self, values: str) -> str:
        """Values as doubles."""
        return self.apply("Cast", values, to=self.onnx.TensorProto.DOUBLE)

    def integers(self, values: str) -> str:
        """Values as integers."""
        return self.apply("Cast", values, to=self.onnx.TensorProto.INT64)

    def true(self, values: str) -> str:
        """Whether values are not 0."""
        return self.apply("Cast", values, to=self.onnx.TensorProto.BOOL)

    def single(self, values: str) -> str:
        """Doubles rounded to single precision, clipped to its range."""
        most = self.constant(float(np.finfo(np.float32).max))
        least = self.constant(-float(np.finfo(np.float32).max))
        cut = self.apply("Where", self.apply("Greater", values, most), most, values)
        cut = self.apply("Where", self.apply("Less", cut, least), least, cut)
        return self.double(self.apply("Cast", cut, to=self.onnx.TensorProto.FLOAT))

    def sum(self, rows: str) -> str:
        """The sum of each row, as a column."""
        return self.apply("ReduceSum", rows, self.constant([1], np.int64))

    def flat(self, column: str) -> str:
        """A column as a vector."""
        return self.apply("Squeeze", column, self.constant([1], np.int64))

    def column(self, rows: str, number: int) -> str:
        """One column of a matrix, as a matrix."""
        return self.apply("Gather", rows, self.constant([number], np.int64), axis=1)

    def picked(self, table: ArrayLike, code: str) -> str:
        """The row of a table for each code."""
        return self.apply("Gather", self.constant(table), self.flat(code))

    # ---- columns of a table

    def rows(self, width: int) -> str:
        """The matrix of a model without column names."""
        return self.input(UNNAMED, width)

    def number(self, column: Number) -> tuple[str, str]:
        """A column of numbers, filled unless missing values are kept; and 1 where missing."""
        values = self.input(column.name, 1)
        missing = self.apply("IsNaN", values)
        filled = self.apply("Where", missing, self.constant([[column.fill]]), values)
        return values if column.keep_nan else filled, self.double(missing)

    def category(self, column: Column) -> tuple[str, str]:
        """The code of each category, the number of categories if unknown; and 1 where missing."""
        assert isinstance(column, Category)  # `onnx_bytes` refuses text
        strings = self.input(column.name, 1, strings=True)
        count = len(column.categories)
        encode = partial(self.apply, "LabelEncoder", strings, domain=ML)
        code = encode(
            keys_strings=column.categories, values_int64s=list(range(count)), default_int64=count
        )
        return code, self.double(encode(keys_strings=[""], values_int64s=[1], default_int64=0))

    def matrix(self, columns: Columns | None, width: int) -> str:
        """All columns as numbers, categories one-hot."""
        if columns is None:
            return self.rows(width)
        parts = []
        for column in columns.columns_:
            if isinstance(column, Number):
                values, missing = self.number(column)
            elif isinstance(column, Category):
                code, missing = self.category(column)
                # The last code, of unknown categories, has no output.
                count = len(column.categories)
                values = self.picked(np.eye(count + 1)[:, :count], code)
            parts += [values, missing] if column.has_indicator else [values]
        return self.apply("Concat", *parts, axis=1)

    def codes(self, columns: Columns | None, width: int) -> str:
        """All columns as numbers, categories by code; NaN if missing or unknown."""
        if columns is None:
            return self.rows(width)
        parts = []
        for column in columns.columns_:
            if isinstance(column, Number):
                parts.append(self.number(column)[0])
            elif isinstance(column, Category):
                codes = np.append(np.arange(float(len(column.categories))), np.nan)
                parts.append(self.picked(codes[:, None], self.category(column)[0]))
        return self.apply("Concat", *parts, axis=1)

    def scaled(
        self, columns: Columns | None, before: list[tuple[str, BaseEstimator]], width: int
    ) -> str:
        """All columns as numbers, scaled by the steps before the ranker."""
        factor_and_shift = scaling([step for _, step in before[columns is not None :]], width)
        if factor_and_shift is None:
            raise ModelError("ONNX export knows the scalers MaxAbsScaler and StandardScaler.")
        factor, shift = factor_and_shift
        rows = self.apply("Mul", self.matrix(columns, width), self.constant(factor))
        return self.apply("Sub", rows, self.constant(shift))

    # ---- scores

    def probability(self, score: str, calibration: Calibration) -> str:
        """The calibrated probability of each score."""
        knots = calibration.knots
        column = self.apply("Unsqueeze", score, self.constant([1], np.int64))
        starts, ends = knots[:-1].copy(), knots[1:].copy()
        starts[0], ends[-1] = -np.inf, np.inf
        inside = self.apply("Min", column, self.constant(ends))
        inside = self.apply("Max", inside, self.constant(starts))
        past = self.apply("Sub", inside, self.constant(knots[:-1]))
        rise = self.flat(self.apply("MatMul", past, self.constant(calibration.slopes[:, None])))
        odds = self.apply("Add", rise, self.constant(calibration.log_odds[0]))
        return self.apply("Mul", self.apply("Sigmoid", odds), self.constant(calibration.most))

    def gaussian(self, rows: str, centers: Array, gamma: float) -> str:
        """exp(-gamma |x - z|^2) of every row and every center."""
        squares = self.sum(self.apply("Mul", rows, rows))
        cross = self.apply("MatMul", rows, self.constant(-2.0 * centers.T))
        distances = self.apply("Add", squares, cross)
        distances = self.apply("Add", distances, self.constant((centers**2).sum(axis=1)))
        return self.apply("Exp", self.apply("Mul", distances, self.constant(-gamma)))

    def product(self, rows: str, weights: Array, threshold: float) -> str:
        """The product of rows and weights, minus the threshold."""
        scores = self.apply("MatMul", rows, self.constant(weights))
        return self.apply("Sub", scores, self.constant(threshold))

    def mean_of_trees(self, rows: str, trees: dict[str, Any], count: int, threshold: float) -> str:
        """The sum of all trees divided by a number of ensembles, minus the threshold."""
        how = {"n_targets": 1, "aggregate_function": "SUM", "post_transform": "NONE"}
        total = self.apply("TreeEnsembleRegressor", rows, domain=ML, **trees, **how)
        mean = self.apply("Div", self.double(total), self.constant(float(count)))
        return self.flat(self.apply("Sub", mean, self.constant(threshold)))
