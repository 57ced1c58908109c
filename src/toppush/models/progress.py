"""What a terminal shows while a fit runs."""

import math
import sys
import time
from collections.abc import Callable
from threading import Lock
from typing import TextIO

from toppush.problem.solution import Iteration


class Line:
    """One line that renews itself on a terminal; elsewhere a line now and then."""

    def __init__(self, *, every: float = 0.1, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._next, self._width, self._live = 0.0, 0, self._stream.isatty()
        self._every = every if self._live else 10 * every

    def is_due(self, seconds: float) -> bool:
        """Whether to write again, so many seconds after the begin."""
        if seconds < self._next:
            return False
        self._next = seconds + self._every
        return True

    def write(self, line: str, *, last: bool = False) -> None:
        """Show a line; the last one stays."""
        begin, end = ("\r", "\n" if last else "") if self._live else ("", "\n")
        self._stream.write(begin + line.ljust(self._width) + end)
        self._stream.flush()
        self._width = len(line) if self._live else 0


class LiveLine(Line):
    """Shows where a solve stands."""

    def __init__(self, tol: float, *, every: float = 0.1, stream: TextIO | None = None) -> None:
        super().__init__(every=every, stream=stream)
        self.tol = tol

    def __call__(self, history: tuple[Iteration, ...]) -> None:
        """Show the last iteration if it is time to."""
        if self.is_due(history[-1].seconds):
            self.write(describe(history, self.tol))

    def close(self, history: tuple[Iteration, ...]) -> None:
        """Show the last iteration for good."""
        if history:
            self.write(describe(history, 0.0), last=True)


class Tally(Line):
    """Shows how many of some fits are done; may be told by several threads."""

    def __init__(
        self,
        total: int,
        *,
        every: float = 0.1,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__(every=every, stream=stream)
        self.total, self.done = total, 0
        self._clock, self._began, self._lock = clock, clock(), Lock()

    def __call__(self) -> None:
        """One more is done."""
        with self._lock:
            self.done += 1
            seconds = self._clock() - self._began
            if self.is_due(seconds):
                self.write(self._describe(seconds))

    def close(self) -> None:
        """Show for good how many were done."""
        self.write(self._describe(self._clock() - self._began), last=True)

    def _describe(self, seconds: float) -> str:
        line = f"folds: {self.done} of {self.total} fits  {seconds:.1f} s"
        if not 0 < self.done < self.total:
            return line
        return f"{line}  about {seconds / self.done * (self.total - self.done):.1f} s left"


def describe(history: tuple[Iteration, ...], tol: float) -> str:
    """One line about the last iteration, with the time left if the gap's rate tells it."""
    last = history[-1]
    gap = (last.upper - last.lower) / abs(last.upper) if last.upper else 0.0
    line = (
        f"iteration {len(history):4d}  objective {last.upper:.6g}  bound {last.lower:.6g}  "
        f"gap {gap:.1e}  passes {last.passes:.0f}  {last.seconds:.1f} s"
    )
    left = seconds_left(history, tol)
    return line if left is None else f"{line}  about {left:.1f} s left"


def seconds_left(history: tuple[Iteration, ...], tol: float) -> float | None:
    """Until the relative gap reaches tol, if it goes on falling as in the last few iterations."""
    if len(history) < 4 or tol <= 0.0:
        return None
    before, last = history[-4], history[-1]
    gaps = [(at.upper - at.lower) / max(abs(at.upper), 1e-300) for at in (before, last)]
    if not (0.0 < gaps[1] < gaps[0] < math.inf) or gaps[1] <= tol:
        return None
    rate = math.log(gaps[0] / gaps[1]) / max(last.seconds - before.seconds, 1e-9)
    return math.log(gaps[1] / tol) / rate
