"""`toppush report`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toppush.cli import options
from toppush.cli.group import Command
from toppush.cli.output import cell_text, show
from toppush.cli.sources import (
    FILE,
    ScoredFile,
    SourceArguments,
    amount_columns,
    read_scores,
    source_options,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from sklearn.pipeline import Pipeline

    from toppush.files import Model
    from toppush.types import Matrix

SHOWN = 50
"""Rows of which the page shows columns."""


@click.command(cls=Command)
@source_options
@options.output_option("Where to write the page.", default=Path("report.html"), show_default=True)
@click.option(
    "--train",
    type=FILE,
    help="Training rows of the model; logistic regression is fitted to them for comparison.",
)
@options.columns_option("--columns", "Columns of DATA to show for the first rows, such as an id.")
@click.option("--title", help="Heading of the page [default: the file's name].")
@click.option("--k", type=options.COUNT, help="Length of the ranking that the page opens with.")
@options.amount_options
@options.day_options
def report(
    output: Path,
    train: Path | None,
    columns: tuple[str, ...],
    title: str | None,
    k: int | None,
    as_json: bool,
    **source: Any,
) -> None:
    """Write one self-contained HTML page on how well MODEL ranks the labelled rows of DATA.

    Use rows that the model was not fitted to. The page needs no network, and contains the rows that
    it shows. MODEL is a toppush or skops file; with --scores, MODEL is left out and the scores are
    a column of DATA.

    Example: toppush report fraud.toppush held-out.csv --train train.csv --columns id -o report.html

    Example: toppush report scored.csv --scores score --label fraud --columns id

    Example: toppush report fraud.toppush held-out.csv --value 120 --cost 5 --per-day 50
    --rows-per-day 20000
    """
    from toppush.report import Budget, write

    asked = {name: source.pop(name) for name in ("value", "cost", "per_day", "rows_per_day")}
    options.require_pairs(**asked)
    arguments = SourceArguments.of(**source)
    amounts = amount_columns(asked["value"], asked["cost"])
    if arguments.scores is not None and train is not None:
        raise click.UsageError("--train is for MODEL; it does not apply to --scores.")
    file = read_scores(arguments, columns=columns, numbers=amounts, rows=True)
    file.require_both_classes()
    file.warn()
    page = {
        "title": title or arguments.data.name,
        "k": k,
        "cautions": _leakage_cautions(file),
        "facts": _facts(file),
        "budget": Budget(**asked | {name: file.amount(asked[name]) for name in ("value", "cost")}),
    }
    preview = file.scored.columns
    if preview is not None:
        hidden = set(amounts) - {*options.split_names(columns)}
        names = [name for name in preview.column_names if name not in hidden]
        preview = preview.select(names) if names else None
    write(output, _page(file, train, preview, page))
    size = output.stat().st_size
    written = {
        "output": str(output),
        "positives": int(file.scored.positive.sum()),
        "bytes": size,
    }
    show(
        as_json,
        file.facts() | written,
        *file.sentences(),
        f"Written: {output} ({size / 1e6:.1f} MB).",
    )


def _leakage_cautions(file: ScoredFile) -> list[str]:
    """Warn of features of the model that may contain the label; the warnings."""
    from toppush.files.fitting import leakage_cautions
    from toppush.files.sources import ModelSource

    if not isinstance(file.source, ModelSource):
        return []
    rows, positive, model = file.scored.rows, file.scored.positive, file.source.model
    if model.columns is None:
        return leakage_cautions(rows, positive, first=model.first)
    known = [name for name in model.columns.by_source() if name in rows.column_names]
    return leakage_cautions(rows.select(known), positive, model.columns.categorical)


def _page(
    file: ScoredFile, train: Path | None, preview: "pa.Table | None", page: dict[str, Any]
) -> str:
    """The page, with what the model can explain."""
    from toppush.files.readers import reading
    from toppush.files.sources import EstimatorSource, ModelSource, Wanted
    from toppush.report import from_estimator

    source, scored, arguments = file.source, file.scored, file.arguments
    features = _features(file)
    if isinstance(source, ModelSource):
        ranker, steps, positive = source.model.pipeline, _baseline_steps(source.model), None
    elif isinstance(source, EstimatorSource) and not source.lower_is_better:
        ranker, steps = source.estimator, _plain_steps(features)
        positive = source.positive_class(scored.label)
    else:
        return _page_of_scores(file, preview, page)
    X_train = y_train = None
    if train is not None:
        with reading(train, arguments.kind) as rows:
            training = source.read(rows, Wanted(arguments.label, arguments.positive, rows=True))
        X_train, y_train = training.rows, training.positive
    return from_estimator(
        ranker,
        scored.rows,
        scored.positive,
        X_train,
        y_train,
        rows=features if preview is None else preview,
        baseline_steps=steps,
        positive=positive,
        scores=scored.scores,
        probability=source.model.probability if isinstance(source, ModelSource) else None,
        **page,
    )


def _page_of_scores(file: ScoredFile, preview: "pa.Table | None", page: dict[str, Any]) -> str:
    """The page about scores of an unknown model."""
    from toppush.report import build, list_order

    scored, source = file.scored, file.source
    first = list_order(scored.positive, scored.scores)[:SHOWN]
    if source.lower_is_better:
        page["cautions"] += [
            f"The lowest values of {source.name} are ranked first; scores on this page are those "
            "values with the opposite sign."
        ]
    return build(
        scored.positive,
        scored.scores,
        name=source.name,
        preview=None if preview is None else preview.take(first),
        **page,
    )


def _facts(file: ScoredFile) -> dict[str, str]:
    from toppush.report.page import POSITIVE_CLASS

    arguments = file.arguments
    in_sample = ", which the model was fitted to (figures are optimistic)" * file.in_sample
    scores = (
        {"Scores": f"column {arguments.scores}"}
        if arguments.model is None
        else {"Model": arguments.model.name}
    )
    return scores | {
        "Data": arguments.data.name + in_sample,
        POSITIVE_CLASS: cell_text(file.scored.label.positive),
    }


def _features(file: ScoredFile) -> "Matrix | None":
    """The rows without their label, if they are a table."""
    rows, label = file.scored.rows, file.scored.label.column
    if not hasattr(rows, "columns"):
        return None
    if hasattr(rows, "column_names"):  # Arrow
        return rows.select(file.source.features(rows.column_names, label))
    return rows[file.source.features(rows.columns, label)]


def _plain_steps(features: "Matrix | None") -> "Pipeline":
    """Preparation of rows for logistic regression, if the model is of another package.

    Such a model may take the label column among its input; logistic regression must not.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    from toppush.files import Columns

    if features is None:
        return make_pipeline(SimpleImputer(strategy="median"), MaxAbsScaler())
    columns = ColumnTransformer([("features", Columns(), list(features.columns))])
    return make_pipeline(columns, MaxAbsScaler())


def _baseline_steps(model: "Model") -> "Pipeline | None":
    """Preparation of rows for logistic regression, if the model takes rows unprepared."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    columns = model.columns
    if model.model_type.scale is not None:
        return None
    if columns is None:
        return make_pipeline(MaxAbsScaler())
    texts = [text.name for text in columns.texts]
    filled = type(columns)(categorical=columns.categorical, text=texts, missing=columns.missing)
    return make_pipeline(filled, MaxAbsScaler())
