"""Target leakage in the rows of a file."""

import warnings
from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa

from toppush.system.reading import DataError
from toppush.tables.column_types import Category, Column, Counts
from toppush.tables.columns import learn
from toppush.tables.leakage import (  # fmt: skip
    ColumnValues,
    Leak,
    LeakageWarning,
    caution,
    leaks_of,
    leaks_of_matrix,
    rows_to_check,
)
from toppush.types import Mask, Matrix


def leakage_cautions(
    X: Matrix, positive: Mask, categorical: Collection[str] = (), first: int = 0
) -> list[str]:
    """Warn of columns that alone rank almost perfectly; the warning's text.

    Parameters
    ----------
    X : table or matrix
        The columns that a model learns from.
    positive : array of bool
    categorical : collection of str
        Columns of a table that are read as strings.
    first : int
        Number of a matrix's first column.
    """
    if not positive.any() or positive.all():
        return []
    if isinstance(X, pa.Table):
        leaks, remedy = _leaks_of_table(X, positive, set(categorical)), "use --drop {names}"
    else:
        names = range(first, first + X.shape[1])
        leaks, remedy = leaks_of_matrix(X, names, (), positive), "leave it out of the file"
    if not leaks:
        return []
    text = caution(leaks, remedy.format(names=",".join(str(leak.name) for leak in leaks)))
    warnings.warn(text, LeakageWarning, stacklevel=3)
    return [text]


def _leaks_of_table(table: pa.Table, positive: Mask, categorical: set[str]) -> list[Leak]:
    rows = rows_to_check(positive, table.num_columns)
    found = leaks_of(_columns(table.take(pa.array(rows)), categorical), positive[rows])
    return list({leak.name: leak for leak in found}.values())


def _columns(table: pa.Table, categorical: set[str]) -> Iterator[ColumnValues]:
    """The columns of a table as numbers or codes, named by their source."""
    for name in table.column_names:
        values = table[name].combine_chunks()
        if values.null_count == len(values):
            continue
        for column in _learned(name, table[name], name in categorical):
            numbers, missing = column.read(values, Counts())
            found = numbers.astype(np.float64)
            if missing is not None:
                found[missing] = np.nan
            yield ColumnValues(name, found, isinstance(column, Category))


def _learned(name: str, column: pa.ChunkedArray, forced: bool) -> list[Column]:
    try:
        return learn(name, column, forced, Counts())
    except DataError:  # what cannot be read in these rows is reported where all are read
        return []
