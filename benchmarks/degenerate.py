"""What top="auto" ranks like where weights of zero are optimal for the paper's problem.

    python -m benchmarks.degenerate                 # 30 splits of four data sets

Compared with: the paper's solver, which stops early; the certified solver with top=1; weights of
zero, the exact optimum, under which all rows tie. Differences are paired over the splits.
"""

import argparse
import warnings

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit

from benchmarks.common import report
from benchmarks.data import load
from toppush import TopPush, metrics

DATA = ["diabetes", "mammography", "a9a", "ijcnn1"]
RANKERS = {
    'top="auto"': lambda: TopPush(top="auto", n_jobs=1),
    "top=1": lambda: TopPush(n_jobs=1),
    "paper's solver": lambda: TopPush(solver="paper", n_jobs=1),
}
MEASURES = {"Pos@Top": metrics.positives_at_top, "AP": metrics.average_precision}


def held_out(X, y, n_splits):
    """Measures of shape (rankers + zero, splits, measures), and the tops that were chosen."""
    table, tops = [], []
    splits = StratifiedShuffleSplit(n_splits, test_size=1 / 3, random_state=0).split(X, y)
    for train, test in splits:
        models = [make().fit(X[train], y[train]) for make in RANKERS.values()]
        tops.append(models[0].top_ / np.sum(~y[train]))
        scores = [model.decision_function(X[test]) for model in models]
        scores.append(np.zeros(len(test)))
        table.append([[one(y[test], row) for one in MEASURES.values()] for row in scores])
    return np.array(table).swapaxes(0, 1), np.array(tops)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="*", default=DATA)
    parser.add_argument("--splits", type=int, default=30)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in options.data:
        table, tops = held_out(*load(name), options.splits)
        print(f"{name}: top chosen {tops.mean():.4f} +- {tops.std():.4f}", flush=True)
        for ranker, values in zip([*RANKERS, "zero"], table, strict=True):
            less = table[0] - values
            error = less.std(0, ddof=1) / np.sqrt(len(less))
            for i, measure in enumerate(MEASURES):
                rows.append([
                    name, ranker, measure, values[:, i].mean(), values[:, i].std(ddof=1),
                    less[:, i].mean(), error[i], len(less), tops.mean(),
                ])  # fmt: skip
    columns = [
        "data", "ranker", "measure", "mean", "std", 'auto less this', "standard error", "splits",
        "mean top of auto",
    ]  # fmt: skip
    report("degenerate", columns, rows)


if __name__ == "__main__":
    main()
