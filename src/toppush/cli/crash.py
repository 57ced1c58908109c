"""A file about an error that nobody foresaw, for whoever is to mend it."""

import platform
import shlex
import sys
import tempfile
import traceback
from datetime import datetime
from pathlib import Path

from toppush.system.versions import versions_of

PACKAGES = ("toppush", "numpy", "scipy", "scikit-learn", "pyarrow", "skops", "click", "dask")


def write_crash(error: Exception) -> Path:
    """Write where the error came from to a new file, in this folder or else in that of the system.

    It holds the command line, versions and the traceback, without the values of variables.
    """
    name = f"toppush-error-{datetime.now():%Y%m%d-%H%M%S}-"
    for folder in (Path.cwd(), Path(tempfile.gettempdir())):
        try:
            with tempfile.NamedTemporaryFile(
                "w", prefix=name, suffix=".txt", dir=folder, delete=False, encoding="utf-8"
            ) as file:
                file.write(described(error))
        except OSError:
            continue
        return Path(file.name)
    return Path("the text above")


def described(error: Exception) -> str:
    """Command line, versions and traceback."""
    python, *versions = map(" ".join, versions_of(PACKAGES, "not installed").items())
    return (
        f"Command: {shlex.join(sys.argv)}\n"
        f"{python.capitalize()} on {platform.platform()}\n"
        f"Packages: {', '.join(versions)}\n\n"
    ) + "".join(traceback.format_exception(error))
