"""Packages that toppush can use: the extra that installs each, messages, and versions."""

import platform
from collections.abc import Iterable
from contextlib import suppress

from toppush import __version__

EXTRAS = {
    "altair": "report",
    "catboost": "catboost",
    "click": "cli",
    "dask": "dask",
    "distributed": "dask",
    "jinja2": "report",
    "lightgbm": "trees",
    "matplotlib": "cli",
    "onnx": "onnx",
    "pandas": "benchmark",
    "pebble": "reproduce",
    "pooch": "reproduce",
    "psutil": "reproduce",
    "pyarrow": "files",
    "rdkit": "benchmark",
    "rich": "cli",
    "skops": "files",
    "tabulate": "reproduce",
    "torch": "gpu",
    "vl_convert": "report",
    "xgboost": "xgboost",
}
"""By the name that is imported."""
UNKNOWN = "0+unknown"
"""The version of a package that is not installed."""


def installing(package: str) -> str:
    """The command that installs the package of a module: an extra, if one contains it."""
    first = package.partition(".")[0]
    wanted = f"'toppush[{EXTRAS[first]}]'" if first in EXTRAS else first
    return f"pip install {wanted}"


def not_installed(package: str) -> str:
    """The message for a part that is left out."""
    return f"{package} is not installed: {installing(package)}"


def needs(what: str, *packages: str) -> str:
    """The error message of something that cannot run; one extra installs all the packages."""
    return f"{what} needs {' and '.join(packages)}: {installing(packages[0])}"


def version_of(package: str) -> str | None:
    """The version of an installed package, or of its build for the CPU; None without either."""
    from importlib import metadata  # takes longer than the rest of this module

    if package == "toppush":
        return __version__
    for name in (package, f"{package}-cpu"):
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return None


def versions_of(packages: Iterable[str], otherwise: str = UNKNOWN) -> dict[str, str]:
    """Versions of Python and of packages by name."""
    versions = {name: version_of(name) or otherwise for name in packages}
    return {"python": platform.python_version()} | versions
