"""Measures of one or two rankings of the same rows, with intervals."""

from dataclasses import dataclass

from toppush.designs.local import one_blas_thread
from toppush.metrics import METRICS
from toppush.metrics.bootstrap import Interval, MetricAt, intervals, metric_at
from toppush.metrics.paired import side_by_side
from toppush.metrics.ranking import LEAST_NEGATIVES
from toppush.report.ranking import Ranking

MAX_ROWS = 1_000_000
"""Rows beyond which there are no intervals: half a minute for two lists."""


@dataclass(frozen=True)
class Compared:
    """A measure of the ranking, of its rival, and their difference; intervals if there are any."""

    name: str
    ours: Interval | float
    theirs: Interval | float | None = None
    difference: Interval | float | None = None


def measures_for(ranking: Ranking) -> dict[str, MetricAt]:
    """The measures that a list of this length supports: those with a title, and heads of it."""
    (first, at_top), *others = [
        (one.title, metric_at(name))
        for name, one in METRICS.items()
        if one.title and not one.needs and ranking.n_neg >= LEAST_NEGATIVES.get(name, 1)
    ]
    chosen = {first: at_top}
    for k in (10, 100, 1000):
        if 2 * k <= ranking.n_rows:
            chosen[f"precision in the first {k:,}"] = metric_at("precision_at_k", k=k)
    for rate in (0.001, 0.01):
        if rate * ranking.n_neg >= 1:
            name = f"recall at {100 * rate:g}% false positives"
            chosen[name] = metric_at("recall_at_fpr", max_fpr=rate)
    return chosen | dict(others)


def compare(ranking: Ranking, rival: Ranking | None) -> list[Compared]:
    """Every measure of both lists, and their differences."""
    measures = measures_for(ranking)
    if ranking.n_rows > MAX_ROWS:
        return [_values(name, one, ranking, rival) for name, one in measures.items()]
    # Dot products of short vectors waited for busy cores: 13 s against 1 s on 20,000 rows.
    with one_blas_thread():
        if rival is None:
            alone = intervals(ranking.positive, ranking.score, measures)
            return [Compared(name, one) for name, one in alone.items()]
        both = side_by_side(
            ranking.positive, {"ours": ranking.score, "theirs": rival.score}, measures
        )
    ours, theirs = both.values["ours"], both.values["theirs"]
    apart = both.differences["ours", "theirs"]
    return [Compared(name, ours[name], theirs[name], apart[name]) for name in measures]


def _values(name: str, one: MetricAt, ranking: Ranking, rival: Ranking | None) -> Compared:
    ours = float(one.of(ranking.curve))
    if rival is None:
        return Compared(name, ours)
    theirs = float(one.of(rival.curve))
    return Compared(name, ours, theirs, ours - theirs)
