"""Tests of paired differences on one data set and over data sets, and mean ranks."""

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from reproduce.summaries import Difference
from toppush.types import Array, Where

LEVEL = 0.05
"""Of all tests."""
EQUAL = 1e-12
"""Differences that differ by less are equal but for rounding."""


def resampled_t(differences: Array, test_to_train: float) -> Difference:
    """The corrected resampled t-test of Nadeau and Bengio (2003), for splits that share rows.

    The variance of a mean of n differences is that of a difference times 1/n + n_test/n_train.
    If all differences are equal, this is not known, and the p-value is 1.

    Parameters
    ----------
    differences : array
        Of a metric on each split.
    test_to_train : float
        Test rows for each training row.
    """
    n, mean = differences.size, float(differences.mean())
    if n < 2 or np.ptp(differences) <= EQUAL:
        return Difference(mean, mean, mean, 1.0)
    error = float(differences.std(ddof=1)) * np.sqrt(1.0 / n + test_to_train)
    half = float(stats.t.ppf(1.0 - LEVEL / 2.0, n - 1)) * error
    p_value = 2.0 * float(stats.t.sf(abs(mean) / error, n - 1))
    return Difference(mean, mean - half, mean + half, p_value)


def over_sets(differences: Array) -> Difference:
    """Mean difference over data sets: t interval, and p-value of Wilcoxon's signed-rank test."""
    mean = float(differences.mean())
    if differences.size < 2 or np.ptp(differences) <= EQUAL:
        return Difference(mean, mean, mean, 1.0)
    low, high = stats.ttest_1samp(differences, 0.0).confidence_interval(1.0 - LEVEL)
    rounded = np.round(differences, 12)  # so that equal ones share a rank
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few sets with ties
        p_value = float(stats.wilcoxon(rounded).pvalue)
    return Difference(mean, float(low), float(high), p_value)


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

    def part(self, sets: Where, names: Where) -> "Ranks":
        """Some rankers on some sets, ranked anew."""
        return Ranks(
            [self.sets[i] for i in sets],
            [self.names[i] for i in names],
            self.means[np.ix_(sets, names)],
        )

    def of_most(self) -> "Ranks":
        """Those alone that have a result on at least half of the sets, ranked anew."""
        kept = np.flatnonzero(2 * self.n_finished >= len(self.sets))
        return self.part(np.arange(len(self.sets)), kept)

    @property
    def critical_difference(self) -> float:
        """Nemenyi's at 0.05: mean ranks that are less apart may be those of equal rankers."""
        n_sets, n_rankers = self.means.shape
        quantile = stats.studentized_range.ppf(0.95, n_rankers, np.inf) / np.sqrt(2.0)
        return float(quantile * np.sqrt(n_rankers * (n_rankers + 1) / (6.0 * n_sets)))

    def groups(self) -> list[tuple[int, int]]:
        """First and last place, in `order`, of each longest run of rankers that are not apart."""
        sorted_means = self.mean[self.order]
        groups: list[tuple[int, int]] = []
        for first, mean in enumerate(sorted_means):
            last = int(np.searchsorted(sorted_means, mean + self.critical_difference, "right")) - 1
            if last > first and (not groups or last > groups[-1][1]):
                groups.append((first, last))
        return groups
