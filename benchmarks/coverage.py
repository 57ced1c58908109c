"""How often the intervals of `toppush.metrics.bootstrap` hold what they are intervals of.

python -m benchmarks.coverage --lists 400

Lists are drawn from known distributions. The target is a measure's mean over fresh lists of the
same sizes, itself averaged over 4,000 of them; coverage is the share of lists whose 95% interval
holds it. For comparison: percentiles of resampled rows, the ordinary bootstrap. The last lines
are differences of two rankers on the same rows, whose noise is correlated.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from benchmarks import common
from toppush.metrics import TopCurve, top_curve
from toppush.metrics.bootstrap import intervals, metric_at
from toppush.metrics.paired import side_by_side

FRESH = 4000
DRAWS = 400
ROUNDING = 1e-9
COLUMNS = ["scores", "apart", "positives", "negatives", "measure", "mean", "coverage", "width",
           "coverage, resampled", "width, resampled"]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A distribution of positives and negatives, and how many of each a list has."""

    kind: str
    apart: float
    n_pos: int
    n_neg: int

    def draw(self, rng):
        """Which rows are positive, and their scores."""
        positive = np.arange(self.n_pos + self.n_neg) < self.n_pos
        noise = rng.standard_cauchy if self.kind == "cauchy" else rng.standard_normal
        score = noise(len(positive)) + self.apart * positive
        if self.kind == "tied":
            score = np.round(2 * score) / 2
        elif self.kind == "clump":  # positives at one place, where few negatives are above
            place = norm.isf(self.apart / self.n_neg)
            score = np.where(positive, place + 1e-6 * noise(len(positive)), score)
        elif self.kind == "wrong labels":  # two negatives in a hundred are positives
            score += self.apart * (~positive & (rng.random(len(positive)) < 0.02))
        return positive, score


CASES = [
    Case("normal", 1.0, 20, 200), Case("normal", 2.0, 10, 100), Case("normal", 2.0, 100, 500),
    Case("normal", 2.0, 20, 2000), Case("normal", 3.0, 200, 200), Case("normal", 4.0, 50, 100),
    Case("cauchy", 3.0, 50, 300), Case("tied", 2.0, 30, 300), Case("tied", 3.0, 100, 100),
    Case("clump", 1.0, 50, 200), Case("clump", 3.0, 20, 200), Case("wrong labels", 4.0, 40, 200),
]  # fmt: skip
PAIRS = [(Case("normal", 2.0, 40, 200), 1.5), (Case("normal", 2.0, 20, 300), 2.0)]


def measures_for(case):
    """One of every kind that prints an interval."""
    chosen = {
        name: metric_at(name)
        for name in ("positives_at_top", "top_loss", "top_recall", "auc", "ranking_loss",
                     "average_precision", "ndcg")
    }  # fmt: skip
    for rate in (0.01, 0.1):
        chosen[f"recall_at_fpr({rate})"] = metric_at("recall_at_fpr", max_fpr=rate)
        chosen[f"partial_auc({rate})"] = metric_at("partial_auc", max_fpr=rate)
    for k in (10, 50, case.n_pos):
        chosen[f"precision_at_k({k})"] = metric_at("precision_at_k", k=k)
    chosen["recall_at_k(50)"] = metric_at("recall_at_k", k=50)
    return chosen | {"lift_at(0.1)": metric_at("lift_at", fraction=0.1)}


def on_average(draw, measures, rng, fresh=FRESH):
    """Means of measures over fresh lists."""
    total = np.zeros(len(measures))
    for _ in range(fresh):
        curve = top_curve(*draw(rng))
        total += [one.of(curve) for one in measures.values()]
    return total / fresh


def resampled(positive, score, measures, rng):
    """Percentiles over rows drawn with replacement, each class as often as it has rows."""
    order = np.argsort(-score, kind="stable")
    positive, score = positive[order], score[order]
    weights = np.empty((DRAWS, len(score)))
    for members in (positive, ~positive):
        n = members.sum()
        weights[:, members] = rng.multinomial(n, np.full(n, 1 / n), DRAWS)
    last = np.flatnonzero(np.append(np.diff(score) != 0, True))
    sums = [np.cumsum(weights * members, axis=1)[:, last] for members in (positive, ~positive)]
    curve = TopCurve(*(np.pad(one, ((0, 0), (1, 0))) for one in sums), np.append(np.inf, score))
    return [np.quantile(one.of(curve), [0.025, 0.975]) for one in measures.values()]


def held(ends, target):
    low, high = np.transpose(ends)
    return np.array([(low - ROUNDING <= target) & (target <= high + ROUNDING), high - low], float)


def covered(case, lists, seed=0):
    """Rows of the table: for each measure its mean, and coverage and width of both intervals."""
    rng, measures = np.random.default_rng(seed), measures_for(case)
    target = on_average(case.draw, measures, rng)
    found = np.zeros((2, 2, len(measures)))
    for _ in range(lists):
        positive, score = case.draw(rng)
        ours = intervals(positive, score, measures, draws=DRAWS, seed=int(rng.integers(1 << 30)))
        found[0] += held([(one.low, one.high) for one in ours.values()], target) / lists
        found[1] += held(resampled(positive, score, measures, rng), target) / lists
    columns = zip(measures, target, *found.reshape(4, -1), strict=True)
    return [[*vars(case).values(), *map(_plain, row)] for row in columns]


def pair_covered(case, other, lists, seed=0):
    """The same for differences between two rankers; there is no second interval."""
    rng, measures = np.random.default_rng(seed), measures_for(case)
    better, worse = case, Case(case.kind, other, case.n_pos, case.n_neg)
    target = on_average(better.draw, measures, rng) - on_average(worse.draw, measures, rng)
    found = np.zeros((2, len(measures)))
    for _ in range(lists):
        positive, score = case.draw(rng)
        noise = rng.standard_normal(len(score))
        other_score = 0.8 * (score - case.apart * positive) + 0.6 * noise + other * positive
        lists, draw_seed = {"better": score, "worse": other_score}, int(rng.integers(1 << 30))
        both = side_by_side(positive, lists, measures, draws=DRAWS, seed=draw_seed)
        ends = [(one.low, one.high) for one in both.differences["better", "worse"].values()]
        found += held(ends, target) / lists
    columns = zip(measures, target, *found, strict=True)
    about = [f"difference to {other:g} apart", *list(vars(case).values())[1:]]
    return [[*about, *map(_plain, row), "", ""] for row in columns]


def _plain(cell):
    return cell if isinstance(cell, str) else round(float(cell), 4)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lists", type=int, default=400)
    given = parser.parse_args()
    rows = [row for case in CASES for row in covered(case, given.lists)]
    rows += [row for case, other in PAIRS for row in pair_covered(case, other, given.lists)]
    common.report("coverage", COLUMNS, rows)
    print(f"Least coverage: {min(row[6] for row in rows):.3f} of {given.lists} lists a line.")


if __name__ == "__main__":
    main()
