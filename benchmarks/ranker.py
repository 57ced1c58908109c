"""TopRanker against what people use, each by its own folds.

    python -m benchmarks.ranker run [--data diabetes,...] [--splits 30] [--methods ...]
    python -m benchmarks.ranker table      # results/ranker.csv, ranker-differences.csv, ranks

Splits are random and stratified, 2/3 to train and 1/3 to test, split s by seed s, and the same as
those of benchmarks/trees.py; what was chosen for TopRanker was chosen on splits of other seeds
(1000 and on). All run on one thread; seconds are CPU seconds of the fit.

- TopRanker: as it is, and with effort="quick".
- LightGBM, XGBoost, random forest: as in benchmarks/trees.py, stopped early by a quarter of the
  rows and then fitted to all of them; 300 trees.
- logistic regression: gaps filled with the median, texts one column each, standardised (sparse
  rows divided by their largest), C of .01, 1, 100 by the average precision of three folds.
- TopPushCV: on the same columns, as it is.

`run` goes on where results/ranker-splits.csv ends.
"""

import argparse
import csv
import time
import warnings

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.stats import rankdata
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

from benchmarks import trees
from benchmarks.common import RESULTS, report, saved
from benchmarks.data import load, load_for_trees
from benchmarks.trees import KEPT, MEASURES, compared, rows
from toppush import TopPushCV, TopRanker

SPLITS = trees.SPLITS | {"real-sim (sample)": 30, "news20 (part)": 30, "url (sample)": 30}
OURS = "TopRanker"


def top_ranker(effort):
    def fit(X, y, seed):
        ranker = TopRanker(effort=effort, n_threads=1, random_state=seed)
        return ranker.fit(X, y).decision_function

    return fit


def on_columns(model):
    def fit(X, y, seed):
        found = make_pipeline(columns(X), model())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return found.fit(X, y).decision_function

    return fit


def columns(X):
    """How linear rivals see rows."""
    if sparse.issparse(X):
        return MaxAbsScaler()
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    if not isinstance(X, pd.DataFrame):
        return numbers
    texts = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer(
        (texts, make_column_selector(dtype_include="category")), remainder=numbers
    )


def logistic():
    model = LogisticRegression(max_iter=1000)
    return GridSearchCV(model, {"C": [0.01, 1.0, 100.0]}, scoring="average_precision", cv=3)


METHODS = {
    OURS: top_ranker("normal"),
    "TopRanker, quick": top_ranker("quick"),
    "LightGBM": trees.one_lightgbm,
    "XGBoost": trees.one_xgboost,
    "logistic regression": on_columns(logistic),
    "random forest": trees.METHODS["random forest"],
    "TopPushCV": on_columns(lambda: TopPushCV(n_threads=1)),
}
QUICK = "TopRanker, quick"


def rows_of(name):
    """X and y of a data set."""
    if name in trees.SPLITS:
        return load_for_trees(name)
    X, y = load(name)
    return sparse.csr_matrix(X), np.asarray(y)


def run(names, n_splits, methods):
    """Fit and test what is missing; a line of the file each."""
    done = {(row["set"], int(row["split"]), row["method"]) for row in saved("ranker-splits")}
    with (RESULTS / "ranker-splits.csv").open("a", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        if not done:
            out.writerow(KEPT)
        for name in names:
            X, y = rows_of(name)
            for split in range(min(n_splits, SPLITS[name])):
                for method in methods:
                    if (name, split, method) not in done:
                        out.writerow([name, split, *trial(X, y, split, method)])
                        file.flush()
            print(f"{name}: done", flush=True)


def trial(X, y, seed, method):
    """Name, measures and CPU seconds of a method on one split."""
    train, test = train_test_split(
        np.arange(len(y)), test_size=1 / 3, random_state=seed, stratify=y
    )
    began = time.process_time()
    scorer = METHODS[method](rows(X, train), y[train], seed)
    seconds = time.process_time() - began
    scores = np.asarray(scorer(rows(X, test)), dtype=np.float64)
    return [
        method, *(round(measure(y[test], scores), 6) for measure in MEASURES.values()),
        round(seconds, 3),
    ]  # fmt: skip


def by_method():
    """Set -> method -> split -> row, in the order of both."""
    found = {name: {method: {} for method in METHODS} for name in SPLITS}
    for row in saved("ranker-splits"):
        found[row["set"]][row["method"]][int(row["split"])] = row
    return {name: methods for name, methods in found.items() if methods[OURS]}


def table():
    """Means over splits, paired differences of ours from each of the others, and ranks."""
    means, differences, ranks = [], [], {measure: [] for measure in MEASURES}
    for name, methods in by_method().items():
        for method, splits in methods.items():
            if splits:
                means.append([name, method, len(splits), *_means(splits)])
            if splits and method != OURS:
                differences += [
                    [name, method, *compared(methods[OURS], splits, measure)]
                    for measure in MEASURES
                ]
        for measure in MEASURES:
            ranks[measure].append(_ranks(methods, measure))
    report("ranker", ["set", "method", "splits", *MEASURES, "CPU seconds"], means)
    columns = ["set", "against", "measure", "splits", "difference", "standard error", "p"]
    report("ranker-differences", columns, differences)
    lines = [
        [method, *(round(float(np.mean([one[method] for one in ranks[m]])), 2) for m in MEASURES)]
        for method in METHODS
        if method != QUICK and all(method in one for one in ranks["AP"])
    ]
    report("ranker-ranks", ["method", *MEASURES], lines)


def _means(splits):
    return [
        round(float(np.mean([float(row[one]) for row in splits.values()])), 4)
        for one in (*MEASURES, "seconds")
    ]


def _ranks(methods, measure):
    """Rank of each method's mean over the splits that all have, the quick one apart."""
    there = [one for one in methods if methods[one] and one != QUICK]
    common = set.intersection(*(set(methods[one]) for one in there))
    means = [np.mean([float(methods[one][s][measure]) for s in common]) for one in there]
    return dict(zip(there, rankdata(-np.round(means, 6)), strict=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--data", default=",".join(SPLITS))
    parser.add_argument("--splits", type=int, default=30)
    parser.add_argument("--methods", default=";".join(METHODS), help="separated by semicolons")
    asked = parser.parse_args()
    if asked.what == "run":
        run(asked.data.split(","), asked.splits, asked.methods.split(";"))
    else:
        table()
