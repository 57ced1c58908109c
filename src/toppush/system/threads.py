"""Work in threads that ends when whoever waits for it does.

Python tells the main thread alone of Ctrl-C. Threads that work for it ask now and then whether
they are to go on: before every question to the blocks of a design, and within long sums.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextvars import ContextVar
from threading import Event
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
PATIENCE = 0.2
"""Seconds after which a wait begins anew: Windows interrupts none."""
_over: ContextVar[Event | None] = ContextVar("over", default=None)


class Cancelled(BaseException):
    """Raised in a thread whose work nobody waits for any more."""


def check_cancelled() -> None:
    """End this thread's work if nobody waits for it any more."""
    over = _over.get()
    if over is not None and over.is_set():
        raise Cancelled


def in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int
) -> list[Result]:
    """`function` of each item, in order, some at a time.

    After an error or an interrupt, items that wait do not begin, and those under way end at their
    next `check_cancelled`. With `n_jobs=1` no thread is started.
    """
    if n_jobs == 1:
        return [function(item) for item in items]
    over, pool = Event(), ThreadPoolExecutor(n_jobs)

    def run(item: Item) -> Result:
        _over.set(over)
        return function(item)

    try:
        futures = [pool.submit(run, item) for item in items]
        while (now := wait(futures, PATIENCE, FIRST_EXCEPTION)).not_done:
            for future in now.done:
                future.result()
        return [future.result() for future in futures]
    finally:
        over.set()
        pool.shutdown(cancel_futures=True)
