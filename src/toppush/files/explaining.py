"""Why rows of a file stand where they do: of a ranked list, of single rows, of pairs.

The file is read again for the rows that are explained, so that no others are held.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from sklearn.utils import _safe_indexing

from toppush.explain.columns import ColumnContributions
from toppush.explain.reasons import Explainer, Explanation, Pair, explain_pair, reference_for
from toppush.files.readers import FileOrReader, Reader, reading
from toppush.files.scoring import ScoringNotes, joined, scored
from toppush.modelfile.model import Model
from toppush.system.reading import DataError
from toppush.types import Array, Matrix, Where

REASONS = ("column", "value", "contribution")
TYPES = dict(zip(REASONS, (pa.string(), pa.string(), pa.float64()), strict=True))


@dataclass(frozen=True)
class Placed:
    """A row of a file in its list: number and rank from 1, and why it is there."""

    number: int
    rank: int
    why: Explanation
    """Rows are numbered from 1 here, as in the file."""


@dataclass(frozen=True)
class PlacedPair:
    """Two rows of a file, by number and rank from 1, and why the first is above the second."""

    numbers: tuple[int, int]
    ranks: tuple[int, int]
    why: Pair


def compared_with(model: Model) -> str:
    """What contributions are relative to, in words."""
    if ColumnContributions.of(model.pipeline, model.numbered).own_reference is not None:
        return "the mean of the highest-ranked negatives of the training rows"
    return "the mean of the listed rows (the model keeps no negatives to compare with)"


def with_reasons(
    model: Model, path: FileOrReader, ranked: pa.Table, n_columns: int, kind: str | None = None
) -> pa.Table:
    """A ranked list of a file with the columns of `Explanation.flat`."""
    columns = ColumnContributions.of(model.pipeline, model.numbered)
    numbers, scores = ranked["row"].to_numpy(), ranked["score"].to_numpy()
    X = picked(model, path, numbers - 1, kind)
    explainer = Explainer(columns, reference_for(columns, X), n_columns)
    found, first = [], ranked["rank"].to_numpy() == 1
    for part in columns.parts(len(numbers)):
        some = explainer(_safe_indexing(X, part), numbers[part], scores[part], first[part])
        found += [one.flat(n_columns) for one in some]
    ranked = ranked.rename_columns(
        [f"{name} (data)" if name in found[0] else name for name in ranked.column_names]
    )
    for name in found[0]:
        kind_of = TYPES.get(name.rpartition("_")[2], pa.string())
        ranked = ranked.append_column(name, pa.array([one[name] for one in found], kind_of))
    return ranked


def explain_rows(
    model: Model,
    path: FileOrReader,
    rows: Sequence[int] = (),
    pairs: Sequence[tuple[int, int]] = (),
    *,
    n_columns: int = 5,
    kind: str | None = None,
    seen: ScoringNotes | None = None,
) -> tuple[list[Placed], list[PlacedPair]]:
    """Why rows of a file stand where they do in the list of all of them.

    Parameters
    ----------
    model : Model
    path : path, or a reader that is open
    rows : sequence of int
        Numbers from 1 in the order of the file.
    pairs : sequence of pairs of int
        Why the first of two rows stands above the second.
    n_columns : int, default=5
        Columns that are named at most.
    kind : str, optional
        The format, if the ending does not say.
    seen : ScoringNotes, optional
        Filled with what was met in the file.

    Returns
    -------
    list of Placed, list of PlacedPair

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from toppush import files
    >>> load_breast_cancer(as_frame=True).frame.to_csv("train.csv", index=False)
    >>> model = files.fit("train.csv", label="target", lam=0.01, top=0.1)
    >>> rows, pairs = files.explain_rows(model, "train.csv", rows=[20])
    >>> rows[0].rank
    317
    """
    seen = seen or ScoringNotes()
    with reading(path, kind) as file:
        parts = scored(model, file, model.needs(), seen)
        scores = np.concatenate([part.scores for part in parts])
        _require(file, [*rows, *(number for pair in pairs for number in pair)], len(scores))
    order = np.argsort(-scores, kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    found = Rows(model, path, kind, scores, order, places, n_columns)
    return [found.placed(number) for number in rows], [found.pair(pair) for pair in pairs]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a file, their scores, and their list."""

    model: Model
    path: FileOrReader
    kind: str | None
    scores: Array
    order: Where
    places: Where
    n_columns: int

    def placed(self, number: int) -> Placed:
        """Why a row stands where it does."""
        place = int(self.places[number - 1])
        listed = self.order[max(place - 1, 0) : place + 1]
        columns = ColumnContributions.of(self.model.pipeline, self.model.numbered)
        X = self._picked(listed)
        explainer = Explainer(columns, reference_for(columns, X), self.n_columns)
        *_, why = explainer(X, listed + 1, self.scores[listed])
        return Placed(number, place + 1, why)

    def pair(self, numbers: tuple[int, int]) -> PlacedPair:
        """Why one row stands above another."""
        one, other = (self._picked(np.array([number - 1])) for number in numbers)
        why = explain_pair(
            self.model.pipeline, one, other, self.n_columns, names=self.model.numbered
        )
        first, second = (int(self.places[number - 1]) + 1 for number in numbers)
        return PlacedPair(numbers, (first, second), why)

    def _picked(self, rows: Where) -> Matrix:
        return picked(self.model, self.path, rows, self.kind)


def _require(file: Reader, numbers: Sequence[int], n_rows: int) -> None:
    for number in numbers:
        if not 1 <= number <= n_rows:
            raise file.error(f"has rows 1 to {n_rows:,}, and none of number {number:,}.")


def picked(model: Model, path: FileOrReader, rows: Where, kind: str | None = None) -> Matrix:
    """Some rows of a file by number, from 0, in the order of the numbers; it is opened anew."""
    order = np.argsort(rows, kind="stable")
    where, kind = (path.path, path.kind) if isinstance(path, Reader) else (path, kind)
    with reading(where, kind) as file:
        found = list(_found(model, file, rows[order]))
    if sum(part.shape[0] for part in found) < len(rows):
        raise DataError("lost rows while it was read; it is to stay as it is.", file=file.path)
    return _safe_indexing(joined(found), np.argsort(order))


def _found(model: Model, file: Reader, ascending: Where) -> Iterator[Matrix]:
    """The rows of these numbers, batch by batch, as far as the last of them."""
    first = 0
    for batch in file.batches(model.needs()):
        inside = ascending[(first <= ascending) & (ascending < first + batch.n_rows)] - first
        if len(inside):
            yield batch.X.take(pa.array(inside)) if model.columns else batch.X[inside]
        first += batch.n_rows
        if first > ascending[-1]:
            return
