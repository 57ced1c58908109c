"""What is kept of columns and scores of before, and how those of now differ from it.

Of each a summary of a few hundred plain numbers, which counts new values in fixed places.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from toppush.metrics.quantile_sketch import Spread, even_levels, numbers, rounded
from toppush.monitor.drift import (
    Change,
    Limits,
    beyond_range,
    chi_square,
    fewer_than_before,
    gaps_changed,
    grouped,
    kolmogorov_smirnov,
    more_than_before,
    stability_index,
    unlike_before,
)
from toppush.thresholds.calibration import ScoreScale
from toppush.types import Array

__all__ = ["Before", "Cell", "Numbers", "Scores", "Texts", "TopPart"]

LEVELS = even_levels(50)
"""Where the knots of a column of numbers are."""
COMMON = 0.01
"""Share from which a text is a cell of its own."""
MOST_TEXTS = 60
"""Texts of a column that are kept, the most frequent ones."""
TOPS = (0.0001, 0.001, 0.01, 0.1)
"""Parts of the list, from its top, whose precision is watched."""
MOST_AT_TOP = 25.0
"""Rows above a score that training rows are worth at most: however many there are, the share of
new rows above it varies by a fifth from fit to fit (benchmarks/percentile_scores.py)."""
FEWEST_AT_TOP = 20
"""Rows that such a part must have, before and, as expected, now."""


class Cell(NamedTuple):
    """A part of a column's values, and the share of them in it."""

    name: str
    before: float
    now: float


@dataclass(frozen=True)
class Numbers:
    """What is kept of a column of numbers.

    Attributes
    ----------
    spread : Spread
        Of its values.
    gaps : float
        Share of rows without one.
    """

    spread: Spread
    gaps: float

    def nothing(self) -> Array:
        """Counts before any row was seen."""
        return np.zeros(2 * len(self.spread.knots) + 1)

    def count(self, values: Array) -> Array:
        """How many of some values are in each place."""
        return self.spread.count(values)

    def distance(self, counts: Array) -> float:
        """Greatest difference of the shares up to a value."""
        return self.spread.distance(counts)

    def cells(self, counts: Array) -> list[Cell]:
        """Neighbouring values, of about a tenth of the rows before, with both shares."""
        shares, total = self.spread.shares(), max(float(counts.sum()), 1.0)
        groups = grouped(shares)
        names = [self._named(group) for group in groups]
        before = [float(shares[group].sum()) for group in groups]
        now = [float(counts[group].sum()) / total for group in groups]
        return [Cell(*one) for one in zip(names, before, now, strict=True)]

    def changes(self, counts: Array, gaps: float, limits: Limits) -> list[Change]:
        """How the values, the gaps and the range changed."""
        total, spread = float(counts.sum()), self.spread
        index, p = values_changed(spread, counts)
        beyond = float(counts[0] + counts[-1])
        return [
            Change("values", index, limits.psi, p),
            gaps_changed(self.gaps, spread.rows, gaps, total + gaps, limits),
            Change(
                "range", beyond / max(total, 1.0), limits.share,
                beyond_range(beyond, spread.rows, total), 0.0, beyond / max(total, 1.0),
            ),
        ]  # fmt: skip

    def as_json(self) -> dict[str, object]:
        """Plain numbers."""
        return {"kind": "number", "spread": self.spread.as_json(), "gaps": self.gaps}

    @classmethod
    def from_json(cls, known: Mapping[str, object]) -> Self:
        """Undo `as_json`; refuse what is none."""
        spread = known.get("spread")
        if not isinstance(spread, Mapping):
            raise ValueError("'spread' is no table.")
        return cls(Spread.from_json(spread), share_of(known, "gaps"))

    def _named(self, group: slice) -> str:
        """The values of a group of places: a value alone, or from one to another."""
        knots = self.spread.knots
        first, last = max(group.start - 1, 0) // 2, min((group.stop - 1) // 2, len(knots) - 1)
        low, high = knots[min(first, len(knots) - 1)], knots[last]
        if group.start == 0:
            return f"up to {high:.4g}"
        if low == high:
            return f"{low:.4g}" if group.stop - group.start == 1 else f"from {low:.4g}"
        return f"{low:.4g} to {high:.4g}"


@dataclass(frozen=True)
class Texts:
    """What is kept of a column of texts.

    Attributes
    ----------
    texts : list of str
        The most frequent ones.
    shares : array
        Of the rows with a text, the share that has each of them.
    single : float
        Share of the rows whose text is in no other row; about as many rows of tomorrow will have a
        text that was never seen (Good and Turing).
    gaps, rows : float
        Share of rows without a text; and how many rows have one.
    """

    texts: list[str]
    shares: Array
    single: float
    gaps: float
    rows: float

    @classmethod
    def of(cls, texts: Sequence[str], mass: Array, gaps: float, rows: float) -> Self:
        """From the texts with what the rows of each weigh."""
        total = float(mass.sum()) or 1.0
        order = np.argsort(-mass, kind="stable")[:MOST_TEXTS]
        single = float(mass[mass <= total / max(rows, 1.0)].sum()) / total
        return cls([texts[at] for at in order], mass[order] / total, single, gaps, rows)

    def nothing(self) -> Array:
        """Counts before any row was seen: the kept texts, other known ones, unknown ones."""
        return np.zeros(len(self.texts) + 2)

    def distance(self, counts: Array) -> float:
        """Half the sum of the differences of shares: the part of the rows that would change."""
        before = np.append(self.shares, [max(1.0 - float(self.shares.sum()), 0.0), 0.0])
        return float(np.abs(before - counts / max(float(counts.sum()), 1.0)).sum() / 2.0)

    def cells(self, counts: Array) -> list[Cell]:
        """Texts that are frequent now or were, the others together, and unknown ones."""
        total = max(float(counts.sum()), 1.0)
        now = counts / total
        own = np.flatnonzero((self.shares >= COMMON) | (now[:-2] >= COMMON))
        found = [Cell(self.texts[at], float(self.shares[at]), float(now[at])) for at in own]
        rest = 1.0 - float(self.shares[own].sum()), float(now[:-1].sum() - now[own].sum())
        if max(rest) > 1e-6:
            found.append(Cell("other texts", max(rest[0], 0.0), max(rest[1], 0.0)))
        return [*found, Cell("unknown texts", 0.0, float(now[-1]))] if now[-1] else found

    def changes(self, counts: Array, gaps: float, limits: Limits) -> list[Change]:
        """How the texts and the gaps changed, and how many texts are unknown."""
        total, unknown = float(counts.sum()), float(counts[-1])
        own = np.flatnonzero(self.shares >= COMMON)
        rest = max(1.0 - float(self.shares[own].sum()), 0.0)
        before = np.append(self.shares[own], rest)
        now = np.append(counts[own], total - unknown - counts[own].sum())
        share = unknown / max(total, 1.0)
        return [
            Change(
                "values", stability_index(before, now, self.rows), limits.psi,
                chi_square(before * self.rows, now),
            ),
            gaps_changed(self.gaps, self.rows, gaps, total + gaps, limits),
            Change(
                "unknown texts", share - self.single, limits.share,
                more_than_before(self.single * self.rows, self.rows, unknown, total),
                self.single, share,
            ),
        ]  # fmt: skip

    def as_json(self) -> dict[str, object]:
        """Plain numbers and texts."""
        shares = {"single": self.single, "gaps": self.gaps, "rows": self.rows}
        return {"kind": "text", "texts": self.texts, "shares": rounded(self.shares), **shares}

    @classmethod
    def from_json(cls, known: Mapping[str, object]) -> Self:
        """Undo `as_json`; refuse what is none."""
        texts, shares = known.get("texts"), numbers(known.get("shares"), "shares")
        if not isinstance(texts, list) or len(texts) != len(shares) or (shares < 0.0).any():
            raise ValueError("'texts' and 'shares' are not of the same texts.")
        rows = float(numbers([known.get("rows")], "rows")[0])
        single, gaps = share_of(known, "single"), share_of(known, "gaps")
        return cls([str(text) for text in texts], shares, single, gaps, rows)


Before = Numbers | Texts


def share_of(known: Mapping[str, object], name: str) -> float:
    """A share of a table, or an error that names it."""
    found = float(numbers([known.get(name)], name)[0])
    if not 0.0 <= found <= 1.0:
        raise ValueError(f"{name!r} is no share.")
    return found


def values_changed(spread: Spread, counts: Array) -> tuple[float, float]:
    """The index of numbers in about ten cells, and the probability of their distance."""
    shares = spread.shares()
    groups = grouped(shares)
    before = np.array([shares[group].sum() for group in groups])
    now = np.array([counts[group].sum() for group in groups])
    p = kolmogorov_smirnov(spread.distance(counts), spread.rows, float(counts.sum()))
    return stability_index(before, now, spread.rows), p


# ---- scores


@dataclass(frozen=True)
class TopPart:
    """The rows above a score: which part of the list they were, and what they hold.

    Attributes
    ----------
    part, part_now : float
        Share of the rows before, and now.
    percentile : float
        Percentile score.
    rows : int
        Rows above it now.
    precision : float or None
        Share of positives among those of before, by out-of-fold scores; None if not known.
    found, low, high : float or None
        Share of positives among those of now, and its 95 % interval, if labels are known.
    """

    part: float
    part_now: float
    percentile: float
    rows: int
    precision: float | None
    found: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Scores:
    """Counts of the scores of now, by the places of the scores of before.

    Attributes
    ----------
    scale : ScoreScale
    counts : array
        Rows in each place.
    labelled, hits : array or None
        Rows whose label is known, and positives among them, in each place; None without labels.
    fitted, fitted_counts : Spread and array, or None
        Of the scores that the model itself gives its training rows, with counts of now. Fits to
        folds place equal rows differently, each by a little, and a model knows its own rows too
        well; scores that have moved are unlike both.
    """

    scale: ScoreScale
    counts: Array
    labelled: Array | None = None
    hits: Array | None = None
    fitted: Spread | None = None
    fitted_counts: Array | None = None

    def changes(self, limits: Limits) -> list[Change]:
        """How the scores moved, how many rows are at the top, and whether precision held there."""
        both = [values_changed(self.scale.spread, self.counts)]
        if self.fitted is not None and self.fitted_counts is not None:
            both.append(values_changed(self.fitted, self.fitted_counts))
        index, p = min(one[0] for one in both), max(one[1] for one in both)
        found = [Change("scores", index, limits.psi, p)]
        found += [self._top_change(at, limits) for at in self._knots()[-2:][:1]]
        return found + [self._precision_change(at, limits) for at in self._knots(labelled=True)]

    def parts(self) -> list[TopPart]:
        """The watched parts of the list, from its top, and all of it."""
        return [self._part(at) for at in [*self._knots(), -1]]

    def cells(self) -> list[Cell]:
        """Share of the rows by percentile score, before and now; finer at the top."""
        edges = (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.9, 100)
        places = self.scale.percentile(self.scale.spread.knots)
        middles = np.interp(np.arange(len(self.counts)), np.arange(len(places)) * 2 + 1, places)
        shares, total = self.scale.spread.shares(), max(float(self.counts.sum()), 1.0)
        cell = np.clip(np.searchsorted(edges, middles, side="left") - 1, 0, len(edges) - 2)
        before = np.bincount(cell, shares, len(edges) - 1)
        now = np.bincount(cell, self.counts / total, len(edges) - 1)
        names = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
        kept = [Cell(*one) for one in zip(names, before.tolist(), now.tolist(), strict=True)]
        return [one for one in kept if one.before > 0.0 or one.now > 0.0]

    def _knots(self, *, labelled: bool = False) -> list[int]:
        """Knots above which are the watched parts that have rows enough, the smallest first."""
        counts = self.labelled if labelled else self.counts
        if counts is None:
            return []
        spread, rows = self.scale.spread, min(self.scale.spread.rows, float(counts.sum()))
        above, found = 1.0 - spread.upto, []
        for part in TOPS:
            at = int(np.argmin(np.abs(np.log(np.maximum(above, 1e-12) / part))))
            if above[at] * rows >= FEWEST_AT_TOP and at not in found:
                found.append(at)
        return found

    def _above(self, counts: Array, at: int) -> float:
        """How many are above a knot; of -1, how many there are."""
        return float(counts.sum() if at < 0 else counts[2 * at + 2 :].sum())

    def _before(self, at: int) -> tuple[float, float]:
        """Share of the rows above a knot before, and of the positives among them."""
        if at < 0:
            return 1.0, self.scale.prevalence
        part = 1.0 - float(self.scale.spread.upto[at])
        return part, min(float(self.scale.hits[at + 1 :].sum()) / max(part, 1e-12), 1.0)

    def _percentile(self, at: int) -> float:
        return 0.0 if at < 0 else 100.0 * float(self.scale.spread.upto[at])

    def _part(self, at: int) -> TopPart:
        from scipy.stats import binomtest

        (part, precision), above = self._before(at), self._above(self.counts, at)
        total = max(float(self.counts.sum()), 1.0)
        expected = precision if self.scale.prevalence > 0.0 else None
        known = TopPart(part, above / total, self._percentile(at), round(above), expected)
        if self.labelled is None or self.hits is None or not self._above(self.labelled, at):
            return known
        rows, hits = round(self._above(self.labelled, at)), round(self._above(self.hits, at))
        interval = binomtest(hits, rows).proportion_ci(0.95)
        low, high = float(interval.low), float(interval.high)
        return replace(known, found=hits / rows, low=low, high=high)

    def _top_change(self, at: int, limits: Limits) -> Change:
        total, part = max(float(self.counts.sum()), 1.0), self._before(at)[0]
        rows = self.scale.spread.rows
        if self.fitted is not None:
            rows = min(rows, MOST_AT_TOP / max(part, 1e-12))
        above = self._above(self.counts, at)
        now = above / total
        factor = max(now, 0.5 / total) / max(part, 0.5 / rows)
        size, p = max(factor, 1.0 / factor), unlike_before(part * rows, rows, above, total)
        return Change("top", size, limits.factor, p, part, now, percentile=self._percentile(at))

    def _precision_change(self, at: int, limits: Limits) -> Change:
        assert self.labelled is not None
        assert self.hits is not None
        (part, precision), rows = self._before(at), self.scale.spread.rows
        above, hits = self._above(self.labelled, at), self._above(self.hits, at)
        now = hits / max(above, 1.0)
        lost = 1.0 - now / precision if precision > 0.0 and above else 0.0
        p = fewer_than_before(precision * part * rows, part * rows, hits, above) if above else 1.0
        limit, percentile = limits.precision, self._percentile(at)
        return Change("precision", lost, limit, p, precision, now, percentile=percentile)
