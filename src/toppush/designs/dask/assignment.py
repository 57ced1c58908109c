"""Which worker gets which partitions."""

from collections.abc import Sequence

import numpy as np

Share = tuple[str, list[int]]


def shared_out(
    homes: Sequence[str | None], lengths: Sequence[float], workers: dict[str, int]
) -> list[Share]:
    """Partitions for each worker: those it holds in memory, or a run of them by its threads.

    Parameters
    ----------
    homes : sequence of str or None
        The worker that holds each partition.
    lengths : sequence of float
        How much work each partition is.
    workers : dict
        Threads by address.

    Returns
    -------
    list of (address, numbers of partitions)
        In the order of the first partitions; workers that get none are left out.
    """
    if all(home in workers for home in homes):
        chosen = [str(home) for home in homes]
    else:
        ends = np.cumsum(list(workers.values())) / sum(workers.values())
        middles = (np.cumsum(lengths) - 0.5 * np.asarray(lengths)) / max(sum(lengths), 1e-300)
        names = list(workers)
        places = np.minimum(np.searchsorted(ends, middles), len(names) - 1)
        chosen = [names[place] for place in places]
    shares: dict[str, list[int]] = {}
    for part, address in enumerate(chosen):
        shares.setdefault(address, []).append(part)
    return list(shares.items())
