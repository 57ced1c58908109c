"""Which rule for choosing lam and top by cross-validation ranks held-out rows best.

    python -m benchmarks.selection run --data diabetes --splits 30
    python -m benchmarks.selection table

`run` fits the whole grid on the folds of each split's training rows and on all of them, and keeps
every fold's and every test set's measures in benchmarks/.cache; `table` applies the rules to what
is there and writes results/selection.csv.
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
from toppush.designs import LocalDesign
from toppush.selection import TOPS as DEFAULT_TOPS
from toppush.selection import fit_fold, follow, lam_grid

TOPS = (1, 0.001, 0.01, 0.03, 0.1, 0.3)
LOSS, TOL = "truncated_quadratic", 1e-3


def recall_before(n_false):
    """Share of positives above the n-th highest negative."""

    def measure(y, scores):
        negatives = np.sort(scores[~y])[::-1]
        return float(np.mean(scores[y] > negatives[min(n_false, len(negatives)) - 1]))

    return measure


def mean_recall_before(n_false):
    """The same, averaged over the first n false positives."""
    measures = [recall_before(n) for n in range(1, n_false + 1)]
    return lambda y, scores: float(np.mean([one(y, scores) for one in measures]))


MEASURES = {
    "Pos@Top (paper)": metrics.positives_at_top,
    "AP": metrics.average_precision,
    "NDCG": metrics.ndcg,
    "recall before 5 false": recall_before(5),
    "recall before 10 false": recall_before(10),
    "mean recall, 5 false": mean_recall_before(5),
    "mean recall, 10 false": mean_recall_before(10),
    "pAUC to 1 %": lambda y, s: metrics.partial_auc(y, s, max_fpr=0.01),
    "pAUC to 5 %": lambda y, s: metrics.partial_auc(y, s, max_fpr=0.05),
}
TESTED = [metrics.positives_at_top, metrics.average_precision, metrics.ndcg, metrics.auc]


def run(name, n_splits, seconds):
    """Measure grid x folds and grid x test rows for each split; resumes where it stopped."""
    X, y = load(name)
    kept = CACHE / f"selection-{name.split()[0]}.npz"
    done = dict(np.load(kept)) if kept.exists() else {}
    folds, tests = list(done.get("folds", [])), list(done.get("tests", []))
    began = time.perf_counter()
    splits = StratifiedShuffleSplit(n_splits, test_size=1 / 3, random_state=0).split(X, y)
    for number, (train, test) in enumerate(splits):
        if number < len(tests):
            continue
        if time.perf_counter() - began > seconds:
            break
        one = measure_split(X[train], y[train], X[test], y[test], seed=number)
        folds.append(one[0])
        tests.append(one[1])
        np.savez(kept, folds=np.array(folds), tests=np.array(tests))
    print(f"{name}: {len(tests)} splits, {time.perf_counter() - began:.0f} s", flush=True)


def measure_split(X, y, X_test, y_test, seed):
    with LocalDesign(X, y, n_threads=1) as design:
        lams = lam_grid(design, LOSS)
        path = follow(design, lams, TOPS, LOSS, TOL)
    grid = [found for row in path.solutions for found in row]
    tests = [[one(y_test, X_test @ found.weights) for one in TESTED] for found in grid]
    folds = []
    for train, held in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
        scores = fit_fold(X, y, None, (train, held), lams, TOPS, LOSS, TOL).scores
        folds.append([[one(y[held], row) for one in MEASURES.values()] for row in scores])
    return folds, tests


def choices(folds):
    """Rule -> index of the grid it chooses; folds has shape (folds, grid, measures).

    Of the grid only the tops that are TopPushCV's default.
    """
    n_lams = folds.shape[1] // len(TOPS)
    kept = [i for i in range(folds.shape[1]) if TOPS[i // n_lams] in DEFAULT_TOPS]
    folds = folds[:, kept]
    mean, error = folds.mean(0), folds.std(0, ddof=1) / np.sqrt(len(folds))
    names = list(MEASURES)
    found = {name: int(np.argmax(mean[:, i])) for i, name in enumerate(names)}
    ap = names.index("AP")
    best = int(np.argmax(mean[:, ap]))
    near = mean[:, ap] >= mean[best, ap] - error[best, ap]
    for name in ("Pos@Top (paper)", "mean recall, 5 false", "pAUC to 1 %"):
        score = np.where(near, mean[:, names.index(name)], -np.inf)
        found[f"AP within one error, then {name}"] = int(np.argmax(score))
    return {rule: kept[index] for rule, index in found.items()}


def table():
    """Held-out means of every rule on every set that was run, and mean ranks over the sets."""
    rows, means = [], {}
    for name in FILES:
        kept = CACHE / f"selection-{name.split()[0]}.npz"
        if not kept.exists():
            continue
        data = np.load(kept)
        chosen = [choices(folds) for folds in data["folds"]]
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
