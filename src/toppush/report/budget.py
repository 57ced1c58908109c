"""The section on review budgets: positives to expect by length, thresholds, and the profit."""

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
"""Levels of the thresholds that the page shows if they can be guaranteed."""
PER_DECADE = 12
"""Lengths per decade for which positives are forecast."""
DRAWN = 20_000_000
"""Positives times draws up to which there are 1000 draws: 2 s."""


@dataclass(frozen=True, eq=False)
class Budget:
    """Costs and benefits of reviews, and the review budget per day; None if unknown.

    Attributes
    ----------
    value, cost : float or array of shape (n_rows,), optional
        Benefit of a true positive, and cost of one review.
    per_day, rows_per_day : int, optional
        Rows that can be reviewed per day, and new rows per day.

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
        for name, other in (("value", "cost"), ("cost", "value"), ("per_day", "rows_per_day")):
            if getattr(self, name) is not None and getattr(self, other) is None:
                raise ValueError(f"{name} is given without {other}; give both.")


def budget_section(ranking: Ranking, budget: Budget) -> tuple[dict[str, object], list[Figure]]:
    """The values of the section, and its charts."""
    rows = budget.rows_per_day or ranking.n_rows
    drawn, shown = _lengths(rows, budget)
    lengths = sorted({*drawn, *shown})
    draws = int(np.clip(DRAWN // ranking.n_pos, 100, 1000))
    expected = positives_in_first(ranking.positive, ranking.score, lengths, rows=rows, draws=draws)
    forecasts = dict(zip(lengths, expected, strict=True))
    every_answer = _answers(ranking, budget)
    best = next((answer for answer in every_answer if answer.kind == "profit"), None)
    section = {
        "rows": rows,
        "is_day": budget.rows_per_day is not None,
        "lengths": {length: forecasts[length] for length in shown},
        "answers": [answer for answer in every_answer if answer.score is not None],
        "failed": [answer for answer in every_answer if answer.score is None],
        "best": best,
    }
    charts = [hits_figure({length: forecasts[length] for length in drawn}, rows, budget.per_day)]
    if best is not None:
        charts.append(profit_figure(ranking, budget, best))
    return section, charts


def _lengths(rows: int, budget: Budget) -> tuple[list[int], list[int]]:
    """Lengths to draw, and those of the table."""
    dense = list_lengths(rows, per_decade=PER_DECADE)
    few = np.unique(np.rint(np.geomspace(1, rows, 2 + int(PER_DECADE * np.log10(rows)))))
    drawn = sorted({*few.astype(int).tolist(), *dense[dense > 100].tolist()})
    shown = usual_lengths(rows)
    if budget.per_day is not None:
        shown = sorted({*shown, min(budget.per_day, rows)})
    return drawn, shown


def _answers(ranking: Ranking, budget: Budget) -> list[Answer]:
    asked = [
        Demands(precision=precision, rows_per_day=budget.rows_per_day) for precision in PRECISIONS
    ]
    asked.append(
        Demands(
            fpr=RATE,
            recall=RECALL,
            per_day=budget.per_day,
            rows_per_day=budget.rows_per_day,
            value=budget.value,
            cost=budget.cost,
        )
    )
    return [
        answer for demands in asked for answer in answers(ranking.positive, ranking.score, demands)
    ]


def hits_figure(forecasts: dict[int, Forecast], rows: int, per_day: int | None) -> Figure:
    """Expected positives by length, with a prediction interval."""
    columns: Rows = {"k": list(forecasts)} | {
        name: [getattr(forecast, name) for forecast in forecasts.values()]
        for name in ("expected", "low", "high")
    }
    points = data(columns)
    x = log_axis("k", "rows reviewed (logarithmic)", 1, max(rows, 2))
    y = alt.Y("high:Q", title="positives")
    interval = (
        alt.Chart(points).mark_area(color=FIRST, fillOpacity=0.2).encode(x=x, y=y, y2="low:Q")
    )
    line = alt.Chart(points).mark_line(color=FIRST, strokeWidth=2.2).encode(x=x, y="expected:Q")
    tips = [
        tip("k:Q", ",d", "rows reviewed"),
        tip("expected:Q", ",.1f", "positives expected"),
        tip("low:Q", ",d", "from"),
        tip("high:Q", ",d", "to"),
    ]
    layers = [interval, line, hover(points, x, tips)]
    if per_day is not None:
        layers.insert(2, _vertical_line([per_day], "budget"))
    return Figure.of(
        "hits",
        f"Positives expected among the first of {rows:,} new rows by the number of rows reviewed, "
        "with a 95% prediction interval. The table below contains the numbers.",
        alt.layer(*layers),
        260,
    )


def profit_figure(ranking: Ranking, budget: Budget, best: Answer) -> Figure:
    """Profit of these rows by length, and its maximum."""
    assert budget.value is not None
    assert budget.cost is not None
    curve = profit_curve(ranking.positive, ranking.score, value=budget.value, cost=budget.cost)
    wanted = list_lengths(ranking.n_rows, per_decade=120)
    ends = np.unique(np.r_[np.searchsorted(curve.lengths, wanted), curve.best])
    ends = ends[curve.lengths[ends] > 0]
    points = data({"k": curve.lengths[ends], "profit": curve.profits[ends]})
    x = log_axis("k", "rows reviewed (logarithmic)", 1, ranking.n_rows)
    label = "datum.value === 0 ? '0' : format(datum.value, '~s')"
    y = alt.Y("profit:Q", title="profit", axis=alt.Axis(labelExpr=label))
    line = alt.Chart(points).mark_line(color=FIRST, strokeWidth=2.2).encode(x=x, y=y)
    zero = alt.Chart(data({"profit": [0.0]})).mark_rule(color=INK, strokeWidth=1).encode(y=y)
    tips = [tip("k:Q", ",d", "rows reviewed"), tip("profit:Q", ",.2f")]
    layers = [zero, line, hover(points, x, tips)]
    if best.rows:
        layers.insert(2, _vertical_line([best.rows], "greatest profit"))
    return Figure.of(
        "profit",
        f"Profit on these {ranking.n_rows:,} rows by the number of rows reviewed, with its maximum "
        f"at {best.rows:,}.",
        alt.layer(*layers),
        240,
    )


def _vertical_line(lengths: list[int], name: str) -> alt.Chart:
    """A dashed vertical line at some lengths."""
    rule: alt.Chart = (
        alt.Chart(data({"k": lengths, "line": [name]}))
        .mark_rule(color=SECOND, strokeWidth=2, strokeDash=DASH)
        .encode(x=alt.X("k:Q"), tooltip=[tip("line:N"), tip("k:Q", ",d", "rows")])
    )
    return rule
