"""What the pages name exists: modules, functions, files, commands; and the walks go down only."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from imports import SOURCE, parsed, part_of
from reproduce import commands
from test_layers import HEIGHT

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
STEP = re.compile(r"^( *)- `([\w/]+\.py)`: `([\w.]+)`", re.MULTILINE)


def text_of(page):
    return page.read_text(encoding="utf-8")


def resolve(dotted):
    """The object that a dotted name means."""
    first, *rest = dotted.split(".")
    found = import_module(first)
    for number, name in enumerate(rest):
        try:
            found = getattr(found, name)
        except AttributeError:
            found = import_module(".".join([first, *rest[: number + 1]]))
    return found


@by_page
def test_dotted_names_exist(page):
    for dotted in set(re.findall(r"`((?:toppush|reproduce)(?:\.\w+)+)(?!\w*/)", text_of(page))):
        try:
            resolve(dotted)
        except ImportError as error:
            if "pip install" in str(error):
                pytest.skip(str(error))
            raise


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs/reference").glob("*.rst")), ids=lambda page: page.name
)
def test_names_of_the_reference_exist(page):
    for dotted in re.findall(r"^ +~?(toppush[\w.]+)$", text_of(page), re.MULTILINE):
        try:
            resolve(dotted)
        except ImportError as error:
            if "pip install" not in str(error):  # an optional dependency is not installed
                raise


@by_page
def test_files_and_commands_exist(page):
    text = text_of(page)
    for path in re.findall(r"\b((?:tests|benchmarks|docs|reproduce|results)/[\w./-]+\.\w+)", text):
        assert list(ROOT.glob(path)), path
    for name in re.findall(r"python -m (benchmarks\.[a-z_]\w*)", text):
        assert (ROOT / (name.replace(".", "/") + ".py")).exists(), name
    for name in re.findall(r"python -m reproduce ([a-z][\w-]+)", text):
        assert name in commands.main.commands, name
    for link in re.findall(r"\]\((?!http|#|mailto)([^)#]+)", text):
        assert (page.parent / link).exists(), link


def anchors(page):
    """What headings of a page are called in links, as forges and the site do it."""
    bare = re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    heads = re.findall(r"^#+ (.+)$", bare, flags=re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head).strip().lower() for head in heads)
    return {re.sub(r"[^\w\- ]", "", head).replace(" ", "-") for head in plain}


@by_page
def test_anchors_exist(page):
    for file, anchor in re.findall(r"\]\((?!http)([^)#]*)#([^)]+)\)", text_of(page)):
        target = page.parent / file if file else page
        assert anchor in anchors(target), f"{file}#{anchor}"


@by_page
def test_addresses_elsewhere_have_a_form(page):
    for address in re.findall(r"\]\((https?:[^)]*)\)", text_of(page)):
        assert re.fullmatch(r"https://[\w-]+(\.[\w-]+)+(/[\w./~%#?=&+-]*)?", address), address


def walks():
    """Title and steps of each walk through the code: indent, file, function."""
    sections = re.split(r"^## ", text_of(ROOT / "docs/architecture.md"), flags=re.MULTILINE)
    found = [(section.partition("\n")[0], STEP.findall(section)) for section in sections]
    return [(title, steps) for title, steps in found if steps]


def defined(path):
    """Dotted names of the functions, classes and methods of a file."""
    names = set()
    for node in parsed(path).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [inner for inner in node.body if isinstance(inner, ast.FunctionDef)]
            names |= {f"{node.name}.{method.name}" for method in methods}
    return names


def test_there_are_walks():
    assert len(walks()) >= 3


@pytest.mark.parametrize("title, steps", walks(), ids=lambda one: one if type(one) is str else "")
def test_a_walk_names_what_exists_and_never_goes_up(title, steps):
    """A step is called by the one it is indented below, which lies in no lower layer."""
    callers = []
    for indent, name, function in steps:
        path = SOURCE / name
        assert function in defined(path), f"{name} has no {function}"
        callers = [caller for caller in callers if caller[0] < len(indent)]
        height = HEIGHT[part_of(path)]
        assert not callers or height <= callers[-1][1], f"{title}: {name} lies above its caller"
        callers.append((len(indent), height))
