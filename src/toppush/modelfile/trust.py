"""Which types a model file may name: those that models are made of, and no others.

skops refuses unknown types, but by default trusts all of scikit-learn and much of NumPy, and a
generator of random numbers with a forged state has crashed the interpreter. A model needs few.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from toppush.modelfile.archive import Archive
from toppush.modelfile.schema import SCHEMA, nodes, require_tree
from toppush.modeltypes import homes
from toppush.system.errors import ModelError
from toppush.system.extras import needs

MOST_FUNCTIONS = 1000
"""For each skops holds a list of all functions that it trusts by default."""
OWN = {
    "toppush.tables.columns.Columns",
    *(f"toppush.tables.column_types.{name}" for name in ("Number", "Date", "Category")),
    # of models that were saved when the types had no file of their own
    *(f"toppush.tables.columns.{name}" for name in ("Number", "Category")),
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
"""What each of skops's loaders may be asked for, besides the rankers of `KINDS`."""


FAR_ARRAYS = [f"sklearn.externals.array_api_compat.{name}" for name in ("cupy", "dask", "torch")]
"""Packages in which skops, to list scikit-learn's estimators, finds none: torch and Dask, if they
are installed, took 1.7 of the 2.1 seconds of its import."""


class UntrustedError(ModelError):
    """A model that names what is not on the list."""

    held = ""
    """What it names."""


def skops_io() -> Any:
    """The package that writes and reads estimators."""
    if "skops.io" not in sys.modules:
        with _out_of_reach(FAR_ARRAYS):
            _import_skops()
    return sys.modules["skops.io"]


def _import_skops() -> None:
    try:
        import skops.io  # noqa: F401
    except ImportError as error:
        raise ImportError(needs("a model file", "skops")) from error


@contextmanager
def _out_of_reach(modules: Iterable[str]) -> Iterator[None]:
    """Let these modules, unless they are loaded, be for a while as if not installed."""
    new = [name for name in modules if name not in sys.modules]
    sys.modules.update(dict.fromkeys(new))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in new:
            del sys.modules[name]


def require_trusted(archive: Archive) -> list[str]:
    """The types that an archive names, for skops to trust; refused if it names others.

    No more than these: skops holds a list of what it trusts for each object.
    """
    schema = json.loads(archive.read(SCHEMA))
    loaders: Counter[str] = Counter()
    rankers, named = homes(), set()
    for node in nodes(schema):
        loader, name = node["__loader__"], f"{node.get('__module__')}.{node.get('__class__')}"
        if name not in ALLOWED.get(str(loader), ()) and not (
            loader == "ObjectNode" and name in rankers
        ):
            error = UntrustedError(
                f"it names {name} ({loader}), which a model has no use for; it was not opened."
            )
            error.held = name
            raise error
        named.add(name)
        loaders[loader] += 1
    if loaders["FunctionNode"] > MOST_FUNCTIONS:
        raise ModelError(f"it names {loaders['FunctionNode']:,} functions, which no model needs.")
    require_tree(schema)
    return sorted(named)
