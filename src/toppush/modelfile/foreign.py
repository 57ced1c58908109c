"""Estimators of other packages from skops files: JSON and plain arrays, no pickle.

skops trusts most of scikit-learn and NumPy. Other types are built only if the user names them:
only their authors know what they do when they are built.
"""

import io
import json
import shlex
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from toppush.modelfile.archive import LARGEST, ZIP, unpacked
from toppush.modelfile.trust import SCHEMA, UntrustedError, require_tree, skops_io
from toppush.system.errors import ModelError
from toppush.system.reading import require_file

PICKLES = (b"\x80", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
"""How pickles begin: plain, and compressed by joblib."""
PLAIN = ("numpy.dtype", "collections.OrderedDict")
"""Harmless types that skops does not trust by default; imputers hold the first."""


def is_foreign(path: Path) -> bool:
    """Whether a file is a skops file, or was meant to be."""
    with require_file(path).open("rb") as file:
        start = file.read(len(ZIP))
    return path.suffix.lower() == ".skops" or start == ZIP or start.startswith(PICKLES)


def load_estimator(path: str | Path, trusted: Collection[str] = ()) -> Any:
    """Open a skops file of a fitted estimator or pipeline.

    Parameters
    ----------
    path : path
    trusted : names of types
        Types to build although skops does not trust them, such as
        "lightgbm.sklearn.LGBMClassifier".

    Raises
    ------
    ModelError
        If the file is not a skops file, is damaged, or names a type that is not trusted.
    """
    path, trusted = Path(path), [*PLAIN, *trusted]
    try:
        body = _body(path)
        _require_trusted(body, trusted)
        try:
            estimator = skops_io().loads(body, trusted=trusted)
        except ModuleNotFoundError as error:
            raise ModelError(
                f"it needs the package {error.name}, which is not installed."
            ) from None
        except Exception as error:  # forged states may raise anything
            raise ModelError(f"it cannot be opened: {type(error).__name__}: {error}.") from None
        if not hasattr(estimator, "predict") and not hasattr(estimator, "decision_function"):
            name = type(estimator).__name__
            raise ModelError(f"it holds a {name}, and not a fitted estimator.")
    except ModelError as error:
        raise error.at(path) from None
    return estimator


def _body(path: Path) -> bytes:
    """The bytes of a file that is an archive of bounded size."""
    if require_file(path).stat().st_size > LARGEST:
        raise ModelError(f"it is larger than {LARGEST:,} bytes.")
    body = path.read_bytes()
    if not body.startswith(ZIP):
        pickle = (
            ", but looks like a pickle, which may run any code when it is opened and is left "
            "alone; save the estimator with skops.io.dump"
        )
        raise ModelError(f"it is not a skops file{pickle * body.startswith(PICKLES)}.")
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            size = sum(part.file_size for part in archive.infolist())
    except Exception as error:  # forged archives may raise anything
        raise ModelError(f"it is not a skops file, or is damaged: {error}.") from None
    if size > LARGEST:
        raise ModelError(f"its parts are larger than {LARGEST:,} bytes when unpacked.")
    return body


def _require_trusted(body: bytes, trusted: Collection[str]) -> None:
    skops = skops_io()
    try:
        require_tree(json.loads(unpacked(body, SCHEMA)[SCHEMA]))
        unknown = [name for name in skops.get_untrusted_types(data=body) if name not in trusted]
    except ModelError:
        raise
    except Exception as error:  # forged schemas may raise anything
        raise ModelError(f"it is not a skops file, or is damaged: {error!r}.") from None
    if unknown:
        allow = " ".join(f"--trust {shlex.quote(name)}" for name in unknown)
        refused = UntrustedError(
            f"it holds {', '.join(unknown)}, which skops does not trust: a forged file may crash "
            f"the process or run code by {'it' if len(unknown) == 1 else 'them'}. It was not "
            f"opened. If you trust whoever made it, add {allow}"
        )
        refused.untrusted = unknown[0]
        raise refused
