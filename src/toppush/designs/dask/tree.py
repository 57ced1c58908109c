"""The tree in which groups stand: calls go down it, and answers are added up on the way back.

Group 0 is the root, and below group i stand the groups f i + 1 to f i + f of a tree of fanout f.
A group's total is its own answer with the totals below it added one after another, in the order
of their numbers. Where a group lives and who is first do not enter, and the driver adds up
answers that came to it one by one in the same order: both ways lead to the same bits.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

from toppush.designs.block_design import add

FANOUT = 4
"""Groups right below each. More are fewer steps, but one worker takes in all their vectors."""
FEWEST_GROUPS = 8
"""Below so many groups the driver asks each itself: that is one step, and takes in few answers."""
LONG = 1 << 16
"""Bytes of a question or an answer from which the tree is worth its steps."""


def worthwhile(n_groups: int, n_bytes: int) -> bool:
    """Whether to go over the tree when so many bytes go to each group or come from it."""
    return n_groups >= FEWEST_GROUPS and n_bytes >= LONG


def below(number: int, n_groups: int, fanout: int) -> range:
    """The groups right below one."""
    first = fanout * number + 1
    return range(min(first, n_groups), min(first + fanout, n_groups))


def _greater(one: Sequence[float], other: Sequence[float]) -> tuple[float, ...]:
    return tuple(max(pair) for pair in zip(one, other, strict=True))


MERGED: dict[str, Callable[[Any, Any], Any]] = {"sum": add, "max": _greater}
"""How two answers become one, by what is wanted of them."""


def in_tree_order(how: str, answers: Sequence[Any]) -> Any:
    """All groups' answers as one, in the order in which the tree would do it."""

    def total(number: int) -> Any:
        lower = (total(one) for one in below(number, len(answers), FANOUT))
        return reduce(MERGED[how], lower, answers[number])

    return total(0)


def n_bytes(answer: Any) -> int:
    """About as many bytes as an answer takes on its way."""
    if isinstance(answer, tuple):
        return sum(n_bytes(entry) for entry in answer)
    return int(getattr(answer, "nbytes", 8))


class Asked(NamedTuple):
    """A round as it goes down the tree.

    Attributes
    ----------
    token : str
        Names the round: a group that has taken part in it gives its answer again.
    n_before : int
        Rounds before this one.
    homes : list of (address, name)
        Where each group lives, and what it is called there.
    """

    token: str
    n_before: int
    how: str
    calls: list[bytes]
    homes: list[tuple[str, str]]
    fanout: int


class Branch(NamedTuple):
    """What a group says for itself and for all below it.

    Attributes
    ----------
    total : object
        Their answers as one, or nothing if some are lost or failed.
    n_read : dict
        Entries that each has read so far, by number.
    lost : tuple of int
        Groups that are not where they should be, or not in step. Of those below them nothing is
        known.
    errors : dict
        What went wrong, by number.
    """

    total: Any
    n_read: dict[int, int]
    lost: tuple[int, ...] = ()
    errors: dict[int, Exception] = {}  # noqa: RUF012 - never changed

    @property
    def whole(self) -> bool:
        """Whether every group has answered."""
        return not (self.lost or self.errors)


def with_lower(how: str, one: Branch, lower: Branch) -> Branch:
    """A branch and another that stands below it as one."""
    whole = one.whole and lower.whole
    return Branch(
        MERGED[how](one.total, lower.total) if whole else None,
        one.n_read | lower.n_read,
        one.lost + lower.lost,
        one.errors | lower.errors,
    )
