"""`toppush compare --scores`: lists that are there already, side by side on the same rows."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from toppush.cli import common
from toppush.cli.sources import FILE, Given, read_list
from toppush.system.reading import DataError

if TYPE_CHECKING:
    from rich.table import Table

    from toppush.metrics.bootstrap import Interval
    from toppush.metrics.paired import SideBySide
    from toppush.tables.labels import LabelRule
    from toppush.types import Array, Mask

OF_FITS = (
    "methods", "drop", "sample_weight", "groups", "time", "categorical", "missing", "cv", "scoring",
    "threads",
)  # fmt: skip
"""Options of methods that are fitted, which lists have no use for."""

lists_options = common.together(
    common.columns_option("--scores", "Columns of DATA that hold scores: compare these lists."),
    click.option(
        "--with",
        "models",
        type=FILE,
        multiple=True,
        help="File of a fitted model, of toppush or skops: compare its list. Repeat it.",
    ),
    common.columns_option("--lower-is-better", "Those of --scores whose lowest is at the top."),
    common.list_option("--trust", "Type that a skops file may hold; repeat it for several."),
    click.option(
        "--by", default="average_precision", show_default=True, help="Measure that decides."
    ),
    click.option("--confidence", type=common.SHARE, default=0.95, show_default=True),
    click.option("--draws", type=click.IntRange(min=10), help="Draws for the intervals."),
)
"""Of a comparison of lists; the other options of the command are those of fits."""
WIDEST = 4
"""Measures that fit beside each other into 80 letters."""
NAMES = ("scores", "models", "lower_is_better", "trust", "by", "confidence", "draws")


@dataclass(frozen=True, eq=False)
class Lists:
    """Scores of the same rows by several, and which rows are positive."""

    scores: dict[str, "Array"]
    positive: "Mask"
    label: "LabelRule"


def split_options(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options of lists out of all that were given."""
    return {name: options.pop(name) for name in NAMES}


def are_wanted(context: click.Context) -> bool:
    """Whether lists are to be compared; options of the other comparison are then refused."""
    given = {
        name
        for name in context.params
        if context.get_parameter_source(name) == ParameterSource.COMMANDLINE
    }
    wanted = bool(given & {"scores", "models"})
    wrong = [name for name in (OF_FITS if wanted else NAMES) if name in given]
    if wrong:
        flag = "--" + wrong[0].replace("_", "-")
        fits = "is for methods that are fitted, and --scores and --with compare lists"
        lists = "is for lists that are there: name them with --scores or --with"
        raise click.UsageError(f"{flag} {fits if wanted else lists}.", context)
    return wanted


def compare_lists(
    data: Path,
    *,
    by: str,
    confidence: float,
    draws: int | None,
    seed: int,
    as_json: bool,
    **source: Any,
) -> None:
    """Measures of several lists, paired differences, and who is ahead."""
    from rich.console import Console

    from toppush.metrics import FOUR
    from toppush.metrics.paired import side_by_side, warn_of_perfect
    from toppush.metrics.panel import chosen, measures

    lists = _read(data, **source)
    n_pos, n_rows = int(lists.positive.sum()), len(lists.positive)
    titles = {one.name: one.title for one in FOUR}
    wanted = chosen(n_rows, n_rows - n_pos, [by, *titles])
    with Console(stderr=True).status(f"drawing {n_rows:,} rows of {len(lists.scores)} lists"):
        found = side_by_side(
            lists.positive,
            lists.scores,
            measures(wanted),
            confidence=confidence,
            draws=draws,
            seed=seed,
        )
    warn_of_perfect(found.precisions)
    label = asdict(lists.label)
    shown = {name: titles.get(name, name.replace("(", "\n(")) for name in list(wanted)[:WIDEST]}
    common.show(
        as_json,
        {"label": label, "rows": n_rows, "positives": n_pos} | _as_json(found, by),
        common.chosen_label_text(label),
        f"{n_rows:,} rows, {n_pos:,} positive. Values, and beneath them {confidence:.0%} intervals "
        "of the mean over fresh lists:",
        _values(found, shown, by),
        f"{found.order(by)[0]} less each other list, the same rows drawn for both"
        + f"; all {len(found.differences)} pairs hold at once" * (len(found.differences) > 1)
        + ":",
        _differences(found, shown, by),
        found.lead(by).sentence(confidence),
        _clearly_behind(found, by),
    )


def _read(
    data: Path,
    *,
    scores: tuple[str, ...],
    models: tuple[Path, ...],
    lower_is_better: tuple[str, ...],
    trust: tuple[str, ...],
    label: str | None,
    positive: str | None,
    kind: str | None,
) -> Lists:
    """All lists, which agree on what is positive."""
    found: dict[str, Array] = {}
    rule, first = None, None
    given = {"label": label, "positive": positive, "kind": kind}
    parts = [_columns(data, scores, lower_is_better, given)] if scores else []
    parts += [_of_model(path, data, trust, given) for path in models]
    for part in parts:
        if first is not None and (part.positive != first).any():
            raise DataError(
                f"{', '.join(part.scores)} takes another label for the positive one than "
                f"{', '.join(found)}; name it with --positive.",
                file=data,
            )
        if twice := set(found) & set(part.scores):
            raise DataError(f"two lists are called {min(twice)}; rename one.", file=data)
        rule, first = rule or part.label, part.positive
        found |= part.scores
    if rule is None or first is None or len(found) < 2:
        raise click.UsageError(
            f"one list is named, {', '.join(found)}; name two or more with --scores and --with, or "
            "use toppush evaluate."
        )
    if first.all() or not first.any():
        raise DataError("every row has the same label; both classes are needed.", file=data)
    return Lists(found, first, rule)


def _columns(
    data: Path, scores: tuple[str, ...], lower: tuple[str, ...], given: dict[str, Any]
) -> Lists:
    """The lists that are columns of the file, which is read once."""
    from toppush.files.readers import reading

    with reading(data, given["kind"]) as file:
        names, turned = (common.named_columns(file, values) for values in (scores, lower))
    if strange := [name for name in turned if name not in names]:
        raise click.UsageError(f"--lower-is-better names {strange[0]!r}, which is not in --scores.")
    listed = read_list(Given(None, data, scores=names[0], **given), numbers=names[1:])
    columns = {names[0]: listed.found.scores}
    columns |= {name: listed.found.numbers(name) for name in names[1:]}
    for name in turned:
        columns[name] = -columns[name]
    return Lists(columns, listed.found.positive, listed.found.label)


def _of_model(path: Path, data: Path, trust: tuple[str, ...], given: dict[str, Any]) -> Lists:
    from toppush.modelfile.foreign import is_foreign

    more = {"trust": trust} if is_foreign(path) else {"positive": None}
    listed = read_list(Given(path, data, **given | more))
    if listed.flatters:
        listed.caution()
    return Lists({path.name: listed.found.scores}, listed.found.positive, listed.found.label)


def _values(found: "SideBySide", shown: dict[str, str], by: str) -> "Table":
    rows = [
        [name, *(_cell(found.values[name][measure]) for measure in shown)]
        for name in found.order(by)
    ]
    return common.table("list", *shown.values(), rows=rows)


def _differences(found: "SideBySide", shown: dict[str, str], by: str) -> "Table":
    first, *others = found.order(by)
    rows = [
        [
            name,
            *(_cell(found.difference(first, name, measure), "+") for measure in shown),
        ]
        for name in others
    ]
    return common.table("less", *shown.values(), rows=rows)


def _cell(one: "Interval", sign: str = "") -> str:
    """The value, and its interval beneath."""
    return f"{one.value:{sign}.3f}\n{one.low:{sign}.3f} {one.high:{sign}.3f}"


def _clearly_behind(found: "SideBySide", by: str) -> str:
    """Whom else the first is ahead of by more than noise."""
    first, _, *others = found.order(by)
    clear = [name for name in others if found.difference(first, name, by).low > 0]
    return f"{first} is ahead of {', '.join(clear)} by more than noise." if clear else ""


def _as_json(found: "SideBySide", by: str) -> dict[str, Any]:
    lead = found.lead(by)
    return {
        "confidence": found.confidence,
        "values": {name: _plain(values) for name, values in found.values.items()},
        "differences": [
            {"first": first, "second": second, "measures": _plain(values)}
            for (first, second), values in found.differences.items()
        ],
        "lead": asdict(lead) | {"more_than_noise": lead.is_clear},
    }


def _plain(values: dict[str, "Interval"]) -> dict[str, dict[str, float]]:
    return {name: asdict(one) for name, one in values.items()}
