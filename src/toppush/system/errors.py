"""What is said of columns and models that cannot be used; `DataError` is of any file."""

import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from os import PathLike
from typing import TypeVar

from toppush.system.reading import DataError

MOST_ABSENT = 20
"""Absent columns that a message names; each is compared with every column that is there."""
Given = TypeVar("Given")
Made = TypeVar("Made")


class BadColumns(DataError):
    """Several columns that cannot be used, each with its own reason."""

    def __init__(
        self,
        errors: Sequence[DataError],
        names: Sequence[str],
        file: "str | PathLike[str] | None" = None,
    ) -> None:
        self.errors, self.names = [error.at(None) for error in errors], list(names)
        reasons = "".join(f"\n  {error}" for error in self.errors)
        super().__init__(
            f"{len(errors)} columns cannot be used; fix them, or leave them out with --drop "
            f"{shlex.quote(','.join(names))}:{reasons}",
            file=file,
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Workers send errors to whom they work for."""
        return BadColumns, (self.errors, self.names, self.file)

    def at(self, file: "str | PathLike[str] | None", *, after: int = 0) -> "BadColumns":
        """The same errors, with the file named, and so many rows before those that were seen."""
        return BadColumns([one.at(None, after=after) for one in self.errors], self.names, file)


def each(read: Callable[[Given], Made], given: Iterable[Given]) -> list[Made]:
    """What `read` makes of each of some columns; what is wrong with any is told at once."""
    made: list[Made] = []
    found: dict[str, DataError] = {}  # by what it says: a date is several columns
    for one in given:
        try:
            made.append(read(one))
        except DataError as error:
            found.setdefault(str(error), error)
    if found:
        errors = list(found.values())
        names = [str(error.column) for error in errors]
        raise errors[0] if len(errors) == 1 else BadColumns(errors, names)
    return made


class ModelError(DataError):
    """A model file that is not one, is damaged, or holds what a model has no use for.

    Examples
    --------
    >>> from pathlib import Path
    >>> from toppush import files
    >>> _ = Path("not-a-model.toppush").write_text("hello")
    >>> try:
    ...     files.load("not-a-model.toppush")
    ... except files.ModelError as error:
    ...     print(error)
    ...
    not-a-model.toppush: it is not a model file of this version of toppush.
    """


def absent(
    wanted: Iterable[str], found: Collection[str], used: Collection[str | None] = ()
) -> str | None:
    """The columns that are not there, the first with what may be meant by them; None if all are.

    Columns that are wanted themselves, or used otherwise, are not suggested.
    """
    asked, known = dict.fromkeys(wanted), set(found)
    gone = [name for name in asked if name not in known]
    if not gone:
        return None
    unused = known - asked.keys() - set(used)
    free = [name for name in found if name in unused]
    shown = ", ".join(f"{name!r}{like(name, free)}" for name in gone[:MOST_ABSENT])
    more = f" and {len(gone) - MOST_ABSENT:,} more" * (len(gone) > MOST_ABSENT)
    return f"{'column' if len(gone) == 1 else 'columns'} {shown}{more}"


def repeated(names: Sequence[str]) -> tuple[int, str] | None:
    """Number, from 1, and name of the first column whose name an earlier one has; None if none."""
    seen: set[str] = set()
    for number, name in enumerate(names, 1):
        if name in seen:
            return number, name
        seen.add(name)
    return None


def listed(found: Iterable[object], most: int) -> str:
    """The first few of some names or values, and how many more there are."""
    shown = [repr(one) for one in found]
    return ", ".join(shown[:most]) + f" and {len(shown) - most} more" * (len(shown) > most)


def like(name: str, known: Iterable[str]) -> str:
    """A question whether one of the known names was meant, or nothing."""
    lower = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), lower, 1)
    return f" (did you mean {lower[near[0]]!r}?)" if near else ""
