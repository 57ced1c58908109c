"""What the commands ask of a list: money, budgets and groups, as options and as columns of DATA."""

from typing import TYPE_CHECKING, Any

import click

from toppush.cli import common

if TYPE_CHECKING:
    from toppush.cli.sources import Listed
    from toppush.metrics.bootstrap import Interval
    from toppush.types import Array

WHOLE = click.IntRange(min=1)
TITLES = {
    "hits": "hits",
    "precision": "precision",
    "recall": "recall",
    "average_precision": "average precision",
    "positives_at_top": "Pos@Top",
    "profit": "profit",
}


class Amount(click.ParamType):  # type: ignore[type-arg]
    """A number, or the name of a column that holds one for each row."""

    name = "number or column"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        try:
            return float(value)
        except ValueError:
            return str(value)


money_options = common.together(
    click.option("--value", type=Amount(), help="What a hit is worth: a number, or a column."),
    click.option("--cost", type=Amount(), help="What a look costs: a number, or a column."),
)
day_options = common.together(
    click.option("--per-day", type=WHOLE, metavar="K", help="Rows that can be looked at a day."),
    click.option("--rows-per-day", type=WHOLE, metavar="R", help="Rows that come a day."),
)
by_option = click.option(
    "--by", metavar="COLUMN", help="A list for each group: day, branch, query."
)
budget_option = click.option(
    "--budget", type=WHOLE, metavar="K", help="Rows of each group that are looked at."
)


def require_pairs(**options: Any) -> None:
    """Refuse half of what only makes sense together."""
    for one, other in (("value", "cost"), ("cost", "value"), ("per_day", "rows_per_day")):
        if options.get(one) is not None and options.get(other) is None:
            raise click.UsageError(
                f"--{one} needs --{other} too".replace("_", "-") + HINTS.get(other, "") + "."
            )


HINTS = {
    "cost": ": what a look costs, 0 if nothing",
    "rows_per_day": ": how many rows come on a day",
}


def columns_of(*amounts: float | str | None) -> tuple[str, ...]:
    """The columns that amounts name."""
    return tuple(dict.fromkeys(one for one in amounts if isinstance(one, str)))


def amount_of(listed: "Listed", given: float | str | None) -> "float | Array | None":
    """A number, or that of each row."""
    return listed.found.numbers(given) if isinstance(given, str) else given


def by_groups(
    listed: "Listed",
    by: str,
    budget: int,
    *,
    value: float | str | None = None,
    cost: float | str | None = None,
    confidence: float,
) -> tuple[dict[str, Any], list[object]]:
    """Measures averaged over the groups of a column, as JSON and for a person."""
    from dataclasses import asdict

    from toppush.thresholds.groups import group_means, grouped_lists

    lists = grouped_lists(
        listed.found.positive,
        listed.found.scores,
        _groups(listed, by),
        budget=budget,
        value=amount_of(listed, value),
        cost=amount_of(listed, cost),
    )
    means = group_means(lists, confidence=confidence)
    empty = lists.without_positives
    measures = {name: asdict(one.mean) | {"groups": one.groups} for name, one in means.items()}
    found = {
        "by": by,
        "budget": budget,
        "groups": len(lists.names),
        "without_positives": empty,
        "looked": int(lists.looked.sum()),
        "hits": float(lists.measures["hits"].sum()),
        "means": measures,
    }
    rows = [[TITLES[name], *figures(one.mean), f"{one.groups:,}"] for name, one in means.items()]
    title = f"Means over groups of {by}, the first {budget:,} rows of each"
    return found, [
        common.table("measure", "mean", "from", "to", "groups", rows=rows, title=title),
        _sentence(found),
    ]


def _groups(listed: "Listed", by: str) -> "Any":
    import numpy as np

    return np.asarray(listed.found.texts(by).fill_null("(missing)").to_pylist())


def _sentence(found: dict[str, Any]) -> str:
    said = f"{found['groups']:,} groups; {found['looked']:,} looks would find {found['hits']:,.6g}."
    empty = found["without_positives"]
    if empty:
        named = ", ".join(map(str, empty[:5])) + ", ..." * (len(empty) > 5)
        said += (
            f" {len(empty):,} without a positive ({named}) count for hits, precision and profit "
            "only."
        )
    return said + " Intervals are of the mean over further groups like these."


def figures(one: "Interval") -> list[str]:
    """A figure and its interval."""
    return [f"{number:,.4g}" if abs(number) < 1e4 else f"{number:,.0f}"
            for number in (one.value, one.low, one.high)]  # fmt: skip
