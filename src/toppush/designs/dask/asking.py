"""Groups in the processes of Dask's workers, and what the driver runs there to ask them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from distributed import get_worker

from toppush.designs.dask.groups import Group, Part

HELD: WeakValueDictionary[str, "HeldGroup"] = WeakValueDictionary()
"""Groups of this process by name. Dask keeps them, as actors, and drops them when the driver
lets go of them or is gone."""


class HeldGroup(Group):
    """A group that can be found by its name in the worker's process."""

    def __init__(self, name: str, number: int, parts: Sequence[Part], n_threads: int) -> None:
        super().__init__(number, parts, n_threads)
        self.home = get_worker().address
        HELD[name] = self


async def ask_groups(
    n_before: int, names: Sequence[str], calls: Sequence[bytes], dask_worker: Any = None
) -> dict[str, Any]:
    """The answers of a worker's groups by name, or the errors they met."""
    return await asyncio.to_thread(
        _with_groups, dask_worker.address, names, lambda group: group.ask(n_before, calls)
    )


async def replay_in_group(
    name: str, calls: Sequence[bytes], n_rounds: int, dask_worker: Any = None
) -> dict[str, Any]:
    """Whether a worker's group of this name could take earlier rounds again."""
    return await asyncio.to_thread(
        _with_groups, dask_worker.address, [name], lambda group: group.replay(calls, n_rounds)
    )


def held_at(address: str, name: str) -> HeldGroup | None:
    """The group of this name, if this worker holds it; several may share a process."""
    group = HELD.get(name)
    return group if group is not None and group.home == address else None


def _with_groups(
    address: str, names: Sequence[str], use: Callable[[HeldGroup], Any]
) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for name in names:
        group = held_at(address, name)
        if group is not None:
            try:
                answers[name] = use(group)
            except Exception as error:
                answers[name] = error
    return answers
