"""A design whose blocks are on Dask's workers.

Each worker holds a group of blocks for the whole fit. A round asks all workers at once: the
function and its arguments go out, and one answer for each group comes back, numbers and vectors
with an entry per feature. The groups and the order of their sum are fixed at the start, so results
do not depend on where a group lives.

A group that is lost with its worker is made again from Dask's graph on another one and repeats the
calls of earlier rounds that changed blocks. These are kept for that; they depend on nothing but
the rows, so the group then has the same state as before.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any
from uuid import uuid4

import dask
import numpy as np
from distributed import KilledWorker, wait

from toppush.designs.arrays import NUMPY
from toppush.designs.dask.groups import (
    UNUSABLE,
    BlockSizes,
    Call,
    CallLog,
    Group,
    WorkerGroup,
    block_sizes,
    in_groups,
    joined,
    number_negatives,
    read_partition,
)
from toppush.designs.dask.workers import (
    POLL,
    Lazy,
    LostRows,
    assigned,
    holders_of,
    live_workers,
    running_client,
)
from toppush.designs.protocol import Design, Records
from toppush.types import Array

Future = Any
"""A future of Dask. Dask may be absent where types are checked, so no type says more."""

MAX_LOSSES = 5
"""Times in a row that a group may be lost in one round before the fit gives up."""


@dataclass
class GroupHandle:
    """The driver's view of a group: its partitions, and the worker that holds it."""

    number: int
    address: str
    partitions: list[int]
    n_jobs: int
    name: str = ""
    actor: Future | None = None
    """Without it, Dask drops the blocks."""
    inputs: list[Future] = field(default_factory=list)
    """The partitions, until the group is made."""
    n_read: int = 0
    n_read_before: int = 0
    """Entries read by earlier groups in its place, which were lost."""

    def __str__(self) -> str:
        few = ", ".join(str(part) for part in self.partitions[:5])
        return f"partitions {few}{', ...' if len(self.partitions) > 5 else ''} of X"


class DaskDesign(Design):
    """Blocks on the workers of the running Dask client.

    Use it as a context: the workers drop the blocks when it ends.

    Parameters
    ----------
    X : Dask array of two dimensions
        Its partitions hold whole rows, as NumPy arrays or SciPy sparse matrices.
    positive : Dask array of bool, in the partitions of X
    sample_weight : Dask array, optional

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from toppush import cluster
    >>> X, y = np.arange(12.0).reshape(6, 2), np.arange(6) < 3
    >>> with Client(processes=False, dashboard_address="127.0.0.1:0"):
    ...     rows = da.from_array(X, chunks=(3, 2)), da.from_array(y, chunks=3)
    ...     with cluster.DaskDesign(*rows) as design:
    ...         print(design.n_pos, design.n_neg)
    ...
    3 3
    """

    arrays = NUMPY

    def __init__(self, X: Lazy, positive: Lazy, sample_weight: Lazy | None = None) -> None:
        self.client = running_client()
        self.known = Records()
        self.n_features = int(X.shape[1])
        vectors = [positive] if sample_weight is None else [positive, sample_weight]
        blocks = [X.to_delayed()[:, 0], *(vector.to_delayed() for vector in vectors)]
        self._delayed = list(zip(*blocks, strict=True))
        self._log = CallLog()
        self._queue: list[tuple[bool, bytes]] = []
        """Calls that wait for the next round: whether they change blocks, and what is sent."""
        self._n_rounds = 0
        workers = live_workers(self.client)
        lengths = np.nan_to_num(X.chunks[0], nan=1.0)  # Dask may not know them
        assignment = assigned(holders_of(self.client, X), lengths, workers)
        self._groups = [
            GroupHandle(number, address, partitions, workers[address])
            for number, (address, partitions) in enumerate(assignment)
        ]
        try:
            self._make(self._groups)
            self._describe_blocks()
        except BaseException:
            self._close()
            raise

    def _describe_blocks(self) -> None:
        """Ask for the sizes of the blocks, and number their negatives."""
        by_group = self._ask("each", block_sizes)
        places = [
            (part, number, place)
            for number, answers in enumerate(by_group)
            for place, (part, _) in enumerate(answers)
        ]
        self._order = [(number, place) for _, number, place in sorted(places)]
        self._n_blocks = [len(answers) for answers in by_group]
        blocks: list[BlockSizes] = self._in_order(by_group)
        sums = map(sum, zip(*blocks, strict=True))
        self.n_rows, self.n_entries, self.n_pos, self.n_neg, self.total_cost = sums
        self._lengths = [block.n_rows for block in blocks]
        firsts = accumulate((block.n_neg for block in blocks[:-1]), initial=0)
        self._enqueue("own", number_negatives, self._by_group(firsts))
        self._read_at_start = self._entries_read()

    def _in_order(self, by_group: list[list[tuple[int, Any]]]) -> list[Any]:
        """The blocks' answers in the order of the rows."""
        return [by_group[number][place][1] for number, place in self._order]

    def _by_group(self, values: Iterable[Any]) -> tuple[list[tuple[Any]], ...]:
        """One value for each block in the order of the rows, as arguments by group."""
        arguments: list[list[Any]] = [[None] * n_blocks for n_blocks in self._n_blocks]
        for (number, place), value in zip(self._order, values, strict=True):
            arguments[number][place] = (value,)
        return tuple(arguments)

    def __exit__(self, *error: object) -> None:
        self._close()

    def _close(self) -> None:
        """Let the workers drop the blocks."""
        for group in self._groups:
            group.actor, group.inputs = None, []
        self._log.close()

    # ---- asking

    @property
    def data_passes(self) -> float:
        """Reads of the whole data so far, those of lost groups and of repeated calls included."""
        return (self._entries_read() - self._read_at_start) / max(self.n_entries, 1)

    def _entries_read(self) -> int:
        return sum(group.n_read + group.n_read_before for group in self._groups)

    def apply(self, function: Any, *arguments: Any) -> None:
        self._enqueue("apply", function, arguments)

    def each(self, function: Any, *arguments: Any) -> list[Any]:
        return self._in_order(self._ask("each", function, *arguments))

    def sum(self, function: Any, *arguments: Any) -> Any:
        """The answers added up, by group and then in the order of the groups."""
        return self._ask("sum", function, *arguments)

    def max(self, function: Any, *arguments: Any) -> Any:
        return self._ask("max", function, *arguments)

    def scatter(self, function: Any, vector: Array) -> None:
        cuts = np.cumsum(self._lengths)[:-1]
        self._enqueue("own", function, self._by_group(np.split(vector, cuts)))

    def over_rows(self, function: Any, *arguments: Any) -> Array:
        """Nothing: a vector with an entry per row would not fit the driver."""
        return np.empty(0)

    def _enqueue(self, how: str, function: Any, arguments: Any) -> None:
        call = Call(how, function, arguments)
        self._queue.append((call.changes, call.packed()))

    def _ask(self, how: str, function: Any, *arguments: Any) -> Any:
        """One round: the answer, or for "each" the groups' answers in their order."""
        self._enqueue(how, function, arguments)
        calls, self._queue = self._queue, []
        answers = self._round([call for _, call in calls])
        self._log.add(call for changes, call in calls if changes)
        self._n_rounds += 1
        return joined(how, answers)

    def _round(self, calls: list[bytes]) -> list[Any]:
        """The groups' answers in their order."""
        answers: dict[int, Any] = {}
        missing, losses = self._groups, Counter[int]()
        while missing:
            replies = self._replies(missing, calls)
            for group in missing:
                reply = replies.get(group.name)
                if isinstance(reply, Exception):
                    reply.add_note(f"It came up on {group.address}, in {group}.")
                    raise reply
                if reply is not None:
                    answers[group.number], group.n_read = reply
            missing = [group for group in missing if group.number not in answers]
            self._replace_lost(missing, losses)
        return [answers[group.number] for group in self._groups]

    def _replies(self, groups: list[GroupHandle], calls: list[bytes]) -> dict[str, Any]:
        """The answers by the names of the groups; a worker that is gone sends none."""
        names = [group.name for group in groups]
        replies = self.client.run(
            in_groups, Group.ask, names, self._n_rounds, calls, on_error="return"
        )
        answers: dict[str, Any] = {}
        for reply in replies.values():
            answers.update(reply if isinstance(reply, dict) else {})
        return answers

    # ---- making groups, and making them again

    def _replace_lost(self, groups: list[GroupHandle], losses: Counter[int]) -> None:
        """Make lost groups again elsewhere, and count how often each was lost in this round."""
        losses.update(group.number for group in groups)
        worst = [group for group in groups if losses[group.number] >= MAX_LOSSES]
        if worst:
            raise LostRows(_given_up(worst))
        if groups:
            self._move(groups)
            self._make(groups)

    def _make(self, groups: list[GroupHandle]) -> None:
        """Make some groups, and bring them to the state of the others."""
        for _ in range(MAX_LOSSES):
            for group in groups:
                self._submit(group)
            groups = [
                group for group in groups if not (self._made(group) and self._replayed(group))
            ]
            if not groups:
                return
            self._move(groups)
        raise LostRows(_given_up(groups))

    def _move(self, groups: list[GroupHandle]) -> None:
        """Assign lost groups to the workers with the fewest groups for their threads."""
        for group in groups:
            group.n_read_before, group.n_read = group.n_read_before + group.n_read, 0
            group.actor, group.inputs, group.address = None, [], ""
        workers = live_workers(self.client)
        for group in groups:
            load = Counter(each.address for each in self._groups)
            group.address = min(
                workers, key=lambda worker: (load[worker] / workers[worker], worker)
            )

    def _submit(self, group: GroupHandle) -> None:
        """Begin to make a group; its rows may be computed elsewhere, its blocks live there."""
        group.name = f"toppush-{uuid4().hex}"
        inputs = [
            dask.delayed(read_partition, pure=False)(part, self.n_features, *self._delayed[part])
            for part in group.partitions
        ]
        where: dict[str, Any] = {"workers": [group.address]}
        group.inputs = self.client.compute(inputs, allow_other_workers=True, **where)
        arguments = group.name, group.number, group.inputs, group.n_jobs
        group.actor = self.client.submit(
            WorkerGroup, *arguments, key=group.name, actor=True, **where
        )

    def _made(self, group: GroupHandle) -> bool:
        """Wait for a group; false if its worker is gone."""
        assert group.actor is not None
        while group.actor.status == "pending":
            try:
                wait([group.actor], timeout=POLL)
            except TimeoutError:
                if group.address not in self.client.nthreads():
                    return False
        if group.actor.status == "error":
            self._explain(group)
        group.inputs = []
        return bool(group.actor.status == "finished")

    def _explain(self, group: GroupHandle) -> None:
        """Raise what went wrong with a partition; return if only a worker was lost."""
        for part, future in zip(group.partitions, group.inputs, strict=True):
            error = future.exception() if future.status == "error" else None
            if isinstance(error, KilledWorker):
                raise LostRows(
                    f"partition {part} of X could not be computed: the workers that tried died, "
                    f"the last on {error.last_worker.address}. Their logs say why; if it is "
                    "memory, use smaller partitions or more workers."
                ) from error
            if isinstance(error, ValueError) and str(error).startswith(UNUSABLE):
                raise error
            if error is not None:
                raise LostRows(
                    f"partition {part} of X could not be computed: {type(error).__name__}: {error}"
                ) from error

    def _replayed(self, group: GroupHandle) -> bool:
        """Let a new group repeat the earlier calls; false if its worker is gone."""
        for calls in self._log.batches():
            arguments = in_groups, Group.replay, [group.name], calls, self._n_rounds
            replies = self.client.run(*arguments, workers=[group.address], on_error="return")
            reply = replies.get(group.address)
            if not isinstance(reply, dict) or group.name not in reply:
                return False
            if isinstance(reply[group.name], Exception):
                raise reply[group.name]
        return True


def _given_up(groups: list[GroupHandle]) -> str:
    return (
        f"{groups[0]} were lost {MAX_LOSSES} times in a row with the workers that held them, "
        f"the last time on {groups[0].address or 'a worker that is gone'}. The workers' logs say "
        "why; if it is memory, use smaller partitions or more workers."
    )
