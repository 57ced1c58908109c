"""Model files that are safe to open.

A model file is a line of text with a checksum of all that follows, then a zip archive: the
pipeline as skops writes it (JSON and plain arrays, no pickle) and about.json. Reading compares the
checksum, then looks at every type the archive names, and builds it only if each is on a short
list. The checksum shows damage, not a forger; against a forger stands the list.
"""

import contextlib
import copy
import hashlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.interpolate import BSpline
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    TargetEncoder,
)

from toppush.matrices import is_sparse
from toppush.modelfile.archive import LARGEST, ZIP, Archive, packed, unpacked
from toppush.modelfile.fitted import Model
from toppush.modelfile.schema import canonical
from toppush.modelfile.sizes import require_bounded
from toppush.modelfile.trust import UntrustedError, require_trusted, skops_io
from toppush.modeltypes import KINDS, kind_of
from toppush.modeltypes.base import About, Ranker
from toppush.modeltypes.certificates import certificate
from toppush.system.errors import ModelError
from toppush.system.reading import DataError, fingerprint, require_file
from toppush.system.writing import write_bytes
from toppush.tables.column_types import Date, Number
from toppush.tables.columns import Columns

MAGIC = b"toppush model 1 sha256 "
ABOUT = "about.json"
DIGEST = 64
"""Characters of the checksum, in hexadecimal."""
FIRST = len(MAGIC) + DIGEST + 1
"""Bytes of the first line."""
FAR, UNKNOWN_TEXT = 1e30, "\0unknown"
"""What no training row held, in all likelihood."""
PICKY = (
    ColumnTransformer,
    FeatureUnion,
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    Pipeline,
    PolynomialFeatures,
    SimpleImputer,
    TargetEncoder,
)
"""Steps that may refuse a row of ones, or that make hundreds of bytes for each of its products."""
GENERATORS = (np.random.RandomState, np.random.Generator)
SAVED = (
    "a model may hold scikit-learn's scalers, encoders, simple imputers and other preprocessing, "
    "Nystroem, NumPy's functions of numbers, and the ranker"
)


def save(model: Model | Pipeline | Ranker, path: str | Path) -> None:
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
        return from_bytes(_read(path))
    except ModelError as error:
        raise error.at(path) from None


def require_no_training_rows(path: str | Path, about: About) -> None:
    """Refuse to write over the file that a model was fitted to."""
    path, known = Path(path), about.get("data", {}).get("fingerprint")
    if known is not None and path.is_file() and fingerprint(path) == known:
        raise DataError(
            "these are the rows that the model was fitted to; name another file to write to.",
            file=path,
        )


def read_about(path: str | Path) -> About:
    """What a model file says of itself, without building the model."""
    path = Path(path)
    try:
        return _about(Archive(_body(_read(path))))
    except ModelError as error:
        raise error.at(path) from None


def as_model(model: Model | Pipeline | Ranker) -> Model:
    """A model of a fitted pipeline or ranker."""
    if isinstance(model, Model):
        return model
    pipeline = model if isinstance(model, Pipeline) else Pipeline([("ranker", model)])
    require_ranker(pipeline)
    known = certificate(pipeline[-1])
    return Model(pipeline, {"certificate": known} if known else {})


def require_ranker(pipeline: Pipeline) -> None:
    """Refuse what does not end with a ranker of ours."""
    if not isinstance(pipeline, Pipeline) or kind_of(pipeline[-1]) is None:
        known = ", ".join(one.home.rpartition(".")[2] for one in KINDS.values())
        raise ModelError(f"a model is a pipeline that ends with {known}, and not {pipeline!r}.")


def to_bytes(model: Model) -> bytes:
    """The bytes of a model file, which `from_bytes` has been seen to open."""
    require_ranker(model.pipeline)
    parts = canonical(unpacked(skops_io().dumps(_light(model))))
    parts[ABOUT] = json.dumps(model.about, allow_nan=False).encode()
    data = sealed(packed(parts))
    try:
        from_bytes(data)
    except UntrustedError as error:
        raise ModelError(f"the pipeline holds {error.held} and cannot be saved; {SAVED}.") from None
    return data


def sealed(body: bytes) -> bytes:
    """An archive with its checksum before it."""
    return _first_line(body) + body


def _first_line(body: bytes | memoryview) -> bytes:
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n"


def from_bytes(data: bytes) -> Model:
    """The model of a file's bytes; see `load`."""
    body = _body(data)
    try:
        archive = Archive(body)
        about, trusted = _about(archive), require_trusted(archive)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = Model(skops_io().loads(body, trusted=trusted), about)
            _restore(model, len(body))
            _require_working(model)
    except (ModelError, ImportError):
        raise
    except Exception as error:  # whatever a forged archive makes of the libraries below
        raise ModelError(f"it does not hold a model that works ({error!r}).") from None
    for warning in {str(one.message): one for one in said}.values():
        warnings.warn(warning.message, warning.category, stacklevel=3)
    return model


def _read(path: Path) -> bytes:
    """The bytes of a file that may be a model."""
    if require_file(path).stat().st_size > LARGEST + FIRST:
        raise ModelError(f"it is larger than {LARGEST:,} bytes.")
    return path.read_bytes()


def _body(data: bytes) -> bytes:
    """The archive, if the checksum is right."""
    if not data.startswith(MAGIC):
        skops = "; skops files are for evaluate, threshold, report and compare --with"
        archive = skops * data.startswith(ZIP)
        raise ModelError(f"it is not a model file of this version of toppush{archive}.")
    if _first_line(memoryview(data)[FIRST:]) != data[:FIRST]:
        raise ModelError("it is damaged: the checksum does not fit; fit or copy the model again.")
    return data[FIRST:]


def _about(archive: Archive) -> About:
    text = archive.read(ABOUT)
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"its {ABOUT} cannot be read: {error}.") from None
    if not isinstance(about, dict):
        raise ModelError(f"its {ABOUT} is not a table.")
    return about


def _light(model: Model) -> Pipeline:
    """A copy without what only the fit needs, of plain arrays alone.

    That is without duals of the rows, callbacks and generators of random numbers;
    splines become the arrays that they are made of.
    """
    steps = [(name, copy.copy(step)) for name, step in model.pipeline.steps]
    model.kind.lighten(steps[-1][1])
    light = copy.deepcopy(Pipeline(steps))
    for step in _held(light):
        if hasattr(step, "bsplines_"):
            step.bsplines_ = [(one.t, one.c, one.k, one.extrapolate) for one in step.bsplines_]
        if isinstance(getattr(step, "random_state", None), GENERATORS):
            step.random_state = None
        if getattr(step, "n_jobs", None) is not None:
            step.n_jobs = None
    return light


def _held(root: object) -> Iterator[Any]:
    """Every estimator and sparse matrix in a pipeline, however deep."""
    things, seen = [root], set()
    while things:
        thing = things.pop()
        if id(thing) in seen:  # a forged archive may go in circles
            continue
        seen.add(id(thing))
        if isinstance(thing, BaseEstimator):
            yield thing
            things.extend(vars(thing).values())
        elif is_sparse(thing):
            yield thing
        elif isinstance(thing, dict):
            things.extend(thing.values())
        elif isinstance(thing, (list, tuple)):
            things.extend(thing)
        elif isinstance(thing, np.ndarray) and thing.dtype == object:
            things.extend(thing.flat)


def _restore(model: Model, n_bytes: int) -> None:
    """Give the ranker its solution back, without the duals of the training rows, and splines.

    A size beyond what a file of `n_bytes` can hold is refused.
    """
    require_ranker(model.pipeline)
    held = list(_held(model.pipeline))
    for step in held:
        if hasattr(step, "bsplines_"):
            step.bsplines_ = [BSpline(*arrays) for arrays in step.bsplines_]
    require_bounded(model.pipeline, held, n_bytes)
    model.kind.restore(model.ranker, model.about)
    width = model.about.get("layout", {}).get("width", 0)
    if width and width != model.pipeline.n_features_in_:
        raise ModelError(f"it says that rows have {width!r} columns, and its steps say otherwise.")


def _require_working(model: Model) -> None:
    """Score made rows, so that a model that cannot is refused here.

    What suits every encoder and selection of columns cannot be made, so it is taken from
    behind the last of them.
    """
    picky = [
        place
        for place, (_, step) in enumerate(model.pipeline.steps)
        if step == "passthrough" or isinstance(step, PICKY)
    ]
    working = Model(model.pipeline[picky[-1] + 1 :]) if picky else model
    if working.columns is not None:
        typical, odd = _made_rows(working.columns)
        working.decision_function(typical)
        with contextlib.suppress(DataError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            working.decision_function(odd)
        return
    row = np.ones((1, working.pipeline.n_features_in_))
    row[:, list(getattr(model.ranker, "dates_", {}))] = np.nan  # a number is no date
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        working.decision_function(row)


def _made_rows(columns: Columns) -> list[pa.RecordBatch]:
    """A row as the model knows them; and rows without a value, or with none that it knows."""
    known, odd = {}, {}
    for one in columns.columns_:
        if isinstance(one, Date):
            known[one.source] = pa.array(["2000-01-01"], pa.string())
            odd[one.source] = pa.array([None, "0001-01-01", "9999-12-31"], pa.string())
        elif isinstance(one, Number) and one.format is not None:
            known[one.name] = pa.array(["1"], pa.string())
            odd[one.name] = pa.array([None, UNKNOWN_TEXT, f"{FAR}"], pa.string())
        elif isinstance(one, Number):
            known[one.name] = pa.array([one.fill], pa.float64())
            odd[one.name] = pa.array([None, FAR, -FAR], pa.float64())
        else:
            known[one.name] = pa.array([next(iter(one.categories), None)], pa.string())
            odd[one.name] = pa.array([None, UNKNOWN_TEXT, UNKNOWN_TEXT], pa.string())
    return [pa.RecordBatch.from_pydict(cells) for cells in (known, odd)]
