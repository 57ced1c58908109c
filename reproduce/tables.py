"""Tables of strings, written as Markdown and CSV and shown as HTML or in the terminal."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from toppush.system.writing import write_text
from toppush.types import Json

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True)
class Table:
    """A titled table.

    Attributes
    ----------
    name : str
        Stem of its files.
    title : str
    columns : sequence of str
    rows : sequence of sequences of str
    notes : sequence of str
        Sentences under the table.
    group : bool
        Whether the first column names a group and is shown once for it.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default_factory=tuple)
    group: bool = False

    def shown_rows(self) -> list[list[str]]:
        """The rows, a group's name in its first row only."""
        shown = [list(row) for row in self.rows]
        for before, row, cells in zip(self.rows, self.rows[1:], shown[1:], strict=False):
            if self.group and row[0] == before[0]:
                cells[0] = ""
        return shown

    def markdown(self) -> str:
        """A heading, the table and its notes."""
        from tabulate import tabulate

        rows = [[cell.replace("|", "\\|") for cell in row] for row in self.shown_rows()]
        body = tabulate(rows, self.columns, "github", disable_numparse=True)
        notes = "".join(f"\n{note}\n" for note in self.notes)
        return f"## {self.title}\n\n{body}\n{notes}"

    def csv(self) -> str:
        """Comma-separated values with a header."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self.rows])
        return text.getvalue()

    def html(self) -> str:
        """A figure with caption, table and notes; every cell escaped."""
        from html import escape

        head = "".join(f'<th scope="col">{escape(column)}</th>' for column in self.columns)
        body = "\n".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.shown_rows()
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return (
            f"<figure><table><caption>{escape(self.title)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>\n{body}\n</tbody></table><figcaption>{notes}</figcaption></figure>"
        )

    def rich(self) -> "RichTable":
        """For the terminal."""
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(title=self.title, title_justify="left", caption_justify="left")
        for column in self.columns:
            table.add_column(column, overflow="fold")
        for row in self.shown_rows():
            if self.group and row[0] and table.rows:
                table.add_section()
            table.add_row(*map(Text, row))
        return table

    def write(self, directory: Path) -> list[Path]:
        """Write Markdown and CSV files to a directory; return their paths."""
        directory.mkdir(parents=True, exist_ok=True)
        paths = [directory / f"{self.name}{suffix}" for suffix in (".md", ".csv")]
        for path, content in zip(paths, (self.markdown(), self.csv()), strict=True):
            write_text(path, content)
        return paths

    def about(self) -> Json:
        """What the CSV file does not contain."""
        return {
            "name": self.name,
            "title": self.title,
            "notes": list(self.notes),
            "group": self.group,
        }

    @classmethod
    def read(cls, directory: Path, about: Json) -> "Table":
        """The table of a CSV file, with what `about` returned."""
        with (directory / f"{about['name']}.csv").open(encoding="utf-8", newline="") as file:
            columns, *rows = csv.reader(file)
        return cls(columns=columns, rows=rows, **about)
