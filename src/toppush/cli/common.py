"""What the commands share: options, exit codes, and output for people and for programs."""

import errno
import json
import os
import shlex
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from glob import glob
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from toppush.system.extras import EXTRAS, not_installed
from toppush.system.interrupts import INTERRUPTED, report_stopped, was_interrupted
from toppush.system.reading import KINDS, part_paths
from toppush.system.writing import same_file

if TYPE_CHECKING:
    from rich.table import Table

    from toppush.files import Model
    from toppush.files.readers import Reader
    from toppush.files.scoring import ScoringNotes

Param = click.Parameter | None
Context = click.Context | None
Decorated = TypeVar("Decorated", bound=Callable[..., object] | click.Command)
LONGEST_SENTENCE = 1000
SHARE = click.FloatRange(0.0, 1.0, min_open=True, max_open=True)
BAD_INPUT = 1
"""Exit code when the data or the model cannot be used. Click exits with 2 on wrong usage."""
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says when it writes no more; of a file of ours, `WriteError` names it."""
WHOLE = 1e15
"""Up to which whole numbers are written without an exponent."""
OUR_FAULT = 4
"""Exit code after an error that nobody foresaw."""


class Decorator(Protocol):
    """An option or an argument, put before a command."""

    def __call__(self, command: Decorated, /) -> Decorated: ...


class Failure(click.ClickException):
    """A sentence on the standard error stream, and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]


class FilePath(click.Path):
    """A path that a command reads or writes; what it writes is nothing else that it is given."""

    def __init__(self, *, exists: bool = False, dir_okay: bool = True) -> None:
        super().__init__(path_type=Path, exists=exists, dir_okay=dir_okay)

    def convert(self, value: Any, param: Param, ctx: Context) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        _refuse_overlap(self, path, param, ctx)
        return path

    def files(self, path: Path) -> list[Path]:
        """The files that the path stands for."""
        return [path]


class InputFile(FilePath):
    """A path that a command reads; it may be a pattern, or a folder of parts."""

    def files(self, path: Path) -> list[Path]:
        if not path.is_dir():
            return [path] if path.exists() else [Path(name) for name in glob(str(path))]
        try:
            return part_paths(path)
        except ValueError:  # none, of which the command will tell
            return []


class OutputFile(FilePath):
    """A path that a command writes, in a folder that is there."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False)

    def convert(self, value: Any, param: Param, ctx: Context) -> Path:
        path = super().convert(value, param, ctx)
        if not path.parent.is_dir():
            self.fail(f"{path.parent} is not a folder.", param, ctx)
        return path


class ColumnOrFile(click.ParamType):  # type: ignore[type-arg]
    """The name of a column, or an NPY file with the labels, which is read."""

    name = "text"

    def convert(self, value: Any, param: Param, ctx: Context) -> str:
        if str(value).endswith(".npy"):
            _refuse_overlap(InputFile(), Path(value), param, ctx)
        return str(value)


class Registered(click.Choice):  # type: ignore[type-arg]
    """One of the names in registries, "module:NAME", which are asked only when they are needed."""

    def __init__(self, *where: str) -> None:
        self.where = [one.split(":") for one in where]
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names that there are now."""
        found = (getattr(import_module(module), registry) for module, registry in self.where)
        return tuple(chain.from_iterable(found))


def _refuse_overlap(kind: FilePath, path: Path, param: Param, ctx: Context) -> None:
    """Refuse a path if the command would destroy another of its own by writing."""
    if ctx is None:
        return
    given = ctx.meta.setdefault("toppush.paths", {})
    for other_param, (other_kind, other) in given.items():
        writes = isinstance(kind, OutputFile) or isinstance(other_kind, OutputFile)
        others = other_kind.files(other) if writes and other_param is not param else []
        if any(same_file(one, another) for one in kind.files(path) for another in others):
            raise click.BadParameter(
                f"{path} is the same file as {other}, given as {other_param.get_error_hint(ctx)}, "
                "which would be lost; name another file.",
                ctx=ctx,
                param=param,
            )
    given[param] = kind, path


class WholeSentence(click.Command):
    """A command whose line in the help of its group is its whole first sentence."""

    def get_short_help_str(self, limit: int = 45) -> str:
        return super().get_short_help_str(LONGEST_SENTENCE)


class Command(WholeSentence):
    """A command that refuses to forget: an option for one value is given once."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for option, times in Counter(given).items():
            if isinstance(option, click.Option) and times > 1 and not option.multiple:
                flag = option.opts[-1]
                raise click.UsageError(
                    f"{flag} is given {times} times and takes one value; give it once.", ctx
                )
        return super().parse_args(ctx, args)


class Commands(WholeSentence, click.Group):
    """A group whose commands end with a sentence and a code rather than a traceback."""

    command_class = Command

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run a command; a full disk behind the standard output is reported, a closed pipe is not.

        What is printed last is written only when the process ends, so it is flushed here.
        """
        try:
            try:
                return super().main(*arguments, **options)
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()
        except OSError as error:
            with suppress(OSError):  # Python writes what is left when it ends
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not isinstance(error, BrokenPipeError):
                failure(error).show()
            sys.exit(BAD_INPUT)

    def invoke(self, ctx: click.Context) -> Any:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("default")
            try:
                return super().invoke(ctx)
            except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
                raise
            except (Exception, KeyboardInterrupt) as error:
                if was_interrupted() or isinstance(error, KeyboardInterrupt):
                    report_stopped()
                    ctx.exit(INTERRUPTED)
                raise failure(error) from error
            finally:
                for text in dict.fromkeys(str(warning.message) for warning in said):
                    click.echo(f"Warning: {text}", err=True)


def failure(error: Exception) -> Failure:
    """What to say of an error: its own sentence, or that it was not foreseen, with a file to send.

    A sentence of ours is an error of files or packages, or a `ValueError` raised by this package.
    """
    if isinstance(error, MemoryError):
        return Failure(f"there is not enough memory: {error or 'no more is free'}.", BAD_INPUT)
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return Failure(not_installed(error.name), BAD_INPUT)
    if type(error) is OSError and error.errno in DISK_FULL and error.filename is None:
        return Failure(f"the output cannot be written: {error.strerror}.", BAD_INPUT)
    if isinstance(error, (OSError, ImportError)) or _is_ours(error):
        return Failure(str(error), getattr(error, "exit_code", BAD_INPUT))
    from toppush.cli.crash import write_crash

    return Failure(
        f"this should not have happened ({type(error).__name__}: {error}). It is an error in "
        f"toppush, not in what you typed. Please send {write_crash(error)}: it holds the command "
        "line, versions and the place of the error, and no rows.",
        OUR_FAULT,
    )


def _is_ours(error: Exception) -> bool:
    """Whether the error is a kind of this package, or a `ValueError` that it raised itself."""
    if type(error).__module__.startswith("toppush."):
        return True
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    name = frame.f_globals.get("__name__", "")
    return isinstance(error, ValueError) and name.startswith("toppush.")


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
format_option = click.option(
    "--format",
    "kind",
    type=click.Choice(list(KINDS)),
    help="The data's format, if its ending does not say.",
)
label_option = click.option(
    "--label",
    type=ColumnOrFile(),
    help="Column of the labels [default: label; of NPZ the array y; of NPY the last column].",
)
seed_option = click.option("--seed", type=int, default=0, show_default=True)


def existing(name: str) -> Decorator:
    """An argument that is the path of a file."""
    kind = InputFile(exists=True, dir_okay=False)
    return click.argument(name, type=kind, metavar=name.upper())


def output_option(text: str, **more: Any) -> Decorator:
    """The option for the file that a command writes."""
    return click.option("-o", "--output", type=OutputFile(), help=text, **more)


def listed(given: Collection[str], known: Collection[str] = ()) -> tuple[str, ...]:
    """The names in the values of an option: a value that is a known name, else its parts.

    >>> from toppush.cli.common import listed
    >>> listed(("id,age", "city, state"), known=("city, state", "id", "age"))
    ('id', 'age', 'city, state')
    """
    found: list[str] = []
    for value in given:
        parts = [value] if value in known else [part.strip() for part in value.split(",")]
        found += [part for part in parts if part]
    return tuple(dict.fromkeys(found))


def list_option(flag: str, text: str, **more: Any) -> Decorator:
    """An option that takes names parted by commas, or is repeated, or both."""
    given = {"callback": lambda _context, _option, values: listed(values)} | more
    return click.option(flag, multiple=True, help=text, **given)


def columns_option(flag: str, text: str) -> Decorator:
    """An option that takes names of columns; `named_columns` reads its values."""
    text += " Repeat it or part names by commas."
    return list_option(flag, text, callback=None, metavar="COLUMNS")


def named_columns(rows: "Reader", given: Collection[str]) -> tuple[str, ...]:
    """The columns that values of an option name; a name of DATA's may hold commas itself."""
    return listed(given, rows.names if any("," in value for value in given) else ())


def together(*options: Decorator) -> Decorator:
    """Several options as one decorator, in the order in which help lists them."""

    def add(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return add


training_options = together(
    label_option,
    click.option(
        "--positive",
        help="The label to rank first [default: the rarer of two strings, the greater of two "
        "numbers].",
    ),
    columns_option("--drop", "Columns to leave out."),
    click.option(
        "--sample-weight", metavar="COLUMN", help="Column of weights, from 0 on; no feature."
    ),
    click.option(
        "--groups",
        metavar="COLUMN",
        help="Column by whose values rows belong together, such as a customer: no fold parts them.",
    ),
    click.option(
        "--time",
        metavar="COLUMN",
        help="Column of dates or numbers: folds train on earlier rows and hold out later ones.",
    ),
    columns_option("--categorical", "Columns to take as categories even if they hold numbers."),
    columns_option("--keep", "Columns to learn from although they look like ids."),
    click.option(
        "--missing",
        type=Registered("toppush.tables.columns:WAYS"),
        default="impute",
        show_default=True,
        help="Fill gaps and say so, or refuse them.",
    ),
    click.option(
        "--cv",
        type=click.IntRange(min=2),
        default=5,
        help="Folds [5; fit: 3 to 5 of auto].",
    ),
    click.option(
        "--scoring",
        metavar="NAME",
        help="Measure that settings are chosen by: one of toppush.metrics such as "
        "average_precision, or a scorer of scikit-learn.",
    ),
    click.option("--threads", type=click.IntRange(min=1), help="[default: all cores]"),
    seed_option,
    format_option,
    json_option,
)
"""Of commands that learn from a file."""


def show(as_json: bool, result: dict[str, Any], *parts: object) -> None:
    """Print the result as JSON, or the parts for a person."""
    if as_json:
        json.dump(result, sys.stdout, indent=2, allow_nan=False)
        sys.stdout.write("\n")
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    for part in parts:
        if part is not None and part != "":
            console.print(part, soft_wrap=isinstance(part, str))


def table(*columns: str, rows: list[list[str]], title: str | None = None) -> "Table":
    """A table for the terminal, all columns but the first to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )
    for number, column in enumerate(columns):
        made.add_column(column, justify="right" if number else "left", no_wrap=not number)
    for row in rows:
        made.add_row(*row)
    return made


def label_text(label: dict[str, Any], why: str = "as in the model", hint: str = "") -> str:
    """Which label is ranked first, and why."""
    positive, *others = (label_as_text(value) for value in (label["positive"], *label["others"]))
    more = ", ..." * (len(others) > 5)
    return (
        f"Positive: {label['column'] or 'label'} = {positive}, {why} (negative: "
        f"{', '.join(others[:5])}{more}).{hint}"
    )


def chosen_label_text(label: dict[str, Any]) -> str:
    """Which label of two was taken as positive, and how to take the other one."""
    other = shlex.quote(label_as_text(label["others"][0]))
    hint = f" Use --positive {other} to rank the other class first."
    hint = "" if label["why"] == "as named" else hint
    return label_text(label, label["why"], hint)


def model_label_text(model: "Model") -> str:
    """Which label a model ranks first, if it knows."""
    return label_text(model.about["label"]) if "label" in model.about else ""


def label_as_text(value: str | float) -> str:
    """A label as one would type it."""
    return cell_text(value)


def cell_text(value: object) -> str:
    """A value of a table as one would type it: whole numbers without a point, nothing if missing.

    >>> from toppush.cli.common import cell_text
    >>> cell_text(2478.0), cell_text(1234567), cell_text(0.25), cell_text(None)
    ('2478', '1234567', '0.25', '')
    """
    if value is None:
        return ""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < WHOLE
    return f"{value:.0f}" if whole else str(value)


@contextmanager
def scoring(
    model: Path, data: Path, kind: str | None
) -> Iterator[tuple["Model", "Reader", "ScoringNotes"]]:
    """A model, the file to score while it is open, and what will be met in it."""
    from toppush import files
    from toppush.files.readers import reading
    from toppush.files.scoring import ScoringNotes

    ranker = files.load(model)
    with reading(data, kind) as rows:
        yield ranker, rows, ScoringNotes()


def met(model: "Model", seen: "ScoringNotes") -> dict[str, Any]:
    """What was met while scoring a file, as JSON."""
    return {
        "label": model.about.get("label"),
        "rows": seen.rows,
        "missing": dict(seen.counts.missing),
        "unseen": dict(seen.counts.unseen),
        "unread": dict(seen.counts.unread),
        "larger": dict(seen.counts.larger),
        "unknown_column_entries": seen.ignored,
    }


def met_text(model: "Model", seen: "ScoringNotes") -> str:
    """What was met while scoring a file, in words."""
    said = [f"{seen.rows:,} rows."]
    filled = model.columns is None or model.columns.form == "filled"
    if seen.counts.missing:
        said.append(f"Gaps{' filled' * filled}: {counted(seen.counts.missing)}.")
    if seen.counts.unseen:
        said.append(f"Texts that the model does not know: {counted(seen.counts.unseen)}.")
    if seen.counts.unread:
        said.append(f"Values that are no numbers, taken as missing: {counted(seen.counts.unread)}.")
    if seen.ignored:
        said.append(f"Entries in columns that the model does not know: {seen.ignored:,}.")
    return " ".join(said)


def counted(counts: dict[str, int], most: int = 8) -> str:
    """Names with their counts, the first few."""
    shown = ", ".join(f"{name} {count:,}" for name, count in list(counts.items())[:most])
    more = len(counts) - most
    return shown + f" and {more} more column{'s' * (more > 1)}" * (more > 0)
