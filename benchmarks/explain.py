"""Whether explanations add up, and whether the columns that they name are those that count.

    python -m benchmarks.explain [--data mammography,...] [--kinds linear,...] [--rows 1000]

Models are those of `toppush fit` with its defaults, and `TopRanker`, on at most 6,000 rows (half of
a set at most, stratified, seed 0). The first --rows of the list of other rows are explained, by
three columns each; those that no column lifts are left out.

- error: the largest of |sum of contributions - score| / (1 + |score|).
- typical: the columns that are named as lifting a row are given the values of a typical one of the
  rows that it is compared with, the highest-ranked negatives of the training rows: the median, or
  the most frequent text. Share of the rows that then stand lower in the list; ties do not count.
- drawn: they are given the values of one of those rows, drawn at random; the mean of five draws.
- random: the same for as many columns, drawn at random.
- typical before: share of the rows that hold the typical values in the named columns already, such
  as the most frequent text, and so cannot fall.
- places: the median of the places that rows fall with typical values.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from sklearn.model_selection import train_test_split

from benchmarks.common import report
from benchmarks.data import load_for_trees
from toppush import TopRanker, files
from toppush.explain.contributions import highest_negatives, learn_reference

SETS = ["mammography", "spambase", "bank-marketing"]
METHODS = ["linear", "additive", "trees", "TopRanker"]
N_NAMED, N_DRAWS, TRAINED = 3, 5, 6000
COLUMNS = [
    "data", "kind", "rows", "error", "typical", "drawn", "typical, random", "drawn, random",
    "typical before", "places", "places, random", "columns named", "seconds",
]  # fmt: skip


def read(name):
    """Rows as a data frame, and labels."""
    X, y = load_for_trees(name)
    if not isinstance(X, pd.DataFrame):
        X = pd.DataFrame(X, columns=[f"x{place}" for place in range(X.shape[1])])
    kinds = {name: float if pd.api.types.is_numeric_dtype(X[name]) else object for name in X}
    return X.astype(kinds).reset_index(drop=True), y


def fitted(kind, X, y):
    """A model of a kind, as `toppush fit` makes it, or a TopRanker."""
    if kind == "TopRanker":
        ranker = TopRanker(n_jobs=1).fit(X, y)
        learn_reference(ranker, X, y)
        return ranker
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        parquet.write_table(as_table(X.assign(label=np.where(y, "yes", "no"))), path)
        return files.fit(path, model=kind, positive="yes", threads=1)


def scores_of(model, X):
    return model.decision_function(given(model, X))


def given(model, X):
    """Rows as a model takes them."""
    return as_table(X) if isinstance(model, files.Model) else X


def as_table(X):
    return pa.Table.from_pandas(X, preserve_index=False)


def largest_error(model, X, scores):
    """Of the sums of contributions."""
    if isinstance(model, files.Model):
        model, X = model.ranker, model.pipeline[:-1].transform(as_table(X))
    added = model.contributions(X).sum(axis=1)
    return float(np.max(np.abs(added - scores) / (1.0 + np.abs(scores))))


def compared_with(model, X, y):
    """The training rows that others are compared with: the negatives of highest score."""
    out_of_fold = getattr(getattr(model, "ranker", model), "out_of_fold_", None)
    scores = scores_of(model, X) if out_of_fold is None else out_of_fold
    return X.iloc[highest_negatives(y, scores)]


def typical(some, n_rows):
    """So many times the row of medians, or most frequent texts."""
    numbers = some.select_dtypes("number").median()
    row = {name: numbers[name] if name in numbers else some[name].mode()[0] for name in some}
    return pd.DataFrame([row] * n_rows)


def replaced(X, columns, others):
    """Rows with the values of some columns, of each row its own, taken from others."""
    chosen = pd.DataFrame({name: [name in named for named in columns] for name in X})
    return X.where(~chosen, others)


def share_typical(X, columns, others):
    """Share of the rows that are what they would be replaced by."""
    return float((replaced(X, columns, others) == X).all(axis=1).mean())


def falls(model, X, columns, others, listed, scores):
    """Places that each row falls in the list of all when some of its columns are those of others.

    Rows above are counted strictly, so that a row has not fallen behind those it is level with.
    """
    now, ascending = scores_of(model, replaced(X, columns, others)), np.sort(listed)
    places = [np.searchsorted(ascending, one, side="right") for one in (scores, now)]
    return places[0] - places[1]


def measured(name, kind, n_rows):
    """A line of the table."""
    X, y = read(name)
    train, test = train_test_split(
        np.arange(len(y)), train_size=min(TRAINED, len(y) // 2), random_state=0, stratify=y
    )
    model = fitted(kind, X.iloc[train], y[train])
    listed = scores_of(model, X.iloc[test])
    first = np.argsort(-listed, kind="stable")[:n_rows]
    rows, scores = X.iloc[test[first]].reset_index(drop=True), listed[first]
    began = time.perf_counter()
    told = model.explain(given(model, rows), N_NAMED)
    seconds = time.perf_counter() - began
    named = [[one.column for one in why.raised_by] for why in told]
    told = np.array([bool(one) for one in named])
    some, rng = compared_with(model, X.iloc[train], y[train]), np.random.default_rng(0)
    lifted, theirs = [one for one in named if one], rows[told].reset_index(drop=True)
    before = share_typical(theirs, lifted, typical(some, len(theirs)))
    found = {"typical": [], "drawn": [], "typical, random": [], "drawn, random": []}
    for _ in range(N_DRAWS):
        by_chance = [list(rng.permutation(list(X))[: len(one)]) for one in named]
        drawn = some.iloc[rng.integers(len(some), size=len(rows))].reset_index(drop=True)
        others = {"typical": typical(some, len(rows)), "drawn": drawn}
        for how, values in others.items():
            for columns, what in ((named, how), (by_chance, f"{how}, random")):
                down = falls(model, rows, columns, values, listed, scores)
                found[what].append(down[told])
    return [
        name, kind, int(told.sum()), f"{largest_error(model, rows, scores):.1e}",
        *(round(float(np.mean(np.array(one) > 0)), 3) for one in found.values()),
        round(before, 3),
        *(float(np.median(found[what])) for what in ("typical", "typical, random")),
        round(float(np.mean([len(one) for one in named])), 2), round(seconds, 2),
    ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=",".join(SETS))
    parser.add_argument("--kinds", default=",".join(METHODS))
    parser.add_argument("--rows", type=int, default=1000)
    asked = parser.parse_args()
    lines = []
    for name in asked.data.split(","):
        for kind in asked.kinds.split(","):
            lines.append(measured(name, kind, asked.rows))
            print(*lines[-1], flush=True)
    report("explain", COLUMNS, lines)


if __name__ == "__main__":
    main()
