"""Which types a model file may name, and how deep and repetitive its schema may be.

skops refuses unknown types, but by default trusts all of scikit-learn and much of NumPy, and a
generator of random numbers with a forged state has crashed the interpreter. A model needs few.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from toppush.modelfile.archive import Archive
from toppush.modeltypes.base import BASE_MODEL_TYPES, MODEL_TYPES
from toppush.system.errors import ModelError
from toppush.system.extras import needs

SCHEMA = "schema.json"
DEEPEST = 200
"""Levels of JSON within JSON. A `TopRanker` with preparation has about 40."""
MOST_FUNCTIONS = 1000
"""skops holds a list of all functions that it trusts by default for each function."""
OWN = {
    "toppush.tables.columns.Columns",
    *(
        f"toppush.tables.column_types.{name}"
        for name in ("Number", "Date", "Elapsed", "Category", "Text")
    ),
    "toppush.tables.text.Terms",
    "toppush.auto.text.Components",
    "toppush.auto.text.TermPlaces",
    "toppush.thresholds.probabilities.Calibration",
}
PREPARATION = {
    "sklearn.compose._column_transformer.ColumnTransformer",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.feature_extraction.text.TfidfTransformer",
    "sklearn.impute._base.MissingIndicator",
    "sklearn.impute._base.SimpleImputer",
    "sklearn.impute._knn.KNNImputer",
    "sklearn.kernel_approximation.Nystroem",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.pipeline.FeatureUnion",
    "sklearn.pipeline.Pipeline",
    *(
        f"sklearn.preprocessing.{name}"
        for name in (
            "_data.Binarizer", "_data.KernelCenterer", "_data.MaxAbsScaler", "_data.MinMaxScaler",
            "_data.Normalizer", "_data.PowerTransformer", "_data.QuantileTransformer",
            "_data.RobustScaler", "_data.StandardScaler", "_discretization.KBinsDiscretizer",
            "_encoders.OneHotEncoder", "_encoders.OrdinalEncoder",
            "_function_transformer.FunctionTransformer", "_label.LabelBinarizer",
            "_label.LabelEncoder", "_polynomial.PolynomialFeatures",
            "_polynomial.SplineTransformer", "_target_encoder.TargetEncoder",
        )
    ),
}  # fmt: skip
TYPES = {f"builtins.{name}" for name in ("int", "float", "bool", "str", "object")}
SCALARS = {
    f"numpy.{name}"
    for name in ("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64",
                 "uint8", "uint16", "uint32", "uint64", "str_")
}  # fmt: skip
UFUNCS = {f"numpy.{name}" for name in dir(np) if isinstance(getattr(np, name), np.ufunc)}
"""Functions of numbers, such as numpy.log1p."""
ALLOWED: dict[str, set[str]] = {
    "ObjectNode": OWN | PREPARATION,
    "DictNode": {"builtins.dict"},
    "ListNode": {"builtins.list"},
    "TupleNode": {"builtins.tuple"},
    "SliceNode": {"builtins.slice"},
    "JsonNode": {"builtins.str"},
    "TypeNode": TYPES | SCALARS,
    "DTypeNode": {"numpy.dtype"},
    "FunctionNode": UFUNCS,
    "NdArrayNode": {"numpy.ndarray"} | SCALARS,
    "SparseMatrixNode": {"scipy.sparse._csr.csr_matrix", "scipy.sparse._csr.csr_array"},
}
"""Types that each loader of skops may build, besides the rankers of all model types."""
FAR_ARRAYS = [f"sklearn.externals.array_api_compat.{name}" for name in ("cupy", "dask", "torch")]
"""Packages that skops imports to list the estimators of scikit-learn, without finding any: torch
and Dask, if installed, took 1.7 of the 2.1 seconds of its import."""


class UntrustedError(ModelError):
    """A model that names a type which is not trusted."""

    untrusted = ""
    """The type."""


def require_trusted(archive: Archive) -> list[str]:
    """The types that an archive names, all of them allowed; skops is given no others to trust."""
    schema = json.loads(archive.read(SCHEMA))
    loaders: Counter[str] = Counter()
    rankers = {
        name
        for model_type in (*MODEL_TYPES.values(), *BASE_MODEL_TYPES)
        for name in model_type.ranker_classes
    }
    names = set()
    for node in nodes(schema):
        loader, name = node["__loader__"], f"{node.get('__module__')}.{node.get('__class__')}"
        is_ranker = loader == "ObjectNode" and name in rankers
        if not is_ranker and name not in ALLOWED.get(str(loader), ()):
            error = UntrustedError(
                f"it names {name} ({loader}), which a model has no use for; it was not opened."
            )
            error.untrusted = name
            raise error
        names.add(name)
        loaders[loader] += 1
    if loaders["FunctionNode"] > MOST_FUNCTIONS:
        raise ModelError(f"it names {loaders['FunctionNode']:,} functions, which no model needs.")
    require_tree(schema)
    return sorted(names)


def skops_io() -> Any:
    """The module `skops.io`, which writes and reads estimators."""
    if "skops.io" not in sys.modules:
        hidden = [name for name in FAR_ARRAYS if name not in sys.modules]
        sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
        try:
            import skops.io  # noqa: F401
        except ImportError as error:
            raise ImportError(needs("a model file", "skops")) from error
        finally:
            for name in hidden:
                del sys.modules[name]
    return sys.modules["skops.io"]


# ---- the schema of a skops file: JSON that describes each object with all that it holds


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object that a schema describes."""
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if "__loader__" in value:
                yield value
            waiting.extend(reversed(value.values()))
        elif isinstance(value, list):
            waiting.extend(reversed(value))


def require_tree(schema: Any) -> None:
    """Refuse a schema that is deep, or whose objects refer to others of another size.

    skops writes an object in full wherever it occurs, with an id, but reads the first object of an
    id for all of them. A short file could so describe astronomically long lists of lists. If all
    objects of an id have the same size, what skops builds has the size of what is written.
    """
    _size(schema, {}, 0)
    readers: dict[str, int] = {}
    for node in nodes(schema):
        if "file" in node:
            name, number = node["file"], node.get("__id__")
            if not number or readers.setdefault(name, number) != number:
                raise ModelError(f"two of its objects read its part {name!r}, or one without id.")


def _size(value: Any, sizes: dict[Any, int], depth: int) -> int:
    """Number of JSON objects in a value; `sizes` are those of each id."""
    if depth > DEEPEST:
        raise ModelError(f"its objects are nested more than {DEEPEST} deep.")
    is_table = isinstance(value, dict)
    size = int(is_table)
    for part in value.values() if is_table else value:
        if isinstance(part, (dict, list)):
            size += _size(part, sizes, depth + 1)
    number = value.get("__id__") if is_table else None
    if not isinstance(number, (dict, list)) and number and sizes.setdefault(number, size) != size:
        raise ModelError(f"two of its objects have the id {number!r} and differ.")
    return size


def canonical(parts: dict[str, bytes]) -> dict[str, bytes]:
    """The parts of a skops file with names and ids that depend on the content alone.

    skops takes them from addresses in memory. Only arrays need ids, which several objects may
    share; they are numbered in the order of the schema.
    """
    schema = json.loads(parts[SCHEMA])
    numbers: dict[str, int] = {}
    arrays: dict[str, bytes] = {}
    for node in nodes(schema):
        node.pop("__id__", None)
        if isinstance(name := node.get("file"), str):
            number = numbers.setdefault(name, len(numbers) + 1)
            node |= {"__id__": number, "file": f"{number}.{name.rpartition('.')[2]}"}
            arrays[node["file"]] = parts[name]
    return arrays | {SCHEMA: json.dumps(schema, separators=(",", ":")).encode()}
