"""Which types a model file may name: those that models are made of, and no others.

skops refuses unknown types, but by default trusts all of scikit-learn and much of NumPy, and a
generator of random numbers with a forged state has crashed the interpreter. A model needs few.
"""

import json
import zipfile
from collections.abc import Iterator
from typing import Any

from toppush.io.errors import ModelError

SCHEMA = "schema.json"
OWN = {
    "toppush.estimators.TopPush",
    "toppush.selection.TopPushCV",
    "toppush.io.columns.Columns",
    "toppush.io.columns.Number",
    "toppush.io.columns.Category",
}
PREPARATION = {
    "sklearn.compose._column_transformer.ColumnTransformer",
    "sklearn.feature_extraction.text.TfidfTransformer",
    "sklearn.impute._base.MissingIndicator",
    "sklearn.impute._base.SimpleImputer",
    "sklearn.kernel_approximation.Nystroem",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.pipeline.Pipeline",
    *(
        f"sklearn.preprocessing._data.{name}"
        for name in (
            "MaxAbsScaler",
            "MinMaxScaler",
            "Normalizer",
            "RobustScaler",
            "StandardScaler",
        )
    ),
    "sklearn.preprocessing._encoders.OneHotEncoder",
    # What ColumnTransformer passes through; functions have loaders of their own, not allowed here.
    "sklearn.preprocessing._function_transformer.FunctionTransformer",
    "sklearn.preprocessing._encoders.OrdinalEncoder",
}
NUMBERS = {"int", "float", "bool", "str"}
ALLOWED: dict[str, set[str]] = {
    "ObjectNode": OWN | PREPARATION,
    "DictNode": {"builtins.dict"},
    "ListNode": {"builtins.list"},
    "TupleNode": {"builtins.tuple"},
    "SliceNode": {"builtins.slice"},
    "JsonNode": {"builtins.str"},
    "TypeNode": {f"builtins.{name}" for name in NUMBERS}
    | {f"numpy.{name}" for name in ("float64", "float32", "int64", "int32")},
    "DTypeNode": {"numpy.dtype"},
    "NdArrayNode": {"numpy.ndarray"}
    | {f"numpy.{name}" for name in ("float64", "float32", "int64", "int32", "bool")},
    "SparseMatrixNode": {"scipy.sparse._csr.csr_matrix", "scipy.sparse._csr.csr_array"},
}
"""What each of skops's loaders may be asked for."""


def require_trusted(archive: zipfile.ZipFile) -> list[str]:
    """Refuse an archive that packs its members or names a type that no model needs.

    Members that are stored as they are cannot unpack to more than the file's size.

    Returns
    -------
    list of str
        What skops is to be told to trust.
    """
    for member in archive.infolist():
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise ModelError(f"its part {member.filename!r} is packed; models are stored plain.")
    for loader, name in _named(json.loads(archive.read(SCHEMA))):
        if name not in ALLOWED.get(loader, ()):
            raise ModelError(
                f"it names {name} ({loader}), which a model has no use for; it was not opened."
            )
    return sorted(OWN | PREPARATION)


def _named(node: Any) -> Iterator[tuple[str, str]]:
    """Loader and full name of every object that the schema would build."""
    nodes = [node]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            if "__loader__" in node:
                yield str(node["__loader__"]), f"{node.get('__module__')}.{node.get('__class__')}"
            nodes.extend(node.values())
        elif isinstance(node, list):
            nodes.extend(node)
