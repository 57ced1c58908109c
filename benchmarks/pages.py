"""Put the tables into the pages, and say which figures of theirs are in no result file.

python -m benchmarks.pages          # rewrites README.md, docs/*.md and says what has no source
"""

import re
import sys
from pathlib import Path

from benchmarks.figures import missing, unknown_settings
from benchmarks.summary import table

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TYPED = [page for page in PAGES if page.name != "results.md"]
"""All but the one that `python -m reproduce page` writes as a whole."""
MARKED = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def renewed(page: str) -> str:
    """A page with its tables as their files are now."""
    return MARKED.sub(lambda found: f"{found[1]}\n{table(found[2])}\n\n{found[3]}", page)


def main() -> None:
    left = []
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        if (new := renewed(text)) != text:
            path.write_text(new, encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: tables renewed")
        lost = missing(new) if path in TYPED else []
        left += [f"{path.name}: {one!r} is in no file: {where}" for where, one in lost]
        left += [f"{path.name}: no source has {one!r}" for one in unknown_settings(new)]
    sys.exit("\n".join(left) or None)


if __name__ == "__main__":
    main()
