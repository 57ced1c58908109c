"""What a pipeline's features are made of, in terms of the columns that its rows come with.

Scaling at the end of a pipeline is folded into the weights, so that values are those before it:
w (a x - b) differs from (w a) x by a constant. One column may become several features, as a text
does; `sources` says which.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

from toppush.types import Array


def _divided(step: BaseEstimator) -> Array | float:
    return 1.0 if step.scale_ is None else 1.0 / step.scale_


FACTORS: dict[type, Callable[[BaseEstimator], Array | float]] = {
    MaxAbsScaler: _divided,
    StandardScaler: _divided,
    RobustScaler: _divided,
    MinMaxScaler: lambda step: step.scale_,
}
"""Steps that take x to a x - b feature by feature, and their a."""


def before_scaling(prepare: Pipeline | None, weights: Array) -> tuple[Pipeline | None, Array]:
    """The steps before those that only scale, and the weights of what those give."""
    steps = list(prepare) if prepare is not None else []
    while steps and type(steps[-1]) in FACTORS and not getattr(steps[-1], "clip", False):
        step = steps.pop()
        weights = weights * FACTORS[type(step)](step)
    return (None if prepare is None or not steps else prepare[: len(steps)]), weights


def sources(step: BaseEstimator, width: int) -> list[int] | None:
    """Column, counted from 0, that each output of a step is made of; None if nobody can tell."""
    if isinstance(step, Pipeline):
        return _through(list(step), width)
    if isinstance(step, ColumnTransformer):
        return _side_by_side(step)
    if hasattr(step, "feature_sources"):
        return list(step.feature_sources())
    if isinstance(step, OneHotEncoder):
        return np.repeat(np.arange(width), _counts(step)).tolist()
    return list(range(width)) if _keeps_its_columns(step, width) else None


def _through(steps: list[BaseEstimator], width: int) -> list[int] | None:
    made_of: list[int] = list(range(width))
    for step in steps:
        found = sources(step, len(made_of))
        if found is None:
            return None
        made_of = [made_of[one] for one in found]
    return made_of


def _counts(step: OneHotEncoder) -> list[int]:
    """How many features each column becomes: its categories, rare ones as one, less the dropped."""
    counts = [len(categories) for categories in step.categories_]
    for place, rare in enumerate(getattr(step, "infrequent_categories_", ())):
        counts[place] -= 0 if rare is None else len(rare) - 1
    for place, dropped in enumerate([] if step.drop_idx_ is None else step.drop_idx_):
        counts[place] -= dropped is not None
    return counts


def _side_by_side(step: ColumnTransformer) -> list[int] | None:
    outputs: dict[int, int] = {}
    for name, part, columns in step.transformers_:
        places = range(step.output_indices_[name].start, step.output_indices_[name].stop)
        if not places:
            continue
        taken = _taken(step, columns)
        found = None if taken is None else sources(part, len(taken))
        if taken is None or found is None or len(found) != len(places):
            return None
        outputs |= {place: taken[one] for place, one in zip(places, found, strict=True)}
    return [outputs[place] for place in range(len(outputs))]


def _taken(step: ColumnTransformer, columns: Any) -> list[int] | None:
    """Places of the columns that a part takes, which numbers, flags, names or a slice tell."""
    if isinstance(columns, slice):
        if isinstance(columns.start, str) or isinstance(columns.stop, str):
            return None
    elif np.ravel(columns).dtype.kind in "UO":
        names = list(step.feature_names_in_)
        return [names.index(name) for name in np.ravel(columns)]
    places: list[int] = np.ravel(np.arange(step.n_features_in_)[columns]).tolist()
    return places


def _keeps_its_columns(step: BaseEstimator, width: int) -> bool:
    """Whether a step gives out what it takes in, under the same names."""
    if step == "passthrough":
        return True
    try:
        named = [str(name) for name in step.get_feature_names_out()]
    except (AttributeError, ValueError):  # a step that has none to tell
        return False
    given = getattr(step, "feature_names_in_", [f"x{place}" for place in range(width)])
    return named == [str(name) for name in given]
