"""TopPushCV, lam and top chosen, compared with LogisticRegressionCV: time and ranking.

    python -m benchmarks.choice [--data w8a ...] [--repeats 3]

CPU seconds of one thread on all rows, in turn; the metrics are of the last third after a fit to the
others. Rows of other data sets in the result file are kept.
"""

import argparse
import time
import warnings
from statistics import median

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from benchmarks.common import recall_before, report, saved
from benchmarks.data import FILES, load
from toppush import TopPushCV

LONG = 20.0
"""CPU seconds of one method after which it is not repeated."""
COLUMNS = [
    "data", "rows", "columns", "ours s", "logistic s", "ratio",
    "AP ours", "AP logistic", "Pos@Top ours", "Pos@Top logistic", "lam", "top",
]  # fmt: skip
MEASURES = {
    "AP": average_precision_score,
    "Pos@Top": lambda y, scores: recall_before(y, scores, 1),
}


def seconds_of(fit):
    began = time.process_time()
    fit()
    return time.process_time() - began


def speed(name, repeats):
    """Both in turn on all rows, and how they rank a third."""
    X, y = load(name)
    models = [TopPushCV(n_jobs=1), LogisticRegressionCV(Cs=10, cv=5, solver="liblinear")]
    spent = [[], []]
    while len(spent[0]) < repeats:
        for model, times in zip(models, spent, strict=True):
            if not times or times[0] < LONG:
                times.append(seconds_of(lambda model=model: model.fit(X, y)))
        if min(times[0] for times in spent) > LONG:
            break
    lam, top = models[0].lam_, models[0].top_
    train, test = train_test_split(np.arange(len(y)), test_size=1 / 3, stratify=y, random_state=0)
    held = [model.fit(X[train], y[train]).decision_function(X[test]) for model in models]
    ratio = median(spent[0]) / median(spent[1])
    measures = [MEASURES[one](y[test], scores) for one in ("AP", "Pos@Top") for scores in held]
    return [name, *X.shape, *map(median, spent), ratio, *measures, lam, top]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=list(FILES))
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    every = list(FILES)
    kept = [list(row.values()) for row in saved("choice-speed")]
    for name in given.data or every:
        with threadpool_limits(1):
            line = speed(name, given.repeats)
        kept = sorted(
            [*(row for row in kept if row[0] != name), line], key=lambda row: every.index(row[0])
        )
        report("choice-speed", COLUMNS, kept)


if __name__ == "__main__":
    main()
