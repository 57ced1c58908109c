"""Many rankers on many sets: ranks, and tests that know how many comparisons were made.

Demsar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 7, 2006, for ranks and
critical differences; Nadeau and Bengio, Inference for the Generalization Error, Machine Learning
52, 2003, for splits that overlap.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from toppush.types import Array, Where


@dataclass(frozen=True)
class Ranks:
    """Ranks of rankers on sets by one measure, 1 the best.

    Attributes
    ----------
    sets, names : list of str
    means : array of shape (sets, rankers)
        The measure, more is better; nan where a ranker has no result, which ranks last.
    """

    sets: list[str]
    names: list[str]
    means: Array

    @cached_property
    def table(self) -> Array:
        """Ranks on each set; equal means share theirs."""
        known = np.where(np.isnan(self.means), -np.inf, np.round(self.means, 6))
        ranks: Array = stats.rankdata(-known, axis=1)
        return ranks

    @property
    def mean(self) -> Array:
        """Mean rank of each ranker."""
        mean: Array = self.table.mean(axis=0)
        return mean

    @property
    def n_finished(self) -> Where:
        """On how many sets each ranker has a result."""
        finished: Where = np.sum(~np.isnan(self.means), axis=0)
        return finished

    @property
    def order(self) -> list[int]:
        """Rankers from the best mean rank to the worst."""
        return [int(i) for i in np.argsort(self.mean, kind="stable")]

    def of_most(self) -> "Ranks":
        """Those alone that have a result on at least half of the sets, ranked anew."""
        kept = np.flatnonzero(2 * self.n_finished >= len(self.sets))
        return Ranks(self.sets, [self.names[i] for i in kept], self.means[:, kept])

    @property
    def critical_difference(self) -> float:
        """Nemenyi's at 0.05: mean ranks that are less apart may be those of equal rankers."""
        n_sets, n_rankers = self.means.shape
        quantile = stats.studentized_range.ppf(0.95, n_rankers, np.inf) / np.sqrt(2.0)
        return float(quantile * np.sqrt(n_rankers * (n_rankers + 1) / (6.0 * n_sets)))

    def groups(self) -> list[tuple[int, int]]:
        """First and last place, in `order`, of each longest run of rankers that are not apart."""
        sorted_means = self.mean[self.order]
        found: list[tuple[int, int]] = []
        for first, mean in enumerate(sorted_means):
            last = int(np.searchsorted(sorted_means, mean + self.critical_difference, "right")) - 1
            if last > first and (not found or last > found[-1][1]):
                found.append((first, last))
        return found


def overlapping_p(differences: Array, test_to_train: float) -> float:
    """Two-sided p-value of a mean of differences over splits that share their rows.

    The variance of the mean is that of a difference times 1/n + n_test/n_train.
    """
    n, spread = differences.size, float(differences.std(ddof=1))
    if spread == 0.0:
        return 1.0 if differences.mean() == 0.0 else 0.0
    t = differences.mean() / (spread * np.sqrt(1.0 / n + test_to_train))
    return float(2.0 * stats.t.sf(abs(t), n - 1))
