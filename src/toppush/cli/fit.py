"""`toppush fit`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from toppush.cli import options
from toppush.cli.group import Command
from toppush.cli.info import baseline_caution, leaderboard_parts, sentences, without_history
from toppush.cli.output import chosen_label_text, lines_to_stderr, show
from toppush.system.reading import part_paths

if TYPE_CHECKING:
    from toppush.files import Model
    from toppush.files.readers import Reader

NOT_FOR_A_CLUSTER = (
    "members", "effort", "seconds", "threads", "tol", "scoring", "sample_weight",
    "groups", "time",
)  # fmt: skip


def parse_lam(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> float | str | None:
    """A positive number, or "cv"."""
    if value is None or value == "cv":
        return value
    try:
        if 0.0 < float(value) < float("inf"):
            return float(value)
    except ValueError:
        pass
    raise click.BadParameter(
        f"{value!r} is neither a number above 0 nor cv, which chooses one by cross-validation."
    )


def parse_top(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> float | str | None:
    """A count, a share such as 0.01 or 1%, "auto" or "cv"."""
    if value is None or value in ("auto", "cv"):
        return value
    try:
        if value.endswith("%"):
            share = float(value[:-1]) / 100
        else:
            share = float(value) if "." in value else int(value)
    except ValueError:
        share = -1
    if share > 0 and (isinstance(share, int) or share <= 1):
        return share
    raise click.BadParameter(
        f"top is {value!r}; give a count from 1, a share such as 1% or 0.01, auto or cv."
    )


def parse_members(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> int | tuple[str, ...] | None:
    """A count from 1, or names."""
    if value is None:
        return None
    if value.isdigit() and int(value) > 0:
        return int(value)
    names = options.split_names([value])
    if not names or any(not name.isidentifier() for name in names):
        raise click.BadParameter(f"{value!r} is neither a count from 1 nor names of members.")
    return names


@click.command(cls=Command)
@click.argument("data", metavar="DATA", type=options.InputFile())
@options.training_options
@options.output_option(
    "Where to write the model; an existing file is replaced when the new one is complete.",
    required=True,
)
@click.option(
    "--model",
    type=options.RegistryChoice("toppush.modeltypes:MODEL_TYPES"),
    help="Model type. Options that it does not take are refused [default: auto; linear if one of "
    "--lam, --top, --loss, --scale and --tol is given].",
)
@click.option(
    "--effort",
    type=click.Choice(["quick", "normal", "thorough"]),
    help="How many base models auto tries [auto: normal].",
)
@click.option(
    "--seconds",
    type=options.ABOVE_ZERO,
    help="Time limit after which auto starts no further fit and combines the finished ones. "
    "(Ctrl-C stops without a model.)",
)
@click.option(
    "--lam",
    callback=parse_lam,
    help="Regularisation strength, or cv to choose it by cross-validation [linear: cv].",
)
@click.option(
    "--top",
    callback=parse_top,
    help="Number of highest negatives in the loss: 1, a count, or a share such as 1%; for linear "
    "also auto, the fewest with a non-zero solution; cv chooses it by cross-validation "
    "[linear: cv].",
)
@click.option(
    "--loss",
    type=options.RegistryChoice("toppush.problem.losses:LOSSES", "toppush.modeltypes:OTHER_LOSSES"),
    help="[linear: truncated_quadratic; trees: pairwise or binary; net: pairwise or cross_entropy]",
)
@click.option(
    "--scale",
    type=options.RegistryChoice("toppush.tables.scaling:SCALES"),
    help="Scale columns by their maximum absolute value, by their standard deviation, or not at "
    "all [maxabs, for model types that scale].",
)
@click.option(
    "--members",
    callback=parse_members,
    metavar="N|NAME,...",
    help="Number of models to average; for auto, the base models to choose from.",
)
@click.option(
    "--tol",
    type=options.ABOVE_ZERO,
    help="Relative duality gap at which the solver stops [linear: 1e-4].",
)
@click.option(
    "--cluster",
    metavar="ADDRESS|local",
    help="Fit on a Dask cluster, whose workers read the partitions of DATA.",
)
@click.option("--onnx", type=options.OutputFile(), help="Also write the model as ONNX.")
@click.option(
    "--weights",
    type=options.OutputFile(),
    help="Also write the weights by column name as JSON, for --model linear.",
)
def fit(
    data: Path,
    output: Path,
    onnx: Path | None,
    weights: Path | None,
    cluster: str | None,
    as_json: bool,
    **more: Any,
) -> None:
    """Fit a model that ranks the rows of DATA, and write it to a file.

    DATA is CSV, TSV, Parquet, Arrow, LIBSVM (plain, gz, bz2, xz), NPZ or NPY. Strings become
    categories, dates become numbers, and free text becomes words; missing values are kept, or
    imputed and marked. The model file contains this preparation.

    The default, auto, cross-validates several model types and combines them; a table shows their
    metrics. --model selects one type instead, which takes some of the options:

    \b
      auto       --effort --seconds --members --scoring --cv --groups --time
      linear     --lam --top --loss --scale --tol
                 --scoring --cv --groups --time
      additive   --lam --top --scoring --cv --groups --time
      trees      --top --loss --members --cv --groups
      net        --top --loss --members

    With --cluster, DATA is a folder, or a glob pattern in quotes, that the workers can read too.

    Example: toppush fit train.csv -o fraud.toppush --label fraud --positive yes --drop id

    Example: toppush fit train.csv -o fraud.toppush --label fraud --drop id --model linear
    """  # noqa: D301 - a mark of click's
    from toppush.modeltypes import select_model_type

    if cluster is None and not data.is_file():
        problem = "is a folder, which needs --cluster" if data.is_dir() else "does not exist"
        raise click.BadParameter(f"{data} {problem}.", param_hint="DATA")
    outputs = {"model": output, "onnx": onnx, "weights": weights}
    paths = {name: path for name, path in outputs.items() if path is not None}
    select_model_type(**more).require_exports(paths, more)
    more["verbose"] = int(not as_json)
    source = click.get_current_context().get_parameter_source("cv")
    if source is not ParameterSource.COMMANDLINE:
        more["cv"] = None
    with lines_to_stderr():
        model = (
            _fit(data, exports=paths, **more) if cluster is None else _fit_on(cluster, data, **more)
        )
    _write(model, paths)
    written = {name: str(path) for name, path in paths.items()}
    about = model.about
    show(
        as_json,
        without_history(about) | {"written": written},
        " ".join([chosen_label_text(about["label"]), *baseline_caution(about)]),
        *sentences(about),
        *leaderboard_parts(about),
        f"Written: {', '.join(f'{path} ({name})' for name, path in written.items())}.",
    )


def _write(model: "Model", paths: dict[str, Path]) -> None:
    """Write the model and its exports after all of them are made."""
    from toppush.modelfile.saving import json_bytes, onnx_bytes, require_no_training_rows, to_bytes
    from toppush.system.writing import write_bytes

    makers = {"model": to_bytes, "onnx": onnx_bytes, "weights": json_bytes}
    contents = {path: makers[name](model) for name, path in paths.items()}
    for path in contents:
        require_no_training_rows(path, model.about)
    for path, content in contents.items():
        write_bytes(path, content)


def _fit(data: Path, *, kind: str | None, **more: Any) -> "Model":
    """Fit a model on one file."""
    from toppush import files
    from toppush.files.readers import reading

    with reading(data, kind) as rows:
        return files.fit(rows, **more | _columns(rows, more))


def _columns(rows: "Reader", more: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """The options that name columns, split with the column names of the file."""
    return {
        name: options.column_names(rows, more[name])
        for name in ("drop", "categorical", "text", "keep")
        if name in more
    }


def _fit_on(cluster: str, data: Path, *, model: str | None, seed: int, **more: Any) -> "Model":
    """Fit a model on a cluster, from a partitioned file; its folds are not random."""
    from toppush import files
    from toppush.designs.dask import connected
    from toppush.files.readers import reading
    from toppush.modeltypes import FIRST

    if model not in (None, FIRST):
        raise click.BadParameter(
            f"{model} is not for a cluster, which fits {FIRST} models.", param_hint="--model"
        )
    for name in NOT_FOR_A_CLUSTER:
        if more.pop(name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise click.BadParameter("is not for a cluster; leave it out.", param_hint=flag)
    if more.pop("text"):
        raise click.BadParameter(
            "free text cannot be fitted on a cluster; use --drop or --categorical instead.",
            param_hint="--text",
        )
    more = {name: value for name, value in more.items() if value is not None}
    with connected(cluster):
        with reading(part_paths(data)[0], more.get("kind")) as rows:
            columns = _columns(rows, more)
        return files.fit_parts(data, **more | columns)
