"""InfinitePush, AATP and TopPush on diabetes by the paper's protocol, and what decides there.

    python -m benchmarks.diabetes_top run [--trials 30]      # keeps the trials already in the CSV
    python -m benchmarks.diabetes_top table
    python -m benchmarks.diabetes_top fixed [--trials 30]

`run`: random splits, 2/3 to train and 1/3 to test, trial t by seed t; lam, or C, from 10^-3 to
10^3 by the mean Pos@Top of a 5-fold cross-validation on the training rows, and for AATP tau from
{2^-5, ..., 1} m/(m+n). A grid is extended while its best value is at an end, to 10^-6 and 10^6
at most. Of equal means the strongest penalty wins (then the largest tau), for every method; what
the weakest would have given stands beside it. TopPush and InfinitePush run their published
iterations and end by one rule: the dual objective changed by 1e-4 of itself or less, after ten
iterations (InfinitePush: 1000 at most). Beside them, both to a proven gap, and the difference of
the classes' means, which has no parameter. The paper: TopPush .123 +- .056, InfinitePush
.119 +- .051, AATP .127 +- .061.

`fixed`: means over the test rows at every setting, without any choice: along the iterations of
both at two lams, and over AATP's grid; and in how many training sets the certificate shows weights
of zero to be optimal.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
import warnings
from collections import defaultdict
from functools import cache
from itertools import product

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split

from benchmarks.common import report, save, saved
from benchmarks.data import load
from reproduce.baselines import InfinitePush
from reproduce.baselines.accuracy_at_top import Basis, Quantile, QuantileSearch
from reproduce.baselines.interior_point import ShiftedMachines
from toppush import TopPush
from toppush.designs.local import rows_of
from toppush.metrics import average_precision, positives_at_top

COLUMNS = ["trial", "method", "Pos@Top", "AP", "setting", "equals", "weakest equal", "seconds"]
MARKS = [1, 2, 5, 10, 20, 40, 100, 200]
BATCH = 64


class Axis:
    """The values of a parameter, the preferred ones first, which grow at an end that is best."""

    def __init__(self, values, limits):
        self.values, self.limits = list(values), limits

    def grow(self, value):
        """Whether the value is at an end with room beyond; then the grid has one more."""
        for end, inner in ((0, 1), (-1, -2)):
            beyond = self.values[end] ** 2 / self.values[inner]
            if value == self.values[end] and self.limits[0] <= beyond <= self.limits[1]:
                self.values.insert(len(self.values) if end else 0, beyond)
                return True
        return False


def powers(base, exponents):
    return [float(base) ** power for power in exponents]


def lams():
    return [Axis(powers(10, range(3, -4, -1)), (0.9e-6, 1.1e6))]


def costs_and_taus():
    return [
        Axis(powers(10, range(-3, 4)), (0.9e-6, 1.1e6)),
        Axis(powers(2, range(0, -6, -1)), (2e-3, 1)),
    ]


def fitted(make):
    """Weights of training rows for a setting, by an estimator that it makes."""

    def on(X, y):
        return cache(lambda *setting: make(*setting).fit(X, y).coef_[0])

    return on


@cache
def solve_all(rows, labels, C):
    """The problems of all rows, for both rules and every tau, of which they know nothing."""
    y = np.frombuffer(labels, bool)
    basis = Basis.of(rows_of(np.frombuffer(rows).reshape(y.size, -1)).exact())
    machines = ShiftedMachines(basis.rows, np.where(y, 1.0, -1.0), np.full(y.size, C))
    each = np.arange(y.size)
    parts = [each[start : start + BATCH] for start in range(0, y.size, BATCH)]
    found = [machines.solve(part, tol=1e-4, max_iter=100) for part in parts]
    return machines, np.concatenate([batch.weights for batch in found])


def accuracy_at_top(by_quantile):
    """Weights for a C and a tau, by the published rule or by the least objective."""

    def on(X, y):
        @cache
        def weights(C, tau):
            machines, all_weights = solve_all(X.tobytes(), y.tobytes(), C)
            quantile = Quantile(np.ones(y.size), min(tau * float(y.mean()), 1.0))
            search = QuantileSearch(machines, quantile, y.size, by_quantile=by_quantile)
            search.consider(np.arange(y.size), all_weights)
            return search.best.weights

        return weights

    return on


def means(X, y):
    return lambda: X[y].mean(axis=0) - X[~y].mean(axis=0)


METHODS = {
    "TopPush": (lams, fitted(lambda lam: TopPush(lam, solver="paper", tol=1e-4))),
    "InfinitePush": (
        lams,
        fitted(lambda lam: InfinitePush(lam, solver="published", tol=1e-4, max_iter=1000)),
    ),
    "AATP": (costs_and_taus, accuracy_at_top(by_quantile=True)),
    "AATP, least objective": (costs_and_taus, accuracy_at_top(by_quantile=False)),
    "TopPush, gap 1e-4": (lams, fitted(lambda lam: TopPush(lam, tol=1e-4))),
    "InfinitePush, gap 1e-3": (
        lams,
        fitted(lambda lam: InfinitePush(lam, solver="admm", tol=1e-3, max_iter=1000)),
    ),
    "difference of means": (list, means),
}


def split(X, y, seed):
    return train_test_split(X, y, test_size=1 / 3, random_state=seed)


def choose(axes, weights_on, X, y, seed):
    """The settings whose mean Pos@Top over five folds is the greatest, the strongest first."""
    folds = list(StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y))
    paths = [(weights_on(X[train], y[train]), test) for train, test in folds]

    @cache
    def mean(*setting):
        found = [positives_at_top(y[test], X[test] @ path(*setting)) for path, test in paths]
        return round(float(np.mean(found)), 12)

    while True:
        grid = list(product(*(axis.values for axis in axes)))
        most = max(mean(*setting) for setting in grid)
        best = [setting for setting in grid if mean(*setting) == most]
        grown = [axis.grow(value) for axis, value in zip(axes, best[0], strict=True)]
        if not any(grown):
            return best


def trial(X, y, seed, method):
    """A row of the table: one method on one split."""
    X_train, X_test, y_train, y_test = split(X, y, seed)
    make_axes, weights_on = METHODS[method]
    began = time.process_time()
    best = choose(make_axes(), weights_on, X_train, y_train, seed)
    path = weights_on(X_train, y_train)
    scores, others = X_test @ path(*best[0]), X_test @ path(*best[-1])
    seconds = round(time.process_time() - began, 2)
    setting = " ".join(f"{value:g}" for value in best[0])
    measures = positives_at_top(y_test, scores), average_precision(y_test, scores)
    return [seed, method, *measures, setting, len(best), positives_at_top(y_test, others), seconds]


def run(X, y, n_trials):
    """Every method on every split that the CSV does not hold yet."""
    rows = [[int(row["trial"]), *list(row.values())[1:]] for row in saved("diabetes_top")]
    done = {(row[0], row[1]) for row in rows}
    for seed in range(n_trials):
        for method in METHODS:
            if (seed, method) not in done:
                rows.append(trial(X, y, seed, method))
                print(*rows[-1], flush=True)
        save("diabetes_top", COLUMNS, sorted(rows, key=lambda row: row[0]))
        solve_all.cache_clear()


def summary():
    """Mean and deviation of each method, and of its difference from TopPush in the same splits."""
    rows = saved("diabetes_top")

    def column(name, method):
        return np.array([float(row[name]) for row in rows if row["method"] == method])

    print(f"{'method':24} Pos@Top    std  less TopPush  std. err.     AP  equals  weakest")
    for method in METHODS:
        top, others = column("Pos@Top", method), column("weakest equal", method)
        less = top - column("Pos@Top", "TopPush")
        error = less.std(ddof=1) / np.sqrt(less.size)
        print(
            f"{method:24}{top.mean():8.3f}{top.std(ddof=1):7.3f}{less.mean():+14.3f}{error:11.3f}"
            f"{column('AP', method).mean():7.3f}{column('equals', method).mean():8.1f}"
            f"{others.mean():9.3f}"
        )


def stopped(kind, lam, solver):
    """A published iteration stopped after so many steps."""
    return fitted(lambda n: kind(lam, solver=solver, tol=0.0, max_iter=n))


FIXED = {
    "TopPush, lam 1, iterations": ([MARKS], stopped(TopPush, 1.0, "paper")),
    "TopPush, lam 100, iterations": ([MARKS], stopped(TopPush, 100.0, "paper")),
    "InfinitePush, lam 1, iterations": ([MARKS], stopped(InfinitePush, 1.0, "published")),
    "InfinitePush, lam 100, iterations": ([MARKS], stopped(InfinitePush, 100.0, "published")),
    **{
        f"{name}, C and tau": ([axis.values for axis in make_axes()], weights_on)
        for name, (make_axes, weights_on) in METHODS.items()
        if name.startswith("AATP")
    },
    "TopPush, gap 1e-4, lam": ([[1.0]], METHODS["TopPush, gap 1e-4"][1]),
}


def fixed(X, y, n_trials):
    """Mean measures at every setting, and how often zero is proven to be optimal."""
    found, n_zero = defaultdict(list), 0
    for seed in range(n_trials):
        X_train, X_test, y_train, y_test = split(X, y, seed)
        for name, (values, weights_on) in FIXED.items():
            path = weights_on(X_train, y_train)
            for setting in product(*values):
                scores = X_test @ path(*setting)
                measures = positives_at_top(y_test, scores), average_precision(y_test, scores)
                found[name, " ".join(f"{value:g}" for value in setting)].append(measures)
        proven = TopPush(1.0, tol=1e-4).fit(X_train, y_train).solution_.lower
        n_zero += proven >= 1.0 - 1e-4  # 1 is the objective at zero
        solve_all.cache_clear()
    rows = []
    for (name, setting), measures in found.items():
        (top, precision), error = np.mean(measures, axis=0), np.std(measures, axis=0, ddof=1)[0]
        rows.append([name, setting, top, error / np.sqrt(n_trials), precision])
    report("diabetes_fixed", ["method", "setting", "Pos@Top", "standard error", "AP"], rows)
    print(f"weights of zero are optimal, as certified, in {n_zero} of {n_trials} training sets")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "table", "fixed"])
    parser.add_argument("--trials", type=int, default=30)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    X, y = load("diabetes")
    X = X.toarray()
    if arguments.what == "fixed":
        fixed(X, y, arguments.trials)
        return
    if arguments.what == "run":
        run(X, y, arguments.trials)
    summary()


if __name__ == "__main__":
    main()
