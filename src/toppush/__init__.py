"""Linear ranking that gets the top of the list right."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from toppush.versions import UNKNOWN, version_of

if TYPE_CHECKING:
    from toppush.estimators import DegenerateWarning, TopPush
    from toppush.selection import TopPushCV, toppush_path
    from toppush.solutions import Solution, Status

__all__ = ["DegenerateWarning", "Solution", "Status", "TopPush", "TopPushCV", "toppush_path"]
__version__ = version_of("toppush") or UNKNOWN

_HOMES = {
    "DegenerateWarning": "toppush.estimators",
    "Solution": "toppush.solutions",
    "Status": "toppush.solutions",
    "TopPush": "toppush.estimators",
    "TopPushCV": "toppush.selection",
    "toppush_path": "toppush.selection",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `toppush --help` should not wait for scikit-learn."""
    if name not in _HOMES:
        raise AttributeError(f"module 'toppush' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
