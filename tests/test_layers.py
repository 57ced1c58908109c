"""Imports point downward only, and each layer brings in no more than it needs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import toppush

SOURCE = Path(toppush.__file__).parent
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")

LAYERS = [
    {"arrays", "threads", "versions", "writing"},
    {"losses", "metrics", "theory", "datasets", "thresholds"},
    {"levels", "heads", "curves", "plots", "bootstrap"},
    {"projections", "designs"},
    {"solutions", "problems", "on_disk"},
    {"progress", "callbacks", "checkpoints", "cluster"},
    {"solvers"},
    {"estimators"},
    {"rules"},
    {"selection", "baselines"},
    {"report", "io"},
    {"__main__", "cli", "experiments"},
]
"""From the bottom up. A part may import from layers below its own, and from itself."""
TOP = len(LAYERS) - 1
HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer}


def part_of(path):
    """The module or package right below toppush that a file belongs to."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported_names(tree):
    """Dotted names of everything a tree imports, except what only the type checker reads."""
    for node in walk_at_run_time(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def walk_at_run_time(tree):
    """All nodes but those under `if TYPE_CHECKING:`."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from walk_at_run_time(child)


def own_parts(tree):
    """Parts of toppush that a tree imports; a name from toppush itself is a public one."""
    for name in imported_names(tree):
        first, *rest = name.split(".")
        if first == "toppush":
            yield rest[0] if rest and rest[0] in HEIGHT else "estimators"


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


by_module = pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: str(path.relative_to(SOURCE).with_suffix(""))
)


@by_module
def test_imports_point_downward(path):
    part = part_of(path)
    assert part in HEIGHT, f"{part} has no place in LAYERS of this test: give it one"
    for other in own_parts(parsed(path)):
        below = HEIGHT[other] < HEIGHT[part]
        assert below or other == part or HEIGHT[part] == TOP, f"{part} imports {other}"


def outside(imports):
    """First names of imports that are neither toppush nor of the standard library."""
    first = {name.split(".")[0] for name in imports}
    return first - set(sys.stdlib_module_names) - {"toppush"}


@pytest.mark.parametrize("part", ["metrics", "theory"])
def test_stands_on_numpy_alone(part):
    tree = parsed(SOURCE / f"{part}.py")
    everything = outside(imported_names(tree))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    lazy = set().union(*(outside(imported_names(function)) for function in functions))
    assert everything - lazy <= {"numpy"}
    assert lazy <= {"numpy", "sklearn"}
    assert set(own_parts(tree)) == set()


def modules_after(statement):
    """First names of all modules that a fresh interpreter holds after a statement."""
    script = (
        f"import sys; {statement}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


@pytest.mark.parametrize(
    "statement, absent",
    [
        ("import toppush", {"sklearn", "scipy", "numpy", "matplotlib", "click"}),
        ("import toppush; dir(toppush)", {"sklearn"}),
        ("import toppush.metrics", {"sklearn", "scipy"}),
        ("import toppush.theory", {"sklearn", "scipy"}),
        ("import toppush.thresholds, toppush.bootstrap", {"sklearn", "scipy"}),
        ("import toppush.cli", {"numpy", "sklearn", "pyarrow", "matplotlib", "rich"}),
        ("import toppush.solvers", {"sklearn", "matplotlib", "click"}),
        ("from toppush import TopPush", {"matplotlib", "click", "torch", "dask"}),
        ("import toppush.plots", {"matplotlib", "sklearn"}),
        ("import toppush.on_disk", {"pyarrow", "sklearn"}),
        ("import toppush.report", {"altair", "jinja2", "vl_convert", "sklearn"}),
    ],
)
def test_imports_are_lazy(statement, absent):
    loaded = modules_after(statement)
    assert "toppush" in loaded
    assert not loaded & absent


@by_module
def test_modules_that_windows_lacks_are_imported_on_condition(path):
    """At the top only where ImportError is caught, in a function only after the system is asked."""
    for node in parsed(path).body:
        names = set(imported_names(node)) & {"resource", "fcntl", "pwd", "grp", "termios"}
        text = ast.unparse(node)
        assert not names or "except ImportError" in text or "sys.platform == 'win32'" in text, names


def test_public_names_are_found_on_first_use():
    for name in toppush.__all__:
        assert getattr(toppush, name).__module__.startswith("toppush.")
    assert set(toppush.__all__) <= set(dir(toppush))
    with pytest.raises(AttributeError, match="has no attribute 'missing'"):
        toppush.missing  # noqa: B018


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if part_of(path) != "designs"],
    ids=lambda path: str(path.relative_to(SOURCE).with_suffix("")),
)
def test_only_designs_ask_whether_rows_are_sparse(path):
    nodes = list(ast.walk(parsed(path)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {name.split(".")[-1] for name in imported_names(parsed(path))}
    asks = {name for name in names if name.startswith(("issparse", "isspmatrix"))}
    assert not asks, f"{path.name} asks {asks}"
