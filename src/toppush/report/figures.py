"""The report's charts as Vega-Lite, drawn by Altair; colours are the page's CSS variables.

A chart is drawn twice: as a picture inside the page, which needs no script, and by Vega in the
browser, which adds hovering and the controls.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import altair as alt
import numpy as np
import vl_convert
from numpy.typing import ArrayLike

from toppush.problem.solution import Iteration
from toppush.report.drivers import Contribution, Weight
from toppush.report.ranking import (
    Ranking,
    ScoreGroup,
    curve_points,
    rising_share,
    roc_points,
    score_shares,
)

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
PICTURE_WIDTH = 760
BAR = 22
"""Height of a bar, in pixels."""

INK, FAINT, GRID = "var(--ink)", "var(--faint)", "var(--grid)"
FIRST, SECOND = "var(--first)", "var(--second)"
DASH = [6, 4]
FONT = "system-ui, sans-serif"
Cell = float | str
Chart = alt.Chart | alt.LayerChart | alt.FacetChart


@dataclass(frozen=True)
class Figure:
    """A chart: what it shows in words, its Vega-Lite, and a picture of it as SVG."""

    name: str
    description: str
    spec: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, name: str, description: str, chart: Chart, height: int) -> "Figure":
        """Finish a chart in the page's look."""
        chart = chart.properties(width="container", height=height, background="transparent")
        chart = chart.configure(
            # A chart is one picture with a description; its tables hold the numbers.
            aria=False,
            font=FONT,
            axis=alt.AxisConfig(
                labelColor=INK,
                titleColor=INK,
                gridColor=GRID,
                domainColor=FAINT,
                tickColor=FAINT,
                labelFontSize=12,
                titleFontSize=12,
                titleFontWeight="normal",
                labelLimit=alt.expr("width < 420 ? 150 : 320"),
            ),
            legend=alt.LegendConfig(
                labelColor=INK,
                labelFontSize=12,
                orient="top",
                columns=alt.expr("width < 420 ? 2 : 0"),
                title=None,
                symbolType="stroke",
                symbolStrokeWidth=2.5,
                symbolSize=400,
                labelLimit=300,
            ),
            # On a phone a title is wider than the plot, but not than the plot and its labels.
            axisX=alt.AxisConfig(titleAnchor=alt.expr("width < 420 ? 'end' : 'middle'")),
            view=alt.ViewConfig(stroke=None),
        )
        spec = chart.to_dict()
        # Two legends stand below each other; Altair does not know this option of Vega.
        spec["config"]["legend"]["layout"] = {"top": {"anchor": "start", "direction": "vertical"}}
        return cls(name, description, spec)

    def picture(self) -> str:
        """The chart as SVG, for readers and printers without scripts."""
        fixed = json.dumps(self.spec | {"width": PICTURE_WIDTH})
        return str(vl_convert.vegalite_to_svg(fixed, vl_version=VEGA_LITE))


@cache
def browser_library() -> str:
    """The JavaScript that draws charts in a browser: Vega, Vega-Lite and Vega-Embed."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE))


def _data(**columns: ArrayLike) -> alt.InlineData:
    names = list(columns)
    rows = zip(*(_plain(values) for values in columns.values()), strict=True)
    return alt.InlineData(values=[dict(zip(names, row, strict=True)) for row in rows])


def _plain(values: ArrayLike) -> list[Cell]:
    """Python numbers with six digits, which is more than a screen shows."""
    listed: list[Cell] = np.asarray(values).tolist()
    return [float(f"{value:.6g}") if isinstance(value, float) else value for value in listed]


def _value_axis(field: str, title: str, values: ArrayLike, **scale: Any) -> alt.X:
    """An axis of numbers of any size; d3 writes small ones with many zeros."""
    size = float(np.max(np.abs(values), initial=0.0))
    form = "~g" if 1e-3 <= size < 1e5 or size == 0 else ".2~e"
    label = f"datum.value === 0 ? '0' : format(datum.value, '{form}')"
    axis = alt.Axis(labelExpr=label, tickCount=7)
    return alt.X(
        field, type="quantitative", title=title, axis=axis, scale=alt.Scale(nice=False, **scale)
    )


def _log_axis(field: str, title: str, low: float, high: float) -> alt.X:
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    axis = alt.Axis(
        format=".3~%" if low < 1 else ",d", tickCount=8, labelOverlap="greedy", labelSeparation=6
    )
    return alt.X(field, type="quantitative", title=title, scale=scale, axis=axis)


def _share_axis(field: str, title: str) -> alt.Y:
    scale, axis = alt.Scale(domain=[0, 1]), alt.Axis(format="%", tickCount=5)
    return alt.Y(field, type="quantitative", title=title, scale=scale, axis=axis)


def _dashes(names: Sequence[str]) -> alt.StrokeDash:
    dashes = [[1, 0], DASH, [2, 3]][: len(names)]
    return alt.StrokeDash("list:N", sort=None).scale(domain=list(names), range=dashes)


def _tips(*told: tuple[str, ...]) -> list[alt.Tooltip]:
    """What is told of a point: fields, and if given their formats and what they are called."""
    return [_tip(*one) for one in told]


def _tip(field: str, form: str = "", title: str = "") -> alt.Tooltip:
    return alt.Tooltip(field, format=form or alt.Undefined, title=title or alt.Undefined)


def _hover(data: alt.InlineData, x: alt.X, tooltip: list[alt.Tooltip]) -> alt.Chart:
    """A line at the point nearest to the pointer, with its numbers."""
    near = alt.selection_point(
        name="near",
        nearest=True,
        on="pointermove",
        encodings=["x"],
        empty=False,
        clear="pointerout",
    )
    rule: alt.Chart = (
        alt.Chart(data)
        .mark_rule(color=FAINT, strokeWidth=1)
        .encode(x=x, opacity=alt.condition(near, alt.value(1), alt.value(0)), tooltip=tooltip)
        .add_params(near)
    )
    return rule


def curve_figure(lists: dict[str, Ranking], k: int) -> Figure:
    """Precision and recall against list length, with a line at k."""
    ranking = next(iter(lists.values()))
    columns: dict[str, list[Cell]] = {"k": [], "share": [], "measure": [], "list": []}
    for name, one in lists.items():
        lengths, *both = curve_points(one)
        for measure, shares in zip(("precision", "recall"), both, strict=True):
            columns["k"] += lengths.tolist()
            columns["share"] += shares.tolist()
            columns["measure"] += [measure] * len(lengths)
            columns["list"] += [name] * len(lengths)
    x = _log_axis("k", "length of the list, k (logarithmic)", 1, ranking.n_rows)
    lines = (
        alt.Chart(_data(**columns))
        .mark_line(strokeWidth=2.2, clip=True)
        .encode(
            x=x,
            y=_share_axis("share", "share"),
            color=alt.Color("measure:N").scale(
                domain=["precision", "recall"], range=[FIRST, SECOND]
            ),
            strokeDash=_dashes(list(lists)),
        )
    )
    lengths, precision, recall = curve_points(ranking)
    points = _data(k=lengths, precision=precision, recall=recall)
    hover = _hover(
        points,
        x,
        _tips(("k:Q", ",d", "first rows"), ("precision:Q", ".1%"), ("recall:Q", ".1%")),
    )
    chosen = (
        alt.Chart(alt.InlineData(values=[{}]))
        .mark_rule(color=INK, strokeWidth=2)
        .encode(x=alt.XDatum(alt.expr("k"), type="quantitative"))
    )
    return Figure.of(
        "curve",
        f"Precision and recall of the first k rows, for k from 1 to {ranking.n_rows:,} on a "
        "logarithmic axis. The table below the chart holds the numbers.",
        alt.layer(lines, chosen, hover).add_params(alt.param("k", value=k)),
        300,
    )


def roc_figure(lists: dict[str, Ranking]) -> Figure:
    """Recall against the false positive rate, from the first false alarm on."""
    ranking = next(iter(lists.values()))
    left = 0.5 / ranking.n_neg
    columns: dict[str, list[Cell]] = {"rate": [], "drawn": [], "recall": [], "list": []}
    for name, one in lists.items():
        rates, recall = roc_points(one)
        columns["rate"] += rates.tolist()
        columns["drawn"] += np.maximum(rates, left).tolist()
        columns["recall"] += recall.tolist()
        columns["list"] += [name] * len(rates)
    chance = np.geomspace(left, 1, 60)
    x = _log_axis("drawn", "false positive rate (logarithmic; left end: none)", left, 1)
    lines = (
        alt.Chart(_data(**columns))
        .mark_line(strokeWidth=2.2, interpolate="step-after", clip=True)
        .encode(
            x=x,
            y=_share_axis("recall", "recall"),
            color=alt.Color("list:N", sort=None).scale(
                domain=[*lists, "random order"],
                range=[*[FIRST, SECOND][: len(lists)], FAINT],
            ),
            strokeDash=_dashes([*lists, "random order"]),
            order=alt.Order("rate:Q"),
        )
    )
    by_chance = (
        alt.Chart(_data(drawn=chance, recall=chance, list=["random order"] * len(chance)))
        .mark_line(strokeWidth=1.5)
        .encode(x=x, y="recall:Q", color="list:N", strokeDash="list:N")
    )
    rates, recall = roc_points(ranking)
    points = _data(
        rate=rates, drawn=np.maximum(rates, left), recall=recall, alarms=rates * ranking.n_neg
    )
    told = ("alarms:Q", ",.0f", "false alarms"), ("rate:Q", ".3~%", "false positive rate")
    tooltip = _tips(*told, ("recall:Q", ".1%"))
    return Figure.of(
        "roc",
        "Recall against the false positive rate on a logarithmic axis that begins at no false "
        "alarm at all.",
        alt.layer(lines, by_chance, _hover(points, x, tooltip)),
        280,
    )


def scores_figure(ranking: Ranking) -> Figure:
    """How the scores of each class are spread."""
    edges, positives, negatives = score_shares(ranking)
    # A step goes on to the next point: the last bin needs one at its end.
    data = _data(
        low=np.tile(edges, 2),
        share=np.concatenate([positives, positives[-1:], negatives, negatives[-1:]]),
        list=["positives"] * len(edges) + ["negatives"] * len(edges),
    )
    both = ["positives", "negatives"]
    x = _value_axis("low", "score", edges, zero=False)
    axis = alt.Axis(format="%", tickCount=5)
    colour = alt.Color("list:N").scale(domain=both, range=[FIRST, SECOND])
    chart = alt.Chart(data).encode(
        x=x, y=alt.Y("share:Q", title="share of the class", axis=axis, stack=None), color=colour
    )
    areas = chart.mark_area(interpolate="step-after", fillOpacity=0.18)
    lines = chart.mark_line(interpolate="step-after", strokeWidth=2).encode(
        strokeDash=_dashes(both)
    )
    points = _data(low=edges[:-1], high=edges[1:], positives=positives, negatives=negatives)
    ends = ("low:Q", ".4g", "score from"), ("high:Q", ".4g", "to")
    tooltip = _tips(*ends, ("positives:Q", ".2%"), ("negatives:Q", ".2%"))
    return Figure.of(
        "scores",
        "Share of the positives and of the negatives in equal bins of the score.",
        alt.layer(areas, lines, _hover(points, x, tooltip)),
        240,
    )


def calibration_figure(ranking: Ranking, groups: Sequence[ScoreGroup]) -> Figure:
    """Observed share of positives by score, with intervals and a rising staircase."""
    steps, heights = rising_share(ranking)
    data = _data(
        score=[group.median for group in groups],
        share=[group.share for group in groups],
        low=[group.low for group in groups],
        high=[group.high for group in groups],
        ranks=[f"{group.first:,} to {group.last:,}" for group in groups],
    )
    # Room for the dots at both ends, and for a last step of a single score.
    room = 0.02 * float(steps[-1] - steps[0]) or 1.0
    domain = [float(steps[0]) - room, float(steps[-1]) + room]
    x = _value_axis("score", "score", steps, zero=False, domain=domain)
    y = _share_axis("share", "observed share of positives")
    stairs = (
        alt.Chart(_data(score=np.append(steps, domain[1]), share=np.append(heights, heights[-1])))
        .mark_line(interpolate="step-after", color=SECOND, strokeDash=DASH, strokeWidth=1.8)
        .encode(x=x, y=y)
    )
    bars = alt.Chart(data).mark_rule(color=FIRST, strokeWidth=2).encode(x=x, y="low:Q", y2="high:Q")
    points = (
        alt.Chart(data)
        .mark_point(color=FIRST, fill=FIRST, size=55, opacity=1)
        .encode(
            x=x,
            y=y,
            tooltip=_tips(
                ("ranks:N",),
                ("score:Q", ".4g", "median score"),
                ("share:Q", ".1%", "positive"),
                ("low:Q", ".1%", "interval from"),
                ("high:Q", ".1%", "to"),
            ),
        )
    )
    return Figure.of(
        "calibration",
        "Observed share of positives in groups of neighbouring scores, with 95% intervals, and "
        "the rising staircase nearest to the labels. The table below holds the numbers.",
        alt.layer(stairs, bars, points),
        260,
    )


def parts_figure(parts: dict[str, list[Contribution]]) -> Figure:
    """What each column adds to the score of a row; which row is chosen on the page."""
    columns: dict[str, list[Cell]] = {"row": [], "name": [], "amount": [], "place": []}
    for row, several in parts.items():
        columns["row"] += [row] * len(several)
        columns["name"] += [part.name for part in several]
        columns["amount"] += [part.amount for part in several]
        columns["place"] += list(range(len(several)))
    tallest = max(len(several) for several in parts.values())
    title = "adds to the score, relative to the mean row"
    bars = _signed_bars(columns, title)
    bars = bars.transform_filter("datum.row === row").add_params(
        alt.param("row", value=next(iter(parts)))
    )
    return Figure.of(
        "parts",
        "What each column adds to the score of the chosen false alarms, relative to the mean "
        "row. The table below names the largest for each.",
        bars,
        BAR * tallest,
    )


def weights_figure(weights: Sequence[Weight]) -> Figure:
    """Weights times spread, largest first."""
    columns: dict[str, list[Cell]] = {
        "name": [one.name for one in weights],
        "amount": [float(np.sign(one.weight) * one.influence) for one in weights],
        "place": list(range(len(weights))),
    }
    return Figure.of(
        "weights",
        "The features that move scores apart most: weight times spread. The table below holds "
        "the numbers.",
        _signed_bars(columns, "weight times spread"),
        BAR * len(weights),
    )


def _signed_bars(columns: dict[str, list[Cell]], title: str) -> alt.Chart:
    """Bars to the right for what raises the score, to the left for what lowers it."""
    bars: alt.Chart = (
        alt.Chart(_data(**columns))
        .mark_bar()
        .encode(
            x=_value_axis("amount", title, columns["amount"]),
            y=alt.Y("name:N", title=None, sort=alt.SortField("place")),
            color=alt.condition("datum.amount < 0", alt.value(SECOND), alt.value(FIRST)),
            tooltip=_tips(("name:N", "", "feature"), ("amount:Q", "+.4g", title)),
        )
    )
    return bars


def history_figure(history: Sequence[Iteration]) -> Figure:
    """Objective and proven bound against reads of the data."""
    both = ["objective", "proven bound"]
    data = _data(
        passes=[at.passes for at in history] * 2,
        value=[at.upper for at in history] + [at.lower for at in history],
        list=[both[0]] * len(history) + [both[1]] * len(history),
    )
    lines = (
        alt.Chart(data)
        .mark_line(strokeWidth=2.2, point={"size": 30})
        .encode(
            x=alt.X("passes:Q", title="reads of the data", axis=alt.Axis(tickCount=10)),
            y=alt.Y("value:Q", title="objective", scale=alt.Scale(zero=False)),
            color=alt.Color("list:N").scale(domain=both, range=[FIRST, SECOND]),
            strokeDash=_dashes(both),
            tooltip=_tips(
                ("list:N", "", "bound"),
                ("passes:Q", ".1f", "reads of the data"),
                ("value:Q", ".6g"),
            ),
        )
    )
    return Figure.of(
        "history", "How the objective and the proven bound below the optimum met.", lines, 220
    )
