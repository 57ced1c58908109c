"""Types of options and arguments, and options that several commands share."""

import os
from collections.abc import Callable, Collection
from glob import glob
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toppush.system.reading import FORMATS, part_paths
from toppush.system.writing import same_file

if TYPE_CHECKING:
    from toppush.files.readers import Reader

Param = click.Parameter | None
Context = click.Context | None
Decorator = Callable[[Any], Any]

FRACTION = click.FloatRange(0.0, 1.0, min_open=True, max_open=True)
COUNT = click.IntRange(min=1)
ABOVE_ZERO = click.FloatRange(min=0.0, min_open=True)


class FilePath(click.Path):
    """A path that a command reads or writes; an output file may not be one of its inputs."""

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
    """A path that a command reads; it may be a glob pattern, or a folder of partitions."""

    def files(self, path: Path) -> list[Path]:
        if not path.is_dir():
            return [path] if path.exists() else [Path(name) for name in glob(str(path))]
        try:
            return part_paths(path)
        except ValueError:  # an empty folder, which the command itself reports
            return []


class OutputFile(FilePath):
    """A path that a command writes, in an existing folder."""

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


class Amount(click.ParamType):  # type: ignore[type-arg]
    """A number, or the name of a column that holds a number for each row."""

    name = "number or column"

    def convert(self, value: Any, param: Param, ctx: Context) -> float | str:
        try:
            return float(value)
        except ValueError:
            return str(value)


class RegistryChoice(click.Choice):  # type: ignore[type-arg]
    """One of the names in registries, "module:NAME", which are imported on first use."""

    def __init__(self, *registries: str) -> None:
        self.registries = [registry.split(":") for registry in registries]
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The registered names."""
        return tuple(
            name
            for module, registry in self.registries
            for name in getattr(import_module(module), registry)
        )


def _refuse_overlap(path_type: FilePath, path: Path, param: Param, ctx: Context) -> None:
    """Refuse a path if the command would overwrite another of its own files."""
    if ctx is None:
        return
    known = ctx.meta.setdefault("toppush.paths", {})
    for other_param, (other_type, other) in known.items():
        writes = isinstance(path_type, OutputFile) or isinstance(other_type, OutputFile)
        others = other_type.files(other) if writes and other_param is not param else []
        if any(same_file(file, another) for file in path_type.files(path) for another in others):
            raise click.BadParameter(
                f"{path} is the same file as {other}, given as {other_param.get_error_hint(ctx)}, "
                "which would be lost; name another file.",
                ctx=ctx,
                param=param,
            )
    known[param] = path_type, path


def combined(*options: Decorator) -> Decorator:
    """Several options as one decorator, in the order in which help lists them."""

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def input_argument(name: str) -> Decorator:
    """An argument that is the path of an existing file."""
    path_type = InputFile(exists=True, dir_okay=False)
    return click.argument(name, type=path_type, metavar=name.upper())


def output_option(help_text: str, **more: Any) -> Decorator:
    """The option for the file that a command writes."""
    return click.option("-o", "--output", type=OutputFile(), help=help_text, **more)


def split_names(values: Collection[str], known: Collection[str] = ()) -> tuple[str, ...]:
    """The names in the values of an option: a value that is a known name, else its parts.

    >>> from toppush.cli.options import split_names
    >>> split_names(("id,age", "city, state"), known=("city, state", "id", "age"))
    ('id', 'age', 'city, state')
    """
    names: list[str] = []
    for value in values:
        parts = [value] if value in known else [part.strip() for part in value.split(",")]
        names += [part for part in parts if part]
    return tuple(dict.fromkeys(names))


def list_option(flag: str, help_text: str, **more: Any) -> Decorator:
    """An option that takes names separated by commas, or is repeated, or both."""
    options = {"callback": lambda _context, _option, values: split_names(values)} | more
    return click.option(flag, multiple=True, help=help_text, **options)


def columns_option(flag: str, help_text: str) -> Decorator:
    """An option that takes names of columns; `column_names` reads its values."""
    help_text += " Repeat it or separate names by commas."
    return list_option(flag, help_text, callback=None, metavar="COLUMNS")


def column_names(rows: "Reader", values: Collection[str]) -> tuple[str, ...]:
    """The columns that values of an option name; a column name may itself contain commas."""
    return split_names(values, rows.names if any("," in value for value in values) else ())


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
format_option = click.option(
    "--format",
    "kind",
    type=click.Choice(list(FORMATS)),
    help="Format of the data [default: from the file name's ending].",
)
label_option = click.option(
    "--label",
    type=ColumnOrFile(),
    help="Column of the labels [default: label; NPZ: the array y; NPY: the last column].",
)
seed_option = click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of the random numbers."
)
confidence_option = click.option(
    "--confidence",
    type=FRACTION,
    default=0.95,
    show_default=True,
    help="Confidence level of intervals and guarantees.",
)
draws_option = click.option(
    "--draws",
    type=click.IntRange(min=10),
    help="Bootstrap draws for the intervals [default: 1000, fewer from 200,000 rows on].",
)
trust_option = list_option("--trust", "Type that a skops file may contain; repeat it for several.")
amount_options = combined(
    click.option(
        "--value", type=Amount(), help="Benefit of a true positive: a number or a column."
    ),
    click.option("--cost", type=Amount(), help="Cost of one review: a number or a column."),
)
day_options = combined(
    click.option("--per-day", type=COUNT, metavar="K", help="Rows that can be reviewed per day."),
    click.option("--rows-per-day", type=COUNT, metavar="R", help="New rows per day."),
)
by_option = click.option(
    "--by", metavar="COLUMN", help="Rank each group separately: day, branch, query."
)
budget_option = click.option(
    "--budget", type=COUNT, metavar="K", help="Rows of each group that are reviewed."
)

training_options = combined(
    label_option,
    click.option(
        "--positive",
        help="The label to rank first [default: the rarer of two strings, the greater of two "
        "numbers].",
    ),
    columns_option("--drop", "Columns to leave out."),
    click.option(
        "--sample-weight",
        metavar="COLUMN",
        help="Column of non-negative sample weights; it is not a feature.",
    ),
    click.option(
        "--groups",
        metavar="COLUMN",
        help="Group column, such as a customer; groups are never split across folds.",
    ),
    click.option(
        "--time",
        metavar="COLUMN",
        help="Column of dates or numbers: folds train on earlier rows and hold out later ones.",
    ),
    columns_option("--categorical", "Columns to treat as categories even if they hold numbers."),
    columns_option("--text", "Columns to treat as free text whatever they hold."),
    columns_option("--keep", "Columns to use as features although they look like ids."),
    click.option(
        "--missing",
        type=RegistryChoice("toppush.tables.columns:WAYS"),
        default="impute",
        show_default=True,
        help="Impute missing values and report them, or refuse them.",
    ),
    click.option(
        "--cv",
        type=click.IntRange(min=2),
        default=5,
        help="Number of folds [5; fit: 3 to 5 for auto].",
    ),
    click.option(
        "--scoring",
        metavar="NAME",
        help="Metric for choosing settings: one of toppush.metrics such as "
        "average_precision, or a scorer of scikit-learn.",
    ),
    click.option(
        "--threads", type=click.IntRange(min=1), help="Number of threads [default: all cores]."
    ),
    seed_option,
    format_option,
    json_option,
)
"""Options of commands that learn from a file."""


def require_pairs(**options: Any) -> None:
    """Refuse one option of a pair that is needed together."""
    hints = {
        "cost": ": the cost of one review, 0 if it is free",
        "rows_per_day": ": the number of new rows per day",
    }
    for name, other in (("value", "cost"), ("cost", "value"), ("per_day", "rows_per_day")):
        if options.get(name) is not None and options.get(other) is None:
            raise click.UsageError(
                f"--{name} needs --{other} too".replace("_", "-") + hints.get(other, "") + "."
            )
