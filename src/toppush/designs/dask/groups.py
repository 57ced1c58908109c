"""Blocks in the processes of Dask's workers, and what the driver runs there to ask them.

A group answers once for all its blocks, so an answer is as long as one block's. It counts the
rounds it has taken part in. The driver says which round it believes this to be, and a group that
was made again, or was asked twice, does not answer.
"""

import asyncio
import pickle
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from operator import add
from tempfile import SpooledTemporaryFile
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from distributed import get_worker
from numpy.typing import ArrayLike

from toppush.designs.blocks import Block, read_only
from toppush.designs.local import (
    blocks_of,
    by_entry,
    hold_blas,
    narrow_indices,
    quietly,
    release_blas,
)
from toppush.metrics.positive_class import checked_weights
from toppush.types import Array, Mask, Matrix

UNUSABLE = "partition"
"""The first word of the message about a partition that cannot be used."""
KEPT_IN_MEMORY = 1 << 26
"""Bytes of earlier calls that are kept in memory; beyond, all are moved to a file."""
AT_A_TIME = 1 << 26
"""Bytes of earlier calls that are sent to a new group in one message."""
GROUPS: "weakref.WeakValueDictionary[str, WorkerGroup]" = weakref.WeakValueDictionary()
"""Groups of this process by name. Dask keeps them, as actors, until the driver drops them or is
gone."""

_REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {"sum": add, "max": max}


def joined(how: str, answers: list[Any]) -> Any:
    """Several answers as one, in their order: their sum, maximum or list."""
    if how not in _REDUCTIONS:
        return answers
    return reduce(partial(by_entry, _REDUCTIONS[how]), answers)


class Call(NamedTuple):
    """A function to be called for every block."""

    how: str
    """What becomes of the answers: "each", "sum" or "max"; "apply" wants none. "own" gives each
    block its own arguments, by the number of its group."""
    function: Callable[..., Any]
    arguments: Any

    @property
    def changes(self) -> bool:
        """Whether blocks may be different afterwards, so that a lost block needs it again."""
        return not getattr(self.function, "read_only", False)

    def packed(self) -> bytes:
        """The bytes that are sent."""
        return pickle.dumps(self, protocol=5)


class CallLog:
    """The calls of earlier rounds that changed blocks, in memory or, if many, in a file."""

    def __init__(self, at_a_time: int = AT_A_TIME) -> None:
        self._at_a_time = at_a_time
        self._file = SpooledTemporaryFile(max_size=KEPT_IN_MEMORY)  # noqa: SIM115 - see close
        self._sizes: list[int] = []

    def add(self, calls: Iterable[bytes]) -> None:
        """Keep the calls of a round."""
        self._sizes += [self._file.write(call) for call in calls]

    def batches(self) -> Iterator[list[bytes]]:
        """All calls in order, one message at a time; one empty batch if there are none."""
        self._file.seek(0)
        batch: list[bytes] = []
        for size in self._sizes:
            if batch and sum(map(len, batch)) + size > self._at_a_time:
                yield batch
                batch = []
            batch.append(self._file.read(size))
        yield batch

    def close(self) -> None:
        """Delete them."""
        self._file.close()


class Partition(NamedTuple):
    """The checked rows of a partition."""

    number: int
    X: Matrix
    positive: Mask
    sample_weight: Array | None


def read_partition(
    number: int,
    n_columns: int,
    X: Matrix,
    positive: ArrayLike,
    sample_weight: ArrayLike | None = None,
) -> Partition:
    """Check the rows of a partition, and convert them if they are of another type."""
    from sklearn.utils import check_array

    try:
        X = check_array(
            X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=0
        )
        if X.shape[1] != n_columns:
            raise ValueError(f"it has {X.shape[1]} columns and X has {n_columns}")
        side: Mask = np.asarray(positive, bool).reshape(-1)
        weight = None if sample_weight is None else checked_weights(sample_weight).reshape(-1)
        for name, vector in (("y", side), ("sample_weight", weight)):
            if vector is not None and len(vector) != X.shape[0]:
                raise ValueError(f"X has {X.shape[0]} rows there and {name} {len(vector)}")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{UNUSABLE} {number} of X cannot be used: {error}") from error
    return Partition(number, X, side, weight)


class Group:
    """The blocks of some partitions, which are passed in the order of the rows.

    There are as many threads as blocks and, if rows are many enough, as many blocks as `n_jobs`.
    """

    def __init__(self, number: int, partitions: Sequence[Partition], n_jobs: int) -> None:
        self.number, self.n_rounds = number, 0
        filled = [part for part in partitions if part.X.shape[0]] or list(partitions[:1])
        pieces = -(-n_jobs // len(filled))
        self.blocks: list[Block] = []
        self.partitions: list[int] = []
        """The partition of each block."""
        for part in filled:
            X = narrow_indices(part.X)
            blocks = blocks_of(X, part.positive, part.sample_weight, pieces)
            self.blocks += blocks
            self.partitions += [part.number] * len(blocks)
        n_jobs = min(n_jobs, len(self.blocks))
        self._pool = ThreadPoolExecutor(n_jobs) if n_jobs > 1 else None
        self._asking = Lock()
        hold_blas()
        weakref.finalize(self, release_blas)

    def ask(self, n_before: int, calls: Sequence[bytes]) -> tuple[Any, int] | None:
        """The answer to the last of some calls, and the entries read so far.

        None if the group has not taken part in `n_before` rounds.
        """
        with self._asking, np.errstate(all="ignore"):  # as in `quietly`
            if self.n_rounds != n_before:
                return None
            *before, last = (pickle.loads(call) for call in calls)
            for call in before:
                self._run(call)
            answer = joined(last.how, self._run(last))
            if last.how == "each":
                answer = list(zip(self.partitions, answer, strict=True))
            self.n_rounds += 1
            return answer, sum(block.rows.tally.entries for block in self.blocks)

    def replay(self, calls: Sequence[bytes], n_rounds: int) -> None:
        """Repeat the calls of the `n_rounds` earlier rounds."""
        with self._asking:
            for call in calls:
                self._run(pickle.loads(call))
            self.n_rounds = n_rounds

    def _run(self, call: Call) -> list[Any]:
        if call.how == "own":
            arguments: list[tuple[Any, ...]] = call.arguments[self.number]
        else:
            arguments = [call.arguments] * len(self.blocks)
        pairs = list(zip(self.blocks, arguments, strict=True))
        ask = partial(quietly, call.function)
        if self._pool is None:
            return [ask(block, *own) for block, own in pairs]
        futures = [self._pool.submit(ask, block, *own) for block, own in pairs]
        return [future.result() for future in futures]


class WorkerGroup(Group):
    """A group that can be found by its name in the worker's process."""

    def __init__(
        self, name: str, number: int, partitions: Sequence[Partition], n_jobs: int
    ) -> None:
        super().__init__(number, partitions, n_jobs)
        self.address = get_worker().address
        GROUPS[name] = self


async def in_groups(
    method: Callable[..., Any], names: Sequence[str], *arguments: object, dask_worker: Any = None
) -> dict[str, Any]:
    """The answers of a worker's groups of these names to a method, or the errors it raised."""

    def answers() -> dict[str, Any]:
        by_name: dict[str, Any] = {}
        for name in names:
            group = GROUPS.get(name)
            if group is not None and group.address == dask_worker.address:  # or of another worker
                try:
                    by_name[name] = method(group, *arguments)
                except Exception as error:
                    by_name[name] = error
        return by_name

    return await asyncio.to_thread(answers)


class BlockSizes(NamedTuple):
    """The sizes of a block that the driver must know."""

    n_rows: int
    n_entries: int
    n_pos: int
    n_neg: int
    total_cost: float


@read_only
def block_sizes(block: Block) -> BlockSizes:
    """Sizes of a block."""
    n_rows, n_entries = block.rows.shape[0], block.rows.n_entries
    return BlockSizes(n_rows, n_entries, block.n_pos, block.n_neg, block.total_cost)


def number_negatives(block: Block, first: int) -> None:
    """Set how many negatives come before a block's own."""
    block.first_negative = first
