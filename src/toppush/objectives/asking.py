"""How LightGBM and XGBoost ask an objective or a metric, and what they let it see.

- ``lightgbm.train``, ``xgboost.train``: f(scores, data), data a Dataset or DMatrix
- ``LGBMClassifier``: f(labels, scores, weight), if f has three parameters; weight may be None
- ``XGBClassifier``: f(labels, scores), with ``sample_weight=`` if rows have weights
"""

import inspect
import sys
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toppush.objectives.teams import ALONE, Team, xgboost_team


class Asked(NamedTuple):
    """Labels, scores and weights of the rows that an engine asks about."""

    labels: NDArray[Any]
    scores: NDArray[np.floating]
    weight: NDArray[Any] | None


def asked_about(first: Any, second: Any, weight: Any) -> Asked:
    """Tell the four ways of asking apart, and check that each row has one score and one label."""
    if hasattr(second, "get_label"):
        scores, labels, weight = first, second.get_label(), second.get_weight()
    else:
        labels, scores = first, second
    labels, scores = np.asarray(labels), np.asarray(scores)
    if scores.shape != labels.shape or scores.ndim != 1:
        raise ValueError(
            f"There are scores of shape {scores.shape} for labels of shape {labels.shape}; the "
            "push needs one score for each row, so leave num_class and several targets alone."
        )
    none = weight is None or np.size(weight) == 0
    return Asked(labels, scores, None if none else np.asarray(weight))


def team_here() -> Team:
    """The workers of the XGBoost training that this is part of, if it is."""
    return xgboost_team() if "xgboost" in sys.modules else ALONE


def refuse_several_machines() -> None:
    """LightGBM on several machines shows each objective a part of the rows, and adds up nothing.

    It hands objectives no word of it, so the Booster that asks is looked up among the callers.
    """
    booster = _calling_booster(inspect.currentframe())
    if not getattr(booster, "_network", False):
        return
    if (n_machines := int(booster.params.get("num_machines", 2))) > 1:
        raise ValueError(
            f"LightGBM trains on {n_machines} machines, and this objective would push each one's "
            "rows by themselves; train on one machine, or with xgboost.dask."
        )


def _calling_booster(frame: FrameType | None) -> Any:
    """The LightGBM Booster in whose update this is, None outside of one."""
    kind = getattr(sys.modules.get("lightgbm"), "Booster", ())
    while frame is not None:
        if isinstance(found := frame.f_locals.get("self"), kind):
            return found
        frame = frame.f_back
    return None
