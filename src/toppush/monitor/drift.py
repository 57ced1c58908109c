"""Statistics of drift between rows of before and rows of now: columns, scores, the top of the list.

A change counts if it is large and statistically significant. Large is an effect size: the
population stability index of a column's values (sum over bins of (now - before) log(now / before)),
a difference of fractions, a factor. Significance is by a two-sample test, Kolmogorov-Smirnov for
numbers, chi-square for categories, exact for fractions, corrected for all tests together by Holm's
method: without drift the probability of any change that counts is at most `alpha`. With many rows
every difference is significant, and with few rows every index is large, so neither suffices alone.

All of it works on counts between the knots of a `QuantileSketch`, so that rows may come in batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from toppush.types import Array

BINS = 10
"""Bins of about equal size that the index of numbers compares."""
FEWEST_EXPECTED = 5.0
"""Expected rows of a bin of a chi-square test; rarer bins are joined."""


@dataclass(frozen=True)
class Limits:
    """Sizes from which a change counts.

    Attributes
    ----------
    psi : float
        Population stability index of a column's values, or of the scores. By convention 0.1 is a
        change to investigate, 0.25 a large one.
    share : float
        Difference of the fraction of missing values, of unknown categories, or of values beyond the
        range of training.
    factor : float
        Factor by which the number of rows that score at the top rises or falls.
    precision : float
        Fraction of the precision at the top that is lost: 0.2 is from 50 % to 40 %.
    alpha : float
        Probability of any change that counts if nothing drifted.
    """

    psi: float = 0.1
    share: float = 0.02
    factor: float = 2.0
    precision: float = 0.2
    alpha: float = 0.01


@dataclass(frozen=True)
class Change:
    """A statistic before and now, and whether the change counts.

    Attributes
    ----------
    what : {"values", "missing", "unknown categories", "range", "scores", "top", "precision"}
    effect : float
        Its size: an index, a difference of fractions, a factor, a fraction lost.
    limit : float
        The effect from which it counts.
    p : float
        p-value without drift; after `judged` corrected for all tests.
    before, now : float or None
        The fractions that are compared, if there are any.
    column : str or None
    percentile : float or None
        Of a change at the top of the list: the percentile score above which it is.
    drifted : bool
        Whether it is large and significant; set by `judged`.
    """

    what: str
    effect: float
    limit: float
    p: float
    before: float | None = None
    now: float | None = None
    column: str | None = None
    percentile: float | None = None
    drifted: bool = False

    @property
    def is_large(self) -> bool:
        """Whether it counts if it is significant."""
        return self.effect >= self.limit


# ---- effect sizes


def stability_index(before: Array, now: Array, rows: float) -> float:
    """Population stability index of counts `now` against fractions `before` of this many rows.

    Half a row is added to every bin, so that an empty one does not make it infinite.
    """
    if len(before) < 2 or now.sum() <= 0.0:
        return 0.0
    then = (before * rows + 0.5) / (rows + 0.5 * len(before))
    here = (now + 0.5) / (float(now.sum()) + 0.5 * len(now))
    return float(np.sum((here - then) * np.log(here / then)))


def grouped(fractions: Array, bins: int = BINS) -> list[slice]:
    """Neighbouring places joined until they hold a tenth; a value that holds one stays alone."""
    groups, start, held = [], 0, 0.0
    for place, fraction in enumerate(fractions.tolist()):
        if fraction * bins >= 1.0 and held > 0.0:
            groups.append(slice(start, place))
            start, held = place, 0.0
        held += fraction
        if held * bins >= 1.0:
            groups.append(slice(start, place + 1))
            start, held = place + 1, 0.0
    if held > 0.0 or not groups:
        groups.append(slice(start, len(fractions)))
    return [*groups[:-1], slice(groups[-1].start, len(fractions))]


def missing_changed(
    before: float, values_before: float, missing: float, rows: float, limits: Limits
) -> Change:
    """Change of the fraction of missing values, from that before and the count of now."""
    rows_before = values_before / max(1.0 - before, 1e-12)
    now = missing / max(rows, 1.0)
    p = unlike_before(before * rows_before, rows_before, missing, rows)
    return Change("missing", abs(now - before), limits.share, p, before, now)


# ---- significance


def kolmogorov_smirnov(distance: float, before: float, now: float) -> float:
    """p-value, at most, of the distance of two samples of these sizes from one distribution.

    By the limit of large samples, with Stephens' correction for small ones.
    """
    from scipy.special import kolmogorov

    if min(before, now) < 1.0:
        return 1.0
    root = np.sqrt(before * now / (before + now))
    return float(kolmogorov((root + 0.12 + 0.11 / root) * distance))


def chi_square(before: Array, now: Array) -> float:
    """p-value of two samples' counts in the same bins; rare bins are joined."""
    from scipy.special import chdtrc

    both = np.stack([before, now])
    fraction = both.sum(axis=1) / max(float(both.sum()), 1.0)
    rare = both.sum(axis=0) * float(fraction.min()) < FEWEST_EXPECTED
    both = np.column_stack([both[:, ~rare], both[:, rare].sum(axis=1)])
    both = both[:, both.sum(axis=0) > 0.0]
    if both.shape[1] < 2 or (both.sum(axis=1) < 1.0).any():
        return 1.0
    expected = np.outer(both.sum(axis=1), both.sum(axis=0)) / both.sum()
    return float(chdtrc(both.shape[1] - 1, float(np.sum((both - expected) ** 2 / expected))))


def more_than_before(count_before: float, before: float, count: float, now: float) -> float:
    """p-value of this many of the rows now, or more, by Fisher's exact test."""
    from scipy.stats import hypergeom

    rows, drawn = round(before) + round(now), round(now)
    total = min(round(count_before) + round(count), rows)
    return float(hypergeom.sf(round(count) - 1, rows, total, drawn)) if drawn else 1.0


def fewer_than_before(count_before: float, before: float, count: float, now: float) -> float:
    """p-value of this many of the rows now, or fewer, by Fisher's exact test."""
    return more_than_before(before - count_before, before, now - count, now)


def unlike_before(count_before: float, before: float, count: float, now: float) -> float:
    """p-value of a difference in either direction."""
    counts = count_before, before, count, now
    return min(1.0, 2.0 * min(more_than_before(*counts), fewer_than_before(*counts)))


def beyond_range(beyond: float, before: float, now: float) -> float:
    """p-value of this many values, or more, beyond the least and the greatest of before.

    Of n values, the fraction of all that lies beyond both ends is Beta(2, n - 1), whatever their
    distribution.
    """
    from scipy.stats import betabinom

    if beyond < 1.0 or before < 2.0:
        return 1.0
    return float(betabinom.sf(round(beyond) - 1, round(now), 2.0, before - 1.0))


def judged(changes: Sequence[Change], alpha: float) -> list[Change]:
    """The changes with corrected p-values, and `drifted` where they are large and significant."""
    corrected = holm([change.p for change in changes])
    return [
        replace(change, p=p, drifted=bool(change.is_large and p <= alpha))
        for change, p in zip(changes, corrected, strict=True)
    ]


def holm(p: Sequence[float]) -> list[float]:
    """p-values corrected for multiple tests by Holm's method.

    >>> from toppush.monitor.drift import holm
    >>> holm([0.01, 0.5, 0.02])
    [0.03, 0.5, 0.04]
    """
    order = np.argsort(p, kind="stable")
    corrected = np.empty(len(p))
    times = np.arange(len(p), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(np.asarray(p, float)[order] * times), 1.0)
    return [float(value) for value in corrected]
