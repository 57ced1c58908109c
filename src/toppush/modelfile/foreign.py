"""Estimators that others fitted, from skops files: JSON and plain arrays, no pickle.

skops trusts most of scikit-learn and NumPy. Whatever else a file names is built only if the user
named it too, for what a type does when it is built is known to its author alone.
"""

import io
import json
import shlex
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from toppush.modelfile.archive import LARGEST, ZIP, unpacked
from toppush.modelfile.schema import SCHEMA, require_tree
from toppush.modelfile.trust import UntrustedError, skops_io
from toppush.system.errors import ModelError
from toppush.system.reading import require_file

PICKLES = (b"\x80", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
"""How pickles begin: plain, and packed as joblib writes them."""

PLAIN = ("numpy.dtype", "collections.OrderedDict")
"""Names of types and a container, harmless though skops asks for them: imputers hold the first."""


def is_foreign(path: Path) -> bool:
    """Whether a file is one of skops, or was meant to be."""
    with require_file(path).open("rb") as file:
        start = file.read(len(ZIP))
    return path.suffix.lower() == ".skops" or start == ZIP or start.startswith(PICKLES)


def load_estimator(path: str | Path, trusted: Collection[str] = ()) -> Any:
    """Open a skops file of a fitted estimator or pipeline.

    Parameters
    ----------
    path : path
    trusted : names of types
        Those that may be built although skops does not trust them, such as
        "lightgbm.sklearn.LGBMClassifier".

    Raises
    ------
    ModelError
        If the file is not one of skops, is damaged, or names a type that is not trusted.
    """
    path = Path(path)
    try:
        return _estimator(_body(path), trusted)
    except ModelError as error:
        raise error.at(path) from None


def _body(path: Path) -> bytes:
    """The bytes of a file, if it is an archive of a size that can be held."""
    if require_file(path).stat().st_size > LARGEST:
        raise ModelError(f"it is larger than {LARGEST:,} bytes.")
    body = path.read_bytes()
    if not body.startswith(ZIP):
        raise ModelError(f"it is not a skops file{_looks_like(body)}.")
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            size = sum(part.file_size for part in archive.infolist())
    except Exception as error:  # whatever a forged list makes of the library
        raise ModelError(f"it is not a skops file, or is damaged: {error}.") from None
    if size > LARGEST:
        raise ModelError(f"its parts are larger than {LARGEST:,} bytes when unpacked.")
    return body


def _looks_like(body: bytes) -> str:
    return (
        ", but looks like a pickle, which may run any code when it is opened and is left alone; "
        "save the estimator with skops.io.dump"
    ) * body.startswith(PICKLES)


def _estimator(body: bytes, trusted: Collection[str]) -> Any:
    """What the archive holds, once all types that it names are trusted."""
    skops, trusted = skops_io(), [*PLAIN, *trusted]
    _require_trusted(skops, body, trusted)
    try:
        found = skops.loads(body, trusted=trusted)
    except ModuleNotFoundError as error:
        raise ModelError(f"it needs the package {error.name}, which is not installed.") from None
    except Exception as error:  # whatever a forged state makes of the types that it is given to
        raise ModelError(f"it cannot be opened: {type(error).__name__}: {error}.") from None
    if not hasattr(found, "predict") and not hasattr(found, "decision_function"):
        raise ModelError(f"it holds a {type(found).__name__}, and not a fitted estimator.")
    return found


def _require_trusted(skops: Any, body: bytes, trusted: Collection[str]) -> None:
    try:
        require_tree(json.loads(unpacked(body, SCHEMA)[SCHEMA]))
        unknown = [name for name in skops.get_untrusted_types(data=body) if name not in trusted]
    except ModelError:
        raise
    except Exception as error:  # whatever a forged schema makes of the library
        raise ModelError(f"it is not a skops file, or is damaged: {error!r}.") from None
    if unknown:
        allow = " ".join(f"--trust {shlex.quote(name)}" for name in unknown)
        refused = UntrustedError(
            f"it holds {', '.join(unknown)}, which skops does not trust: a forged file may crash "
            f"the process or run code by {'it' if len(unknown) == 1 else 'them'}. It was not "
            f"opened. If you trust whoever made it, add {allow}"
        )
        refused.held = unknown[0]
        raise refused
