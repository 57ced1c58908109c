"""Which rule for choosing lam and top by cross-validation ranks held-out rows best.

    python -m benchmarks.selection run --data diabetes --splits 30
    python -m benchmarks.selection table

`run` fits the whole grid on the folds of each split's training rows and on all of them, to the
tolerance of `TopPushCV`, tests the pair that each rule chooses, and goes on where
results/selection-splits.csv ends; `table` writes the means to results/selection.csv. The grid is
that of `TopPushCV` with all the tops it may grow by, and `by_the_top` its rule, of
`toppush.models.search`.
"""

import argparse
import csv
import time
import warnings
from collections import defaultdict

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from benchmarks.common import RESULTS, report, saved
from benchmarks.data import FILES, load
from toppush import metrics
from toppush.designs import LocalRows
from toppush.metrics.partial_curve import Head, first_negatives
from toppush.models import search as rules
from toppush.models.base import TrainingRows
from toppush.models.linear_cv import MORE_TOPS, TOL, TOPS
from toppush.models.path import Grid, follow, lam_grid
from toppush.models.search import fit_fold

GRID_TOPS, LOSS = TOPS + MORE_TOPS, "truncated_quadratic"
MEASURES = {
    "AP": metrics.average_precision,
    "Pos@Top (paper)": metrics.positives_at_top,
    "NDCG": metrics.ndcg,
    "top_recall, 5 negatives": metrics.top_recall,
    "pAUC to 1 %": lambda y, s: metrics.partial_auc(y, s, max_fpr=0.01),
}
TESTED = {one.title: metrics.METRICS[one.name] for one in metrics.FOUR}


def run(name, n_splits, seconds):
    """Choose by every rule and test the choice, split by split; goes on where the file ends."""
    X, y = load(name)
    done = {int(row["split"]) for row in saved("selection-splits") if row["data"] == name}
    splits = StratifiedShuffleSplit(n_splits, test_size=1 / 3, random_state=0).split(X, y)
    began = time.process_time()
    for number, (train, test) in enumerate(splits):
        if number in done:
            continue
        if time.process_time() - began > seconds:
            break
        *seen, tests = measure_split(X[train], y[train], X[test], y[test], seed=number)
        keep([name, number, rule, *tests[pair]] for rule, pair in choices(*seen).items())
        done.add(number)
    print(f"{name}: {len(done)} splits, {time.process_time() - began:.0f} CPU s", flush=True)


def keep(rows):
    """Add lines to the file of splits."""
    path = RESULTS / "selection-splits.csv"
    head = [] if path.exists() else [["data", "split", "rule", *TESTED]]
    with path.open("a", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([*head, *rows])


def measure_split(X, y, X_test, y_test, seed):
    """Folds, joint recall and degenerate pairs, which the rules see, and what is tested."""
    given = TrainingRows(LocalRows(X), y, np.array([False, True]), y, None)
    with given.design(n_jobs=1) as design:
        pairs = Grid(lam_grid(design, LOSS), GRID_TOPS, LOSS, TOL)
        path = follow(design, pairs)
    grid = [found for row in path.solutions for found in row]
    tests = [
        [round(one(y_test, X_test @ found.weights), 6) for one in TESTED.values()] for found in grid
    ]
    folds, heads, degenerate = [], [], []
    for train, held in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
        fold = fit_fold(given, (train, held), pairs, lambda rows, truth, lists, weight: lists)
        lists, n_false = list(fold.scores.values()), first_negatives(np.sum(~y))
        folds.append([[one(y[held], row) for one in MEASURES.values()] for row in lists])
        heads.append([Head.of(y[held], row, None, n_false) for row in lists])
        degenerate.append([number in fold.degenerate for number in fold.scores])
    joint = [Head.join(one).recall() for one in zip(*heads, strict=True)]
    return np.array(folds), np.array(joint), np.any(degenerate, axis=0), tests


def choices(folds, joint, degenerate):
    """Rule -> index of the pair it chooses; folds has shape (folds, pairs, measures)."""
    mean = folds.mean(0)
    orders = {name: mean[:, i] for i, name in enumerate(MEASURES)}
    orders["recall at the head alone"] = joint
    orders[rules.by_the_top.__name__] = rules.by_the_top(joint, mean[:, 0], degenerate)
    found = {name: int(np.argmin(rules.ranks(order, degenerate))) for name, order in orders.items()}
    nothing = np.zeros_like(degenerate)
    found["recall at the head alone, degenerate pairs too"] = int(
        np.argmin(rules.ranks(joint, nothing))
    )
    return found


def table():
    """Held-out means of every rule on every set that was run, and over the sets."""
    kept, rows, means = defaultdict(list), [], defaultdict(list)
    for row in saved("selection-splits"):
        kept[row["data"], row["rule"]].append([float(row[one]) for one in TESTED])
    for (name, rule), values in sorted(kept.items(), key=lambda one: list(FILES).index(one[0][0])):
        mean, spread = np.mean(values, 0), np.std(values, 0, ddof=1)
        means[rule].append(mean)
        rows.append([name, len(values), rule, *np.round([*mean, *spread[:2]], 5), "", ""])
    ranks = mean_ranks(np.array(list(means.values())))
    for i in np.argsort(ranks.sum(0)):
        rule = list(means)[i]
        mean = np.round(np.mean(means[rule], 0), 5)
        rows.append(["mean over sets", "", rule, *mean, "", "", *np.round(ranks[:, i], 2)])
    deviations = ["std Pos@Top", "std AP", "rank Pos@Top", "rank AP"]
    report("selection", ["data", "splits", "rule", *TESTED, *deviations], rows)


def mean_ranks(means):
    """Over the sets, of Pos@Top and of AP, which are the first two measures; a column per rule."""
    found = [[rankdata(-means[:, one, m]) for one in range(means.shape[1])] for m in (0, 1)]
    return np.mean(found, axis=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--data", nargs="*", default=list(FILES))
    parser.add_argument("--splits", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=np.inf, help="of the processor, per set")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what == "run":
        for name in options.data:
            run(name, options.splits, options.seconds)
    else:
        table()
