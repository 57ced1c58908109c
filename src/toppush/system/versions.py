"""Versions of packages, also where this one runs from its source folder."""

import platform
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata

from toppush import __version__

UNKNOWN = "0+unknown"
"""What stands for the version of a package that is not installed."""


def version_of(package: str) -> str | None:
    """The version of an installed package, or of its build for the CPU; None without either."""
    if package == "toppush":
        return __version__
    for name in (package, f"{package}-cpu"):
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return None


def versions_of(packages: Iterable[str], otherwise: str = UNKNOWN) -> dict[str, str]:
    """Versions of Python and of packages by name."""
    found = {name: version_of(name) or otherwise for name in packages}
    return {"python": platform.python_version()} | found
