"""The pairwise loss as an objective of gradient boosting.

`TopPushObjective` plugs into LightGBM and XGBoost, `LightGBMMetric` and `XGBoostMetric` stop them
early; `pairwise_gradients` computes gradients for a boosting loop of your own.
"""

from toppush.objectives.engines import (
    LIGHTGBM_PARAMS,
    XGBOOST_PARAMS,
    LightGBMMetric,
    TopPushObjective,
    XGBoostMetric,
)
from toppush.objectives.grid import pairwise_gradients
from toppush.objectives.pairs import Gradients, LabelledRows, label_rows

__all__ = [
    "LIGHTGBM_PARAMS",
    "XGBOOST_PARAMS",
    "Gradients",
    "LabelledRows",
    "LightGBMMetric",
    "TopPushObjective",
    "XGBoostMetric",
    "label_rows",
    "pairwise_gradients",
]
