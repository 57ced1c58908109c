"""Packages that do not come with toppush itself: the extra that brings each, and what to say."""

EXTRAS = {
    "altair": "report",
    "catboost": "arena",
    "click": "cli",
    "dask": "dask",
    "distributed": "dask",
    "jinja2": "report",
    "lightgbm": "trees",
    "matplotlib": "cli",
    "onnx": "onnx",
    "pandas": "arena",
    "pebble": "reproduce",
    "pooch": "reproduce",
    "psutil": "reproduce",
    "pyarrow": "files",
    "rdkit": "arena",
    "rich": "cli",
    "skops": "files",
    "tabulate": "reproduce",
    "torch": "gpu",
    "vl_convert": "report",
    "xgboost": "xgboost",
}
"""By the name that is imported."""


def installing(package: str) -> str:
    """The command that installs a package, or a module's: by an extra if one brings it."""
    first = package.partition(".")[0]
    wanted = f"'toppush[{EXTRAS[first]}]'" if first in EXTRAS else first
    return f"pip install {wanted}"


def not_installed(package: str) -> str:
    """Why something is left out."""
    return f"{package} is not installed: {installing(package)}"


def needs(what: str, *packages: str) -> str:
    """Why something cannot go on; one extra brings all the packages."""
    return f"{what} needs {' and '.join(packages)}: {installing(packages[0])}"
