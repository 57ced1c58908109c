"""Models for other programs: ONNX, and what makes the score as JSON."""

import json
from pathlib import Path

from toppush.export.onnx_graph import Graph
from toppush.modelfile.fitted import Model
from toppush.modelfile.saving import require_no_training_rows
from toppush.system.writing import write_bytes


def export_json(model: Model, path: str | Path) -> None:
    """Write the weights of a linear model by column name, as JSON.

    score = sum over columns of (weight x
    value, "missing" where there is none; or the part of the text, "missing", or 0 for a text that
    is not listed) - threshold.

    Parameters
    ----------
    model : Model
    path : path
    """
    require_no_training_rows(path, model.about)
    write_bytes(path, json_bytes(model))


def json_bytes(model: Model) -> bytes:
    """What `export_json` writes."""
    found = model.kind.exported(model) | {"label": model.about.get("label")}
    return (json.dumps(found, indent=1, allow_nan=False) + "\n").encode()


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
    write_bytes(path, onnx_bytes(model))


def onnx_bytes(model: Model) -> bytes:
    """What `export_onnx` writes."""
    graph = Graph()
    return graph.finish(model.kind.graph(graph, model))
