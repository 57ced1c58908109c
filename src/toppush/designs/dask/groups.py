"""Blocks that one process holds for another, and asks together when that one calls.

A group answers once for all its blocks, so an answer is as long as one block's. It counts the
rounds it has taken part in: whoever asks says which round it believes this to be, and a group
that was made anew, or was asked twice, does not answer.
"""

import pickle
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toppush.designs.block_design import add, quietly
from toppush.designs.blocks import Block, only_asks
from toppush.designs.local import hold_blas, narrow_indices, ranges, release_blas, rows_of
from toppush.types import Array, Matrix

UNUSABLE = "partition"
"""How a sentence about a partition that cannot be used begins."""


def _greater(one: Sequence[float], other: Sequence[float]) -> tuple[float, ...]:
    return tuple(max(pair) for pair in zip(one, other, strict=True))


_MERGED: dict[str, Callable[[Any, Any], Any]] = {"sum": add, "max": _greater}


def joined(how: str, answers: list[Any]) -> Any:
    """Several answers as one, by what is wanted of them, in their order."""
    return reduce(_MERGED[how], answers) if how in _MERGED else answers


class Call(NamedTuple):
    """A question to every block.

    Attributes
    ----------
    how : {"tell", "own", "each", "sum", "max"}
        What becomes of the answers; "tell" wants none, and "own" gives each block its own
        arguments, found by the number of its group.
    """

    how: str
    function: Callable[..., Any]
    arguments: Any

    @property
    def changes(self) -> bool:
        """Whether blocks may be different afterwards, so that a lost one must be asked again."""
        return not getattr(self.function, "only_asks", False)


def packed(call: Call) -> bytes:
    """A call as it travels."""
    return pickle.dumps(call, protocol=5)


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
            vectors.append(np.asarray(sample_weight, np.float64).reshape(-1))
            if not np.all((vectors[1] >= 0.0) & (vectors[1] < np.inf)):
                raise ValueError("sample_weight must be finite and at least 0")
        for vector, name in zip(vectors, ("y", "sample_weight"), strict=False):
            if len(vector) != X.shape[0]:
                raise ValueError(f"X has {X.shape[0]} rows there and {name} {len(vector)}")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{UNUSABLE} {number} of X cannot be used: {error}") from error
    return Part(number, X, vectors[0], vectors[1] if len(vectors) > 1 else None)


class Group:
    """The blocks of some partitions.

    Parameters
    ----------
    number : int
        Which of the groups it is.
    parts : sequence of Part
        In the order of the rows.
    n_threads : int
        Threads that ask the blocks. There are as many blocks, if the rows are many enough.
    """

    def __init__(self, number: int, parts: Sequence[Part], n_threads: int) -> None:
        self.number, self.n_rounds = number, 0
        filled = [part for part in parts if part.X.shape[0]] or list(parts[:1])
        pieces = -(-n_threads // len(filled))
        made = [(part.number, block) for part in filled for block in _blocks(part, pieces)]
        self.blocks = [block for _, block in made]
        self.parts = [part for part, _ in made]
        n_threads = min(n_threads, len(self.blocks))
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        self._asking = Lock()
        hold_blas()
        weakref.finalize(self, release_blas)

    def ask(self, n_before: int, calls: Sequence[bytes]) -> tuple[Any, int] | None:
        """The answer to the last of some calls, and the entries read so far.

        Nothing if the group has not seen as many rounds as whoever asks believes.
        """
        with self._asking:
            return self._answered(n_before, calls)

    def _answered(self, n_before: int, calls: Sequence[bytes]) -> tuple[Any, int] | None:
        if self.n_rounds != n_before:
            return None
        *before, last = (pickle.loads(call) for call in calls)
        for call in before:
            self._run(call)
        answer = joined(last.how, self._run(last))
        if last.how == "each":
            answer = list(zip(self.parts, answer, strict=True))
        self.n_rounds += 1
        return answer, self._entries_read()

    def _entries_read(self) -> int:
        return sum(block.rows.tally.entries for block in self.blocks)

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
        if self._pool is None:
            return [quietly(call.function, block, *share) for block, share in pairs]
        waiting = [
            self._pool.submit(quietly, call.function, block, *share) for block, share in pairs
        ]
        return [one.result() for one in waiting]


def _blocks(part: Part, n_pieces: int) -> list[Block]:
    X, weight = narrow_indices(part.X), part.sample_weight
    return [
        Block(
            rows_of(X, start, stop),
            part.positive[start:stop],
            None if weight is None else weight[start:stop],
        )
        for start, stop in ranges(X, n_pieces) or [(0, 0)]
    ]


class Described(NamedTuple):
    """What whoever asks must know of a block."""

    n_rows: int
    n_entries: int
    n_pos: int
    n_neg: int
    total_cost: float


@only_asks
def describe(block: Block) -> Described:
    """Sizes of a block."""
    rows = block.rows
    return Described(
        rows.shape[0], rows.n_entries, block.n_pos, block.n_neg, float(block.total_cost)
    )


def number_negatives(block: Block, first: int) -> None:
    """Tell a block how many negatives come before its own."""
    block.first_negative = first
