"""InfinitePush, AATP and TopPush on diabetes by the paper's protocol.

    python benchmarks/diabetes_top.py [--trials 30] [--resume]

Random splits, 2/3 to train and 1/3 to test; lam, or C, from 10^-3 to 10^3 by the mean Pos@Top of
a 5-fold cross-validation on the training rows, and for AATP tau from {2^-5, ..., 1} m/(m+n); the
first best value wins; a best value at the end of its grid does not extend it, as the paper's
does. The paper: TopPush .123 +- .056, InfinitePush .119 +- .051, AATP
.127 +- .061 over thirty trials. Trial t uses seed t. Writes results/diabetes_top.csv.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import csv
import lzma
import time
import warnings
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np
from growth import machine
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import StratifiedKFold, train_test_split

from toppush import TopPush
from toppush.baselines import InfinitePush
from toppush.baselines.accuracy_at_top import Basis, Quantile, Search
from toppush.baselines.interior_point import ShiftedMachines
from toppush.metrics import average_precision, positives_at_top

RESULTS = Path(__file__).resolve().parent / "results"
GRID = [10.0**power for power in range(-3, 4)]
TAUS = [2.0**-power for power in range(5, -1, -1)]
BATCH = 64


def load():
    shared = Path(
        os.environ.get("TOPPUSH_SHARED", Path(__file__).resolve().parents[1] / "../shared")
    )
    path = shared / "data/diabetes/diabetes_scale.svm.xz"
    if not path.exists():
        raise SystemExit(f"{path} is missing; set TOPPUSH_SHARED to the folder that holds data/.")
    with lzma.open(path) as file:
        X, y = load_svmlight_file(file, n_features=8, zero_based=False)
    return X.toarray(), (y > 0).astype(int)


def toppush(X, y):
    """Weights for each lam, by the paper's solver and its stopping rule."""
    rankers = {(lam,): TopPush(lam, solver="paper", tol=1e-4) for lam in GRID}
    return {"TopPush": {lam: ranker.fit(X, y).coef_[0] for lam, ranker in rankers.items()}}


def infinite_push(X, y):
    """Weights for each lam, hinge loss, to a relative gap of 1e-3."""
    options = {"solver": "admm", "tol": 1e-3, "max_iter": 1000}
    rankers = {(lam,): InfinitePush(lam, **options) for lam in GRID}
    return {"InfinitePush": {lam: ranker.fit(X, y).coef_[0] for lam, ranker in rankers.items()}}


def accuracy_at_top(X, y):
    """Weights for each C and tau by both rules; the problems of all rows do not know tau."""
    rows, sign = Basis.of(X).rows, np.where(y == 1, 1.0, -1.0)
    found = {name: {} for name in AATP}
    for C in GRID:
        machines = ShiftedMachines(rows, sign, np.full(y.size, C))
        batches = [
            machines.solve(np.arange(start, min(start + BATCH, y.size)), tol=1e-4, max_iter=100)
            for start in range(0, y.size, BATCH)
        ]
        for tau, (name, by_quantile) in product(TAUS, AATP.items()):
            quantile = Quantile(np.ones(y.size), min(tau * y.mean(), 1.0))
            search = Search(machines, quantile, y.size, by_quantile=by_quantile)
            for batch in batches:
                search.consider(batch)
            found[name][C, tau] = search.best.weights
    return found


AATP = {"AATP": True, "AATP (objective)": False}
"""The published rule, nearest to the quantile first, and the least objective."""
PATHS = [toppush, infinite_push, accuracy_at_top]
METHODS = ["TopPush", "InfinitePush", *AATP]


def cross_validate(path, X, y, seed):
    """The setting of the best mean Pos@Top over five folds, for each method of a path."""
    totals = defaultdict(lambda: defaultdict(float))
    for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
        for name, settings in path(X[train], y[train]).items():
            for setting, weights in settings.items():
                totals[name][setting] += positives_at_top(y[test], X[test] @ weights)
    return {name: max(values, key=values.get) for name, values in totals.items()}


def trial(X, y, seed):
    """Pos@Top, AP, the chosen setting and the time of each method on one split."""
    split = train_test_split(X, y, test_size=1 / 3, random_state=seed)
    X_train, X_test, y_train, y_test = split
    for path in PATHS:
        began = time.process_time()
        chosen = cross_validate(path, X_train, y_train, seed)
        settings = path(X_train, y_train)
        seconds = round(time.process_time() - began, 2)
        for name, setting in chosen.items():
            scores = X_test @ settings[name][setting]
            yield {
                "trial": seed,
                "method": name,
                "pos_at_top": positives_at_top(y_test, scores),
                "ap": average_precision(y_test, scores),
                "setting": " ".join(f"{value:g}" for value in setting),
                "cpu_seconds": seconds,
            }


def report(records):
    """Mean and deviation of each method, and of its difference from TopPush in the same splits."""
    values = {
        name: np.array([r["pos_at_top"] for r in records if r["method"] == name])
        for name in METHODS
    }
    print(f"{'method':20}{'Pos@Top':>9}{'std':>7}{'- TopPush':>11}{'std. err.':>11}{'AP':>7}")
    for name, found in values.items():
        difference = found - values["TopPush"]
        error = difference.std(ddof=1) / np.sqrt(found.size) if found.size > 1 else np.nan
        precision = np.mean([r["ap"] for r in records if r["method"] == name])
        print(
            f"{name:20}{found.mean():9.3f}{found.std(ddof=min(1, found.size - 1)):7.3f}"
            f"{difference.mean():+11.3f}{error:11.3f}{precision:7.3f}"
        )


def known_trials(path):
    """Trials that an earlier run wrote."""
    if not path.exists():
        return []
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    numbers = {"trial": int, "pos_at_top": float, "ap": float, "cpu_seconds": float}
    return [
        {key: numbers.get(key, str)(value) for key, value in row.items()}
        for row in csv.DictReader(lines)
    ]


def write(records, path):
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        for key, value in machine().items():
            file.write(f"# {key}: {value}\n")
        writer = csv.DictWriter(file, records[0])
        writer.writeheader()
        writer.writerows(records)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--resume", action="store_true", help="keep the trials in the CSV")
    arguments = parser.parse_args()
    (X, y), path = load(), RESULTS / "diabetes_top.csv"
    records = known_trials(path) if arguments.resume else []
    done = {record["trial"] for record in records}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(arguments.trials):
            if seed not in done:
                records += trial(X, y, seed)
                print(*(f"{r['pos_at_top']:.3f}" for r in records[-len(METHODS) :]), flush=True)
                write(records, path)
    report(records)


if __name__ == "__main__":
    main()
