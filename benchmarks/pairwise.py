"""The pairwise family against the threshold family and logistic regression, on held-out rows.

    python -m benchmarks.pairwise lists --splits 20 --seconds 120
    python -m benchmarks.pairwise fits

`lists` chooses by five folds of up to 6,000 training rows and measures the list of the others, for
as many splits as the seconds allow on each data set; differences are to `TopPushCV()` on the same
splits, with their standard error. Rows of data sets that are not named stay from the run before.
`fits` times one fit of either family.
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedShuffleSplit

from benchmarks.common import median_seconds, report, saved
from benchmarks.data import load
from toppush import TopPush, TopPushCV, metrics, toppush_path

DATA = ["diabetes", "spambase", "mammography", "a9a", "w8a"]
MOST_ROWS, MOST_TESTED = 6000, 20_000
METHODS = {
    "threshold": lambda: TopPushCV(n_threads=1),
    "pairwise": lambda: TopPushCV(pairwise=True, n_threads=1),
    "logistic regression": lambda: LogisticRegressionCV(
        Cs=np.geomspace(1e-3, 1e3, 10),
        cv=5,
        scoring="average_precision",
        max_iter=2000,
        l1_ratios=(0,),
        use_legacy_attributes=False,
    ),
}
MEASURES = {"Pos@Top": metrics.positives_at_top, "AP": metrics.average_precision}


def measure(method, train, test):
    """Pos@Top, AP and CPU seconds of a fit."""
    began = time.process_time()
    ranker = METHODS[method]().fit(*train)
    seconds = time.process_time() - began
    scores = ranker.decision_function(test[0])
    return [*(one(test[1], scores) for one in MEASURES.values()), seconds]


def splits(X, y, n_splits, seed):
    """Training and test rows, both classes in their shares."""
    n_train = min(MOST_ROWS, 2 * len(y) // 3)
    n_test = min(MOST_TESTED, len(y) - n_train)
    made = StratifiedShuffleSplit(n_splits, train_size=n_train, test_size=n_test, random_state=seed)
    for train, test in made.split(X, y):
        yield (X[train], y[train]), (X[test], y[test])


def lists(name, n_splits, seconds, seed):
    """A row for each method."""
    X, y = load(name)
    began, found = time.perf_counter(), []
    for train, test in splits(X, y, n_splits, seed):
        found.append([measure(method, train, test) for method in METHODS])
        if time.perf_counter() - began > seconds:
            break
    table = np.array(found)
    for number, method in enumerate(METHODS):
        cells = []
        for column in range(len(MEASURES)):
            apart = table[:, number, column] - table[:, 0, column]
            error = np.std(apart, ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else np.nan
            cells += [table[:, number, column].mean(), apart.mean(), error]
        cpu = table[:, number, -1].mean()
        yield [name, method, len(found), *(round(float(cell), 5) for cell in cells), round(cpu, 2)]


def fits(name):
    """CPU seconds of a fit at the middle of the default lams, for some tops."""
    X, y = load(name)
    train, _ = next(splits(X, y, 1, 0))
    lam = float(toppush_path(*train, tops=(1.0,), tol=0.1, n_threads=1).lams[4])
    for loss in ("truncated_quadratic", "logistic"):
        for top in (0.01, 0.1, 1.0):
            times = []
            for pairwise in (False, True):
                ranker = TopPush(lam, top=top, loss=loss, pairwise=pairwise, n_threads=1)
                work = lambda ranker=ranker: ranker.fit(*train)  # noqa: E731
                times.append(median_seconds(work, 3, time.process_time))
                times.append(ranker.n_iter_)
            yield [name, train[0].shape[0], loss, top, *times]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["lists", "fits"])
    parser.add_argument("--data", nargs="+", default=DATA)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "fits":
        columns = ["data", "rows", "loss", "top", "threshold s", "iterations"]
        columns += ["pairwise s", "iterations"]
        report("pairwise-fits", columns, [row for name in given.data for row in fits(name)])
        return
    measured = [part for one in MEASURES for part in (one, f"{one} - threshold", f"error of {one}")]
    columns = ["data", "method", "splits", *measured, "CPU s"]
    kept = [row for row in saved("pairwise") if row["data"] not in given.data]
    rows = [list(row.values()) for row in kept]
    for name in given.data:
        rows += lists(name, given.splits, given.seconds, given.seed)
    report("pairwise", columns, rows)


if __name__ == "__main__":
    main()
