"""Blocks that one process holds for another, and asks together when that one calls.

A group answers once for all its blocks, so an answer is as long as one block's. It counts the
rounds it has taken part in: whoever asks says which round it believes this to be, and a group
that was made anew, or was asked twice, does not answer.
"""

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
from numpy.typing import ArrayLike, NDArray

from toppush.designs.blocks import Block, read_only
from toppush.designs.local import (
    blocks_of,
    by_entry,
    hold_blas,
    narrow_indices,
    quietly,
    release_blas,
)
from toppush.metrics.weights import checked_weights
from toppush.types import Array, Matrix

UNUSABLE = "partition"
"""How a sentence about a partition that cannot be used begins."""
KEPT_IN_MEMORY = 1 << 26
"""Bytes of earlier rounds that are kept in memory; beyond them all go to a file."""
AT_A_TIME = 1 << 26
"""Bytes of earlier rounds that are sent to a new group in one message."""


_MERGED: dict[str, Callable[[Any, Any], Any]] = {"sum": add, "max": max}


def joined(how: str, answers: list[Any]) -> Any:
    """Several answers as one, by what is wanted of them, in their order."""
    return reduce(partial(by_entry, _MERGED[how]), answers) if how in _MERGED else answers


class Call(NamedTuple):
    """A question to every block."""

    how: str
    """What becomes of the answers: "each", "sum" or "max"; "tell" wants none, and "own" gives each
    block its own arguments, found by the number of its group."""
    function: Callable[..., Any]
    arguments: Any

    @property
    def changes(self) -> bool:
        """Whether blocks may be different afterwards, so that a lost one must be asked again."""
        return not getattr(self.function, "read_only", False)

    def packed(self) -> bytes:
        """As it travels."""
        return pickle.dumps(self, protocol=5)


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


class Part(NamedTuple):
    """Rows of one partition, checked."""

    number: int
    X: Matrix
    positive: NDArray[np.bool_]
    sample_weight: Array | None


def read_part(
    number: int,
    n_columns: int,
    X: Matrix,
    positive: ArrayLike,
    sample_weight: ArrayLike | None = None,
) -> Part:
    """Check the rows of a partition, and convert them if they are of another type."""
    from sklearn.utils import check_array

    try:
        X = check_array(
            X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=0
        )
        if X.shape[1] != n_columns:
            raise ValueError(f"it has {X.shape[1]} columns and X has {n_columns}")
        vectors = [np.asarray(positive, bool).reshape(-1)]
        if sample_weight is not None:
            vectors.append(checked_weights(sample_weight).reshape(-1))
        for vector, name in zip(vectors, ("y", "sample_weight"), strict=False):
            if len(vector) != X.shape[0]:
                raise ValueError(f"X has {X.shape[0]} rows there and {name} {len(vector)}")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{UNUSABLE} {number} of X cannot be used: {error}") from error
    return Part(number, X, vectors[0], vectors[1] if len(vectors) > 1 else None)


class Group:
    """The blocks of some partitions, which are given in the order of the rows.

    As many threads ask them as there are blocks, and blocks as threads if rows are many enough.
    """

    def __init__(self, number: int, parts: Sequence[Part], n_jobs: int) -> None:
        self.number, self.n_rounds = number, 0
        filled = [part for part in parts if part.X.shape[0]] or list(parts[:1])
        pieces = -(-n_jobs // len(filled))
        made = [
            (number, block)
            for number, X, positive, weight in filled
            for block in blocks_of(narrow_indices(X), positive, weight, pieces)
        ]
        self.blocks = [block for _, block in made]
        self.parts = [part for part, _ in made]
        n_jobs = min(n_jobs, len(self.blocks))
        self._pool = ThreadPoolExecutor(n_jobs) if n_jobs > 1 else None
        self._asking = Lock()
        hold_blas()
        weakref.finalize(self, release_blas)

    def ask(self, n_before: int, calls: Sequence[bytes]) -> tuple[Any, int] | None:
        """The answer to the last of some calls, and the entries read so far.

        Nothing if the group has not seen as many rounds as whoever asks believes.
        """
        with self._asking, np.errstate(all="ignore"):  # as in `quietly`
            if self.n_rounds != n_before:
                return None
            *before, last = (pickle.loads(call) for call in calls)
            for call in before:
                self._run(call)
            answer = joined(last.how, self._run(last))
            if last.how == "each":
                answer = list(zip(self.parts, answer, strict=True))
            self.n_rounds += 1
            return answer, sum(block.rows.tally.entries for block in self.blocks)

    def replay(self, calls: Sequence[bytes], n_rounds: int) -> None:
        """Take the calls of earlier rounds again, of which there were so many."""
        with self._asking:
            for call in calls:
                self._run(pickle.loads(call))
            self.n_rounds = n_rounds

    def _run(self, call: Call) -> list[Any]:
        if call.how == "own":
            shares: list[tuple[Any, ...]] = call.arguments[self.number]
        else:
            shares = [call.arguments] * len(self.blocks)
        pairs = list(zip(self.blocks, shares, strict=True))
        ask = partial(quietly, call.function)
        if self._pool is None:
            return [ask(block, *share) for block, share in pairs]
        waiting = [self._pool.submit(ask, block, *share) for block, share in pairs]
        return [one.result() for one in waiting]


class Described(NamedTuple):
    """What whoever asks must know of a block."""

    n_rows: int
    n_entries: int
    n_pos: int
    n_neg: int
    total_cost: float


@read_only
def describe(block: Block) -> Described:
    """Sizes of a block."""
    n_rows, n_entries = block.rows.shape[0], block.rows.n_entries
    return Described(n_rows, n_entries, block.n_pos, block.n_neg, block.total_cost)


def number_negatives(block: Block, first: int) -> None:
    """Tell a block how many negatives come before its own."""
    block.first_negative = first
