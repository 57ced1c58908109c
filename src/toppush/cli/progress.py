"""How far a long command is, on the standard error stream."""

import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

EVERY = 10.0
"""Seconds between lines where no one can see a line renew itself."""


class NowAndThen(io.TextIOBase):
    """Passes on a line at most every so often; the first one after that time."""

    def __init__(
        self, stream: TextIO, every: float = EVERY, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream, self._every, self._clock = stream, every, clock
        self._next = clock() + every

    def write(self, text: str) -> int:
        if self._clock() >= self._next:
            self._next = self._clock() + self._every
            self._stream.write(text)
            self._stream.flush()
        return len(text)


@contextmanager
def lines_to_stderr() -> Iterator[None]:
    """Send what a `verbose` fit prints to the error stream, now and then if it is no terminal."""
    live = sys.stderr.isatty()
    with redirect_stdout(sys.stderr if live else NowAndThen(sys.stderr)):
        yield


@contextmanager
def steps(quiet: bool) -> Iterator[Callable[[int, int, str], None]]:
    """A function to tell of steps done, of steps in all, and of what is done now."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        began, out = time.monotonic(), io.StringIO() if quiet else NowAndThen(sys.stderr)
        yield lambda done, total, now: _print(out, done, total, now, time.monotonic() - began)
        return
    with bar(console, transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda done, total, now: progress.update(
            task, completed=done, total=total, description=now
        )


def _print(out: io.TextIOBase, done: int, total: int, now: str, seconds: float) -> None:
    left = f", about {seconds / done * (total - done):.0f} s left" if done else ""
    out.write(f"{done} of {total} fits, {seconds:.0f} s{left}: {now}\n")


def bar(console: "Console", left: str = "", **options: Any) -> "Progress":
    """A bar with what runs, how much is done, the time spent and the time left.

    The time left follows the steps' number; or it is the task's field of the name `left`.
    """
    from rich import progress as rich

    done = (rich.BarColumn(), rich.MofNCompleteColumn(), rich.TimeElapsedColumn())
    remaining = f"{{task.fields[{left}]}}" if left else rich.TimeRemainingColumn()
    columns = ("{task.description}", *done, "left", remaining)
    return rich.Progress(*columns, console=console, **options)
