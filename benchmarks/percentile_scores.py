"""Whether percentile scores, probabilities and `check` hold for rows that a model has not seen.

python -m benchmarks.percentile_scores --fits 16

Rows are split at random into thirds: `toppush fit` with its default model (effort quick and
normal) and with single model types gets the first, and the other two are ranked and checked. Rows
are drawn from two synthetic populations or from raw tables, 24,000 at a time. Columns, as means
over the fits:

"above 10 %", ... : percent of the new rows whose percentile score is above 90, 95, 99 and 99.9;
"error": their standard error over the fits. "predicted", "found": mean calibrated probability and
part of positives among the new rows above 99 ("1 %") and 99.9 ("0.1 %"). "alarms": how many of the
"checks", each of a third, alarm; the stated rate is at most 1 in 100.
"""

import argparse
import json
import tempfile
import warnings
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import common
from benchmarks.data import SHARED
from toppush import files

ROWS = 24_000
FOLDER = SHARED / "data" / "tables"
SEPARATORS = {"bank-marketing": ";"}
ALSO = {"bank-marketing": ["duration"], "give-me-some-credit": ["id"]}
"""Columns that are dropped besides those that the tables name."""
TABLES = (
    "bank-marketing",
    "car_claim_australia",
    "covid_test_positive",
    "give-me-some-credit",
    "online_shoppers_purchase",
    "vehicle_insurance_fraud",
)
MARKS = (10, 5, 1, 0.1)
MODELS = {
    "auto, quick": {"model": "auto", "effort": "quick"},
    "auto": {"model": "auto"},
    "trees": {"model": "trees"},
    "linear": {"model": "linear", "lam": 0.01, "top": 0.1},
}
COLUMNS = [
    "rows from", "model", "fits",
    *(f"{what} {mark:g} %" for mark in MARKS for what in ("above", "error")),
    *(f"{what} {mark:g} %" for mark in MARKS[2:] for what in ("predicted", "found")),
    "checks", "alarms",
]  # fmt: skip


def strong(rng):
    """Rows whose labels depend on interactions, kinks and noise columns: a good ranking exists."""
    X = rng.normal(size=(ROWS, 10))
    logit = 1.2 * X[:, 0] + X[:, 1] * X[:, 2] + 0.8 * np.abs(X[:, 3]) + 0.5 * X[:, 4] - 4.6
    return labelled(X, logit, rng)


def weak(rng):
    """Rows whose labels are mostly noise."""
    X = rng.normal(size=(ROWS, 20))
    return labelled(X, 0.7 * X[:, 0] + 0.5 * X[:, 1] * X[:, 2] - 2.8, rng)


def labelled(X, logit, rng):
    table = pd.DataFrame(X, columns=[f"x{at}" for at in range(X.shape[1])])
    return table.assign(label=(rng.random(len(X)) < 1 / (1 + np.exp(-logit))).astype(int))


def raw(name):
    """A raw table with a column "label" of 0 and 1, without the columns to drop."""
    about = json.loads((FOLDER / "tables.json").read_text())[name]
    separator = SEPARATORS.get(name, ",")
    table = pd.read_csv(FOLDER / about["file"], sep=separator, low_memory=False)
    table["label"] = (
        table.pop(about["label"]).astype(str).str.lower() == about["positive"].lower()
    ).astype(int)
    dropped = [column for column in table if any(fnmatch(column, one) for one in about["drop"])]
    return table.drop(columns=[*dropped, *(one for one in ALSO.get(name, ()) if one in table)])


def drawn(name):
    """Rows of a raw table, in random order."""
    table = raw(name)
    return lambda rng: table.sample(min(len(table), ROWS), random_state=int(rng.integers(2**31)))


def source(name):
    """What draws rows."""
    return {"strong signal": strong, "weak signal": weak}.get(name) or drawn(name)


SOURCES = ["strong signal", "weak signal", *TABLES]


def one_fit(rows, options, seed, folder):
    """What the new rows of a fit show: parts above the marks, probabilities, alarms."""
    parts = np.array_split(np.arange(len(rows)), 3)
    paths = [folder / f"{number}.csv" for number in range(3)]
    for part, path in zip(parts, paths, strict=True):
        rows.iloc[part].to_csv(path, index=False)
    model = files.fit(paths[0], label="label", positive="1", seed=seed, threads=1, **options)
    positive, scores = (np.concatenate(both) for both in zip(
        *(files.labelled(model, path) for path in paths[1:]), strict=True))  # fmt: skip
    percentiles, predicted = model.percentile(scores), model.probability(scores)
    above = [percentiles > 100 - mark for mark in MARKS]
    tops = [(predicted[rows].sum(), positive[rows].sum(), rows.sum()) for rows in above[2:]]
    alarms = [bool(files.check(model, path).drifted()) for path in paths[1:]]
    return [100 * np.mean(rows) for rows in above], np.array(tops, float), alarms


def summed_up(fits):
    """Means and standard errors of the parts; probabilities over all rows; alarms."""
    above = np.array([fit[0] for fit in fits])
    errors = above.std(axis=0, ddof=1) / np.sqrt(len(fits))
    tops = sum(fit[1] for fit in fits)
    alarms = [alarm for fit in fits for alarm in fit[2]]
    shares = [found / max(top[2], 1.0) for top in tops for found in top[:2]]
    return [*np.stack([above.mean(axis=0), errors], 1).ravel(), *shares, len(alarms), sum(alarms)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=16)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=MODELS)
    parser.add_argument("--sources", nargs="*", default=list(SOURCES), choices=SOURCES)
    parser.add_argument("--name", default="percentile_scores", help="of the CSV")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.sources:
            draw = source(name)
            for model in asked.models:
                rngs = [np.random.default_rng(number) for number in range(asked.fits)]
                fits = [
                    one_fit(draw(rng), MODELS[model], number, Path(folder))
                    for number, rng in enumerate(rngs)
                ]
                found.append([name, model, len(fits), *summed_up(fits)])
                print(*found[-1], flush=True)
    common.report(asked.name, COLUMNS, found)


if __name__ == "__main__":
    main()
