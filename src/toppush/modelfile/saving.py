"""Model files that are safe to open, and exports of models.

A model file is a line of text with a checksum of what follows, then a zip archive: the pipeline
as skops writes it (JSON and plain arrays, no pickle) and about.json. Loading compares the
checksum, then builds the types that the archive names only if each is on a short list. The
checksum detects damage; the list protects against forged files.
"""

import copy
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import BSpline
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from toppush.matrices import is_sparse
from toppush.modelfile.archive import (
    ABOUT,
    Archive,
    about_of,
    archive_of,
    packed,
    read_file,
    sealed,
    unpacked,
)
from toppush.modelfile.checks import require_bounded, require_working
from toppush.modelfile.model import Model
from toppush.modelfile.trust import UntrustedError, canonical, require_trusted, skops_io
from toppush.modeltypes import MODEL_TYPES, model_type_of
from toppush.modeltypes.base import About, RankerLike
from toppush.modeltypes.linear import certificate
from toppush.modeltypes.linear_score import refuse_text
from toppush.modeltypes.onnx_graph import Graph
from toppush.system.errors import ModelError
from toppush.system.reading import DataError, fingerprint
from toppush.system.writing import write_bytes

GENERATORS = (np.random.RandomState, np.random.Generator)
SAVED = (
    "a model may hold scikit-learn's scalers, encoders, simple imputers and other preprocessing, "
    "Nystroem, NumPy's functions of numbers, and the ranker"
)


def save(model: Model | Pipeline | RankerLike, path: str | Path) -> None:
    """Write a model, a fitted pipeline or a fitted ranker to a file that is safe to open.

    Parameters
    ----------
    model : Model, Pipeline, TopPush, TopPushTrees or another ranker
        Steps before the ranker may be scalers, encoders and imputers of scikit-learn, `Nystroem`
        and `Columns`.
    path : path
        It is replaced when the new file is complete; a crash leaves the old one. The rows that the
        model was fitted to are never replaced.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from toppush import TopPush, files
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> files.save(TopPush(top=0.1).fit(X / X.max(), y), "ranker.toppush")
    >>> files.load("ranker.toppush").ranker.top
    0.1
    """
    model = as_model(model)
    require_no_training_rows(path, model.about)
    write_bytes(path, to_bytes(model))


def load(path: str | Path) -> Model:
    """Open a model file; nothing in it is executed, and a damaged one is refused.

    Parameters
    ----------
    path : path

    Returns
    -------
    Model

    Raises
    ------
    ModelError
        If the file is not a model, is truncated or altered, or names a type that models do not
        need.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from toppush import files
    >>> load_breast_cancer(as_frame=True).frame.to_csv("train.csv", index=False)
    >>> files.save(files.fit("train.csv", label="target", lam=0.01, top=0.1), "model.toppush")
    >>> type(files.load("model.toppush").ranker).__name__
    'TopPush'
    """
    path = Path(path)
    try:
        return from_bytes(read_file(path))
    except ModelError as error:
        raise error.at(path) from None


def export_json(model: Model, path: str | Path) -> None:
    """Write the weights of a linear model by column name, as JSON.

    The score is the sum over the columns minus the threshold. A number adds weight x value, a
    category the weight listed for it (0 if it is not listed), a missing value "missing".

    Parameters
    ----------
    model : Model
    path : path
    """
    require_no_training_rows(path, model.about)
    write_bytes(path, json_bytes(model))


def json_bytes(model: Model) -> bytes:
    """The content that `export_json` writes."""
    record = model.model_type.weights_record(model) | {"label": model.about.get("label")}
    return (json.dumps(record, indent=1, allow_nan=False) + "\n").encode()


def export_onnx(model: Model, path: str | Path) -> None:
    """Write the model as an ONNX graph, in double precision.

    Inputs are the columns by name, each of shape (rows, 1): double numbers, NaN where missing, and
    strings, empty where missing; or one matrix X of doubles. The outputs are "score" and, if the
    model has calibrated probabilities, "probability", with "toppush " before a name that a column
    has.

    Parameters
    ----------
    model : Model
    path : path
    """
    require_no_training_rows(path, model.about)
    write_bytes(path, onnx_bytes(model))


def onnx_bytes(model: Model) -> bytes:
    """The content that `export_onnx` writes."""
    refuse_text(model.columns, "ONNX export")
    graph = Graph()
    return graph.finish(model.model_type.add_to_graph(graph, model), model.calibration)


def require_no_training_rows(path: str | Path, about: About) -> None:
    """Refuse to write over the file that a model was fitted to."""
    path, known = Path(path), about.get("data", {}).get("fingerprint")
    if known is not None and path.is_file() and fingerprint(path) == known:
        raise DataError(
            "these are the rows that the model was fitted to; name another file to write to.",
            file=path,
        )


def as_model(model: Model | Pipeline | RankerLike) -> Model:
    """A model of a fitted pipeline or ranker."""
    if isinstance(model, Model):
        return model
    pipeline = model if isinstance(model, Pipeline) else Pipeline([("ranker", model)])
    require_ranker(pipeline)
    known = certificate(pipeline[-1])
    return Model(pipeline, {"certificate": known} if known else {})


def require_ranker(pipeline: Pipeline) -> None:
    """Refuse anything but a pipeline that ends with a ranker of toppush."""
    if not isinstance(pipeline, Pipeline) or model_type_of(pipeline[-1]) is None:
        names = (known.ranker_class.rpartition(".")[2] for known in MODEL_TYPES.values())
        raise ModelError(
            f"a model is a pipeline that ends with {', '.join(names)}, and not {pipeline!r}."
        )


def to_bytes(model: Model) -> bytes:
    """The bytes of a model file; opened once to check that it can be."""
    require_ranker(model.pipeline)
    parts = canonical(unpacked(skops_io().dumps(_light(model))))
    parts[ABOUT] = json.dumps(model.about, allow_nan=False).encode()
    data = sealed(packed(parts))
    try:
        from_bytes(data)
    except UntrustedError as error:
        raise ModelError(
            f"the pipeline holds {error.untrusted} and cannot be saved; {SAVED}."
        ) from None
    return data


def from_bytes(data: bytes) -> Model:
    """The model in the bytes of a file; see `load`."""
    body = archive_of(data)
    try:
        archive = Archive(body)
        about, trusted = about_of(archive), require_trusted(archive)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = Model(skops_io().loads(body, trusted=trusted), about)
            _restore(model, len(body))
            require_working(model)
    except (ModelError, ImportError):
        raise
    except Exception as error:  # forged archives may raise anything
        raise ModelError(f"it does not hold a model that works ({error!r}).") from None
    for warning in {str(warning.message): warning for warning in caught}.values():
        warnings.warn(warning.message, warning.category, stacklevel=3)
    return model


def _light(model: Model) -> Pipeline:
    """A copy of plain arrays, without duals of the rows, callbacks and random generators."""
    steps = [(name, copy.copy(step)) for name, step in model.pipeline.steps]
    model.model_type.lighten(steps[-1][1])
    light = copy.deepcopy(Pipeline(steps))
    for part in _parts(light):
        if hasattr(part, "bsplines_"):
            part.bsplines_ = [
                (spline.t, spline.c, spline.k, spline.extrapolate) for spline in part.bsplines_
            ]
        if isinstance(getattr(part, "random_state", None), GENERATORS):
            part.random_state = None
        if getattr(part, "n_jobs", None) is not None:
            part.n_jobs = None
    return light


def _parts(root: object) -> Iterator[Any]:
    """Every estimator and sparse matrix in a pipeline, however deep."""
    waiting, seen = [root], set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:  # a forged archive may have cycles
            continue
        seen.add(id(part))
        if isinstance(part, BaseEstimator):
            yield part
            waiting.extend(vars(part).values())
        elif is_sparse(part):
            yield part
        elif isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, (list, tuple)):
            waiting.extend(part)
        elif isinstance(part, np.ndarray) and part.dtype == object:
            waiting.extend(part.flat)


def _restore(model: Model, n_bytes: int) -> None:
    """Rebuild splines and the solution; refuse sizes beyond those of a file of `n_bytes`."""
    require_ranker(model.pipeline)
    parts = list(_parts(model.pipeline))
    for part in parts:
        if hasattr(part, "bsplines_"):
            part.bsplines_ = [BSpline(*arrays) for arrays in part.bsplines_]
    require_bounded(model.pipeline, parts, n_bytes)
    model.model_type.restore(model.ranker, model.about)
    width = model.about.get("layout", {}).get("width", 0)
    if width and width != model.pipeline.n_features_in_:
        raise ModelError(f"it says that rows have {width!r} columns, and its steps say otherwise.")
