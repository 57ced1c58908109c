"""`toppush fit`."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from toppush.cli import common
from toppush.cli.leaderboard import leaderboard, verdict
from toppush.system.reading import part_paths

if TYPE_CHECKING:
    from toppush.files import Model
    from toppush.files.readers import Reader

BEHIND = 0.01
"""Average precision that a model may be below logistic regression without a caution, on the
folds, so that on other rows it is seldom behind by 0.02 unsaid."""
NOT_FOR_A_CLUSTER = (
    "members", "effort", "seconds", "threads", "tol", "scoring", "sample_weight",
    "groups", "time",
)  # fmt: skip
GAPS = {
    "filled": "Gaps filled (numbers with the median) and marked by a column of their own",
    "gaps": "Gaps, left as they are in numbers and a category of their own in texts",
    "codes": "Gaps, left as they are",
}
ROLES = {
    "sample_weight": "Rows and measures weighted by",
    "groups": "No fold parts rows of the same",
    "time": "Folds hold out rows later than those they train on, by",
}
MEASURED = {
    "training": "On these training rows, which flatter",
    "out_of_fold": "On {rows:,} of these training rows, each by members that did not see it",
}


def read_lam(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> float | str | None:
    """A positive number, or "cv"."""
    if value is None:
        return None
    try:
        if value == "cv" or 0.0 < float(value) < float("inf"):
            return value if value == "cv" else float(value)
    except ValueError:
        pass
    raise click.BadParameter(
        f"{value!r} is neither a number above 0 nor cv, which chooses one by cross-validation."
    )


def read_top(
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


def read_members(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> int | tuple[str, ...] | None:
    """A count from 1, or names."""
    if value is None:
        return None
    if value.isdigit() and int(value) > 0:
        return int(value)
    names = common.listed([value])
    if not names or any(not name.isidentifier() for name in names):
        raise click.BadParameter(f"{value!r} is neither a count from 1 nor names of members.")
    return names


@click.command(cls=common.Command)
@click.argument("data", metavar="DATA", type=common.InputFile())
@common.training_options
@common.output_option(
    "Where to write the model; an old one is replaced when the new one is complete.", required=True
)
@click.option(
    "--model",
    type=common.Registered("toppush.modeltypes:KINDS"),
    help="What the score is made of. An option that a kind of model does not take is refused "
    "[auto; linear if one of --lam, --top, --loss, --scale and --tol is given].",
)
@click.option(
    "--effort",
    type=click.Choice(["quick", "normal", "thorough"]),
    help="How much auto tries [normal].",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.0, min_open=True),
    help="After which auto begins nothing more, and combines what is done. (Ctrl-C ends a fit "
    "without a model.)",
)
@click.option(
    "--lam",
    callback=read_lam,
    help="Penalty on the weights, or cv: by cross-validation [linear: cv].",
)
@click.option(
    "--top",
    callback=read_top,
    help="Negatives that make the top: 1, a count, a share such as 1%; of linear also auto: the "
    "fewest that have a solution; cv: by cross-validation [linear: cv].",
)
@click.option(
    "--loss",
    type=common.Registered("toppush.problem.losses:LOSSES", "toppush.modeltypes:OTHER_LOSSES"),
    help="[linear: truncated_quadratic; trees: pairwise or binary; net: pairwise or cross_entropy]",
)
@click.option(
    "--scale",
    type=common.Registered("toppush.tables.scaling:SCALES"),
    help="Divide each column by its largest value, its deviation, or not at all [maxabs, where "
    "columns are scaled].",
)
@click.option(
    "--members",
    callback=read_members,
    metavar="N|NAME,...",
    help="How many models are averaged; of auto, which it chooses among.",
)
@click.option(
    "--tol",
    type=click.FloatRange(min=0.0, min_open=True),
    help="Relative gap at which fits end [linear: 1e-4].",
)
@click.option(
    "--cluster",
    metavar="ADDRESS|local",
    help="Let the workers of a Dask cluster read the parts of DATA and fit them.",
)
@click.option("--onnx", type=common.OutputFile(), help="Also write the model as ONNX.")
@click.option(
    "--weights",
    type=common.OutputFile(),
    help="Also write the weights by column name as JSON, of --model linear.",
)
def fit(
    data: Path,
    output: Path,
    onnx: Path | None,
    weights: Path | None,
    cluster: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Learn to rank the rows of DATA, and write the model.

    DATA is CSV, TSV, Parquet, Arrow, LIBSVM (plain, gz, bz2, xz), NPZ or NPY. Texts become
    categories, dates numbers, gaps stay gaps or are filled and marked; all of it is part of the
    model.

    Rankers of several kinds are fitted, compared on rows that they did not see, and combined; a
    table says how each did. --model names one kind instead, which takes some of the options:

    \b
      auto       --effort --seconds --members --scoring --cv --groups --time
      linear     --lam --top --loss --scale --tol
                 --scoring --cv --groups --time
      additive   --lam --top --scoring --cv --groups --time
      trees      --top --loss --members --cv --groups
      net        --top --loss --members

    With --cluster, DATA is a folder or a pattern in quotes whose files the workers see too.

    Example: toppush fit train.csv -o fraud.toppush --label fraud --positive yes --drop id

    Example: toppush fit train.csv -o fraud.toppush --label fraud --drop id --model linear
    """  # noqa: D301 - a mark of click's
    from toppush.cli.progress import lines_to_stderr
    from toppush.modeltypes import chosen

    if cluster is None and not data.is_file():
        said = "is a folder, which only --cluster reads" if data.is_dir() else "does not exist"
        raise click.BadParameter(f"{data} {said}.", param_hint="DATA")
    wanted = {"model": output, "onnx": onnx, "weights": weights}
    paths = {what: path for what, path in wanted.items() if path is not None}
    chosen(**options).require_exports(paths, options)
    options["verbose"] = int(not as_json)
    if not _was_given("cv"):
        options["cv"] = None
    with lines_to_stderr():
        model = _fit(data, **options) if cluster is None else _fit_on(cluster, data, **options)
    _write(model, paths)
    written = {what: str(path) for what, path in paths.items()}
    saved = ", ".join(f"{path} ({what})" for what, path in written.items())
    about = model.about
    first = " ".join([common.chosen_label_text(about["label"]), *behind(about)])
    table = None if as_json else leaderboard(about)
    told = [first, *describe(about), table, *verdict(about), f"Written: {saved}."]
    common.show(as_json, without_history(about) | {"written": written}, *told)


def _write(model: "Model", paths: dict[str, Path]) -> None:
    """Write the model and its exports, once all of them are made."""
    from toppush.modelfile.exports import json_bytes, onnx_bytes
    from toppush.modelfile.saving import require_no_training_rows, to_bytes
    from toppush.system.writing import write_bytes

    makers = {"model": to_bytes, "onnx": onnx_bytes, "weights": json_bytes}
    contents = {path: makers[what](model) for what, path in paths.items()}
    for path in contents:
        require_no_training_rows(path, model.about)
    for path, content in contents.items():
        write_bytes(path, content)


def _was_given(option: str) -> bool:
    """Whether an option is on the command line."""
    found = click.get_current_context().get_parameter_source(option)
    return found is ParameterSource.COMMANDLINE


def _fit(data: Path, *, kind: str | None, **options: Any) -> "Model":
    """Fit one file."""
    from toppush import files
    from toppush.files.readers import reading

    with reading(data, kind) as rows:
        return files.fit(rows, **options | _columns_of(rows, options))


def _columns_of(rows: "Reader", options: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """The options that name columns, read with the names in a file."""
    return {
        name: common.named_columns(rows, options[name]) for name in ("drop", "categorical", "keep")
    }


def _fit_on(cluster: str, data: Path, *, model: str | None, seed: int, **options: Any) -> "Model":
    """Fit files in parts on a cluster; its folds are not drawn, so there is no seed."""
    from toppush import files
    from toppush.designs.dask import connected
    from toppush.files.readers import reading
    from toppush.modeltypes import FIRST

    if model not in (None, FIRST):
        raise click.BadParameter(
            f"{model} is not for a cluster, which fits {FIRST} models.", param_hint="--model"
        )
    for name in NOT_FOR_A_CLUSTER:
        if options.pop(name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise click.BadParameter("is not for a cluster; leave it out.", param_hint=flag)
    options = {name: value for name, value in options.items() if value is not None}
    with connected(cluster):
        with reading(part_paths(data)[0], options.get("kind")) as rows:
            columns = _columns_of(rows, options)
        return files.fit_parts(data, **options | columns)


def without_history(about: dict[str, Any]) -> dict[str, Any]:
    """What a model says of itself, but neither the course of its solve nor long tables."""
    short = {"scores": ("why", "held_out"), "watched": ("left_out",)}
    for part, names in short.items():
        if isinstance(about.get(part), dict):
            about = about | {part: {name: about[part].get(name) for name in names}}
    if about.get("certificate") is None:
        return about
    proof = {key: value for key, value in about["certificate"].items() if key != "history"}
    return about | {"certificate": proof}


def describe(about: dict[str, Any]) -> list[str]:
    """What a model says of itself, in sentences."""
    from toppush.modeltypes import FIRST, named

    said = []
    if data := about.get("data"):
        parts = f" in {data['parts']:,} parts" if "parts" in data else ""
        said.append(
            f"Rows: {data['rows']:,} of {data['file']}{parts}, {data['positives']:,} positive."
        )
        said.extend(f"{what}: {data[role]}." for role, what in ROLES.items() if role in data)
    if columns := about.get("columns"):
        said.extend(_columns(columns))
    if settings := about.get("fit"):
        said.append(named(about.get("model", FIRST)).sentence(settings))
    if proof := about.get("certificate"):
        said.append(_proof(proof))
    for measured, where in MEASURED.items():
        if quality := about.get(measured):
            at_top, mean = quality["positives_at_top"], quality["average_precision"]
            said.append(
                f"{where.format(**quality)}: positives at the top {at_top:.1%}, average precision "
                f"{mean:.3f}, AUC {quality['auc']:.3f}."
            )
    if why := about.get("scores", {}).get("why"):
        said.append(why)
    if spent := about.get("seconds"):
        parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in spent.items())
        said.append(f"Seconds: {parts}.")
    return said


def behind(about: dict[str, Any]) -> list[str]:
    """A caution if logistic regression ranks the whole list clearly better."""
    beside = about.get("beside", {"average_precision": 0.0, "logistic_regression": 0.0})
    ours, theirs = beside["average_precision"], beside["logistic_regression"]
    if theirs - ours <= BEHIND:
        return []
    return [
        f"Caution: logistic regression ranks the whole list better, with an average precision of "
        f"{theirs:.3f} against {ours:.3f} on the same columns and folds."
    ]


def _columns(columns: dict[str, Any]) -> list[str]:
    if "named" not in columns:
        return [f"Columns: {columns['numbered']:,}, by number."]
    named = columns["named"]
    kinds = Counter(one["kind"] for one in named)
    dates = f"{kinds['date']} of dates, " if kinds["date"] else ""
    said = [f"Columns: {kinds['number']} of numbers, {dates}{kinds['category']} of categories."]
    written = [f"{one['name']}{_format(one)}" for one in named if "decimal" in one]
    if written:
        said.append(f"Read as numbers although written as text: {', '.join(written)}.")
    gaps = {one["name"]: one["missing"] for one in named if one["missing"]}
    if gaps:
        said.append(f"{GAPS[columns.get('form', 'filled')]}: {common.counted(gaps)}.")
    left = {
        "dropped": "dropped",
        "ids": "ids",
        "empty": "empty",
        "constant": "the same in every row",
    }
    for what, why in left.items():
        if columns.get(what):
            names = (repr(name) if "," in name else name for name in columns[what])
            said.append(f"Left out, {why}: {', '.join(names)}.")
    return said


def _format(column: dict[str, Any]) -> str:
    """The unit and the decimal comma of numbers written as text."""
    parts = [column["unit"], "decimal comma" * (column["decimal"] == ",")]
    return f" ({', '.join(filter(None, parts))})" if any(parts) else ""


def _proof(proof: dict[str, Any]) -> str:
    if proof["lower"] is None:
        return f"No bound was proven. {proof['sentence']}"
    return (
        f"Certificate: objective {proof['upper']:.6g}, optimum at least {proof['lower']:.6g}, so "
        f"within {proof['relative_gap']:.2%} of the best ({proof['n_iter']} iterations). "
        f"{proof['sentence']}"
    )
