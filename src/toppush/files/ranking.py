"""The best rows of a file in bounded memory, or all of them, sorted.

The order is by score, the highest first, then by row number.
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
"""Rows are held up to this multiple of the limit before the rest is dropped."""
DELIMITERS = {".csv": ",", ".tsv": "\t"}
COLUMNS = ("rank", "percentile", "probability", "score", "row")
"""Columns of a ranking before those of the data."""
DIGITS = 4
"""Significant digits of probabilities."""
FORMULA = r"\A([=+\-@\t\r\n\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}])"
"""Beginnings of cells that spreadsheets evaluate; the last four are of full width."""
PLAIN_NUMBER = r"\A[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?\z"
ENDINGS = (*DELIMITERS, ".parquet", ".arrow", ".feather")


class Best:
    """The best `limit` rows of those added, or all without a limit; with `by`, those of each group.

    Groups keep the order of their first rows.
    """

    def __init__(self, limit: int | None, by: str | None = None) -> None:
        self.limit, self.by = limit, by
        self._parts: list[tuple[Array, Where, pa.Table | None]] = []
        self._n_rows = 0
        self._numbers: dict[object, int] = {} if by else {None: 0}
        """The number of each group."""
        self._cuts = np.full(len(self._numbers), -np.inf)
        """Scores of each group that its rows must exceed."""

    def add(self, scores: Array, first: int, carried: pa.RecordBatch | None) -> None:
        """Add rows numbered from `first`."""
        groups = self._groups(carried, len(scores))
        kept = np.flatnonzero(scores > self._cuts[groups])
        if not len(kept):
            return
        rows = None if carried is None else pa.Table.from_batches([carried.take(pa.array(kept))])
        self._parts.append((scores[kept], first + kept, rows))
        self._n_rows += len(kept)
        most = np.inf if self.limit is None else self.limit * len(self._numbers)
        if self._n_rows > SLACK * max(most, 1000):
            self._drop_rest()

    def table(self) -> pa.Table:
        """Rank, score, row number from 1 and the carried columns, best first."""
        if not self._parts:
            raise DataError("the file holds no rows.")
        self._drop_rest()
        scores, rows, carried = self._parts[0]
        ranks = _places(self._groups(carried, len(scores))) + 1
        ranked = pa.table({"rank": ranks, "score": scores, "row": rows + 1})
        if carried is None:
            return ranked
        names = [f"{name} (data)" if name in COLUMNS else name for name in carried.column_names]
        columns = [*ranked.columns, *carried.columns]
        return pa.Table.from_arrays(columns, [*ranked.column_names, *names])

    def _groups(self, carried: pa.Table | pa.RecordBatch | None, n_rows: int) -> Where:
        """The number of each row's group."""
        if self.by is None or carried is None:
            return np.zeros(n_rows, np.intp)
        column = carried[self.by]
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        coded = plain.dictionary_encode(null_encoding="encode")
        values = coded.dictionary.to_pylist()
        numbers = [self._numbers.setdefault(value, len(self._numbers)) for value in values]
        new = len(self._numbers) - len(self._cuts)
        self._cuts = np.append(self._cuts, np.full(new, -np.inf))
        return np.asarray(np.array(numbers, np.int64)[coded.indices.to_numpy()])

    def _drop_rest(self) -> None:
        """Sort, the earlier of equal rows first, and drop what is below the limit."""
        scores = np.concatenate([part[0] for part in self._parts])
        rows = np.concatenate([part[1] for part in self._parts])
        tables = [part[2] for part in self._parts if part[2] is not None]
        carried = pa.concat_tables(tables) if tables else None
        groups = self._groups(carried, len(scores))
        order = np.argsort(-scores, kind="stable")
        if self.by is not None:
            order = order[np.argsort(groups[order], kind="stable")]
        if self.limit is not None:
            places = _places(groups[order])
            last = order[places == self.limit - 1]
            self._cuts[groups[last]] = scores[last]
            order = order[places < self.limit]
        carried = None if carried is None else carried.take(order).combine_chunks()
        self._parts, self._n_rows = [(scores[order], rows[order], carried)], len(order)


def _places(groups: Where) -> Where:
    """Place of each row in its group, from 0; rows of a group are adjacent."""
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
    """Rank the rows of a file: rank, percentile, probability, score, row number, other columns.

    Percentile scores (0 to 100) and calibrated probabilities are included if the model has them,
    see `Model.percentile` and `Model.probability`.

    Order is by score, then by row number. With `limit` the file is streamed and memory stays
    within a few batches and 4 x limit rows, whatever its size; without, scores and `columns` of
    all rows are held and sorted in memory (16 bytes a row, and the columns).

    Parameters
    ----------
    model : Model
    path : path, or a reader that is open
    limit : int, optional
        Number of rows to keep.
    columns : tuple of str
        Columns of the file to carry along.
    by : str, optional
        A column whose groups have a ranking each, of `limit` rows, in the order of their first rows
        in the file; it is carried along, and ranks count within the group.
    explain : int, optional
        How many columns with the largest contributions to name for each row, see `with_reasons`.
        The file is read again for the ranked rows, which are held in memory.
    kind : str, optional
        The file format, if the ending does not say.
    seen : ScoringNotes, optional
        Filled with the numbers of rows, missing values and unknown categories.

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
    seen, best = seen or ScoringNotes(), Best(limit, by)
    columns = columns if by is None else tuple(dict.fromkeys((by, *columns)))
    with reading(path, kind) as file:
        for scores, _, carried in scored(model, file, model.needs(carry=columns), seen):
            best.add(scores, seen.rows, carried)
    ranked = with_calibration(model, best.table())
    return with_reasons(model, path, ranked, explain, kind) if explain else ranked


def with_calibration(model: Model, ranked: pa.Table) -> pa.Table:
    """A ranking with percentile scores and probabilities after the rank, if the model has them.

    Percentile scores have enough decimals to distinguish the training rows at the top.
    """
    scores = ranked["score"].to_numpy()
    probability = model.probability(scores)
    if probability is not None:
        column = pa.array([float(f"{value:.{DIGITS}g}") for value in probability])
        ranked = ranked.add_column(1, "probability", column)
    elif model.scale is not None:
        ranked = ranked.add_column(1, "probability", pa.nulls(len(ranked), pa.float64()))
    if model.scale is None:
        return ranked
    percentile = model.scale.percentile(scores).round(model.scale.digits)
    return ranked.add_column(1, "percentile", pa.array(percentile))


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
