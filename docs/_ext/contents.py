"""What lies below what. Pages are plain Markdown; their tables of contents are kept here."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CONTENTS: dict[str, dict[str, list[str]]] = {
    "index": {"": ["guide", "gallery/index", "reference/index", "research", "developing"]},
    "guide": {
        "A list": ["which", "auto", "linear", "any-model", "files"],
        "Acting on it": ["budgets", "report", "explain", "monitoring"],
        "Other models": ["nonlinear", "additive", "networks"],
        "More rows": ["scaling"],
        "Words": ["glossary"],
    },
    "research": {
        "": ["method", "results", "evidence", "reproduce", "baselines", "baselines-pairs"]
    },
    "developing": {"": ["extending", "architecture", "contributing", "changes"]},
}
"""Pages below a page, by the heading that they stand under."""
TITLES = {"guide": "User guide", "gallery/index": "Gallery", "reference/index": "Reference"}


FROM_ROOT = {"changes": "CHANGELOG.md", "contributing": "CONTRIBUTING.md"}
"""Pages that show a file of the repository's root."""


def shown_from_root(app: Any, name: str) -> str:
    """A file of the root, with links as they are from here, and without those of a forge."""
    path = Path(app.srcdir).parent / name
    app.env.note_dependency(str(path))
    text = path.read_text(encoding="utf-8").replace("](docs/", "](")
    return re.sub(r"^\[[^]]+\]: \.\./\.\./.*$", "", text, flags=re.MULTILINE)


def toctree(heading: str, names: list[str]) -> str:
    """A hidden table of contents in Markdown."""
    lines = [f"{TITLES[name]} <{name}>" if name in TITLES else name for name in names]
    caption = [f":caption: {heading}"] if heading else []
    return "\n".join(["", "```{toctree}", ":hidden:", *caption, "", *lines, "```", ""])


def with_links_of_the_site(text: str) -> str:
    """Links to examples lead to their stories; those to Markdown of results to the files."""
    text = text.replace("](../examples/README.rst)", "](gallery/index.rst)")
    text = re.sub(r"\]\(\.\./examples/(\w+)\.py\)", r"](gallery/\1.rst)", text)
    return re.sub(r"\]\((\.\./results/[\w./-]+\.md)\)", r"](path:\1)", text)


NOT_RUN = """
.. warning::

   torch was not there when this page was made, so its code was not run: no output, no pictures.
"""


def with_warning(text: str) -> str:
    """A story that was not run says so below its title."""
    return re.sub(r"(\n===+\n)", lambda found: found[1] + NOT_RUN, text, count=1)


def add_contents(app: Any, page: str, source: list[str]) -> None:
    """Append its table of contents to a page that has one."""
    if page in FROM_ROOT:
        source[0] = shown_from_root(app, FROM_ROOT[page])
    source[0] = with_links_of_the_site(source[0])
    if page.startswith("gallery/torch_") and not find_spec("torch"):
        source[0] = with_warning(source[0])
    for heading, names in CONTENTS.get(page, {}).items():
        source[0] += toctree(heading, names)


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", add_contents)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
