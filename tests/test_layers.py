"""Imports point downward only, and each layer brings in no more than it needs."""

import ast
import subprocess
import sys
from types import ModuleType

import pytest

import toppush
from imports import SOURCE, homes_of, imported_names, modules, own_parts, parsed, part_of

LAYERS = [
    {"types"},
    {"system"},
    {"metrics", "datasets"},
    {"designs", "plots"},
    {"problem"},
    {"solvers"},
    {"estimators"},
    {"baselines"},
    {"report", "files"},
    {"experiments"},
    {"cli"},
    {"__main__"},
]
"""From the bottom up. A part may import from layers below its own, and from itself."""
HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer}
HOMES, MODULES = homes_of(), modules()


by_module = pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: str(path.relative_to(SOURCE).with_suffix(""))
)


@by_module
def test_imports_point_downward(path):
    part = part_of(path)
    assert part in HEIGHT, f"{part} has no place in LAYERS of this test: give it one"
    for other in own_parts(parsed(path), HOMES, HEIGHT):
        assert other == part or HEIGHT[other] < HEIGHT[part], f"{part} imports {other}"


def outside(imports):
    """First names of imports that are neither toppush nor of the standard library."""
    first = {name.split(".")[0] for name in imports}
    return first - set(sys.stdlib_module_names) - {"toppush"}


@pytest.mark.parametrize("name", ["metrics/curve", "metrics/measures", "experiments/theory"])
def test_stands_on_numpy_alone(name):
    tree = parsed(SOURCE / f"{name}.py")
    everything = outside(imported_names(tree))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    lazy = set().union(*(outside(imported_names(function)) for function in functions))
    assert everything - lazy <= {"numpy"}
    assert lazy <= {"numpy", "sklearn"}
    assert set(own_parts(tree, HOMES, HEIGHT)) <= {"metrics", "types"}


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
        ("import toppush.experiments.theory", {"sklearn", "scipy"}),
        ("import toppush.metrics.thresholds, toppush.metrics.bootstrap", {"sklearn", "scipy"}),
        ("import toppush.cli", {"numpy", "sklearn", "pyarrow", "matplotlib", "rich"}),
        ("import toppush.solvers", {"sklearn", "matplotlib", "click"}),
        ("from toppush import TopPush", {"matplotlib", "click", "torch", "dask"}),
        ("import toppush.plots", {"matplotlib", "sklearn"}),
        ("import toppush.designs.disk", {"pyarrow", "sklearn"}),
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
        found = getattr(toppush, name)
        home = found.__name__ if isinstance(found, ModuleType) else found.__module__
        assert home.startswith("toppush.")
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
