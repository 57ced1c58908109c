"""What solvers keep beside the rows: at most one record of each type, named by that type."""

from typing import Any, TypeVar

Record = TypeVar("Record")


class Records:
    """Records by their type; whoever defines a type owns its record."""

    def __init__(self) -> None:
        self._records: dict[type, Any] = {}

    def __len__(self) -> int:
        return len(self._records)

    def of(self, kind: type[Record]) -> Record:
        """The record of this type, made on first use."""
        record: Record | None = self._records.get(kind)
        return self.keep(kind()) if record is None else record

    def find(self, kind: type[Record]) -> Record | None:
        """The record of this type if there is one."""
        record: Record | None = self._records.get(kind)
        return record

    def keep(self, record: Record) -> Record:
        """Put a record in place of that of its type."""
        self._records[type(record)] = record
        return record

    def take(self, kind: type[Record]) -> Record | None:
        """The same as `find`, and it is gone: to be kept again when it holds once more."""
        record: Record | None = self._records.pop(kind, None)
        return record
