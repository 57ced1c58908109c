"""`toppush rank`."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toppush.cli import asking, common

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

    from toppush.files import Model

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
@asking.by_option
@common.columns_option("--columns", "Columns of DATA to carry along, such as an id.")
@click.option(
    "--explain",
    type=click.IntRange(1, 20),
    metavar="N",
    help="Say why each row is there: the N columns that lift it most, and what holds it back.",
)
@click.option(
    "--raw-cells",
    is_flag=True,
    help="Write strings to CSV and TSV as they are. By default those that a spreadsheet would "
    "evaluate as a formula (they begin with =, +, - or @) get an apostrophe before them.",
)
@common.format_option
@common.json_option
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
    """List the rows of DATA best first, with percentile score and probability.

    The percentile is the percentage of the training rows that score lower: 99.95 is better than
    all but one in 2,000. The probability is calibrated: the share of positives to expect among rows
    with such a score. Only the order of scores counts: a score above 0 is not a decision. Take as
    many rows as you can review, or a threshold by `toppush threshold`.

    Of equal scores the earlier row comes first. With --limit the file is streamed, and memory does
    not grow with it; without, the scores and --columns of all rows are sorted in memory. With --by
    every group has a list of its own, of --limit rows. With --explain the listed rows are read
    again and held.

    Example: toppush rank fraud.toppush new.csv -o ranked.csv --limit 1000 --columns id

    Example: toppush rank fraud.toppush new.csv -o lists.csv --by branch --limit 50 --columns id
    """
    from toppush import files
    from toppush.files.explaining import compared_with, with_reasons
    from toppush.files.ranking import require_ending, write_table

    if output is not None:
        require_ending(output)
    with common.scoring(model, data, kind) as (ranker, rows, seen):
        against = compared_with(ranker) if explain else ""
        carried = common.named_columns(rows, columns)
        found = files.rank(ranker, rows, limit=limit, columns=carried, by=by, seen=seen)
        listed = found if as_json or output is not None else found.slice(0, SHOWN)
        if explain:
            listed = with_reasons(ranker, rows, listed, explain)
    if output is not None:
        write_table(listed, output, escape=not raw_cells)
    written = None if output is None else str(output)
    result = common.met(ranker, seen) | {"listed": len(found), "output": written}
    said = [common.model_label_text(ranker), common.met_text(ranker, seen), ranker.scale_text]
    if explain:
        said.append(f"Lifts are relative to {against}.")
        result["compared_with"] = against
    if output is None:
        common.show(
            as_json, result | {"ranked": listed.to_pylist()}, *said, _as_text(listed, ranker)
        )
        return
    common.show(as_json, result, *said, f"Written: {output} ({len(found):,} rows).")


def _as_text(found: "pa.Table", model: "Model") -> "Table":
    """The list for the terminal; reasons in words alone."""
    shown = [
        name
        for name in found.column_names
        if not REASON.fullmatch(name) and found[name].null_count < len(found)
    ]
    forms: dict[str, Callable[[Any], str]] = {"score": "{:.4g}".format, "probability": percent}
    if model.scale is not None:
        forms["percentile"] = f"{{:.{model.scale.digits}f}}".format
    rows = [
        [forms.get(name, common.cell_text)(row[name]) for name in shown]
        for row in found.to_pylist()
    ]
    made = common.table(*shown, rows=rows)
    if shown[-1] == "why":
        made.columns[-1].justify = "left"
    return made


def percent(share: float) -> str:
    """A share in percent, with three digits; not 100 for what is not all.

    >>> from toppush.cli.rank import percent
    >>> percent(0.8333), percent(0.000123), percent(0.99996)
    ('83.3%', '0.0123%', '99.99%')
    """
    if 0.9995 <= share < 1.0:
        return f"{min(100 * share, 99.99):.2f}%"
    return f"{float(f'{100 * share:.3g}'):g}%"
