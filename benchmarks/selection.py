"""Which rule for choosing lam and top by cross-validation ranks held-out rows best.

    python -m benchmarks.selection run --data diabetes --splits 30
    python -m benchmarks.selection table

`run` fits the whole grid on the folds of each split's training rows and on all of them, to the
tolerance of `TopPushCV`, and keeps what the rules need in benchmarks/.cache; `table` applies the
rules to what is there and writes results/selection.csv. The row `DEFAULT` is that of
`toppush.estimators.choice`. The grid is that of `TopPushCV` with all the tops it may grow by.
"""

import argparse
import time
import warnings

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from benchmarks.common import report
from benchmarks.data import CACHE, FILES, load
from toppush import metrics
from toppush.designs import LocalRows
from toppush.estimators import choice as rules
from toppush.estimators.base import TrainingRows
from toppush.estimators.cross_validation import MORE_TOPS, TOL, TOPS
from toppush.estimators.folds import fit_fold
from toppush.estimators.path import Grid, follow, lam_grid
from toppush.metrics.head import Head, first_negatives

GRID_TOPS, LOSS = TOPS + MORE_TOPS, "truncated_quadratic"
DEFAULT = "default"
MEASURES = {
    "AP": metrics.average_precision,
    "Pos@Top (paper)": metrics.positives_at_top,
    "NDCG": metrics.ndcg,
    "top_recall, 5 negatives": metrics.top_recall,
    "pAUC to 1 %": lambda y, s: metrics.partial_auc(y, s, max_fpr=0.01),
}
TESTED = [metrics.METRICS[one.name] for one in metrics.FOUR]
KEPT = ("folds", "joint", "degenerate", "tests")


def run(name, n_splits, seconds):
    """Measure grid x folds and grid x test rows for each split; resumes where it stopped."""
    X, y = load(name)
    kept = CACHE / f"selection-{name.split()[0]}.npz"
    done = dict(np.load(kept)) if kept.exists() else {}
    found = list(zip(*(done[part] for part in KEPT), strict=True)) if done else []
    began = time.perf_counter()
    splits = StratifiedShuffleSplit(n_splits, test_size=1 / 3, random_state=0).split(X, y)
    for number, (train, test) in enumerate(splits):
        if number < len(found):
            continue
        if time.perf_counter() - began > seconds:
            break
        found.append(measure_split(X[train], y[train], X[test], y[test], seed=number))
        parts = zip(KEPT, zip(*found, strict=True), strict=True)
        np.savez(kept, **{part: np.array(values) for part, values in parts})
    print(f"{name}: {len(found)} splits, {time.perf_counter() - began:.0f} s", flush=True)


def measure_split(X, y, X_test, y_test, seed):
    """What the rules see of the folds, and what is tested; in the order of `KEPT`."""
    given = TrainingRows(LocalRows(X), y, np.array([False, True]), y, None)
    with given.design(n_threads=1) as design:
        pairs = Grid(lam_grid(design, LOSS), GRID_TOPS, LOSS, TOL)
        path = follow(design, pairs)
    grid = [found for row in path.solutions for found in row]
    tests = [[one(y_test, X_test @ found.weights) for one in TESTED] for found in grid]
    folds, heads, degenerate = [], [], []
    for train, held in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
        fold = fit_fold(given, (train, held), pairs, lambda rows, truth, lists, weight: lists)
        lists, n_false = list(fold.measured.values()), first_negatives(np.sum(~y))
        folds.append([[one(y[held], row) for one in MEASURES.values()] for row in lists])
        heads.append([Head.of(y[held], row, None, n_false) for row in lists])
        degenerate.append([number in fold.degenerate for number in fold.measured])
    joint = [Head.join(one).recall() for one in zip(*heads, strict=True)]
    return folds, joint, np.any(degenerate, axis=0), tests


def choices(folds, joint, degenerate):
    """Rule -> index of the pair it chooses; folds has shape (folds, pairs, measures)."""
    mean = folds.mean(0)
    orders = {name: mean[:, i] for i, name in enumerate(MEASURES)}
    orders["recall at the head alone"] = joint
    orders[DEFAULT] = rules.by_the_top(joint, mean[:, 0], degenerate)
    found = {name: int(np.argmin(rules.ranks(order, degenerate))) for name, order in orders.items()}
    nothing = np.zeros_like(degenerate)
    found["recall at the head alone, degenerate pairs too"] = int(
        np.argmin(rules.ranks(joint, nothing))
    )
    return found


def table():
    """Held-out means of every rule on every set that was run, and mean ranks over the sets."""
    rows, means = [], {}
    for name in FILES:
        kept = CACHE / f"selection-{name.split()[0]}.npz"
        if not kept.exists():
            continue
        data = np.load(kept)
        seen = zip(data["folds"], data["joint"], data["degenerate"], strict=True)
        chosen = [choices(*one) for one in seen]
        for rule in chosen[0]:
            held = np.array([data["tests"][i][one[rule]] for i, one in enumerate(chosen)])
            mean, spread = held.mean(0), held.std(0, ddof=1)
            means.setdefault(rule, []).append(mean)
            rows.append([name, len(held), rule, *mean, *spread[:2]])
    columns = ["data", "splits", "rule", "Pos@Top", "AP", "NDCG", "AUC", "std Pos@Top", "std AP"]
    table = np.array(list(means.values()))  # rules, sets, measures
    ranks = np.array([[rankdata(-table[:, s, m]) for s in range(table.shape[1])] for m in (0, 1)])
    order = np.argsort(ranks.mean(1).sum(0))
    for i in order:
        pos, ap = ranks[:, :, i].mean(1)
        rule = list(means)[i]
        rows.append(["mean over sets", "", rule, *table[i].mean(0), "", ""])
        print(f"{rule:45s} mean rank: Pos@Top {pos:.1f}, AP {ap:.1f}")
    report("selection", columns, rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--data", nargs="*", default=list(FILES))
    parser.add_argument("--splits", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=np.inf, help="per data set")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what == "run":
        for name in options.data:
            run(name, options.splits, options.seconds)
    else:
        table()
