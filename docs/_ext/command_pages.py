"""A page for each command of `toppush`, from the command itself."""

import inspect
import textwrap
from pathlib import Path
from typing import Any

import click


def context_of(command: click.Command, path: str) -> click.Context:
    """As the command would have it when called."""
    return click.Context(command, info_name=f"toppush {path}".strip())


def shown(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    """An option or argument with its help, one line each; None if it is hidden."""
    record = parameter.get_help_record(context)
    return None if record is None else tuple(" ".join(part.split()) for part in record)


def options_of(command: click.Command, context: click.Context) -> str:
    """A list of options, each with what it does."""
    records = [shown(parameter, context) for parameter in command.get_params(context)]
    return "\n".join(f"`{name}`\n: {text}\n" for name, text in filter(None, records) if text)


def paragraphs(text: str) -> list[str]:
    """Click's help as Markdown: a bar of backspaces keeps lines, which become a block of code."""
    parts = [part.strip("\n") for part in text.split("\n\n")]
    kept = [part for part in parts if not part.startswith("Example: ")]
    return [
        as_code(textwrap.dedent(part[2:])) if part[0] == "\b" else " ".join(part.split())
        for part in kept
    ]


def examples(text: str) -> list[str]:
    """The commands that a help gives as examples."""
    parts = [" ".join(part.split()) for part in text.split("\n\n")]
    return [part.removeprefix("Example: ") for part in parts if part.startswith("Example: ")]


def as_code(text: str) -> str:
    """A block of code."""
    return f"```\n{text}\n```"


def page_of(command: click.Command, path: str) -> str:
    """Help, usage, examples and options as Markdown."""
    context, text = context_of(command, path), inspect.cleandoc(command.help or "")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [f"# toppush {path}", *paragraphs(text), as_code(usage)]
    if calls := examples(text):
        parts += ["## Examples", as_code("\n".join(calls))]
    if isinstance(command, click.Group):
        below = [f"- [{name}]({path}-{name}.md)" for name in command.commands]
        parts += ["## Commands", "\n".join(below)]
    return "\n\n".join([*parts, "## Options", options_of(command, context)])


def commands_of(group: click.Group, before: str = "") -> list[tuple[str, click.Command]]:
    """Every command below a group, with the words that call it."""
    commands = []
    for name, command in group.commands.items():
        path = f"{before}{name}"
        commands.append((path, command))
        if isinstance(command, click.Group):
            commands += commands_of(command, f"{path} ")
    return commands


def write_pages(app: Any) -> None:
    """Write a page for each, and leave those alone that are as they were."""
    from toppush.cli import main

    folder = Path(app.srcdir) / "reference/commands"
    folder.mkdir(exist_ok=True)
    for path, command in commands_of(main):
        where, text = folder / f"{path.replace(' ', '-')}.md", page_of(command, path)
        if not where.exists() or where.read_text(encoding="utf-8") != text:
            where.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
