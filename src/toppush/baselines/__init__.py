"""The paper's rivals and their kin, as scikit-learn rankers of two classes.

`BASELINES` holds them by name. Each is imported on first use, and a ranker that is put there,
from any file, is a baseline like the others:

>>> from toppush.baselines import BASELINES
>>> BASELINES["RankSVM"].__name__
'RankSVM'
"""

from collections import UserDict
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toppush.baselines.accuracy_at_top import AccuracyAtTop
    from toppush.baselines.infinite_push import InfinitePush
    from toppush.baselines.liblinear import CostSensitiveSVM, LogisticRanker
    from toppush.baselines.p_norm_push import PNormPush
    from toppush.baselines.sparse_infinite_push import SparseInfinitePush
    from toppush.baselines.structural import MAPSVM, OWPC, PartialAUCSVM, RankSVM
    from toppush.estimators.base import LinearRanker

__all__ = [
    "BASELINES",
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


class Baselines(UserDict[str, "type[LinearRanker] | str"]):
    """Classes of rankers by name; one that is given as its module is imported when asked for."""

    def __getitem__(self, name: str) -> "type[LinearRanker]":
        found = self.data[name]
        if isinstance(found, str):
            found = self.data[name] = getattr(import_module(f"toppush.baselines.{found}"), name)
        return found


BASELINES = Baselines(
    AccuracyAtTop="accuracy_at_top",
    CostSensitiveSVM="liblinear",
    InfinitePush="infinite_push",
    LogisticRanker="liblinear",
    MAPSVM="structural",
    OWPC="structural",
    PNormPush="p_norm_push",
    PartialAUCSVM="structural",
    RankSVM="structural",
    SparseInfinitePush="sparse_infinite_push",
)
"""Every baseline by its name; a ranker that is put there is one like the others.

>>> from toppush.baselines import BASELINES
>>> BASELINES["InfinitePush"].__name__
'InfinitePush'
"""


def __getattr__(name: str) -> Any:
    """Import on first use, as the package itself does."""
    if name not in BASELINES:
        raise AttributeError(f"module 'toppush.baselines' has no attribute {name!r}")
    return BASELINES[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
