"""Columns that number or name the rows, from which nothing can be learned for new rows."""

import warnings
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import numpy as np

from toppush.tables.dates import look_like_dates
from toppush.tables.strings import blocking_numbers, format_of
from toppush.types import Array

if TYPE_CHECKING:
    import pyarrow as pa

NEARLY = 0.99
"""Share of rows with a value of their own from which a column of strings is an id."""
FEWEST = 50
"""With fewer rows, different values mean little."""
SPREAD = 20
"""Most whole numbers of the range for each value of an id: of 1 to n, one in twenty may be left."""
CHANCE = 20.0
"""n values drawn from a range of N numbers all differ with probability exp(-n^2 / 2N). A column is
an id if that is below exp(-20): then the values were made to differ."""
FIRST_ROWS = 1000
"""Rows that are looked at before all are."""


def all_differ(n_distinct: int, n_values: int) -> bool:
    """Whether nearly every row has a value of its own, among enough rows."""
    return n_values >= FEWEST and n_distinct >= NEARLY * n_values


def are_ids(values: Array) -> bool:
    """Whether whole numbers count the rows: they differ, and lie closer than by chance.

    Neither the order of the rows nor a name matters, and ids of a part of the rows are still ids.
    Numbers that differ because they are measured finely lie far apart: dates as 20240131, amounts
    in cents.

    Parameters
    ----------
    values : array of float64
        NaN is a missing value.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.tables.ids import are_ids
    >>> shuffled = np.random.default_rng(0).permutation(1000) + 1.0
    >>> are_ids(shuffled), are_ids(shuffled[:300]), are_ids(shuffled**2)
    (True, True, False)
    """
    values = values[~np.isnan(values)]
    n_values = len(values)
    if n_values < FEWEST:
        return False
    span = float(values.max() - values.min()) + 1.0
    if not span <= min(SPREAD * n_values, n_values**2 / (2.0 * CHANCE)):
        return False
    is_whole = bool((values == np.floor(values)).all())
    return is_whole and all_differ(len(np.unique(values)), n_values)


def id_like(table: "pa.Table", asked_for: Collection[str] = ()) -> tuple[str, ...]:
    """Columns of an Arrow table that look like ids, except those that were asked for.

    Of strings: a different one in nearly every row, unless they are dates or mostly numbers. Of
    whole numbers: see `are_ids`.
    """
    names = [name for name in table.column_names if name not in asked_for]
    return tuple(name for name in names if _is_id(name, table[name]))


def _is_id(name: str, column: "pa.ChunkedArray") -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    from toppush.tables import arrow_values as arrow

    def n_distinct(values: pa.ChunkedArray) -> int:
        plain = arrow.decoded(arrow.whole(values))  # dictionaries cannot be counted
        return int(pc.count_distinct(plain, mode="only_valid").as_py())

    kind = arrow.value_type(column.type)
    if not (arrow.is_string(kind) or pa.types.is_integer(kind)):
        return False
    first = column.slice(0, FIRST_ROWS)
    if n_distinct(first) < NEARLY * (len(first) - first.null_count):
        return False
    if pa.types.is_integer(kind):
        return are_ids(arrow.as_floats(name, arrow.whole(column)))
    strings = [text for text in arrow.as_strings(arrow.whole(first)).to_pylist() if text]
    if (how := format_of(strings)) is not None:
        return are_ids(arrow.parsed_numbers(arrow.whole(column), how))
    if look_like_dates(strings) or blocking_numbers(strings):
        return False
    return all_differ(n_distinct(column), len(column))


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
