"""Model types by their name in `toppush fit --model`, and the model type of a fitted ranker."""

from toppush.modeltypes.additive import Additive, TopLinearType
from toppush.modeltypes.auto import Auto
from toppush.modeltypes.base import (
    BASE_MODEL_TYPES,
    MODEL_TYPES,
    ModelType,
    OptionError,
    model_type_of,
)
from toppush.modeltypes.kernel import KernelType
from toppush.modeltypes.linear import Linear
from toppush.modeltypes.net import Net
from toppush.modeltypes.trees import EngineTreesType, ForestType, Trees
from toppush.system.errors import like

MODEL_TYPES.update({known.name: known for known in (Auto(), Linear(), Additive(), Trees(), Net())})
BASE_MODEL_TYPES.extend([TopLinearType(), ForestType(), EngineTreesType(), KernelType()])
__all__ = ["MODEL_TYPES", "model_type_named", "model_type_of", "select_model_type"]

DEFAULT, FIRST = "auto", "linear"
"""The default model type, and that of models which do not name theirs."""
LINEAR_OPTIONS = ("lam", "top", "loss", "scale", "tol")
"""Options that select the linear model if no type is named."""
OTHER_LOSSES = ("pairwise", "binary", "cross_entropy")
"""Losses of model types other than linear."""


def model_type_named(name: str) -> ModelType:
    """The model type of a name."""
    if name not in MODEL_TYPES:
        names = ", ".join(MODEL_TYPES)
        raise OptionError(f"model is {name!r}{like(name, MODEL_TYPES)}; use one of {names}.")
    return MODEL_TYPES[name]


def select_model_type(model: str | None, **options: object) -> ModelType:
    """The model type of a name; without one auto, or linear if one of its options is set."""
    if model is None:
        is_linear = any(options.get(option) is not None for option in LINEAR_OPTIONS)
        model = FIRST if is_linear else DEFAULT
    return model_type_named(model)
