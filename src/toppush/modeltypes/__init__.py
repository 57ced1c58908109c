"""Kinds of models by the name that `toppush fit --model` gives them, and the kind of a ranker."""

from toppush.modeltypes.additive import Additive
from toppush.modeltypes.auto import Auto
from toppush.modeltypes.base import Kind, OptionError
from toppush.modeltypes.linear import Linear
from toppush.modeltypes.members import Forest, Straight
from toppush.modeltypes.net import Net
from toppush.modeltypes.trees import Trees
from toppush.system.errors import like

KINDS: dict[str, Kind] = {one.name: one for one in (Auto(), Linear(), Additive(), Trees(), Net())}
"""One that is put here is fitted, saved, told of and exported as well."""
MEMBER_KINDS = (Straight(), Forest())
"""Of rankers that are saved and exported as members of others alone."""
DEFAULT, FIRST = "auto", "linear"
"""What is fitted unless the options say; and what models are that do not tell their kind."""
OF_LINEAR = ("lam", "top", "loss", "scale", "tol")
"""Options that mean the linear model if no kind is named."""
OTHER_LOSSES = ("pairwise", "binary", "cross_entropy")
"""Of kinds other than linear."""


def named(name: str) -> Kind:
    """The kind of a name."""
    if name not in KINDS:
        raise OptionError(f"model is {name!r}{like(name, KINDS)}; give one of {', '.join(KINDS)}.")
    return KINDS[name]


def chosen(model: str | None, **given: object) -> Kind:
    """The kind of a name; without one auto, or linear if an option of its own is given."""
    if model is not None:
        return named(model)
    asked = any(given.get(option) is not None for option in OF_LINEAR)
    return named(FIRST if asked else DEFAULT)


def kind_of(ranker: object) -> Kind | None:
    """The kind that a ranker is of, if it is one."""
    home = f"{type(ranker).__module__}.{type(ranker).__qualname__}"
    return next((one for one in _all() if home in (one.home, *one.also)), None)


def homes() -> set[str]:
    """Classes that a model may end with."""
    return {home for one in _all() for home in (one.home, *one.also)}


def _all() -> tuple[Kind, ...]:
    return (*KINDS.values(), *MEMBER_KINDS)
