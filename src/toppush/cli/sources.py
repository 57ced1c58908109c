"""Lists that commands judge: from a model and rows, or from scores that are in the file already."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toppush.cli import common
from toppush.system.reading import DataError

if TYPE_CHECKING:
    from toppush.files.readers import Reader
    from toppush.files.sources import ScoredRows, Source

FILE = common.InputFile(exists=True, dir_okay=False)
FOR_OTHERS = ("positive", "lower_is_better", "trust")
"""Options that a model of ours has no use for: it knows."""

source_options = common.together(
    click.argument("model", type=FILE, metavar="[MODEL]", required=False),
    click.argument("data", type=FILE, metavar="DATA", required=False),
    common.label_option,
    click.option(
        "--scores", metavar="COLUMN", help="Column of DATA that holds the scores; without MODEL."
    ),
    click.option(
        "--positive", help="The label to rank first, if MODEL is not one of toppush's own."
    ),
    click.option("--lower-is-better", is_flag=True, help="The lowest score is at the top."),
    common.list_option("--trust", "Type that a skops file may hold; repeat it for several."),
    common.format_option,
    common.json_option,
)
"""Of commands that judge a list: MODEL and DATA, or DATA and --scores."""

scoring_options = common.together(
    source_options, click.option("--confidence", type=common.SHARE, default=0.95, show_default=True)
)
"""Of commands that measure it."""


@dataclass(frozen=True)
class Given:
    """What was given on the command line to make a list of."""

    model: Path | None
    data: Path
    label: str | None = None
    scores: str | None = None
    positive: str | None = None
    lower_is_better: bool = False
    trust: tuple[str, ...] = ()
    kind: str | None = None

    @classmethod
    def of(cls, model: Path | None, data: Path | None, **options: Any) -> "Given":
        """Sort out the two paths: with --scores the only one is DATA."""
        if model is not None and data is None:
            model, data = None, model
        if data is None:
            raise click.UsageError("Missing argument 'DATA'.")
        if model is None and options.get("scores") is None:
            raise click.UsageError(
                "one file is given. Name the column of its scores with --scores, or give a model "
                "and the rows to score: MODEL DATA."
            )
        if model is not None and options.get("scores") is not None:
            raise click.UsageError(
                "--scores names a column of DATA, and MODEL gives scores too; leave one out."
            )
        return cls(model, data, **options)


@dataclass(frozen=True, eq=False)
class Listed:
    """A list that was read, and who made it."""

    given: Given
    source: "Source"
    found: "ScoredRows"
    flatters: bool
    """Whether the model was fitted to these very rows."""

    def met(self) -> dict[str, Any]:
        """What was met on the way, as JSON."""
        by = {"scores": self.source.name, "lower_is_better": self.source.lower_is_better}
        if (model := self._model) is not None:
            return common.met(model, self.found.seen)
        return {"label": asdict(self.found.label), "rows": self.found.seen.rows} | by

    def sentences(self) -> list[str]:
        """Which label is positive, and what was met on the way."""
        if (model := self._model) is not None:
            return [
                common.label_text(model.about["label"]),
                common.met_text(model, self.found.seen),
            ]
        lowest = "lowest" if self.source.lower_is_better else "highest"
        return [
            common.chosen_label_text(asdict(self.found.label)),
            f"{self.found.seen.rows:,} rows. Scores: {self.source.name}, the {lowest} first.",
        ]

    def require_both_classes(self) -> None:
        """Refuse rows of one class, of which no measure says anything."""
        if self.found.positive.all() or not self.found.positive.any():
            raise DataError(
                "every row has the same label; both classes are needed.", file=self.given.data
            )

    def caution(self) -> None:
        """Warn of what makes the figures flatter, or the list no list."""
        from toppush.files.sources import caution_scores

        if self.flatters:
            warnings.warn(
                "the model was fitted to this file, so these figures flatter.", stacklevel=2
            )
        if self._model is None:
            caution_scores(self.found.positive, self.found.scores)

    @property
    def _model(self) -> Any:
        return getattr(self.source, "model", None)


def read_training(given: Given, source: "Source", train: Path) -> "ScoredRows":
    """Rows that a source learned from, read as those that it is judged on."""
    from toppush.files.readers import reading
    from toppush.files.sources import Wanted

    with reading(train, given.kind) as file:
        return source.read(file, Wanted(given.label, given.positive, rows=True))


@contextmanager
def opened(given: Given) -> Iterator[tuple["Source", "Reader"]]:
    """Who gives the scores, and the file of the rows while it is open."""
    from toppush.files.readers import reading
    from toppush.files.sources import ModelSource, open_source

    source = open_source(
        given.model,
        scores=given.scores,
        lower_is_better=given.lower_is_better,
        trusted=given.trust,
    )
    if isinstance(source, ModelSource):
        _refuse_needless(given)
    with reading(given.data, given.kind) as file:
        yield source, file


def read_list(
    given: Given,
    *,
    columns: tuple[str, ...] = (),
    texts: tuple[str, ...] = (),
    numbers: tuple[str, ...] = (),
    rows: bool = False,
) -> Listed:
    """The labels and scores of DATA, and further columns: texts or numbers.

    `columns` are texts too, as `columns_option` gives them. With `rows`, what was scored is kept.
    """
    from toppush.files.sources import Wanted

    with opened(given) as (source, file):
        flatters = source.was_fitted_to(file)
        texts = tuple(dict.fromkeys((*texts, *common.named_columns(file, columns))))
        wanted = Wanted(given.label, given.positive, texts, numbers, rows=rows)
        return Listed(given, source, source.read(file, wanted), flatters)


def _refuse_needless(given: Given) -> None:
    for name in FOR_OTHERS:
        if getattr(given, name):
            flag = "--" + name.replace("_", "-")
            raise click.UsageError(
                f"{flag} is for scores of others; {given.model} knows it. Leave {flag} out."
            )
