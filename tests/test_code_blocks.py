"""Code of the pages runs as it stands, and its commands and options are there."""

import re
import shlex
import shutil
from contextlib import suppress
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from page_world import EXCHANGED, WORLDS, write_files
from toppush.cli import main

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SKETCHES = {"extending.md"}
"""Whose code leaves parts out; `tests/test_extending.py` has it whole."""
PROMPT = {"explain", "info", "rank"}
"""Commands that are done at once."""
ELSEWHERE = {"demo"}
"""Commands with nothing to do in a folder of files, and with tests of their own."""
ALL_METHODS = ("compare", "train.csv", "--label", "fraud", "--drop", "id", "--cv", "5")
"""It takes as long as the other commands together; `tests/test_cli.py` compares some methods."""
ANSWERED = {0, 3, 5}
"""Exit codes: done, what the rows cannot promise, something has moved."""


def blocks(page, *languages):
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [code for language, code in found if language in languages]


@pytest.fixture(scope="module")
def files_of_pages(tmp_path_factory):
    pytest.importorskip("pandas")
    folder = tmp_path_factory.mktemp("pages")
    write_files(folder)
    return folder


@pytest.fixture
def here(files_of_pages, tmp_path, monkeypatch):
    """A folder with copies of the files, to work in."""
    shutil.copytree(files_of_pages, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    return tmp_path


WITH_PYTHON = [page for page in PAGES if blocks(page, "python")]


@pytest.mark.parametrize("page", [page for page in WITH_PYTHON if page.name in SKETCHES])
def test_sketches_are_python(page):
    for code in blocks(page, "python"):
        compile(code, page.name, "exec")


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning",
    "ignore::toppush.DegenerateWarning",
    "ignore:X does not have valid feature names, but LGBM",  # LightGBM 4.6, of any array
)
@pytest.mark.long
@pytest.mark.parametrize(
    "page",
    [page for page in WITH_PYTHON if page.name not in SKETCHES],
    ids=lambda page: page.name,
)
def test_python_of_pages_runs(page, here):
    try:
        names = {"__name__": page.stem} | WORLDS.get(page.name, dict)()
        for code in blocks(page, "python"):
            for said, run in EXCHANGED.get(page.name, {}).items():
                code = code.replace(said, run)
            exec(compile(code, page.name, "exec"), names)
    except ModuleNotFoundError as error:
        pytest.skip(f"needs {error.name}")
    finally:
        if "client" in names:
            names["client"].close()


def commands(page):
    """Calls of toppush in blocks and in inline code, by words."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for _, code in BLOCK.findall(text) for line in code.splitlines()]
    lines += re.findall(r"`(toppush [a-z]+ [^`]*--?[^`]*)`", BLOCK.sub("", text).replace("\n", " "))
    for line in lines:
        if line.startswith("toppush ") and "|" not in line:
            yield shlex.split(line, comments=True)[1:]


def examples_of_help():
    for command in main.commands.values():
        for part in (command.help or "").split("\n\n"):
            if " ".join(part.split()).startswith("Example: toppush "):
                yield shlex.split(part)[2:]


def look_up(words):
    """Look up a command and its options; nothing is run."""
    command, rest = main, list(words)
    while isinstance(command, click.Group):
        name = rest.pop(0)
        assert name in command.commands, f"there is no command {name}"
        command = command.commands[name]
    with click.Context(command, info_name=words[0]) as context, suppress(click.BadOptionUsage):
        command.make_parser(context).parse_args(rest)  # an option may stand without its value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_exist(page):
    for words in commands(page):
        look_up(words)


def whole_commands():
    """Those of pages and of the help that can be given as they stand."""
    everywhere = [words for page in PAGES for words in commands(page)] + list(examples_of_help())
    for call in sorted({tuple(words) for words in everywhere} - {ALL_METHODS}):
        has_file = any(re.search(r"\.(csv|toppush)$", word) for word in call[1:3])
        if has_file and call[0] not in ELSEWHERE and "--cluster" not in call:
            marks = [] if call[0] in PROMPT else [pytest.mark.long]
            yield pytest.param(call, id=" ".join(call), marks=marks)


@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
@pytest.mark.parametrize("call", list(whole_commands()))
def test_commands_of_pages_run(call, here):
    done = CliRunner().invoke(main, call)
    assert done.exit_code in ANSWERED, done.output


def test_there_are_commands():
    assert sum(len(list(commands(page))) for page in PAGES) > 30


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_tasks_exist(page):
    known = re.findall(r'"(\w+)": \w', (ROOT / "tasks.py").read_text(encoding="utf-8"))
    assert set(re.findall(r"tasks\.py (\w+)", page.read_text(encoding="utf-8"))) <= set(known)
