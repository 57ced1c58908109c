"""The quality of rankings, and greedy selection of members on samples of held-out rows.

On a sample of the rows, members are added one after another, any of them again, each time the one
with which the mean score of the chosen ranks best (Caruana et al. 2004); the mean of several such
selections, each on another sample, is the combination. A single selection is noisy; docs/auto.md
has the figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from toppush import metrics
from toppush.folds.scores import in_order, scored_in_turn
from toppush.folds.splits import Fold, Turn
from toppush.types import Array, Mask, Where

N_SAMPLES, N_STEPS = 8, 12
"""Samples of the rows, and the maximum number of members chosen on each."""
N_OUTER_SAMPLES = 3
"""Samples for weights that only score the rows of one fold."""
MOST_ROWS = 6_000
"""Rows that samples are drawn from: those at the top of some ranking, and some of the others."""
COMBINATION = "combination"
"""The name of the combination on the leaderboard."""
LEAST_WEIGHT = 0.04
"""Members with less are left out: they cost time and change nothing."""
FALSE_ALARMS = 10.0
"""Negatives before which the recall is taken."""
TINY = 1e-12
"""Weight of a ranking that begins with rows of weight 0."""


@dataclass(frozen=True)
class Quality:
    """The mean of average precision, NDCG and the recall at 10 false positives, of many rankings.

    Each of them alone depends on a handful of rows, or ignores the top. Of equal scores negatives
    come first. `weight` counts a row several times; `scoring` names another metric.
    """

    positive: Mask
    weight: Array
    scoring: str | None = None

    @cached_property
    def _negatives_last(self) -> Where:
        """Rows in an order in which the last of equal scores is ranked first."""
        return np.argsort(~self.positive, kind="stable")

    def __call__(self, scores: Array) -> Array:
        """The quality of each ranking, a row of scores each."""
        if self.scoring is not None:
            metric = metrics.METRICS[self.scoring]
            sign = -1.0 if metric.is_loss else 1.0
            values = [metric(self.positive, row, sample_weight=self.weight) for row in scores]
            return sign * np.array(values)
        return np.asarray(np.mean(self.parts(scores), axis=0))

    def parts(self, scores: Array) -> tuple[Array, Array, Array]:
        """Average precision, NDCG and recall at 10 false positives of each ranking."""
        rows = self._negatives_last
        order = rows[np.argsort(scores[:, rows], axis=1, kind="stable")[:, ::-1]]
        weight, positive = self.weight[order], self.positive[order]
        hits = np.cumsum(weight * positive, axis=1)
        seen = np.maximum(np.cumsum(weight, axis=1), TINY)
        n_pos = hits[:, -1:]
        share = weight * positive / n_pos
        precision = (share * hits / seen).sum(axis=1)
        recall = (share * (seen - hits < FALSE_ALARMS)).sum(axis=1)
        gain = (share * n_pos / np.log2(seen + 1.0)).sum(axis=1)
        counts = np.arange(1, int(np.ceil(n_pos.max())) + 1)
        ideal = np.interp(n_pos[:, 0], counts, np.cumsum(1.0 / np.log2(counts + 1.0)))
        return precision, np.asarray(np.minimum(gain / ideal, 1.0)), recall


@dataclass(frozen=True)
class MemberScores:
    """Standardised scores of the same rows by several members, a row for each member."""

    scores: Array
    positive: Mask
    weight: Array

    @property
    def is_weighted(self) -> bool:
        """Whether row weights differ."""
        return bool(np.ptp(self.weight) > 0.0)

    def part(self, where: Where) -> "MemberScores":
        """Some of the rows."""
        return MemberScores(self.scores[:, where], self.positive[where], self.weight[where])

    def sample(self, rng: np.random.Generator, most: int = MOST_ROWS) -> "MemberScores":
        """All rows near the top of some ranking, and a weighted sample of the others."""
        n_rows = len(self.positive)
        if n_rows <= most:
            return self
        per_member = most // (2 * len(self.scores))
        top = np.argpartition(-self.scores, per_member, axis=1)[:, :per_member]
        kept = np.zeros(n_rows, bool)
        kept[top] = True
        others = np.flatnonzero(~kept)
        drawn = rng.choice(others, most - int(kept.sum()), replace=False)
        weight = self.weight.copy()
        weight[drawn] *= len(others) / len(drawn)
        where = np.sort(np.append(np.flatnonzero(kept), drawn))
        return MemberScores(self.scores[:, where], self.positive[where], weight[where])


def choose_weights(
    members: MemberScores, scoring: str | None, seed: int, n_samples: int = N_SAMPLES
) -> Array:
    """Weights of the members, not negative, with sum 1."""
    if len(members.scores) == 1:
        return np.ones(1)
    rng = np.random.default_rng(seed)
    some = members.sample(rng)
    total = np.zeros(len(members.scores))
    for _ in range(n_samples):
        times = rng.poisson(1.0, len(some.positive))
        here = times > 0
        if not (some.positive[here].any() and (~some.positive[here]).any()):
            here, times = np.ones(len(times), bool), np.ones(len(times), int)
        quality = Quality(some.positive[here], (some.weight * times)[here], scoring)
        total += _greedy(some.scores[:, here], quality)
    weights = total / total.sum()
    weights[weights < LEAST_WEIGHT] = 0.0
    return np.asarray(weights / weights.sum())


def unseen_scores(
    members: MemberScores, folds: Sequence[Fold], weights: Array, scoring: str | None, seed: int
) -> Array:
    """Scores of each fold's rows by weights chosen on other rows, distributed as by `weights`.

    Weights chosen on all rows would make these scores optimistic.
    """
    whole = weights @ members.scores

    def score(turn: Turn) -> Array:
        chosen = choose_weights(members.part(turn.choosing), scoring, seed, N_OUTER_SAMPLES)
        own = chosen @ members.scores
        return in_order(whole[turn.judged], own[turn.judged])

    return scored_in_turn(folds, members.positive, score)


def _greedy(scores: Array, quality: Quality) -> Array:
    """Weights of the members in the best of the means after each step."""
    sums, counts = np.zeros(scores.shape[1]), np.zeros(len(scores))
    best, highest = counts, -np.inf
    for step in range(N_STEPS):
        values = quality((sums + scores) / (step + 1))
        chosen = int(np.argmax(values))
        sums, counts = sums + scores[chosen], counts + np.eye(len(scores))[chosen]
        if values[chosen] > highest:
            highest, best = float(values[chosen]), counts / counts.sum()
    return best
