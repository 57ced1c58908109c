"""The paper's rivals and their kin, as scikit-learn rankers of two classes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toppush.baselines.accuracy_at_top import AccuracyAtTop
    from toppush.baselines.infinite_push import InfinitePush
    from toppush.baselines.liblinear import CostSensitiveSVM, LogisticRanker
    from toppush.baselines.p_norm_push import PNormPush
    from toppush.baselines.sparse_infinite_push import SparseInfinitePush
    from toppush.baselines.structural import MAPSVM, OWPC, PartialAUCSVM, RankSVM

__all__ = [
    "MAPSVM",
    "OWPC",
    "AccuracyAtTop",
    "CostSensitiveSVM",
    "InfinitePush",
    "LogisticRanker",
    "PNormPush",
    "PartialAUCSVM",
    "RankSVM",
    "SparseInfinitePush",
]

_HOMES = {
    "AccuracyAtTop": "accuracy_at_top",
    "CostSensitiveSVM": "liblinear",
    "InfinitePush": "infinite_push",
    "LogisticRanker": "liblinear",
    "MAPSVM": "structural",
    "OWPC": "structural",
    "PNormPush": "p_norm_push",
    "PartialAUCSVM": "structural",
    "RankSVM": "structural",
    "SparseInfinitePush": "sparse_infinite_push",
}


def __getattr__(name: str) -> Any:
    """Import on first use, as the package itself does."""
    if name not in _HOMES:
        raise AttributeError(f"module 'toppush.baselines' has no attribute {name!r}")
    return getattr(import_module(f"toppush.baselines.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
