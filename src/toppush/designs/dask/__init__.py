"""Rows in Dask's partitions, worked on where they are; needs the extra `dask`.

Nothing else imports Dask. Users find this package as `toppush.cluster`.

>>> import dask.array as da
>>> import numpy as np
>>> from distributed import Client  # or Client("tcp://scheduler:8786")
>>> from toppush import TopPush
>>> X, y = np.eye(50), np.arange(50) < 25
>>> with Client(processes=False, dashboard_address="127.0.0.1:0"):
...     ranker = TopPush(top=0.5).fit(da.from_array(X, chunks=(20, 50)), y)
...
>>> ranker.predict(X)[:3]
array([ True,  True,  True])
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from toppush.system.extras import needs

try:
    from distributed import Client

    from toppush.designs.dask import metrics
    from toppush.designs.dask.design import DaskDesign
    from toppush.designs.dask.files import Parts, read_libsvm, read_parquet
    from toppush.designs.dask.rows import DaskRows, place
    from toppush.designs.dask.workers import LostRows, on_workers
except ImportError as error:
    raise ImportError(needs("toppush.cluster", "dask", "distributed")) from error

__all__ = [
    "DaskDesign",
    "DaskRows",
    "LostRows",
    "Parts",
    "connected",
    "metrics",
    "on_workers",
    "place",
    "read_libsvm",
    "read_parquet",
]

LOOPBACK = "127.0.0.1"
"""Where a local cluster and its pages listen: any process that connects may send it work."""


@contextmanager
def connected(where: str) -> Iterator[Any]:
    """A client of the cluster at an address, or of a local cluster with a process for each core.

    The local cluster listens on 127.0.0.1 alone.

    Parameters
    ----------
    where : str
        "local", or an address such as "tcp://10.0.0.1:8786".

    Examples
    --------
    >>> from toppush import cluster
    >>> with cluster.connected("local") as client:  # doctest: +SKIP
    ...     len(client.nthreads())
    ...
    >>> try:
    ...     with cluster.connected("somewhere"):
    ...         pass
    ... except ValueError as error:
    ...     print(str(error).split(";")[0])
    ...
    cluster is 'somewhere'
    """
    if where == "local":
        started = Client(
            host=LOOPBACK,
            dashboard_address=f"{LOOPBACK}:0",
            threads_per_worker=1,
            silence_logs=logging.CRITICAL,
        )
    elif "://" in where:
        try:
            started = Client(where)
        except OSError as error:
            raise OSError(f"no Dask scheduler answers at {where}: {error}") from error
    else:
        raise ValueError(
            f"cluster is {where!r}; give an address such as tcp://host:8786, or local."
        )
    with started as client:
        yield client
