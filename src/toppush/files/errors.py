"""The one way to say that a file cannot be used."""

import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from os import PathLike
from typing import Any, TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


class DataError(ValueError):
    """A file that cannot be used: where, what was seen, and what to do.

    Parameters
    ----------
    message : str
        What was seen and what to do.
    file : path, optional
    line : int, optional
        Line of a text file, from 1.
    row : int, optional
        Row of the data, from 1, where lines have no meaning.
    column : int or str, optional
        Number from 1 or name of a column, or the position in the line.
    """

    def __init__(
        self,
        message: str,
        *,
        file: "str | PathLike[str] | None" = None,
        line: int | None = None,
        row: int | None = None,
        column: int | str | None = None,
    ) -> None:
        self.file, self.line, self.row, self.column = file, line, row, column
        self.message = message
        places = {"": file, "line ": line, "row ": row, "column ": column}
        where = ", ".join(f"{word}{place}" for word, place in places.items() if place is not None)
        super().__init__(f"{where}: {message}" if where else message)

    def at(self, file: "str | PathLike[str] | None") -> "DataError":
        """The same error, with the file named."""
        return type(self)(self.message, file=file, line=self.line, row=self.row, column=self.column)


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
            f"{len(errors)} columns cannot be used; mend them, or leave them out with --drop "
            f"{shlex.quote(','.join(names))}:{reasons}",
            file=file,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Workers send errors to whom they work for."""
        return BadColumns, (self.errors, self.names, self.file)

    def at(self, file: "str | PathLike[str] | None") -> "BadColumns":
        """The same errors, with the file named."""
        return BadColumns(self.errors, self.names, file)


def each(read: Callable[[Given], Made], given: Iterable[Given]) -> list[Made]:
    """What `read` makes of each of some columns; what is wrong with any is told at once."""
    made, errors = [], []
    for one in given:
        try:
            made.append(read(one))
        except DataError as error:
            errors.append(error)
    if errors:
        names = [str(error.column) for error in errors]
        raise errors[0] if len(errors) == 1 else BadColumns(errors, names)
    return made


class ModelError(DataError):
    """A model file that is not one, is damaged, or holds what a model has no use for."""


def need(extra: str, error: ImportError) -> ImportError:
    """An import error that names the extra to install."""
    return ImportError(f"{error}; this needs more packages: pip install 'toppush[{extra}]'")


def absent(wanted: Iterable[str], found: Collection[str]) -> str | None:
    """The columns that are not there, with what may be meant by them; None if all are."""
    gone = [f"{name!r}{like(name, found)}" for name in dict.fromkeys(wanted) if name not in found]
    return f"{'column' if len(gone) == 1 else 'columns'} {', '.join(gone)}" if gone else None


def like(name: str, known: Iterable[str]) -> str:
    """A question whether one of the known names was meant, or nothing."""
    lower = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), lower, 1)
    return f" (did you mean {lower[near[0]]!r}?)" if near else ""
