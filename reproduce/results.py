"""Results of an experiment: tables and figures with the configuration and the machine.

The tables are written as Markdown and CSV, the figures as PNG and SVG, and the rest as NAME.json;
`report` makes one page of these files.
"""

import base64
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from reproduce.tables import Table
from toppush.system.extras import version_of
from toppush.system.writing import write_text, written_whole
from toppush.types import Json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDER = (
    "benchmark",
    "table1",
    "table2",
    "beyond",
    "recall-at-fpr",
    "figure-scalability",
    "figure-epsilon",
    "figure-lambda",
)
STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #fff; --line: #cfd6df; --soft: #f3f5f8 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --paper: #14181e; --line: #39424e; --soft: #1d232b }
}
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 76rem; margin: 2rem auto; padding: 0 1.2rem }
nav a { margin-right: 1.2em }
figure { margin: 1.5rem 0; overflow-x: auto }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums }
caption { text-align: left; font-weight: 600; padding: .4rem 0 }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--line); text-align: left;
  white-space: nowrap }
td:last-child { white-space: normal }
thead th { background: var(--soft) }
figcaption { font-size: .9rem; max-width: 60rem }
img { max-width: 100%; height: auto; background: #fff; border-radius: 4px }
pre { background: var(--soft); padding: .8rem; overflow-x: auto; font-size: .85rem }
@media print { body { max-width: none } figure { break-inside: avoid } }
"""


@dataclass(frozen=True)
class Result:
    """A finished experiment.

    Attributes
    ----------
    name, title : str
    tables : sequence of Table
    figures : dict
        Name -> figure and the words that stand for it.
    config : dict
        What it was run with.
    files : sequence of Table
        Too long to read: written as CSV alone.
    """

    name: str
    title: str
    tables: Sequence[Table]
    figures: dict[str, tuple["Figure", str]] = field(default_factory=dict)
    config: Json = field(default_factory=dict)
    files: Sequence[Table] = ()

    def write(self, directory: Path) -> list[Path]:
        """All files of this result in a directory."""
        directory.mkdir(parents=True, exist_ok=True)
        paths = [path for table in self.tables for path in table.write(directory)]
        for table in self.files:
            paths.append(directory / f"{table.name}.csv")
            write_text(paths[-1], table.csv())
        for name, (figure, _) in self.figures.items():
            for suffix in (".png", ".svg"):
                paths.append(directory / f"{name}{suffix}")
                with written_whole(paths[-1]) as temporary:
                    figure.savefig(temporary, dpi=150)
        about = self.about() | {"tables": [table.about() for table in self.tables]}
        paths.append(directory / f"{self.name}.json")
        write_text(paths[-1], json.dumps(about, indent=1, ensure_ascii=False))
        return paths

    def about(self) -> Json:
        """The result with all tables, for JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "tables": [asdict(table) for table in self.tables],
            "figures": {name: words for name, (_, words) in self.figures.items()},
            "config": self.config,
            "machine": machine(),
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
        }


def report(directory: Path) -> str:
    """One page that needs nothing else, from all results in a directory."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in directory.glob("*.json")]
    found = [about for about in found if "tables" in about]
    if not found:
        raise FileNotFoundError(
            f"{directory} holds no results; run python -m reproduce table2 --out {directory} first."
        )
    place = {name: number for number, name in enumerate(ORDER)}
    found.sort(key=lambda about: (place.get(about["name"], len(ORDER)), about["name"]))
    links = "".join(f'<a href="#{one["name"]}">{escape(one["title"])}</a>' for one in found)
    sections = "\n".join(_section(about, directory) for about in found)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>toppush: results</title><style>{STYLE}</style></head><body>"
        "<header><h1>Top rank optimization: the evidence, run again</h1>"
        f"<nav>{links}</nav></header>"
        f"<main>{sections}</main></body></html>"
    )


def _section(about: Json, directory: Path) -> str:
    figures = "".join(
        f'<figure><img alt="{escape(words)}" src="{_embedded(directory / f"{name}.svg")}"></figure>'
        for name, words in about["figures"].items()
    )
    tables = "\n".join(Table.read(directory, table).html() for table in about["tables"])
    how = json.dumps({"config": about["config"], "machine": about["machine"]}, indent=1)
    return (
        f'<section id="{about["name"]}"><h2>{escape(about["title"])}</h2>{figures}{tables}'
        f"<details><summary>How it was made ({about['made']})</summary><pre>{escape(how)}</pre>"
        "</details></section>"
    )


def _embedded(path: Path) -> str:
    """A picture as an address that holds it."""
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()


PACKAGES = ("toppush", "numpy", "scipy", "scikit-learn")


def machine(*more: str) -> Json:
    """Processor, cores this process may use, how busy they are, and versions of packages."""
    from joblib import cpu_count

    return {
        "cpu": cpu_name(),
        "cores": cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{package: version_of(package) for package in (*PACKAGES, *more)},
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
    }


def cpu_name() -> str:
    """The processor, as the system calls it."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text(encoding="utf-8").splitlines() if about.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
