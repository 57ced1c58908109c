"""One self-contained HTML page about a ranking.

`from_estimator` makes it from a fitted ranker, `build` from scores and labels; `write` puts it
into a file. It needs the extra: ``pip install 'toppush[report]'``.
"""

from typing import TYPE_CHECKING, Any

from toppush.system.extras import needs

if TYPE_CHECKING:
    from toppush.report.budget import Budget
    from toppush.report.contributions import Features
    from toppush.report.estimator import from_estimator
    from toppush.report.page import (
        Baseline,
        ModelDetails,
        build,
        first_false_alarms,
        list_order,
        write,
    )

__all__ = [
    "Baseline",
    "Budget",
    "Features",
    "ModelDetails",
    "build",
    "first_false_alarms",
    "from_estimator",
    "list_order",
    "write",
]

_HOMES = {"Budget": "budget", "Features": "contributions", "from_estimator": "estimator"}


def __getattr__(name: str) -> Any:
    """Import on first use, and say which extra is missing."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'toppush.report' has no attribute {name!r}")
    try:
        home = import_module(f"toppush.report.{_HOMES.get(name, 'page')}")
    except ImportError as error:
        raise ImportError(needs("a report", error.name or "altair")) from error
    return getattr(home, name)
