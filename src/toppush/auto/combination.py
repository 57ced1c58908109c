"""How members are combined: by greedy selection on bootstrap samples of held-out rows.

On a sample of the rows, members are added one after another, any of them again, each time the one
with which the mean of the chosen makes the best list; the mean of some such choices, each on
another sample, is the combination. A single choice is luck; see docs/auto.md for the figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toppush.auto.quality import Judge
from toppush.folds.cross_fitted import Fold, Turn, in_order, scored_in_turn
from toppush.types import Array, Mask, Where

N_SAMPLES, N_STEPS = 8, 12
"""Samples of the rows, and members chosen on each at most."""
N_OUTER_SAMPLES = 3
"""Samples for weights that only score the rows of one fold."""
MOST_ROWS = 6_000
"""Rows that samples are drawn from: those at the top of some list, and some of the others."""
LEAST_WEIGHT = 0.04
"""Members with less are left out: they cost time and change nothing."""


@dataclass(frozen=True)
class Lists:
    """Scores of the same rows by several members, standardised, a row for each member."""

    scores: Array
    positive: Mask
    weight: Array

    @property
    def is_weighted(self) -> bool:
        """Whether some rows count for more than others."""
        return bool(np.ptp(self.weight) > 0.0)

    def combined(self, weights: Array) -> Array:
        """Scores of the combination."""
        return np.asarray(weights @ self.scores)

    def part(self, where: Where) -> "Lists":
        """Some of the rows."""
        return Lists(self.scores[:, where], self.positive[where], self.weight[where])

    def sample(self, rng: np.random.Generator, most: int = MOST_ROWS) -> "Lists":
        """All rows near the top of some list, and some others that stand for the rest."""
        n_rows = len(self.positive)
        if n_rows <= most:
            return self
        per_list = most // (2 * len(self.scores))
        top = np.argpartition(-self.scores, per_list, axis=1)[:, :per_list]
        kept = np.zeros(n_rows, bool)
        kept[top] = True
        others = np.flatnonzero(~kept)
        drawn = rng.choice(others, most - int(kept.sum()), replace=False)
        weight = self.weight.copy()
        weight[drawn] *= len(others) / len(drawn)
        where = np.sort(np.append(np.flatnonzero(kept), drawn))
        return Lists(self.scores[:, where], self.positive[where], weight[where])


def choose_weights(
    lists: Lists, scoring: str | None, seed: int, n_samples: int = N_SAMPLES
) -> Array:
    """Weights of the members, not negative, with sum 1."""
    if len(lists.scores) == 1:
        return np.ones(1)
    rng = np.random.default_rng(seed)
    some = lists.sample(rng)
    total = np.zeros(len(lists.scores))
    for _ in range(n_samples):
        times = rng.poisson(1.0, len(some.positive))
        here = times > 0
        if not (some.positive[here].any() and (~some.positive[here]).any()):
            here, times = np.ones(len(times), bool), np.ones(len(times), int)
        judge = Judge(some.positive[here], (some.weight * times)[here], scoring)
        total += _greedy(some.scores[:, here], judge)
    weights = total / total.sum()
    weights[weights < LEAST_WEIGHT] = 0.0
    return np.asarray(weights / weights.sum())


def unseen_scores(
    lists: Lists, folds: Sequence[Fold], weights: Array, scoring: str | None, seed: int
) -> Array:
    """Scores of each fold's rows by weights chosen on other rows, spread as by `weights`.

    Weights chosen on all rows would make these scores optimistic.
    """
    whole = lists.combined(weights)

    def score(turn: Turn) -> Array:
        own = lists.combined(
            choose_weights(lists.part(turn.choosing), scoring, seed, N_OUTER_SAMPLES)
        )
        return in_order(whole[turn.judged], own[turn.judged])

    return scored_in_turn(folds, lists.positive, score)


def _greedy(scores: Array, judge: Judge) -> Array:
    """Shares of the members in the best of some growing means."""
    sums, counts = np.zeros(scores.shape[1]), np.zeros(len(scores))
    best, highest = counts, -np.inf
    for step in range(N_STEPS):
        quality = judge((sums + scores) / (step + 1))
        chosen = int(np.argmax(quality))
        sums, counts = sums + scores[chosen], counts + np.eye(len(scores))[chosen]
        if quality[chosen] > highest:
            highest, best = float(quality[chosen]), counts / counts.sum()
    return best
