"""`toppush check`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toppush.cli import options
from toppush.cli.group import Command
from toppush.cli.output import (
    TextTable,
    model_label_text,
    percent,
    scoring_facts,
    scoring_text,
    show,
)
from toppush.cli.sources import FILE, SourceArguments, open_scores, source_options

if TYPE_CHECKING:
    from toppush.monitor.drift import Change, Limits
    from toppush.monitor.verdict import Checked, CheckedColumn

DRIFTED = 5
"""Exit code if a monitored quantity has drifted."""
SHOWN = 20
"""Columns that are shown on a terminal."""
NEVER = "never"


def parse_groups(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> tuple[str, ...]:
    """The groups of changes that end with an exit code, or none."""
    from toppush.monitor.verdict import GROUPS

    names = options.split_names(values) or tuple(GROUPS)
    if unknown := [name for name in names if name not in (*GROUPS, NEVER)]:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join((*GROUPS, NEVER))}.")
    return () if NEVER in names else names


@click.command(cls=Command)
@source_options
@click.option(
    "--labels/--no-labels",
    default=None,
    help="Whether DATA holds labels [default: if a table has the column].",
)
@options.list_option(
    "--fail-on",
    "Drift that ends with exit code 5: columns, scores, precision, separated by commas, or never "
    "[default: all three].",
    callback=parse_groups,
)
@click.option(
    "--psi", type=options.ABOVE_ZERO, default=0.1, show_default=True,
    help="Minimum population stability index of values or scores that counts as drift.",
)  # fmt: skip
@click.option(
    "--share", type=options.FRACTION, default=0.02, show_default=True,
    help="Minimum change of the share of missing values, unknown categories or values outside the "
    "range that counts as drift.",
)  # fmt: skip
@click.option(
    "--factor", type=click.FloatRange(min=1.0, min_open=True), default=2.0, show_default=True,
    help="Minimum factor by which the number of rows at the top grows or shrinks.",
)  # fmt: skip
@click.option(
    "--precision", type=options.FRACTION, default=0.2, show_default=True,
    help="Minimum relative loss of precision at the top.",
)  # fmt: skip
@click.option(
    "--alpha", type=options.FRACTION, default=0.01, show_default=True,
    help="Probability of any false report of drift, over all tests.",
)  # fmt: skip
@click.option(
    "--before",
    type=FILE,
    help="Rows to compare with, instead of the training rows of MODEL.",
)
@click.option("--html", type=options.OutputFile(), help="Also write an HTML page.")
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
    """Report drift of DATA since MODEL was fitted: in columns, scores and precision at the top.

    Columns: their values, missing values, unknown categories, values outside the training range.
    Scores: whether percentile scores are evenly distributed, and how many rows are at the top.
    Precision: whether the top of the ranking still holds as many positives as out-of-fold scores
    predicted, if DATA has labels. A change counts if it is large and, by a test that is corrected
    for multiple testing, statistically significant.

    For a scheduler: exit code 0 without drift, 5 with drift. The file is streamed.

    With --before, DATA is compared with other rows, such as last month's; then MODEL may be a skops
    file, or be left out where --scores names a column of both files.

    Example: toppush check fraud.toppush this-week.csv --html check.html

    Example: toppush check march.csv --scores score --before february.csv --label fraud
    """
    from toppush.monitor.drift import Limits
    from toppush.monitor.verdict import headline, sentences

    arguments = SourceArguments.of(**source)
    limits = Limits(psi, share, factor, precision, alpha)
    drift, facts, notes = _check(arguments, before, labels, limits)
    if html is not None:
        from toppush.report.check import drift_page
        from toppush.system.writing import write_text

        model = None if arguments.model is None else arguments.model.name
        against = "" if before is None else before.name
        page = drift_page(drift, data=arguments.data.name, model=model, before=against)
        write_text(html, page)
    failed = bool(fail_on and drift.drifted(*fail_on))
    show(
        as_json,
        facts | drift.as_json() | {"html": None if html is None else str(html), "failed": failed},
        notes,
        headline(drift),
        *sentences(drift),
        _column_table(drift.columns) if drift.columns else "",
        _top_table(drift),
        "" if html is None else f"Written: {html}.",
    )
    if failed:
        raise click.exceptions.Exit(DRIFTED)


def _check(
    arguments: SourceArguments, before: Path | None, labels: bool | None, limits: "Limits"
) -> tuple["Checked", dict[str, Any], str]:
    """The drift, and what was noticed while scoring, as JSON and in words."""
    from toppush.files.drift import check as check_file
    from toppush.files.drift import check_against
    from toppush.files.scoring import ScoringNotes
    from toppush.files.sources import ModelSource

    with open_scores(arguments) as (source, file):
        if before is not None:
            drift = check_against(
                source,
                before,
                arguments.data,
                labels=labels,
                limits=limits,
                label=arguments.label,
                positive=arguments.positive,
                kind=arguments.kind,
            )
            notes = f"{drift.rows:,} rows, compared with {before.name}."
            return drift, {"before": str(before)}, notes
        if not isinstance(source, ModelSource):
            raise click.UsageError(
                "only a toppush file records its training rows; name rows to compare with by "
                "--before."
            )
        model, seen = source.model, ScoringNotes()
        drift = check_file(
            model, file, label=arguments.label, labels=labels, limits=limits, seen=seen
        )
    parts = [model_label_text(model), scoring_text(model, seen)]
    return drift, scoring_facts(model, seen), "\n".join(filter(None, parts))


def _column_table(columns: "Sequence[CheckedColumn]") -> TextTable:
    """The columns, the largest drift first."""
    rows = []
    for column in columns[:SHOWN]:
        missing = column.change("missing")
        rows.append(
            [
                column.name,
                ", ".join(column.drifted) or "-",
                f"{column.psi:.3f}",
                f"{column.distance:.3f}",
                _share(missing.before if missing else None),
                _now(missing),
                _now(column.change("unknown categories")),
                _now(column.change("range")),
            ]
        )
    more = len(columns) - SHOWN
    title = "Columns, the largest drift first" + f" ({more:,} more not shown)" * (more > 0)
    heads = [
        "column", "drift", "PSI", "distance", "missing", "now", "unknown", "outside",
    ]  # fmt: skip
    return TextTable(heads, rows, title)


def _top_table(drift: "Checked") -> TextTable:
    """How many rows are at the top, and the precision there."""
    rows = []
    for part in drift.parts:
        row = [
            f"{part.percentile:.4g}" if part.percentile else "all",
            percent(part.part),
            percent(part.part_now),
            f"{part.rows:,}",
            _share(part.precision),
        ]
        if part.observed is not None and part.low is not None and part.high is not None:
            row += map(percent, (part.observed, part.low, part.high))
        rows.append(row)
    heads = ["percentile above", "rows before", "now", "rows", "precision before"]
    heads += ["now", "from", "to"] * drift.labelled
    return TextTable(heads, rows, "The top of the ranking")


def _now(change: "Change | None") -> str:
    return _share(None if change is None else change.now)


def _share(share: float | None) -> str:
    return percent(share) if share else "-"
