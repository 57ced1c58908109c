"""How often the intervals of `TopRanker.leaderboard_` hold the average precision on fresh rows.

python -m benchmarks.leaderboard_coverage --sets 60
python -m benchmarks.leaderboard_coverage --sets 25 --case 0  # one kind of rows; others are kept

Rows come from known distributions. The leaderboard judges held-out rows, each scored by fits to
the other folds. Its target is the mean average precision of these fits over fresh lists with as
many positives and negatives as the training rows. The ranker that was fitted ranks better than
that: linear base models are fitted again to all rows, and trees are averaged over the folds. The
column "fitted AP" has its average precision on the same lists.
"""

import argparse
import warnings
from dataclasses import dataclass

import numpy as np

from benchmarks import common
from toppush import TopPushTrees, TopRanker
from toppush.auto.combination import COMBINATION
from toppush.auto.linear import TopLinear
from toppush.auto.members import EFFORTS
from toppush.folds.splits import shared_folds
from toppush.metrics import average_precision
from toppush.models.forest import _mean_share

N_FRESH, N_LISTS, N_COLUMNS = 8_000, 12, 8
COLUMNS = [
    "rows", "positives", "signal", "member", "sets", "leaderboard AP", "fold models AP",
    "fitted AP", "difference",
    "standard error", "coverage", "below", "above", "width",
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """How rows are drawn."""

    n_rows: int
    n_pos: int
    signal: float

    def draw(self, n_rows, rng):
        """Rows with exactly the share of positives."""
        n_pos = round(n_rows * self.n_pos / self.n_rows)
        X = rng.standard_normal((n_rows, N_COLUMNS))
        odds = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2
        noise = rng.logistic(size=n_rows)
        order = np.argsort(-(self.signal * odds + noise), kind="stable")
        positive = np.zeros(n_rows, bool)
        positive[order[:n_pos]] = True
        return X, positive


CASES = [
    Case(500, 100, 0.0), Case(500, 100, 1.0), Case(500, 50, 3.0), Case(2000, 100, 1.0),
    Case(2000, 100, 3.0),
]  # fmt: skip


def judged(case, seed):
    """Value, interval, AP of the fold models and of the fitted ranker, for each row."""
    rng = np.random.default_rng(seed)
    X, y = case.draw(case.n_rows, rng)
    ranker = TopRanker(random_state=seed, n_jobs=1).fit(X, y)
    fresh, labels = case.draw(N_FRESH, rng)
    lists = [fresh_list(labels, case, rng) for _ in range(N_LISTS)]
    folds = shared_folds(
        EFFORTS["normal"].n_folds, y, None, np.arange(len(y)), ranker._settings().seed
    )
    by_fold = fold_scores(ranker, X, y, folds, fresh)
    fitted = {one.name: one.ranker.decision_function(fresh) for one in ranker._board.entries}
    fitted[COMBINATION] = ranker.decision_function(fresh)

    def mean(scores):
        return np.mean([average_precision(labels[at], scores[at]) for at in lists])

    for row in ranker.leaderboard_:
        name, ends = row["name"], (row["average_precision_low"], row["average_precision_high"])
        target = np.mean([mean(scores) for scores in by_fold[name]])
        yield name, row["average_precision"], *ends, target, mean(fitted[name])


def fold_scores(ranker, X, y, folds, fresh):
    """Scores of fresh rows by each fold's fit of each base model, and their combination."""
    found = {}
    for name, member in ranker._board.members.items():
        base = member.ranker
        if isinstance(base, TopLinear):
            fits = [TopLinear(base.loss).fit(X[train], y[train]) for train, _ in folds]
            found[name] = np.array([fit.decision_function(fresh) for fit in fits])
        elif isinstance(base, TopPushTrees):
            boosters = base._models()
            found[name] = np.array([fit.predict(fresh, raw_score=True) for fit in boosters])
        else:
            parts = np.split(np.array(base._models(), object), len(folds))
            rows = fresh.astype(np.float32)
            found[name] = np.array([_mean_share(part, rows) for part in parts])
    parts = [ranker.weights_[name] * unit(found[name]) for name in ranker.members_]
    return found | {COMBINATION: np.sum(parts, axis=0)}


def unit(scores):
    """Each fold's scores with standard deviation 1."""
    return scores / scores.std(axis=1, keepdims=True)


def fresh_list(labels, case, rng):
    """Places of as many positives and negatives as the training rows have."""
    sizes = case.n_pos, case.n_rows - case.n_pos
    sides = np.flatnonzero(labels), np.flatnonzero(~labels)
    return np.concatenate(
        [rng.choice(side, size, replace=False) for side, size in zip(sides, sizes, strict=True)]
    )


def table(case, n_sets, first):
    """Rows of the table for one kind of rows."""
    found = {}
    for seed in range(first, first + n_sets):
        for name, *numbers in judged(case, seed):
            found.setdefault(name, []).append(numbers)
    for name, numbers in found.items():
        value, low, high, target, fitted = np.array(numbers).T
        apart = value - target
        yield [
            case.n_rows, case.n_pos, case.signal, name, len(value),
            *(round(float(one.mean()), 4) for one in (value, target, fitted, apart)),
            round(float(apart.std() / np.sqrt(len(apart))), 4),
            *(round(float(np.mean(one)), 4) for one in
              ((low <= target) & (target <= high), target < low, target > high, high - low)),
        ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=60)
    parser.add_argument("--first", type=int, default=0, help="number of the first data set")
    parser.add_argument(
        "--case", type=int, help="one kind of rows; the others in the file are kept"
    )
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = CASES if given.case is None else [CASES[given.case]]
    new = [row for case in cases for row in table(case, given.sets, given.first)]
    about = {tuple(map(str, row[:3])) for row in new}
    kept = [list(row.values()) for row in common.saved(NAME)]
    kept = [row for row in kept if tuple(row[:3]) not in about]
    common.report(NAME, COLUMNS, [*kept, *new])


NAME = "leaderboard-coverage"

if __name__ == "__main__":
    main()
