"""Columns of a table that look like ids, and are left out."""

import warnings
from collections.abc import Collection, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from toppush.tables.arrow_values import (  # fmt: skip
    as_floats,
    is_text,
    parsed_numbers,
    texts_of,
    value_type,
    whole,
)
from toppush.tables.categories import looks_dated
from toppush.tables.ids import NEARLY, all_differ, are_ids
from toppush.tables.number_strings import format_of, preventing

LOOK = 1000
"""So many rows are looked at before all are."""


def id_like(table: pa.Table, asked_for: Collection[str] = ()) -> tuple[str, ...]:
    """Columns that look like ids, but those that were asked for.

    Of strings another one in nearly every row, unless they are dates or mostly numbers; of whole
    numbers those that fill a range, see `toppush.tables.ids`.
    """
    names = [name for name in table.column_names if name not in asked_for]
    return tuple(name for name in names if _is_id(name, table[name]))


def _is_id(name: str, column: pa.ChunkedArray) -> bool:
    kind = value_type(column.type)
    if not (is_text(kind) or pa.types.is_integer(kind)):
        return False
    first = column.slice(0, LOOK)
    if _n_distinct(first) < NEARLY * (len(first) - first.null_count):
        return False
    if pa.types.is_integer(kind):
        return are_ids(as_floats(name, whole(column)))
    texts = [text for text in texts_of(whole(first)).to_pylist() if text]
    if (how := format_of(texts)) is not None:
        return are_ids(parsed_numbers(whole(column), how))
    return not (looks_dated(texts) or preventing(texts)) and all_differ(
        _n_distinct(column), len(column)
    )


def _n_distinct(column: pa.ChunkedArray) -> int:
    return int(pc.count_distinct(column, mode="only_valid").as_py())


def caution(ids: Iterable[str]) -> list[str]:
    """Warn of columns that were left out because they look like ids; the warning's text."""
    names = ",".join(ids)
    if not names:
        return []
    text = (
        f"{names}: left out, because nearly every row has a value of its own there, as in an id, "
        f"and new rows have others. Use --drop {names} to leave it out without this message, or "
        f"--keep {names} to learn from it."
    )
    warnings.warn(text, stacklevel=3)
    return [text]
