"""Output of the commands: one result as JSON or as text, tables, and progress."""

import io
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from toppush.files import Model
    from toppush.files.scoring import ScoringNotes
    from toppush.metrics.bootstrap import Interval

MAX_WHOLE = 1e15
"""Whole numbers are written without an exponent up to here."""
EVERY = 10.0
"""Seconds between progress lines if the error stream is no terminal."""


@dataclass(frozen=True)
class TextTable:
    """A table of text; the first column is aligned to the left, numbers to the right."""

    columns: list[str]
    rows: list[list[str]]
    title: str | None = None
    left: tuple[str, ...] = ()
    """Further columns that are aligned to the left."""

    def to_rich(self) -> "Table":
        """The table for the terminal."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        table = Table(
            title=self.title,
            title_justify="left",
            box=SIMPLE_HEAD,
            pad_edge=False,
            collapse_padding=True,
        )
        for number, column in enumerate(self.columns):
            left = not number or column in self.left
            table.add_column(column, justify="left" if left else "right", no_wrap=not number)
        for row in self.rows:
            table.add_row(*row)
        return table


def show(as_json: bool, result: dict[str, Any], *parts: str | TextTable) -> None:
    """Print the result as JSON, or the sentences and tables that describe it."""
    if as_json:
        json.dump(result, sys.stdout, indent=2, allow_nan=False)
        sys.stdout.write("\n")
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    for part in parts:
        if isinstance(part, TextTable):
            console.print(part.to_rich())
        elif part:
            console.print(part, soft_wrap=True)


def cell_text(value: object) -> str:
    """A value as one would type it: whole numbers without a point, nothing if it is missing.

    >>> from toppush.cli.output import cell_text
    >>> cell_text(2478.0), cell_text(1234567), cell_text(0.25), cell_text(None)
    ('2478', '1234567', '0.25', '')
    """
    if value is None:
        return ""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < MAX_WHOLE
    return f"{value:.0f}" if whole else str(value)


def percent(share: float) -> str:
    """A share in percent, with three digits; less than 100 if it is less than 1.

    >>> from toppush.cli.output import percent
    >>> percent(0.8333), percent(0.000123), percent(0.99996)
    ('83.3%', '0.0123%', '99.99%')
    """
    if 0.9995 <= share < 1.0:
        return f"{min(100 * share, 99.99):.2f}%"
    return f"{float(f'{100 * share:.3g}'):g}%"


def percent_or_dash(share: float | None) -> str:
    """A share in percent with two decimals, or a dash if it is unknown."""
    return "-" if share is None else f"{share:.2%}"


def number_text(number: float) -> str:
    """Four digits, but whole numbers from 10,000 on."""
    return f"{number:,.4g}" if abs(number) < 1e4 else f"{number:,.0f}"


def interval_cells(
    interval: "Interval", form: Callable[[float], str] = "{:.3f}".format
) -> list[str]:
    """A value and the ends of its interval."""
    return [form(number) for number in (interval.value, interval.low, interval.high)]


def counted(counts: dict[str, int], limit: int = 8) -> str:
    """Names with their counts, the first few."""
    shown = ", ".join(f"{name} {count:,}" for name, count in list(counts.items())[:limit])
    more = len(counts) - limit
    return shown + f" and {more} more column{'s' * (more > 1)}" * (more > 0)


def label_text(label: dict[str, Any], why: str = "as in the model", hint: str = "") -> str:
    """Which label is ranked first, and why."""
    positive, *others = (cell_text(value) for value in (label["positive"], *label["others"]))
    more = ", ..." * (len(others) > 5)
    return (
        f"Positive: {label['column'] or 'label'} = {positive}, {why} (negative: "
        f"{', '.join(others[:5])}{more}).{hint}"
    )


def chosen_label_text(label: dict[str, Any]) -> str:
    """Which of two labels was chosen as positive, and how to choose the other one."""
    other = shlex.quote(cell_text(label["others"][0]))
    hint = f" Use --positive {other} to rank the other class first."
    return label_text(label, label["why"], "" if label["why"] == "as named" else hint)


def model_label_text(model: "Model") -> str:
    """Which label a model ranks first, if it is known."""
    return label_text(model.about["label"]) if "label" in model.about else ""


def scoring_facts(model: "Model", notes: "ScoringNotes") -> dict[str, Any]:
    """What was noticed while scoring a file, as JSON."""
    return {
        "label": model.about.get("label"),
        "rows": notes.rows,
        "missing": dict(notes.counts.missing),
        "unseen": dict(notes.counts.unseen),
        "unread": dict(notes.counts.unread),
        "larger": dict(notes.counts.larger),
        "unknown_column_entries": notes.ignored,
    }


def scoring_text(model: "Model", notes: "ScoringNotes") -> str:
    """What was noticed while scoring a file, in words."""
    counts = notes.counts
    imputed = " imputed" * (model.columns is None or model.columns.form == "filled")
    parts = [f"{notes.rows:,} rows."]
    if counts.missing:
        parts.append(f"Missing values{imputed}: {counted(counts.missing)}.")
    if counts.unseen:
        parts.append(f"Categories unknown to the model: {counted(counts.unseen)}.")
    if counts.unread:
        parts.append(f"Values that are no numbers, treated as missing: {counted(counts.unread)}.")
    if notes.ignored:
        parts.append(f"Entries in columns unknown to the model: {notes.ignored:,}.")
    return " ".join(parts)


class ThrottledStream(io.TextIOBase):
    """Passes on a line at most once in a period, the first one after its end."""

    def __init__(
        self, stream: TextIO, every: float = EVERY, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream, self._every, self._clock = stream, every, clock
        self._next = clock() + every

    def write(self, text: str) -> int:
        if self._clock() >= self._next:
            self._next = self._clock() + self._every
            self._stream.write(text)
            self._stream.flush()
        return len(text)


@contextmanager
def lines_to_stderr() -> Iterator[None]:
    """Send the lines of a `verbose` fit to the error stream, throttled if it is no terminal."""
    live = sys.stderr.isatty()
    with redirect_stdout(sys.stderr if live else ThrottledStream(sys.stderr)):
        yield


@contextmanager
def progress_reporter(quiet: bool) -> Iterator[Callable[[int, int, str], None]]:
    """A function that reports the number of steps done, their total, and the current step."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        began, out = time.monotonic(), io.StringIO() if quiet else ThrottledStream(sys.stderr)

        def report(done: int, total: int, current: str) -> None:
            seconds = time.monotonic() - began
            left = f", about {seconds / done * (total - done):.0f} s left" if done else ""
            out.write(f"{done} of {total} fits, {seconds:.0f} s{left}: {current}\n")

        yield report
        return
    with progress_bar(console, transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda done, total, current: progress.update(
            task, completed=done, total=total, description=current
        )


def progress_bar(console: "Console", left: str = "", **options: Any) -> "Progress":
    """A bar with the current step, the steps done, the time spent and the time left.

    The time left follows from the number of steps, or is the task's field named `left`.
    """
    from rich import progress as rich

    done = (rich.BarColumn(), rich.MofNCompleteColumn(), rich.TimeElapsedColumn())
    remaining = f"{{task.fields[{left}]}}" if left else rich.TimeRemainingColumn()
    columns = ("{task.description}", *done, "left", remaining)
    return rich.Progress(*columns, console=console, **options)
