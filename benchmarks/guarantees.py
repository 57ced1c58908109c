"""How often guarantees of thresholds and intervals of true positives, profit and groups hold.

python -m benchmarks.guarantees --lists 400

A population of 200,000 rows has known precision, recall and profit at every score. Lists are drawn
from it, a threshold or an interval is made from each, and is judged by the population or by rows
drawn anew. A list without a guarantee violates none; the column "made" says how
often one was made. "size" is the mean number of rows above a threshold, or the mean width of an
interval. "tied" scores are rounded, so that ties decide; "bad top" has negatives that score above
all positives, so that precision rises before it falls. The lines "as observed" show what a
threshold is worth whose list merely has the precision.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from benchmarks import common
from toppush.metrics import top_curve
from toppush.thresholds.budgets import (
    group_means,
    grouped_lists,
    positives_above,
    positives_in_first,
    threshold_for_budget,
)
from toppush.thresholds.guarantees import (
    NoGuarantee,
    threshold_at_fpr,
    threshold_at_precision,
    threshold_at_recall,
)
from toppush.thresholds.profit import best_length

POPULATION = 200_000
DRAWS = 300
BUDGET, ROWS_PER_DAY = 10, 400
LENGTHS = (10, 50)
OBSERVED = ", as observed"
COLUMNS = ["scores", "rows", "positives", "what", "stated", "held", "made", "size"]


@dataclass(frozen=True)
class Case:
    """A distribution of rows, and how many a list has."""

    kind: str
    apart: float
    share: float
    n_rows: int

    def population(self, rng):
        """Which rows are positive, their scores, and what a hit at each is worth."""
        positive = rng.random(POPULATION) < self.share
        noise = rng.standard_cauchy if self.kind == "cauchy" else rng.standard_normal
        score = noise(POPULATION) + self.apart * positive
        value = np.full(POPULATION, 10.0)
        if self.kind == "tied":
            score = np.round(2 * score) / 2
        elif self.kind == "bad top":
            score[~positive & (rng.random(POPULATION) < 0.002)] += 10
        elif self.kind == "amounts":
            value = 10 * rng.exponential(size=POPULATION)
        return positive, score, value


CASES = [
    Case("normal", 2.0, 0.05, 2000), Case("normal", 3.0, 0.2, 500), Case("normal", 0.5, 0.1, 1000),
    Case("tied", 2.0, 0.05, 2000), Case("tied", 3.0, 0.2, 500), Case("cauchy", 5.0, 0.1, 1000),
    Case("bad top", 4.0, 0.1, 1000), Case("amounts", 2.0, 0.05, 2000),
    Case("normal", 3.0, 0.01, 5000),
]  # fmt: skip


@dataclass(frozen=True)
class Truth:
    """What the population holds above every score."""

    positive: np.ndarray
    score: np.ndarray
    gain: np.ndarray

    @classmethod
    def of(cls, positive, score, value, cost):
        order = np.argsort(-score, kind="stable")
        gain = np.where(positive, value, 0.0) - cost
        sums = [np.append(0.0, np.cumsum(one[order])) for one in (positive, gain)]
        return cls(sums[0], score[order], sums[1])

    def rows(self, score):
        return int(np.searchsorted(-self.score, -score, side="left"))

    def precision(self, score):
        rows = self.rows(score)
        return self.positive[rows] / max(rows, 1)

    def recall(self, score):
        return self.positive[self.rows(score)] / self.positive[-1]

    def false_positives(self, score):
        rows, size = self.rows(score), len(self.score)
        return (rows - self.positive[rows]) / (size - self.positive[-1])

    def profit(self, score):
        return self.gain[self.rows(score)] / len(self.score)


def guaranteed(positive, score, truth):
    """Whether each guarantee holds, and the rows above its threshold; None where none was made."""
    wanted = {
        "precision at least 0.5": (
            lambda: threshold_at_precision(positive, score, min_precision=0.5).score,
            lambda cut: truth.precision(cut) >= 0.5,
        ),
        "precision at least 0.8": (
            lambda: threshold_at_precision(positive, score, min_precision=0.8).score,
            lambda cut: truth.precision(cut) >= 0.8,
        ),
        f"precision at least 0.5{OBSERVED}": (
            lambda: longest_observed(positive, score, 0.5),
            lambda cut: truth.precision(cut) >= 0.5,
        ),
        "recall at least 0.8": (
            lambda: threshold_at_recall(positive, score, min_recall=0.8).score,
            lambda cut: truth.recall(cut) >= 0.8,
        ),
        "false positives at most 0.02": (
            lambda: threshold_at_fpr(score[~positive], max_fpr=0.02).score,
            lambda cut: truth.false_positives(cut) <= 0.02,
        ),
    }
    for name, (find, holds) in wanted.items():
        try:
            cut = find()
        except NoGuarantee:
            yield name, None, 0.0
        else:
            yield name, holds(cut), float((score > cut).sum())


def longest_observed(positive, score, precision):
    """The threshold of the longest list that has the observed precision, without a guarantee."""
    curve = top_curve(positive, score)
    good = np.flatnonzero(curve.true_positives[1:-1] >= precision * curve.depth[1:-1])
    if not len(good):
        raise NoGuarantee("no list has that precision.")
    return curve.thresholds[good[-1] + 2]


def forecasts(positive, score, value, fresh, truth, rng):
    """Whether intervals hold what rows drawn anew, or the population, have."""
    new_positive, new_score = fresh
    daily = threshold_for_budget(
        score, budget=BUDGET, rows_per_day=ROWS_PER_DAY, confidence=0.95
    ).score
    yield "rows a day within the budget", (new_score > daily).sum() <= BUDGET, (score > daily).sum()
    usual = threshold_for_budget(score, budget=BUDGET, rows_per_day=ROWS_PER_DAY).score
    hits = positives_above(positive, score, usual, rows=ROWS_PER_DAY)
    found = (new_positive & (new_score > usual)).sum()
    yield "true positives a day above the budget's score", *_held(hits, found)
    best = np.lexsort((rng.random(len(new_score)), -new_score))
    lists = positives_in_first(positive, score, LENGTHS, rows=ROWS_PER_DAY, draws=DRAWS)
    for length, hits in zip(LENGTHS, lists, strict=True):
        yield (
            f"true positives in the first {length}",
            *_held(hits, new_positive[best[:length]].sum()),
        )
    gain = best_length(positive, score, value=value, cost=1.0, draws=DRAWS)
    yield "profit at the best length", *_held(gain.expected, len(score) * truth.profit(gain.score))
    hits = positives_above(positive, score, gain.score, rows=ROWS_PER_DAY)
    found = (new_positive & (new_score > gain.score)).sum()
    yield "true positives a day above that length's score", *_held(hits, found)


def _held(interval, target):
    slack = 1e-9 * max(1.0, abs(target))
    inside = interval.low - slack <= target <= interval.high + slack
    return inside, interval.high - interval.low


def judged(case, lists, seed=0):
    """Rows of the table for one kind of list."""
    rng = np.random.default_rng(seed)
    positive, score, value = case.population(rng)
    truth = Truth.of(positive, score, value, cost=1.0)
    found = {}
    for _ in range(lists):
        at, new = (rng.integers(POPULATION, size=size) for size in (case.n_rows, ROWS_PER_DAY))
        fresh = positive[new], score[new]
        results = [
            *guaranteed(positive[at], score[at], truth),
            *forecasts(positive[at], score[at], value[at], fresh, truth, rng),
        ]
        for name, held, size in results:
            found.setdefault(name, []).append(_noted(held, size))
    about = [case.kind, case.n_rows, round(case.share * case.n_rows)]
    return [[*about, *_row(name, results)] for name, results in found.items()]


def _noted(held, size):
    """Whether something was said, whether it held, and its size; silence breaks nothing."""
    return held is not None, held is None or bool(held), size


def _row(name, results):
    made, held, size = np.array(results, float).T
    mean = round(float(size[made > 0].mean()), 4) if made.any() else ""
    return [name, 0.95, round(float(held.mean()), 4), round(float(made.mean()), 4), mean]


def grouped(n_groups, rng):
    """Groups that differ in size and in their share of positives."""
    sizes = rng.integers(5, 60, n_groups)
    group = np.repeat(np.arange(n_groups), sizes)
    positive = rng.random(len(group)) < rng.beta(0.5, 4, n_groups)[group]
    return positive, np.round(2 * (rng.normal(size=len(group)) + 1.5 * positive)) / 2, group


def groups_judged(n_groups, lists, seed=0):
    """The same for means over groups."""
    rng = np.random.default_rng(seed)
    given = {"budget": 5, "value": 10, "cost": 1}
    many = grouped_lists(*grouped(20_000, rng), **given)
    target = {name: np.nanmean(values) for name, values in many.metrics.items()}
    found = {name: [] for name in target}
    for _ in range(lists):
        means = group_means(grouped_lists(*grouped(n_groups, rng), **given), draws=DRAWS)
        for name in target:
            held, width = _held(means[name].mean, target[name]) if name in means else (None, 0.0)
            found[name].append(_noted(held, width))
    return [
        [f"{n_groups} groups", "", "", *_row(f"mean {name}", results)]
        for name, results in found.items()
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lists", type=int, default=400)
    given = parser.parse_args()
    rows = [row for case in CASES for row in judged(case, given.lists)]
    rows += [row for count in (8, 20, 100) for row in groups_judged(count, given.lists)]
    common.report("guarantees", COLUMNS, rows)
    ours = [row[5] for row in rows if not row[3].endswith(OBSERVED)]
    print(f"Least share held: {min(ours):.3f} of {given.lists} lists a line.")


if __name__ == "__main__":
    main()
