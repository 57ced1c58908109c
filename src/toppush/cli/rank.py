"""`toppush rank`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toppush.cli import common

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

REASON = re.compile(r"(why_\d+|held_back)_(column|value|lift)")
SHOWN = 20
"""Rows that are shown when no output is named."""


@click.command(cls=common.Command)
@common.existing("model")
@common.existing("data")
@common.output_option("Where to write the list: .csv, .tsv, .parquet, .arrow or .feather.")
@click.option(
    "--limit", type=click.IntRange(min=1), help="Keep the best K rows, in bounded memory."
)
@common.columns_option("--columns", "Columns of DATA to carry along, such as an id.")
@click.option(
    "--explain",
    type=click.IntRange(1, 20),
    metavar="N",
    help="Say why each row is there: the N columns that lift it most, and what holds it back.",
)
@common.format_option
@common.json_option
def rank(
    model: Path,
    data: Path,
    output: Path | None,
    limit: int | None,
    columns: tuple[str, ...],
    explain: int | None,
    kind: str | None,
    as_json: bool,
) -> None:
    """List the rows of DATA best first, with rank, score and row number.

    Of equal scores the earlier row comes first. With --limit the file is streamed, and memory does
    not grow with it; without, the scores and --columns of all rows are sorted in memory. With
    --explain the listed rows are read again and held.

    Example: toppush rank fraud.toppush new.csv -o ranked.csv --limit 1000 --columns id
    """
    from toppush import files
    from toppush.files.explaining import compared_with, with_reasons
    from toppush.files.ranking import require_ending, write_table

    if output is not None:
        require_ending(output)
    with common.scoring(model, data, kind) as (ranker, rows, seen):
        against = compared_with(ranker) if explain else ""
        carried = common.named_columns(rows, columns)
        found = files.rank(ranker, rows, limit=limit, columns=carried, seen=seen)
        listed = found if as_json or output is not None else found.slice(0, SHOWN)
        if explain:
            listed = with_reasons(ranker, rows, listed, explain)
    if output is not None:
        write_table(listed, output)
    written = None if output is None else str(output)
    result = common.met(ranker, seen) | {"listed": len(found), "output": written}
    label = common.label_text(ranker.about["label"]) if "label" in ranker.about else ""
    said = [label, common.met_text(ranker, seen)]
    if explain:
        said.append(f"Lifts are relative to {against}.")
        result["compared_with"] = against
    if output is None:
        common.show(as_json, result | {"ranked": listed.to_pylist()}, *said, _as_text(listed))
        return
    common.show(as_json, result, *said, f"Written: {output} ({len(found):,} rows).")


def _as_text(found: "pa.Table") -> "Table":
    """The list for the terminal; reasons in words alone."""
    names = [name for name in found.column_names if not REASON.fullmatch(name)]
    names.remove("score")
    rows = [
        [f"{row['rank']}", f"{row['score']:.6g}", *(f"{row[name]}" for name in names[1:])]
        for row in found.to_pylist()
    ]
    made = common.table("rank", "score", *names[1:], rows=rows)
    if names[-1] == "why":
        made.columns[-1].justify = "left"
    return made
