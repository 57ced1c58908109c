"""Members of a fit in a file, so that a fit that was stopped goes on with the next one."""

import os
from pathlib import Path
from threading import Lock
from typing import Any
from zipfile import is_zipfile

import numpy as np

from toppush.nonlinear.boosting import Grown
from toppush.system.writing import written_whole


class MembersFile:
    """The members that are done, by number.

    Parameters
    ----------
    path : path or None
        Nothing is kept without one.
    about : str
        What tells this fit from others: sizes and settings, not the rows.
    """

    def __init__(self, path: str | os.PathLike[str] | None, about: str) -> None:
        self.path, self.about = None if path is None else Path(path), about
        self._lock = Lock()
        self.done: dict[int, Grown] = self._read()

    def keep(self, number: int, member: Grown) -> None:
        """One more is done."""
        with self._lock:
            self.done[number] = member
            if self.path is not None:
                with written_whole(self.path) as temporary, temporary.open("wb") as file:
                    np.savez(file, **self._arrays())

    def finish(self) -> None:
        """The fit is complete, so the file goes."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _arrays(self) -> dict[str, Any]:
        numbers = sorted(self.done)
        arrays: dict[str, Any] = {"about": self.about, "numbers": numbers}
        for number in numbers:
            one = self.done[number]
            arrays |= {f"text {number}": np.frombuffer(one.text.encode(), np.uint8)}
            arrays |= {f"held {number}": one.held, f"quality {number}": one.quality}
            arrays |= {f"trees {number}": one.n_trees, f"tried {number}": one.n_tried}
        return arrays

    def _read(self) -> dict[int, Grown]:
        if self.path is None or not self.path.exists():
            return {}
        try:
            if not is_zipfile(self.path):
                raise ValueError("it is not an archive of arrays")
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                about = str(arrays["about"])
                found = {number: _member(arrays, number) for number in arrays["numbers"].tolist()}
        except OSError:
            raise
        except Exception as error:  # whatever damage makes of the libraries below
            raise ValueError(
                f"{self.path} is not the checkpoint of a fit, or is damaged ({error}); remove the "
                "file to begin anew, or name another one."
            ) from None
        if about != self.about:
            raise ValueError(
                f"{self.path} belongs to another fit, of {about}; this one is of {self.about}. "
                "Remove the file or name another one."
            )
        return found


def _member(arrays: Any, number: int) -> Grown:
    text = arrays[f"text {number}"].tobytes().decode()
    held, quality, n_trees = (arrays[f"{name} {number}"] for name in ("held", "quality", "trees"))
    return Grown(text, held, quality, n_trees, int(arrays[f"tried {number}"]))
