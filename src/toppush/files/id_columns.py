"""Columns that can be read but should perhaps not be learned from: ids."""

import re
import warnings
from collections.abc import Collection, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from toppush.files.arrow_values import as_floats, is_text, value_type, whole

NEARLY = 0.99
"""Share of rows with a value of their own from which a column may be an id."""
FEWEST = 50
"""With fewer rows, different values mean little."""
LOOK = 1000
"""So many rows are looked at before all are."""
WORDS = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")
ID_WORDS = {"id", "ids", "uuid", "guid", "key", "index", "idx", "nr", "no", "num", "number", "row"}


def id_like(table: pa.Table, asked_for: Collection[str] = ()) -> tuple[str, ...]:
    """Columns that look like ids: of texts or whole numbers, another one in nearly every row.

    Of whole numbers only those that rise or fall from row to row, or that are called an id; none
    that was asked for as a category.
    """
    names = [name for name in table.column_names if name not in asked_for]
    return tuple(name for name in names if _is_id(name, table[name]))


def _is_id(name: str, column: pa.ChunkedArray) -> bool:
    kind = value_type(column.type)
    if len(column) < FEWEST or not (is_text(kind) or pa.types.is_integer(kind)):
        return False
    if not (_all_differ(column.slice(0, LOOK)) and _all_differ(column)):
        return False
    return is_text(kind) or _is_called_id(name) or _in_order(name, column)


def _all_differ(column: pa.ChunkedArray) -> bool:
    return int(pc.count_distinct(column).as_py()) >= NEARLY * len(column)


def _is_called_id(name: str) -> bool:
    """Whether the first or the last word of a name is one for ids, as in customerId or ID_2."""
    words = [word.lower() for word in WORDS.split(name) if word] or [""]
    return bool(ID_WORDS & {words[0], words[-1]})


def _in_order(name: str, column: pa.ChunkedArray) -> bool:
    steps = np.diff(as_floats(name, whole(column)))
    return bool((steps > 0).all() or (steps < 0).all())


def caution(ids: Iterable[str]) -> list[str]:
    """Warn of columns that look like ids; the warning's text."""
    names = list(ids)
    if not names:
        return []
    text = (
        f"nearly every row has a value of its own in {', '.join(names)}, as in an id; new rows "
        f"have others, so nothing can be learned there. Leave out with --drop {','.join(names)}."
    )
    warnings.warn(text, stacklevel=3)
    return [text]
