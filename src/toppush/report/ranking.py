"""The ranking that a report is about, its numbers, and its metrics with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toppush.designs.local import one_blas_thread
from toppush.metrics import METRICS, TopCurve, top_curve
from toppush.metrics.bootstrap import Interval, MetricAt, intervals, metric_at
from toppush.metrics.paired import side_by_side
from toppush.metrics.positive_class import as_mask
from toppush.metrics.ranking import LEAST_NEGATIVES
from toppush.plots import list_lengths
from toppush.types import Array, Mask

Indices = NDArray[np.intp]
Table = Any
"""A data frame, an Arrow table or a sequence of mappings."""

KEPT_SCORES = 10_000
"""Distinct scores whose counts the page contains one by one: about 350 kB."""
PER_DECADE = 300
"""Lengths per decade that the page contains beyond those."""
N_BINS = 60
N_GROUPS = 12
FIRST_GROUP = 20
"""Rows of the first group whose observed share is drawn; the next ones are larger."""
MAX_ROWS = 1_000_000
"""Rows beyond which there are no intervals: they take half a minute for two rankings."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Rows by decreasing score; of equal scores the negatives come first, the pessimistic order.

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
        """Number of rows."""
        return len(self.score)

    @property
    def n_pos(self) -> int:
        """Number of positives."""
        return int(self.curve.n_pos)

    @property
    def n_neg(self) -> int:
        """Number of negatives."""
        return int(self.curve.n_neg)

    @property
    def prevalence(self) -> float:
        """Share of positives."""
        return self.n_pos / self.n_rows

    def hits(self, k: int) -> float:
        """Positives among the first k rows; a tie that k cuts counts in proportion."""
        return float(self.curve.positives_within(k))

    def false_alarms(self, limit: int) -> Indices:
        """Positions in the ranking, from 0, of the first negatives."""
        return np.flatnonzero(~self.positive[self.order])[:limit]

    def rows_until(self, share: float) -> int:
        """Rows from the top that contain at least a share of the positives."""
        hits, depth = self.curve.true_positives, self.curve.depth
        wanted = share * self.n_pos
        after = max(int(np.searchsorted(hits, wanted)), 1)
        part = (wanted - hits[after - 1]) / (hits[after] - hits[after - 1])
        return int(np.ceil(depth[after - 1] + part * (depth[after] - depth[after - 1]) - 1e-9))


def usual_lengths(n_rows: int) -> list[int]:
    """10, 20, 50, 100, ... and all rows."""
    steps = [digit * 10**power for power in range(1, 12) for digit in (1, 2, 5)]
    return [k for k in steps if k < n_rows] + [n_rows]


def kept_counts(ranking: Ranking) -> dict[str, object]:
    """Counts of the first k rows for the page's script, of bounded size.

    Counts at the ends of ties: for the first 10,000 distinct scores all of them, so that every k
    up to `exact` is exact, and beyond that on a logarithmic grid.
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
    """The main figures in sentences; the first is the headline."""
    hits = ranking.hits(k)
    chance, lift = k * ranking.prevalence, hits / k / ranking.prevalence
    rows = "row" if k == 1 else f"{k:,} rows"
    verb = "is" if hits == 1 else "are"
    share = f"{hits / ranking.n_pos:.1%}"
    return [
        f"Of the first {rows}, {count(hits)} {verb} positive.",
        f"That is {share} of all {ranking.n_pos:,} positives among {ranking.n_rows:,} rows. "
        f"As many random rows would contain {count(chance)} on average: the precision of the first "
        f"rows is {lift:,.1f} times the prevalence.",
        _first_alarm(ranking),
        f"Half of the positives are among the first {ranking.rows_until(0.5):,} rows, "
        f"nine in ten among the first {ranking.rows_until(0.9):,}.",
    ]


def _first_alarm(ranking: Ranking) -> str:
    before = int(ranking.false_alarms(1)[0])
    if before == 0:
        return "The highest score belongs to a false alarm."
    if before == ranking.n_pos:
        return "All positives come before the first false alarm: the ranking is perfect."
    noun = "positive comes" if before == 1 else "positives come"
    return (
        f"The first false alarm is at rank {before + 1:,}: {before:,} {noun} before it, "
        f"{before / ranking.n_pos:.1%} of all."
    )


def count(number: float) -> str:
    """A count, with a decimal if it is an average over the order of tied rows."""
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.1f}"


def score_shares(ranking: Ranking) -> tuple[Array, Array, Array]:
    """Edges of equal bins of the score, and the share of each class in each bin."""
    edges = np.histogram_bin_edges(ranking.score, bins=N_BINS)
    positives, _ = np.histogram(ranking.score[ranking.positive], edges)
    negatives, _ = np.histogram(ranking.score[~ranking.positive], edges)
    return edges, positives / ranking.n_pos, negatives / ranking.n_neg


@dataclass(frozen=True)
class ScoreGroup:
    """A group of neighbouring rows, and how many of them are positive."""

    first: int
    last: int
    lowest: float
    median: float
    """Of its rows, since there may be none in the middle of its range."""
    highest: float
    hits: int
    share: float
    low: float
    high: float


def score_groups(ranking: Ranking) -> list[ScoreGroup]:
    """Observed share of positives in groups of neighbouring rows; ties are never split.

    Group ends grow from 20 rows by a constant factor to all rows. The interval is that of
    Clopper and Pearson at 95%.
    """
    from scipy.stats import binomtest

    curve = ranking.curve
    wanted = np.geomspace(min(FIRST_GROUP, ranking.n_rows), ranking.n_rows, N_GROUPS)
    ends = np.unique(np.searchsorted(curve.depth, np.rint(wanted)))
    decreasing = ranking.score[ranking.order]
    groups, start = [], 0
    for end in ends:
        first, last = int(curve.depth[start]), int(curve.depth[end])
        rows = last - first
        hits = int(curve.true_positives[end] - curve.true_positives[start])
        interval = binomtest(hits, rows).proportion_ci(0.95)
        lowest, highest = curve.thresholds[end], curve.thresholds[start + 1]
        scores = lowest, decreasing[(first + last) // 2], highest
        groups.append(ScoreGroup(first + 1, last, *scores, hits, hits / rows, *interval))
        start = end
    return groups


def isotonic_share(ranking: Ranking) -> tuple[Array, Array]:
    """Isotonic regression of the labels: scores at which it steps, and its values."""
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
    """Lengths on a logarithmic grid, with precision and recall there."""
    lengths = list_lengths(ranking.n_rows, per_decade=120)
    hits = ranking.curve.positives_within(lengths)
    return lengths, hits / lengths, hits / ranking.n_pos


def roc_points(ranking: Ranking, *, limit: int = 600) -> tuple[Array, Array]:
    """Corners of the ROC curve, thinned to about `limit` on a logarithmic axis.

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


@dataclass(frozen=True)
class MetricRow:
    """A metric of the ranking and of its baseline, and their difference; with intervals if any."""

    name: str
    own: Interval | float
    baseline: Interval | float | None = None
    difference: Interval | float | None = None


def metrics_for(ranking: Ranking) -> dict[str, MetricAt]:
    """The metrics that a ranking of this length supports: those with a title, and at lengths."""
    (first, at_top), *others = [
        (metric.title, metric_at(name))
        for name, metric in METRICS.items()
        if metric.title and not metric.needs and ranking.n_neg >= LEAST_NEGATIVES.get(name, 1)
    ]
    metrics = {first: at_top}
    for k in (10, 100, 1000):
        if 2 * k <= ranking.n_rows:
            metrics[f"precision in the first {k:,}"] = metric_at("precision_at_k", k=k)
    for rate in (0.001, 0.01):
        if rate * ranking.n_neg >= 1:
            name = f"recall at {100 * rate:g}% false positives"
            metrics[name] = metric_at("recall_at_fpr", max_fpr=rate)
    return metrics | dict(others)


def metric_rows(ranking: Ranking, baseline: Ranking | None) -> list[MetricRow]:
    """Every metric of the ranking and its baseline, and their differences."""
    metrics = metrics_for(ranking)
    if ranking.n_rows > MAX_ROWS:
        rows = []
        for name, metric in metrics.items():
            own = float(metric.of(ranking.curve))
            other = None if baseline is None else float(metric.of(baseline.curve))
            rows.append(MetricRow(name, own, other, None if other is None else own - other))
        return rows
    # Dot products of short vectors waited for busy cores: 13 s against 1 s on 20,000 rows.
    with one_blas_thread():
        if baseline is None:
            values = intervals(ranking.positive, ranking.score, metrics)
            return [MetricRow(name, interval) for name, interval in values.items()]
        scores = {"own": ranking.score, "baseline": baseline.score}
        both = side_by_side(ranking.positive, scores, metrics)
    differences = both.differences["own", "baseline"]
    return [
        MetricRow(name, both.values["own"][name], both.values["baseline"][name], difference)
        for name, difference in differences.items()
    ]
