"""Arrow arrays as numbers, dates or strings; other types are refused."""

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toppush.system.reading import DataError
from toppush.tables.dates import date_order, look_like_dates, parse_date
from toppush.tables.strings import MISSING, NumberFormat
from toppush.types import Array, Mask, Matrix

DATE_TYPES = [pa.timestamp(unit, zone) for unit in ("us", "ns") for zone in (None, "UTC")]
"""Types as which date strings are read; all are in UTC unless they name another zone."""


# ---- types


def refuse_type(name: str, kind: pa.DataType) -> None:
    """Refuse types that are neither numbers nor strings."""
    if is_string(kind) or is_numeric(kind) or pa.types.is_null(kind):
        return
    wrong = f"{kind}, which is neither numbers nor text;"
    if pa.types.is_temporal(kind):
        wrong = f"dates or times ({kind}); turn them into numbers, or"
    elif pa.types.is_binary(kind):
        wrong = f"{kind} (text that is not UTF-8), which is neither numbers nor text;"
    raise DataError(f"holds {wrong} leave it out with --drop {name}.", column=name)


def refuse_nested(name: str, kind: pa.DataType) -> None:
    """Refuse types whose values are no single number, date or string."""
    kind = value_type(kind)
    is_time = pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
    if not (is_string(kind) or is_numeric(kind) or is_time or pa.types.is_null(kind)):
        raise DataError(
            f"holds {kind}, which is neither numbers, dates nor strings; turn it into strings, or "
            "name another column.",
            column=name,
        )


def is_date(kind: pa.DataType) -> bool:
    """Whether a type holds dates, with or without times."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def is_string(kind: pa.DataType) -> bool:
    """Whether a type holds strings."""
    return kind in (pa.string(), pa.large_string())


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a type holds numbers, or true and false."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values; of a dictionary that of its entries."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def plain(rows: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    """Rows without views, runs and extension types, with which pyarrow cannot compute."""
    for place, kind in enumerate(rows.schema.types):
        if (usual := _plain_type(kind)) != kind:
            name, column = rows.schema.names[place], rows.column(place)
            runs = pa.types.is_run_end_encoded(kind)
            rows = rows.set_column(
                place, name, pc.run_end_decode(column) if runs else column.cast(usual)
            )
    return rows


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    if pa.types.is_run_end_encoded(kind):
        return kind.value_type
    return {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(kind, kind)


# ---- tables and columns


def as_table(rows: Matrix) -> pa.Table:
    """A table, a record batch or a data frame as a pyarrow table; only odd types are copied."""
    if isinstance(rows, pa.Table):
        return plain(rows)
    if isinstance(rows, pa.RecordBatch):
        return plain(pa.Table.from_batches([rows]))
    if hasattr(rows, "__arrow_c_stream__"):
        table = pa.table(rows)
        index = [name for name in table.column_names if name.startswith("__index_level_")]
        return plain(table.drop_columns(index))
    raise TypeError(
        f"expected a table with named columns (pyarrow, pandas or polars), got {type(rows)}."
    )


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def decoded(column: pa.Array) -> pa.Array:
    """A column without dictionary encoding."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def as_strings(column: pa.Array) -> pa.Array:
    """A column as strings; whole numbers as their digits."""
    column = decoded(column)
    return column if column.type == pa.large_string() else column.cast(pa.large_string())


def missing_strings(column: pa.Array) -> Mask:
    """Where a column of strings is missing: null or the empty string."""
    empty = pc.equal(as_strings(column), pa.scalar("", pa.large_string()))
    return pc.fill_null(empty, True).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def as_floats(name: str, column: pa.Array) -> Array:
    """Numbers as float64, NaN where missing."""
    kind = value_type(column.type)
    if not (is_numeric(kind) or pa.types.is_null(kind)):
        refuse_type(name, kind)
        raise DataError(f"holds {kind}, and held numbers when the model was fitted.", column=name)
    column = decoded(column)
    if column.type == pa.bool_():
        column = column.cast(pa.uint8())
    floats = column if column.type == pa.float64() else column.cast(pa.float64(), safe=False)
    return floats.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def all_finite(values: Array) -> bool:
    """Whether all are finite: by their sum, or if that overflows, each."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    return bool(np.isfinite(total)) or bool(np.isfinite(values).all())


# ---- strings of numbers and dates


def parsed_numbers(column: pa.Array, how: NumberFormat) -> Array:
    """Number strings as float64; NaN where there is no number."""
    encoded = as_strings(column).dictionary_encode()
    numbers, _ = how.numbers(encoded.dictionary.to_pylist())
    places = encoded.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)
    return np.asarray(np.append(numbers, np.nan)[places])


def count_unread(column: pa.Array, numbers: Array) -> int:
    """How many strings of a column are neither numbers nor stand for a missing value."""
    if not is_string(value_type(column.type)):
        return 0
    strings = as_strings(column).filter(pa.array(np.isnan(numbers))).drop_null()
    return sum(text.strip().lower() not in MISSING for text in strings.to_pylist())


def as_dates(name: str, column: pa.Array, order: str = "") -> NDArray[np.datetime64]:
    """Dates and times as datetime64 in UTC, NaT where missing.

    Strings are dates as 2024-01-31, or in an order of `toppush.tables.dates.ORDERS`.
    """
    kind = value_type(column.type)
    column = decoded(column)
    if is_string(kind) and order:
        return _ordered_dates(name, column, order)
    if is_string(kind):
        column = _iso_dates(name, column)
    elif pa.types.is_null(kind):
        column = column.cast(pa.timestamp("s"))
    elif not is_date(kind):
        raise DataError(f"holds {kind}, and held dates when the model was fitted.", column=name)
    return column.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _ordered_dates(name: str, column: pa.Array, order: str) -> NDArray[np.datetime64]:
    encoded = as_strings(column).dictionary_encode()
    strings = encoded.dictionary.to_pylist()
    dates = [parse_date(text, order) for text in strings]
    wrong = {place for place, text in enumerate(strings) if text and dates[place] is None}
    places = encoded.indices.fill_null(len(strings)).to_numpy(zero_copy_only=False)
    if wrong:
        row = next(row for row, place in enumerate(places.tolist()) if place in wrong)
        raise DataError(
            f"{strings[places[row]]!r} is no date in the order of the training rows ({order}).",
            row=row + 1,
            column=name,
        )
    return np.asarray(np.array([*dates, None], "datetime64[us]")[places])


def _iso_dates(name: str, column: pa.Array) -> pa.Array:
    strings = as_strings(column)
    strings = pc.if_else(pc.equal(strings, ""), None, strings)
    if (dates := parsed_dates(strings)) is not None:
        return dates
    wrong = next(
        (row for row in range(len(strings)) if parsed_dates(strings[row : row + 1]) is None), 0
    )
    raise DataError(
        f"{strings[wrong].as_py()!r} is no date such as 2024-01-31 or 2024-01-31 13:45:00, with a "
        "time zone (Z, +01:00) if others have one.",
        row=wrong + 1,
        column=name,
    )


def order_of_dates(strings: list[str]) -> str | None:
    """The order of date strings for `as_dates`; None if not all are dates, or it is ambiguous."""
    if not look_like_dates(strings):
        return None
    is_iso = parsed_dates(pa.array(strings, pa.large_string())) is not None
    return "" if is_iso else date_order(strings)


def parsed_dates(strings: pa.Array) -> pa.Array | None:
    """Date strings as timestamps, or None if any is no date; all have a time zone, or none."""
    for kind in DATE_TYPES:
        with suppress(pa.ArrowInvalid):
            return strings.cast(kind)
    return None
