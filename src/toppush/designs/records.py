"""What solvers keep beside the rows: at most one record of each type, named by that type."""

from typing import Any, TypeVar

Record = TypeVar("Record")


class Records(dict[type, Any]):
    """Records by their type; whoever defines a type owns its record."""

    def of(self, kind: type[Record]) -> Record:
        """The record of this type, made on first use."""
        record: Record = self[kind]  # asked a hundred times in a small fit
        return record

    def __missing__(self, kind: type[Record]) -> Record:
        return self.keep(kind())

    def find(self, kind: type[Record]) -> Record | None:
        """The record of this type if there is one."""
        record: Record | None = self.get(kind)
        return record

    def keep(self, record: Record) -> Record:
        """Put a record in place of that of its type."""
        self[type(record)] = record
        return record

    def take(self, kind: type[Record]) -> Record | None:
        """The same as `find`, and it is gone: to be kept again when it holds once more."""
        record: Record | None = self.pop(kind, None)
        return record
