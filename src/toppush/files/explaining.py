"""Why rows of a file have their ranks: of a ranking, of single rows, of pairs.

The file is read again for the rows that are explained, so that no others are held in memory.
"""

from collections.abc import Sequence
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
from toppush.types import Matrix, Where


@dataclass(frozen=True)
class Placed:
    """A row of a file, numbered from 1, with its rank and the reasons."""

    number: int
    rank: int
    why: Explanation
    """Its row numbers count from 1, as in the file."""


@dataclass(frozen=True)
class PlacedPair:
    """Two rows of a file, numbered from 1, with ranks, and why the first is above the second."""

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
    """A ranking of a file with the columns of `Explanation.flat`."""
    columns = ColumnContributions.of(model.pipeline, model.numbered)
    numbers, scores = ranked["row"].to_numpy(), ranked["score"].to_numpy()
    X = picked(model, path, numbers - 1, kind)
    explainer = Explainer(columns, reference_for(columns, X), n_columns)
    cells, first = [], ranked["rank"].to_numpy() == 1
    for part in columns.parts(len(numbers)):
        reasons = explainer(_safe_indexing(X, part), numbers[part], scores[part], first[part])
        cells += [row.flat(n_columns) for row in reasons]
    ranked = ranked.rename_columns(
        [f"{name} (data)" if name in cells[0] else name for name in ranked.column_names]
    )
    for name in cells[0]:
        dtype = pa.float64() if name.endswith("_contribution") else pa.string()
        ranked = ranked.append_column(name, pa.array([row[name] for row in cells], dtype))
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
    """Why rows of a file have their ranks among all of its rows.

    Parameters
    ----------
    model : Model
    path : path, or a reader that is open
    rows : sequence of int
        Numbers from 1 in the order of the file.
    pairs : sequence of pairs of int
        Pairs of rows, of which the first ranks above the second.
    n_columns : int, default=5
        Columns that are named at most.
    kind : str, optional
        The file format, if the ending does not say.
    seen : ScoringNotes, optional
        Filled with the numbers of rows, missing values and unknown categories.

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
        for number in [*rows, *(number for pair in pairs for number in pair)]:
            if not 1 <= number <= len(scores):
                raise file.error(f"has rows 1 to {len(scores):,}, and none of number {number:,}.")
    order = np.argsort(-scores, kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    columns = ColumnContributions.of(model.pipeline, model.numbered)
    placed = []
    for number in rows:
        place = int(places[number - 1])
        listed = order[max(place - 1, 0) : place + 1]  # with the row above it
        X = picked(model, path, listed, kind)
        explainer = Explainer(columns, reference_for(columns, X), n_columns)
        *_, why = explainer(X, listed + 1, scores[listed])
        placed.append(Placed(number, place + 1, why))
    placed_pairs = []
    for first, second in pairs:
        x, y = (picked(model, path, np.array([number - 1]), kind) for number in (first, second))
        ranks = int(places[first - 1]) + 1, int(places[second - 1]) + 1
        pair = explain_pair(model.pipeline, x, y, n_columns, names=model.numbered)
        placed_pairs.append(PlacedPair((first, second), ranks, pair))
    return placed, placed_pairs


def picked(model: Model, path: FileOrReader, rows: Where, kind: str | None = None) -> Matrix:
    """Rows of a file by number, from 0, in the order of the numbers; it is opened again."""
    order = np.argsort(rows, kind="stable")
    ascending = rows[order]
    where, kind = (path.path, path.kind) if isinstance(path, Reader) else (path, kind)
    parts, first = [], 0
    with reading(where, kind) as file:
        for batch in file.batches(model.needs()):
            inside = ascending[(first <= ascending) & (ascending < first + batch.n_rows)] - first
            if len(inside):
                parts.append(batch.X.take(pa.array(inside)) if model.columns else batch.X[inside])
            first += batch.n_rows
            if first > ascending[-1]:
                break
    if sum(part.shape[0] for part in parts) < len(rows):
        raise DataError("lost rows while it was read; do not change it meanwhile.", file=file.path)
    return _safe_indexing(joined(parts), np.argsort(order))
