"""The benchmark's tables: tests on each data set and over all of them, mean ranks, and times."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property

import numpy as np

from reproduce.benchmark.cells import DONE, FEW_SPLITS, SLOW, Benchmark, Results
from reproduce.benchmark.methods import METHODS, REFERENCE
from reproduce.benchmark.pictures import Picture, draw_ranks, draw_winners
from reproduce.benchmark.splits import PROTOCOL
from reproduce.benchmark.statistics import LEVEL, Ranks, over_sets, resampled_t
from reproduce.results import Result
from reproduce.summaries import Difference
from reproduce.tables import Table
from toppush.monitor.drift import holm
from toppush.types import Array, Json

METRICS = {
    "pos_at_top": "Pos@Top",
    "recall_3": "recall at 3 false positives",
    "recall_10": "recall at 10 false positives",
    "recall_30": "recall at 30 false positives",
    "precision_100": "precision in the first 100",
    "ap": "average precision",
    "auc": "AUC",
}
DRAWN = ("pos_at_top", "recall_10", "ap")
COSTS = {"seconds_fit": "CPU s to fit", "seconds_score": "CPU s to score"}


@dataclass(frozen=True)
class Entrant:
    """A method in one of its versions, and its title in tables."""

    method: str
    version: str
    title: str


@dataclass(frozen=True)
class Tested:
    """`TopRanker` less a competitor on a data set."""

    data: str
    competitor: str
    n_splits: int
    difference: Difference
    p_holm: float
    """Corrected for all data sets."""

    @property
    def verdict(self) -> str:
        """Of TopRanker."""
        if not self.p_holm < LEVEL:
            return "tie"
        return "win" if self.difference.mean > 0.0 else "loss"


class Comparison:
    """Results of several methods, read for comparing them.

    Parameters
    ----------
    results : Results
    benchmark : Benchmark
        Names the data sets, methods, rows, threads, splits and the version of TopRanker.
    labels : sequence of str
        Further versions of TopRanker to compare with.
    """

    def __init__(self, results: Results, benchmark: Benchmark, labels: Sequence[str] = ()) -> None:
        self.benchmark = benchmark
        self.version = METHODS[REFERENCE].version(benchmark.label)
        self.entrants = list(self._entrants(labels))
        places = {(entrant.method, entrant.version): i for i, entrant in enumerate(self.entrants)}
        self.records: dict[tuple[str, int], dict[int, Json]] = defaultdict(dict)
        for cell, record in results.records.items():
            place = places.get((cell.method, cell.version))
            is_like = (cell.rows, cell.threads, cell.protocol, cell.split < benchmark.splits) == (
                benchmark.rows,
                benchmark.threads,
                PROTOCOL,
                True,
            )
            if place is not None and is_like:
                self.records[cell.data, place][cell.split] = record
        self.data = [name for name in benchmark.data if self.done(name, 0)]

    def _entrants(self, labels: Sequence[str]) -> Iterable[Entrant]:
        """The reference first."""
        keys = [REFERENCE, *(key for key in self.benchmark.methods if key != REFERENCE)]
        for key in keys:
            method = METHODS[key]
            yield Entrant(key, method.version(self.benchmark.label), method.title)
            for label in labels if method.is_ours else ():
                yield Entrant(key, label, f"{method.title} ({label})")

    def done(self, data: str, entrant: int) -> dict[int, Json]:
        """The records of the splits that have metrics."""
        records = sorted(self.records.get((data, entrant), {}).items())
        return {split: record for split, record in records if record["status"] == DONE}

    def trouble(self, data: str, entrant: int) -> str:
        """Why splits have no metrics; empty if all that were tried have."""
        records = self.records.get((data, entrant), {}).values()
        lost = [record for record in records if record["status"] != DONE]
        return f"{lost[0]['status']}: {lost[0]['message']}" if lost else ""

    def mean(self, data: str, entrant: int, key: str, only: Iterable[int] | None = None) -> float:
        """Mean of a metric or cost over the splits; NaN without any."""
        done = self.done(data, entrant)
        values = [done[split][key] for split in (done if only is None else only) if split in done]
        return float(np.mean(values)) if values else np.nan

    def tests(self, competitor: int, metric: str) -> list[Tested]:
        """TopRanker against a competitor on every data set that both have two splits of."""
        tested = []
        for data in self.data:
            ours, theirs = self.done(data, 0), self.done(data, competitor)
            common = sorted(ours.keys() & theirs.keys())
            if len(common) < 2:
                continue
            differences = np.array(
                [ours[split][metric] - theirs[split][metric] for split in common]
            )
            ratio = np.mean([ours[split]["n_test"] / ours[split]["n_train"] for split in common])
            tested.append((data, len(common), resampled_t(differences, float(ratio))))
        corrected = holm([difference.p_value for _, _, difference in tested])
        title = self.entrants[competitor].title
        return [
            Tested(data, title, n_splits, difference, p)
            for (data, n_splits, difference), p in zip(tested, corrected, strict=True)
        ]

    def set_differences(self, competitor: int, metric: str) -> Array:
        """Mean difference on every data set, over the splits that both have."""
        differences = []
        for data in self.data:
            common = self.done(data, 0).keys() & self.done(data, competitor).keys()
            if common:
                ours, theirs = (self.mean(data, i, metric, common) for i in (0, competitor))
                differences.append(ours - theirs)
        return np.array(differences)

    @cached_property
    def _ranked(self) -> tuple[list[str], list[int]]:
        """Data sets and entrants with mean ranks.

        Entrants with results on at least half of the data sets, and data sets that all of these
        were tried on. Who has no result there comes last.
        """
        everyone = range(len(self.entrants))
        done = np.array([[bool(self.done(data, i)) for i in everyone] for data in self.data])
        if not self.data:
            return [], []
        ranked = [i for i in everyone if 2 * done[:, i].sum() >= len(self.data)]
        tried = [name for name in self.data if all((name, i) in self.records for i in ranked)]
        return tried, ranked

    def ranks(self, metric: str) -> Ranks:
        """Ranks of the means over the splits that all with a result have in common."""
        data, ranked = self._ranked
        means = np.full((len(data), len(ranked)), np.nan)
        for row, name in enumerate(data):
            splits = [set(self.done(name, i)) for i in ranked if self.done(name, i)]
            common = set.intersection(*splits)
            means[row] = [self.mean(name, i, metric, common) for i in ranked]
        has_common = ~np.isnan(means).all(axis=1)
        names = [name for name, is_in in zip(data, has_common, strict=True) if is_in]
        return Ranks(names, [self.entrants[i].title for i in ranked], means[has_common])


def summarise(results: Results, benchmark: Benchmark, labels: Sequence[str] = ()) -> Result:
    """All tables and pictures of the benchmark, from the results that are there."""
    compared = Comparison(results, benchmark, labels)
    if not compared.data:
        raise ValueError(
            f"{results.path} has no results of {METHODS[REFERENCE].title} in version "
            f"{compared.version} with at most {benchmark.rows:,} rows; name a version with "
            f"--label: {', '.join(versions(results)) or 'there is none'}."
        )
    ranks = {metric: compared.ranks(metric) for metric in METRICS}
    config = {
        "version": compared.version,
        "rows": benchmark.rows,
        "threads": benchmark.threads,
        "splits": benchmark.splits,
        "data": compared.data,
    }
    return Result(
        "benchmark",
        "Benchmark: ranking at the top",
        [overall(compared, ranks), of_sets(compared), costs(compared), methods(compared)],
        pictures(compared, ranks),
        config,
        files=[means(compared), tests(compared)],
    )


def versions(results: Results) -> list[str]:
    """Versions of TopRanker that have results, the latest first."""
    latest: dict[str, str] = {}
    for cell, record in results.records.items():
        if cell.method == REFERENCE:
            latest[cell.version] = max(record["finished"], latest.get(cell.version, ""))
    return sorted(latest, key=lambda version: latest[version], reverse=True)


def overall(compared: Comparison, ranks: dict[str, Ranks]) -> Table:
    """TopRanker against every competitor by every metric, over all data sets."""
    competitors, rows = range(1, len(compared.entrants)), []
    for metric, title in METRICS.items():
        ranked = _mean_ranks(ranks[metric])
        rows.append([title, *_cells(compared, 0, ranked), *[""] * 8])
        on_sets = {i: compared.set_differences(i, metric) for i in competitors}
        over_all = {i: over_sets(values) for i, values in on_sets.items() if values.size}
        corrected = holm([difference.p_value for difference in over_all.values()])
        for (i, difference), p in zip(over_all.items(), corrected, strict=True):
            interval = (difference.mean, difference.low, difference.high)
            verdicts = [test.verdict for test in compared.tests(i, metric)]
            rows.append(
                [
                    title,
                    *_cells(compared, i, ranked),
                    *(str(verdicts.count(verdict)) for verdict in ("win", "tie", "loss")),
                    *(f"{value:+.4f}" for value in interval),
                    f"{difference.p_value:.2g}",
                    f"{p:.2g}",
                ]
            )
    return Table("benchmark-overall", "TopRanker against each competitor", OVERALL, rows,
                 _notes(ranks["ap"]), group=True)  # fmt: skip


OVERALL = ["metric", "method", "sets", "mean rank", "wins", "ties", "losses", "difference", "low",
           "high", "p", "p (Holm)"]  # fmt: skip


def _mean_ranks(ranks: Ranks) -> dict[str, float]:
    return dict(zip(ranks.names, ranks.mean, strict=True)) if ranks.sets else {}


def _cells(compared: Comparison, i: int, ranked: dict[str, float]) -> list[str]:
    title = compared.entrants[i].title
    n_sets = sum(bool(compared.done(data, i)) for data in compared.data)
    return [title, str(n_sets), f"{ranked[title]:.2f}" if title in ranked else ""]


def _notes(ranks: Ranks) -> list[str]:
    notes = [
        "Wins, ties and losses of TopRanker on data sets with at least two common splits, by the "
        f"corrected resampled t-test of Nadeau and Bengio at {LEVEL}, with Holm's correction for "
        "all data sets. Difference: TopRanker less the method, mean over the data sets with its "
        "95 % t interval. p: Wilcoxon's signed-rank test over data sets; p (Holm): corrected for "
        "all methods."
    ]
    if len(ranks.sets) > 1 and len(ranks.names) > 1:
        notes.append(
            f"Mean ranks are over the {len(ranks.sets)} data sets on which all {len(ranks.names)} "
            "methods with results on at least half of the data sets were run; a method without a "
            "result on one comes last there. Two mean ranks differ significantly at 0.05 if they "
            f"are {ranks.critical_difference:.2f} apart (Nemenyi)."
        )
    return notes


def of_sets(compared: Comparison) -> Table:
    """TopRanker and the best other method on every data set, by some metrics."""
    rows = []
    everyone = range(1, len(compared.entrants))
    others = [i for i in everyone if not METHODS[compared.entrants[i].method].is_ours]
    for data in compared.data:
        done = compared.done(data, 0)
        sizes = [f"{np.mean([record[key] for record in done.values()]):.0f}" for key in SIZES]
        row = [data, *sizes, str(len(done))]
        for metric in DRAWN:
            values = {
                i: compared.mean(data, i, metric, done) for i in others if compared.done(data, i)
            }
            best = max(values, key=lambda i: values[i], default=None)
            row.append(f"{compared.mean(data, 0, metric):.3f}")
            row.append(
                "" if best is None else f"{compared.entrants[best].title} {values[best]:.3f}"
            )
        rows.append(row)
    titles = [f"{METRICS[key]}, {who}" for key in DRAWN for who in ("TopRanker", "best other")]
    columns = ["data", *SIZES.values(), "splits", *titles]
    note = "Means over the splits; a slow method may have fewer splits than TopRanker."
    return Table("benchmark-sets", "Set by set", columns, rows, [note])


SIZES = {"n_train": "training rows", "n_pos_train": "positives", "n_columns": "columns"}


def costs(compared: Comparison) -> Table:
    """CPU seconds of each method, and relative to TopRanker."""
    rows = []
    for i, entrant in enumerate(compared.entrants):
        common = [data for data in compared.data if compared.done(data, i)]
        if not common:
            continue
        times = {key: [compared.mean(data, i, key) for data in common] for key in COSTS}
        ours = [compared.mean(data, 0, "seconds_fit") for data in common]
        ratios = np.array(times["seconds_fit"]) / np.maximum(ours, 0.01)
        middle = [f"{np.median(values):.3g}" for values in times.values()]
        most = f"{np.max(times['seconds_fit']):.3g}"
        rows.append([entrant.title, str(len(common)), *middle, most, f"{np.median(ratios):.2g}"])
    columns = ["method", "sets", *COSTS.values(), "most CPU s to fit", "fit / TopRanker"]
    note = f"Medians over the data sets; {compared.benchmark.threads} thread(s) for each method."
    return Table("benchmark-costs", "CPU seconds", columns, rows, [note])


def methods(compared: Comparison) -> Table:
    """How each method is set, its version, and why it has no results."""
    rows = []
    for i, entrant in enumerate(compared.entrants):
        method = METHODS[entrant.method]
        has_some = any(compared.done(data, i) for data in compared.data)
        why = "" if has_some else method.missing or "not run"
        version = entrant.version if method.is_ours else ""
        rows.append([entrant.title, version, method.settings, why])
    columns = ["method", "version", "settings", "without results"]
    note = (
        f"A method that takes more than {SLOW:.0f} CPU seconds for a split has {FEW_SPLITS} splits "
        "of that data set."
    )
    return Table("benchmark-methods", "The methods", columns, rows, [note])


def means(compared: Comparison) -> Table:
    """Every mean, and why splits are missing."""
    rows = []
    for data in compared.data:
        for i, entrant in enumerate(compared.entrants):
            values = [compared.mean(data, i, key) for key in (*METRICS, *COSTS)]
            shown = ["" if np.isnan(value) else f"{value:.6g}" for value in values]
            n_splits = str(len(compared.done(data, i)))
            rows.append([data, entrant.title, n_splits, *shown, compared.trouble(data, i)])
    columns = ["data", "method", "splits", *METRICS.values(), *COSTS.values(), "trouble"]
    return Table("benchmark-means", "Every mean", columns, rows)


def tests(compared: Comparison) -> Table:
    """Every paired difference on a data set, with its interval and p-values."""
    rows = []
    for metric, title in METRICS.items():
        for i in range(1, len(compared.entrants)):
            for test in compared.tests(i, metric):
                mean, low, high, p = astuple(test.difference)
                numbers = [*(f"{value:+.5f}" for value in (mean, low, high)), f"{p:.2g}"]
                rows.append([title, test.data, test.competitor, str(test.n_splits), *numbers,
                             f"{test.p_holm:.2g}", test.verdict])  # fmt: skip
    columns = ["metric", "data", "against", "splits", "difference", "low", "high", "p", "p (Holm)"]
    return Table("benchmark-tests", "Tests on each data set", [*columns, "verdict"], rows)


def pictures(compared: Comparison, ranks: dict[str, Ranks]) -> dict[str, Picture]:
    """Of the methods with mean ranks; none without at least two of them."""
    drawn = {METRICS[key]: ranks[key] for key in DRAWN}
    if any(len(ranked.names) < 2 or not ranked.sets for ranked in drawn.values()):
        return {}
    ours = {each.title for each in compared.entrants if METHODS[each.method].is_ours}
    title = METRICS["recall_10"]
    return {
        "benchmark": draw_winners(drawn[title], title, ours),
        "benchmark-ranks": draw_ranks(drawn, ours),
    }
