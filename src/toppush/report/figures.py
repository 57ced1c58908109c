"""The report's charts as Vega-Lite, drawn by Altair; colours are the page's CSS variables.

A chart is drawn twice: as a picture inside the page, which needs no script, and by Vega in the
browser, which adds hovering and the controls.
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
from toppush.report.ranking import (
    Ranking,
    ScoreGroup,
    curve_points,
    rising_share,
    roc_points,
    score_shares,
)
from toppush.system.memory import is_limited

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
PICTURE_WIDTH = 760
CONVERTER = """
import json, sys, vl_convert
function, texts, version = json.load(sys.stdin)
convert = getattr(vl_convert, function)
json.dump([convert(text, vl_version=version) for text in texts], sys.stdout)
"""
"""What a process of its own runs."""

INK, FAINT, GRID = "var(--ink)", "var(--faint)", "var(--grid)"
FIRST, SECOND = "var(--first)", "var(--second)"
DASH = [6, 4]
FONT = "system-ui, sans-serif"
Chart = alt.Chart | alt.LayerChart | alt.FacetChart
Rows = Mapping[str, ArrayLike]
"""Columns; a single value is that of every row."""


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


def pictures(drawn: Sequence[Figure]) -> dict[str, str]:
    """The charts as SVG, for readers and printers without scripts; none where that cannot be."""
    specs = [json.dumps(one.spec | {"width": PICTURE_WIDTH}) for one in drawn]
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
    return dict(zip([one.name for one in drawn], svgs, strict=True))


@cache
def browser_library() -> str:
    """The JavaScript that draws charts in a browser: Vega, Vega-Lite and Vega-Embed."""
    return _converted("javascript_bundle", ["window.vegaEmbed = vegaEmbed;"])[0]


def _converted(function: str, texts: Sequence[str]) -> list[str]:
    """What a function of vl_convert makes of each text.

    Where memory is refused, vl_convert ends the process by a signal. So under a limit of the
    address space it runs in a process of its own.
    """
    if not is_limited():
        convert = getattr(vl_convert, function)
        return [str(convert(text, vl_version=VEGA_LITE)) for text in texts]
    given = json.dumps([function, list(texts), VEGA_LITE])
    command = [sys.executable, "-c", CONVERTER]
    ran = subprocess.run(command, input=given, capture_output=True, encoding="utf-8", check=False)
    if ran.returncode:
        raise MemoryError(
            "the charts of the page need more address space than this process may have; raise the "
            "limit (ulimit -v)"
        )
    return [str(one) for one in json.loads(ran.stdout)]


def data(*parts: Rows) -> alt.InlineData:
    """The rows of all parts, one after another."""
    rows = []
    for part in parts:
        columns = map(_plain, np.broadcast_arrays(*map(np.atleast_1d, part.values())))
        rows += [dict(zip(part, row, strict=True)) for row in zip(*columns, strict=True)]
    return alt.InlineData(values=rows)


def _plain(values: NDArray[Any]) -> list[float | str]:
    """Python numbers with six digits, which is more than a screen shows."""
    listed = values.tolist()
    return [float(f"{value:.6g}") if isinstance(value, float) else value for value in listed]


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
    return alt.StrokeDash("list:N", sort=None).scale(domain=list(names), range=dashes)


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


def curve_figure(lists: dict[str, Ranking], k: int) -> Figure:
    """Precision and recall against list length, with a line at k."""
    ranking = next(iter(lists.values()))
    both = ["precision", "recall"]
    parts: list[Rows] = []
    for name, one in lists.items():
        lengths, *shares = curve_points(one)
        parts += [
            {"k": lengths, "share": share, "measure": measure, "list": name}
            for measure, share in zip(both, shares, strict=True)
        ]
    x = log_axis("k", "length of the list, k (logarithmic)", 1, ranking.n_rows)
    lines = (
        alt.Chart(data(*parts))
        .mark_line(strokeWidth=2.2, clip=True)
        .encode(
            x=x,
            y=_share_axis("share", "share"),
            color=alt.Color("measure:N").scale(domain=both, range=[FIRST, SECOND]),
            strokeDash=_dashes(list(lists)),
        )
    )
    points = data(dict(zip(("k", *both), curve_points(ranking), strict=True)))
    told = [tip("k:Q", ",d", "first rows"), *(tip(f"{one}:Q", ".1%") for one in both)]
    chosen = (
        alt.Chart(alt.InlineData(values=[{}]))
        .mark_rule(color=INK, strokeWidth=2)
        .encode(x=alt.XDatum(alt.expr("k"), type="quantitative"))
    )
    return Figure.of(
        "curve",
        f"Precision and recall of the first k rows, for k from 1 to {ranking.n_rows:,} on a "
        "logarithmic axis. The table below the chart holds the numbers.",
        alt.layer(lines, chosen, hover(points, x, told)).add_params(alt.param("k", value=k)),
        300,
    )


def roc_figure(lists: dict[str, Ranking]) -> Figure:
    """Recall against the false positive rate, from the first false alarm on."""
    ranking = next(iter(lists.values()))
    left = 0.5 / ranking.n_neg
    parts: list[Rows] = []
    for name, one in lists.items():
        rates, recall = roc_points(one)
        drawn = np.maximum(rates, left)
        parts.append({"rate": rates, "drawn": drawn, "recall": recall, "list": name})
    chance, names = np.geomspace(left, 1, 60), [*lists, "random order"]
    x = log_axis("drawn", "false positive rate (logarithmic; left end: none)", left, 1)
    lines = (
        alt.Chart(data(*parts))
        .mark_line(strokeWidth=2.2, interpolate="step-after", clip=True)
        .encode(
            x=x,
            y=_share_axis("recall", "recall"),
            color=alt.Color("list:N", sort=None).scale(
                domain=names, range=[*[FIRST, SECOND][: len(lists)], FAINT]
            ),
            strokeDash=_dashes(names),
            order=alt.Order("rate:Q"),
        )
    )
    by_chance = (
        alt.Chart(data({"drawn": chance, "recall": chance, "list": "random order"}))
        .mark_line(strokeWidth=1.5)
        .encode(x=x, y="recall:Q", color="list:N", strokeDash="list:N")
    )
    rates, _ = roc_points(ranking)
    ours = {key: parts[0][key] for key in ("rate", "drawn", "recall")}
    points = data(ours | {"alarms": rates * ranking.n_neg})
    told = [tip("alarms:Q", ",.0f", "false alarms"), tip("rate:Q", ".3~%", "false positive rate")]
    return Figure.of(
        "roc",
        "Recall against the false positive rate on a logarithmic axis that begins at no false "
        "alarm at all.",
        alt.layer(lines, by_chance, hover(points, x, [*told, tip("recall:Q", ".1%")])),
        280,
    )


def scores_figure(ranking: Ranking) -> Figure:
    """How the scores of each class are spread."""
    edges, *shares = score_shares(ranking)
    both = dict(zip(("positives", "negatives"), shares, strict=True))
    # A step goes on to the next point: the last bin needs one at its end.
    steps: list[Rows] = [
        {"low": edges, "share": np.append(share, share[-1]), "list": name}
        for name, share in both.items()
    ]
    x = value_axis("low", "score", edges, zero=False)
    axis = alt.Axis(format="%", tickCount=5)
    colour = alt.Color("list:N").scale(domain=list(both), range=[FIRST, SECOND])
    chart = alt.Chart(data(*steps)).encode(
        x=x, y=alt.Y("share:Q", title="share of the class", axis=axis, stack=None), color=colour
    )
    areas = chart.mark_area(interpolate="step-after", fillOpacity=0.18)
    lines = chart.mark_line(interpolate="step-after", strokeWidth=2)
    lines = lines.encode(strokeDash=_dashes(list(both)))
    points = data({"low": edges[:-1], "high": edges[1:], **both})
    ends = [tip("low:Q", ".4g", "score from"), tip("high:Q", ".4g", "to")]
    told = [*ends, *(tip(f"{name}:Q", ".2%") for name in both)]
    return Figure.of(
        "scores",
        "Share of the positives and of the negatives in equal bins of the score.",
        alt.layer(areas, lines, hover(points, x, told)),
        240,
    )


def calibration_figure(ranking: Ranking, groups: Sequence[ScoreGroup]) -> Figure:
    """Observed share of positives by score, with intervals and a rising staircase."""
    steps, heights = rising_share(ranking)
    dots = (
        {"score": one.median, "share": one.share, "low": one.low, "high": one.high}
        | {"ranks": f"{one.first:,} to {one.last:,}"}
        for one in groups
    )
    shown = data(*dots)
    # Room for the dots at both ends, and for a last step of a single score.
    room = 0.02 * float(steps[-1] - steps[0]) or 1.0
    domain = [float(steps[0]) - room, float(steps[-1]) + room]
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
        "the rising staircase nearest to the labels. The table below holds the numbers.",
        alt.layer(stairs, bars, points),
        260,
    )


def history_figure(history: Sequence[Iteration]) -> Figure:
    """Objective and proven bound against reads of the data."""
    both = ["objective", "proven bound"]
    bounds = [at.upper for at in history], [at.lower for at in history]
    passes = [at.passes for at in history]
    parts: list[Rows] = [
        {"passes": passes, "value": values, "list": name}
        for name, values in zip(both, bounds, strict=True)
    ]
    lines = (
        alt.Chart(data(*parts))
        .mark_line(strokeWidth=2.2, point={"size": 30})
        .encode(
            x=alt.X("passes:Q", title="reads of the data", axis=alt.Axis(tickCount=10)),
            y=alt.Y("value:Q", title="objective", scale=alt.Scale(zero=False)),
            color=alt.Color("list:N").scale(domain=both, range=[FIRST, SECOND]),
            strokeDash=_dashes(both),
            tooltip=[
                tip("list:N", title="bound"),
                tip("passes:Q", ".1f", "reads of the data"),
                tip("value:Q", ".6g"),
            ],
        )
    )
    return Figure.of(
        "history", "How the objective and the proven bound below the optimum met.", lines, 220
    )
