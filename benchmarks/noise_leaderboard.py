"""What the leaderboard of `TopRanker` shows on pure noise, where nothing ranks better than chance.

python -m benchmarks.noise_leaderboard
python -m benchmarks.noise_leaderboard --label before  # with PYTHONPATH of another source tree

Each data set has 300 rows of 10 normal columns and 60 positives at random places. A random order
has the mean average precision in the row "chance". Data set and fit number i have the seed i.
"""

import argparse
import warnings

import numpy as np

from benchmarks import common
from toppush import TopPushTrees, TopRanker
from toppush.metrics import average_precision

N_ROWS, N_COLUMNS, N_POSITIVES, N_ORDERS = 300, 10, 60, 20_000
COLUMNS = ["ranker", "data sets", "average precision", "standard error", "above chance"]


def noise(seed):
    """Rows, and labels that do not depend on them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N_ROWS, N_COLUMNS))
    return X, rng.permutation(np.arange(N_ROWS) < N_POSITIVES)


def chance():
    """Average precision of random orders."""
    rng, places = np.random.default_rng(0), np.arange(N_ROWS, dtype=float)
    return [
        average_precision(rng.permutation(places < N_POSITIVES), places) for _ in range(N_ORDERS)
    ]


def boards(first, n_sets):
    """Average precision that the leaderboards show, by base model."""
    found = {}
    for seed in range(first, first + n_sets):
        X, y = noise(seed)
        ranker = TopRanker(random_state=seed, n_jobs=1).fit(X, y)
        for row in ranker.leaderboard_:
            found.setdefault(row["name"], []).append(row["average_precision"])
        scores = TopPushTrees(random_state=seed, n_jobs=1).fit(X, y).out_of_fold_
        found.setdefault("TopPushTrees.out_of_fold_", []).append(average_precision(y, scores))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first data set")
    parser.add_argument("--label", help="ends the name of the result file")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    values = {"chance": chance(), **boards(given.first, given.sets)}
    expected = np.mean(values["chance"])
    rows = [
        [name, len(some), *(round(float(number), 4) for number in
         (np.mean(some), np.std(some) / np.sqrt(len(some)), np.mean(some) - expected))]
        for name, some in values.items()
    ]  # fmt: skip
    common.report("-".join(["noise-leaderboard", *filter(None, [given.label])]), COLUMNS, rows)


if __name__ == "__main__":
    main()
