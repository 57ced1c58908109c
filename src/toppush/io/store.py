"""Model files that are safe to open.

A model file is a line of text with a checksum of all that follows, then a zip archive: the
pipeline as skops writes it (JSON and plain arrays, no pickle) and about.json. Reading compares the
checksum, then looks at every type the archive names, and builds it only if each is on a short
list. The checksum shows damage, not a forger; against a forger stands the list.
"""

import copy
import hashlib
import io
import json
import math
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.pipeline import Pipeline

from toppush.estimators import TopPush
from toppush.io.columns import Columns, Number
from toppush.io.errors import ModelError, need
from toppush.io.files import require_file, require_no_training_rows
from toppush.io.models import Model
from toppush.io.trust import require_trusted
from toppush.selection import TopPushCV
from toppush.solutions import Iteration, Solution, Status
from toppush.writing import write_bytes

MAGIC = b"toppush model 1 sha256 "
ABOUT = "about.json"
DIGEST = 64
"""Characters of the checksum, in hexadecimal."""


def save(model: Any, path: str | Path) -> None:
    """Write a model, a fitted pipeline or a fitted `TopPush` to a file that is safe to open.

    Parameters
    ----------
    model : Model, Pipeline, TopPush or TopPushCV
        Steps before the ranker may be scalers, encoders and imputers of scikit-learn, `Nystroem`
        and `Columns`.
    path : path
        It is replaced when the new file is complete; a crash leaves the old one. The rows that the
        model was fitted to are never replaced.
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
    """
    path = require_file(Path(path))
    try:
        return from_bytes(path.read_bytes())
    except ModelError as error:
        raise error.at(path) from None


def read_about(path: str | Path) -> dict[str, Any]:
    """What a model file says of itself, without building the model."""
    path = require_file(Path(path))
    try:
        return _about(_archive(path.read_bytes()))
    except ModelError as error:
        raise error.at(path) from None


def as_model(model: Any) -> Model:
    """A model of a fitted pipeline or ranker."""
    if isinstance(model, Model):
        return model
    pipeline = model if isinstance(model, Pipeline) else Pipeline([("ranker", model)])
    require_ranker(pipeline)
    return Model(pipeline, {"certificate": certificate(pipeline[-1])})


def require_ranker(pipeline: Any) -> None:
    """Refuse what does not end with TopPush."""
    if not isinstance(pipeline, Pipeline) or not isinstance(pipeline[-1], (TopPush, TopPushCV)):
        raise ModelError(
            f"a model is a pipeline that ends with TopPush or TopPushCV, and not {pipeline!r}."
        )


def certificate(ranker: Any) -> dict[str, Any]:
    """The bounds of a fit and how it ended, as JSON can hold them."""
    found: Solution = ranker.solution_
    return {
        "upper": _finite(found.upper),
        "lower": _finite(found.lower),
        "relative_gap": _finite(found.relative_gap),
        "n_iter": found.n_iter,
        "status": found.status.name,
        "sentence": found.status.value,
        "history": [[_finite(number) for number in at] for at in found.history],
    }


def to_bytes(model: Model) -> bytes:
    """The bytes of a model file, which `from_bytes` has been seen to open."""
    require_ranker(model.pipeline)
    archive = io.BytesIO(_skops().dumps(_light(model.pipeline)))
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr(ABOUT, json.dumps(model.about, allow_nan=False))
    body = archive.getvalue()
    data = sealed(body)
    from_bytes(data)
    return data


def sealed(body: bytes) -> bytes:
    """An archive with its checksum before it."""
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def from_bytes(data: bytes) -> Model:
    """The model of a file's bytes; see `load`."""
    body = _body(data)
    try:
        with _archive(data) as archive:
            about, trusted = _about(archive), require_trusted(archive)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = Model(_skops().loads(body, trusted=trusted), about)
            _restore(model)
            _require_working(model)
    except (ModelError, ImportError):
        raise
    except Exception as error:  # whatever a forged archive makes of the libraries below
        raise ModelError(f"it does not hold a model that works ({error!r}).") from None
    for warning in {str(one.message): one for one in said}.values():
        warnings.warn(warning.message, warning.category, stacklevel=3)
    return model


def _body(data: bytes) -> bytes:
    """The archive, if the checksum is right."""
    first = len(MAGIC) + DIGEST + 1
    if not data.startswith(MAGIC):
        raise ModelError("it is not a model file of this version of toppush.")
    if sealed(data[first:])[:first] != data[:first]:
        raise ModelError("it is damaged: the checksum does not fit; fit or copy the model again.")
    return data[first:]


def _archive(data: bytes) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(io.BytesIO(_body(data)))
    except zipfile.BadZipFile as error:
        raise ModelError(f"it is not a model file: {error}.") from None


def _about(archive: zipfile.ZipFile) -> dict[str, Any]:
    try:
        about = json.loads(archive.read(ABOUT))
    except (KeyError, ValueError, RecursionError, zipfile.BadZipFile, NotImplementedError) as error:
        raise ModelError(f"its {ABOUT} cannot be read: {error}.") from None
    if not isinstance(about, dict):
        raise ModelError(f"its {ABOUT} is not a table.")
    return about


def _light(pipeline: Pipeline) -> Pipeline:
    """A copy without what only the training rows need: their duals, and callbacks."""
    steps = [(name, copy.copy(step)) for name, step in pipeline.steps]
    ranker = steps[-1][1]
    for name in ("solution_", "_skl_callbacks"):
        ranker.__dict__.pop(name, None)
    return Pipeline(steps)


def _restore(model: Model) -> None:
    """Give the ranker its solution back, without the duals of the training rows."""
    require_ranker(model.pipeline)
    ranker, known = model.ranker, model.about.get("certificate")
    if known is not None:
        ranker.solution_ = Solution(
            weights=ranker.coef_[0],
            threshold=float(ranker.threshold_),
            dual=np.empty(0),
            upper=_number(known["upper"]),
            lower=_number(known["lower"], -math.inf),
            n_iter=int(known["n_iter"]),
            status=Status[known["status"]],
            history=tuple(
                Iteration(*(_number(number, -math.inf) for number in at)) for at in known["history"]
            ),
        )


def _require_working(model: Model) -> None:
    """Score one made row, so that a model that cannot is refused here."""
    if model.ranker.classes_.shape != (2,):
        raise ModelError("its ranker has no two classes.")
    columns = model.columns
    row = np.zeros((1, model.pipeline.n_features_in_)) if columns is None else _made_row(columns)
    model.decision_function(row)


def _made_row(columns: Columns) -> pa.RecordBatch:
    cells = {
        one.name: pa.array([one.fill], pa.float64())
        if isinstance(one, Number)
        else pa.array([next(iter(one.texts), None)], pa.string())
        for one in columns.columns_
    }
    return pa.RecordBatch.from_pydict(cells)


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def _number(number: float | None, otherwise: float = math.inf) -> float:
    return otherwise if number is None else float(number)


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise need("files", error) from None
    return skops.io
