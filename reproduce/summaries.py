"""From records to the numbers of Table 2: means, deviations, paired tests, times."""

import math
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from reproduce.runner import Plan, timings
from reproduce.store import DONE, Record, Store
from toppush.files.compare import by_metric
from toppush.types import Array, Json

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
