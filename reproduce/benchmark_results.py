"""The benchmark's files, as they are read again to write a page about them."""

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean

from scipy.stats import rankdata

from reproduce.contestants import CONTESTANTS
from reproduce.datasets import CATALOGUE

OURS = CONTESTANTS["top-ranker"].title
KIND = {one.title: one.kind for one in CONTESTANTS.values()}
LEVEL = 0.05
"""Of a p-value after Holm's correction."""
NEARLY_ALL = 0.9
"""Share of a set's splits from which on a mean may be called the best."""
MANY_COLUMNS = 1000
SECONDS = "CPU s"
Row = dict[str, str]


def rows_of(path: Path) -> list[Row]:
    """The rows of a result file; an error says how it is made."""
    if not path.exists():
        made_by = path.stem.partition("-")[0]
        raise FileNotFoundError(
            f"{path} is not there; python -m reproduce {made_by} --out {path.parent} makes it."
        )
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@dataclass(frozen=True)
class Compared:
    """TopRanker less a competitor on a set, by one measure."""

    data: str
    competitor: str
    difference: float
    low: float
    high: float
    corrected: float

    @property
    def verdict(self) -> int:
        """1 if TopRanker is better by the corrected test, -1 if it is worse, else 0."""
        return 0 if self.corrected >= LEVEL else 1 if self.difference > 0 else -1


@dataclass(frozen=True)
class BenchmarkResults:
    """What is known of every ranker on every set.

    Attributes
    ----------
    means, differences, ranks : list of dict
        Rows of benchmark.csv, benchmark-differences.csv and benchmark-ranks.csv.
    """

    means: list[Row]
    differences: list[Row]
    ranks: list[Row]

    @classmethod
    def read(cls, folder: Path) -> "BenchmarkResults":
        """From the files in a folder."""
        names = ("benchmark", "benchmark-differences", "benchmark-ranks")
        return cls(*(rows_of(folder / f"{name}.csv") for name in names))

    @cached_property
    def sets(self) -> list[str]:
        """The sets on which TopRanker has a result."""
        return [row["set"] for row in self.means if row["ranker"] == OURS and int(row["splits"])]

    @cached_property
    def rankers(self) -> list[str]:
        """All that took part, in the files' order."""
        return list(dict.fromkeys(row["ranker"] for row in self.means if int(row["splits"])))

    @cached_property
    def splits(self) -> dict[str, int]:
        """Of TopRanker on each set."""
        found = {row["set"]: int(row["splits"]) for row in self.means if row["ranker"] == OURS}
        return {name: found[name] for name in self.sets}

    def n_splits(self, data: str, ranker: str) -> int:
        """How many splits a mean is of."""
        (row,) = (one for one in self.means if (one["set"], one["ranker"]) == (data, ranker))
        return int(row["splits"])

    def by_ranker(self, data: str, measure: str) -> dict[str, float]:
        """The means of all that finished a set."""
        rows = [row for row in self.means if row["set"] == data]
        return {row["ranker"]: float(row[measure]) for row in rows if row[measure]}

    def best(self, data: str, measure: str) -> str:
        """Who has the greatest mean of nearly all splits; TopRanker among equals, else the first.

        A mean of some splits may be the greatest because those were easy.
        """
        found, least = self.by_ranker(data, measure), NEARLY_ALL * self.splits[data]
        whole = [name for name in found if self.n_splits(data, name) >= least]
        return max(whole, key=lambda name: (found[name], name == OURS))

    @cached_property
    def limits(self) -> Counter[str]:
        """CPU seconds after which time was up, and how often."""
        said = [re.search(r"more than (\S+) CPU s", row["trouble"]) for row in self.means]
        return Counter(one[1] for one in said if one)

    def compared(self, measure: str) -> list[Compared]:
        """TopRanker against every competitor on every set."""
        numbers = ("difference", "low", "high", "p (Holm)")
        return [
            Compared(row["set"], row["against"], *(float(row[one]) for one in numbers))
            for row in self.differences
            if row["measure"] == measure
        ]

    def mean_ranks(
        self, measure: str, sets: Sequence[str], rankers: Sequence[str]
    ) -> dict[str, float]:
        """Mean rank among some rankers on some sets, the best first; last who did not finish."""
        table = []
        for data in sets:
            found = self.by_ranker(data, measure)
            table.append(rankdata([-found.get(one, -1.0) for one in rankers]))
        means = {one: fmean(row[i] for row in table) for i, one in enumerate(rankers)}
        return dict(sorted(means.items(), key=lambda item: item[1]))

    def of_many_columns(self, *, many: bool) -> list[str]:
        """The sets with more columns than `MANY_COLUMNS`, or with fewer."""
        return [one for one in self.sets if (_columns(one) > MANY_COLUMNS) == many]


def splits_in_words(row: Row) -> str:
    """How many splits a ranker finished on a set; if not all, how long they would take, or why."""
    few = re.search(r"only (\d+) of", row["trouble"])
    n_done = few[1] if few else row["splits"]
    if foreseen := re.search(r"about (.+?) by", row["trouble"]):
        return f"{n_done} ({foreseen[1]})"
    if n_done != "0" or not row["trouble"]:
        return n_done
    return row["trouble"].split(" (")[0]


def _columns(title: str) -> int:
    """Of a set by its title, which may say that it is a part; raw tables have few."""
    entry = CATALOGUE.get(title.partition(" (")[0])
    return 0 if entry is None else entry.size[1]
