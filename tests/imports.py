"""What imports what in toppush, package by package, as a picture.

python tests/imports.py docs/imports.svg [--source src/toppush]

A part is a package or module right below toppush. Each row of the picture imports only from rows
below it; an import that goes up, or round in a circle, is red. What follows from others (a over b
over c) is not drawn twice.
"""

import argparse
import ast
import re
from functools import cache
from pathlib import Path

import toppush

SOURCE = Path(toppush.__file__).parent


def part_of(path, source=SOURCE):
    """The module or package right below toppush that a file belongs to."""
    return path.relative_to(source).with_suffix("").parts[0]


def modules(source=SOURCE):
    """Every file but the package's own front."""
    return sorted(path for path in source.rglob("*.py") if path != source / "__init__.py")


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def walk_at_run_time(tree):
    """All nodes but those under `if TYPE_CHECKING:`."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from walk_at_run_time(child)


def imported_names(tree):
    """Dotted names of everything a tree imports, except what only the type checker reads."""
    for node in walk_at_run_time(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_parts(tree, homes, parts):
    """Parts of toppush that a tree imports; `homes` says where the package's own names live."""
    for name in imported_names(tree):
        first, *rest = name.split(".")
        if first == "toppush" and rest:
            part = homes.get(rest[0], rest[0])
            if part in parts:
                yield part


def homes_of(source=SOURCE):
    """Public name of toppush: the part that it comes from, as the package's front says."""
    text = (source / "__init__.py").read_text(encoding="utf-8")
    return dict(re.findall(r'"(\w+)": "toppush\.(\w+)[\w.]*"', text))


def graph(source=SOURCE):
    """For each part, the other parts that it imports."""
    homes, parts = homes_of(source), {part_of(path, source) for path in modules(source)}
    found = {part: set() for part in sorted(parts)}
    for path in modules(source):
        part = part_of(path, source)
        found[part] |= set(own_parts(parsed(path), homes, parts)) - {part}
    return found


def dotted(path, source=SOURCE):
    """The name of a module within toppush, as "package.module"."""
    return ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


def module_graph(source=SOURCE):
    """For each module, the modules of toppush that it imports, also within functions."""
    paths = {dotted(path, source): path for path in modules(source)}
    imports = {}
    for module, path in paths.items():
        imports[module] = set()
        for name in imported_names(parsed(path)):
            name = name.removeprefix("toppush.")
            while name and name not in paths:
                name = name.rpartition(".")[0]
            if name and name != module:
                imports[module].add(name)
    return imports


def heights(imports):
    """A row for each part, above all that it imports; edges that close a circle do not count."""
    found, open_ = {}, []

    def height(part):
        if part not in found:
            open_.append(part)
            below = [height(other) for other in sorted(imports[part]) if other not in open_]
            open_.pop()
            found[part] = 1 + max(below, default=-1)
        return found[part]

    for part in sorted(imports):
        height(part)
    return found


def implied(imports, part, other):
    """Whether an import also follows from a chain of downward ones."""
    rows = heights(imports)
    left = [one for one in imports[part] if one != other and rows[one] < rows[part]]
    while left:
        one = left.pop()
        if other in imports[one]:
            return True
        left += [lower for lower in imports[one] if rows[lower] < rows[one]]
    return False


def listed(imports):
    """The graph in words, as the picture's file holds it."""
    return "; ".join(f"{part}: {' '.join(sorted(below))}" for part, below in imports.items())


def draw(imports, path):
    """The picture."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "toppush", "svg.fonttype": "none"}
    from matplotlib import pyplot

    rows = heights(imports)
    across = {}
    for height in range(max(rows.values()) + 1):
        level = sorted(part for part in rows if rows[part] == height)
        for place, part in enumerate(level):
            across[part] = (place + 0.5) / len(level) + 0.04 * (height % 2)
    figure, axes = pyplot.subplots(figsize=(9, 1.0 + 0.75 * (max(rows.values()) + 1)))
    for part, others in imports.items():
        for other in sorted(others):
            up = rows[other] >= rows[part]
            if up or not implied(imports, part, other):
                line = [across[part], across[other]], [rows[part], rows[other]]
                colour, width = ("#c00", 1.2) if up else ("#99a", 0.8)
                axes.plot(*line, color=colour, linewidth=width, zorder=2 if up else 1)
    for part, height in rows.items():
        box = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": "#334"}
        axes.text(across[part], height, part, ha="center", va="center", fontsize=9, bbox=box)
    axes.set_axis_off()
    about = {"Date": None, "Description": listed(imports)}
    figure.savefig(path, bbox_inches="tight", metadata=about)


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("path", type=Path)
    words.add_argument("--source", type=Path, default=SOURCE)
    given = words.parse_args()
    draw(graph(given.source), given.path)
