"""Scores that somebody wrote into a column of the file."""

from dataclasses import dataclass

from toppush.files.readers.base import Reader
from toppush.files.scoring import ScoringNotes
from toppush.files.sources.base import ScoredRows, Source, Wanted, finite_numbers, further
from toppush.system.reading import DataError
from toppush.tables.labels import caution_blanks, choose, count, count_blanks


@dataclass
class ColumnSource(Source):
    """A column of the file itself, in which somebody wrote scores."""

    column: str
    lower_is_better: bool = False

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.column

    def _read(self, file: Reader, wanted: Wanted) -> ScoredRows:
        label = wanted.label or file.usual_label
        if wanted.labelled and label == self.column:
            raise DataError(f"column {label!r} cannot hold both the scores and the labels.")
        names = [self.column, *wanted.texts, *wanted.numbers, *[label] * wanted.labelled]
        table = file.columns(names, texts=[name for name in wanted.texts if name != self.column])
        scores = finite_numbers(table, self.column)
        labels = None
        if wanted.labelled:
            caution_blanks(count_blanks(table[label]), label)
            rule = choose(count(table[label], label), label, wanted.positive)
            labels = rule, rule.positives(table[label])
        return ScoredRows(scores, further(table, wanted), ScoringNotes(len(table)), labels)
