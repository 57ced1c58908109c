"""Reference profiles of columns and scores, and how rows of now differ from them.

A profile is a few hundred plain numbers; new values are counted in its bins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from toppush.metrics.quantile_sketch import QuantileSketch, even_levels, numbers, rounded
from toppush.monitor.drift import (
    Change,
    Limits,
    beyond_range,
    chi_square,
    fewer_than_before,
    grouped,
    kolmogorov_smirnov,
    missing_changed,
    more_than_before,
    stability_index,
    unlike_before,
)
from toppush.thresholds.calibration import ScoreScale
from toppush.types import Array

LEVELS = even_levels(50)
"""Of the knots of a column of numbers."""
COMMON = 0.01
"""Fraction of the rows from which a category has a bin of its own."""
MOST_CATEGORIES = 60
"""Categories of a column that are kept, the most frequent ones."""
TOPS = (0.0001, 0.001, 0.01, 0.1)
"""Parts of the list, from its top, whose precision is monitored."""
MOST_AT_TOP = 25.0
"""Effective number of training rows above a score, at most: however many there are, the fraction of
new rows above it varies by a fifth from fit to fit (benchmarks/percentile_scores.py)."""
FEWEST_AT_TOP = 20
"""Rows that such a part must have, before and, as expected, now."""


class Bin(NamedTuple):
    """Some values of a column, and the fraction of the rows that have them."""

    name: str
    before: float
    now: float


@dataclass(frozen=True)
class NumberProfile:
    """Profile of a column of numbers: a sketch of its values, and the fraction of missing ones."""

    sketch: QuantileSketch
    missing: float

    def nothing(self) -> Array:
        """Counts before any row was seen."""
        return np.zeros(2 * len(self.sketch.knots) + 1)

    def distance(self, counts: Array) -> float:
        """Kolmogorov-Smirnov distance."""
        return self.sketch.distance(counts)

    def bins(self, counts: Array) -> list[Bin]:
        """Neighbouring values, of about a tenth of the rows before."""
        fractions, total = self.sketch.fractions(), max(float(counts.sum()), 1.0)
        return [
            Bin(
                self._named(group),
                float(fractions[group].sum()),
                float(counts[group].sum()) / total,
            )
            for group in grouped(fractions)
        ]

    def changes(self, counts: Array, missing: float, limits: Limits) -> list[Change]:
        """Changes of the values, of missing values and of the range."""
        total, rows = float(counts.sum()), self.sketch.rows
        index, p = values_changed(self.sketch, counts)
        outside = float(counts[0] + counts[-1])
        fraction, p_outside = outside / max(total, 1.0), beyond_range(outside, rows, total)
        return [
            Change("values", index, limits.psi, p),
            missing_changed(self.missing, rows, missing, total + missing, limits),
            Change("range", fraction, limits.share, p_outside, 0.0, fraction),
        ]

    def as_json(self) -> dict[str, object]:
        """Plain numbers."""
        return {"kind": "number", "sketch": self.sketch.as_json(), "missing": self.missing}

    @classmethod
    def from_json(cls, table: Mapping[str, object]) -> Self:
        """The inverse of `as_json`; invalid input is refused."""
        sketch = QuantileSketch.from_json(table.get("sketch"))
        return cls(sketch, fraction_of(table, "missing"))

    def _named(self, group: slice) -> str:
        """A single value, or a range of values."""
        knots = self.sketch.knots
        first, last = max(group.start - 1, 0) // 2, min((group.stop - 1) // 2, len(knots) - 1)
        low, high = knots[min(first, len(knots) - 1)], knots[last]
        if group.start == 0:
            return f"up to {high:.4g}"
        if low == high:
            return f"{low:.4g}" if group.stop - group.start == 1 else f"from {low:.4g}"
        return f"{low:.4g} to {high:.4g}"


@dataclass(frozen=True)
class CategoryProfile:
    """Profile of a column of strings.

    Attributes
    ----------
    categories : list of str
        The most frequent ones.
    fractions : array
        Fraction of the rows with a value that have each of them.
    single : float
        Fraction of the rows whose category is in no other row; about as many new rows will have a
        category that was never seen (Good and Turing).
    missing, rows : float
        Fraction of rows without a value; and number of rows with one.
    """

    categories: list[str]
    fractions: Array
    single: float
    missing: float
    rows: float

    @classmethod
    def of(cls, categories: Sequence[str], mass: Array, missing: float, rows: float) -> Self:
        """From the categories with the total weight of each."""
        total = float(mass.sum()) or 1.0
        order = np.argsort(-mass, kind="stable")[:MOST_CATEGORIES]
        single = float(mass[mass <= total / max(rows, 1.0)].sum()) / total
        return cls([categories[at] for at in order], mass[order] / total, single, missing, rows)

    def nothing(self) -> Array:
        """Counts before any row was seen: the kept categories, other known ones, unknown ones."""
        return np.zeros(len(self.categories) + 2)

    def distance(self, counts: Array) -> float:
        """Half the sum of the differences of fractions (total variation)."""
        before = np.append(self.fractions, [max(1.0 - float(self.fractions.sum()), 0.0), 0.0])
        return float(np.abs(before - counts / max(float(counts.sum()), 1.0)).sum() / 2.0)

    def bins(self, counts: Array) -> list[Bin]:
        """Categories that are frequent now or were, the others together, and unknown ones."""
        now = counts / max(float(counts.sum()), 1.0)
        own = np.flatnonzero((self.fractions >= COMMON) | (now[:-2] >= COMMON))
        bins = [Bin(self.categories[at], float(self.fractions[at]), float(now[at])) for at in own]
        rest = 1.0 - float(self.fractions[own].sum()), float(now[:-1].sum() - now[own].sum())
        if max(rest) > 1e-6:
            bins.append(Bin("other categories", max(rest[0], 0.0), max(rest[1], 0.0)))
        return [*bins, Bin("unknown categories", 0.0, float(now[-1]))] if now[-1] else bins

    def changes(self, counts: Array, missing: float, limits: Limits) -> list[Change]:
        """Changes of the categories, of missing values and of unknown categories."""
        total, unknown = float(counts.sum()), float(counts[-1])
        own = np.flatnonzero(self.fractions >= COMMON)
        rest = max(1.0 - float(self.fractions[own].sum()), 0.0)
        before = np.append(self.fractions[own], rest)
        now = np.append(counts[own], total - unknown - counts[own].sum())
        index, p = stability_index(before, now, self.rows), chi_square(before * self.rows, now)
        fraction = unknown / max(total, 1.0)
        p_unknown = more_than_before(self.single * self.rows, self.rows, unknown, total)
        more = fraction - self.single
        return [
            Change("values", index, limits.psi, p),
            missing_changed(self.missing, self.rows, missing, total + missing, limits),
            Change("unknown categories", more, limits.share, p_unknown, self.single, fraction),
        ]

    def as_json(self) -> dict[str, object]:
        """Plain numbers and strings."""
        return {
            "kind": "category",
            "categories": self.categories,
            "fractions": rounded(self.fractions),
            "single": self.single,
            "missing": self.missing,
            "rows": self.rows,
        }

    @classmethod
    def from_json(cls, table: Mapping[str, object]) -> Self:
        """The inverse of `as_json`; invalid input is refused."""
        categories = table.get("categories")
        fractions = numbers(table.get("fractions"), "fractions")
        if not isinstance(categories, list) or len(categories) != len(fractions):
            raise ValueError("'categories' and 'fractions' are not of the same length.")
        if (fractions < 0.0).any():
            raise ValueError("'fractions' has negative numbers.")
        rows = float(numbers([table.get("rows")], "rows")[0])
        single, missing = fraction_of(table, "single"), fraction_of(table, "missing")
        return cls([str(category) for category in categories], fractions, single, missing, rows)


ColumnProfile = NumberProfile | CategoryProfile


def fraction_of(table: Mapping[str, object], name: str) -> float:
    """A fraction of a table, or an error that names it."""
    fraction = float(numbers([table.get(name)], name)[0])
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"{name!r} is not between 0 and 1.")
    return fraction


def values_changed(sketch: QuantileSketch, counts: Array) -> tuple[float, float]:
    """The stability index of numbers in about ten bins, and the p-value of their distance."""
    fractions = sketch.fractions()
    groups = grouped(fractions)
    before = np.array([fractions[group].sum() for group in groups])
    now = np.array([counts[group].sum() for group in groups])
    p = kolmogorov_smirnov(sketch.distance(counts), sketch.rows, float(counts.sum()))
    return stability_index(before, now, sketch.rows), p


# ---- scores


@dataclass(frozen=True)
class TopPart:
    """The rows above a percentile score: their fraction of the list before and now.

    `precision` is that before, by out-of-fold scores, and `observed` that now with its 95 %
    interval; None where they are not known.
    """

    part: float
    part_now: float
    percentile: float
    rows: int
    precision: float | None
    observed: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class ScoreCounts:
    """Counts of the scores of now in the bins of the scores of before.

    Attributes
    ----------
    scale : ScoreScale
    counts : array
        Rows in each bin.
    labelled, positives : array or None
        Labelled rows, and positives among them, in each bin; None without labels.
    fitted, fitted_counts : QuantileSketch and array, or None
        Of the scores that the model itself gives its training rows, with counts of now. Fold models
        score equal rows slightly differently, and a model is optimistic about its own rows; scores
        that have drifted differ from both.
    """

    scale: ScoreScale
    counts: Array
    labelled: Array | None = None
    positives: Array | None = None
    fitted: QuantileSketch | None = None
    fitted_counts: Array | None = None

    def changes(self, limits: Limits) -> list[Change]:
        """Changes of the scores, of the number of rows at the top, and of the precision there."""
        tests = [values_changed(self.scale.sketch, self.counts)]
        if self.fitted is not None and self.fitted_counts is not None:
            tests.append(values_changed(self.fitted, self.fitted_counts))
        index, p = min(test[0] for test in tests), max(test[1] for test in tests)
        return [
            Change("scores", index, limits.psi, p),
            *(self._top_change(at, limits) for at in self._knots()[-2:][:1]),
            *(self._precision_change(at, limits) for at in self._knots(labelled=True)),
        ]

    def parts(self) -> list[TopPart]:
        """The monitored parts of the list, from its top, and all of it."""
        return [self._part(at) for at in [*self._knots(), -1]]

    def bins(self) -> list[Bin]:
        """Fraction of the rows by percentile score, before and now; finer at the top."""
        edges = (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.9, 100)
        places = self.scale.percentile(self.scale.sketch.knots)
        middles = np.interp(np.arange(len(self.counts)), np.arange(len(places)) * 2 + 1, places)
        which = np.clip(np.searchsorted(edges, middles, side="left") - 1, 0, len(edges) - 2)
        before = np.bincount(which, self.scale.sketch.fractions(), len(edges) - 1)
        now = np.bincount(which, self.counts / self._total, len(edges) - 1)
        names = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
        bins = map(Bin, names, before.tolist(), now.tolist())
        return [each for each in bins if each.before > 0.0 or each.now > 0.0]

    @property
    def _total(self) -> float:
        return max(float(self.counts.sum()), 1.0)

    def _knots(self, *, labelled: bool = False) -> list[int]:
        """Knots above which are the monitored parts with enough rows, the smallest first."""
        counts = self.labelled if labelled else self.counts
        if counts is None:
            return []
        sketch, rows = self.scale.sketch, min(self.scale.sketch.rows, float(counts.sum()))
        above, knots = 1.0 - sketch.up_to, []
        for part in TOPS:
            at = int(np.argmin(np.abs(np.log(np.maximum(above, 1e-12) / part))))
            if above[at] * rows >= FEWEST_AT_TOP and at not in knots:
                knots.append(at)
        return knots

    def _above(self, counts: Array, at: int) -> float:
        """Count above a knot; for -1, the total."""
        return float(counts.sum() if at < 0 else counts[2 * at + 2 :].sum())

    def _before(self, at: int) -> tuple[float, float]:
        """Fraction of the rows above a knot before, and their precision."""
        if at < 0:
            return 1.0, self.scale.prevalence
        part = 1.0 - float(self.scale.sketch.up_to[at])
        return part, min(float(self.scale.positives[at + 1 :].sum()) / max(part, 1e-12), 1.0)

    def _percentile(self, at: int) -> float:
        return 0.0 if at < 0 else 100.0 * float(self.scale.sketch.up_to[at])

    def _part(self, at: int) -> TopPart:
        from scipy.stats import binomtest

        (part, precision), above = self._before(at), self._above(self.counts, at)
        expected = precision if self.scale.prevalence > 0.0 else None
        known = TopPart(part, above / self._total, self._percentile(at), round(above), expected)
        if self.labelled is None or self.positives is None or not self._above(self.labelled, at):
            return known
        rows, count = round(self._above(self.labelled, at)), round(self._above(self.positives, at))
        interval = binomtest(count, rows).proportion_ci(0.95)
        low, high = float(interval.low), float(interval.high)
        return replace(known, observed=count / rows, low=low, high=high)

    def _top_change(self, at: int, limits: Limits) -> Change:
        total, part, rows = self._total, self._before(at)[0], self.scale.sketch.rows
        if self.fitted is not None:
            rows = min(rows, MOST_AT_TOP / max(part, 1e-12))
        above = self._above(self.counts, at)
        now = above / total
        factor = max(now, 0.5 / total) / max(part, 0.5 / rows)
        size, p = max(factor, 1.0 / factor), unlike_before(part * rows, rows, above, total)
        return Change("top", size, limits.factor, p, part, now, percentile=self._percentile(at))

    def _precision_change(self, at: int, limits: Limits) -> Change:
        assert self.labelled is not None
        assert self.positives is not None
        (part, precision), rows = self._before(at), self.scale.sketch.rows
        above, count = self._above(self.labelled, at), self._above(self.positives, at)
        now = count / max(above, 1.0)
        lost = 1.0 - now / precision if precision > 0.0 and above else 0.0
        p = fewer_than_before(precision * part * rows, part * rows, count, above) if above else 1.0
        limit, percentile = limits.precision, self._percentile(at)
        return Change("precision", lost, limit, p, precision, now, percentile=percentile)
