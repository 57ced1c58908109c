"""Columns of tables as numbers: one-hot categories, parts of dates, filled missing values.

A number becomes an output, and a category an output for each known value. If values were missing in
training, a last output indicates where. Missing numbers are filled with the median; an unknown
category is all zeros, and counted. A date becomes several numbers: days since 1970, month, day of
the month, weekday, hour. Free text becomes its number of characters, and the weights of its terms.

That is the form "filled". For rankers that handle missing values, the form "nan" leaves missing
numbers NaN, and the form "codes" also gives a category as one number, its code: NaN if it is
missing, and the code after the last if it is unknown.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context, clone
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from toppush.system.errors import absent, each
from toppush.system.reading import DataError
from toppush.tables import arrow_values as arrow
from toppush.tables.column_types import (
    Category,
    Column,
    ColumnData,
    Counts,
    Date,
    Elapsed,
    Number,
    Text,
)
from toppush.tables.dates import PARTS, date_pairs
from toppush.tables.strings import MAX_CATEGORIES, format_of, refuse_unclear
from toppush.tables.text import is_free_text
from toppush.tables.validation import SizeError
from toppush.types import Array, Labels, Mask, Matrix, Where

WAYS = ("impute", "error")
"""What may be done with missing values."""
FORMS = ("filled", "nan", "codes")
"""How missing values and categories may be represented."""
DENSE_SHARE = 0.3
"""Share of nonzero entries below which rows are sparse."""
BLOCK_BYTES = 1 << 22
"""Rows are filled in blocks of this size, which stay in the cache."""
TYPE_NAMES: dict[type[Column], str] = {
    Category: "strings", Text: "text", Date: "dates", Number: "numbers",
}  # fmt: skip
RECOGNISED = "recognised"


class Columns(TransformerMixin, BaseEstimator):
    """Columns of a table as numbers: one-hot categories, parts of dates, filled missing values.

    Parameters
    ----------
    categorical : sequence of str
        Columns to read as categories whatever they hold.
    text : sequence of str, default="recognised"
        Columns to read as free text whatever they hold; by default those that look like it.
    missing : {"impute", "error"}, default="impute"
        Fill and count missing values, or refuse them.
    form : {"filled", "nan", "codes"}, default="filled"
        One-hot categories and filled missing values; missing numbers left NaN; or in addition
        each category as its code, for rankers that take categories.

    Attributes
    ----------
    columns_ : list of Number, Date, Category and Text
        In the order of the table; a column of dates has one for each part that varies.
    empty_, constant_ : list of str
        Columns without any value, and with one value in every row, which are left out.
    filled_ : dict
        Number of missing training values, by column.
    sparse_ : bool
        Whether rows are a CSR matrix: with text, or where fewer than 30 % of the entries are
        nonzero, and missing values are filled.
    n_features_in_ : int
    feature_names_in_ : array of str

    Examples
    --------
    >>> from toppush.files import Columns
    >>> import pyarrow as pa
    >>> table = pa.table({"age": [30, None, 50], "city": ["Lyon", "Oslo", "Lyon"]})
    >>> Columns().fit_transform(table)
    array([[30.,  0.,  1.,  0.],
           [40.,  1.,  0.,  1.],
           [50.,  0.,  1.,  0.]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "categorical": ["array-like"],
        "text": ["array-like", StrOptions({RECOGNISED})],
        "missing": [StrOptions(set(WAYS))],
        "form": [StrOptions(set(FORMS))],
    }

    columns_: list[Column]

    def __init__(
        self,
        *,
        categorical: Collection[str] = (),
        text: Collection[str] = RECOGNISED,
        missing: str = "impute",
        form: str = "filled",
    ) -> None:
        self.categorical = categorical
        self.text = text
        self.missing = missing
        self.form = form

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels = None) -> Self:
        """Learn the categories and the fill values.

        Parameters
        ----------
        X : pyarrow table, or a data frame of pandas or polars
        y : ignored
        """
        table = arrow.as_table(X)
        return self.learn(table).settle(table.column_names)

    def learn(self, table: pa.Table) -> Self:
        """Learn the categories and fill values of every column, constant ones included."""
        counts, forced = Counts(), set(self.categorical)
        full = [name for name in table.column_names if table[name].null_count < len(table)]
        texts = set(texts_of(table, forced) if isinstance(self.text, str) else self.text)

        def learn_column(name: str) -> list[Column]:
            if name in texts:
                return [Text.learned(name, table[name], counts)]
            return learn(name, table[name], name in forced, counts)

        learned = _with_elapsed(each(learn_column, full), table, counts)
        self.columns_ = [self._formed(column) for columns in learned for column in columns]
        self._refuse_missing(table, counts)
        with_values = set(full)
        self.empty_ = [name for name in table.column_names if name not in with_values]
        self.filled_ = dict(counts.missing)
        return self

    def _formed(self, column: Column) -> Column:
        """A column in the form that is asked for."""
        if isinstance(column, Text):
            return column
        if isinstance(column, Category):
            return replace(column, coded=self.form == "codes")
        return replace(column, keep_nan=self.form != "filled")

    def settle(self, names: list[str]) -> Self:
        """Leave out constant columns, and set the attributes that depend on the others."""
        before = self.by_source()
        self.columns_ = [column for column in self.columns_ if not column.constant]
        varying = self.by_source()
        self.constant_ = [source for source in before if source not in varying]
        if not self.columns_:
            left_out = ", ".join([*self.empty_, *self.constant_])
            reason = f" ({left_out} have no value, or one in every row)" if left_out else ""
            raise DataError(f"no column is left to rank by{reason}; bring columns that differ.")
        thin = self.form == "filled" and len(self.columns_) < DENSE_SHARE * self._width
        self.sparse_ = thin or bool(self.texts)
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        return self

    def transform(self, X: Matrix) -> Matrix:
        """Rows as numbers, a CSR matrix if `sparse_`, else an array.

        Parameters
        ----------
        X : pyarrow table or record batch, or a data frame of pandas or polars
        """
        check_is_fitted(self)
        return self.matrix(X, Counts())

    def matrix(self, X: Matrix, counts: Counts) -> Matrix:
        """Rows as numbers; missing values and unknown categories are added to `counts`."""
        table = arrow.as_table(X)
        blocks = self._blocks(table)
        if self.sparse_:
            rows = [self._sparse_rows(self.read(block, counts), len(block)) for block in blocks]
            empty = sparse.csr_array((0, self._width))
            return sparse.csr_array(sparse.vstack([empty, *rows], format="csr"))
        out = np.zeros((len(table), self._width))
        start = 0
        for block in blocks:
            self._fill(out[start : start + len(block)], self.read(block, counts))
            start += len(block)
        return out

    def read(self, batch: pa.RecordBatch, counts: Counts) -> list[ColumnData]:
        """Each column of a batch; missing values and unknown categories are added to `counts`."""
        if gone := absent([column.source for column in self.columns_], batch.schema.names):
            raise DataError(f"the rows have no {gone}, which the model needs.")
        data = each(lambda column: column.read(column.cells(batch), counts), self.columns_)
        self._refuse_missing(batch, counts)
        return data

    def offsets(self) -> list[int]:
        """First output of each column."""
        ends: list[int] = np.cumsum([0, *(column.width for column in self.columns_)]).tolist()
        return ends[:-1]

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Names of the outputs: "age", "city=Lyon", "age is missing"."""
        names = [name for column in self.columns_ for name in column.outputs()]
        return np.array(names, dtype=object)

    def by_source(self) -> dict[str, list[Column]]:
        """The learned columns of each column of the table."""
        columns: dict[str, list[Column]] = {}
        for column in self.columns_:
            columns.setdefault(column.source, []).append(column)
        return columns

    def feature_sources(self) -> list[int]:
        """Column of the table, counted from 0, of each output."""
        at = {name: place for place, name in enumerate(self.feature_names_in_)}
        return [at[column.source] for column in self.columns_ for _ in range(column.width)]

    def feature_categories(self) -> list[list[str] | None]:
        """The categories whose codes each output holds; None where it holds numbers."""
        return [
            column.categories if isinstance(column, Category) and column.coded else None
            for column in self.columns_
            for _ in range(column.width)
        ]

    @property
    def texts(self) -> list[Text]:
        """The columns of free text."""
        return [column for column in self.columns_ if isinstance(column, Text)]

    def term_places(self) -> list[Where]:
        """The outputs that are weights of terms, for each column of free text."""
        return [
            np.arange(offset + 1, offset + column.width)
            for column, offset in zip(self.columns_, self.offsets(), strict=True)
            if isinstance(column, Text)
        ]

    @property
    def coded(self) -> list[int]:
        """Outputs that are codes of categories."""
        return [at for at, names in enumerate(self.feature_categories()) if names is not None]

    @property
    def _width(self) -> int:
        return sum(column.width for column in self.columns_)

    def _blocks(self, table: pa.Table) -> list[pa.RecordBatch]:
        narrow = len(self.columns_) if self.sparse_ else self._width
        return list(table.to_batches(max_chunksize=max(256, BLOCK_BYTES // (8 * narrow))))

    def _fill(self, out: Array, data: Iterable[ColumnData]) -> None:
        for column, offset, (values, missing) in zip(
            self.columns_, self.offsets(), data, strict=True
        ):
            if isinstance(column, Number):
                out[:, offset] = values
            elif isinstance(column, Text):
                raise TypeError(f"{column.name!r} is text, whose terms are a sparse matrix")
            elif column.coded:
                out[:, offset] = _codes(column, values, missing)
            else:
                known = np.flatnonzero(values >= 0)
                out[known, offset + values[known]] = 1.0
            if column.has_indicator and missing is not None:
                out[:, offset + column.width - 1] = missing

    def _sparse_rows(self, columns: Iterable[ColumnData], n_rows: int) -> sparse.csr_array:
        blocks: list[sparse.csr_array] = []
        pairs = zip(self.columns_, columns, strict=True)
        for are_texts, some in itertools.groupby(pairs, lambda pair: isinstance(pair[0], Text)):
            if are_texts:
                blocks += [data.values for _, data in some]
            else:
                blocks.append(_sparse_block(list(some), n_rows))
        if len(blocks) == 1:
            return blocks[0]
        return sparse.csr_array(sparse.hstack(blocks, format="csr"))

    def _refuse_missing(self, rows: pa.Table | pa.RecordBatch, counts: Counts) -> None:
        if self.missing != "error" or not counts.missing:
            return
        name, n_missing = next(iter(counts.missing.items()))
        column = self.by_source()[name][0]
        missing = column.read(pa.array(arrow.whole(rows[name])), Counts()).missing
        row = int(np.argmax(missing)) + 1 if missing is not None else None
        raise DataError(
            f"{n_missing} values are missing and missing='error'; fill them, or let them be "
            "imputed.",
            row=row,
            column=name,
        )


@contextmanager
def sizes_named(
    columns: Columns | None, first: int = 0, file: Path | None = None
) -> Iterator[None]:
    """Name columns of the file in an error about magnitudes; those of a matrix by number."""
    try:
        yield
    except SizeError as error:
        names: Sequence[Any] = range(first, first + max(error.sizes) + 1)
        if columns is not None:
            names = columns.feature_names_in_[columns.feature_sources()].tolist()
        raise DataError(str(SizeError(error.sizes, names)), file=file) from error


def _codes(column: Category, values: NDArray[Any], missing: Mask | None) -> Array:
    """Codes as an output: NaN if missing, the one after the last if unknown."""
    codes = np.where(values >= 0, values, len(column.categories)).astype(np.float64)
    if missing is not None:
        codes[missing] = np.nan
    return codes


def _sparse_block(columns: Sequence[tuple[Column, ColumnData]], n_rows: int) -> sparse.csr_array:
    """The outputs of neighbouring columns of numbers and categories."""
    data, places, offset = [], [], 0
    for column, (values, missing) in columns:
        if isinstance(column, Category) and column.coded:
            values = _codes(column, values, missing)
        one_hot = isinstance(column, Category) and not column.coded
        data.append((values >= 0).astype(float) if one_hot else values)
        places.append(offset + values if one_hot else np.full(n_rows, offset))
        if column.has_indicator:
            data.append(np.zeros(n_rows) if missing is None else missing.astype(float))
            places.append(np.full(n_rows, offset + column.width - 1))
        offset += column.width
    table, indices = np.stack(data, axis=1), np.stack(places, axis=1).astype(np.int32)
    stored = table != 0.0
    ends = np.append(0, np.cumsum(stored.sum(axis=1))).astype(np.int32)
    return sparse.csr_array((table[stored], indices[stored], ends), shape=(n_rows, offset))


def texts_of(table: pa.Table, others: Collection[str] = ()) -> list[str]:
    """Columns of a table that hold free text, except others."""
    return [name for name in table.column_names if name not in others and _is_text(table[name])]


def _is_text(column: pa.ChunkedArray) -> bool:
    if not arrow.is_string(arrow.value_type(column.type)):
        return False
    values = arrow.as_strings(arrow.whole(column))
    strings = [text for text in pc.unique(values).to_pylist() if text]
    n_values = len(values) - int(np.count_nonzero(arrow.missing_strings(values)))
    if not is_free_text(strings, n_values):
        return False
    return format_of(sorted(strings)) is None and arrow.order_of_dates(sorted(strings)) is None


def learn(name: str, column: pa.ChunkedArray, forced: bool, counts: Counts) -> list[Column]:
    """The learned columns of a training column: one, or one for each part of its dates.

    With `forced`, it holds categories whatever its values. Missing values are added to `counts`.
    """
    kind = arrow.value_type(column.type)
    if arrow.is_date(kind) and not forced:
        return _learn_dates(name, column, counts)
    arrow.refuse_type(name, kind)
    if not (forced or arrow.is_string(kind)):
        return [_learn_numbers(Number(name, 0.0, False, kind == pa.bool_()), column, counts)]
    values = arrow.as_strings(arrow.whole(column))
    strings = sorted(text for text in pc.unique(values).to_pylist() if text)
    if not forced:
        if (how := format_of(strings)) is not None:
            blank = Number(name, 0.0, False, decimal=how.decimal, unit=how.unit)
            return [_learn_numbers(blank, column, counts)]
        if (order := arrow.order_of_dates(strings)) is not None:
            return _learn_dates(name, column, counts, order)
        refuse_unclear(name, strings)
    category = Category(name, strings, bool(arrow.missing_strings(values).any()))
    category.read(values, counts)
    return [category]


def _learn_dates(
    name: str, column: pa.ChunkedArray, counts: Counts, order: str = ""
) -> list[Column]:
    blank = Date(name, 0.0, False, of=name, order=order)
    return [
        _learn_numbers(replace(blank, name=f"{name} ({part})", part=part), column, counts)
        for part in PARTS
    ]


def _with_elapsed(
    learned: list[list[Column]], table: pa.Table, counts: Counts
) -> list[list[Column]]:
    """The learned columns with the days between dates, next to the parts of the later column."""
    dates = [(place, first) for place, (first, *_) in enumerate(learned) if _varies(first)]
    result = [list(columns) for columns in learned]
    for (_, earlier), (place, later) in date_pairs(dates):
        part = f"days since {earlier.source}"
        blank = Elapsed(
            f"{later.source} ({part})", 0.0, False, of=later.source, part=part, order=later.order,
            since=earlier.source, since_order=earlier.order,
        )  # fmt: skip
        cells = blank.cells(table)
        if cells.null_count < len(cells):
            result[place].append(_learn_numbers(blank, pa.chunked_array([cells]), counts))
    return result


def _varies(column: Column) -> TypeGuard[Date]:
    """Whether a column is the first part of dates that differ."""
    return isinstance(column, Date) and not column.constant


def _learn_numbers(blank: Number, column: pa.ChunkedArray, counts: Counts) -> Number:
    """The column with its fill value and its range."""
    values = blank.floats(arrow.whole(column))
    if not arrow.all_finite(values):
        values = values[~np.isnan(values)]
    if not values.size:
        name = blank.source
        raise DataError(f"holds no number; leave it out with --drop {name}.", column=name)
    learned = replace(
        blank,
        fill=float(np.median(values)),
        had_missing=values.size < len(column),
        low=float(values.min()),
        high=float(values.max()),
    )
    learned.read(arrow.whole(column), counts)
    return learned


# ---- the parts of a table


class LearnedPart(NamedTuple):
    """What `Columns.learn` found in a part of a table."""

    columns: Columns
    n_rows: int
    file: str

    def n_missing(self, name: str) -> int:
        """Missing values of a column."""
        return self.n_rows if name in self.columns.empty_ else self.columns.filled_.get(name, 0)


def merge(parts: Sequence[LearnedPart], names: list[str]) -> Columns:
    """The columns with these names, from what was learned in the parts of a table.

    They are those of the whole table, except that missing numbers are filled with the median of
    the parts' medians, weighted by the number of values.
    """
    merged: Columns = clone(parts[0].columns)
    by_name = {name: _merge_column(name, parts) for name in names}
    merged.columns_ = [column for columns in by_name.values() for column in columns]
    merged.empty_ = [name for name, columns in by_name.items() if not columns]
    merged.filled_ = {
        name: n_missing
        for name, columns in by_name.items()
        if columns and (n_missing := sum(part.n_missing(name) for part in parts))
    }
    return merged.settle(names)


def _merge_column(name: str, parts: Sequence[LearnedPart]) -> list[Column]:
    """The learned columns of a column of the table, from the parts that have a value in it."""
    learned = [(part, part.columns.by_source().get(name, [])) for part in parts]
    filled = [(part, columns) for part, columns in learned if columns]
    types = {type(columns[0]): part.file for part, columns in filled}
    if len(types) > 1:
        odd, other = [kind for kind in TYPE_NAMES if kind in types][:2]
        raise DataError(
            f"holds {TYPE_NAMES[odd]}, and {TYPE_NAMES[other]} in other parts; correct it, or name "
            f"it with --categorical {name} or --drop {name}.",
            file=types[odd],
            column=name,
        )
    counts = [part.n_rows - part.n_missing(name) for part, _ in filled]
    has_empty = len(filled) < len(parts)
    asked = bool(filled) and name in filled[0][0].columns.categorical
    names = [{column.name for column in columns} for _, columns in filled]
    shared = set.intersection(*names) if names else set()
    alike = zip(*([c for c in columns if c.name in shared] for _, columns in filled), strict=True)
    return [_merge_alike(name, columns, counts, has_empty, asked) for columns in alike]


def _merge_alike(
    name: str, columns: Sequence[Column], counts: Sequence[int], has_empty: bool, asked: bool
) -> Column:
    """One learned column from those of the parts, which have the same type."""
    had_missing = has_empty or any(column.had_missing for column in columns)
    first = columns[0]
    if isinstance(first, Category):
        known = [column.categories for column in columns if isinstance(column, Category)]
        categories = sorted(set().union(*known))
        if len(categories) > MAX_CATEGORIES and not asked:
            raise DataError(
                f"holds {len(categories)} different strings such as {categories[0]!r} over all "
                f"parts; name it with --categorical {name} to keep it, or --drop {name}.",
                column=name,
            )
        return replace(first, categories=categories, had_missing=had_missing)
    numbers = [column for column in columns if isinstance(column, Number)]
    orders = {column.order for column in numbers if isinstance(column, Date)}
    if len(orders) > 1:
        raise DataError(
            f"holds dates written differently in other parts ({sorted(orders)}); write them as "
            f"2024-01-31, or name the column with --categorical {name} or --drop {name}.",
            column=name,
        )
    formats = {(column.decimal, column.unit) for column in numbers if column.decimal}
    if len(formats) > 1:
        raise DataError(
            f"holds numbers written differently in other parts: {sorted(formats)} are their "
            f"decimal marks and units; correct it, or name it with --categorical {name} or --drop "
            f"{name}.",
            column=name,
        )
    decimal, unit = next(iter(formats), ("", ""))
    return replace(
        numbers[0],
        fill=_weighted_median([column.fill for column in numbers], counts),
        had_missing=had_missing,
        boolean=all(column.boolean for column in numbers),
        low=min(column.low for column in numbers),
        high=max(column.high for column in numbers),
        decimal=decimal,
        unit=unit,
    )


def _weighted_median(values: Sequence[float], weights: Sequence[int]) -> float:
    order = np.argsort(values)
    total = np.cumsum(np.asarray(weights, float)[order])
    return float(np.asarray(values)[order][np.searchsorted(total, total[-1] / 2)])
