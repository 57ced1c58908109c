"""Rows in Dask's partitions, worked on where they are; nothing else imports Dask.

Each worker holds a group of blocks for the whole fit. A round asks all workers at once: the
function and its arguments go out, and one answer for each group comes back, numbers and vectors
with an entry per feature. The groups and the order of their sum are fixed at the start, so results
do not depend on where a group lives.

A group that is lost with its worker is made anew from Dask's graph on another one and takes the
earlier rounds again, those that changed blocks: they are kept for that, and depend on nothing
but the rows. It then stands where it stood.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any
from uuid import uuid4

import dask
import numpy as np
from distributed import KilledWorker, wait

from toppush.designs.arrays import NUMPY
from toppush.designs.dask.asking import HeldGroup, in_groups
from toppush.designs.dask.groups import (
    UNUSABLE,
    Call,
    Described,
    Group,
    Past,
    describe,
    joined,
    number_negatives,
    read_part,
)
from toppush.designs.dask.workers import (
    POLL,
    Lazy,
    LostRows,
    homes_of,
    live_workers,
    running_client,
    shared_out,
)
from toppush.designs.local import Answer
from toppush.designs.protocol import Design, Records
from toppush.types import Array

Future = Any
"""A future of Dask. Dask may be absent where types are checked, so no type says more."""

MAX_LOSSES = 5
"""Times in a row that a group may be lost in one round before the fit gives up."""


@dataclass
class Member:
    """The driver's view of a group: its partitions, and the worker that holds it."""

    number: int
    address: str
    parts: list[int]
    n_jobs: int
    name: str = ""
    held: Future | None = None
    """Lets go of the blocks when it goes."""
    made_of: list[Future] = field(default_factory=list)
    n_read: int = 0
    n_read_before: int = 0
    """Entries read by groups that stood here and were lost."""

    def __str__(self) -> str:
        few = ", ".join(str(part) for part in self.parts[:5])
        return f"partitions {few}{', ...' if len(self.parts) > 5 else ''} of X"


class DaskDesign(Design):
    """Blocks on the workers of the running Dask client.

    Use it as a context: they are gone when it ends.

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
        self._past = Past()
        self._told: list[tuple[bool, bytes]] = []
        self._n_rounds = 0
        workers = live_workers(self.client)
        lengths = np.nan_to_num(X.chunks[0], nan=1.0)  # Dask may not know them
        shares = shared_out(homes_of(self.client, X), lengths, workers)
        self._members = [
            Member(number, address, parts, workers[address])
            for number, (address, parts) in enumerate(shares)
        ]
        try:
            self._make(self._members)
            self._get_acquainted()
        except BaseException:
            self._close()
            raise

    def _get_acquainted(self) -> None:
        """Learn the sizes of the blocks, and tell them where they stand."""
        by_group = self._ask("each", describe)
        places = [
            (part, number, place)
            for number, answers in enumerate(by_group)
            for place, (part, _) in enumerate(answers)
        ]
        self._order = [(number, place) for _, number, place in sorted(places)]
        self._sizes = [len(answers) for answers in by_group]
        blocks: list[Described] = self._in_order(by_group)
        sums = map(sum, zip(*blocks, strict=True))
        self.n_rows, self.n_entries, self.n_pos, self.n_neg, self.total_cost = sums
        self._lengths = [block.n_rows for block in blocks]
        firsts = accumulate((block.n_neg for block in blocks[:-1]), initial=0)
        self._tell("own", number_negatives, *self._dealt(firsts))
        self._read_at_start = self._entries_read()

    def _in_order(self, by_group: list[list[tuple[int, Any]]]) -> list[Any]:
        """The blocks' answers in the order of the rows."""
        return [by_group[number][place][1] for number, place in self._order]

    def _dealt(self, values: Iterable[Any]) -> list[list[tuple[Any]]]:
        """One value for each block in the order of the rows, as arguments by group."""
        dealt: list[list[Any]] = [[None] * size for size in self._sizes]
        for (number, place), value in zip(self._order, values, strict=True):
            dealt[number][place] = (value,)
        return dealt

    def __exit__(self, *error: object) -> None:
        self._close()

    def _close(self) -> None:
        """Let the workers drop the blocks."""
        for member in self._members:
            member.held, member.made_of = None, []
        self._past.close()

    # ---- asking

    @property
    def passes(self) -> float:
        """Reads of the whole data so far, those of lost groups and of their return included."""
        return (self._entries_read() - self._read_at_start) / max(self.n_entries, 1)

    def _entries_read(self) -> int:
        return sum(member.n_read + member.n_read_before for member in self._members)

    def apply(self, function: Callable[..., object], *arguments: object) -> None:
        self._tell("tell", function, *arguments)

    def each(self, function: Callable[..., Answer], *arguments: object) -> list[Answer]:
        return self._in_order(self._ask("each", function, *arguments))

    def sum(self, function: Callable[..., Answer], *arguments: object) -> Answer:
        """The answers added up, by group and then in the order of the groups."""
        total: Answer = self._ask("sum", function, *arguments)
        return total

    def max(
        self, function: Callable[..., tuple[float, ...]], *arguments: object
    ) -> tuple[float, ...]:
        greatest: tuple[float, ...] = self._ask("max", function, *arguments)
        return greatest

    def scatter(self, function: Callable[..., object], vector: Array) -> None:
        cuts = np.cumsum(self._lengths)[:-1]
        self._tell("own", function, *self._dealt(np.split(vector, cuts)))

    def over_rows(self, function: Callable[..., Array], *arguments: object) -> Array:
        """Nothing: a vector with an entry per row would not fit the driver."""
        return np.empty(0)

    def _tell(self, how: str, function: Callable[..., object], *arguments: object) -> None:
        call = Call(how, function, arguments)
        self._told.append((call.changes, call.packed()))

    def _ask(self, how: str, function: Callable[..., Any], *arguments: object) -> Any:
        """One round: the answer, or for "each" the groups' answers in their order."""
        self._tell(how, function, *arguments)
        calls, self._told = self._told, []
        answers = self._round([call for _, call in calls])
        self._past.add(call for changes, call in calls if changes)
        self._n_rounds += 1
        return joined(how, answers)

    def _round(self, calls: list[bytes]) -> list[Any]:
        """The groups' answers in their order."""
        found: dict[int, Any] = {}
        missing, losses = self._members, Counter[int]()
        while missing:
            replies = self._replies(missing, calls)
            for member in missing:
                reply = replies.get(member.name)
                if isinstance(reply, Exception):
                    reply.add_note(f"It came up on {member.address}, in {member}.")
                    raise reply
                if reply is not None:
                    found[member.number], member.n_read = reply
            missing = [member for member in missing if member.number not in found]
            self._make_anew(missing, losses)
        return [found[member.number] for member in self._members]

    def _replies(self, members: list[Member], calls: list[bytes]) -> dict[str, Any]:
        """What the workers that are there say; of a worker that is gone, nothing comes."""
        names = [member.name for member in members]
        said = self.client.run(
            in_groups, Group.ask, names, self._n_rounds, calls, on_error="return"
        )
        answers: dict[str, Any] = {}
        for reply in said.values():
            answers.update(reply if isinstance(reply, dict) else {})
        return answers

    # ---- making blocks, and making them again

    def _make_anew(self, members: list[Member], losses: Counter[int]) -> None:
        """Make groups elsewhere that are lost, and count how often each was in this round."""
        losses.update(member.number for member in members)
        worst = [member for member in members if losses[member.number] >= MAX_LOSSES]
        if worst:
            raise LostRows(_given_up(worst))
        if members:
            self._move(members)
            self._make(members)

    def _make(self, members: list[Member]) -> None:
        """Make the blocks of some groups, and bring them to where the others stand."""
        for _ in range(MAX_LOSSES):
            for member in members:
                self._submit(member)
            members = [
                member for member in members if not (self._made(member) and self._replayed(member))
            ]
            if not members:
                return
            self._move(members)
        raise LostRows(_given_up(members))

    def _move(self, members: list[Member]) -> None:
        """Give groups that are lost to the workers that have least to do."""
        for member in members:
            member.n_read_before, member.n_read = member.n_read_before + member.n_read, 0
            member.held, member.made_of, member.address = None, [], ""
        workers = live_workers(self.client)
        for member in members:
            load = Counter(one.address for one in self._members)
            member.address = min(workers, key=lambda one: (load[one] / workers[one], one))

    def _submit(self, member: Member) -> None:
        """Begin to make a group; its rows may be computed elsewhere, its blocks live there."""
        member.name = f"toppush-{uuid4().hex}"
        parts = [
            dask.delayed(read_part, pure=False)(part, self.n_features, *self._delayed[part])
            for part in member.parts
        ]
        member.made_of = self.client.compute(
            parts, workers=[member.address], allow_other_workers=True
        )
        member.held = self.client.submit(
            HeldGroup,
            member.name,
            member.number,
            member.made_of,
            member.n_jobs,
            key=member.name,
            workers=[member.address],
            actor=True,
        )

    def _made(self, member: Member) -> bool:
        """Wait for a group; false if its worker is gone."""
        assert member.held is not None
        while member.held.status == "pending":
            try:
                wait([member.held], timeout=POLL)
            except TimeoutError:
                if member.address not in self.client.nthreads():
                    return False
        if member.held.status == "error":
            self._explain(member)
        member.made_of = []
        return bool(member.held.status == "finished")

    def _explain(self, member: Member) -> None:
        """Raise what went wrong with a partition; return if only a worker was lost."""
        for part, future in zip(member.parts, member.made_of, strict=True):
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

    def _replayed(self, member: Member) -> bool:
        """Let a new group take the earlier rounds; false if its worker is gone."""
        for calls in self._past.batches():
            said = self.client.run(
                in_groups,
                Group.replay,
                [member.name],
                calls,
                self._n_rounds,
                workers=[member.address],
                on_error="return",
            )
            reply = said.get(member.address)
            if not isinstance(reply, dict) or member.name not in reply:
                return False
            if isinstance(reply[member.name], Exception):
                raise reply[member.name]
        return True


def _given_up(members: list[Member]) -> str:
    return (
        f"{members[0]} were lost {MAX_LOSSES} times in a row with the workers that held them, "
        f"the last time on {members[0].address or 'a worker that is gone'}. The workers' logs say "
        "why; if it is memory, use smaller partitions or more workers."
    )
