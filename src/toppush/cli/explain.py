"""`toppush explain`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toppush.cli import common

if TYPE_CHECKING:
    from rich.table import Table

    from toppush.explain.reasons import Reason
    from toppush.files.explaining import Placed, PlacedPair

NOISE = 1e-9
"""Share of a difference of scores below which a part of it is only rounding."""


class TwoRows(click.ParamType):  # type: ignore[type-arg]
    """Two row numbers, parted by a comma."""

    name = "row,row"

    def convert(self, value: Any, param: common.Param, ctx: common.Context) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
            self.fail(f"{value!r} is no pair of row numbers such as 17,4.", param, ctx)
        return int(parts[0]), int(parts[1])


@click.command(cls=common.Command)
@common.existing("model")
@common.existing("data")
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
    type=TwoRows(),
    multiple=True,
    help="Two rows: why the first stands above the second; may be repeated.",
)
@click.option(
    "--count",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="How many columns to name.",
)
@common.format_option
@common.json_option
def explain(
    model: Path,
    data: Path,
    rows: tuple[int, ...],
    pairs: tuple[tuple[int, int], ...],
    count: int,
    kind: str | None,
    as_json: bool,
) -> None:
    """Say why rows of DATA stand where they do in its list.

    Of each --row: which columns lift it above the highest-ranked negatives of the training rows,
    which lower it, and in which the next row of the list is ahead. Of each --pair: which columns
    set the two apart. Amounts are in units of the score.

    Example: toppush explain fraud.toppush new.csv --row 17 --pair 17,4
    """
    from toppush import files
    from toppush.files.explaining import compared_with

    if not rows and not pairs:
        raise click.UsageError("nothing to explain; name rows with --row 17 or --pair 17,4.")
    with common.scoring(model, data, kind) as (ranker, file, seen):
        told, told_pairs = files.explain_rows(ranker, file, rows, pairs, n_columns=count, seen=seen)
    against = compared_with(ranker)
    result = common.met(ranker, seen) | {
        "compared_with": against,
        "explained": [_as_json(one) for one in told],
        "pairs": [_pair_as_json(pair) for pair in told_pairs],
    }
    parts = [part for one in told for part in _as_text(one, seen.rows, against)]
    parts += [part for pair in told_pairs for part in _pair_as_text(pair)]
    said = [common.model_label_text(ranker), common.met_text(ranker, seen)]
    common.show(as_json, result, *said, *parts)


def _as_json(one: "Placed") -> dict[str, Any]:
    return asdict(one.why) | {"row": one.number, "rank": one.rank}


def _pair_as_json(pair: "PlacedPair") -> dict[str, Any]:
    return {"rows": pair.numbers, "ranks": pair.ranks} | asdict(pair.why)


def _as_text(one: "Placed", n_rows: int, against: str) -> list[object]:
    why = one.why
    side = "above" if why.lift >= 0 else "below"
    said: list[object] = [
        f"Row {one.number:,}: rank {one.rank:,} of {n_rows:,}, score {why.score:.6g}, "
        f"{abs(why.lift):.3g} {side} {against}."
    ]
    both = sorted([*why.lifted, *why.lowered], key=lambda reason: -abs(reason.lift))
    said.append(_reasons(both))
    if why.above_usual:
        said += ["Above the mean of all training rows, most by:", _reasons(why.above_usual)]
    if why.held_back:
        said.append(f"Held back from rank {one.rank - 1:,} (row {why.above:,}), which is ahead in:")
        said.append(_reasons(why.held_back))
    return said


def _reasons(reasons: "list[Reason] | tuple[Reason, ...]") -> "Table":
    rows = [[one.column, _value(one.value), f"{one.lift:+.3g}"] for one in reasons]
    return common.table("column", "value", "lift", rows=rows)


def _pair_as_text(pair: "PlacedPair") -> list[object]:
    why, (one, other) = pair.why, pair.numbers
    above = "above" if pair.ranks[0] < pair.ranks[1] else "below"
    rows = [
        [part.column, _value(part.value), _value(part.other), f"{part.lift:+.3g}"]
        for part in why.differences
    ]
    if abs(why.rest) > NOISE * abs(why.score - why.other):
        rows.append(["all others", "", "", f"{why.rest:+.3g}"])
    return [
        f"Row {one:,} (rank {pair.ranks[0]:,}, score {why.score:.6g}) is {above} row {other:,} "
        f"(rank {pair.ranks[1]:,}, score {why.other:.6g}), by {why.score - why.other:+.3g}:",
        common.table("column", f"row {one}", f"row {other}", "lift", rows=rows),
    ]


def _value(text: str | None) -> str:
    return "missing" if text is None else text
