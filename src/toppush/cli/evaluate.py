"""`toppush evaluate`."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from toppush.cli import asking, common
from toppush.cli.sources import Given, read_list, scoring_options

if TYPE_CHECKING:
    from rich.table import Table

    from toppush.metrics.bootstrap import Interval
    from toppush.metrics.panel import Panel


@click.command(cls=common.Command)
@scoring_options
@click.option(
    "--draws",
    type=click.IntRange(min=10),
    help="Draws for the intervals [default: 1000, fewer from 200,000 rows on].",
)
@common.seed_option
@asking.by_option
@asking.budget_option
@asking.money_options
def evaluate(
    confidence: float,
    draws: int | None,
    seed: int,
    as_json: bool,
    by: str | None,
    budget: int | None,
    value: float | str | None,
    cost: float | str | None,
    **source: Any,
) -> None:
    """Measure how well MODEL ranks the labelled rows of DATA, with intervals.

    With --by every group of a column has a list of its own, and measures of their first --budget
    rows (10 unless it is said) are averaged over the groups; --value and --cost add the profit.

    MODEL is a file of toppush, or one of skops with any fitted estimator or pipeline of
    scikit-learn. With --scores it is left out: the scores are in DATA.

    Example: toppush evaluate fraud.toppush held-out.csv --json

    Example: toppush evaluate scored.csv --scores score --label fraud

    Example: toppush evaluate fraud.toppush held-out.csv --by day --budget 50
    """
    from toppush.metrics import bootstrap
    from toppush.metrics.panel import measures, panel

    given, money = Given.of(**source), {"value": value, "cost": cost}
    _check(by=by, budget=budget, **money)
    texts = () if by is None else (by,)
    listed = read_list(given, texts=texts, numbers=asking.columns_of(value, cost))
    listed.require_both_classes()
    listed.caution()
    if by is not None:
        groups, parts = asking.by_groups(listed, by, budget or 10, confidence=confidence, **money)
        about = listed.met() | {"confidence": confidence, "by": groups}
        return common.show(as_json, about, *listed.sentences(), *parts)
    positive, scores = listed.found.positive, listed.found.scores
    wanted = panel(len(scores), int((~positive).sum()))
    found = bootstrap.intervals(
        positive, scores, measures(wanted), confidence=confidence, draws=draws, seed=seed
    )
    n_pos = int(positive.sum())
    result = listed.met() | {"positives": n_pos, "confidence": confidence, "seed": seed}
    result["measures"] = [
        {"measure": wanted[key][0], **wanted[key][1], **asdict(one)} for key, one in found.items()
    ]
    label_said, met_said = listed.sentences()
    common.show(
        as_json,
        result,
        label_said,
        f"{met_said} {n_pos:,} of them are positive. Intervals: "
        f"{confidence:.0%}, of the mean over fresh lists with as many positives and negatives.",
        *_tables(found, wanted),
    )


def _check(**given: Any) -> None:
    asking.require_pairs(**given)
    if given["by"] is None and any(one is not None for one in given.values()):
        raise click.UsageError(
            "--budget, --value and --cost are for the lists of groups: name their column by --by."
        )


def _tables(found: dict[str, "Interval"], wanted: "Panel") -> list["Table"]:
    listed = ("precision_at_k", "recall_at_k", "recall_at_fpr")
    whole = [[key, *_cells(one)] for key, one in found.items() if wanted[key][0] not in listed]
    depths = [given["k"] for name, given in wanted.values() if name == "precision_at_k"]
    heads = [
        [
            f"{k:,}",
            *_cells(found[f"precision_at_k({k})"]),
            *_cells(found[f"recall_at_k({k})"]),
        ]
        for k in depths
    ]
    rates = [given["max_fpr"] for name, given in wanted.values() if name == "recall_at_fpr"]
    tails = [[f"{rate:.2%}", *_cells(found[f"recall_at_fpr({rate:g})"])] for rate in rates]
    tables = [common.table("measure", "value", "from", "to", rows=whole)]
    columns = ("length", "precision", "from", "to", "recall", "from", "to")
    tables.append(common.table(*columns, rows=heads, title="The first rows of the list"))
    if tails:
        title = "Recall at a false positive rate"
        tables.append(
            common.table("false positive rate", "recall", "from", "to", rows=tails, title=title)
        )
    return tables


def _cells(one: "Interval") -> list[str]:
    return [f"{number:.3f}" for number in (one.value, one.low, one.high)]
