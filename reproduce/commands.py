"""`python -m reproduce`: the paper's tables and figures, each by one command."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from threadpoolctl import threadpool_limits

from toppush.cli import options
from toppush.cli.group import Command, Commands, Failure
from toppush.cli.output import TextTable, show
from toppush.system.extras import not_installed
from toppush.system.interrupts import INTERRUPTED, message_when_stopped

if TYPE_CHECKING:
    from reproduce.benchmark.cells import Cell
    from reproduce.results import Result
    from reproduce.runner import Event, Plan
    from reproduce.store import Store
    from toppush.types import Json

data_option = click.option(
    "--data",
    type=click.Path(file_okay=False),
    help="Directory with the data sets' files; otherwise TOPPUSH_DATA, the cache, the publisher.",
)
out_option = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Directory for the tables and figures.",
)
FILE_WIDTH = 160
"""Characters in a line of a table that is not printed to a terminal."""


class PlainErrors(Command):
    """A command that reports what a user can fix without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort):
            raise
        except (ValueError, FileNotFoundError, ImportError, RuntimeError) as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Reproduce the paper's experiments, and compare our methods with others."""


@main.group("datasets", cls=Commands)
def datasets_group() -> None:
    """List, fetch and find the data sets of the experiments."""


main.command_class = datasets_group.command_class = PlainErrors


def _compared(sets: str, methods: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options of a comparison on many splits."""
    added = (
        data_option,
        out_option,
        options.seed_option,
        options.json_option,
        options.list_option("--sets", f"Data sets, with commas; {sets} by default."),
        options.list_option("--methods", f"Methods, with commas; {methods} by default."),
        click.option(
            "--trials",
            type=click.IntRange(1),
            default=30,
            show_default=True,
            help="Random splits; at most 10 of sets with more than 100,000 rows.",
        ),
        click.option(
            "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes."
        ),
        click.option(
            "--time-limit",
            type=float,
            default=3600.0,
            show_default=True,
            help="CPU seconds that all trials of a method on a data set may take together.",
        ),
        click.option(
            "--store",
            type=options.FilePath(dir_okay=False),
            help="File of the records; in OUT by default. Runs that use one file share work.",
        ),
        click.option("--again", is_flag=True, help="Try again what failed or ran out of time."),
        click.option("--show", is_flag=True, help="Run nothing; make the tables from the records."),
    )

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(added):
            command = option(command)
        return command

    return with_options


@main.command()
@_compared("those of the paper", "all")
def table2(**asked: Any) -> None:
    """The paper's comparison on its data sets, with our methods as further rows.

    A run that was stopped goes on where it was when it is started again.

    Example: python -m reproduce table2 --sets diabetes,spambase --trials 10 --jobs 2
    """
    from reproduce import datasets
    from reproduce.runner import Plan
    from reproduce.table2 import result

    _compare(Plan, datasets.names(in_paper=True), "records.sqlite", result, **asked)


@main.command()
@data_option
@out_option
@options.json_option
@options.list_option("--sets", "Data sets, with commas; all that are found by default.")
@options.list_option("--methods", "Methods, with commas; all by default.")
@click.option(
    "--splits",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Splits; at most 3 of a data set for a method of more than 2 CPU minutes.",
)
@click.option(
    "--rows",
    type=click.IntRange(30),
    default=24_000,
    show_default=True,
    help="Most rows of a split, training and test together.",
)
@click.option(
    "--threads", type=click.IntRange(1), default=1, show_default=True, help="Of each method."
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Processes, one for each method on a split.",
)
@click.option("--minutes", type=float, default=float("inf"), help="Start nothing later.")
@click.option(
    "--cell-minutes",
    type=float,
    default=60.0,
    show_default=True,
    help="Stop a method on a split that takes longer.",
)
@click.option(
    "--store",
    type=options.FilePath(dir_okay=False),
    help="File of the results; benchmark.jsonl in OUT by default.",
)
@click.option("--label", default="", help="Version of TopRanker; by default a hash of its sources.")
@options.list_option("--compare", "Further versions of TopRanker for the tables, with commas.")
@click.option(
    "--autogluon",
    type=click.Path(exists=True, dir_okay=False),
    help="Python of an environment with AutoGluon; otherwise TOPPUSH_AUTOGLUON.",
)
@click.option("--again", is_flag=True, help="Run once more what failed or was stopped.")
@click.option("--summary", is_flag=True, help="Run nothing; make the tables from the results.")
def benchmark(
    data: str | None,
    out: Path,
    as_json: bool,
    sets: tuple[str, ...],
    methods: tuple[str, ...],
    store: Path | None,
    compare: tuple[str, ...],
    autogluon: str | None,
    summary: bool,
    minutes: float,
    **asked: Any,
) -> None:
    """TopRanker against common rankers on raw tables and LIBSVM files.

    A run that was stopped goes on where it was when it is started again.

    Example: python -m reproduce benchmark --sets thyroid_hyper,diabetes --splits 3 --rows 6000
    """
    from reproduce.benchmark.cells import Benchmark, Results
    from reproduce.benchmark.summary import summarise

    if autogluon is not None:
        os.environ["TOPPUSH_AUTOGLUON"] = str(Path(autogluon).absolute())
    results = Results(store or out / "benchmark.jsonl")
    names = sorted({cell.data for cell in results.records}) if summary else _benchmark_sets(data)
    unknown = [name for name in sets if name not in names]
    if unknown:
        there = f"there are {', '.join(names)}" if names else "name the directory with --data"
        raise click.BadParameter(f"no data set {unknown[0]!r}; {there}.")
    keys = _benchmark_methods(methods, is_summary=summary)
    if not (summary or (names and keys)):
        raise click.ClickException(_why_nothing(names, None))
    plan = Benchmark(sets or names, keys, directory=data, minutes=minutes, tell=_tell, **asked)
    if not summary:
        stopped = f"stopped; {results.path} has what was finished, and the same command goes on."
        try:
            with message_when_stopped(stopped):
                plan.run(results)
        except KeyboardInterrupt:
            raise Failure(stopped, INTERRUPTED) from None
    _hand_over(summarise(results, plan, compare), out, as_json)


def _benchmark_sets(data: str | None) -> list[str]:
    """The data sets of the benchmark that are there."""
    from reproduce import datasets
    from reproduce.benchmark.splits import set_names

    tables = datasets.table_names(data)
    return [name for name in set_names(data) if name in tables or datasets.find(name, data)]


def _benchmark_methods(methods: tuple[str, ...], *, is_summary: bool) -> list[str]:
    """Keys of the methods that are asked for and installed; to summarise, all asked for."""
    from reproduce.benchmark.methods import METHODS

    unknown = [key for key in methods if key not in METHODS]
    if unknown:
        raise click.BadParameter(f"no method {unknown[0]!r}; there are {', '.join(METHODS)}.")
    kept = []
    for key in methods or METHODS:
        if (why := METHODS[key].missing) and not is_summary:
            click.echo(f"{METHODS[key].title} is skipped: {why}", err=True)
        else:
            kept.append(key)
    return kept


def _tell(cell: "Cell", record: "Json") -> None:
    """A line about a result."""
    if record["status"] == "done":
        seconds = record["seconds_fit"] + record["seconds_score"]
        about = f"average precision {record['ap']:.4f}, {seconds:.1f} CPU s"
    else:
        about = f"{record['status']}: {record['message']}"
    click.echo(f"split {cell.split + 1}, {cell.data}, {cell.method}: {about}", err=True)


@main.command("recall-at-fpr")
@_compared("all with published figures", "all")
def recall_at_fpr(**asked: Any) -> None:
    """Recall at fixed false-positive rates, with the published figures of TopPush and tau-FPL.

    A run that was stopped goes on where it was when it is started again.

    Example: python -m reproduce recall-at-fpr --sets diabetes --trials 10
    """
    from reproduce.false_positive_rates import PUBLISHED, RatesPlan, result

    _compare(RatesPlan, list(PUBLISHED), "recall-at-fpr.sqlite", result, **asked)


def _compare(
    kind: "type[Plan]",
    usual_sets: Sequence[str],
    usual_store: str,
    result: "Callable[[Plan, Store, dict[str, str]], Result]",
    *,
    data: str | None,
    out: Path,
    seed: int,
    as_json: bool,
    sets: tuple[str, ...],
    methods: tuple[str, ...],
    trials: int,
    jobs: int,
    time_limit: float,
    store: Path | None,
    again: bool,
    show: bool,
) -> None:
    """Run what is missing of a comparison, and make its tables."""
    from reproduce.limits import forecasts
    from reproduce.runner import timings
    from reproduce.store import FAILED, OUT_OF_TIME, Store

    keys = _methods(kind, methods, show=show)
    records = Store(store or out / usual_store)
    sizes = records.sizes() if show else {}
    names = [name for name in sets or usual_sets if name in sizes or not show]
    if not show:
        names = _there(kind, names, data)
    if not (names and keys):
        raise click.ClickException(_why_nothing(names, records if show else None))
    plan = kind(names, keys, trials, seed, jobs, time_limit, data, sizes)
    if again:
        configs = [*plan.configs(), *timings(plan, records)]
        plan.foreseen = forecasts(records.records(configs))  # else hopeless trials would begin
        for status in (FAILED, OUT_OF_TIME):
            records.forget(status, configs)
    if not show:
        _run(plan, records)
    _hand_over(result(plan, records, _titles(plan)), out, as_json)


def _methods(kind: "type[Plan]", methods: tuple[str, ...], *, show: bool) -> list[str]:
    """The methods that are asked for and installed; to show, all that are asked for."""
    unknown = [name for name in methods if name not in kind.known]
    if unknown:
        raise click.BadParameter(f"no method {unknown[0]!r}; there are {', '.join(kind.known)}.")
    wanted = [kind.known[name] for name in methods or kind.known]
    for method in wanted:
        if not (show or method.is_available):
            click.echo(f"{method.title} is left out: {not_installed(method.needs)}", err=True)
    return [method.key for method in wanted if show or method.is_available]


def _there(kind: "type[Plan]", names: Sequence[str], data: str | None) -> list[str]:
    """The data sets that can be had."""
    from reproduce import datasets

    there = []
    for name in names:
        try:
            kind.load(name, data)
        except (datasets.FetchError, ImportError) as error:
            click.echo(f"{name} is left out: {error}", err=True)
        else:
            there.append(name)
    return there


def _why_nothing(names: Sequence[str], shown: "Store | None") -> str:
    """Why there is no table to make, and what to do."""
    if shown is not None:
        return f"{shown.path} has no records of these data sets; run without --show to make them."
    if names:
        return "no method is left; install what is missing, or name others with --methods."
    return "no data set is left; put them into a directory and name it with --data."


def _titles(plan: "Plan") -> dict[str, str]:
    """Names of the data sets for tables; what is to be said of one is said now."""
    from reproduce import datasets

    for name in plan.data:
        if name in datasets.CATALOGUE and datasets.CATALOGUE[name].note:
            click.echo(f"{name}: {datasets.CATALOGUE[name].note}", err=True)
    return {name: datasets.title_of(name, sum(plan.sizes[name][:2])) for name in plan.data}


def _run(plan: "Plan", store: "Store") -> None:
    """Do the work with a bar that says what runs and how much is left."""
    from rich.console import Console

    from reproduce.limits import TimeLeft, in_words
    from reproduce.runner import run
    from toppush.cli.output import progress_bar

    console, left = Console(stderr=True), TimeLeft(plan, store.records(plan.configs()))
    with progress_bar(console, left="left") as progress:
        task = progress.add_task("starting", total=None, left="?")
        running: list[str] = []
        troubles: set[tuple[str, str, str]] = set()

        def tell(event: "Event") -> None:
            config, trial = event.config, event.config["trial"]
            which = "timing" if trial is None else f"trial {trial + 1}"
            name = f"{config['data']} {config['method']} {which}"
            if event.record is None:
                running.append(name)
            elif name in running:
                running.remove(name)
            if event.record is not None:
                left.note(event.record)
                trouble = (config["data"], config["method"], event.record.message)
                if event.record.status != "done" and trouble not in troubles:
                    troubles.add(trouble)  # thirty trials have one between them
                    console.print(f"{name}: {event.record.status}: {event.record.message}")
            seconds = left.seconds()
            progress.update(
                task,
                description=", ".join(running) or "waiting",
                completed=event.n_done,
                total=event.n_all,
                left="?" if seconds is None else f"about {in_words(seconds)}",
            )

        stopped = f"stopped; what was finished is in {store.path}, and the same command goes on."
        try:
            with message_when_stopped(
                stopped
            ):  # ending many processes may take longer than Ctrl-C allows
                run(plan, store, tell)
        except KeyboardInterrupt:
            raise Failure(stopped, INTERRUPTED) from None


@main.command()
@out_option
@options.json_option
@options.list_option("--methods", "Estimators, with commas; all by default.")
@click.option("--seconds", type=float, default=4.0, show_default=True, help="About, a method.")
def table1(out: Path, as_json: bool, methods: tuple[str, ...], seconds: float) -> None:
    """Measured growth of training time compared with the complexities that the paper claims.

    Example: python -m reproduce table1 --methods TopPush,RankSVM,InfinitePush
    """
    from reproduce import growth

    with threadpool_limits(1), _saying() as tell:
        _hand_over(growth.table1(methods, seconds, tell), out, as_json)


@main.command("figure-scalability")
@data_option
@out_option
@options.seed_option
@options.json_option
@click.option("--set", "name", default="url", show_default=True, help="Data set, or made-url.")
@options.list_option(
    "--lams", "Penalties, with commas.", default=["0.01,0.001,0.0001"], show_default=True
)
@click.option("--largest", type=int, default=2_000_000, show_default=True, help="Most rows.")
@click.option(
    "--limit",
    type=float,
    default=60.0,
    show_default=True,
    help="CPU seconds of a fit of a competitor.",
)
def figure_scalability(
    data: str | None,
    out: Path,
    seed: int,
    as_json: bool,
    name: str,
    lams: tuple[str, ...],
    largest: int,
    limit: float,
) -> None:
    """Training time against the number of rows, compared with the paper's method and LIBLINEAR.

    Only a part of url, or none, is on most machines; then made data with a signal are used, with
    fewer columns, and every table says so.

    Example: python -m reproduce figure-scalability --set made-url --largest 100000
    """
    from reproduce import datasets
    from reproduce.scalability import N_HELD_OUT, made_rows, scalability, sizes_up_to

    with threadpool_limits(1), _saying() as tell:
        found = None if name == "made-url" else datasets.find(name, data)
        if name != "made-url" and (found is None or found[0].part):
            click.echo(f"{name} is not here whole; taking made-url instead.", err=True)
            name = "made-url"
        tell(f"{name}: reading")
        rows = made_rows(largest, seed) if name == "made-url" else datasets.load(name, data)
        sizes = sizes_up_to(min(largest, rows.y.size - N_HELD_OUT))
        penalties = [float(lam) for lam in lams]
        made = scalability(rows, penalties, sizes, seed=seed, limit=limit, tell=tell)
        _hand_over(made, out, as_json)


def _influence(what: str, values: list[float]) -> Callable[..., None]:
    """The two commands that vary one number on one data set."""

    @data_option
    @out_option
    @options.seed_option
    @options.json_option
    @click.option("--set", "name", default="w8a", show_default=True, help="Data set.")
    def command(data: str | None, out: Path, seed: int, as_json: bool, name: str) -> None:
        from reproduce import datasets
        from reproduce.figures import influence

        with threadpool_limits(1), _saying() as tell:
            loaded = datasets.load(name, data)
            _hand_over(influence(loaded, what, values, seed, tell), out, as_json)

    command.__doc__ = f"""Iterations and held-out measures of the paper's method against {what}.

    Example: python -m reproduce figure-{what} --set w8a
    """
    return command


for what, values in {
    "epsilon": [10.0**power for power in range(-8, -1)],
    "lambda": [10.0**power for power in range(-3, 4)],
}.items():
    main.command(f"figure-{what}")(_influence(what, values))


@main.command()
@data_option
@out_option
@options.json_option
def errata(data: str | None, out: Path, as_json: bool) -> None:
    """What the paper's text gets wrong, each point shown by running it.

    Example: python -m reproduce errata
    """
    from reproduce.errata import errata as run_errata

    with _saying() as tell:
        _hand_over(run_errata(data, tell), out, as_json)


@main.command()
@out_option
@options.seed_option
@options.json_option
def demo(out: Path, seed: int, as_json: bool) -> None:
    """The tables of `toppush demo`, as files.

    Example: python -m reproduce demo
    """
    from reproduce.results import Result
    from reproduce.tables import Table
    from toppush.cli.compare import values_table
    from toppush.cli.demo import run
    from toppush.cli.info import leaderboard_table

    ran = run(seed)
    shown = {
        "demo": values_table(ran.values, ran.seconds),
        "demo-leaderboard": leaderboard_table(ran.leaderboard),
    }
    tables = [Table(name, name, table.columns, table.rows) for name, table in shown.items()]
    _hand_over(Result("demo", "The demonstration", tables), out, as_json)


@main.command()
@out_option
def report(out: Path) -> None:
    """One self-contained page, report.html, from all results in a directory.

    Example: python -m reproduce report --out results
    """
    from reproduce.results import report as make_report
    from toppush.system.writing import write_text

    path = out / "report.html"
    write_text(path, make_report(out))
    click.echo(str(path))


@datasets_group.command("list")
@data_option
@options.json_option
def list_(data: str | None, as_json: bool) -> None:
    """All data sets, and which are on this machine.

    Example: python -m reproduce datasets list --data ~/data
    """
    from reproduce.datasets import CATALOGUE
    from reproduce.datasets.made import MADE

    rows = [_described(name, data) for name in CATALOGUE]
    rows += [
        {"name": name, "rows": size[0], "features": size[1], "kind": "made", "here": "made"}
        for name, size in MADE.items()
    ]
    columns = ("name", "kind", "rows", "features", "here", "about")
    cells = [[str(row.get(column, "")) for column in columns] for row in rows]
    show(as_json, {"datasets": rows}, TextTable(list(columns), cells))


def _described(name: str, data: str | None) -> dict[str, Any]:
    from reproduce.datasets import CATALOGUE, find

    entry, found = CATALOGUE[name], find(name, data)
    here = "no" if found is None else "a part" if found[0].part else "yes"
    return {
        "name": name,
        "kind": "paper" if entry.in_paper else "more",
        "rows": entry.size[0],
        "features": entry.size[1],
        "here": here,
        "files": [] if found is None else [str(path) for path in found[1]],
        "about": entry.about,
        "note": entry.note,
    }


@datasets_group.command()
@click.argument("name")
@options.json_option
def fetch(name: str, as_json: bool) -> None:
    """Fetch a data set from its publisher into the cache.

    Example: python -m reproduce datasets fetch w8a
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    from reproduce.datasets import fetch as fetch_files

    columns = ("{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, disable=as_json, transient=True) as progress:
        task = progress.add_task(name, total=None)

        def tell(have: int, total: int) -> None:
            progress.update(task, completed=have, total=total or None)

        paths = fetch_files(name, tell)
    _print_paths(name, paths, as_json)


@datasets_group.command()
@click.argument("name")
@data_option
@options.json_option
def path(name: str, data: str | None, as_json: bool) -> None:
    """Where the files of a data set are.

    Example: python -m reproduce datasets path w8a
    """
    from reproduce.datasets import find

    files = find(name, data)
    if files is None:
        raise click.ClickException(
            f"{name} is not on this machine: python -m reproduce datasets fetch {name}, or name "
            "a directory with --data."
        )
    _print_paths(name, files[1], as_json)


def _print_paths(name: str, paths: list[Path], as_json: bool) -> None:
    """Paths on standard output, the note about the data on standard error."""
    from reproduce.datasets import CATALOGUE

    note, files = CATALOGUE[name].note, [str(path) for path in paths]
    show(as_json, {"name": name, "files": files, "note": note}, *files)
    if note and not as_json:
        click.echo(note, err=True)


def _hand_over(result: "Result", out: Path, as_json: bool) -> None:
    """Write a result's files and print it."""
    from rich.console import Console

    paths = result.write(out)
    if as_json:
        click.echo(json.dumps(result.about(), indent=1, ensure_ascii=False))
        return
    console = Console()
    if not console.is_terminal:
        console.width = FILE_WIDTH
    for table in result.tables:
        console.print(table.rich())
        for note in table.notes:
            console.print(note, highlight=False, markup=False)
        console.print()
    console.print("Written:", ", ".join(str(path) for path in paths), highlight=False)


@contextmanager
def _saying() -> Iterator[Callable[[str], None]]:
    """A line on the terminal that says what runs."""
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield status.update
