"""What the handling of tied scores does to average precision.

python -m benchmarks.ties --splits 10

TopPush by the paper's solver on random splits (2/3 for training), at fixed lams; average precision
of the test rows as `toppush.metrics` defines it, and with tied positives listed before or after the
negatives they tie with. Rows that repeat, as half of w8a's do, always tie.
"""

import argparse
import warnings

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks import common
from benchmarks.data import load
from toppush import TopPush, metrics

SETS, LAMS = ("w8a", "spambase", "nslkdd"), (1.0, 0.001)


def listed(relevant):
    """Average precision of a list without ties."""
    precision = np.cumsum(relevant) / np.arange(1, len(relevant) + 1)
    return float(precision[relevant].mean())


def measured(X, y, lam, seed):
    """By our definition, with tied positives first, with tied negatives first."""
    train, test = train_test_split(np.arange(y.size), test_size=1 / 3, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranker = TopPush(lam, solver="paper", n_jobs=1).fit(X[train], y[train])
    scores, truth = ranker.decision_function(X[test]), y[test]
    return (
        metrics.average_precision(truth, scores),
        listed(truth[np.lexsort((~truth, -scores))]),
        listed(truth[np.lexsort((truth, -scores))]),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    given = parser.parse_args()
    rows = []
    for name in SETS:
        X, y = load(name)
        for lam in LAMS:
            found = np.array([measured(X, y, lam, seed) for seed in range(given.splits)])
            rows.append([name, lam, given.splits, *found.mean(axis=0), found[:, 1].std(ddof=1)])
    columns = ["data", "lam", "splits", "AP", "AP, positives first", "AP, negatives first",
               "deviation of the second"]  # fmt: skip
    common.report("ties", columns, rows)


if __name__ == "__main__":
    main()
