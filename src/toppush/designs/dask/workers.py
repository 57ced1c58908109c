"""The running client of Dask, its workers, and which of them holds which rows."""

import time
from typing import Any

import numpy as np
from distributed import futures_of, get_client, wait

Lazy = Any
"""An array, a data frame or a series of Dask, which may be absent where types are checked."""

NO_WORKER = 60.0
"""Seconds to wait for a worker when there is none."""
POLL = 0.5
"""Seconds between looks at which workers are there."""


class LostRows(RuntimeError):
    """Rows that workers cannot keep, or no worker to hold them."""


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


def lengths_of(lazy: Lazy) -> list[float]:
    """Rows of each partition, or 1 each if Dask does not know."""
    return [1.0 if np.isnan(length) else float(length) for length in lazy.chunks[0]]


def homes_of(client: Any, lazy: Lazy) -> list[str | None]:
    """The worker that holds each partition in memory, if X was persisted."""
    futures = {future.key: future for future in futures_of(lazy)}
    kept: list[Any] = [futures.get(key) for key in (row[0] for row in lazy.__dask_keys__())]
    if None in kept or not kept:
        return [None] * len(kept)
    wait(kept)
    holders = client.who_has(kept)
    return [min(holders.get(future.key) or [None]) for future in kept]
