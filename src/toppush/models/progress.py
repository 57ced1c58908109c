"""Progress of a fit: lines on a terminal, and scikit-learn's callbacks (1.9 and later)."""

import math
import sys
import time
from collections.abc import Callable
from threading import Lock
from typing import Any, TextIO

from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from toppush.problem.solution import Iteration, Solution
from toppush.solvers.driver import Callback
from toppush.types import Array, Labels, Matrix

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""


__all__ = ["CallbackSupportMixin", "FitCounter", "FitObserver", "FitTasks", "Line", "LiveLine"]


class Line:
    """A line that is rewritten on a terminal; elsewhere a new line now and then."""

    def __init__(self, *, every: float = 0.1, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._next, self._width, self._live = 0.0, 0, self._stream.isatty()
        self._every = every if self._live else 10 * every

    def is_due(self, seconds: float) -> bool:
        """Whether to write again, by the seconds since the start."""
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
    """Shows the progress of a solve."""

    def __init__(self, tol: float, *, every: float = 0.1, stream: TextIO | None = None) -> None:
        super().__init__(every=every, stream=stream)
        self.tol = tol

    def __call__(self, history: tuple[Iteration, ...]) -> None:
        """Show the last iteration if a new line is due."""
        if self.is_due(history[-1].seconds):
            self.write(describe(history, self.tol))

    def close(self, history: tuple[Iteration, ...]) -> None:
        """Show the last iteration, to stay."""
        if history:
            self.write(describe(history, 0.0), last=True)


class FitCounter(Line):
    """Counts finished fits; several threads may call it."""

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
        """Count one more fit."""
        with self._lock:
            self.done += 1
            seconds = self._clock() - self._began
            if self.is_due(seconds):
                self.write(self._describe(seconds))

    def close(self) -> None:
        """Show the final count."""
        self.write(self._describe(self._clock() - self._began), last=True)

    def _describe(self, seconds: float) -> str:
        line = f"folds: {self.done} of {self.total} fits  {seconds:.1f} s"
        if not 0 < self.done < self.total:
            return line
        return f"{line}  about {seconds / self.done * (self.total - self.done):.1f} s left"


def describe(history: tuple[Iteration, ...], tol: float) -> str:
    """A line about the last iteration, with an estimate of the remaining time."""
    last = history[-1]
    gap = (last.upper - last.lower) / abs(last.upper) if last.upper else 0.0
    line = (
        f"iteration {len(history):4d}  objective {last.upper:.6g}  bound {last.lower:.6g}  "
        f"gap {gap:.1e}  passes {last.data_passes:.0f}  {last.seconds:.1f} s"
    )
    left = seconds_left(history, tol)
    return line if left is None else f"{line}  about {left:.1f} s left"


def seconds_left(history: tuple[Iteration, ...], tol: float) -> float | None:
    """Time until the relative gap reaches tol, extrapolated from the last few iterations."""
    if len(history) < 4 or tol <= 0.0:
        return None
    before, last = history[-4], history[-1]
    earlier, now = ((at.upper - at.lower) / max(abs(at.upper), 1e-300) for at in (before, last))
    if not (0.0 < now < earlier < math.inf) or now <= tol:
        return None
    rate = math.log(earlier / now) / max(last.seconds - before.seconds, 1e-9)
    return math.log(now / tol) / rate


class FitTasks:
    """A fit as a task with a subtask for each iteration, for the estimator's callbacks."""

    def __init__(
        self,
        estimator: BaseEstimator,
        X: Matrix,
        y: Labels,
        classes: NDArray[Any],
        max_iter: int | None,
    ) -> None:
        self._arguments, self._classes = {"estimator": estimator, "X": X, "y": y}, classes
        self._context = estimator._init_callback_context(max_subtasks=max_iter)
        self._context.call_on_fit_task_begin(**self._arguments)

    def iteration(self, weights: Array, threshold: float) -> bool:
        """Report an iteration; true if a callback asks to stop."""
        fitted = {"coef_": weights[None, :], "threshold_": threshold, "classes_": self._classes}
        task = self._context.subcontext(task_name="iteration")
        task.call_on_fit_task_begin(**self._arguments)
        return bool(task.call_on_fit_task_end(**self._arguments, reconstruction_attributes=fitted))

    def end(self) -> None:
        """Report the end of the fit."""
        self._context.call_on_fit_task_end(**self._arguments, reconstruction_attributes={})


class FitObserver:
    """Passes the iterations of a solve to the live line if `verbose`, and to callbacks."""

    def __init__(self, verbose: int, tol: float, tasks: FitTasks | None) -> None:
        self._line = LiveLine(tol) if verbose else None
        self._tasks = tasks

    @property
    def watch(self) -> Callback | None:
        """The function that a solver calls, if there is a line or a callback."""
        return None if self._line is None and self._tasks is None else self._note

    def _note(self, history: tuple[Iteration, ...], weights: Array, threshold: float) -> bool:
        if self._line is not None:
            self._line(history)
        return self._tasks is not None and self._tasks.iteration(weights, threshold)

    def end(self, solution: Solution) -> None:
        """Show the last iteration, to stay."""
        if self._line is not None:
            self._line.close(solution.history)
