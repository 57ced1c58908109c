"""Intervals of the measures of a ranked list that hold at its very top and for few positives.

What they are intervals of: the mean of a measure over fresh lists, with as many positives and as
many negatives drawn from where these came from, scored by the same model. That this list has the
value it has is no question; another one will differ.

How they are made: of n independent negatives, the rates of all negatives above the highest, the
second, ... are distributed like the running sums of n + 1 exponential numbers over their sum,
whatever the scores' distribution. So a draw gives each row such a weight, one more goes to a
negative and one more to a positive that were not seen, and a weighted list is one way the
population may be. Where the two unseen rows stand nobody knows. The lower end comes from lists
with the unseen negative at the top and the unseen positive at the bottom, the upper end from the
reverse. For the share of a class above one threshold this is the interval of Clopper and Pearson,
and has at least its confidence. For whole lists there is no proof: `python -m benchmarks.coverage`
simulates it, and finds at least 95 % at 95 everywhere, more where few rows decide. Resampled rows,
the ordinary bootstrap, never place a negative above the highest seen; their 95 % intervals of
Pos@Top hold in 52 to 92 % of the lists.

Measures are those of `toppush.metrics`, ties included. Negatives that no positive separates are
drawn as one, and draws are made some at a time, so that memory stays bounded; O(draws x rows).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from toppush.metrics.curve import SLACK, TopCurve, Values, top_curve
from toppush.metrics.positive import as_mask
from toppush.metrics.ranking import Metric, named
from toppush.types import Array, Mask, Where

__all__ = ["Compared", "Interval", "Measure", "compare", "intervals", "measure"]

ENTRIES = 1 << 20
"""Entries of the matrix of draws that is worked on."""
WORK = 200_000_000
"""Rows times draws, of two lists, at which the default number of draws falls as rows grow."""
NODES = 200
"""Rates over which the recall before a negative is averaged."""
LARGEST_CODE = np.iinfo(np.int64).max
"""Beyond it the places of a row in several lists are counted anew; four lists of 66,000 do it."""
STRIDE = 123
"""Of a lattice: every run of levels it visits is spread over all of them."""


@dataclass(frozen=True)
class Interval:
    """A measure of the list, and an interval of its mean over fresh lists of the same sizes."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Compared:
    """A measure of two lists of the same rows, and the first less the second."""

    first: Interval
    second: Interval
    difference: Interval


@dataclass(frozen=True)
class Measure:
    """A measure of `toppush.metrics` with its parameters."""

    metric: Metric
    parameters: Mapping[str, float]

    def of(self, curve: TopCurve) -> Values:
        """Its value for a list, or for each list of a stack."""
        return self.metric.of(curve, **self.parameters)

    def expected(self, population: TopCurve) -> Values:
        """Its mean over lists of as many rows from a population, or from each of a stack.

        Measures that hang on the place of one negative are averaged over where it may fall; for
        the others a population is as good as a list.
        """
        if self.metric.places is None:
            return self.of(population)
        levels = (np.arange(NODES) + 0.5) / NODES
        places = self.metric.places(levels, round(population.n_neg), **self.parameters)
        recall = _mean_recall(population, places)
        return 1.0 - recall if self.metric.is_loss else recall


def measure(name: str, **parameters: float) -> Measure:
    """A measure with its parameters, for `intervals`; names as in `toppush.metrics`."""
    return Measure(named(name), parameters)


def _mean_recall(population: TopCurve, places: Array) -> Array:
    """Mean recall before the negatives at these places of fresh lists.

    The rate of negatives above the j-th highest of n is Beta(j, n - j + 1); its quantiles stand
    for it. Before the negative that follows the last one, recall is 1.
    """
    from scipy.special import betaincinv

    n_neg = round(population.n_neg)
    levels = (np.arange(NODES) * STRIDE % NODES + 0.5) / NODES
    rates = betaincinv(places, np.maximum(n_neg - places + 1, 1), levels)
    limits = n_neg * np.where(places > n_neg, 1.0, rates) * SLACK
    at = [np.searchsorted(alarms, limits, side="right") - 1 for alarms in population.alarms]
    recall = np.take_along_axis(population.hits, np.stack(at), axis=1).mean(axis=1)
    return np.asarray(recall / population.n_pos)


def intervals(
    y_true: ArrayLike,
    y_score: ArrayLike,
    measures: Mapping[str, Measure],
    *,
    confidence: float = 0.95,
    draws: int | None = None,
    seed: int = 0,
) -> dict[str, Interval]:
    """Measures of a list, with intervals of their means over fresh lists of the same sizes.

    Parameters
    ----------
    y_true : array of bool
        Which rows are positive.
    y_score : array
    measures : dict
        Any names, and what `measure` returns.
    confidence : float, default=0.95
    draws : int, optional
        1000, and for more than 200,000 rows fewer, down to 200. Negatives that no positive
        separates count as one row here.
    seed : int, default=0

    Returns
    -------
    dict of Interval

    Examples
    --------
    A perfect list of 50 rows does not promise that the next one will be:

    >>> import numpy as np
    >>> from toppush.metrics.bootstrap import intervals, measure
    >>> found = intervals(np.arange(50) < 10, -np.arange(50), {"top": measure("positives_at_top")})
    >>> found["top"].value, found["top"].low < 0.1, found["top"].high
    (1.0, True, 1.0)
    """
    positive = as_mask(y_true)
    lists = [np.asarray(y_score, np.float64)]
    worst, best = drawn(positive, lists, measures, draws, seed)
    curve = top_curve(positive, lists[0])
    return {
        name: interval(float(one.of(curve)), worst[0, place], best[0, place], confidence)
        for place, (name, one) in enumerate(measures.items())
    }


def compare(
    y_true: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    measures: Mapping[str, Measure],
    *,
    confidence: float = 0.95,
    draws: int | None = None,
    seed: int = 0,
) -> dict[str, Compared]:
    """Measures of two lists of the same rows, as by `intervals`, and their differences.

    The same draws serve both lists, and the unseen rows stand well in one and badly in the other.

    Parameters
    ----------
    y_true : array of bool
        Which rows are positive.
    first, second : array
        Scores.
    measures, confidence, draws, seed
        As for `intervals`.

    Returns
    -------
    dict of Compared
    """
    positive = as_mask(y_true)
    lists = [np.asarray(score, np.float64) for score in (first, second)]
    own = [
        intervals(positive, score, measures, confidence=confidence, draws=draws, seed=seed)
        for score in lists
    ]
    ends = drawn(positive, lists, measures, draws, seed)
    apart = differences(own, ends, (0, 1), confidence)
    return {name: Compared(own[0][name], own[1][name], apart[name]) for name in measures}


def differences(
    own: Sequence[Mapping[str, Interval]], ends: Array, pair: tuple[int, int], confidence: float
) -> dict[str, Interval]:
    """The measures of one list less those of another, from what `drawn` gave for both ends."""
    worst, best = ends
    one, other = pair
    return {
        name: interval(
            own[one][name].value - own[other][name].value,
            worst[one, place] - best[other, place],
            best[one, place] - worst[other, place],
            confidence,
        )
        for place, name in enumerate(own[one])
    }


def interval(value: float, worst: Array, best: Array, confidence: float) -> Interval:
    """From the outer quantiles of both kinds of draws; which are lower depends on the measure.

    It holds the value too: a list without a positive at the top shows no mean above zero.
    """
    edges = [(1 - confidence) / 2, (1 + confidence) / 2]
    low, high = np.quantile([worst, best], edges, axis=1)
    return Interval(float(value), float(min(value, *low)), float(max(value, *high)))


@dataclass(frozen=True)
class Cells:
    """Rows that no measure tells apart, joined."""

    positive: Mask
    rows: Where
    """How many rows each cell holds."""
    places: Where
    """Where in each list a cell stands, from 0 at the top: shape (n_lists, n_cells)."""

    @classmethod
    def of(cls, positive: Mask, lists: Sequence[Array]) -> "Cells":
        """Join the rows that stand together in every list; O(N log N)."""
        places = np.stack([_joined_places(positive, score) for score in lists])
        codes = positive.astype(np.int64)
        for one in places:
            if codes.max() >= LARGEST_CODE // (one.max() + 1):
                codes = np.unique(codes, return_inverse=True)[1]
            codes = codes * (one.max() + 1) + one
        _, first, rows = np.unique(codes, return_index=True, return_counts=True)
        return cls(positive[first], rows, places[:, first])

    def runs(self) -> list[list["Runs"]]:
        """Of each list, the runs of its positives and those of its negatives."""
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
    """Cells of one class by their places in a list, and where each place begins among them."""

    order: Where
    first: Where
    places: Where
    n_places: int

    @classmethod
    def of(cls, members: Where, places: Where) -> "Runs":
        """Sort the cells; once for all draws."""
        order = members[np.argsort(places[members], kind="stable")]
        first = np.flatnonzero(np.append(True, np.diff(places[order]) != 0))
        return cls(order, first, places[order[first]], int(places.max()) + 1)

    def sums(self, weights: Array) -> Array:
        """Weight of the cells at each place, of each draw.

        By `take`: 500,000 columns in another order cost 3.7 ms so, and 51 ms as
        ``weights[:, order]``.
        """
        sums = np.zeros((len(weights), self.n_places))
        sums[:, self.places] = np.add.reduceat(weights.take(self.order, axis=1), self.first, axis=1)
        return sums


def _joined_places(positive: Mask, score: Array) -> Where:
    """Place of each row's score in the list; scores of negatives between two positives join."""
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
    measures: Mapping[str, Measure],
    draws: int | None,
    seed: int,
) -> Array:
    """Measures of the worst and best populations, of shape (2, n_lists, n_measures, draws)."""
    cells = Cells.of(positive, lists)
    work = len(cells.rows) * max(1, len(lists) - 1)
    draws = draws or int(np.clip(WORK // work, 200, 1000))
    found = np.empty((2, len(lists), len(measures), draws))
    at_a_time = max(1, ENTRIES // len(cells.rows))
    sides = cells.runs()
    rng = np.random.default_rng(seed)
    for start in range(0, draws, at_a_time):
        now = slice(start, min(start + at_a_time, draws))
        weights, unseen = cells.draw(now.stop - start, rng)
        for side, runs in enumerate(sides):
            for end, population in enumerate(_populations(weights, unseen, cells, runs)):
                for which, one in enumerate(measures.values()):
                    found[end, side, which, now] = one.expected(population)
    return found


def _populations(
    weights: Array, unseen: Array, cells: Cells, runs: Sequence[Runs]
) -> Iterator[TopCurve]:
    """The list with the unseen rows where they do most harm, then where they do most good."""
    none = np.zeros((len(weights), 1))
    hits, alarms = (np.hstack([none, np.cumsum(one.sums(weights), axis=1)]) for one in runs)
    thresholds = np.r_[np.inf, np.inf, -np.arange(runs[0].n_places), -np.inf]
    for positives, negatives in ((0.0, unseen[1]), (unseen[0], 0.0)):
        yield TopCurve(
            _whole(none, hits + positives, cells.rows[cells.positive].sum()),
            _whole(none, alarms + negatives, cells.rows[~cells.positive].sum()),
            thresholds,
        )


def _whole(none: Array, above: Array, everything: float) -> Array:
    """Running sums from nothing to everything, which rounding must not exceed."""
    return np.hstack([none, np.minimum(above, everything), np.full(none.shape, everything)])
