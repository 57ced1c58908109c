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

    def __init__(self, name: str, number: int, parts: Sequence[Part], n_jobs: int) -> None:
        super().__init__(number, parts, n_jobs)
        self.home = get_worker().address
        HELD[name] = self


async def in_groups(
    method: Callable[..., Any], names: Sequence[str], *arguments: object, dask_worker: Any = None
) -> dict[str, Any]:
    """What a method says of a worker's groups of these names, or the errors that they met."""
    return await asyncio.to_thread(_in_groups, method, dask_worker.address, names, arguments)


def _in_groups(
    method: Callable[..., Any], address: str, names: Sequence[str], arguments: Sequence[object]
) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for name in names:
        group = HELD.get(name)
        if group is not None and group.home == address:  # several workers may share a process
            try:
                answers[name] = method(group, *arguments)
            except Exception as error:
                answers[name] = error
    return answers
