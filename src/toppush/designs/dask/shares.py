"""Which worker gets which partitions, and what a new worker must be told of earlier rounds."""

from collections.abc import Iterable, Iterator, Sequence
from tempfile import SpooledTemporaryFile

import numpy as np

KEPT_IN_MEMORY = 1 << 26
"""Bytes of earlier rounds that are kept in memory; beyond them all go to a file."""
AT_A_TIME = 1 << 26
"""Bytes of earlier rounds that are sent to a new group in one message."""

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


class Past:
    """The calls of earlier rounds that changed blocks, in memory or, if many, in a file."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=KEPT_IN_MEMORY)  # noqa: SIM115 - see close
        self._sizes: list[int] = []

    def add(self, calls: Iterable[bytes]) -> None:
        """Keep the calls of a round."""
        for call in calls:
            self._sizes.append(self._file.write(call))

    def batches(self) -> Iterator[list[bytes]]:
        """All calls in order, a message's worth at a time; one empty batch if there are none."""
        self._file.seek(0)
        batch: list[bytes] = []
        for size in self._sizes:
            if batch and sum(map(len, batch)) + size > AT_A_TIME:
                yield batch
                batch = []
            batch.append(self._file.read(size))
        yield batch

    def close(self) -> None:
        """Forget them."""
        self._file.close()
