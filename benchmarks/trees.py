"""TopPushTrees against the boosted trees and forests that people use.

    python -m benchmarks.trees run [--data mammography,...] [--splits 30] [--methods ...]
    python -m benchmarks.trees table            # results/trees.csv, trees-differences.csv

Splits are random and stratified, 2/3 to train and 1/3 to test, split s by seed s; the settings of
TopPushTrees were chosen on splits of other seeds (1000 and on). All run on one thread.

- TopPushTrees: as it is. "binary, as many members" is `TopPushTrees(loss="binary")`: the same
  folds, the same stopping, LightGBM's own log loss.
- LightGBM, XGBoost, random forest: as in `python -m reproduce benchmark`. The published results
  are of earlier settings: learning rate 0.1, patience 40, 300 trees.

`run` goes on where results/trees-splits.csv ends, set by set and split by split.
"""

import argparse
import csv
import time
import warnings
from collections import defaultdict
from functools import partial

import numpy as np
from scipy.stats import wilcoxon
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing

from benchmarks.common import RESULTS, recall_before, report, saved
from benchmarks.data import load_for_trees
from reproduce.benchmark.methods import METHODS as COMPETITORS
from toppush import TopPushTrees, metrics

SPLITS = {
    "diabetes": 30,
    "mammography": 30,
    "spambase": 30,
    "hiva": 30,
    "bank-marketing": 30,
    "w8a": 30,
    "a9a": 30,
    "give-me-some-credit": 10,
    "ijcnn1": 10,
    "nslkdd": 10,
    "cover": 10,
    "hiv-ecfp4": 30,
}
MEASURES = {
    "Pos@Top": metrics.positives_at_top,
    "recall before 3": lambda y, scores: recall_before(y, scores, 3),
    "recall before 10": lambda y, scores: recall_before(y, scores, 10),
    "AP": metrics.average_precision,
    "NDCG": metrics.ndcg,
}
OURS = "TopPushTrees"
KEPT = ["set", "split", "method", *MEASURES, "seconds"]


def toppush_trees(X, y, seed):
    return TopPushTrees(n_jobs=1, random_state=seed).fit(X, y).decision_function


def binary_members(X, y, seed):
    ranker = TopPushTrees(loss="binary", n_jobs=1, random_state=seed)
    return ranker.fit(X, y).decision_function


METHODS = {
    OURS: toppush_trees,
    "binary, as many members": binary_members,
    "LightGBM": partial(COMPETITORS["lightgbm"].fit, n_jobs=1),
    "XGBoost": partial(COMPETITORS["xgboost"].fit, n_jobs=1),
    "random forest": partial(COMPETITORS["forest"].fit, n_jobs=1),
}


def run(names, n_splits, methods):
    """Fit and test what is missing; a line of the file each."""
    done = {(row["set"], int(row["split"]), row["method"]) for row in saved("trees-splits")}
    path = RESULTS / "trees-splits.csv"
    with path.open("a", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        if not done:
            out.writerow(KEPT)
        for name in names:
            X, y = load_for_trees(name)
            for split in range(min(n_splits, SPLITS[name])):
                left = [one for one in methods if (name, split, one) not in done]
                for row in trial(X, y, split, left) if left else []:
                    out.writerow([name, split, *row])
                    file.flush()
            print(f"{name}: done", flush=True)


def trial(X, y, seed, methods):
    """Name, measures and CPU seconds of each method on one split."""
    train, test = train_test_split(
        np.arange(len(y)), test_size=1 / 3, random_state=seed, stratify=y
    )
    for method in methods:
        began = time.process_time()
        scorer = METHODS[method](_safe_indexing(X, train), y[train], seed)
        seconds = time.process_time() - began
        scores = np.asarray(scorer(_safe_indexing(X, test)), dtype=np.float64)
        found = [round(measure(y[test], scores), 6) for measure in MEASURES.values()]
        yield [method, *found, round(seconds, 2)]


def by_method():
    """Set -> method -> split -> row."""
    found = defaultdict(lambda: defaultdict(dict))
    for row in saved("trees-splits"):
        found[row["set"]][row["method"]][int(row["split"])] = row
    return found


def table():
    """Means over splits, and paired differences of ours from each of the others."""
    means, differences = [], []
    for name, methods in by_method().items():
        for method, splits in methods.items():
            mean = [
                np.mean([float(row[one]) for row in splits.values()])
                for one in (*MEASURES, "seconds")
            ]
            means.append([name, method, len(splits), *(round(one, 4) for one in mean)])
            if method != OURS:
                differences += [
                    [name, method, *compared(methods[OURS], splits, measure)]
                    for measure in MEASURES
                ]
    report("trees", ["set", "method", "splits", *MEASURES, "CPU seconds"], means)
    columns = ["set", "against", "measure", "splits", "difference", "standard error", "p"]
    report("trees-differences", columns, differences)


def compared(ours, theirs, measure):
    """Ours less theirs over common splits: mean, standard error, Wilcoxon's two-sided p."""
    common = sorted(set(ours) & set(theirs))
    less = np.array([float(ours[one][measure]) - float(theirs[one][measure]) for one in common])
    error = less.std(ddof=1) / np.sqrt(len(less)) if len(less) > 1 else np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = wilcoxon(less).pvalue if len(less) > 5 and less.any() else 1.0
    return [measure, len(common), *(round(float(one), 5) for one in (less.mean(), error, p))]


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
