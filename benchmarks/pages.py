"""Put the tables into the pages, and name settings in them that no source has.

python -m benchmarks.pages          # rewrites README.md and docs/*.md
"""

import re
import sys
from functools import cache
from pathlib import Path

from benchmarks.summary import table

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TYPED = [page for page in PAGES if page.name != "results.md"]
"""All but the one that `python -m reproduce page` writes as a whole."""
MARKED = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
UNITS = {"": 1.0, " %": 0.01, " ms": 1e-3, " million": 1e6}
"""What may follow a setting, and by how much it multiplies a number of the source; others by 1."""
SETTING = re.compile(
    r"`(?P<code>(?:\w+=)?(?P<number>[+-]?(?:\d+(?:,\d{3})*)?(?:\.?\d+)(?:e[+-]?\d+)?)"
    r"(?P<unit> ?(?:%|ms|s|[KMGT]i?B(?:/s)?|million))?)`"
)


def renewed(page: str) -> str:
    """A page with its tables as their files are now."""
    return MARKED.sub(lambda found: f"{found[1]}\n{table(found[2])}\n\n{found[3]}", page)


def unknown_settings(page: str) -> list[str]:
    """Inline code that is a number, alone or after a name, and that no file of ours has."""
    found = []
    for match in SETTING.finditer(FENCED.sub("", page)):
        unit, number = match["unit"] or "", match["number"].replace(",", "")
        if unit or re.search(r"[.e]", number):
            value = float(number)
            if not {value, value * UNITS.get(unit, 1.0)} & literals():
                found.append(match["code"])
    return found


@cache
def literals() -> set[float]:
    """Every number in our source, experiments and benchmarks."""
    folders = ("src", "reproduce", "benchmarks")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    found = re.findall(r"(?<![\w.])\d[\d_]*\.?\d*(?:e[+-]?\d+)?(?![\w.])", texts)
    return {float(number.replace("_", "")) for number in found}


def main() -> None:
    unknown = []
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        if (new := renewed(text)) != text:
            path.write_text(new, encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: tables renewed")
        unknown += [f"{path.name}: no source has {one!r}" for one in unknown_settings(new)]
    sys.exit("\n".join(unknown) or None)


if __name__ == "__main__":
    main()
