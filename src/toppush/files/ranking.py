"""The best rows of a file, in memory that does not grow with it, and all of them sorted.

Order is by score, the highest first, then by row number: of equal rows the earlier one wins.
"""

import csv
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import feather, parquet

from toppush.files.explaining import with_reasons
from toppush.files.readers import FileOrReader, reading
from toppush.files.scoring import ScoringNotes, scored
from toppush.modelfile.model import Model
from toppush.system.reading import DataError
from toppush.system.writing import written_whole
from toppush.tables.arrow_values import is_string, value_type
from toppush.types import Array, Where

SLACK = 4
"""The best rows are sorted out when there are so many times more than are wanted."""
DELIMITERS = {".csv": ",", ".tsv": "\t"}
COLUMNS = ("rank", "percentile", "probability", "score", "row")
"""What a list says of each row, before the columns of its data."""
DIGITS = 4
"""Significant digits of probabilities."""
FORMULA = r"\A([=+\-@\t\r\n\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}])"
"""How cells begin that spreadsheets evaluate; the last four are of full width."""
PLAIN_NUMBER = r"\A[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?\z"
ENDINGS = (*DELIMITERS, ".parquet", ".arrow", ".feather")


class Best:
    """The best `limit` rows of those seen so far, or all of them without a limit."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.cut = -np.inf
        """Rows at or below it cannot get on the list."""
        self._parts: list[tuple[Array, Where, pa.Table | None]] = []
        self._held = 0

    def add(self, scores: Array, first: int, carried: pa.RecordBatch | None) -> None:
        """Take in rows numbered from `first`."""
        kept = np.flatnonzero(scores > self.cut)
        if not len(kept):
            return
        some = None if carried is None else pa.Table.from_batches([carried.take(pa.array(kept))])
        self._parts.append((scores[kept], first + kept, some))
        self._held += len(kept)
        if self.limit is not None and self._held > SLACK * max(self.limit, 1000):
            self._sort_out()

    def table(self) -> pa.Table:
        """Rank, score, row number from 1 and the carried columns, best first."""
        if not self._parts:
            raise DataError("the file holds no rows.")
        self._sort_out()
        scores, rows, carried = self._parts[0]
        found = pa.table({"rank": self._ranks(), "score": scores, "row": rows + 1})
        if carried is None:
            return found
        names = [f"{name} (data)" if name in COLUMNS else name for name in carried.column_names]
        return pa.Table.from_arrays(found.columns + carried.columns, [*found.column_names, *names])

    def _ranks(self) -> Where:
        return np.arange(1, self._held + 1)

    def _sort_out(self) -> None:
        """Sort, the earlier of equal rows first, and forget what is below the limit."""
        scores = np.concatenate([part[0] for part in self._parts])
        rows = np.concatenate([part[1] for part in self._parts])
        order = np.argsort(-scores, kind="stable")[: self.limit]
        tables = [part[2] for part in self._parts if part[2] is not None]
        carried = pa.concat_tables(tables).take(order).combine_chunks() if tables else None
        self._parts, self._held = [(scores[order], rows[order], carried)], len(order)
        if self.limit is not None and len(order) == self.limit:
            self.cut = float(scores[order[-1]])


class BestOfGroups(Best):
    """The best `limit` rows of each group, one group after another as they came up."""

    def __init__(self, limit: int | None, by: str) -> None:
        super().__init__(limit)
        self.by = by
        self._numbers: dict[object, int] = {}
        """Of the groups that were met."""
        self._cuts = np.empty(0)

    def add(self, scores: Array, first: int, carried: pa.RecordBatch | None) -> None:
        assert carried is not None
        groups = self._numbered(carried[self.by])
        kept = np.flatnonzero(scores > self._cuts[groups])
        if not len(kept):
            return
        some = pa.Table.from_batches([carried.take(pa.array(kept))])
        self._parts.append((scores[kept], first + kept, some))
        self._held += len(kept)
        if self.limit is not None and self._held > SLACK * max(
            self.limit * len(self._numbers), 1000
        ):
            self._sort_out()

    def _numbered(self, column: pa.Array) -> Where:
        """The number of each row's group, in the order in which groups were met."""
        plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        coded = plain.dictionary_encode(null_encoding="encode")
        met = coded.dictionary.to_pylist()
        numbers = [self._numbers.setdefault(one, len(self._numbers)) for one in met]
        new = len(self._numbers) - len(self._cuts)
        self._cuts = np.append(self._cuts, np.full(new, -np.inf))
        return np.asarray(np.array(numbers, np.int64)[coded.indices.to_numpy()])

    def _groups(self, carried: pa.Table) -> Where:
        return self._numbered(carried[self.by].combine_chunks())

    def _ranks(self) -> Where:
        return _places(self._groups(self._parts[0][2])) + 1

    def _sort_out(self) -> None:
        scores = np.concatenate([part[0] for part in self._parts])
        rows = np.concatenate([part[1] for part in self._parts])
        carried = pa.concat_tables([part[2] for part in self._parts])
        groups = self._groups(carried)
        order = np.lexsort((-scores, groups))
        places = _places(groups[order])
        if self.limit is not None:
            last = order[places == self.limit - 1]
            self._cuts[groups[last]] = scores[last]
            order = order[places < self.limit]
        listed = carried.take(order).combine_chunks()
        self._parts, self._held = [(scores[order], rows[order], listed)], len(order)


def _places(groups: Where) -> Where:
    """Place of each row in its group, from 0; rows of a group stand together."""
    first = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    lengths = np.diff(np.append(first, len(groups)))
    return np.arange(len(groups)) - np.repeat(first, lengths)


def rank(
    model: Model,
    path: FileOrReader,
    *,
    limit: int | None = None,
    columns: tuple[str, ...] = (),
    by: str | None = None,
    explain: int | None = None,
    kind: str | None = None,
    seen: ScoringNotes | None = None,
) -> pa.Table:
    """Rank the rows of a file: rank, percentile, probability, score, row number, further columns.

    The percentile score (0 to 100) and the calibrated probability are there if the model has them;
    see `Model.percentile` and `Model.probability`.

    Order is by score, then by row number. With `limit` the file is streamed and memory stays
    within a few batches and 4 x limit rows, whatever its size; without, scores and `columns` of
    all rows are held and sorted in memory (16 bytes a row, and the columns).

    Parameters
    ----------
    model : Model
    path : path, or a reader that is open
    limit : int, optional
        How many rows to keep.
    columns : tuple of str
        Columns of the file to carry along.
    by : str, optional
        A column whose groups have a list each, of `limit` rows, in the order in which they come up
        in the file; it is carried along, and ranks count within the group.
    explain : int, optional
        How many columns to name that lift each row, see `with_reasons`. The file is read again for
        the rows that are listed, and these are held.
    kind : str, optional
        The format, if the ending does not say.
    seen : ScoringNotes, optional
        Filled with the number of rows, of gaps and of unknown texts.

    Returns
    -------
    pyarrow.Table

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from toppush import files
    >>> load_breast_cancer(as_frame=True).frame.to_csv("train.csv", index=False)
    >>> model = files.fit("train.csv", label="target", lam=0.01, top=0.1)
    >>> files.rank(model, "train.csv", limit=3, columns=("mean area",)).column_names
    ['rank', 'percentile', 'probability', 'score', 'row', 'mean area']
    """
    seen, best = seen or ScoringNotes(), Best(limit) if by is None else BestOfGroups(limit, by)
    columns = columns if by is None else tuple(dict.fromkeys((by, *columns)))
    with reading(path, kind) as file:
        for scores, _, carried in scored(model, file, model.needs(carry=columns), seen):
            best.add(scores, seen.rows, carried)
    found = with_meaning(model, best.table())
    return with_reasons(model, path, found, explain, kind) if explain else found


def with_meaning(model: Model, found: pa.Table) -> pa.Table:
    """A list with percentile scores and probabilities after the rank, if the model has them.

    Percentile scores have as many decimals as tell the training rows at the top apart.
    """
    if model.scale is None:
        return found
    scores = found["score"].to_numpy()
    percentile = model.scale.percentile(scores).round(model.scale.digits)
    probability = model.probability(scores)
    if probability is None:
        column = pa.nulls(len(found), pa.float64())
    else:
        column = pa.array([float(f"{value:.{DIGITS}g}") for value in probability])
    found = found.add_column(1, "percentile", pa.array(percentile))
    return found.add_column(2, "probability", column)


def require_ending(path: Path) -> str:
    """The ending of a path, if a table can be written by it."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise DataError(f"cannot be written; end it with one of {', '.join(ENDINGS)}.", file=path)
    return ending


def write_table(table: pa.Table, path: Path, *, escape: bool = True) -> None:
    """Write a table as CSV, TSV, Parquet or Arrow by the path's ending, whole or not at all.

    In CSV and TSV, strings that a spreadsheet would evaluate as a formula get an apostrophe before
    them, unless `escape` is false.
    """
    ending = require_ending(path)
    with written_whole(path) as temporary:
        if ending in DELIMITERS:
            _write_csv(escaped(table) if escape else table, temporary, DELIMITERS[ending])
        elif ending == ".parquet":
            parquet.write_table(table, temporary)
        else:
            feather.write_feather(table, str(temporary))


def escaped(table: pa.Table) -> pa.Table:
    """A table with an apostrophe before strings and column names that begin like a formula.

    Strings that are numbers, such as "-3.5", stay as they are.
    """
    names = [escaped_cells(pa.array([name]))[0].as_py() for name in table.column_names]
    columns = [
        escaped_cells(column) if is_string(value_type(column.type)) else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, names)


def escaped_cells(cells: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Strings with an apostrophe before those that begin like a formula."""
    strings = cells.cast(pa.large_string())
    changed = pc.replace_substring_regex(strings, FORMULA, r"'\1")
    return pc.if_else(pc.match_substring_regex(strings, PLAIN_NUMBER), strings, changed)


def _write_csv(table: pa.Table, path: Path, delimiter: str) -> None:
    """Without quotes if no value needs them."""
    header = io.StringIO(newline="")
    csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(table.column_names)
    for style in ("none", "needed"):
        options = arrow_csv.WriteOptions(
            include_header=False, delimiter=delimiter, quoting_style=style
        )
        with path.open("wb") as file:
            file.write(header.getvalue().encode())
            try:
                return arrow_csv.write_csv(table, file, options)  # type: ignore[no-any-return]
            except pa.ArrowInvalid:
                if style == "needed":
                    raise
