"""The list that a report is about, and the numbers that are read off it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toppush.metrics import TopCurve, top_curve
from toppush.metrics.labels import as_mask
from toppush.plots import list_lengths
from toppush.types import Array, Mask

Indices = NDArray[np.intp]
Table = Any
"""A data frame, an Arrow table or a sequence of mappings, of packages that may be missing."""

KEPT_SCORES = 10_000
"""Distinct scores whose counts the page holds one by one: about 350 kB."""
PER_DECADE = 300
"""List lengths per decade that the page holds beyond those."""
N_BINS = 60
N_GROUPS = 12
FIRST_GROUP = 20
"""Rows of the first group whose observed share is drawn; the next ones are larger."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Rows by falling score; of equal scores the negatives come first, so no tie flatters.

    Attributes
    ----------
    positive : array of shape (n_rows,)
    score : array of shape (n_rows,)
    order : array of shape (n_rows,)
        Row numbers, best first.
    curve : TopCurve
        Positives and negatives at or above each distinct score.
    """

    positive: Mask
    score: Array
    order: Indices
    curve: TopCurve

    @classmethod
    def of(cls, y_true: ArrayLike, y_score: ArrayLike) -> "Ranking":
        """Sort the rows; O(n log n)."""
        positive, score = as_mask(y_true), np.asarray(y_score, np.float64)
        curve = top_curve(positive, score)
        if not np.isfinite(score).all():
            raise ValueError("y_score holds infinite scores, which no axis can show; replace them.")
        listed = np.argsort(positive, kind="stable")
        order = listed[np.argsort(-score[listed], kind="stable")]
        return cls(positive, score, order, curve)

    @property
    def n_rows(self) -> int:
        """Length of the whole list."""
        return len(self.score)

    @property
    def n_pos(self) -> int:
        """Positives in the whole list."""
        return int(self.curve.n_pos)

    @property
    def n_neg(self) -> int:
        """Negatives in the whole list."""
        return int(self.curve.n_neg)

    @property
    def prevalence(self) -> float:
        """Share of positives in the whole list."""
        return self.n_pos / self.n_rows

    def hits(self, k: int) -> float:
        """Positives among the first k rows; a tie that k cuts counts in proportion."""
        return float(self.curve.positives_within(k))

    def false_alarms(self, limit: int) -> Indices:
        """Places in the list, from 0, of the first negatives."""
        return np.flatnonzero(~self.positive[self.order])[:limit]

    def rows_until(self, share: float) -> int:
        """Rows from the top that hold at least a share of the positives."""
        hits, depth = self.curve.true_positives, self.curve.depth
        wanted = share * self.n_pos
        after = max(int(np.searchsorted(hits, wanted)), 1)
        part = (wanted - hits[after - 1]) / (hits[after] - hits[after - 1])
        return int(np.ceil(depth[after - 1] + part * (depth[after] - depth[after - 1]) - 1e-9))


def usual_lengths(n_rows: int) -> list[int]:
    """10, 20, 50, 100, ... and the whole list."""
    steps = [one * 10**power for power in range(1, 12) for one in (1, 2, 5)]
    return [k for k in steps if k < n_rows] + [n_rows]


def kept_counts(ranking: Ranking) -> dict[str, object]:
    """What the page needs to say how good the first k rows are, of bounded size.

    Counts at the ends of ties, which are exact for every k up to `exact`: all of them for
    10,000 distinct scores, and beyond that a logarithmic grid.
    """
    curve = ranking.curve
    ends = np.arange(len(curve.true_positives))
    exact = int(curve.depth[min(KEPT_SCORES, ends[-1])])
    if ends[-1] > KEPT_SCORES:
        decades = np.log10(ranking.n_rows / exact)
        grid = np.geomspace(exact, ranking.n_rows, 2 + int(decades * PER_DECADE))
        beyond = np.searchsorted(curve.depth, np.rint(grid))
        ends = np.unique(np.concatenate([ends[: KEPT_SCORES + 1], beyond, ends[-1:]]))
    return {
        "n": ranking.n_rows,
        "positives": ranking.n_pos,
        "exact": exact,
        "depth": curve.depth[ends].astype(int).tolist(),
        "hits": curve.true_positives[ends].astype(int).tolist(),
        # JSON has no infinity; nothing is above the first end.
        "score": [None, *curve.thresholds[ends[1:]].tolist()],
    }


def headlines(ranking: Ranking, k: int) -> list[str]:
    """What a reader in a hurry should know, in sentences; the first is the headline."""
    hits = ranking.hits(k)
    chance, lift = k * ranking.prevalence, hits / k / ranking.prevalence
    rows = "row" if k == 1 else f"{k:,} rows"
    verb = "is" if hits == 1 else "are"
    share = f"{hits / ranking.n_pos:.1%}"
    return [
        f"Of the first {rows}, {count(hits)} {verb} positive.",
        f"That is {share} of all {ranking.n_pos:,} positives among {ranking.n_rows:,} rows. "
        f"As many rows in random order would hold {count(chance)} on average, so this part of the "
        f"list is {lift:,.1f} times as dense in positives as the whole.",
        _first_alarm(ranking),
        f"Half of the positives are among the first {ranking.rows_until(0.5):,} rows, "
        f"nine in ten among the first {ranking.rows_until(0.9):,}.",
    ]


def _first_alarm(ranking: Ranking) -> str:
    before = int(ranking.false_alarms(1)[0])
    if before == 0:
        return "The highest score belongs to a false alarm."
    if before == ranking.n_pos:
        return "All positives come before the first false alarm: the list is perfect."
    noun = "positive comes" if before == 1 else "positives come"
    return (
        f"The first false alarm is at rank {before + 1:,}: {before:,} {noun} before it, "
        f"{before / ranking.n_pos:.1%} of all."
    )


def count(number: float) -> str:
    """A count; a decimal shows that it is an average over the order of tied rows."""
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.1f}"


def score_shares(ranking: Ranking) -> tuple[Array, Array, Array]:
    """Edges of equal bins of the score, and the share of each class in each bin."""
    edges = np.histogram_bin_edges(ranking.score, bins=N_BINS)
    positives, _ = np.histogram(ranking.score[ranking.positive], edges)
    negatives, _ = np.histogram(ranking.score[~ranking.positive], edges)
    return edges, positives / ranking.n_pos, negatives / ranking.n_neg


@dataclass(frozen=True)
class ScoreGroup:
    """Neighbours in the list, and how many of them are positive."""

    first: int
    last: int
    lowest: float
    median: float
    """Of its rows; the middle of its range may be where none is."""
    highest: float
    hits: int
    share: float
    low: float
    high: float


def score_groups(ranking: Ranking) -> list[ScoreGroup]:
    """Observed share of positives down the list, in groups that no tie crosses.

    Group ends grow from 20 rows by a constant factor to the whole list. The interval is that of
    Clopper and Pearson at 95%.
    """
    from scipy.stats import binomtest

    curve = ranking.curve
    wanted = np.geomspace(min(FIRST_GROUP, ranking.n_rows), ranking.n_rows, N_GROUPS)
    ends = np.unique(np.searchsorted(curve.depth, np.rint(wanted)))
    falling = ranking.score[ranking.order]
    groups, start = [], 0
    for end in ends:
        first, last = int(curve.depth[start]), int(curve.depth[end])
        rows = last - first
        hits = int(curve.true_positives[end] - curve.true_positives[start])
        interval = binomtest(hits, rows).proportion_ci(0.95)
        lowest, highest = curve.thresholds[end], curve.thresholds[start + 1]
        scores = lowest, falling[(first + last) // 2], highest
        groups.append(ScoreGroup(first + 1, last, *scores, hits, hits / rows, *interval))
        start = end
    return groups


def rising_share(ranking: Ranking) -> tuple[Array, Array]:
    """The rising staircase nearest to the labels: scores at which it steps, and its heights."""
    from sklearn.isotonic import IsotonicRegression

    curve = ranking.curve
    rows, hits = np.diff(curve.depth)[::-1], np.diff(curve.true_positives)[::-1]
    scores = curve.thresholds[:0:-1]
    fitted = IsotonicRegression().fit(scores, hits / rows, sample_weight=rows)
    height = fitted.predict(scores)
    steps = np.flatnonzero(np.append(True, np.diff(height) > 0))
    steps = np.append(steps, len(scores) - 1)
    return scores[steps], height[steps]


def curve_points(ranking: Ranking) -> tuple[NDArray[np.int64], Array, Array]:
    """List lengths on a logarithmic grid, with precision and recall there."""
    lengths = list_lengths(ranking.n_rows, per_decade=120)
    hits = ranking.curve.positives_within(lengths)
    return lengths, hits / lengths, hits / ranking.n_pos


def roc_points(ranking: Ranking, *, limit: int = 600) -> tuple[Array, Array]:
    """Corners of the ROC staircase, thinned to about `limit` on a logarithmic axis.

    The last corner at each number of false alarms is kept, as `recall_at_fpr` reads it.
    """
    alarms, hits = ranking.curve.false_positives, ranking.curve.true_positives
    wanted = np.append(0, list_lengths(ranking.n_neg, per_decade=limit // 6))
    corners = np.unique(np.searchsorted(alarms, wanted, side="right") - 1)
    return alarms[corners] / ranking.n_neg, hits[corners] / ranking.n_pos


def table_records(table: Table) -> list[dict[str, object]]:
    """Rows of a data frame, an Arrow table or a sequence of mappings."""
    rows = table
    if hasattr(table, "to_dicts"):  # polars
        rows = table.to_dicts()
    elif hasattr(table, "to_pylist"):  # pyarrow
        rows = table.to_pylist()
    elif hasattr(table, "to_dict"):  # pandas
        rows = table.to_dict("records")
    if not isinstance(rows, Sequence):
        raise TypeError(
            f"preview is a {type(table).__name__}; pass a data frame or a list of dictionaries."
        )
    return [{str(name): value for name, value in row.items()} for row in rows]
