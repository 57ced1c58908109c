"""Charts of what drives scores: bars for columns and features, curves of single columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from toppush.report.drivers import Contribution, Weight
from toppush.report.explained import Curve, Influence
from toppush.report.figures import DASH, FIRST, SECOND, Chart, Figure, data, hover, tip, value_axis

BAR = 22
"""Height of a bar, in pixels."""


def parts_figure(parts: dict[str, list[Contribution]]) -> Figure:
    """What each column adds to the score of a row; which row is chosen on the page."""
    bars = [
        {"row": row, "name": part.name, "amount": part.amount, "place": place}
        for row, several in parts.items()
        for place, part in enumerate(several)
    ]
    chart = _signed_bars(bars, "adds to the score, relative to the mean row")
    chosen = alt.param("row", value=next(iter(parts)))
    tallest = max(len(several) for several in parts.values())
    return Figure.of(
        "parts",
        "What each column adds to the score of the chosen false alarms, relative to the mean "
        "row. The table below names the largest for each.",
        chart.transform_filter("datum.row === row").add_params(chosen),
        BAR * tallest,
    )


def weights_figure(weights: Sequence[Weight]) -> Figure:
    """Weights times spread, largest first."""
    bars = [
        {"name": one.name, "amount": np.sign(one.weight) * one.influence, "place": place}
        for place, one in enumerate(weights)
    ]
    return Figure.of(
        "weights",
        "The features that move scores apart most: weight times spread. The table below holds "
        "the numbers.",
        _signed_bars(bars, "weight times spread"),
        BAR * len(weights),
    )


def influences_figure(influences: Sequence[Influence]) -> Figure:
    """How much columns add to scores as a rule, largest first."""
    bars = [
        {"name": one.name, "amount": one.size, "place": place}
        for place, one in enumerate(influences)
    ]
    return Figure.of(
        "weights",
        "The columns that move scores most: what they add, without its sign, in the mean. The "
        "table below holds the numbers.",
        _signed_bars(bars, "adds to or takes from the score, in the mean"),
        BAR * len(influences),
    )


def shape_figure(name: str, curve: Curve) -> Figure:
    """What a column adds to the score, by its value: a line, or a bar for each text."""
    texts = bool(curve.values) and isinstance(curve.values[0], str)
    title = "adds to the score"
    if texts:
        bars = [
            {"name": value, "amount": amount, "place": place}
            for place, (value, amount) in enumerate(zip(curve.values, curve.amounts, strict=True))
        ]
        chart: Chart = _signed_bars(bars, title)
        height = BAR * len(bars)
    else:
        points = data({"value": curve.values, "amount": curve.amounts})
        x = value_axis("value", "value", curve.values, zero=False)
        y = alt.Y("amount:Q", title=title, scale=alt.Scale(zero=False))
        line = alt.Chart(points).mark_line(color=FIRST, strokeWidth=2.2).encode(x=x, y=y)
        told = [tip("value:Q", ".4g"), tip("amount:Q", "+.4g", title)]
        chart = alt.layer(line, hover(points, x, told))
        height = 150
    if curve.missing is not None and not texts:
        level = alt.Chart(data({"amount": [curve.missing]})).mark_rule(
            color=SECOND, strokeDash=DASH
        )
        chart = alt.layer(chart, level.encode(y="amount:Q"))
    return Figure.of(name, f"What {curve.name} adds to the score, by its value.", chart, height)


def _signed_bars(rows: Sequence[Mapping[str, Any]], title: str) -> alt.Chart:
    """Bars to the right for what raises the score, to the left for what lowers it."""
    bars: alt.Chart = (
        alt.Chart(data(*rows))
        .mark_bar()
        .encode(
            x=value_axis("amount", title, [row["amount"] for row in rows]),
            y=alt.Y("name:N", title=None, sort=alt.SortField("place")),
            color=alt.condition("datum.amount < 0", alt.value(SECOND), alt.value(FIRST)),
            tooltip=[tip("name:N", title="feature"), tip("amount:Q", "+.4g", title)],
        )
    )
    return bars
