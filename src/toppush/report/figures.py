"""The report's charts as Vega-Lite, made with Altair; colours are the page's CSS variables.

A chart is drawn twice: as a static picture, which needs no script, and by Vega in the browser,
which adds tooltips and the controls.
"""

import json
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import altair as alt
import numpy as np
import vl_convert
from numpy.typing import ArrayLike, NDArray

from toppush.problem.solution import Iteration
from toppush.report.contributions import ColumnCurve, Contribution
from toppush.report.ranking import (
    Ranking,
    ScoreGroup,
    curve_points,
    isotonic_share,
    roc_points,
    score_shares,
)
from toppush.system.memory import is_limited

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
PICTURE_WIDTH = 760
CONVERTER = """
import json, sys, vl_convert
function, inputs, version = json.load(sys.stdin)
convert = getattr(vl_convert, function)
json.dump([convert(text, vl_version=version) for text in inputs], sys.stdout)
"""
"""Code of the conversion in a separate process."""

INK, FAINT, GRID = "var(--ink)", "var(--faint)", "var(--grid)"
FIRST, SECOND = "var(--first)", "var(--second)"
DASH = [6, 4]
BAR = 22
"""Height of a bar, in pixels."""
FONT = "system-ui, sans-serif"
Chart = alt.Chart | alt.LayerChart | alt.FacetChart
Rows = Mapping[str, ArrayLike]
"""Columns; a single value is repeated in every row."""


@dataclass(frozen=True)
class Figure:
    """A chart: what it shows in words, its Vega-Lite, and a picture of it as SVG."""

    name: str
    description: str
    spec: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, name: str, description: str, chart: Chart, height: int) -> "Figure":
        """A chart in the style of the page."""
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


def pictures(figures: Sequence[Figure]) -> dict[str, str]:
    """The charts as SVG, for readers and printers without scripts; none if memory is limited."""
    specs = [json.dumps(figure.spec | {"width": PICTURE_WIDTH}) for figure in figures]
    try:
        svgs = _converted("vegalite_to_svg", specs)
    except MemoryError:
        warnings.warn(
            "the charts have no still pictures: the renderer reserves more than 64 GB of address "
            "space, and this process may have less (ulimit -v). In a browser the page draws its "
            "charts; for pictures in print and without scripts raise the limit.",
            UserWarning,
            stacklevel=2,
        )
        return {}
    return dict(zip([figure.name for figure in figures], svgs, strict=True))


@cache
def browser_library() -> str:
    """The JavaScript that draws charts in a browser: Vega, Vega-Lite and Vega-Embed."""
    return _converted("javascript_bundle", ["window.vegaEmbed = vegaEmbed;"])[0]


def _converted(function: str, inputs: Sequence[str]) -> list[str]:
    """The result of a function of vl_convert for each input.

    If memory is refused, vl_convert kills the process by a signal. So under a limit of the address
    space it runs in a separate process.
    """
    if not is_limited():
        convert = getattr(vl_convert, function)
        return [str(convert(text, vl_version=VEGA_LITE)) for text in inputs]
    arguments = json.dumps([function, list(inputs), VEGA_LITE])
    command = [sys.executable, "-c", CONVERTER]
    ran = subprocess.run(
        command, input=arguments, capture_output=True, encoding="utf-8", check=False
    )
    if ran.returncode:
        raise MemoryError(
            "the charts of the page need more address space than this process may have; raise the "
            "limit (ulimit -v)"
        )
    return [str(result) for result in json.loads(ran.stdout)]


def data(*parts: Rows) -> alt.InlineData:
    """The rows of all parts, one after another."""
    rows = []
    for part in parts:
        columns = map(_plain, np.broadcast_arrays(*map(np.atleast_1d, part.values())))
        rows += [dict(zip(part, row, strict=True)) for row in zip(*columns, strict=True)]
    return alt.InlineData(values=rows)


def _plain(values: NDArray[Any]) -> list[float | str]:
    """Python numbers with six digits, which is more than a screen shows."""
    return [
        float(f"{value:.6g}") if isinstance(value, float) else value for value in values.tolist()
    ]


def value_axis(field: str, title: str, values: ArrayLike, **scale: Any) -> alt.X:
    """An axis of numbers of any size; d3 writes small ones with many zeros."""
    size = float(np.max(np.abs(values), initial=0.0))
    form = "~g" if 1e-3 <= size < 1e5 or size == 0 else ".2~e"
    label = f"datum.value === 0 ? '0' : format(datum.value, '{form}')"
    axis = alt.Axis(labelExpr=label, tickCount=7)
    return alt.X(
        field, type="quantitative", title=title, axis=axis, scale=alt.Scale(nice=False, **scale)
    )


def log_axis(field: str, title: str, low: float, high: float) -> alt.X:
    """An axis of shares or of counts."""
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
    return alt.StrokeDash("ranking:N", sort=None).scale(domain=list(names), range=dashes)


def tip(field: str, form: str = "", title: str = "") -> alt.Tooltip:
    return alt.Tooltip(field, format=form or alt.Undefined, title=title or alt.Undefined)


def hover(data: alt.InlineData, x: alt.X, tooltip: list[alt.Tooltip]) -> alt.Chart:
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


def curve_figure(rankings: dict[str, Ranking], k: int) -> Figure:
    """Precision and recall by length, with a line at k."""
    ranking = next(iter(rankings.values()))
    both = ["precision", "recall"]
    parts: list[Rows] = []
    for name, each in rankings.items():
        lengths, *shares = curve_points(each)
        parts += [
            {"k": lengths, "share": share, "metric": metric, "ranking": name}
            for metric, share in zip(both, shares, strict=True)
        ]
    x = log_axis("k", "length k (logarithmic)", 1, ranking.n_rows)
    lines = (
        alt.Chart(data(*parts))
        .mark_line(strokeWidth=2.2, clip=True)
        .encode(
            x=x,
            y=_share_axis("share", "share"),
            color=alt.Color("metric:N").scale(domain=both, range=[FIRST, SECOND]),
            strokeDash=_dashes(list(rankings)),
        )
    )
    points = data(dict(zip(("k", *both), curve_points(ranking), strict=True)))
    tips = [tip("k:Q", ",d", "first rows"), *(tip(f"{name}:Q", ".1%") for name in both)]
    chosen = (
        alt.Chart(alt.InlineData(values=[{}]))
        .mark_rule(color=INK, strokeWidth=2)
        .encode(x=alt.XDatum(alt.expr("k"), type="quantitative"))
    )
    return Figure.of(
        "curve",
        f"Precision and recall of the first k rows, for k from 1 to {ranking.n_rows:,} on a "
        "logarithmic axis. The table below the chart contains the numbers.",
        alt.layer(lines, chosen, hover(points, x, tips)).add_params(alt.param("k", value=k)),
        300,
    )


def roc_figure(rankings: dict[str, Ranking]) -> Figure:
    """Recall by false positive rate, from the first false alarm on."""
    ranking = next(iter(rankings.values()))
    left = 0.5 / ranking.n_neg
    parts: list[Rows] = []
    for name, each in rankings.items():
        rates, recall = roc_points(each)
        drawn = np.maximum(rates, left)
        parts.append({"rate": rates, "drawn": drawn, "recall": recall, "ranking": name})
    chance, names = np.geomspace(left, 1, 60), [*rankings, "random order"]
    x = log_axis("drawn", "false positive rate (logarithmic; left end: none)", left, 1)
    lines = (
        alt.Chart(data(*parts))
        .mark_line(strokeWidth=2.2, interpolate="step-after", clip=True)
        .encode(
            x=x,
            y=_share_axis("recall", "recall"),
            color=alt.Color("ranking:N", sort=None).scale(
                domain=names, range=[*[FIRST, SECOND][: len(rankings)], FAINT]
            ),
            strokeDash=_dashes(names),
            order=alt.Order("rate:Q"),
        )
    )
    by_chance = (
        alt.Chart(data({"drawn": chance, "recall": chance, "ranking": "random order"}))
        .mark_line(strokeWidth=1.5)
        .encode(x=x, y="recall:Q", color="ranking:N", strokeDash="ranking:N")
    )
    rates, _ = roc_points(ranking)
    own = {key: parts[0][key] for key in ("rate", "drawn", "recall")}
    points = data(own | {"alarms": rates * ranking.n_neg})
    tips = [tip("alarms:Q", ",.0f", "false alarms"), tip("rate:Q", ".3~%", "false positive rate")]
    return Figure.of(
        "roc",
        "Recall against the false positive rate on a logarithmic axis that begins at no false "
        "alarm at all.",
        alt.layer(lines, by_chance, hover(points, x, [*tips, tip("recall:Q", ".1%")])),
        280,
    )


def scores_figure(ranking: Ranking) -> Figure:
    """The distribution of the scores of each class."""
    edges, *shares = score_shares(ranking)
    both = dict(zip(("positives", "negatives"), shares, strict=True))
    # A step goes on to the next point: the last bin needs one at its end.
    steps: list[Rows] = [
        {"low": edges, "share": np.append(share, share[-1]), "ranking": name}
        for name, share in both.items()
    ]
    x = value_axis("low", "score", edges, zero=False)
    axis = alt.Axis(format="%", tickCount=5)
    colour = alt.Color("ranking:N").scale(domain=list(both), range=[FIRST, SECOND])
    chart = alt.Chart(data(*steps)).encode(
        x=x, y=alt.Y("share:Q", title="share of the class", axis=axis, stack=None), color=colour
    )
    areas = chart.mark_area(interpolate="step-after", fillOpacity=0.18)
    lines = chart.mark_line(interpolate="step-after", strokeWidth=2)
    lines = lines.encode(strokeDash=_dashes(list(both)))
    points = data({"low": edges[:-1], "high": edges[1:], **both})
    ends = [tip("low:Q", ".4g", "score from"), tip("high:Q", ".4g", "to")]
    tips = [*ends, *(tip(f"{name}:Q", ".2%") for name in both)]
    return Figure.of(
        "scores",
        "Share of the positives and of the negatives in equal bins of the score.",
        alt.layer(areas, lines, hover(points, x, tips)),
        240,
    )


def calibration_figure(ranking: Ranking, groups: Sequence[ScoreGroup]) -> Figure:
    """Observed share of positives by score, with intervals and isotonic regression."""
    steps, heights = isotonic_share(ranking)
    dots = (
        {"score": group.median, "share": group.share, "low": group.low, "high": group.high}
        | {"ranks": f"{group.first:,} to {group.last:,}"}
        for group in groups
    )
    shown = data(*dots)
    # Space for the dots at both ends, and for a last step of a single score.
    margin = 0.02 * float(steps[-1] - steps[0]) or 1.0
    domain = [float(steps[0]) - margin, float(steps[-1]) + margin]
    x = value_axis("score", "score", steps, zero=False, domain=domain)
    y = _share_axis("share", "observed share of positives")
    stairs = (
        alt.Chart(data({"score": [*steps, domain[1]], "share": [*heights, heights[-1]]}))
        .mark_line(interpolate="step-after", color=SECOND, strokeDash=DASH, strokeWidth=1.8)
        .encode(x=x, y=y)
    )
    bars = (
        alt.Chart(shown).mark_rule(color=FIRST, strokeWidth=2).encode(x=x, y="low:Q", y2="high:Q")
    )
    points = (
        alt.Chart(shown)
        .mark_point(color=FIRST, fill=FIRST, size=55, opacity=1)
        .encode(
            x=x,
            y=y,
            tooltip=[
                tip("ranks:N"),
                tip("score:Q", ".4g", "median score"),
                tip("share:Q", ".1%", "positive"),
                tip("low:Q", ".1%", "interval from"),
                tip("high:Q", ".1%", "to"),
            ],
        )
    )
    return Figure.of(
        "calibration",
        "Observed share of positives in groups of neighbouring scores, with 95% intervals, and "
        "isotonic regression. The table below contains the numbers.",
        alt.layer(stairs, bars, points),
        260,
    )


def history_figure(history: Sequence[Iteration]) -> Figure:
    """Objective and lower bound by passes over the data."""
    both = ["objective", "lower bound"]
    bounds = [at.upper for at in history], [at.lower for at in history]
    passes = [at.data_passes for at in history]
    parts: list[Rows] = [
        {"passes": passes, "value": values, "ranking": name}
        for name, values in zip(both, bounds, strict=True)
    ]
    lines = (
        alt.Chart(data(*parts))
        .mark_line(strokeWidth=2.2, point={"size": 30})
        .encode(
            x=alt.X("passes:Q", title="passes over the data", axis=alt.Axis(tickCount=10)),
            y=alt.Y("value:Q", title="objective", scale=alt.Scale(zero=False)),
            color=alt.Color("ranking:N").scale(domain=both, range=[FIRST, SECOND]),
            strokeDash=_dashes(both),
            tooltip=[
                tip("ranking:N", title="bound"),
                tip("passes:Q", ".1f", "passes over the data"),
                tip("value:Q", ".6g"),
            ],
        )
    )
    return Figure.of(
        "history",
        "Objective and lower bound of the optimum by passes over the data.",
        lines,
        220,
    )


def parts_figure(parts: dict[str, list[Contribution]]) -> Figure:
    """Contributions of columns to the score of a row, which is chosen on the page."""
    bars = [
        {"row": row, "name": part.name, "amount": part.amount, "place": place}
        for row, contributions in parts.items()
        for place, part in enumerate(contributions)
    ]
    chart = _signed_bars(bars, "contribution to the score, relative to the mean row")
    chosen = alt.param("row", value=next(iter(parts)))
    tallest = max(len(contributions) for contributions in parts.values())
    return Figure.of(
        "parts",
        "Contributions of columns to the score of the chosen false alarms, relative to the mean "
        "row. The table below names the largest ones.",
        chart.transform_filter("datum.row === row").add_params(chosen),
        BAR * tallest,
    )


def influence_figure(title: str, amounts: Sequence[tuple[str, float]]) -> Figure:
    """The largest influences of features or columns, with their names."""
    bars = [
        {"name": name, "amount": amount, "place": place}
        for place, (name, amount) in enumerate(amounts)
    ]
    return Figure.of(
        "weights",
        f"The largest influences: {title}. The table below contains the numbers.",
        _signed_bars(bars, title),
        BAR * len(bars),
    )


def shape_figure(name: str, curve: ColumnCurve) -> Figure:
    """The contribution of a column by its value: a line, or a bar for each category."""
    categorical = bool(curve.values) and isinstance(curve.values[0], str)
    title = "contribution to the score"
    if categorical:
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
        tips = [tip("value:Q", ".4g"), tip("amount:Q", "+.4g", title)]
        chart = alt.layer(line, hover(points, x, tips))
        height = 150
    if curve.missing is not None and not categorical:
        level = alt.Chart(data({"amount": [curve.missing]})).mark_rule(
            color=SECOND, strokeDash=DASH
        )
        chart = alt.layer(chart, level.encode(y="amount:Q"))
    return Figure.of(
        name, f"Contribution of {curve.name} to the score, by its value.", chart, height
    )


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
