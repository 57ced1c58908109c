"""Kinds of models by the name that `toppush fit --model` gives them, and the kind of a ranker."""

from toppush.files.errors import like
from toppush.files.kinds.additive import Additive
from toppush.files.kinds.base import Kind, OptionError
from toppush.files.kinds.kernel import Kernel
from toppush.files.kinds.linear import Linear
from toppush.files.kinds.net import Net
from toppush.files.kinds.trees import Trees

KINDS: dict[str, Kind] = {one.name: one for one in (Linear(), Additive(), Kernel(), Trees(), Net())}
"""One that is put here is fitted, saved, told of and exported as well."""
DEFAULT = "linear"
OTHER_LOSSES = ("pairwise", "binary", "cross_entropy")
"""Of kinds other than linear."""


def named(name: str) -> Kind:
    """The kind of a name."""
    if name not in KINDS:
        raise OptionError(f"model is {name!r}{like(name, KINDS)}; give one of {', '.join(KINDS)}.")
    return KINDS[name]


def kind_of(ranker: object) -> Kind | None:
    """The kind that a ranker is of, if it is one."""
    home = f"{type(ranker).__module__}.{type(ranker).__qualname__}"
    return next((one for one in KINDS.values() if home in (one.home, *one.also)), None)


def homes() -> set[str]:
    """Classes that a model may end with."""
    return {home for one in KINDS.values() for home in (one.home, *one.also)}
