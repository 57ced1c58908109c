"""Work in threads that ends when the thread that waits for it is interrupted.

Python raises KeyboardInterrupt in the main thread alone. Other threads call `check_cancelled`
before every question to the blocks of a design, and within long sums.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextvars import ContextVar
from threading import Event
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
PATIENCE = 0.2
"""Seconds after which a wait is repeated, because Windows does not interrupt one."""
_cancelled: ContextVar[Event | None] = ContextVar("cancelled", default=None)


class Cancelled(BaseException):
    """Raised in a thread whose result is no longer needed."""


def check_cancelled() -> None:
    """End the work of this thread if its result is no longer needed."""
    cancelled = _cancelled.get()
    if cancelled is not None and cancelled.is_set():
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
    cancelled, pool = Event(), ThreadPoolExecutor(n_jobs)

    def run(item: Item) -> Result:
        _cancelled.set(cancelled)
        return function(item)

    try:
        futures = [pool.submit(run, item) for item in items]
        while (now := wait(futures, PATIENCE, FIRST_EXCEPTION)).not_done:
            for future in now.done:
                future.result()
        return [future.result() for future in futures]
    finally:
        cancelled.set()
        pool.shutdown(cancel_futures=True)
