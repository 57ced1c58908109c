"""Rounds over the tree, on Dask's workers: each passes a round on and adds up what comes back.

A worker calls the workers below it, as the driver calls the root: all waits are for an answer to
such a call, and end with the worker that was called.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any

from distributed.protocol.pickle import dumps

from toppush.designs.dask.asking import HeldGroup, held_at
from toppush.designs.dask.tree import Asked, Branch, below, with_lower

WATCH = 1.0
"""Seconds between looks at whether a worker that has not answered is still there."""


def ask_tree(client: Any, asked: Asked) -> Branch:
    """The driver's question to the root, and with it to all groups."""

    async def root() -> Branch:
        address = asked.homes[0][0]
        said = client.run(ask_branch, asked, 0, workers=[address], on_error="return")
        replies = await _while_there(said, address, client.scheduler)
        reply = replies.get(address) if isinstance(replies, dict) else None
        return reply if isinstance(reply, Branch) else Branch(None, {}, (0,))

    branch: Branch = client.sync(root)
    return branch


async def ask_branch(asked: Asked, number: int, dask_worker: Any = None) -> Branch:
    """The answers of a group of this worker and of all below it as one."""
    group = held_at(dask_worker.address, asked.homes[number][1])
    if group is None:
        return Branch(None, {}, (number,))
    if (kept := group.kept(asked.token)) is not None:
        return kept
    numbers = below(number, len(asked.homes), asked.fanout)
    arguments = dumps((asked,)) if numbers else b""
    async with asyncio.TaskGroup() as calls:
        lower = [
            calls.create_task(_ask_lower(dask_worker, asked, one, arguments)) for one in numbers
        ]
        branch = await asyncio.to_thread(_own, group, asked)
        for one in lower:
            branch = await asyncio.to_thread(with_lower, asked.how, branch, await one)
    if branch.whole:
        group.keep(asked.token, branch)
    return branch


def _own(group: HeldGroup, asked: Asked) -> Branch:
    """The part of the group itself."""
    try:
        reply = group.ask_once(asked.token, asked.n_before, asked.calls)
    except Exception as error:
        return Branch(None, {}, (), {group.number: error})
    if reply is None:
        return Branch(None, {}, (group.number,))
    answer, n_read = reply
    return Branch(answer, {group.number: n_read})


async def _ask_lower(worker: Any, asked: Asked, number: int, arguments: bytes) -> Branch:
    """What comes from a group right below; it is lost if nothing comes."""
    address = asked.homes[number][0]
    said = worker.rpc(address).run(
        function=dumps(ask_branch), args=arguments, kwargs=dumps({"number": number})
    )
    reply = await _while_there(said, address, worker.scheduler)
    branch = reply.get("result") if isinstance(reply, dict) else None
    return branch if isinstance(branch, Branch) else Branch(None, {}, (number,))


async def _while_there(said: Awaitable[Any], address: str, scheduler: Any) -> Any:
    """What a worker says, or nothing if it cannot be reached or the scheduler gives it up."""
    answer = asyncio.ensure_future(said)
    try:
        while not (await asyncio.wait([answer], timeout=WATCH))[0]:
            if address not in await scheduler.ncores(workers=[address]):
                return None
        return answer.result()
    except Exception:
        return None  # whoever was called is lost, and made anew elsewhere
    finally:
        answer.cancel()
