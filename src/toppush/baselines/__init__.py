"""The paper's rivals and their kin, as scikit-learn rankers of two classes.

`BASELINES` holds them by name. Each is imported on first use, and a ranker that is put there,
from any file, is a baseline like the others:

>>> from toppush.baselines import BASELINES
>>> BASELINES["RankSVM"].__name__
'RankSVM'
"""

from collections.abc import Iterator, MutableMapping
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


class Baselines(MutableMapping[str, "type[LinearRanker]"]):
    """Classes of rankers by name; one that is given as its module is imported when asked for."""

    def __init__(self, homes: dict[str, str]) -> None:
        self._found: dict[str, str | type[LinearRanker]] = {**homes}

    def __getitem__(self, name: str) -> "type[LinearRanker]":
        found = self._found[name]
        if isinstance(found, str):
            found = self._found[name] = getattr(import_module(found), name)
        return found

    def __setitem__(self, name: str, ranker: "type[LinearRanker]") -> None:
        self._found[name] = ranker

    def __delitem__(self, name: str) -> None:
        del self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


BASELINES = Baselines(
    {
        "AccuracyAtTop": "toppush.baselines.accuracy_at_top",
        "CostSensitiveSVM": "toppush.baselines.liblinear",
        "InfinitePush": "toppush.baselines.infinite_push",
        "LogisticRanker": "toppush.baselines.liblinear",
        "MAPSVM": "toppush.baselines.structural",
        "OWPC": "toppush.baselines.structural",
        "PNormPush": "toppush.baselines.p_norm_push",
        "PartialAUCSVM": "toppush.baselines.structural",
        "RankSVM": "toppush.baselines.structural",
        "SparseInfinitePush": "toppush.baselines.sparse_infinite_push",
    }
)


def __getattr__(name: str) -> Any:
    """Import on first use, as the package itself does."""
    if name not in BASELINES:
        raise AttributeError(f"module 'toppush.baselines' has no attribute {name!r}")
    return BASELINES[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
