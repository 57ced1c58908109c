"""Versions of packages, also where this one runs from its source folder."""

from importlib import metadata

UNKNOWN = "0+unknown"
"""What stands for the version of a package that is not installed."""


def version_of(package: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
