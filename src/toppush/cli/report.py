"""`toppush report`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from toppush.cli import common

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from toppush.files import Model


@click.command(cls=common.Command)
@common.existing("model")
@common.existing("data")
@common.output_option("Where to write the page.", default=Path("report.html"), show_default=True)
@common.label_option
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
@common.format_option
@common.json_option
def report(
    model: Path,
    data: Path,
    output: Path,
    label: str | None,
    train: Path | None,
    columns: tuple[str, ...],
    title: str | None,
    k: int | None,
    kind: str | None,
    as_json: bool,
) -> None:
    """Write one self-contained HTML page on how MODEL ranks the labelled rows of DATA.

    Take rows that the model has not seen. The page needs no network; the rows that it shows are in
    it.

    Example: toppush report fraud.toppush held-out.csv --train train.csv --columns id -o report.html
    """
    from toppush.files.scoring import labelled_rows
    from toppush.report import from_estimator, write

    with common.scoring(model, data, kind) as (ranker, file, met_here):
        flatters = common.caution_training_rows(ranker, file)
        carried = common.named_columns(file, columns)
        rows = labelled_rows(ranker, file, label=label, columns=carried, seen=met_here)
    if rows.positive.all() or not rows.positive.any():
        raise common.Failure(f"{data}: every row has the same label; both classes are needed.", 1)
    seen = labelled_rows(ranker, train, label=label, kind=kind) if train else None
    named = rows.X if hasattr(rows.X, "column_names") else None
    shown = named if rows.carried is None else rows.carried
    page = from_estimator(
        ranker.pipeline,
        rows.X,
        rows.positive,
        None if seen is None else seen.X,
        None if seen is None else seen.positive,
        rows=shown,
        title=title or data.name,
        k=k,
        rival_steps=_rival_steps(ranker),
        share=ranker.share,
        facts={
            "Model": model.name,
            "Data": data.name + ", which the model was fitted to: these figures flatter" * flatters,
            "Positive label": ranker.label.positive,
        },
    )
    write(output, page)
    size = output.stat().st_size
    written = {"output": str(output), "positives": int(rows.positive.sum()), "bytes": size}
    common.show(
        as_json,
        common.met(ranker, met_here) | written,
        common.label_text(ranker.about["label"]),
        common.met_text(ranker, met_here),
        f"Written: {output} ({size / 1e6:.1f} MB).",
    )


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
