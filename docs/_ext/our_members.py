"""Classes with our methods, not those that scikit-learn gives to all; constants with texts."""

from typing import Any

from sphinx.pycode import ModuleAnalyzer

CONSTANTS = {
    "toppush.metrics": {"FOUR": "measures", "METRICS": "measures"},
    "toppush.objectives": {"LIGHTGBM_PARAMS": "boosting", "XGBOOST_PARAMS": "boosting"},
}
"""The modules in which packages' constants are given their value, and described below it."""
OTHERS = ("sklearn", "torch", "builtins", "collections", "enum")


def skip_others(app: Any, kind: str, name: str, member: Any, skip: bool, options: Any) -> bool:
    """Whether a member of a class is left out."""
    home = getattr(member, "__module__", None) or "toppush"
    made = name.startswith("set_") and name.endswith("_request")
    return skip or made or home.split(".")[0] in OTHERS or not getattr(member, "__doc__", "")


def describe_constants(app: Any) -> None:
    """Sphinx looks for a constant's description in the package; show it where that is."""
    for package, homes in CONSTANTS.items():
        here = ModuleAnalyzer.for_module(package)
        here.analyze()
        for name, home in homes.items():
            there = ModuleAnalyzer.for_module(f"{package}.{home}")
            there.analyze()
            here.attr_docs["", name] = there.attr_docs["", name]


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("autodoc-skip-member", skip_others)
    app.connect("builder-inited", describe_constants, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
