"""The one way to say that a file cannot be used."""

from os import PathLike


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

    def at(self, file: "str | PathLike[str]") -> "DataError":
        """The same error, with the file named."""
        return type(self)(self.message, file=file, line=self.line, row=self.row, column=self.column)


class ModelError(DataError):
    """A model file that is not one, is damaged, or holds what a model has no use for."""


def need(extra: str, error: ImportError) -> ImportError:
    """An import error that names the extra to install."""
    return ImportError(f"{error}; this needs more packages: pip install 'toppush[{extra}]'")
