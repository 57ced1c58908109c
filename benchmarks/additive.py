"""Rankers by curves compared with linear ones and boosted trees, on six tables.

    python -m benchmarks.additive [--splits 3] [--rows 10000] [--data ...] [--methods ...]
    python -m benchmarks.additive --rows 0 --splits 1 --data bank-marketing give-me-some-credit
    python -m benchmarks.additive --splits 0      # the table of what the CSV holds

Split s by seed s: a third is held out, and of the others the first n are trained on (0: all).
Texts are one-hot; gaps are medians with an indicator, but for curves and trees, which take them as
they are. Logistic regression chooses C of 0.01, 1 and 100 by average precision over three folds.
CPU seconds are those of the fit with everything it chooses, on one thread. Trials that the CSV
holds are kept.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
import warnings
from collections import defaultdict

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from scipy import sparse
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler

from benchmarks.common import save, saved, show
from benchmarks.data import RAW_TABLES, load, load_frame
from toppush import TopPushAdditive, TopPushCV, metrics
from toppush.models.curves import Curves

NAME = "additive"
KEY = ["data", "rows", "seed", "method"]
MEASURES = ["AP", "Pos@Top", "recall before 10", "precision of 1000", "CPU seconds"]
SETS = ["diabetes", "spambase", "mammography", "a9a", *RAW_TABLES]


def read(name):
    """Rows as a dense array, and labels."""
    if name not in RAW_TABLES:
        X, y = load(name)
        return X.toarray(), y
    table, y = load_frame(name)
    return pd.get_dummies(table).to_numpy(float), y


class Curved:
    """The numbers of `TopPushAdditive`, for another ranker."""

    def fit(self, X, y=None):
        self.curves_ = Curves.of(X, None, TopPushAdditive().n_pieces, np.zeros(X.shape[1], bool))
        return self

    def transform(self, X):
        return sparse.csr_matrix(self.curves_.transform(X))

    def fit_transform(self, X, y=None):
        return self.fit(X).transform(X)


def logistic():
    model = LogisticRegression(max_iter=300)
    return GridSearchCV(model, {"C": [0.01, 1.0, 100.0]}, scoring="average_precision", cv=3)


def filled(*steps):
    return make_pipeline(SimpleImputer(strategy="median", add_indicator=True), *steps)


def trees():
    return LGBMClassifier(
        n_estimators=200, learning_rate=0.05, num_leaves=15, n_jobs=1, random_state=0, verbosity=-1
    )


METHODS = {
    "logistic regression": lambda: filled(MaxAbsScaler(), logistic()),
    "logistic regression on curves": lambda: make_pipeline(Curved(), logistic()),
    "TopPushCV": lambda: filled(
        MaxAbsScaler(), FunctionTransformer(sparse.csr_matrix), TopPushCV(n_jobs=1)
    ),
    "TopPushAdditive": lambda: TopPushAdditive(n_jobs=1),
    "LightGBM": trees,
}


def scores_of(model, X):
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return model.predict_proba(X)[:, 1]


def trial(X, y, seed, rows, method):
    """Measures of one method on one split."""
    train, test = train_test_split(np.arange(len(y)), test_size=1 / 3, random_state=seed)
    train = train[: rows or None]
    model, began = METHODS[method](), time.process_time()
    model.fit(X[train], y[train])
    seconds = time.process_time() - began
    truth, scores = y[test], scores_of(model, X[test])
    return [
        metrics.average_precision(truth, scores),
        metrics.positives_at_top(truth, scores),
        metrics.top_recall(truth, scores, n_false=10),
        metrics.precision_at_k(truth, scores, k=min(1000, len(truth))),
        round(seconds, 2),
    ]


def run(names, methods, n_splits, rows):
    """Every trial that the CSV does not hold yet."""
    found = [list(row.values()) for row in saved(NAME)]
    done = {tuple(row[: len(KEY)]) for row in found}
    for name in names if n_splits else ():
        X, y = read(name)
        for seed in range(n_splits):
            for method in methods:
                key = (name, str(rows), str(seed), method)
                if key not in done:
                    found.append([*key, *trial(X, y, seed, rows, method)])
                    print(*found[-1], flush=True)
                    save(NAME, [*KEY, *MEASURES], found)


def table():
    """Means over the splits."""
    groups = defaultdict(list)
    for row in saved(NAME):
        groups[row["data"], row["rows"], row["method"]].append([float(row[m]) for m in MEASURES])
    rows = [[*key, len(each), *np.mean(each, axis=0).tolist()] for key, each in groups.items()]
    show(["data", "rows", "method", "splits", *MEASURES], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--data", nargs="*", default=SETS)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    run(options.data, options.methods, options.splits, options.rows)
    table()
