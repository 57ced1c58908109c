"""Leave inherited methods of scikit-learn out of the reference; give constants their docstrings."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from sphinx.pycode import ModuleAnalyzer

CONSTANTS = {
    "toppush.metrics": ("FOUR", "METRICS"),
    "toppush.objectives": ("LIGHTGBM_PARAMS", "XGBOOST_PARAMS"),
}
"""Constants of packages, which are described in the modules that define them."""
OTHERS = ("sklearn", "torch", "builtins", "collections", "enum")


def skip_others(app: Any, kind: str, name: str, member: Any, skip: bool, options: Any) -> bool:
    """Whether a member of a class is left out."""
    home = getattr(member, "__module__", None) or "toppush"
    made = name.startswith("set_") and name.endswith("_request")
    return skip or made or home.split(".")[0] in OTHERS or not getattr(member, "__doc__", "")


def describe_constants(app: Any) -> None:
    """Sphinx looks for a constant's description in the package; copy it from the module."""
    for package, names in CONSTANTS.items():
        shown = ModuleAnalyzer.for_module(package)
        shown.analyze()
        for module in iter_modules(import_module(package).__path__):
            described = ModuleAnalyzer.for_module(f"{package}.{module.name}")
            described.analyze()
            for name in names:
                if ("", name) in described.attr_docs:
                    shown.attr_docs["", name] = described.attr_docs["", name]


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("autodoc-skip-member", skip_others)
    app.connect("builder-inited", describe_constants, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
