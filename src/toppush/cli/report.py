"""`toppush report`."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toppush.cli import asking, common
from toppush.cli.sources import Given, Listed, read_list, read_training, source_options

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from toppush.files import Model
    from toppush.report import Budget
    from toppush.types import Matrix

SHOWN = 50
"""Rows of which the page shows columns."""


@click.command(cls=common.Command)
@source_options
@common.output_option("Where to write the page.", default=Path("report.html"), show_default=True)
@click.option(
    "--train",
    type=common.InputFile(exists=True, dir_okay=False),
    help="Rows that the model was fitted to; logistic regression learns from them too.",
)
@common.columns_option("--columns", "Columns of DATA to show of the first rows, such as an id.")
@click.option("--title", help="Heading of the page [default: the file's name].")
@click.option(
    "--k", type=click.IntRange(min=1), help="Length of the list that the page opens with."
)
@asking.money_options
@asking.day_options
def report(
    output: Path,
    train: Path | None,
    columns: tuple[str, ...],
    title: str | None,
    k: int | None,
    as_json: bool,
    **source: Any,
) -> None:
    """Write one self-contained HTML page on how MODEL ranks the labelled rows of DATA.

    Take rows that the model has not seen. The page needs no network; the rows that it shows are in
    it. MODEL is a file of toppush or of skops; with --scores it is left out: DATA has the scores.

    Example: toppush report fraud.toppush held-out.csv --train train.csv --columns id -o report.html

    Example: toppush report scored.csv --scores score --label fraud --columns id

    Example: toppush report fraud.toppush held-out.csv --value 120 --cost 5 --per-day 50
    --rows-per-day 20000
    """
    from toppush.report import write

    asked = {name: source.pop(name) for name in ("value", "cost", "per_day", "rows_per_day")}
    asking.require_pairs(**asked)
    given, amounts = Given.of(**source), asking.columns_of(asked["value"], asked["cost"])
    if given.scores is not None and train is not None:
        raise click.UsageError("--train is for MODEL; scores alone have nothing to learn from.")
    listed = read_list(given, columns=columns, numbers=amounts, rows=True)
    listed.require_both_classes()
    listed.caution()
    leakage = _caution_of_leakage(listed)
    budget = _budget(listed, asked)
    shown = _without(listed, [name for name in amounts if name not in common.listed(columns)])
    page = _page(shown, train, title=title or given.data.name, k=k, budget=budget, cautions=leakage)
    write(output, page)
    size = output.stat().st_size
    positives = int(listed.found.positive.sum())
    written = {"output": str(output), "positives": positives, "bytes": size}
    common.show(
        as_json,
        listed.met() | written,
        *listed.sentences(),
        f"Written: {output} ({size / 1e6:.1f} MB).",
    )


def _caution_of_leakage(listed: Listed) -> list[str]:
    """Warn of columns that the model learned from and that may hold the label; the warnings."""
    from toppush.files.leaks import leakage_cautions
    from toppush.files.sources import ModelSource

    if not isinstance(listed.source, ModelSource):
        return []
    rows, positive, model = listed.found.rows, listed.found.positive, listed.source.model
    if model.columns is None:
        return leakage_cautions(rows, positive, first=model.first)
    known = [name for name in model.columns.by_source() if name in rows.column_names]
    return leakage_cautions(rows.select(known), positive, model.columns.categorical)


def _budget(listed: Listed, asked: dict[str, Any]) -> "Budget":
    from toppush.report import Budget

    money = {name: asking.amount_of(listed, asked[name]) for name in ("value", "cost")}
    return Budget(**asked | money)


def _without(listed: Listed, names: list[str]) -> Listed:
    """The list without columns that were read for their numbers and are not to be shown."""
    if not names or listed.found.columns is None:
        return listed
    left = listed.found.columns.drop_columns(names)
    return replace(listed, found=replace(listed.found, columns=left if left.num_columns else None))


def _page(listed: Listed, train: Path | None, **page: Any) -> str:
    """The page, with all that whoever made the scores can tell."""
    from toppush.files.sources import EstimatorSource, ModelSource
    from toppush.report import from_estimator

    source, found = listed.source, listed.found
    page["facts"] = _facts(listed)
    named = _features(listed)
    if isinstance(source, ModelSource):
        ranker, steps, positive = source.model.pipeline, _rival_steps(source.model), None
    elif isinstance(source, EstimatorSource) and not source.lower_is_better:
        ranker, steps = source.estimator, _plain_steps(named)
        positive = source.positive_class(found.label)
    else:
        return _page_of_scores(listed, **page)
    seen = None if train is None else read_training(listed.given, source, train)
    return from_estimator(
        ranker,
        found.rows,
        found.positive,
        None if seen is None else seen.rows,
        None if seen is None else seen.positive,
        rows=named if found.columns is None else found.columns,
        rival_steps=steps,
        positive=positive,
        scores=found.scores,
        share=source.model.probability if isinstance(source, ModelSource) else None,
        **page,
    )


def _page_of_scores(listed: Listed, **page: Any) -> str:
    """The page without anything that only whoever made the scores could tell."""
    from toppush.report import build, list_order

    found, source = listed.found, listed.source
    order = list_order(found.positive, found.scores)
    turned = (
        f"The lowest values of {source.name} are at the top of the list; scores on this page are "
        "those values with the sign turned."
    )
    return build(
        found.positive,
        found.scores,
        name=source.name,
        preview=None if found.columns is None else found.columns.take(order[:SHOWN]),
        cautions=[*page.pop("cautions"), turned * source.lower_is_better],
        **page,
    )


def _facts(listed: Listed) -> dict[str, str]:
    from toppush.report.page import POSITIVE_CLASS

    given = listed.given
    flatters = ", which the model was fitted to: these figures flatter" * listed.flatters
    by = (
        {"Scores": f"column {given.scores}"} if given.model is None else {"Model": given.model.name}
    )
    return by | {
        "Data": given.data.name + flatters,
        POSITIVE_CLASS: common.label_as_text(listed.found.label.positive),
    }


def _features(listed: Listed) -> "Matrix | None":
    """The rows without their label, if they are a table."""
    rows, label = listed.found.rows, listed.found.label.column
    if not hasattr(rows, "columns"):
        return None
    if hasattr(rows, "column_names"):  # of Arrow
        return rows.select(listed.source.features(rows.column_names, label))
    return rows[listed.source.features(rows.columns, label)]


def _plain_steps(features: "Matrix | None") -> "Pipeline":
    """How logistic regression is to prepare rows that an estimator of others takes.

    An estimator may have been given the label among its columns; logistic regression must not.
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


def _rival_steps(model: "Model") -> "Pipeline | None":
    """How logistic regression is to prepare rows that the model's own ranker takes as they are."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    columns = model.columns
    if model.kind.scale is not None:
        return None
    if columns is None:
        return make_pipeline(MaxAbsScaler())
    filled = type(columns)(categorical=columns.categorical, missing=columns.missing)
    return make_pipeline(filled, MaxAbsScaler())
