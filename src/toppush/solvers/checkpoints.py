"""A solve's progress in a file, from which a later process goes on.

The file holds what the driver knows: the best weights with their threshold and bounds, and the
history. The rows' side is made anew: the Newton method takes its place on the central path from
the weights and the gap.
"""

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np

from toppush.problem.objective import TopProblem
from toppush.problem.solution import Iteration, Solution, Status
from toppush.system.writing import written_whole
from toppush.types import Array

EVERY = 1.0
"""Least seconds between two writes."""
FIELDS = ("about", "weights", "bounds", "history")


class Checkpoint:
    """The file, and what it says about the problem it belongs to.

    Parameters
    ----------
    path : path
    problem : TopProblem
        A file of another problem is refused; sizes and settings tell, not the rows.
    """

    def __init__(self, path: str | os.PathLike[str], problem: TopProblem) -> None:
        self.path, self._next = Path(path), 0.0
        design = problem.design
        self._width = len(design.widen(design.arrays.zeros(design.n_features)))
        self.about = (
            f"{design.n_pos} positives of weight {design.total_cost:g} and {design.n_neg} "
            f"negatives with {design.n_features} features, lam={problem.lam!r}, top={problem.k}, "
            f"loss={type(problem.loss).__name__}{problem.family}"
        )
        self.before: tuple[Iteration, ...] = ()

    def start(self) -> Solution | None:
        """The point that an earlier process reached, if it left one."""
        if not self.path.exists():
            return None
        held = self._read()
        if str(held["about"]) != self.about:
            raise ValueError(
                f"{self.path} belongs to another fit, of {held['about']}; this one is of "
                f"{self.about}. Remove the file or name another one."
            )
        try:
            self.before = tuple(Iteration(*row) for row in held["history"].tolist())
            threshold, upper, lower = held["bounds"].tolist()
            weights = np.asarray(held["weights"], np.float64).reshape(self._width)
        except (TypeError, ValueError) as error:
            raise self._damaged(error) from None
        none = np.empty(0)
        return Solution(weights, threshold, none, upper, lower, len(self.before), Status.RESUMED)

    def _read(self) -> dict[str, Any]:
        """The arrays of the file."""
        if not is_zipfile(self.path):
            raise self._damaged("it is not an archive of arrays")
        try:
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in FIELDS}
        except OSError:
            raise
        except Exception as error:  # whatever damage makes of the libraries below
            raise self._damaged(error) from None

    def _damaged(self, why: object) -> ValueError:
        return ValueError(
            f"{self.path} is not the checkpoint of a fit, or is damaged ({why}); remove the file "
            "to begin anew, or name another one."
        )

    def note(self, history: tuple[Iteration, ...], weights: Array, threshold: float) -> None:
        """Write the latest point, unless that was done just now."""
        if time.monotonic() < self._next:
            return
        history = self._joined(history)
        with written_whole(self.path) as temporary, temporary.open("wb") as file:
            np.savez(
                file,
                about=self.about,
                weights=weights,
                bounds=[threshold, history[-1].upper, history[-1].lower],
                history=np.array(history),
            )
        self._next = time.monotonic() + EVERY

    def _joined(self, history: tuple[Iteration, ...]) -> tuple[Iteration, ...]:
        """The history since the first process began."""
        if not self.before:
            return history
        last = self.before[-1]
        later = (
            step._replace(passes=last.passes + step.passes, seconds=last.seconds + step.seconds)
            for step in history
        )
        return (*self.before, *later)

    def finish(self, solution: Solution) -> Solution:
        """Remove the file; returns the solution with its whole history."""
        self.path.unlink(missing_ok=True)
        history = self._joined(solution.history)
        return replace(solution, history=history, n_iter=len(history))
