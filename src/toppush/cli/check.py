"""`toppush check`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toppush.cli import common
from toppush.cli.rank import percent

if TYPE_CHECKING:
    from rich.table import Table

    from toppush.metrics.drift import Change
    from toppush.metrics.verdict import Checked, CheckedColumn

MOVED = 5
"""Exit code when something has moved that the command was to watch."""
SHOWN = 20
"""Columns that are shown on a terminal."""
NEVER = "never"
ABOVE_ZERO = click.FloatRange(min=0.0, min_open=True)


def read_groups(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> tuple[str, ...]:
    """What to fail on: groups of changes, or never."""
    from toppush.metrics.verdict import GROUPS

    given = common.listed(values) or tuple(GROUPS)
    if unknown := [one for one in given if one not in (*GROUPS, NEVER)]:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join((*GROUPS, NEVER))}.")
    return () if NEVER in given else given


@click.command(cls=common.Command)
@common.existing("model")
@common.existing("data")
@common.label_option
@click.option(
    "--labels/--no-labels",
    default=None,
    help="Whether DATA holds labels [default: if a table has the column].",
)
@common.list_option(
    "--fail-on",
    "What ends with exit code 5 if it moved: columns, scores, precision, or never; with commas "
    "[default: all three].",
    callback=read_groups,
)
@click.option(
    "--psi", type=ABOVE_ZERO, default=0.1, show_default=True,
    help="Population stability index of values or scores that counts.",
)  # fmt: skip
@click.option(
    "--share", type=common.SHARE, default=0.02, show_default=True,
    help="Change of the share of gaps, unknown texts or values beyond the range that counts.",
)  # fmt: skip
@click.option(
    "--factor", type=click.FloatRange(min=1.0, min_open=True), default=2.0, show_default=True,
    help="How many times as many, or as few, rows at the top count.",
)  # fmt: skip
@click.option(
    "--precision", type=common.SHARE, default=0.2, show_default=True,
    help="Part of the precision at the top whose loss counts.",
)  # fmt: skip
@click.option(
    "--alpha", type=common.SHARE, default=0.01, show_default=True,
    help="Chance of any alarm if nothing moved, over all tests.",
)  # fmt: skip
@click.option("--html", type=common.OutputFile(), help="Also write a page about it.")
@common.format_option
@common.json_option
def check(
    model: Path,
    data: Path,
    label: str | None,
    labels: bool | None,
    fail_on: tuple[str, ...],
    html: Path | None,
    kind: str | None,
    as_json: bool,
    **limits: float,
) -> None:
    """Say what moved in DATA since MODEL was fitted: columns, scores, precision at the top.

    Columns: their values, gaps, unknown texts, values beyond the range of training. Scores: whether
    points are even, and how many rows are at the top. Precision: whether the top of the list still
    holds as many positives as out-of-fold scores promised, if DATA has labels. A change counts if
    it is large and, by a test that is corrected for there being many, no luck.

    For a scheduler: exit code 0 if nothing moved, 5 if something did. The file is streamed.

    Example: toppush check fraud.toppush this-week.csv --html check.html
    """
    from toppush import files
    from toppush.metrics.drift import Limits
    from toppush.metrics.verdict import headline, sentences

    with common.scoring(model, data, kind) as (ranker, rows, seen):
        found = files.check(
            ranker, rows, label=label, labels=labels, limits=Limits(**limits), seen=seen
        )
    if html is not None:
        from toppush.report.watch import watch_page
        from toppush.system.writing import write_text

        write_text(html, watch_page(found, model=model.name, data=data.name))
    failing = found.moved(*fail_on) if fail_on else []
    written = {"html": None if html is None else str(html), "failed": bool(failing)}
    common.show(
        as_json,
        common.met(ranker, seen) | found.as_json() | written,
        common.met_text(ranker, seen),
        headline(found),
        *sentences(found),
        column_table(found.columns),
        top_table(found),
        "" if html is None else f"Written: {html}.",
    )
    if failing:
        raise click.exceptions.Exit(MOVED)


def column_table(columns: "Sequence[CheckedColumn]") -> "Table | str":
    """The columns, the most moved first."""
    if not columns:
        return ""
    rows = [
        [one.name, ", ".join(one.moved) or "-", f"{one.psi:.3f}", f"{one.distance:.3f}",
         *(_both(one.change("gaps"))), _now(one.change("unknown texts")), _now(one.change("range"))]
        for one in columns[:SHOWN]
    ]  # fmt: skip
    more = len(columns) - SHOWN
    title = "Columns, the most moved first" + f" ({more:,} more are not shown)" * (more > 0)
    heads = ("column", "moved", "PSI", "distance", "gaps before", "now", "unknown", "beyond range")
    return common.table(*heads, rows=rows, title=title)


def top_table(found: "Checked") -> "Table":
    """How many rows are at the top, and what they hold."""
    rows = [
        [f"{one.points:.4g}" if one.points else "all", percent(one.part),
         percent(one.part_now), f"{one.rows:,}", percent(one.precision),
         *([] if one.found is None or one.low is None or one.high is None else
           [percent(one.found), percent(one.low), percent(one.high)])]
        for one in found.parts
    ]  # fmt: skip
    heads = ["points above", "rows before", "now", "rows", "precision before"]
    heads += ["now", "from", "to"] * found.labelled
    return common.table(*heads, rows=rows, title="The top of the list")


def _both(change: "Change | None") -> list[str]:
    return ["-", "-"] if change is None else [_share(change.before), _share(change.now)]


def _now(change: "Change | None") -> str:
    return _share(None if change is None else change.now)


def _share(share: float | None) -> str:
    return "-" if not share else percent(share)
