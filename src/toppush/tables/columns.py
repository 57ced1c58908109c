"""Columns of a table made into numbers: one-hot categories, parts of dates, filled gaps.

A column becomes its values (a number as it is, a category as a 1 in the place of its text) and,
if it had gaps when fitted, a last output that is 1 where it has one. A gap in a column of numbers
is filled with the median; a text that was not there when fitted is all zeros, and counted.

A date becomes several columns of numbers: days since 1970, month, day of the month, weekday, hour.

That is the form "filled". For rankers that take gaps, the form "gaps" leaves those of numbers NaN,
and the form "codes" also gives a text as one number, its place in the list: NaN if it is missing,
and the place after the last if it is unknown.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from toppush.system.errors import absent, each
from toppush.system.reading import DataError
from toppush.tables import arrow_values as arrow
from toppush.tables.categories import looks_dated, refuse_texts
from toppush.tables.column_types import Category, Cells, Column, Date, Number
from toppush.tables.counts import Counts
from toppush.tables.dates import PARTS
from toppush.tables.number_strings import format_of
from toppush.tables.validation import SizeError
from toppush.types import Array, Labels, Matrix

WAYS = ("impute", "error")
"""What may be done with gaps."""
FORMS = ("filled", "gaps", "codes")
"""What may become of gaps and texts."""
DENSE_SHARE = 0.3
"""Share of entries that are not zero below which rows are made sparse."""
BLOCK_BYTES = 1 << 22
"""Rows are filled in blocks of this size, which stay in the cache."""


class Columns(TransformerMixin, BaseEstimator):
    """Columns of a table as numbers: one-hot texts, parts of dates, filled gaps.

    Parameters
    ----------
    categorical : sequence of str
        Columns to read as texts whatever they hold.
    missing : {"impute", "error"}, default="impute"
        What to do with gaps: fill and count them, or refuse them.
    form : {"filled", "gaps", "codes"}, default="filled"
        One-hot texts and filled gaps; the gaps of numbers left NaN; or those and each text as its
        place, for rankers that take categories.

    Attributes
    ----------
    columns_ : list of Number, Date and Category
        In the order of the table; of a column of dates one for each part that changes.
    empty_, constant_ : list of str
        Columns without a single value, and with the same in every row, which are left out.
    filled_ : dict
        How many gaps were filled when fitting, by column.
    sparse_ : bool
        Whether rows come out as a CSR matrix: where fewer than 30 % of the entries are not zero,
        and gaps are filled.
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
        "missing": [StrOptions(set(WAYS))],
        "form": [StrOptions(set(FORMS))],
    }

    columns_: list[Column]
    form = "filled"  # of models that were saved when there was no other

    def __init__(
        self,
        *,
        categorical: Collection[str] = (),
        missing: str = "impute",
        form: str = "filled",
    ) -> None:
        self.categorical = categorical
        self.missing = missing
        self.form = form

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels = None) -> Self:
        """Learn the categories and the fills.

        Parameters
        ----------
        X : pyarrow table, or a data frame of pandas or polars
        y : ignored
        """
        table = arrow.as_table(X)
        return self.learn(table).settle(table.column_names)

    def learn(self, table: pa.Table) -> Self:
        """Learn the categories and the fills of every column, also of those that never change."""
        counts, forced = Counts(), set(self.categorical)
        full = [name for name in table.column_names if table[name].null_count < len(table)]
        found = each(lambda name: learn(name, table[name], name in forced, counts), full)
        self.columns_ = [self._formed(column) for columns in found for column in columns]
        self._refuse_gaps(table, counts)
        with_values = set(full)
        self.empty_ = [name for name in table.column_names if name not in with_values]
        self.filled_ = dict(counts.missing)
        return self

    def settle(self, names: list[str]) -> Self:
        """Leave out what never changes, and set what follows for a table with these names."""
        before = self.by_source()
        self.columns_ = [one for one in self.columns_ if not one.constant]
        changing = self.by_source()
        self.constant_ = [source for source in before if source not in changing]
        if not self.columns_:
            left_out = ", ".join([*self.empty_, *self.constant_])
            seen = f" ({left_out} have no value, or one in every row)" if left_out else ""
            raise DataError(f"no column is left to rank by{seen}; bring columns that differ.")
        self.sparse_ = self.form == "filled" and len(self.columns_) < DENSE_SHARE * self._width
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        return self

    def transform(self, X: Matrix) -> Matrix:
        """Rows as numbers, dense or CSR as `sparse_` says.

        Parameters
        ----------
        X : pyarrow table or record batch, or a data frame of pandas or polars
        """
        check_is_fitted(self)
        return self.matrix(X, Counts())

    def matrix(self, X: Matrix, counts: Counts) -> Matrix:
        """Rows as numbers; gaps and unknown texts are added to `counts`."""
        table = arrow.as_table(X)
        blocks = self._blocks(table)
        if self.sparse_:
            rows = [self._sparse_rows(self.cells(block, counts), len(block)) for block in blocks]
            empty = sparse.csr_array((0, self._width))
            return sparse.csr_array(sparse.vstack([empty, *rows], format="csr"))
        out = np.zeros((len(table), self._width))
        start = 0
        for block in blocks:
            self._fill(out[start : start + len(block)], self.cells(block, counts))
            start += len(block)
        return out

    def cells(self, batch: pa.RecordBatch, counts: Counts) -> list[Cells]:
        """What each column of a batch holds; gaps and unknown texts are added to `counts`."""
        if gone := absent([one.source for one in self.columns_], batch.schema.names):
            raise DataError(f"the rows have no {gone}, which the model needs.")
        found = each(lambda one: one.read(batch.column(one.source), counts), self.columns_)
        self._refuse_gaps(batch, counts)
        return found

    def offsets(self) -> list[int]:
        """First output of each column."""
        ends: list[int] = np.cumsum([0, *(one.width for one in self.columns_)]).tolist()
        return ends[:-1]

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Names of the outputs: "age", "city=Lyon", "age is missing"."""
        return np.array([name for one in self.columns_ for name in one.outputs()], dtype=object)

    def by_source(self) -> dict[str, list[Column]]:
        """What is made of each column of the table."""
        found: dict[str, list[Column]] = {}
        for one in self.columns_:
            found.setdefault(one.source, []).append(one)
        return found

    def feature_sources(self) -> list[int]:
        """Column of the table, counted from 0, that each output is made of."""
        at = {name: place for place, name in enumerate(self.feature_names_in_)}
        return [at[one.source] for one in self.columns_ for _ in range(one.width)]

    def feature_texts(self) -> list[list[str] | None]:
        """The texts that the values of each output stand for, None where they are numbers."""
        return [
            one.texts if isinstance(one, Category) and one.coded else None
            for one in self.columns_
            for _ in range(one.width)
        ]

    @property
    def coded(self) -> list[int]:
        """Outputs that are places of texts."""
        placed = zip(self.columns_, self.offsets(), strict=True)
        return [offset for one, offset in placed if isinstance(one, Category) and one.coded]

    def _formed(self, column: Column) -> Column:
        """A column in the form that is asked for."""
        if isinstance(column, Number):
            return replace(column, kept=self.form != "filled")
        return replace(column, coded=self.form == "codes")

    @property
    def _width(self) -> int:
        return sum(one.width for one in self.columns_)

    def _blocks(self, table: pa.Table) -> list[pa.RecordBatch]:
        narrow = len(self.columns_) if self.sparse_ else self._width
        return list(table.to_batches(max_chunksize=max(256, BLOCK_BYTES // (8 * narrow))))

    def _fill(self, out: Array, cells: Iterable[Cells]) -> None:
        for one, offset, (values, gaps) in self._placed(cells):
            if isinstance(one, Number):
                out[:, offset] = values
            elif one.coded:
                out[:, offset] = np.where(values >= 0, values, len(one.texts))
                if gaps is not None:
                    out[gaps, offset] = np.nan
            else:
                known = np.flatnonzero(values >= 0)
                out[known, offset + values[known]] = 1.0
            if one.marks and gaps is not None:
                out[:, offset + one.width - 1] = gaps

    def _sparse_rows(self, cells: Iterable[Cells], n_rows: int) -> sparse.csr_array:
        data, places = [], []
        for one, offset, (values, gaps) in self._placed(cells):
            number = isinstance(one, Number)
            data.append(values if number else (values >= 0).astype(float))
            places.append(np.full(n_rows, offset) if number else offset + values)
            if one.marks:
                data.append(np.zeros(n_rows) if gaps is None else gaps.astype(float))
                places.append(np.full(n_rows, offset + one.width - 1))
        table, columns = np.stack(data, axis=1), np.stack(places, axis=1).astype(np.int32)
        stored = table != 0.0
        ends = np.append(0, np.cumsum(stored.sum(axis=1))).astype(np.int32)
        parts = (table[stored], columns[stored], ends)
        return sparse.csr_array(parts, shape=(n_rows, self._width))

    def _placed(self, cells: Iterable[Cells]) -> Iterator[tuple[Column, int, Cells]]:
        return zip(self.columns_, self.offsets(), cells, strict=True)

    def _refuse_gaps(self, rows: pa.Table | pa.RecordBatch, counts: Counts) -> None:
        if self.missing != "error" or not counts.missing:
            return
        name, n_gaps = next(iter(counts.missing.items()))
        column = next(one for one in self.columns_ if one.source == name)
        gaps = column.read(pa.array(arrow.whole(rows[name])), Counts()).gaps
        row = int(np.argmax(gaps)) + 1 if gaps is not None else None
        raise DataError(
            f"{n_gaps} values are missing and missing='error'; fill them, or let them be imputed.",
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


def learn(name: str, column: pa.ChunkedArray, forced: bool, counts: Counts) -> list[Column]:
    """What a column of the training rows is, with its fill or its texts; of dates, each part."""
    kind = arrow.value_type(column.type)
    if arrow.is_date(kind) and not forced:
        return _learn_dates(name, column, counts)
    arrow.refuse_type(name, kind)
    if forced or arrow.is_text(kind):
        return _learn_texts(name, column, forced, counts)
    return [_learn_numbers(Number(name, 0.0, False, kind == pa.bool_()), column, counts)]


def _learn_dates(name: str, column: pa.ChunkedArray, counts: Counts) -> list[Column]:
    parts = [Date(f"{name} ({part})", 0.0, False, of=name, part=part) for part in PARTS]
    return [_learn_numbers(part, column, counts) for part in parts]


def _learn_numbers(blank: Number, column: pa.ChunkedArray, counts: Counts) -> Number:
    """A column with the fill and the ends of its values."""
    values = blank.floats(arrow.whole(column))
    if not arrow.all_finite(values):
        values = values[~np.isnan(values)]
    if not values.size:
        name = blank.source
        raise DataError(f"holds no number; leave it out with --drop {name}.", column=name)
    fill, gaps = float(np.median(values)), values.size < len(column)
    low, high = float(values.min()), float(values.max())
    found = replace(blank, fill=fill, gaps=gaps, low=low, high=high)
    found.read(arrow.whole(column), counts)
    return found


def _learn_texts(name: str, column: pa.ChunkedArray, forced: bool, counts: Counts) -> list[Column]:
    texts = arrow.texts_of(arrow.whole(column))
    found = sorted(text for text in pc.unique(texts).to_pylist() if text)
    if not forced:
        if (how := format_of(found)) is not None:
            blank = Number(name, 0.0, False, decimal=how.decimal, unit=how.unit)
            return [_learn_numbers(blank, column, counts)]
        refuse_texts(name, found)
        if looks_dated(found):
            return _learn_dates(name, column, counts)
    category = Category(name, found, bool(arrow.no_text(texts).any()))
    category.read(texts, counts)
    return [category]
