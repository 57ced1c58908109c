"""How every solve runs: a method goes step by step, and a journal notes its bounds.

A method that is written to `Method` is followed by `follow` within `solving`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Protocol

import numpy as np

from toppush.designs import Block, Design
from toppush.designs.records import Records
from toppush.problem.solution import Status
from toppush.solvers.journal import Journal, Watch
from toppush.types import Array

Standing = tuple[float, float, Array, float]


class Method(Protocol):
    """An iteration that bounds the optimum from both sides."""

    def begin(self) -> None:
        """Go to the first point that has bounds."""

    def advance(self) -> None:
        """Go one step further, and take the bounds there."""

    def standing(self) -> Standing:
        """Upper and lower bound, and the weights of the upper one with their threshold."""

    def ended(self) -> Status | None:
        """How the method ends here of its own, if it does."""


def follow(method: Method, journal: Journal, *, max_iter: int) -> Status:
    """Step after step until the method ends, a watcher asks to stop, or max_iter is reached."""
    method.begin()
    while True:
        stopped = journal.note(*method.standing())
        status = method.ended()
        if stopped and status is not Status.CONVERGED:
            return Status.STOPPED
        if status is None and len(journal) >= max_iter:
            return Status.MAX_ITER
        if status is not None:
            return status
        method.advance()


@contextmanager
def solving(design: Design, watch: Watch | None = None) -> Iterator[Journal]:
    """Hold the design for one solve, with a journal of it; what overflows is said by the status.

    A solve within another, as from a watcher, finds the design as new and leaves it as it was.
    """
    within, outer = design.in_use_by is not None, design.known
    if within and design.in_use_by != get_ident():
        raise RuntimeError(
            "another thread solves on this design; open one for each thread, they share the rows."
        )
    design.in_use_by = get_ident()
    if within:
        design.known = Records()
    try:
        design.apply(Block.begin_solve, not design.known, within)
        with np.errstate(all="ignore"):
            yield Journal(design, watch)
    finally:
        if within:
            design.known = outer
            design.apply(Block.end_inner_solve)
        else:
            design.in_use_by = None
