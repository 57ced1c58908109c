"""Every example in a docstring is right; every public name has one, and a page."""

import ast
import doctest
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import toppush
from imports import SOURCE

REFERENCE = Path(__file__).resolve().parent.parent / "docs/reference"
PACKAGES = [
    "toppush", "toppush.metrics", "toppush.objectives", "toppush.torch", "toppush.baselines",
    "toppush.plots", "toppush.report", "toppush.files", "toppush.on_disk",
    "toppush.cluster",
]  # fmt: skip
MISSING = re.compile(r"pip install|No module named '(torch|xgboost)")
TAKES_SECONDS = re.compile("Client|TopRanker|TopPushNet|import report")
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def texts(path):
    """Line and text of each docstring, of names too, that has an example."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str) and ">>> " in text:
                yield node.lineno, inspect.cleandoc(text)


EXAMPLES = [
    pytest.param(
        path,
        line,
        text,
        id=f"{path.relative_to(SOURCE).as_posix()}:{line}",
        marks=[pytest.mark.long] if TAKES_SECONDS.search(text) else [],
    )
    for path in sorted(SOURCE.rglob("*.py"))
    for line, text in texts(path)
]


@pytest.mark.parametrize("path, line, text", EXAMPLES)
def test_examples_are_right(path, line, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    found = doctest.DocTestParser().get_doctest(text, {}, path.stem, str(path), line)
    said = []
    doctest.DocTestRunner(optionflags=FLAGS).run(found, out=said.append)
    if MISSING.search("".join(said)):
        pytest.skip("needs what is not installed")
    assert not said, "".join(said)


def public_names():
    for package in PACKAGES:
        try:
            yield from (f"{package}.{name}" for name in module_of(package).__all__)
        except ImportError:
            assert package == "toppush.torch"


def module_of(package):
    last = package.rpartition(".")[2]
    return getattr(toppush, last) if last in ("cluster", "on_disk") else import_module(package)


def own_example(dotted):
    """Whether the docstring of a name, or the text below a constant, has an example that is run."""
    package, _, name = dotted.rpartition(".")
    found = getattr(module_of(package), name)
    if callable(found) or inspect.ismodule(found):
        return re.search(r">>> (?!.*SKIP)", found.__doc__ or "") is not None
    return any(f"import {name}" in one.values[2] for one in EXAMPLES)


def test_every_public_name_has_an_example_of_its_own():
    assert [one for one in public_names() if not own_example(one)] == []


def test_every_public_name_has_a_page():
    listed = {
        name
        for page in REFERENCE.glob("*.rst")
        for name in re.findall(r"^   ~(toppush\S+)$", page.read_text(), flags=re.MULTILINE)
    }
    assert sorted(set(public_names()) - listed) == []
