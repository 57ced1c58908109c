"""Intervals of ranking metrics that hold at the top of the list and with few positives.

They are intervals of the mean of a metric over fresh lists, with as many positives and as many
negatives drawn from the same populations and scored by the same model.

Of n independent negatives, the rates of all negatives above the highest, the second, ... are
distributed like the running sums of n + 1 exponential numbers over their sum, whatever the scores'
distribution. So a draw gives each row such a weight, and one more to a negative and to a positive
that were not seen. The positions of these two rows are unknown: the lower end comes from lists with
the unseen negative at the top and the unseen positive at the bottom, the upper end from the
reverse. For the fraction of a class above one threshold this is the interval of Clopper and
Pearson, and has at least its confidence. For whole lists there is no proof: `python -m
benchmarks.coverage` simulates at least 95 % coverage at 95 % confidence everywhere, more where few
rows decide. The ordinary bootstrap, which resamples rows, never places a negative above the highest
seen; its 95 % intervals of Pos@Top hold in 52 to 92 % of the lists.

Metrics are those of `toppush.metrics`, ties included. Negatives that no positive separates are
drawn together, and draws are made in batches, so that memory stays bounded; O(draws x rows).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from toppush.metrics.curve import SLACK, TopCurve, Values, top_curve
from toppush.metrics.positive_class import as_mask
from toppush.metrics.ranking import LEAST_NEGATIVES, METRICS, Metric, named
from toppush.types import Array, Mask, Where

ENTRIES = 1 << 20
"""Entries of a matrix of draws that is in memory at a time."""
WORK = 200_000_000
"""Rows times draws, of two lists, at which the default number of draws falls as rows grow."""
NODES = 200
"""Quantiles over which the recall before a negative is averaged."""
LARGEST_CODE = np.iinfo(np.int64).max
"""Beyond it the codes of places in several lists are renumbered; four lists of 66,000 do it."""
STRIDE = 123
"""Of a lattice: every run of levels is spread evenly over all of them."""
DEPTHS = (10, 50, 100, 500, 1000, 5000, 10_000, 50_000, 100_000)
RATES = (0.0001, 0.001, 0.01, 0.1)
FRACTIONS = (0.001, 0.01, 0.1)
Panel = dict[str, tuple[str, dict[str, float]]]
"""Title of a figure -> the metric and its parameters."""


@dataclass(frozen=True)
class Interval:
    """A metric of the list, and an interval of its mean over fresh lists of the same sizes."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class MetricAt:
    """A metric of `toppush.metrics` with its parameters."""

    metric: Metric
    parameters: Mapping[str, float]

    def of(self, curve: TopCurve) -> Values:
        """Its value for a list, or for each list of a stack."""
        return self.metric.of(curve, **self.parameters)

    def expected(self, population: TopCurve) -> Values:
        """Its mean over lists of as many rows from a population, or from each of a stack.

        Metrics that depend on the place of one negative are averaged over where it may fall; for
        the others the value of the population is used.
        """
        if self.metric.places is None:
            return self.of(population)
        levels = (np.arange(NODES) + 0.5) / NODES
        places = self.metric.places(levels, round(population.n_neg), **self.parameters)
        recall = _mean_recall(population, places)
        return 1.0 - recall if self.metric.is_loss else recall


def metric_at(name: str, **parameters: float) -> MetricAt:
    """A metric with its parameters, for `intervals`; names as in `toppush.metrics`."""
    return MetricAt(named(name), parameters)


def panel(n_rows: int, n_negatives: int) -> Panel:
    """The metrics that a list of this length can show, as in ``toppush evaluate``.

    >>> from toppush.metrics.bootstrap import panel
    >>> list(panel(60, 50))[-3:]
    ['precision_at_k(50)', 'recall_at_k(50)', 'recall_at_fpr(0.1)']
    """
    wanted: Panel = {
        name: (name, {})
        for name, metric in METRICS.items()
        if not metric.needs and n_negatives >= LEAST_NEGATIVES.get(name, 1)
    }
    for rate in RATES[1:]:
        wanted[f"partial_auc({rate:g})"] = ("partial_auc", {"max_fpr": rate})
    for fraction in FRACTIONS:
        if fraction * n_rows >= 1:
            wanted[f"lift_at({fraction:g})"] = ("lift_at", {"fraction": fraction})
    for k in DEPTHS:
        if k <= n_rows:
            wanted[f"precision_at_k({k})"] = ("precision_at_k", {"k": k})
            wanted[f"recall_at_k({k})"] = ("recall_at_k", {"k": k})
    for rate in RATES:
        if rate * n_negatives >= 1:
            wanted[f"recall_at_fpr({rate:g})"] = ("recall_at_fpr", {"max_fpr": rate})
    return wanted


def chosen(n_rows: int, n_negatives: int, names: Collection[str]) -> Panel:
    """The named metrics of the panel, without duplicates."""
    known = panel(n_rows, n_negatives)
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is none of the metrics {', '.join(known)}.")
    return {name: known[name] for name in dict.fromkeys(names)}


def metrics_of(wanted: Panel) -> dict[str, MetricAt]:
    """The metrics of a panel, as `intervals` takes them."""
    return {title: metric_at(name, **given) for title, (name, given) in wanted.items()}


def _mean_recall(population: TopCurve, places: Array) -> Array:
    """Mean recall before the negatives at these places of fresh lists.

    The rate of negatives above the j-th highest of n is Beta(j, n - j + 1) and is represented by
    its quantiles. Before the negative that follows the last one, recall is 1.
    """
    from scipy.special import betaincinv

    n_neg = round(population.n_neg)
    levels = (np.arange(NODES) * STRIDE % NODES + 0.5) / NODES
    rates = betaincinv(places, np.maximum(n_neg - places + 1, 1), levels)
    limits = n_neg * np.where(places > n_neg, 1.0, rates) * SLACK
    at = [np.searchsorted(row, limits, side="right") - 1 for row in population.false_positives]
    recall = np.take_along_axis(population.true_positives, np.stack(at), axis=1).mean(axis=1)
    return np.asarray(recall / population.n_pos)


def intervals(
    y_true: ArrayLike,
    y_score: ArrayLike,
    metrics: Mapping[str, MetricAt],
    *,
    confidence: float = 0.95,
    draws: int | None = None,
    seed: int = 0,
) -> dict[str, Interval]:
    """Metrics of a list, with intervals of their means over fresh lists of the same sizes.

    Parameters
    ----------
    y_true : array of bool
        Which rows are positive.
    y_score : array
    metrics : dict
        Any names, and what `metric_at` returns.
    confidence : float, default=0.95
    draws : int, optional
        1000, and for more than 200,000 rows fewer, down to 200. Negatives that no positive
        separates count as one row here.
    seed : int, default=0

    Examples
    --------
    A perfect ranking of 50 rows does not guarantee that the next one is perfect:

    >>> import numpy as np
    >>> from toppush.metrics.bootstrap import intervals, metric_at
    >>> y, scores = np.arange(50) < 10, -np.arange(50)
    >>> top = intervals(y, scores, {"top": metric_at("positives_at_top")})["top"]
    >>> top.value, top.low < 0.1, top.high
    (1.0, True, 1.0)
    """
    positive = as_mask(y_true)
    scores = np.asarray(y_score, np.float64)
    worst, best = drawn(positive, [scores], metrics, draws, seed)
    curve = top_curve(positive, scores)
    return {
        name: interval(float(metric.of(curve)), worst[0, place], best[0, place], confidence)
        for place, (name, metric) in enumerate(metrics.items())
    }


def differences(
    own: Sequence[Mapping[str, Interval]], ends: Array, pair: tuple[int, int], confidence: float
) -> dict[str, Interval]:
    """The metrics of one list less those of another, from what `drawn` returned."""
    worst, best = ends
    i, j = pair
    return {
        name: interval(
            own[i][name].value - own[j][name].value,
            worst[i, place] - best[j, place],
            best[i, place] - worst[j, place],
            confidence,
        )
        for place, name in enumerate(own[i])
    }


def interval(value: float, worst: Array, best: Array, confidence: float) -> Interval:
    """From the outer quantiles of both ends' draws; it always contains the value."""
    edges = [(1 - confidence) / 2, (1 + confidence) / 2]
    low, high = np.quantile([worst, best], edges, axis=1)
    return Interval(float(value), float(min(value, *low)), float(max(value, *high)))


@dataclass(frozen=True)
class Cells:
    """Rows that no metric distinguishes, joined."""

    positive: Mask
    rows: Where
    """Number of rows in each cell."""
    places: Where
    """Place of each cell in each list, from 0 at the top: shape (n_lists, n_cells)."""

    @classmethod
    def of(cls, positive: Mask, lists: Sequence[Array]) -> "Cells":
        """Join the rows that have the same place in every list; O(N log N)."""
        places = np.stack([_joined_places(positive, score) for score in lists])
        codes = positive.astype(np.int64)
        for row in places:
            if codes.max() >= LARGEST_CODE // (row.max() + 1):
                codes = np.unique(codes, return_inverse=True)[1]
            codes = codes * (row.max() + 1) + row
        _, first, rows = np.unique(codes, return_index=True, return_counts=True)
        return cls(positive[first], rows, places[:, first])

    def runs(self) -> list[list["Runs"]]:
        """For each list, the runs of its positives and of its negatives."""
        classes = np.flatnonzero(self.positive), np.flatnonzero(~self.positive)
        return [[Runs.of(members, places) for members in classes] for places in self.places]

    def draw(self, draws: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Weights of the cells, and of an unseen positive and an unseen negative."""
        weights = rng.standard_gamma(self.rows, (draws, len(self.rows)))
        unseen = rng.standard_exponential((2, draws, 1))
        scales = np.empty_like(unseen)
        for place, members in enumerate((self.positive, ~self.positive)):
            drawn_of_class = (weights @ members.astype(np.float64))[:, None] + unseen[place]
            scales[place] = self.rows[members].sum() / drawn_of_class
        weights *= np.where(self.positive, *scales)
        return weights, unseen * scales


@dataclass(frozen=True)
class Runs:
    """Cells of one class sorted by their places in a list, and where each place begins."""

    order: Where
    first: Where
    places: Where
    n_places: int

    @classmethod
    def of(cls, members: Where, places: Where) -> "Runs":
        """Sort the cells."""
        order = members[np.argsort(places[members], kind="stable")]
        first = np.flatnonzero(np.append(True, np.diff(places[order]) != 0))
        return cls(order, first, places[order[first]], int(places.max()) + 1)

    def sums(self, weights: Array) -> Array:
        """Total weight at each place, for each draw.

        `take` reorders 500,000 columns in 3.7 ms, ``weights[:, order]`` in 51 ms.
        """
        sums = np.zeros((len(weights), self.n_places))
        sums[:, self.places] = np.add.reduceat(weights.take(self.order, axis=1), self.first, axis=1)
        return sums


def _joined_places(positive: Mask, score: Array) -> Where:
    """Place of each row in the list; negatives between two positives have one place."""
    order = np.argsort(-score, kind="stable")
    new = np.append(True, np.diff(score[order]) != 0)
    tie = np.cumsum(new) - 1
    mixed = np.bincount(tie, positive[order]) > 0
    begins = mixed | np.append(True, mixed[:-1])
    places = np.empty(len(score), np.int64)
    places[order] = (np.cumsum(begins) - 1)[tie]
    return places


def drawn(
    positive: Mask,
    lists: Sequence[Array],
    metrics: Mapping[str, MetricAt],
    draws: int | None,
    seed: int,
) -> Array:
    """Metrics of the worst and best populations, of shape (2, n_lists, n_metrics, draws)."""
    cells = Cells.of(positive, lists)
    work = len(cells.rows) * max(1, len(lists) - 1)
    draws = draws or int(np.clip(WORK // work, 200, 1000))
    values = np.empty((2, len(lists), len(metrics), draws))
    at_a_time = max(1, ENTRIES // len(cells.rows))
    sides = cells.runs()
    rng = np.random.default_rng(seed)
    for start in range(0, draws, at_a_time):
        now = slice(start, min(start + at_a_time, draws))
        weights, unseen = cells.draw(now.stop - start, rng)
        for side, runs in enumerate(sides):
            for end, population in enumerate(_populations(weights, unseen, cells, runs)):
                for which, metric in enumerate(metrics.values()):
                    values[end, side, which, now] = metric.expected(population)
    return values


def _populations(
    weights: Array, unseen: Array, cells: Cells, runs: Sequence[Runs]
) -> Iterator[TopCurve]:
    """The list with the unseen rows at the worst places, then at the best."""
    none = np.zeros((len(weights), 1))
    above = [np.hstack([none, np.cumsum(run.sums(weights), axis=1)]) for run in runs]
    thresholds = np.r_[np.inf, np.inf, -np.arange(runs[0].n_places), -np.inf]
    for positives, negatives in ((0.0, unseen[1]), (unseen[0], 0.0)):
        yield TopCurve(
            _whole(none, above[0] + positives, cells.rows[cells.positive].sum()),
            _whole(none, above[1] + negatives, cells.rows[~cells.positive].sum()),
            thresholds,
        )


def _whole(none: Array, above: Array, everything: float) -> Array:
    """Running sums from 0 to everything, which rounding must not exceed."""
    return np.hstack([none, np.minimum(above, everything), np.full(none.shape, everything)])
