"""How often `toppush check` alarms: on fresh rows of real tables, and on rows that were changed.

python -m benchmarks.check --splits 5

A table is parted at random: a model is fitted to one part, and the other, which is of the same
make, is checked 1,000 (or 5,000) labelled rows at a time. "same" are those rows as they are, so
every alarm is false; at most 1 in 100 is stated. Other lines are the same rows with one column
changed, a different one each time: numbers shifted by a part of their standard deviation, values
taken away, categories replaced by an unknown one; or with labels of some positives turned.
"found" is the share of checks in which what was changed is reported, "others" the share in which
another column is reported.
"""

import argparse
import tempfile
import warnings
from pathlib import Path

import numpy as np

from benchmarks import common
from benchmarks.data import RAW_TABLES, load_frame
from toppush import files

MOST_TRAIN, SIZES = 10_000, (1_000, 5_000)
MODELS = {
    "linear": {"lam": 0.01, "top": 0.1},
    "additive": {"lam": 0.1, "top": 0.1},
    "trees": {"members": 5},
}
COLUMNS = ["table", "model", "rows", "change", "checks", "found", "others"]


def shifted_by(part):
    def change(table, rng, numbers, _):
        name = rng.choice(numbers)
        return name, {name: table[name] + part * table[name].std()}

    return change


def with_gaps(table, rng, numbers, texts):
    name = rng.choice([*numbers, *texts])
    return name, {name: table[name].mask(rng.random(len(table)) < 0.05)}


def with_new_texts(table, rng, _, texts):
    if not texts:
        return None, {}
    name = rng.choice(texts)
    return name, {name: table[name].mask(rng.random(len(table)) < 0.05, "never seen")}


def with_fewer_positives(table, rng, *_):
    return None, {"label": table["label"] * (rng.random(len(table)) < 0.5)}


CHANGES = {
    "same": lambda *_: (None, {}),
    "a number shifted by 0.25 standard deviations": shifted_by(0.25),
    "a number shifted by 0.5 standard deviations": shifted_by(0.5),
    "5 % missing values in a column": with_gaps,
    "5 % unknown categories": with_new_texts,
    "half of the positives lost": with_fewer_positives,
}


def loaded(name):
    """A table with a column "label" of 0 and 1."""
    table, y = load_frame(name)
    texts = table.select_dtypes("category")
    return table.astype(dict.fromkeys(texts, object)).assign(label=y.astype(int))


def reported(model, rows, path):
    """Columns that are reported as drifted, and whether scores or precision are."""
    rows.to_csv(path, index=False)
    drifted = files.check(model, path).drifted()
    columns = {one.column for one in drifted if one.column is not None}
    return columns, bool(drifted), any(one.what == "precision" for one in drifted)


def checks(model, fresh, size, change, rng, folder):
    """What is reported for each part of the fresh rows: what was changed, and anything else."""
    features = fresh.drop(columns="label")
    numbers = [name for name in features.select_dtypes("number") if fresh[name].nunique() > 10]
    texts = list(features.select_dtypes(exclude="number"))
    found = []
    for start in range(0, len(fresh) - size + 1, size):
        rows = fresh.iloc[start : start + size]
        name, new = CHANGES[change](rows, rng, numbers, texts)
        columns, anything, precision = reported(model, rows.assign(**new), folder / "now.csv")
        if change == "same":
            found.append((anything, anything))
        elif new:
            found.append((precision if name is None else name in columns, bool(columns - {name})))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    splits = parser.parse_args().splits
    warnings.simplefilter("ignore")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in RAW_TABLES:
            table = loaded(name)
            for split in range(splits):
                rng = np.random.default_rng(split)
                order = rng.permutation(len(table))
                path = Path(folder, "train.csv")
                table.iloc[order[:MOST_TRAIN]].to_csv(path, index=False)
                fresh = table.iloc[order[MOST_TRAIN : 2 * MOST_TRAIN]]
                for kind, options in MODELS.items():
                    model = files.fit(path, model=kind, threads=1, **options)
                    for size in SIZES:
                        for change in CHANGES:
                            some = checks(model, fresh, size, change, rng, Path(folder))
                            found.setdefault((name, kind, size, change), []).extend(some)
    rows = [
        [*key, len(some), *(float(share) for share in np.mean(some, axis=0))]
        for key, some in found.items()
        if some
    ]
    common.report("check", COLUMNS, rows)


if __name__ == "__main__":
    main()
