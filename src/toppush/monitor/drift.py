"""What has moved between rows of before and rows of now: columns, scores, the top of the list.

A change counts if it is large and if it is no luck. Large is an effect size: the population
stability index of a column's values (sum over cells of (now - before) log(now / before)), a
difference of shares, a factor. No luck is a two-sample test, of Kolmogorov and Smirnov for numbers,
chi-square for texts, exact for shares, corrected for all tests together by Holm's method: if
nothing moved, the chance of any alarm is at most `alpha`. With many rows everything is significant,
so the test alone would alarm at nothing; with few rows every index is large, so the index alone
would too.

All of it works on counts between knots (`Spread`), so rows may come in batches and nothing of row
length is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from toppush.types import Array

__all__ = [
    "Change",
    "Limits",
    "chi_square",
    "holm",
    "judged",
    "kolmogorov_smirnov",
    "more_than_before",
    "stability_index",
]

CELLS = 10
"""Cells of about equal share that an index of numbers compares."""
FEWEST_EXPECTED = 5.0
"""Rows that a cell of a chi-square test must expect; rarer ones are joined."""


@dataclass(frozen=True)
class Limits:
    """From where on a change counts.

    Attributes
    ----------
    psi : float
        Population stability index of a column's values, or of the scores. By custom 0.1 is a
        change to look at, 0.25 a large one.
    share : float
        How much the share of gaps, of unknown texts, or of values beyond the range of training may
        rise or fall.
    factor : float
        How many times as many, or as few, rows may score at the top as in training.
    precision : float
        Part of the precision at the top that may be lost: 0.2 is from 50 % to 40 %.
    alpha : float
        Chance of any alarm if nothing moved.
    """

    psi: float = 0.1
    share: float = 0.02
    factor: float = 2.0
    precision: float = 0.2
    alpha: float = 0.01


@dataclass(frozen=True)
class Change:
    """What was before, what is now, and whether that counts.

    Attributes
    ----------
    what : {"values", "gaps", "unknown texts", "range", "scores", "top", "precision"}
    effect : float
        How large it is: an index, a difference of shares, a factor, a part lost.
    limit : float
        The effect from which it counts.
    p : float
        Probability of such a difference if nothing moved; after `judged` corrected for all tests.
    before, now : float or None
        The shares that are compared, if it is about shares.
    column : str or None
    percentile : float or None
        Of a change at the top of the list: the percentile score above which it is.
    moved : bool
        Whether it is large and no luck; set by `judged`.
    """

    what: str
    effect: float
    limit: float
    p: float
    before: float | None = None
    now: float | None = None
    column: str | None = None
    percentile: float | None = None
    moved: bool = False

    @property
    def is_large(self) -> bool:
        """Whether it would count if it were no luck."""
        return self.effect >= self.limit


# ---- how large a change is


def stability_index(before: Array, now: Array, rows: float) -> float:
    """Population stability index of counts `now` against shares `before` of so many rows.

    Half a row is added to every cell, so that an empty one does not make it infinite.
    """
    if len(before) < 2 or now.sum() <= 0.0:
        return 0.0
    then = (before * rows + 0.5) / (rows + 0.5 * len(before))
    here = (now + 0.5) / (float(now.sum()) + 0.5 * len(now))
    return float(np.sum((here - then) * np.log(here / then)))


def grouped(shares: Array, cells: int = CELLS) -> list[slice]:
    """Neighbouring places joined until they hold a tenth; a value that holds one stays alone."""
    found, start, held = [], 0, 0.0
    for place, share in enumerate(shares.tolist()):
        if share * cells >= 1.0 and held > 0.0:
            found.append(slice(start, place))
            start, held = place, 0.0
        held += share
        if held * cells >= 1.0:
            found.append(slice(start, place + 1))
            start, held = place + 1, 0.0
    if held > 0.0 or not found:
        found.append(slice(start, len(shares)))
    return [*found[:-1], slice(found[-1].start, len(shares))]


def gaps_changed(
    before: float, values_before: float, gaps: float, rows: float, limits: Limits
) -> Change:
    """The share of gaps, of a column that had so many values; and gaps of so many rows now."""
    rows_before = values_before / max(1.0 - before, 1e-12)
    now = gaps / max(rows, 1.0)
    p = unlike_before(before * rows_before, rows_before, gaps, rows)
    return Change("gaps", abs(now - before), limits.share, p, before, now)


# ---- whether it may be luck


def kolmogorov_smirnov(distance: float, before: float, now: float) -> float:
    """Probability of such a distance of two samples of these sizes of the same values; at most.

    By the limit of large samples, as Stephens corrects it for small ones.
    """
    from scipy.special import kolmogorov

    if min(before, now) < 1.0:
        return 1.0
    root = np.sqrt(before * now / (before + now))
    return float(kolmogorov((root + 0.12 + 0.11 / root) * distance))


def chi_square(before: Array, now: Array) -> float:
    """Probability of counts as unlike as these in the same cells; rare cells are joined."""
    from scipy.special import chdtrc

    both = np.stack([before, now])
    share = both.sum(axis=1) / max(float(both.sum()), 1.0)
    rare = both.sum(axis=0) * float(share.min()) < FEWEST_EXPECTED
    both = np.column_stack([both[:, ~rare], both[:, rare].sum(axis=1)])
    both = both[:, both.sum(axis=0) > 0.0]
    if both.shape[1] < 2 or (both.sum(axis=1) < 1.0).any():
        return 1.0
    expected = np.outer(both.sum(axis=1), both.sum(axis=0)) / both.sum()
    return float(chdtrc(both.shape[1] - 1, float(np.sum((both - expected) ** 2 / expected))))


def more_than_before(hits_before: float, before: float, hits: float, now: float) -> float:
    """Probability of so many hits now, or more, if their share is as before (Fisher's test)."""
    from scipy.stats import hypergeom

    rows, drawn, found = round(before) + round(now), round(now), round(hits_before) + round(hits)
    return float(hypergeom.sf(round(hits) - 1, rows, min(found, rows), drawn)) if drawn else 1.0


def fewer_than_before(hits_before: float, before: float, hits: float, now: float) -> float:
    """Probability of so few hits now, or fewer, if their share is as before (Fisher's test)."""
    return more_than_before(before - hits_before, before, now - hits, now)


def unlike_before(hits_before: float, before: float, hits: float, now: float) -> float:
    """Probability of a share so unlike, in either direction."""
    ends = (test(hits_before, before, hits, now) for test in (more_than_before, fewer_than_before))
    return min(1.0, 2.0 * min(ends))


def beyond_range(beyond: float, before: float, now: float) -> float:
    """Probability of so many values beyond the least and the greatest of before, or more.

    Of n values, the part of all that lies beyond both ends is Beta(2, n - 1), whatever they are.
    """
    from scipy.stats import betabinom

    if beyond < 1.0 or before < 2.0:
        return 1.0
    return float(betabinom.sf(round(beyond) - 1, round(now), 2.0, before - 1.0))


def judged(changes: Sequence[Change], alpha: float) -> list[Change]:
    """The same with p corrected for all of them, and with those marked that are large and no luck.

    Effects decide; the test keeps luck out.
    """
    corrected = holm([one.p for one in changes])
    return [
        replace(one, p=p, moved=bool(one.is_large and p <= alpha))
        for one, p in zip(changes, corrected, strict=True)
    ]


def holm(p: Sequence[float]) -> list[float]:
    """Probabilities corrected for there being many, by Holm's method.

    >>> from toppush.monitor.drift import holm
    >>> holm([0.01, 0.5, 0.02])
    [0.03, 0.5, 0.04]
    """
    order = np.argsort(p, kind="stable")
    found = np.empty(len(p))
    times = np.arange(len(p), 0, -1)
    found[order] = np.minimum(np.maximum.accumulate(np.asarray(p, float)[order] * times), 1.0)
    return [float(one) for one in found]
