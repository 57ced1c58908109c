"""`toppush check`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toppush.cli import common
from toppush.cli.rank import percent
from toppush.cli.sources import FILE, Given, opened, source_options

if TYPE_CHECKING:
    from rich.table import Table

    from toppush.monitor.drift import Change, Limits
    from toppush.monitor.verdict import Checked, CheckedColumn

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
    from toppush.monitor.verdict import GROUPS

    given = common.listed(values) or tuple(GROUPS)
    if unknown := [one for one in given if one not in (*GROUPS, NEVER)]:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join((*GROUPS, NEVER))}.")
    return () if NEVER in given else given


@click.command(cls=common.Command)
@source_options
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
@click.option(
    "--before",
    type=FILE,
    help="Rows to compare with, instead of those that MODEL was fitted to.",
)
@click.option("--html", type=common.OutputFile(), help="Also write a page about it.")
def check(
    labels: bool | None,
    fail_on: tuple[str, ...],
    before: Path | None,
    html: Path | None,
    as_json: bool,
    psi: float,
    share: float,
    factor: float,
    precision: float,
    alpha: float,
    **source: Any,
) -> None:
    """Say what moved in DATA since MODEL was fitted: columns, scores, precision at the top.

    Columns: their values, gaps, unknown texts, values beyond the range of training. Scores: whether
    percentile scores are evenly distributed, and how many rows are at the top. Precision: whether
    the top of the ranking still holds as many positives as out-of-fold scores predicted, if DATA
    has labels. A change counts if it is large and, by a test that is corrected for there being
    many, statistically significant.

    For a scheduler: exit code 0 if nothing moved, 5 if something did. The file is streamed.

    With --before, DATA is held against other rows, such as last month's; then MODEL may be a skops
    file, or be left out where --scores names a column of both files.

    Example: toppush check fraud.toppush this-week.csv --html check.html

    Example: toppush check march.csv --scores score --before february.csv --label fraud
    """
    from toppush.monitor.drift import Limits
    from toppush.monitor.verdict import headline, sentences

    given = Given.of(**source)
    limits = Limits(psi, share, factor, precision, alpha)
    found, met, said = _check(given, before, labels, limits)
    if html is not None:
        from toppush.report.check import watch_page
        from toppush.system.writing import write_text

        model = None if given.model is None else given.model.name
        against = "" if before is None else before.name
        write_text(html, watch_page(found, data=given.data.name, model=model, before=against))
    failing = found.moved(*fail_on) if fail_on else []
    written = {"html": None if html is None else str(html), "failed": bool(failing)}
    common.show(
        as_json,
        met | found.as_json() | written,
        said,
        headline(found),
        *sentences(found),
        column_table(found.columns),
        top_table(found),
        "" if html is None else f"Written: {html}.",
    )
    if failing:
        raise click.exceptions.Exit(MOVED)


def _check(
    given: Given, before: Path | None, labels: bool | None, limits: "Limits"
) -> tuple["Checked", dict[str, Any], str]:
    """What moved, and what was met on the way, as JSON and in words."""
    from toppush.files.check_rankings import check_against
    from toppush.files.checking import check as check_file
    from toppush.files.scoring import ScoringNotes
    from toppush.files.sources import ModelSource

    with opened(given) as (source, file):
        if before is not None:
            options = {"label": given.label, "positive": given.positive, "kind": given.kind}
            found = check_against(
                source, before, given.data, labels=labels, limits=limits, **options
            )
            return found, {"before": str(before)}, f"{found.rows:,} rows, against {before.name}."
        if not isinstance(source, ModelSource):
            raise click.UsageError(
                "only a model of toppush remembers its training rows; name rows to compare with by "
                "--before."
            )
        model, seen = source.model, ScoringNotes()
        found = check_file(model, file, label=given.label, labels=labels, limits=limits, seen=seen)
    said = [common.model_label_text(model), common.met_text(model, seen)]
    return found, common.met(model, seen), "\n".join(filter(None, said))


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
    title = "Columns, the most moved first" + f" ({more:,} more not shown)" * (more > 0)
    heads = ("column", "moved", "PSI", "distance", "gaps before", "now", "unknown", "beyond range")
    return common.table(*heads, rows=rows, title=title)


def top_table(found: "Checked") -> "Table":
    """How many rows are at the top, and what they hold."""
    rows = [
        [f"{one.percentile:.4g}" if one.percentile else "all", percent(one.part),
         percent(one.part_now), f"{one.rows:,}", _share(one.precision),
         *([] if one.found is None or one.low is None or one.high is None else
           [percent(one.found), percent(one.low), percent(one.high)])]
        for one in found.parts
    ]  # fmt: skip
    heads = ["percentile above", "rows before", "now", "rows", "precision before"]
    heads += ["now", "from", "to"] * found.labelled
    return common.table(*heads, rows=rows, title="The top of the list")


def _both(change: "Change | None") -> list[str]:
    return ["-", "-"] if change is None else [_share(change.before), _share(change.now)]


def _now(change: "Change | None") -> str:
    return _share(None if change is None else change.now)


def _share(share: float | None) -> str:
    return "-" if not share else percent(share)
