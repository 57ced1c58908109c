"""`toppush compare`: cross-validated methods, or existing rankings of the same rows."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from toppush.cli import options
from toppush.cli.group import Command
from toppush.cli.output import TextTable, chosen_label_text, progress_reporter, show
from toppush.cli.sources import FILE, SourceArguments, read_scores
from toppush.system.reading import DataError

if TYPE_CHECKING:
    from toppush.metrics.bootstrap import Interval
    from toppush.tables.labels import LabelRule
    from toppush.types import Array, Mask

    FoldValues = dict[str, dict[str, Array]]
    """Method -> metric -> value in each fold or split."""

DECIDES = "AP"
METHOD_OPTIONS = (
    "methods", "drop", "sample_weight", "groups", "time", "categorical", "missing", "cv", "scoring",
    "threads",
)  # fmt: skip
"""Options of methods that are fitted, which do not apply to existing rankings."""
RANKING_OPTIONS = (
    "scores", "models", "lower_is_better", "trust", "metric", "confidence", "draws",
)  # fmt: skip
"""Options of existing rankings, which do not apply to methods that are fitted."""
MAX_METRICS = 4
"""Metrics that fit into 80 characters."""

ranking_options = options.combined(
    options.columns_option("--scores", "Columns of DATA that hold scores to compare."),
    click.option(
        "--with",
        "models",
        type=FILE,
        multiple=True,
        help="File of a fitted model, of toppush or skops, whose ranking is compared; repeatable.",
    ),
    options.columns_option("--lower-is-better", "Those of --scores whose lowest value is best."),
    options.trust_option,
    click.option(
        "--metric",
        default="average_precision",
        show_default=True,
        help="Metric that decides which ranking is best.",
    ),
    options.confidence_option,
    options.draws_option,
)


@click.command(cls=Command)
@options.input_argument("data")
@options.list_option("--methods", "Methods to compare, by name [default: all except net].")
@options.training_options
@ranking_options
@click.pass_context
def compare(
    context: click.Context,
    /,
    data: Path,
    as_json: bool,
    kind: str | None,
    label: str | None,
    positive: str | None,
    seed: int,
    **more: Any,
) -> None:
    """Compare TopRanker with other methods by cross-validation, or compare existing rankings.

    Compares TopRanker, the default of fit, with the other model types of toppush, logistic
    regression, a linear SVM and LightGBM. Each method chooses its settings on the training part of
    each fold. The last column counts the folds in which the first method had the higher and the
    lower average precision.

    With --scores or --with nothing is fitted: existing rankings of the same rows are compared, with
    paired differences and their confidence intervals.

    Example: toppush compare train.csv --label fraud --drop id --cv 5

    Example: toppush compare train.csv --label fraud --methods TopRanker,LightGBM

    Example: toppush compare scored.csv --label fraud --scores ours,lightgbm --with fraud.toppush
    """
    common = {"label": label, "positive": positive, "kind": kind}
    of_rankings = {name: more.pop(name) for name in RANKING_OPTIONS}
    if _compares_rankings(context):
        _compare_rankings(data, common, seed=seed, as_json=as_json, **of_rankings)
    else:
        _compare_methods(data, common, seed=seed, as_json=as_json, **more)


def _compares_rankings(context: click.Context) -> bool:
    """Whether existing rankings are compared; options of the other comparison are refused."""
    used = {
        name
        for name in context.params
        if context.get_parameter_source(name) == ParameterSource.COMMANDLINE
    }
    rankings = bool(used & {"scores", "models"})
    wrong = [name for name in (METHOD_OPTIONS if rankings else RANKING_OPTIONS) if name in used]
    if wrong:
        flag = "--" + wrong[0].replace("_", "-")
        raise click.UsageError(
            f"{flag} applies to methods that are fitted; --scores and --with compare existing "
            "rankings."
            if rankings
            else f"{flag} applies to existing rankings; name them with --scores or --with.",
            context,
        )
    return rankings


def _compare_methods(
    data: Path,
    common: dict[str, Any],
    *,
    drop: tuple[str, ...],
    categorical: tuple[str, ...],
    text: tuple[str, ...],
    keep: tuple[str, ...],
    sample_weight: str | None,
    groups: str | None,
    time: str | None,
    as_json: bool,
    **more: Any,
) -> None:
    """Cross-validate several methods on a file."""
    from toppush.files.compare import compare
    from toppush.files.fitting import read_training_file
    from toppush.files.readers import reading
    from toppush.metrics.cautions import warn_of_perfect
    from toppush.modeltypes.base import require_scoring
    from toppush.tables.rows import Roles

    with reading(data, common["kind"]) as file:
        training = read_training_file(
            file,
            roles=Roles(sample_weight, groups, time),
            label=common["label"],
            positive=common["positive"],
            drop=options.column_names(file, drop),
            categorical=options.column_names(file, categorical),
            text=options.column_names(file, text),
            keep=options.column_names(file, keep),
        )
    if more["scoring"] is not None:
        require_scoring(more["scoring"])
    with progress_reporter(quiet=as_json) as report:
        comparison = compare(training, progress=report, **more)
    values = comparison.values
    warn_of_perfect({name: metrics[DECIDES].mean() for name, metrics in values.items()})
    label = asdict(training.rule)
    result = {
        "label": label,
        "rows": comparison.rows,
        "positives": comparison.positives,
        "folds": values_as_json(values),
        "seconds": comparison.seconds,
        "left_out": comparison.left_out,
        "warnings": comparison.warned,
    }
    show(
        as_json,
        result,
        chosen_label_text(label),
        f"{comparison.rows:,} rows, {comparison.positives:,} positive. Held-out mean and standard "
        f"deviation over {more['cv']} folds:",
        values_table(values, comparison.seconds),
        *(f"Left out: {name}, {why}." for name, why in comparison.left_out.items()),
        *(
            f"{name}: {count} {category} over the folds."
            for name, categories in comparison.warned.items()
            for category, count in categories.items()
        ),
    )


def values_table(values: "FoldValues", seconds: dict[str, float]) -> TextTable:
    """A row for each method; last, in how many folds the first had the higher and the lower AP."""
    first = next(iter(values), "")
    metrics = list(values.get(first, ()))
    rows = [
        [
            name,
            *(_mean_and_deviation(own[metric]) for metric in metrics),
            f"{seconds[name]:.1f}",
            "" if name == first else _wins(values[first][DECIDES], own[DECIDES]),
        ]
        for name, own in values.items()
    ]
    return TextTable(["held out", *metrics, "s", "won"], rows)


def _mean_and_deviation(values: "Array") -> str:
    """Mean and standard deviation, short enough for four in 80 characters."""
    return f"{values.mean():.3f}±{values.std(ddof=1):.2f}".replace("±0.", "±.")


def _wins(first: "Array", other: "Array") -> str:
    return f"{(first > other).sum()}:{(first < other).sum()}"


def values_as_json(values: "FoldValues") -> dict[str, dict[str, list[float]]]:
    """The same as plain numbers."""
    return {
        name: {metric: list(map(float, own)) for metric, own in metrics.items()}
        for name, metrics in values.items()
    }


@dataclass(frozen=True, eq=False)
class ScoredRankings:
    """Scores of the same rows by several models, and which rows are positive."""

    scores: "dict[str, Array]"
    positive: "Mask"
    label: "LabelRule"


def _compare_rankings(
    data: Path,
    common: dict[str, Any],
    *,
    scores: tuple[str, ...],
    models: tuple[Path, ...],
    lower_is_better: tuple[str, ...],
    trust: tuple[str, ...],
    metric: str,
    confidence: float,
    draws: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Metrics of several rankings, paired differences, and which ranking is best."""
    from rich.console import Console

    from toppush.metrics import FOUR
    from toppush.metrics.bootstrap import chosen, metrics_of
    from toppush.metrics.cautions import warn_of_perfect
    from toppush.metrics.paired import side_by_side

    parts = [_score_columns(data, scores, lower_is_better, common)] if scores else []
    parts += [_model_scores(path, data, trust, common) for path in models]
    rankings = _merged(parts, data)
    n_pos, n_rows = int(rankings.positive.sum()), len(rankings.positive)
    titles = {metric.name: metric.title for metric in FOUR}
    metrics = chosen(n_rows, n_rows - n_pos, [metric, *titles])
    with Console(stderr=True).status(f"drawing {n_rows:,} rows of {len(rankings.scores)} rankings"):
        comparison = side_by_side(
            rankings.positive,
            rankings.scores,
            metrics_of(metrics),
            confidence=confidence,
            draws=draws,
            seed=seed,
        )
    warn_of_perfect(comparison.precisions)
    label, lead = asdict(rankings.label), comparison.lead(metric)
    result = {
        "label": label,
        "rows": n_rows,
        "positives": n_pos,
        "confidence": comparison.confidence,
        "values": {name: _intervals_as_json(values) for name, values in comparison.values.items()},
        "differences": [
            {"first": first, "second": second, "metrics": _intervals_as_json(values)}
            for (first, second), values in comparison.differences.items()
        ],
        "lead": asdict(lead) | {"more_than_noise": lead.is_clear},
    }
    heads = {
        name: titles.get(name, name.replace("(", "\n(")) for name in list(metrics)[:MAX_METRICS]
    }
    first, second, *others = comparison.order(metric)
    values = [
        [name, *(_interval_cell(comparison.values[name][head]) for head in heads)]
        for name in (first, second, *others)
    ]
    differences = [
        [name, *(_interval_cell(comparison.difference(first, name, head), "+") for head in heads)]
        for name in (second, *others)
    ]
    behind = [name for name in others if comparison.difference(first, name, metric).low > 0]
    jointly = f"; the intervals of all {len(comparison.differences)} pairs hold jointly"
    show(
        as_json,
        result,
        chosen_label_text(label),
        f"{n_rows:,} rows, {n_pos:,} positive. Values, and below them {confidence:.0%} intervals "
        "for the mean over new samples:",
        TextTable(["ranking", *heads.values()], values),
        f"Paired differences: {first} minus each other ranking"
        + jointly * (len(comparison.differences) > 1)
        + ":",
        TextTable(["minus", *heads.values()], differences),
        lead.sentence(confidence),
        f"{first} is also significantly better than {', '.join(behind)}." if behind else "",
    )


def _merged(parts: list[ScoredRankings], data: Path) -> ScoredRankings:
    """All rankings together, which must agree on the positive rows."""
    scores: dict[str, Array] = {}
    for part in parts:
        if (part.positive != parts[0].positive).any():
            raise DataError(
                f"{', '.join(part.scores)} uses another positive label than "
                f"{', '.join(scores)}; name it with --positive.",
                file=data,
            )
        if repeated := set(scores) & set(part.scores):
            raise DataError(f"two rankings are called {min(repeated)}; rename one.", file=data)
        scores |= part.scores
    if len(scores) < 2:
        raise click.UsageError(
            f"one ranking is named, {', '.join(scores)}; name two or more with --scores and "
            "--with, or use toppush evaluate."
        )
    positive = parts[0].positive
    if positive.all() or not positive.any():
        raise DataError("every row has the same label; both classes are needed.", file=data)
    return ScoredRankings(scores, positive, parts[0].label)


def _score_columns(
    data: Path, scores: tuple[str, ...], lower: tuple[str, ...], common: dict[str, Any]
) -> ScoredRankings:
    """The rankings that are columns of the file, which is read once."""
    from toppush.files.readers import reading

    with reading(data, common["kind"]) as file:
        names, negated = (options.column_names(file, values) for values in (scores, lower))
    if unknown := [name for name in negated if name not in names]:
        raise click.UsageError(f"--lower-is-better names {unknown[0]!r}, which is not in --scores.")
    arguments = SourceArguments(None, data, scores=names[0], **common)
    scored = read_scores(arguments, numbers=names[1:]).scored
    columns = {names[0]: scored.scores} | {name: scored.numbers(name) for name in names[1:]}
    for name in negated:
        columns[name] = -columns[name]
    return ScoredRankings(columns, scored.positive, scored.label)


def _model_scores(
    path: Path, data: Path, trust: tuple[str, ...], common: dict[str, Any]
) -> ScoredRankings:
    """The ranking of a model file."""
    from toppush.modelfile.foreign import is_foreign

    more = {"trust": trust} if is_foreign(path) else {"positive": None}
    file = read_scores(SourceArguments(path, data, **common | more))
    if file.in_sample:
        file.warn()
    return ScoredRankings({path.name: file.scored.scores}, file.scored.positive, file.scored.label)


def _interval_cell(interval: "Interval", sign: str = "") -> str:
    """The value, and its interval below."""
    return f"{interval.value:{sign}.3f}\n{interval.low:{sign}.3f} {interval.high:{sign}.3f}"


def _intervals_as_json(values: "dict[str, Interval]") -> dict[str, dict[str, float]]:
    return {name: asdict(interval) for name, interval in values.items()}
