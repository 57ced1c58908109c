"""The running client of Dask, its workers, and which of them hold or get which partitions."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import dask
import numpy as np
from distributed import futures_of, get_client, wait

Answer = TypeVar("Answer")
Lazy = Any
"""An array, a data frame or a series of Dask, which may be absent where types are checked."""

NO_WORKER = 60.0
"""Seconds to wait for a worker when there is none."""
POLL = 0.5
"""Seconds between two checks of which workers are there."""


class LostRows(RuntimeError):
    """Rows that workers cannot keep, or no worker to hold them.

    Examples
    --------
    >>> from toppush import cluster
    >>> issubclass(cluster.LostRows, RuntimeError)
    True
    """


def running_client() -> Any:
    """The client in use; Dask data need one."""
    try:
        client = get_client()
    except ValueError:
        raise ValueError(
            "X is a Dask collection and no Dask client is running; start one first: "
            "from distributed import Client; client = Client()."
        ) from None
    if client.asynchronous:
        raise ValueError("the running Dask client is asynchronous; start one without that.")
    return client


def have_own_processes() -> bool:
    """Whether no two workers of the running client share a process."""
    return not any(address.startswith("inproc") for address in live_workers(running_client()))


def live_workers(client: Any) -> dict[str, int]:
    """Threads of each worker by address; waits a while if there is none."""
    began = time.monotonic()
    while not (workers := dict(sorted(client.nthreads().items()))):
        if time.monotonic() - began > NO_WORKER:
            raise LostRows(
                f"the Dask cluster has had no worker for {NO_WORKER:.0f} s; start some, "
                "and fit again."
            )
        time.sleep(POLL)
    return workers


def holders_of(client: Any, lazy: Lazy) -> list[str | None]:
    """The worker that holds each partition in memory, if X was persisted."""
    futures = {future.key: future for future in futures_of(lazy)}
    kept: list[Any] = [futures.get(key) for key in (row[0] for row in lazy.__dask_keys__())]
    if None in kept or not kept:
        return [None] * len(kept)
    wait(kept)
    addresses = client.who_has(kept)
    return [min(addresses.get(future.key) or [None]) for future in kept]


def assigned(
    holders: Sequence[str | None], lengths: Sequence[float], workers: dict[str, int]
) -> list[tuple[str, list[int]]]:
    """Partitions of each worker: those it holds in memory, or a range in proportion to its threads.

    `holders` and `lengths` are of the partitions, `workers` threads by address. Workers come in the
    order of their first partitions, and those without a partition are left out.
    """
    if all(holder in workers for holder in holders):
        chosen = [str(holder) for holder in holders]
    else:
        ends = np.cumsum(list(workers.values())) / sum(workers.values())
        middles = (np.cumsum(lengths) - 0.5 * np.asarray(lengths)) / max(sum(lengths), 1e-300)
        names = list(workers)
        places = np.minimum(np.searchsorted(ends, middles), len(names) - 1)
        chosen = [names[place] for place in places]
    partitions: dict[str, list[int]] = {}
    for part, address in enumerate(chosen):
        partitions.setdefault(address, []).append(part)
    return list(partitions.items())


def on_workers(
    function: Callable[..., Answer], parts: Iterable[object], *arguments: object
) -> list[Answer]:
    """`function(part, *arguments)` of each part, run by the workers; results in order.

    Examples
    --------
    >>> from distributed import Client
    >>> from toppush import cluster
    >>> with Client(processes=False, dashboard_address="127.0.0.1:0"):
    ...     cluster.on_workers(pow, [2, 3, 4], 2)
    ...
    [4, 9, 16]
    """
    return list(dask.compute(*(dask.delayed(function)(part, *arguments) for part in parts)))
