"""The pairwise push as an objective of gradient boosting.

`TopPushObjective` plugs into LightGBM and XGBoost, `LightGBMMetric` and `XGBoostMetric` stop them
early; `push` is the mathematics for whoever boosts by himself.
"""

from toppush.objectives.boosting import LIGHTGBM_PARAMS, XGBOOST_PARAMS, TopPushObjective
from toppush.objectives.pairs import Push
from toppush.objectives.push import push
from toppush.objectives.rows import LabelledRows, label_rows
from toppush.objectives.stopping import LightGBMMetric, XGBoostMetric

__all__ = [
    "LIGHTGBM_PARAMS",
    "XGBOOST_PARAMS",
    "LabelledRows",
    "LightGBMMetric",
    "Push",
    "TopPushObjective",
    "XGBoostMetric",
    "label_rows",
    "push",
]
