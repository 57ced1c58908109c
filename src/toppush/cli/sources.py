"""Rankings that commands evaluate: scores from a model, or from a column of the file."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toppush.cli import options, output
from toppush.system.reading import DataError

if TYPE_CHECKING:
    from toppush.files import Model
    from toppush.files.readers import Reader
    from toppush.files.scoring import ScoringNotes
    from toppush.files.sources import ScoredRows, ScoreSource
    from toppush.types import Array

FILE = options.InputFile(exists=True, dir_okay=False)

source_options = options.combined(
    click.argument("model", type=FILE, metavar="[MODEL]", required=False),
    click.argument("data", type=FILE, metavar="DATA", required=False),
    options.label_option,
    click.option(
        "--scores", metavar="COLUMN", help="Column of DATA that holds the scores; without MODEL."
    ),
    click.option("--positive", help="The label to rank first, unless MODEL is a toppush file."),
    click.option("--lower-is-better", is_flag=True, help="Rank the lowest score first."),
    options.trust_option,
    options.format_option,
    options.json_option,
)
"""For commands that evaluate a ranking: MODEL and DATA, or DATA and --scores."""


@dataclass(frozen=True)
class SourceArguments:
    """The arguments that say where the scores and labels come from."""

    model: Path | None
    data: Path
    label: str | None = None
    scores: str | None = None
    positive: str | None = None
    lower_is_better: bool = False
    trust: tuple[str, ...] = ()
    kind: str | None = None

    @classmethod
    def of(cls, model: Path | None, data: Path | None, **more: Any) -> "SourceArguments":
        """Sort out the two paths: with --scores the only one is DATA."""
        if model is not None and data is None:
            model, data = None, model
        if data is None:
            raise click.UsageError("Missing argument 'DATA'.")
        if model is None and more.get("scores") is None:
            raise click.UsageError(
                "one file is given. Name the column of its scores with --scores, or give a model "
                "and the rows to score: MODEL DATA."
            )
        if model is not None and more.get("scores") is not None:
            raise click.UsageError(
                "--scores names a column of DATA, and MODEL gives scores too; leave one out."
            )
        return cls(model, data, **more)


@dataclass(frozen=True, eq=False)
class ScoredFile:
    """The labels and scores of a file, and where the scores come from."""

    arguments: SourceArguments
    source: "ScoreSource"
    scored: "ScoredRows"
    in_sample: bool
    """Whether the model was fitted to this file."""

    def facts(self) -> dict[str, Any]:
        """What was noticed while scoring, as JSON."""
        if (model := self._model) is not None:
            return output.scoring_facts(model, self.scored.seen)
        return {
            "label": asdict(self.scored.label),
            "rows": self.scored.seen.rows,
            "scores": self.source.name,
            "lower_is_better": self.source.lower_is_better,
        }

    def sentences(self) -> list[str]:
        """Which label is positive, and what was noticed while scoring."""
        if (model := self._model) is not None:
            return [
                output.label_text(model.about["label"]),
                output.scoring_text(model, self.scored.seen),
            ]
        lowest = "lowest" if self.source.lower_is_better else "highest"
        return [
            output.chosen_label_text(asdict(self.scored.label)),
            f"{self.scored.seen.rows:,} rows. Scores: {self.source.name}, the {lowest} first.",
        ]

    def require_both_classes(self) -> None:
        """Refuse rows of a single class, for which no metric is defined."""
        if self.scored.positive.all() or not self.scored.positive.any():
            raise DataError(
                "every row has the same label; both classes are needed.", file=self.arguments.data
            )

    def warn(self) -> None:
        """Warn of in-sample scores, and of scores that look wrong."""
        from toppush.files.sources import caution_scores

        if self.in_sample:
            warnings.warn(
                "the model was fitted to this file, so these figures are optimistic.", stacklevel=2
            )
        if self._model is None:
            caution_scores(self.scored.positive, self.scored.scores)

    def amount(self, value: float | str | None) -> "float | Array | None":
        """A number, or the numbers of a column."""
        return self.scored.numbers(value) if isinstance(value, str) else value

    @property
    def _model(self) -> Any:
        return getattr(self.source, "model", None)


def amount_columns(*amounts: float | str | None) -> tuple[str, ...]:
    """The columns that amounts name."""
    return tuple(dict.fromkeys(value for value in amounts if isinstance(value, str)))


@contextmanager
def scoring(
    model: Path, data: Path, kind: str | None
) -> Iterator[tuple["Model", "Reader", "ScoringNotes"]]:
    """A model, the open file to score, and the record of what is noticed in it."""
    from toppush import files
    from toppush.files.readers import reading
    from toppush.files.scoring import ScoringNotes

    ranker = files.load(model)
    with reading(data, kind) as rows:
        yield ranker, rows, ScoringNotes()


@contextmanager
def open_scores(arguments: SourceArguments) -> Iterator[tuple["ScoreSource", "Reader"]]:
    """The source of the scores, and the open file of the rows."""
    from toppush.files.readers import reading
    from toppush.files.sources import ModelSource, open_source

    source = open_source(
        arguments.model,
        scores=arguments.scores,
        lower_is_better=arguments.lower_is_better,
        trusted=arguments.trust,
    )
    if isinstance(source, ModelSource):
        for name in ("positive", "lower_is_better", "trust"):
            if getattr(arguments, name):
                flag = "--" + name.replace("_", "-")
                raise click.UsageError(
                    f"{flag} is for scores of other models; {arguments.model} records it. "
                    f"Leave {flag} out."
                )
    with reading(arguments.data, arguments.kind) as file:
        yield source, file


def read_scores(
    arguments: SourceArguments,
    *,
    columns: tuple[str, ...] = (),
    text: tuple[str, ...] = (),
    numbers: tuple[str, ...] = (),
    rows: bool = False,
) -> ScoredFile:
    """The labels and scores of DATA, and further columns as strings or numbers.

    `columns` are read as strings, too; they are values of a `columns_option`. With `rows`, the
    scored rows are kept.
    """
    from toppush.files.sources import Wanted

    with open_scores(arguments) as (source, file):
        in_sample = source.was_fitted_to(file)
        text = tuple(dict.fromkeys((*text, *options.column_names(file, columns))))
        wanted = Wanted(arguments.label, arguments.positive, text, numbers, rows=rows)
        return ScoredFile(arguments, source, source.read(file, wanted), in_sample)
