"""`toppush rank` and `toppush explain`."""

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toppush.cli import options
from toppush.cli.group import Command
from toppush.cli.output import (
    TextTable,
    cell_text,
    model_label_text,
    percent,
    scoring_facts,
    scoring_text,
    show,
)
from toppush.cli.sources import scoring

if TYPE_CHECKING:
    import pyarrow as pa

    from toppush.explain.reasons import Reason
    from toppush.files import Model
    from toppush.files.explaining import Placed, PlacedPair

REASON = re.compile(r"(why_\d+|held_back)_(column|value|contribution)")
SHOWN = 20
"""Rows that are shown if there is no output file."""
NOISE = 1e-9
"""Part of a score difference up to which a remainder is only rounding."""


@click.command(cls=Command)
@options.input_argument("model")
@options.input_argument("data")
@options.output_option("Where to write the ranking: .csv, .tsv, .parquet, .arrow or .feather.")
@click.option(
    "--limit", type=click.IntRange(min=1), help="Keep the best K rows, in bounded memory."
)
@options.by_option
@options.columns_option("--columns", "Columns of DATA to copy to the output, such as an id.")
@click.option(
    "--explain",
    type=click.IntRange(1, 20),
    metavar="N",
    help="Add the N columns that raise the score of each row most, and the column that holds the "
    "row back.",
)
@click.option(
    "--raw-cells",
    is_flag=True,
    help="Write strings to CSV and TSV unchanged. By default, strings that a spreadsheet would "
    "evaluate as a formula (they begin with =, +, - or @) get an apostrophe before them.",
)
@options.format_option
@options.json_option
def rank(
    model: Path,
    data: Path,
    output: Path | None,
    limit: int | None,
    by: str | None,
    columns: tuple[str, ...],
    explain: int | None,
    raw_cells: bool,
    kind: str | None,
    as_json: bool,
) -> None:
    """Rank the rows of DATA, best first, with percentile score and probability.

    The percentile is the percentage of the training rows that score lower: 99.95 is better than
    all but one in 2,000. The probability is calibrated: the expected precision among rows with such
    a score. Only the order of scores counts. Take as many rows as you can review, or a threshold by
    `toppush threshold`.

    Of equal scores the earlier row comes first. With --limit the file is streamed, and memory does
    not grow with it; otherwise the scores and --columns of all rows are sorted in memory. With --by
    each group is ranked separately, with --limit rows per group. With --explain the ranked rows are
    read again and held in memory.

    Example: toppush rank fraud.toppush new.csv -o ranked.csv --limit 1000 --columns id

    Example: toppush rank fraud.toppush new.csv -o ranked.csv --by branch --limit 50 --columns id
    """
    from toppush import files
    from toppush.files.explaining import compared_with, with_reasons
    from toppush.files.ranking import require_ending, write_table

    if output is not None:
        require_ending(output)
    with scoring(model, data, kind) as (ranker, rows, notes):
        reference = compared_with(ranker) if explain else ""
        carried = options.column_names(rows, columns)
        ranked = files.rank(ranker, rows, limit=limit, columns=carried, by=by, seen=notes)
        shown = ranked if as_json or output is not None else ranked.slice(0, SHOWN)
        if explain:
            shown = with_reasons(ranker, rows, shown, explain)
    result = scoring_facts(ranker, notes) | {"listed": len(ranked)}
    result["output"] = None if output is None else str(output)
    parts = [model_label_text(ranker), scoring_text(ranker, notes), ranker.scale_text]
    if explain:
        parts.append(f"Contributions are relative to {reference}.")
        result["compared_with"] = reference
    if output is None:
        show(as_json, result | {"ranked": shown.to_pylist()}, *parts, _table(shown, ranker))
        return
    write_table(shown, output, escape=not raw_cells)
    show(as_json, result, *parts, f"Written: {output} ({len(ranked):,} rows).")


def _table(ranked: "pa.Table", model: "Model") -> TextTable:
    """The ranking for the terminal, with the reasons as sentences only."""
    columns = [
        name
        for name in ranked.column_names
        if not REASON.fullmatch(name) and ranked[name].null_count < len(ranked)
    ]
    formats: dict[str, Callable[[Any], str]] = {"score": "{:.4g}".format, "probability": percent}
    if model.scale is not None:
        formats["percentile"] = f"{{:.{model.scale.digits}f}}".format
    rows = [
        [formats.get(name, cell_text)(row[name]) for name in columns] for row in ranked.to_pylist()
    ]
    return TextTable(columns, rows, left=("why",))


class RowPair(click.ParamType):  # type: ignore[type-arg]
    """Two row numbers, separated by a comma."""

    name = "row,row"

    def convert(self, value: Any, param: options.Param, ctx: options.Context) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
            self.fail(f"{value!r} is no pair of row numbers such as 17,4.", param, ctx)
        return int(parts[0]), int(parts[1])


@click.command(cls=Command)
@options.input_argument("model")
@options.input_argument("data")
@click.option(
    "--row",
    "rows",
    type=click.IntRange(min=1),
    multiple=True,
    help="A row of DATA to explain, counted from 1; may be repeated.",
)
@click.option(
    "--pair",
    "pairs",
    type=RowPair(),
    multiple=True,
    help="Two rows: why the first ranks above the second; may be repeated.",
)
@click.option(
    "--count",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Number of columns to name.",
)
@options.format_option
@options.json_option
def explain(
    model: Path,
    data: Path,
    rows: tuple[int, ...],
    pairs: tuple[tuple[int, int], ...],
    count: int,
    kind: str | None,
    as_json: bool,
) -> None:
    """Explain the ranks of rows of DATA by the contributions of their columns.

    For each --row: the columns that raise its score above the highest-ranked negatives of the
    training rows, the columns that lower it, and the columns in which the row ranked just above it
    is ahead. For each --pair: the columns in which the two rows differ most. Contributions are in
    units of the score.

    Example: toppush explain fraud.toppush new.csv --row 17 --pair 17,4
    """
    from toppush import files
    from toppush.files.explaining import compared_with

    if not rows and not pairs:
        raise click.UsageError("nothing to explain; name rows with --row 17 or --pair 17,4.")
    with scoring(model, data, kind) as (ranker, file, notes):
        explained, explained_pairs = files.explain_rows(
            ranker, file, rows, pairs, n_columns=count, seen=notes
        )
    reference = compared_with(ranker)
    result = scoring_facts(ranker, notes) | {
        "compared_with": reference,
        "explained": [asdict(row.why) | {"row": row.number, "rank": row.rank} for row in explained],
        "pairs": [
            {"rows": pair.numbers, "ranks": pair.ranks} | asdict(pair.why)
            for pair in explained_pairs
        ],
    }
    parts = [part for row in explained for part in _row_parts(row, notes.rows, reference)]
    parts += [part for pair in explained_pairs for part in _pair_parts(pair)]
    show(as_json, result, model_label_text(ranker), scoring_text(ranker, notes), *parts)


def _row_parts(row: "Placed", n_rows: int, reference: str) -> list[str | TextTable]:
    why = row.why
    side = "above" if why.difference >= 0 else "below"
    largest = sorted(
        [*why.raised_by, *why.lowered_by], key=lambda reason: -abs(reason.contribution)
    )
    parts: list[str | TextTable] = [
        f"Row {row.number:,}: rank {row.rank:,} of {n_rows:,}, score {why.score:.6g}, "
        f"{abs(why.difference):.3g} {side} {reference}.",
        _reason_table(largest),
    ]
    if why.above_average:
        parts += ["Columns that raise it most above the mean of all training rows:"]
        parts += [_reason_table(why.above_average)]
    if why.held_back:
        above = f"row {why.above:,} at rank {row.rank - 1:,}"
        parts += [f"Columns in which {above} is ahead:", _reason_table(why.held_back)]
    return parts


def _reason_table(reasons: "Iterable[Reason]") -> TextTable:
    rows = [
        [reason.column, _value(reason.value), f"{reason.contribution:+.3g}"] for reason in reasons
    ]
    return TextTable(["column", "value", "contribution"], rows)


def _pair_parts(pair: "PlacedPair") -> list[str | TextTable]:
    why, (first, second) = pair.why, pair.numbers
    above = "above" if pair.ranks[0] < pair.ranks[1] else "below"
    rows = [
        [part.column, _value(part.value), _value(part.other), f"{part.contribution:+.3g}"]
        for part in why.differences
    ]
    if abs(why.rest) > NOISE * abs(why.score - why.other):
        rows.append(["all others", "", "", f"{why.rest:+.3g}"])
    return [
        f"Row {first:,} (rank {pair.ranks[0]:,}, score {why.score:.6g}) is {above} row {second:,} "
        f"(rank {pair.ranks[1]:,}, score {why.other:.6g}), by {why.score - why.other:+.3g}:",
        TextTable(["column", f"row {first}", f"row {second}", "contribution"], rows),
    ]


def _value(text: str | None) -> str:
    return "missing" if text is None else text
