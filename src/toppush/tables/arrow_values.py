"""Arrow arrays as numbers, dates or texts, and what is neither refused with a sentence."""

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toppush.system.reading import DataError
from toppush.tables.number_strings import MISSING, NumberFormat
from toppush.types import Array, Mask, Matrix

MOMENTS = [pa.timestamp(unit, zone) for unit in ("us", "ns") for zone in (None, "UTC")]
"""What texts of dates are read as; all are of UTC unless they name another zone."""


def refuse_type(name: str, kind: pa.DataType) -> None:
    """Refuse types that are neither numbers nor texts."""
    if is_text(kind) or is_numeric(kind) or pa.types.is_null(kind):
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
    is_moment = pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
    if not (is_text(kind) or is_numeric(kind) or is_moment or pa.types.is_null(kind)):
        raise DataError(
            f"holds {kind}, which is neither numbers, dates nor strings; turn it into strings, or "
            "name another column.",
            column=name,
        )


def plain(rows: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    """Rows whose types are those that pyarrow computes with: no views, runs or extensions."""
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


def is_date(kind: pa.DataType) -> bool:
    """Whether a type is one of dates, or of dates with times."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of texts."""
    return kind in (pa.string(), pa.large_string())


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a type is one of numbers, or of true and false."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def is_number(text: str) -> bool:
    """Whether a text reads as a number; blanks around it and underscores make it a text."""
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip() and "_" not in text


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, of a dictionary those of its entries."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def as_table(rows: Matrix) -> pa.Table:
    """A pyarrow table of a table, a record batch or a data frame; only odd types are copied."""
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


def as_floats(name: str, column: pa.Array) -> Array:
    """Numbers as float64, NaN where there is none."""
    kind = value_type(column.type)
    if not (is_numeric(kind) or pa.types.is_null(kind)):
        refuse_type(name, kind)
        raise DataError(f"holds {kind}, and held numbers when the model was fitted.", column=name)
    if kind != column.type:
        column = column.dictionary_decode()
    if column.type == pa.bool_():
        column = column.cast(pa.uint8())
    floats = column if column.type == pa.float64() else column.cast(pa.float64(), safe=False)
    return floats.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def parsed_numbers(column: pa.Array, how: NumberFormat) -> Array:
    """Numbers written as text as float64; NaN where there is none."""
    encoded = texts_of(column).dictionary_encode()
    numbers, _ = how.numbers(encoded.dictionary.to_pylist())
    places = encoded.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)
    return np.asarray(np.append(numbers, np.nan)[places])


def n_unread(column: pa.Array, numbers: Array) -> int:
    """How many values of a column of text are neither numbers nor stand for a missing value."""
    if not is_text(value_type(column.type)):
        return 0
    texts = texts_of(column).filter(pa.array(np.isnan(numbers))).drop_null()
    return sum(text.strip().lower() not in MISSING for text in texts.to_pylist())


def as_dates(name: str, column: pa.Array) -> NDArray[np.datetime64]:
    """Dates and times as datetime64 in UTC, NaT where there is none."""
    kind = value_type(column.type)
    if kind != column.type:
        column = column.dictionary_decode()
    if is_text(kind):
        column = _from_texts(name, column)
    elif not (is_date(kind) or pa.types.is_null(kind)):
        raise DataError(f"holds {kind}, and held dates when the model was fitted.", column=name)
    if pa.types.is_null(kind):
        column = column.cast(pa.timestamp("s"))
    return column.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _from_texts(name: str, column: pa.Array) -> pa.Array:
    texts = texts_of(column)
    texts = pc.if_else(pc.equal(texts, ""), None, texts)
    if (found := parsed_dates(texts)) is not None:
        return found
    wrong = next(
        (row for row in range(len(texts)) if parsed_dates(texts[row : row + 1]) is None), 0
    )
    raise DataError(
        f"{texts[wrong].as_py()!r} is no date such as 2024-01-31 or 2024-01-31 13:45:00, with a "
        "time zone (Z, +01:00) if others have one.",
        row=wrong + 1,
        column=name,
    )


def parsed_dates(texts: pa.Array) -> pa.Array | None:
    """Texts of dates as moments, or None if any of them is no date; all have a zone, or none."""
    for kind in MOMENTS:
        with suppress(pa.ArrowInvalid):
            return texts.cast(kind)
    return None


def all_finite(values: Array) -> bool:
    """Whether all are finite, by their sum; of huge numbers, one by one."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    return bool(np.isfinite(total)) or bool(np.isfinite(values).all())


def texts_of(column: pa.Array) -> pa.Array:
    """A column as texts; whole numbers as their digits."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column if column.type == pa.large_string() else column.cast(pa.large_string())


def no_text(column: pa.Array) -> Mask:
    """Where a column of texts has a gap: nothing, or the empty text."""
    empty = pc.equal(texts_of(column), pa.scalar("", pa.large_string()))
    return pc.fill_null(empty, True).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
