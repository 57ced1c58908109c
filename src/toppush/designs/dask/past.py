"""Earlier rounds, for a group that is made anew."""

from collections.abc import Iterable, Iterator
from tempfile import SpooledTemporaryFile

KEPT_IN_MEMORY = 1 << 26
"""Bytes of earlier rounds that are kept in memory; beyond them all go to a file."""
AT_A_TIME = 1 << 26
"""Bytes of earlier rounds that are sent to a new group in one message."""


class Past:
    """The calls of earlier rounds that changed blocks, in memory or, if many, in a file."""

    def __init__(self, at_a_time: int = AT_A_TIME) -> None:
        self._at_a_time = at_a_time
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
            if batch and sum(map(len, batch)) + size > self._at_a_time:
                yield batch
                batch = []
            batch.append(self._file.read(size))
        yield batch

    def close(self) -> None:
        """Forget them."""
        self._file.close()
