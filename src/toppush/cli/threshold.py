"""`toppush threshold`."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from toppush.cli import asking, common
from toppush.cli.sources import Given, Listed, read_list, scoring_options
from toppush.system.reading import DataError

if TYPE_CHECKING:
    from toppush.thresholds.budgets import Forecast
    from toppush.thresholds.demands import Answer, Demands

ASKED = ("fpr", "precision", "recall", "per_day", "value", "by")


@click.command(cls=common.Command)
@scoring_options
@click.option("--fpr", type=common.SHARE, help="False positive rate to stay within.")
@click.option("--precision", type=common.SHARE, help="Precision to reach.")
@click.option("--recall", type=common.SHARE, help="Recall to reach.")
@asking.day_options
@asking.money_options
@asking.by_option
@asking.budget_option
def threshold(
    confidence: float,
    as_json: bool,
    by: str | None,
    budget: int | None,
    **given: Any,
) -> None:
    """Find how far down the list to go: the score above which what you ask for holds.

    Ask for a share that is promised with --confidence (--fpr, --precision, --recall), for what a
    budget of looks allows (--per-day with --rows-per-day), for the greatest profit (--value with
    --cost), or for a list in each group (--by with --budget). Several at once are answered one by
    one. DATA must hold labelled rows that the model was not fitted to and that are like those to
    come. What cannot be promised is said, with the rows it would take, and ends with exit code 3.

    MODEL is a file of toppush or of skops; with --scores it is left out: the scores are in DATA.

    Example: toppush threshold fraud.toppush held-out.csv --precision 0.9 --confidence 0.95

    Example: toppush threshold fraud.toppush held-out.csv --per-day 50 --rows-per-day 20000

    Example: toppush threshold fraud.toppush held-out.csv --value amount --cost 5

    Example: toppush threshold scored.csv --scores score --label fraud --fpr 0.001
    """
    from toppush.thresholds.demands import answers
    from toppush.thresholds.guarantees import NoGuarantee

    asked = {name: given.pop(name) for name in (*ASKED[:-1], "rows_per_day", "cost")}
    _check(by=by, budget=budget, **asked)
    listed = _read(Given.of(**given), by, asked)
    demands = _demands(listed, confidence, asked)
    found = answers(listed.found.positive, listed.found.scores, demands)
    result, parts = _as_json(listed, found), _tables(listed, found, confidence)
    if by is not None and budget is not None:
        money = {name: asked[name] for name in ("value", "cost")}
        groups, more = asking.by_groups(listed, by, budget, confidence=confidence, **money)
        result["by"], parts = groups, [*parts, *more]
    failed = [one.why for one in found if one.score is None]
    if not parts:
        raise NoGuarantee(" ".join(failed))
    common.show(as_json, listed.met() | result, *listed.sentences(), *parts)
    if failed:
        raise NoGuarantee(" ".join(failed))


def _check(**asked: Any) -> None:
    asking.require_pairs(**asked)
    if all(asked[name] is None for name in ASKED):
        raise click.UsageError(
            "say what the threshold is for: --fpr, --precision, --recall, --per-day with "
            "--rows-per-day, --value with --cost, or --by with --budget."
        )
    if (asked["by"] is None) != (asked["budget"] is None):
        raise click.UsageError("--by and --budget go together: a list of K rows in each group.")


def _read(given: Given, by: str | None, asked: dict[str, Any]) -> Listed:
    """The list, of rows that the model has not seen."""
    numbers = asking.columns_of(asked["value"], asked["cost"])
    listed = read_list(given, texts=() if by is None else (by,), numbers=numbers)
    if listed.flatters:
        raise DataError(
            "the model was fitted to this file, and its scores there are too good; take rows "
            "that it has not seen.",
            file=given.data,
        )
    if by is not None or any(asked[name] is not None for name in ("precision", "recall", "value")):
        listed.require_both_classes()
    listed.caution()
    return listed


def _demands(listed: Listed, confidence: float, asked: dict[str, Any]) -> "Demands":
    from toppush.thresholds.demands import Demands

    money = {name: asking.amount_of(listed, asked[name]) for name in ("value", "cost")}
    return Demands(**asked | money, confidence=confidence)


def _as_json(listed: Listed, found: list["Answer"]) -> dict[str, Any]:
    """The answers; that of --fpr as it was before there were others, too."""
    from toppush.thresholds.guarantees import threshold_at_fpr

    result: dict[str, Any] = {"thresholds": [_turned(listed, asdict(one)) for one in found]}
    for one in found:
        if one.kind == "fpr" and one.score is not None and one.level and one.confidence:
            negatives = listed.found.scores[~listed.found.positive]
            law = threshold_at_fpr(negatives, max_fpr=one.level, confidence=one.confidence)
            result |= _turned(listed, asdict(law))
            result |= {"recall": one.recall, "observed_fpr": one.fpr, "alarms": one.rows}
    return result


def _turned(listed: Listed, record: dict[str, Any]) -> dict[str, Any]:
    """A record whose score is as DATA has it, where the lowest is at the top."""
    turn = listed.given.lower_is_better and record["score"] is not None
    return record | {"score": -record["score"]} if turn else record


def _tables(listed: Listed, found: list["Answer"], confidence: float) -> list[object]:
    """Scores, what is above them, and what a day brings."""
    known = [one for one in found if one.score is not None]
    if not known:
        return []
    beyond = "below" if listed.given.lower_is_better else "above"
    scores = [[one.wanted, repr(_turned(listed, asdict(one))["score"])] for one in known]
    counts = [
        [one.wanted, f"{one.rows:,}", f"{one.hits:,}", _share(one.precision), _share(one.recall),
         _share(one.fpr)]
        for one in known
    ]  # fmt: skip
    title = f"Rows of DATA {beyond} it"
    columns = ("wanted", "rows", "hits", "precision", "recall", "fpr")
    return [
        common.table("wanted", f"score {beyond}", rows=scores),
        f"Rows with a score {beyond} it are alarms. {_promise(known, confidence)}",
        common.table(*columns, rows=counts, title=title),
        *_days(known, confidence),
        *_money(listed, known, confidence),
    ]


def _promise(known: list["Answer"], confidence: float) -> str:
    """What the scores are sure of."""
    said = []
    if any(one.kind in ("fpr", "precision", "recall") for one in known):
        said.append(
            f"With confidence {confidence:.1%} each share holds for new rows like these, the "
            "choice of the score included; each by itself."
        )
    if any(one.kind == "per_day" for one in known):
        said.append("A budget holds for days whose rows are like these.")
    return " ".join(said)


def _days(known: list["Answer"], confidence: float) -> list[object]:
    """What a day brings above each score."""
    rows = [
        [one.wanted, *_forecast(one.rows_per_day), *_forecast(one.hits_per_day)]
        for one in known
        if one.rows_per_day is not None
    ]
    if not rows:
        return []
    title = f"A day; from and to: {confidence:.0%} of days"
    columns = ("wanted", "rows a day", "from", "to", "hits a day", "from", "to")
    return [common.table(*columns, rows=rows, title=title)]


def _money(listed: Listed, known: list["Answer"], confidence: float) -> list[object]:
    """What the greatest profit is, and what may be expected of it."""
    best = next((one for one in known if one.kind == "profit"), None)
    if best is None or best.profit is None:
        return []
    n_rows, (value, low, high) = len(listed.found.scores), asking.figures(best.profit)
    none = "No look pays: the list is empty. " * (best.rows == 0)
    day = ""
    if best.profit_per_day is not None:
        day = " A day: {}, on average from {} to {}.".format(*asking.figures(best.profit_per_day))
    return [
        f"{none}Profit of {n_rows:,} rows: {best.observed_profit:,.6g} here. Expected of as many "
        f"new ones: {value}, with confidence {confidence:.0%} from {low} to {high}; the score was "
        "chosen by these rows, so what they show flatters. Looking at all: "
        f"{best.everything:,.6g}.{day}",
    ]


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.2%}"


def _forecast(one: "Forecast | None") -> list[str]:
    assert one is not None
    return [f"{one.expected:,.1f}", f"{one.low:,.0f}", f"{one.high:,.0f}"]
