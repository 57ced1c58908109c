"""Errors about columns and models that cannot be used, and parts of their messages."""

import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from os import PathLike
from typing import TypeVar

from toppush.system.reading import DataError

MOST_ABSENT = 20
"""Absent columns that a message names; each is compared with every existing column."""
Item = TypeVar("Item")
Result = TypeVar("Result")


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
        """Errors are sent between processes."""
        return BadColumns, (self.errors, self.names, self.file)

    def at(self, file: "str | PathLike[str] | None", *, after: int = 0) -> "BadColumns":
        """The same errors with the file named and `after` added to their row numbers."""
        return BadColumns([error.at(None, after=after) for error in self.errors], self.names, file)


def each(read: Callable[[Item], Result], columns: Iterable[Item]) -> list[Result]:
    """`read` of each of some columns; the errors of all are reported together."""
    results: list[Result] = []
    errors: dict[str, DataError] = {}  # by message: a date is several columns
    for column in columns:
        try:
            results.append(read(column))
        except DataError as error:
            errors.setdefault(str(error), error)
    if len(errors) == 1:
        raise next(iter(errors.values()))
    if errors:
        raise BadColumns(list(errors.values()), [str(error.column) for error in errors.values()])
    return results


class ModelError(DataError):
    """A file that is no model, is damaged, or contains what no model contains.

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
    wanted: Iterable[str], existing: Collection[str], used: Collection[str | None] = ()
) -> str | None:
    """The columns that do not exist, each with a similar one that does; None if all exist.

    Columns that are wanted themselves, or used otherwise, are not suggested.
    """
    wanted, known = dict.fromkeys(wanted), set(existing)
    missing = [name for name in wanted if name not in known]
    if not missing:
        return None
    unused = known - wanted.keys() - set(used)
    free = [name for name in existing if name in unused]
    shown = ", ".join(f"{name!r}{like(name, free)}" for name in missing[:MOST_ABSENT])
    more = f" and {len(missing) - MOST_ABSENT:,} more" * (len(missing) > MOST_ABSENT)
    return f"{'column' if len(missing) == 1 else 'columns'} {shown}{more}"


def repeated(names: Sequence[str]) -> tuple[int, str] | None:
    """Number, from 1, and name of the first column with the name of an earlier one, or None."""
    seen: set[str] = set()
    for number, name in enumerate(names, 1):
        if name in seen:
            return number, name
        seen.add(name)
    return None


def listed(values: Iterable[object], most: int) -> str:
    """The first `most` names or values, and the number of the others."""
    shown = [repr(value) for value in values]
    return ", ".join(shown[:most]) + f" and {len(shown) - most} more" * (len(shown) > most)


def like(name: str, known: Iterable[str]) -> str:
    """A question whether one of the known names was meant, or nothing."""
    lower = {candidate.lower(): candidate for candidate in known}
    near = get_close_matches(name.lower(), lower, 1)
    return f" (did you mean {lower[near[0]]!r}?)" if near else ""
