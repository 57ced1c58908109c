"""From records to the numbers of Table 2: means, deviations, paired tests, times."""

import math
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from reproduce.runner import Plan, timings
from reproduce.store import DONE, Record, Store
from toppush.files.compare import by_metric
from toppush.types import Array, Json, Where

LEVEL = 0.9
"""Of the paper's pairwise t-test."""


@dataclass(frozen=True)
class Difference:
    """A paired comparison: other less reference, over the trials that both finished."""

    mean: float
    low: float
    high: float
    p_value: float

    @property
    def mark(self) -> str:
        """The paper's: a bullet if the reference is significantly better, a ring if worse."""
        if not self.p_value < 1.0 - LEVEL:
            return ""
        return "●" if self.mean < 0.0 else "○"


@dataclass(frozen=True)
class Summary:
    """A method on a data set.

    Attributes
    ----------
    values : dict
        Every number of a trial's result -> its values over the finished trials, in their order.
    trials : list of int
        The finished trials.
    trouble : str
        Why trials are missing, if any are.
    seconds_training : float
        CPU seconds on the full data with the setting most often chosen; nan if not measured.
    seconds_protocol : float
        CPU seconds a trial: cross-validation and the final fit, on average.
    """

    data: str
    method: str
    values: dict[str, Array]
    trials: list[int]
    trouble: str
    seconds_training: float
    seconds_protocol: float

    def against(self, reference: "Summary", measure: str) -> Difference | None:
        """Difference from the reference; None if fewer than two trials are common."""
        differences = self.differences(reference, measure)
        return paired(differences) if differences.size > 1 else None

    def differences(self, reference: "Summary", measure: str) -> Array:
        """Ours less the reference's in each trial that both finished."""
        common = sorted(set(self.trials) & set(reference.trials))
        if not common:
            return np.empty(0)
        ours = self.values[measure][[self.trials.index(trial) for trial in common]]
        theirs = reference.values[measure][[reference.trials.index(trial) for trial in common]]
        differences: Array = ours - theirs
        return differences


def paired(differences: Array) -> Difference:
    """Mean of paired differences with its t interval at `LEVEL` and two-sided p-value."""
    from scipy import stats

    mean = float(differences.mean())
    if np.ptp(differences) == 0.0:
        return Difference(mean, mean, mean, 1.0 if mean == 0.0 else 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of differences that are nearly equal
        test = stats.ttest_1samp(differences, 0.0)
    low, high = test.confidence_interval(LEVEL)
    return Difference(mean, float(low), float(high), float(test.pvalue))


def summarise(plan: Plan, store: Store) -> dict[tuple[str, str], Summary]:
    """All (data set, method) pairs of a plan that have a record."""
    trials: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in store.records(plan.configs()):
        trials[record.config["data"], record.config["method"]].append(record)
    times = defaultdict(lambda: math.nan, _training_times(plan, store))
    return {pair: _summary(*pair, found, times[pair]) for pair, found in trials.items()}


def _summary(data: str, method: str, records: Sequence[Record], seconds: float) -> Summary:
    done = sorted(
        (record for record in records if record.status == DONE),
        key=lambda record: record.config["trial"],
    )
    lost = [record for record in records if record.status != DONE]
    trouble = f"{lost[0].status} ({lost[0].message})" if lost else ""
    choosing = [r.result.get("seconds_choosing", 0.0) + r.result["seconds_fitting"] for r in done]
    return Summary(
        data,
        method,
        by_metric([_numbers(record.result) for record in done]),
        [record.config["trial"] for record in done],
        trouble,
        seconds,
        float(np.mean(choosing)) if choosing else math.nan,
    )


def _numbers(result: Json) -> dict[str, float]:
    return {key: value for key, value in result.items() if isinstance(value, float)}


def _training_times(plan: Plan, store: Store) -> dict[tuple[str, str], float]:
    return {
        (record.config["data"], record.config["method"]): record.result["seconds_training"]
        for record in store.records(timings(plan, store))
        if record.status == DONE
    }


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
