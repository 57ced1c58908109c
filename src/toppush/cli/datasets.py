"""`toppush datasets`."""

import json
from pathlib import Path
from typing import Any

import click

from toppush.cli.common import Commands, data_option, json_option


@click.group(cls=Commands)
def datasets() -> None:
    """List, fetch and find the data sets of the experiments."""


@datasets.command("list")
@data_option
@json_option
def list_(data: str | None, as_json: bool) -> None:
    """All data sets, and which are on this machine.

    Example: toppush datasets list --data ~/data
    """
    from toppush.datasets import CATALOGUE
    from toppush.datasets.made import MADE

    rows = [_described(name, data) for name in CATALOGUE]
    rows += [
        {"name": name, "rows": size[0], "features": size[1], "kind": "made", "here": "made"}
        for name, size in MADE.items()
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "kind", "rows", "features", "here", "what")
    for row in rows:
        size = f"{row['rows']:,}", f"{row['features']:,}"
        table.add_row(row["name"], row["kind"], *size, row["here"], row.get("about", ""))
    Console().print(table)


def _described(name: str, data: str | None) -> dict[str, Any]:
    from toppush.datasets import CATALOGUE, find

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


@datasets.command()
@click.argument("name")
@json_option
def fetch(name: str, as_json: bool) -> None:
    """Fetch a data set from its publisher into the cache.

    Example: toppush datasets fetch w8a
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    from toppush import datasets

    columns = ("{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, disable=as_json, transient=True) as progress:
        task = progress.add_task(name, total=None)

        def tell(have: int, total: int) -> None:
            progress.update(task, completed=have, total=total or None)

        paths = datasets.fetch(name, tell)
    _say(name, paths, as_json)


@datasets.command()
@click.argument("name")
@data_option
@json_option
def path(name: str, data: str | None, as_json: bool) -> None:
    """Where the files of a data set are.

    Example: toppush datasets path w8a
    """
    from toppush import datasets

    found = datasets.find(name, data)
    if found is None:
        raise click.ClickException(
            f"{name} is not on this machine: toppush datasets fetch {name}, or name a directory "
            "with --data."
        )
    _say(name, found[1], as_json)


def _say(name: str, paths: list[Path], as_json: bool) -> None:
    """Paths on standard output, the note about the data on standard error."""
    from toppush.datasets import CATALOGUE

    note, files = CATALOGUE[name].note, [str(path) for path in paths]
    if as_json:
        click.echo(json.dumps({"name": name, "files": files, "note": note}))
        return
    click.echo("\n".join(files))
    if note:
        click.echo(note, err=True)
