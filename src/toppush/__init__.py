"""Ranking that gets the top of the list right."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toppush.auto.ranker import TopRanker
    from toppush.designs import dask as cluster
    from toppush.designs import disk as on_disk
    from toppush.metrics.positive_class import PositiveClassWarning
    from toppush.models import DegenerateWarning, TopPush, TopPushCV, toppush_path
    from toppush.models.additive import TopPushAdditive
    from toppush.models.net import TopPushNet
    from toppush.models.trees import TopPushTrees
    from toppush.problem.solution import Solution, Status
    from toppush.report.evaluation import compare, evaluate
    from toppush.tables.leakage import LeakageWarning

__all__ = [
    "DegenerateWarning",
    "LeakageWarning",
    "PositiveClassWarning",
    "Solution",
    "Status",
    "TopPush",
    "TopPushAdditive",
    "TopPushCV",
    "TopPushNet",
    "TopPushTrees",
    "TopRanker",
    "cluster",
    "compare",
    "evaluate",
    "on_disk",
    "toppush_path",
]
__version__ = "0.1.0"

_HOMES = {
    "DegenerateWarning": "toppush.models",
    "LeakageWarning": "toppush.tables.leakage",
    "PositiveClassWarning": "toppush.metrics.positive_class",
    "Solution": "toppush.problem.solution",
    "Status": "toppush.problem.solution",
    "TopPush": "toppush.models",
    "TopPushAdditive": "toppush.models.additive",
    "TopPushCV": "toppush.models",
    "TopPushTrees": "toppush.models.trees",
    "TopPushNet": "toppush.models.net",
    "TopRanker": "toppush.auto.ranker",
    "toppush_path": "toppush.models",
    "compare": "toppush.report.evaluation",
    "evaluate": "toppush.report.evaluation",
}
_PACKAGES = {"cluster": "toppush.designs.dask", "on_disk": "toppush.designs.disk"}


def __getattr__(name: str) -> Any:
    """Import on first use: `toppush --help` should not wait for scikit-learn."""
    if name in _PACKAGES:
        return import_module(_PACKAGES[name])
    if name not in _HOMES:
        raise AttributeError(f"module 'toppush' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
