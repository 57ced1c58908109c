"""How far down the list: expected positives by length, guarantees, and the most profit."""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt
import numpy as np
from numpy.typing import ArrayLike

from toppush.plots import list_lengths
from toppush.report.figures import (
    DASH,
    FIRST,
    INK,
    SECOND,
    Figure,
    Rows,
    data,
    hover,
    log_axis,
    tip,
)
from toppush.report.ranking import Ranking, usual_lengths
from toppush.thresholds.budgets import Forecast, positives_in_first
from toppush.thresholds.demands import Answer, Demands, answers
from toppush.thresholds.profit import profit_curve

PRECISIONS = (0.9, 0.5)
RECALL, RATE = 0.8, 0.01
"""What is promised if it can be, unless somebody asks for something else."""
PER_DECADE = 12
"""Lengths of list per decade whose true positives are forecast."""
DRAWN = 20_000_000
"""Positives times draws up to which there are 1000 draws: 2 s."""


@dataclass(frozen=True, eq=False)
class Budget:
    """What is known of those who look: their money and their days; None is not known.

    Attributes
    ----------
    value, cost : float or array of shape (n_rows,), optional
        What a hit is worth, and what a look costs.
    per_day, rows_per_day : int, optional
        Rows that can be looked at on a day, and rows that come.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush import report
    >>> y, scores = np.arange(200) < 40, -np.arange(200.0)
    >>> page = report.build(y, scores, budget=report.Budget(value=120.0, cost=5.0))
    >>> "120" in page
    True
    """

    value: ArrayLike | None = None
    cost: ArrayLike | None = None
    per_day: int | None = None
    rows_per_day: int | None = None

    def __post_init__(self) -> None:
        for one, other in (("value", "cost"), ("cost", "value"), ("per_day", "rows_per_day")):
            if getattr(self, one) is not None and getattr(self, other) is None:
                raise ValueError(f"{one} is given without {other}; give both.")


@dataclass(frozen=True)
class BudgetPart:
    """The section of the page.

    Attributes
    ----------
    rows : int
        New rows that the forecasts are of.
    is_day : bool
        Whether those are a day's.
    lengths : dict from int to Forecast
        Hits in the first so many.
    answers : list of Answer
    failed : list of Answer
        Those without a score.
    best : Answer or None
        The greatest profit.
    """

    rows: int
    is_day: bool
    lengths: dict[int, Forecast]
    answers: list[Answer]
    failed: list[Answer]
    best: Answer | None


def budget_part(ranking: Ranking, budget: Budget) -> tuple[BudgetPart, list[Figure]]:
    """The section, and its charts."""
    rows = budget.rows_per_day or ranking.n_rows
    drawn, shown = _lengths(rows, budget)
    both = sorted({*drawn, *shown})
    forecasts = dict(zip(both, _forecasts(ranking, both, rows), strict=True))
    found = _answers(ranking, budget)
    best = next((one for one in found if one.kind == "profit"), None)
    part = BudgetPart(
        rows,
        budget.rows_per_day is not None,
        {length: forecasts[length] for length in shown},
        [one for one in found if one.score is not None],
        [one for one in found if one.score is None],
        best,
    )
    charts = [hits_figure({length: forecasts[length] for length in drawn}, rows, budget.per_day)]
    if best is not None:
        charts.append(profit_figure(ranking, budget, best))
    return part, charts


def _lengths(rows: int, budget: Budget) -> tuple[list[int], list[int]]:
    """Lengths to draw, and those of the table."""
    dense = list_lengths(rows, per_decade=PER_DECADE)
    few = np.unique(np.rint(np.geomspace(1, rows, 2 + int(PER_DECADE * np.log10(rows)))))
    drawn = sorted({*few.astype(int).tolist(), *dense[dense > 100].tolist()})
    shown = usual_lengths(rows)
    if budget.per_day is not None:
        shown = sorted({*shown, min(budget.per_day, rows)})
    return drawn, shown


def _forecasts(ranking: Ranking, lengths: Sequence[int], rows: int) -> list[Forecast]:
    draws = int(np.clip(DRAWN // ranking.n_pos, 100, 1000))
    return positives_in_first(ranking.positive, ranking.score, lengths, rows=rows, draws=draws)


def _answers(ranking: Ranking, budget: Budget) -> list[Answer]:
    rows_per_day = budget.rows_per_day
    asked = [Demands(precision=one, rows_per_day=rows_per_day) for one in PRECISIONS]
    asked.append(
        Demands(
            fpr=RATE,
            recall=RECALL,
            per_day=budget.per_day,
            rows_per_day=rows_per_day,
            value=budget.value,
            cost=budget.cost,
        )
    )
    return [one for each in asked for one in answers(ranking.positive, ranking.score, each)]


def hits_figure(forecasts: dict[int, Forecast], rows: int, per_day: int | None) -> Figure:
    """Hits that are expected by length, with a band of what there may be."""
    columns: Rows = {
        "k": list(forecasts),
        "expected": [one.expected for one in forecasts.values()],
        "low": [one.low for one in forecasts.values()],
        "high": [one.high for one in forecasts.values()],
    }
    points = data(columns)
    x = log_axis("k", "rows looked at (logarithmic)", 1, max(rows, 2))
    y = alt.Y("high:Q", title="true positives")
    band = alt.Chart(points).mark_area(color=FIRST, fillOpacity=0.2).encode(x=x, y=y, y2="low:Q")
    line = alt.Chart(points).mark_line(color=FIRST, strokeWidth=2.2).encode(x=x, y="expected:Q")
    told = [
        tip("k:Q", ",d", "rows looked at"),
        tip("expected:Q", ",.1f", "true positives expected"),
        tip("low:Q", ",d", "from"),
        tip("high:Q", ",d", "to"),
    ]
    layers = [band, line, hover(points, x, told)]
    if per_day is not None:
        layers.insert(2, _upright([per_day], "budget"))
    return Figure.of(
        "hits",
        f"Hits expected among the first of {rows:,} new rows by how many are looked at, with a "
        "band that holds 95 of 100 counts. The table below holds the numbers.",
        alt.layer(*layers),
        260,
    )


def profit_figure(ranking: Ranking, budget: Budget, best: Answer) -> Figure:
    """Profit of these rows by length, with the length of the greatest."""
    assert budget.value is not None
    assert budget.cost is not None
    curve = profit_curve(ranking.positive, ranking.score, value=budget.value, cost=budget.cost)
    wanted = list_lengths(ranking.n_rows, per_decade=120)
    ends = np.unique(np.r_[np.searchsorted(curve.lengths, wanted), curve.best])
    ends = ends[curve.lengths[ends] > 0]
    points = data({"k": curve.lengths[ends], "profit": curve.profits[ends]})
    x = log_axis("k", "rows looked at (logarithmic)", 1, ranking.n_rows)
    label = "datum.value === 0 ? '0' : format(datum.value, '~s')"
    y = alt.Y("profit:Q", title="profit", axis=alt.Axis(labelExpr=label))
    line = alt.Chart(points).mark_line(color=FIRST, strokeWidth=2.2).encode(x=x, y=y)
    zero = alt.Chart(data({"profit": [0.0]})).mark_rule(color=INK, strokeWidth=1).encode(y=y)
    told = [tip("k:Q", ",d", "rows looked at"), tip("profit:Q", ",.2f")]
    layers = [zero, line, hover(points, x, told)]
    if best.rows:
        layers.insert(2, _upright([best.rows], "greatest profit"))
    return Figure.of(
        "profit",
        f"Profit of these {ranking.n_rows:,} rows by how many are looked at; it is greatest at "
        f"{best.rows:,}.",
        alt.layer(*layers),
        240,
    )


def _upright(lengths: list[int], name: str) -> alt.Chart:
    """A dashed line at a length."""
    made: alt.Chart = (
        alt.Chart(data({"k": lengths, "line": [name]}))
        .mark_rule(color=SECOND, strokeWidth=2, strokeDash=DASH)
        .encode(x=alt.X("k:Q"), tooltip=[tip("line:N"), tip("k:Q", ",d", "rows")])
    )
    return made
