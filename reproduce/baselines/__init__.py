"""The paper's competitors, as scikit-learn rankers of two classes, by name in `BASELINES`."""

from reproduce.baselines.accuracy_at_top import AccuracyAtTop
from reproduce.baselines.infinite_push import InfinitePush, SparseInfinitePush
from reproduce.baselines.liblinear import CostSensitiveSVM, LogisticRanker
from reproduce.baselines.p_norm_push import PNormPush
from toppush.baselines import MAPSVM, OWPC, PartialAUCSVM, RankSVM
from toppush.models.base import LinearRanker

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
BASELINES: dict[str, type[LinearRanker]] = {
    baseline.__name__: baseline
    for baseline in (
        AccuracyAtTop,
        CostSensitiveSVM,
        InfinitePush,
        LogisticRanker,
        MAPSVM,
        OWPC,
        PNormPush,
        PartialAUCSVM,
        RankSVM,
        SparseInfinitePush,
    )
}
"""Every baseline by its name; one registered here is a method of `table1` as well."""
