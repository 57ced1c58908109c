"""`toppush evaluate` and `toppush threshold`."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from toppush.cli import options
from toppush.cli.group import Command
from toppush.cli.output import TextTable, interval_cells, number_text, percent_or_dash, show
from toppush.cli.sources import (
    ScoredFile,
    SourceArguments,
    amount_columns,
    read_scores,
    source_options,
)
from toppush.system.reading import DataError

if TYPE_CHECKING:
    from toppush.metrics.bootstrap import Interval, Panel
    from toppush.thresholds.demands import Answer

TITLES = {
    "true_positives": "positives",
    "average_precision": "average precision",
    "positives_at_top": "Pos@Top",
}
CRITERIA = ("fpr", "precision", "recall", "per_day", "value", "by")
"""Options that say what a threshold is for."""


@click.command(cls=Command)
@source_options
@options.confidence_option
@options.draws_option
@options.seed_option
@options.by_option
@options.budget_option
@options.amount_options
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
    """Measure how well MODEL ranks the labelled rows of DATA, with confidence intervals.

    With --by each group of a column is ranked separately, and the metrics of its first --budget
    rows (default 10) are averaged over the groups; --value and --cost add the profit.

    MODEL is a toppush file, or a skops file with any fitted estimator or pipeline of scikit-learn.
    With --scores, MODEL is left out and the scores are a column of DATA.

    Example: toppush evaluate fraud.toppush held-out.csv --json

    Example: toppush evaluate scored.csv --scores score --label fraud

    Example: toppush evaluate fraud.toppush held-out.csv --by day --budget 50
    """
    from toppush.metrics import bootstrap
    from toppush.metrics.bootstrap import metrics_of, panel

    arguments, amounts = SourceArguments.of(**source), {"value": value, "cost": cost}
    options.require_pairs(**amounts)
    if by is None and (budget, value, cost) != (None, None, None):
        raise click.UsageError(
            "--budget, --value and --cost are for rankings of groups; name the group column "
            "with --by."
        )
    text = () if by is None else (by,)
    file = read_scores(arguments, text=text, numbers=amount_columns(value, cost))
    file.require_both_classes()
    file.warn()
    if by is not None:
        groups, parts = _by_groups(file, by, budget or 10, confidence=confidence, **amounts)
        facts = file.facts() | {"confidence": confidence, "by": groups}
        return show(as_json, facts, *file.sentences(), *parts)
    positive, scores = file.scored.positive, file.scored.scores
    metrics = panel(len(scores), int((~positive).sum()))
    intervals = bootstrap.intervals(
        positive, scores, metrics_of(metrics), confidence=confidence, draws=draws, seed=seed
    )
    n_pos = int(positive.sum())
    result = file.facts() | {"positives": n_pos, "confidence": confidence, "seed": seed}
    result["metrics"] = [
        {"metric": metrics[key][0], **metrics[key][1], **asdict(interval)}
        for key, interval in intervals.items()
    ]
    label, notes = file.sentences()
    show(
        as_json,
        result,
        label,
        f"{notes} {n_pos:,} of them are positive. {confidence:.0%} intervals for the mean over new "
        "samples with the same numbers of positives and negatives:",
        *_metric_tables(intervals, metrics),
    )


def _metric_tables(intervals: "dict[str, Interval]", metrics: "Panel") -> list[TextTable]:
    """Metrics of the whole ranking, of its first rows, and recall at false positive rates."""
    whole: list[list[str]] = []
    by_level: dict[str, dict[float, list[str]]] = {}
    for key, (name, parameters) in metrics.items():
        cells = interval_cells(intervals[key])
        if name in ("precision_at_k", "recall_at_k", "recall_at_fpr"):
            by_level.setdefault(name, {})[next(iter(parameters.values()))] = cells
        else:
            whole.append([key, *cells])
    first = [
        [f"{k:,}", *cells, *by_level["recall_at_k"][k]]
        for k, cells in by_level.get("precision_at_k", {}).items()
    ]
    recalls = [[f"{rate:.2%}", *cells] for rate, cells in by_level.get("recall_at_fpr", {}).items()]
    ends = ["from", "to"]
    heads = ["length", "precision", *ends, "recall", *ends]
    rate_heads, title = ["false positive rate", "recall", *ends], "Recall at a false positive rate"
    return [
        TextTable(["metric", "value", *ends], whole),
        TextTable(heads, first, "The first rows of the ranking"),
        *[TextTable(rate_heads, recalls, title)] * bool(recalls),
    ]


def _by_groups(
    file: ScoredFile,
    by: str,
    budget: int,
    *,
    value: float | str | None,
    cost: float | str | None,
    confidence: float,
) -> tuple[dict[str, Any], list[str | TextTable]]:
    """Metrics averaged over the groups of a column, as JSON and as text."""
    import numpy as np

    from toppush.thresholds.budgets import group_means, grouped_lists

    lists = grouped_lists(
        file.scored.positive,
        file.scored.scores,
        np.asarray(file.scored.strings(by).fill_null("(missing)").to_pylist()),
        budget=budget,
        value=file.amount(value),
        cost=file.amount(cost),
    )
    means = group_means(lists, confidence=confidence)
    reviewed = int(lists.reviewed.sum())
    true_positives = float(lists.metrics["true_positives"].sum())
    empty = lists.without_positives
    result = {
        "by": by,
        "budget": budget,
        "groups": len(lists.names),
        "without_positives": empty,
        "reviewed": reviewed,
        "true_positives": true_positives,
        "means": {
            name: asdict(mean.mean) | {"groups": mean.groups} for name, mean in means.items()
        },
    }
    rows = [
        [TITLES.get(name, name), *interval_cells(mean.mean, number_text), f"{mean.groups:,}"]
        for name, mean in means.items()
    ]
    heads = ["metric", "mean", "from", "to", "groups"]
    title = f"Means over groups of {by}, the first {budget:,} rows of each"
    sentence = (
        f"{len(lists.names):,} groups; {reviewed:,} reviews would find {true_positives:,.6g} "
        "positives."
    )
    if empty:
        names = ", ".join(map(str, empty[:5])) + ", ..." * (len(empty) > 5)
        sentence += (
            f" Groups without a positive ({len(empty):,}: {names}) count only for positives, "
            "precision and profit."
        )
    sentence += " The intervals are for the mean over further groups like these."
    return result, [TextTable(heads, rows, title), sentence]


@click.command(cls=Command)
@source_options
@options.confidence_option
@click.option("--fpr", type=options.FRACTION, help="Maximum false positive rate.")
@click.option("--precision", type=options.FRACTION, help="Minimum precision.")
@click.option("--recall", type=options.FRACTION, help="Minimum recall.")
@options.day_options
@options.amount_options
@options.by_option
@options.budget_option
def threshold(
    confidence: float,
    as_json: bool,
    by: str | None,
    budget: int | None,
    **arguments: Any,
) -> None:
    """Choose a score threshold for a false positive rate, precision, recall, budget or profit.

    Thresholds for --fpr, --precision and --recall hold with the given --confidence. Others follow
    from a review budget (--per-day with --rows-per-day), from the greatest profit (--value with
    --cost), or from a ranking of each group (--by with --budget). Several criteria give one
    threshold each. DATA must hold labelled rows that the model was not fitted to and that are like
    the rows to come. If DATA cannot support a guarantee, the command says how many rows it needs
    and ends with exit code 3.

    MODEL is a toppush or skops file. With --scores, MODEL is left out and the scores are a column
    of DATA.

    Example: toppush threshold fraud.toppush held-out.csv --precision 0.9 --confidence 0.95

    Example: toppush threshold fraud.toppush held-out.csv --per-day 50 --rows-per-day 20000

    Example: toppush threshold fraud.toppush held-out.csv --value amount --cost 5

    Example: toppush threshold scored.csv --scores score --label fraud --fpr 0.001
    """
    from toppush.thresholds.demands import Demands, answers
    from toppush.thresholds.guarantees import NoGuarantee

    criteria = {name: arguments.pop(name) for name in (*CRITERIA[:-1], "rows_per_day", "cost")}
    options.require_pairs(**criteria)
    if by is None and all(criteria[name] is None for name in CRITERIA[:-1]):
        raise click.UsageError(
            "say what the threshold is for: --fpr, --precision, --recall, --per-day with "
            "--rows-per-day, --value with --cost, or --by with --budget."
        )
    if (by is None) != (budget is None):
        raise click.UsageError("--by and --budget go together: the first K rows of each group.")
    amounts = {name: criteria[name] for name in ("value", "cost")}
    file = _read_unseen(SourceArguments.of(**arguments), by, criteria)
    values = {name: file.amount(value) for name, value in amounts.items()}
    demands = Demands(**criteria | values, confidence=confidence)
    thresholds = answers(file.scored.positive, file.scored.scores, demands)
    result: dict[str, Any] = {
        "thresholds": [_signed(file, asdict(answer)) for answer in thresholds]
    }
    parts = _threshold_parts(file, thresholds, confidence)
    if by is not None and budget is not None:
        groups, more = _by_groups(file, by, budget, confidence=confidence, **amounts)
        result["by"], parts = groups, [*parts, *more]
    failed = [answer.why for answer in thresholds if answer.score is None]
    if not parts:
        raise NoGuarantee(" ".join(failed))
    show(as_json, file.facts() | result, *file.sentences(), *parts)
    if failed:
        raise NoGuarantee(" ".join(failed))


def _read_unseen(
    arguments: SourceArguments, by: str | None, criteria: dict[str, Any]
) -> ScoredFile:
    """The scores of rows that the model was not fitted to."""
    numbers = amount_columns(criteria["value"], criteria["cost"])
    file = read_scores(arguments, text=() if by is None else (by,), numbers=numbers)
    if file.in_sample:
        raise DataError(
            "the model was fitted to this file, and its scores there are optimistic; use rows "
            "that it was not fitted to.",
            file=arguments.data,
        )
    needed = any(criteria[name] is not None for name in ("precision", "recall", "value"))
    if by is not None or needed:
        file.require_both_classes()
    file.warn()
    return file


def _signed(file: ScoredFile, record: dict[str, Any]) -> dict[str, Any]:
    """A record whose score has the sign that it has in DATA."""
    negated = file.arguments.lower_is_better and record["score"] is not None
    return record | {"score": -record["score"]} if negated else record


def _threshold_parts(
    file: ScoredFile, thresholds: "list[Answer]", confidence: float
) -> list[str | TextTable]:
    """The thresholds, the rows above them, and forecasts for a day and of the profit."""
    known = [answer for answer in thresholds if answer.score is not None]
    if not known:
        return []
    beyond = "below" if file.arguments.lower_is_better else "above"
    scores = [[answer.wanted, repr(_signed(file, asdict(answer))["score"])] for answer in known]
    shares = [[answer.precision, answer.recall, answer.fpr] for answer in known]
    counts = [
        [
            answer.wanted,
            f"{answer.rows:,}",
            f"{answer.true_positives:,}",
            *map(percent_or_dash, both),
        ]
        for answer, both in zip(known, shares, strict=True)
    ]
    sentence = f"Rows with a score {beyond} the threshold are alarms."
    if any(answer.kind in ("fpr", "precision", "recall") for answer in known):
        sentence += (
            f" With confidence {confidence:.1%} each guarantee holds for new rows like these; the "
            "choice of the threshold is accounted for, but each guarantee is taken by itself."
        )
    if any(answer.kind == "per_day" for answer in known):
        sentence += " A budget holds for days whose rows are like these."
    return [
        TextTable(["wanted", f"score {beyond}"], scores),
        sentence,
        TextTable(
            ["wanted", "rows", "positives", "precision", "recall", "fpr"],
            counts,
            f"Rows of DATA {beyond} the threshold",
        ),
        *_day_table(known, confidence),
        *_profit_text(file, known, confidence),
    ]


def _day_table(known: "list[Answer]", confidence: float) -> list[TextTable]:
    """Rows and true positives per day above each threshold."""
    rows = [
        [
            answer.wanted,
            *(
                text
                for forecast in (answer.rows_per_day, answer.positives_per_day)
                if forecast is not None
                for text in (
                    f"{forecast.expected:,.1f}",
                    f"{forecast.low:,.0f}",
                    f"{forecast.high:,.0f}",
                )
            ),
        ]
        for answer in known
        if answer.rows_per_day is not None
    ]
    if not rows:
        return []
    ends = ["from", "to"]
    heads = ["wanted", "rows per day", *ends, "positives per day", *ends]
    return [TextTable(heads, rows, f"Per day; from and to: {confidence:.0%} of days")]


def _profit_text(file: ScoredFile, known: "list[Answer]", confidence: float) -> list[str]:
    """The greatest profit on these rows, and the profit to expect on new ones."""
    best = next((answer for answer in known if answer.kind == "profit"), None)
    if best is None or best.profit is None:
        return []
    value, low, high = interval_cells(best.profit, number_text)
    none = "No review pays: the selection is empty. " * (best.rows == 0)
    day = ""
    if best.profit_per_day is not None:
        day = " Per day: {}, on average from {} to {}.".format(
            *interval_cells(best.profit_per_day, number_text)
        )
    return [
        f"{none}Profit on these {len(file.scored.scores):,} rows: {best.observed_profit:,.6g} "
        "(optimistic, because the threshold was chosen on them). Expected profit on as many new "
        f"rows: {value}, with confidence {confidence:.0%} from {low} to {high}. Reviewing all "
        f"rows: {best.everything:,.6g}.{day}",
    ]
