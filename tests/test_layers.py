"""Imports point downward only, and each layer brings in no more than it needs."""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from types import ModuleType

import pytest

import toppush
from imports import (
    SOURCE,
    graph,
    homes_of,
    imported_names,
    listed,
    module_graph,
    modules,
    own_parts,
    parsed,
    part_of,
)

LAYERS = [
    {"types"},
    {"system", "matrices"},
    {"metrics"},
    {"thresholds", "plots", "objectives"},
    {"designs"},
    {"tables", "problem", "torch"},
    {"solvers", "explain", "monitor"},
    {"folds"},
    {"models"},
    {"baselines"},
    {"auto"},
    {"modeltypes"},
    {"modelfile"},
    {"files", "report"},
    {"cli"},
    {"__main__"},
]
"""From the bottom up. A part may import from layers below its own, and from itself."""
HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer}
HOMES, MODULES = homes_of(), modules()


def test_imports_point_downward():
    for path in MODULES:
        part = part_of(path)
        assert part in HEIGHT, f"{part} has no place in LAYERS of this test: give it one"
        for other in own_parts(parsed(path), HOMES, HEIGHT):
            assert other == part or HEIGHT[other] < HEIGHT[part], f"{path} imports {other}"


DEFERRED = {
    ("metrics.ranking", "metrics.scoring"),
    ("auto.members", "auto.dask"),
    ("auto.dask", "auto.dask_xgboost"),
}
"""Imports within functions that would close a circle: of scikit-learn and of Dask, on first use."""


def cycle(imports):
    """Modules that import each other in a circle; None if there are none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def test_no_modules_import_each_other():
    imports = module_graph()
    for module, other in DEFERRED:
        assert other in imports[module], f"{module} does not import {other}: take it out"
        imports[module].remove(other)
    assert cycle(imports) is None


def test_a_circle_of_imports_is_seen():
    assert set(cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


REPRODUCE = SOURCE.parents[1] / "reproduce"


def test_the_wheel_imports_nothing_that_is_not_in_it():
    for path in MODULES:
        first = {name.partition(".")[0] for name in imported_names(parsed(path))}
        assert not first & {"reproduce", "benchmarks"}, path


@pytest.mark.parametrize("part", ["baselines", "datasets"])
def test_methods_and_data_of_the_paper_do_not_import_its_experiments(part):
    paths = sorted((REPRODUCE / part).glob("*.py"))
    if not paths:
        pytest.skip("needs the reproduce folder of a checkout")
    for path in paths:
        own = {name for name in imported_names(parsed(path)) if name.startswith("reproduce")}
        assert all(name.startswith(f"reproduce.{part}") for name in own), path.name


def outside(imports):
    """First names of imports that are neither toppush nor of the standard library."""
    first = {name.split(".")[0] for name in imports}
    return first - set(sys.stdlib_module_names) - {"toppush"}


@pytest.mark.parametrize("name", ["metrics/curve", "metrics/ranking"])
def test_stands_on_numpy_alone(name):
    tree = parsed(SOURCE / f"{name}.py")
    everything = outside(imported_names(tree))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    lazy = set().union(*(outside(imported_names(function)) for function in functions))
    assert everything - lazy <= {"numpy"}
    assert lazy <= {"numpy", "sklearn"}
    assert set(own_parts(tree, HOMES, HEIGHT)) <= {"metrics", "types"}


LAZY = {
    "commands": [
        ("import toppush", {"sklearn", "scipy", "numpy", "matplotlib", "click"}),
        ("import toppush.cli", {"numpy", "sklearn", "pyarrow", "matplotlib", "rich"}),
        ("dir(toppush)", {"sklearn"}),
        ("import toppush.metrics", {"sklearn", "scipy"}),
        ("import toppush.thresholds.guarantees, toppush.metrics.bootstrap", {"sklearn", "scipy"}),
        ("import toppush.plots", {"matplotlib", "sklearn"}),
        ("import toppush.objectives", {"lightgbm", "xgboost", "sklearn"}),
        ("import toppush.designs.disk", {"pyarrow", "sklearn"}),
        ("import toppush.report", {"altair", "jinja2", "vl_convert", "sklearn"}),
    ],
    "estimators": [
        ("import toppush.solvers", {"sklearn", "matplotlib", "click"}),
        ("from toppush import TopPush", {"matplotlib", "click", "torch", "dask"}),
        (
            "from toppush import TopRanker",
            {"catboost", "dask", "distributed", "xgboost", "lightgbm", "torch"},
        ),
    ],
}
"""Statements that a fresh interpreter runs one after the other, and what is then not loaded."""


@pytest.mark.parametrize("chain", LAZY)
def test_imports_are_lazy(chain):
    script = "import sys\n" + "".join(f"{one}\nprint(*sys.modules)\n" for one, _ in LAZY[chain])
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    for (statement, absent), line in zip(LAZY[chain], ran.stdout.splitlines(), strict=True):
        loaded = {name.partition(".")[0] for name in line.split()}
        assert "toppush" in loaded
        assert not loaded & absent, statement


def test_modules_that_windows_lacks_are_imported_on_condition():
    """At the top only where ImportError is caught, in a function only after the system is asked."""
    for node in (node for path in MODULES for node in parsed(path).body):
        if set(imported_names(node)) & {"resource", "fcntl", "pwd", "grp", "termios"}:
            text = ast.unparse(node)
            assert "except ImportError" in text or "sys.platform == 'win32'" in text, text


def test_public_names_are_found_on_first_use():
    for name in toppush.__all__:
        found = getattr(toppush, name)
        home = found.__name__ if isinstance(found, ModuleType) else found.__module__
        assert home.startswith("toppush.")
    assert set(toppush.__all__) <= set(dir(toppush))
    with pytest.raises(AttributeError, match="'missing'"):
        toppush.missing  # noqa: B018


def test_only_designs_and_matrices_ask_what_rows_are():
    """Neither how they are stored nor where: `designs` gives what depends on it a name."""
    for path in MODULES:
        if part_of(path) not in ("designs", "matrices"):
            asked = set().union(*map(questions, ast.walk(parsed(path))))
            assert not asked, f"{path} asks {asked}"


STORAGE = {"issparse", "safe_sparse_dot", "toarray", "tocsr"}
"""What tells sparse matrices from arrays, or is done to either."""
KINDS = {"PlacedRows", "HostRows", "LocalRows", "TorchRows", "OnDisk", "ClusterRows", "Tensor"}
KINDS |= {"csr_array", "csr_matrix", "csc_array", "sparray", "spmatrix", "LocalDesign"}
ELSEWHERE = {
    "indptr",
    "nnz",
    "scores",
    "to_dask_array",
    "compute",
    "device",
    "detach",
    "__array_namespace__",
}


def questions(node):
    """What a piece of code asks of rows that only a design should know."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        words = {getattr(leaf, "id", getattr(leaf, "attr", getattr(leaf, "value", None)))
                 for argument in node.args[1:] for leaf in ast.walk(argument)
                 if isinstance(leaf, ast.Name | ast.Attribute | ast.Constant)}  # fmt: skip
        if node.func.id in ("isinstance", "issubclass"):
            return words & KINDS
        if node.func.id in ("hasattr", "getattr"):
            return words & (STORAGE | ELSEWHERE)
    names = {getattr(node, "id", None), getattr(node, "attr", None), getattr(node, "name", None)}
    return {name for name in names if name in STORAGE or str(name).startswith("isspmatrix")}


@pytest.mark.parametrize(
    "code",
    [
        "from scipy.sparse import issparse",
        "sparse.isspmatrix_csr(X)",
        "hasattr(X, 'toarray')",
        "X.toarray()",
        "getattr(X, 'scores', None)",
        "isinstance(X, (np.ndarray, sparse.csr_array))",
        "isinstance(X, OnDisk)",
    ],
)
def test_such_questions_are_seen(code):
    assert set().union(*map(questions, ast.walk(ast.parse(code))))


def test_the_picture_is_of_this_source():
    picture = SOURCE.parents[1] / "docs/pictures/imports.svg"
    if not picture.exists():
        pytest.skip("needs the docs folder of a checkout")
    again = "draw it again: python tests/imports.py docs/pictures/imports.svg"
    assert listed(graph()) in picture.read_text(encoding="utf-8"), again
