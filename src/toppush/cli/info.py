"""`toppush info`."""

from pathlib import Path
from typing import Any

import click

from toppush.cli.common import Command, existing, json_option, label_text, show
from toppush.cli.fit import behind, describe, without_history
from toppush.cli.leaderboard import leaderboard, verdict


@click.command(cls=Command)
@existing("model")
@json_option
def info(model: Path, as_json: bool) -> None:
    """Say what MODEL is: its data, columns, label, settings and certificate.

    The file's checksum is compared and its description read; the model itself is not built.

    Example: toppush info fraud.toppush --json
    """
    from toppush.files import ModelError
    from toppush.modelfile.saving import read_about

    about = read_about(model)
    try:
        said = _sentences(about)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"its description is not one that this version knows ({error!r}).", file=model
        ) from None
    table = None if as_json else leaderboard(about)
    show(as_json, without_history(about), *said, table, *verdict(about))


def _sentences(about: dict[str, Any]) -> list[str]:
    made = ", ".join(f"{name} {number}" for name, number in about.get("versions", {}).items())
    warned = [f"Warning when fitted: {text}" for text in about.get("warnings", [])]
    label = about.get("label")
    first = [label_text(label, label.get("why", "as named"))] if label else []
    return [
        " ".join([*first, *behind(about)]),
        *describe(about),
        *warned,
        f"Made {about.get('made', 'at an unknown time')} by {made}.",
    ]
