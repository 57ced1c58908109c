"""What pages share: templates that escape, names that break well, when and with what."""

import platform
import re
from datetime import UTC, datetime

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from toppush.system.extras import UNKNOWN, version_of

MAX_PIECE = 12
"""Letters up to which the words of a name stay together."""
NAMED_VERSIONS = ("toppush", "numpy", "scipy", "scikit-learn", "altair")


def templates() -> Environment:
    """The templates, in which every text is escaped and a missing one is an error."""
    environment = Environment(
        loader=PackageLoader("toppush.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": "{:.1%}".format, "breakable": breakable}
    return environment


def made_now() -> dict[str, str]:
    """Date and versions."""
    versions = ", ".join(f"{name} {version_of(name) or UNKNOWN}" for name in NAMED_VERSIONS)
    return {
        "Date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "Versions": f"Python {platform.python_version()}, {versions}",
    }


def breakable(name: str) -> Markup:
    """A name that may be broken where its words begin."""
    pieces = [""]
    for word in re.split(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[_./-])(?=\w)", name):
        if len(pieces[-1] + word) <= MAX_PIECE:
            pieces[-1] += word
        else:
            pieces.append(word)
    return Markup("<wbr>").join(pieces)
