"""What a release promises, as far as a look can tell: versions, extras, files, commands."""

import ast
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

import tasks
import toppush
from imports import modules, parsed
from oldest import pins
from reproduce.benchmark.methods import METHODS as COMPETITORS
from reproduce.methods import METHODS
from toppush.cli import main
from toppush.system.extras import EXTRAS, installing, needs, not_installed

yaml = pytest.importorskip("yaml", reason="needs PyYAML, the extra [test]")
ROOT = Path(__file__).resolve().parent.parent
FOR_US = {"benchmark", "build", "docs", "reproduce", "test"}
"""Extras that no user wants."""
NAMES = {"vl_convert": "vl-convert-python"}
"""Packages that are installed by another name than they are imported."""


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


PROJECT = tomllib.loads(text_of("pyproject.toml"))
EXTRAS_OF_US = PROJECT["project"]["optional-dependencies"]


# --- one version


def test_there_is_one_version():
    assert "version" not in PROJECT["project"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/toppush/__init__.py"
    assert f'__version__ = "{toppush.__version__}"' in text_of("src/toppush/__init__.py")
    assert yaml.safe_load(text_of("CITATION.cff"))["version"] == toppush.__version__
    said = CliRunner().invoke(main, ["--version"]).output
    assert said.split()[-1] == toppush.__version__


# --- extras and what is said of them


def brought_by(extra):
    """Names of the packages that an extra installs, by others too."""
    found = set()
    for one in EXTRAS_OF_US[extra]:
        if one.startswith("toppush["):
            others = one[len("toppush[") : -1].split(",")
            found |= set().union(*map(brought_by, others))
        else:
            found.add(re.match(r"[\w-]+", one).group())
    return found


@pytest.mark.parametrize("package", EXTRAS)
def test_an_extra_brings_what_it_is_named_for(package):
    assert NAMES.get(package, package) in brought_by(EXTRAS[package])
    assert not_installed(package).endswith(f"pip install 'toppush[{EXTRAS[package]}]'")


def test_three_packages_come_with_the_core():
    names = [re.match(r"[\w-]+", one).group() for one in PROJECT["project"]["dependencies"]]
    assert sorted(names) == ["numpy", "scikit-learn", "scipy"]


def test_all_is_what_a_user_may_want():
    wanted = EXTRAS_OF_US.keys() - FOR_US - {"all"}
    assert brought_by("all") == set().union(*map(brought_by, wanted))
    assert not brought_by("all") & {"pytest", "mypy", "sphinx", "twine"}


def test_sentences():
    assert needs("a fit", "dask", "distributed") == (
        "a fit needs dask and distributed: pip install 'toppush[dask]'"
    )
    assert not_installed("torch") == "torch is not installed: pip install 'toppush[gpu]'"
    assert installing("pyarrow.parquet") == "pip install 'toppush[files]'"
    assert installing("somebodys") == "pip install somebodys"


def texts_that_are_said(tree):
    """Texts of a module but for docstrings."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [node.value for node in texts if type(node.value) is str and id(node) not in docs]


def test_what_to_install_is_said_in_one_place():
    for path in modules():
        if "pip install" in path.read_text(encoding="utf-8") and path.name != "extras.py":
            said = "\n".join(texts_that_are_said(parsed(path)))
            assert "pip install" not in said, f"{path} should ask toppush.system.extras"


def test_extras_that_pages_and_docstrings_name_exist():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *modules()]
    for path in pages:
        text = path.read_text(encoding="utf-8")
        for named in re.findall(r"(?:toppush|pip install(?: -e)? '?\.)\[([\w,]+)\]", text):
            assert set(named.split(",")) <= EXTRAS_OF_US.keys(), f"{path} names [{named}]"


@pytest.mark.parametrize("listed, extra", [(METHODS, "benchmark"), (COMPETITORS, "benchmark")])
def test_rows_of_tables_need_what_an_extra_brings(listed, extra):
    for one in listed.values():
        assert one.needs in {"", "autogluon", *brought_by(extra)}, one.key


def test_a_method_that_is_skipped_names_its_extra(monkeypatch, capsys):
    from reproduce.commands import _benchmark_methods

    monkeypatch.setattr("reproduce.benchmark.methods.find_spec", lambda name: None)
    monkeypatch.setattr("reproduce.benchmark.autogluon.missing", lambda: "no AutoGluon")
    kept = _benchmark_methods((), is_summary=False)
    assert kept == [key for key, one in COMPETITORS.items() if not one.needs]
    said = capsys.readouterr().err
    for one in COMPETITORS.values():
        why = "no AutoGluon" if one.needs == "autogluon" else not_installed(one.needs)
        assert not one.needs or f"{one.title} is skipped: {why}\n" in said


def test_oldest_versions_are_those_of_the_project():
    lines = text_of("tests/oldest.txt").splitlines()
    again = "write it again: python tests/oldest.py > tests/oldest.txt"
    assert [line for line in lines if not line.startswith("#")] == pins(), again


# --- the changelog

SECTIONS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")


def test_the_changelog_keeps_its_form():
    text = text_of("CHANGELOG.md")
    releases = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert releases[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[[\d.]+\] - \d{4}-\d\d-\d\d", one) for one in releases[1:])
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= set(SECTIONS)
    for name in re.findall(r"^## \[(.*?)\]", text, re.MULTILINE):
        assert re.search(rf"^\[{re.escape(name)}\]: \S+$", text, re.MULTILINE), f"no link {name}"
    for release in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        before_sections = release.partition("\n### ")[0]
        assert "\n- " not in before_sections, "a line stands in no section"


def test_notes_are_the_section_of_the_tag():
    changelog = "# C\n\n## [Unreleased]\n\n## [1.2.0] - 2026-01-02\n\n### Added\n\n- A.\n\n"
    older = "## [1.1.0] - 2025-01-02\n\n### Fixed\n\n- B.\n\n[1.2.0]: x\n"
    assert tasks.section_of("v1.2.0", "1.2.0", changelog + older) == "### Added\n\n- A.\n"
    assert tasks.section_of("v1.1.0", "1.1.0", changelog + older) == "### Fixed\n\n- B.\n"
    with pytest.raises(SystemExit, match=r"v1\.2\.1.*1\.2"):
        tasks.section_of("v1.2.1", "1.2.0", changelog)
    with pytest.raises(SystemExit, match="no section"):
        tasks.section_of("v1.3.0", "1.3.0", changelog)


# --- workflows, nox and pre-commit

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
NOX = ast.parse(text_of("noxfile.py"))
SESSIONS = {node.name for node in NOX.body if isinstance(node, ast.FunctionDef)}
CONSTANTS = {
    node.targets[0].id: ast.literal_eval(node.value)
    for node in NOX.body
    if isinstance(node, ast.Assign)
    and isinstance(node.targets[0], ast.Name)
    and node.targets[0].id in ("PYTHONS", "QUICK")
}


def jobs(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]


def commands(path):
    """Words of every command that a workflow runs."""
    steps = [step for job in jobs(path).values() for step in job["steps"]]
    lines = [line for step in steps for line in step.get("run", "").splitlines()]
    return [shlex.split(re.sub(r"\$\{\{.*?\}\}", "X", line)) for line in lines]


def is_known(words):
    """Whether a command of a workflow is one of ours, or of its machine."""
    match words:
        case ["nox", "-s", session]:
            return session.partition("-")[0] in SESSIONS
        case ["python", "tasks.py", task, *_]:
            return callable(getattr(tasks, task, None))
        case ["python", "-m", "pip", "install", "nox"]:
            return True
        case ["python", "-m", module, *_]:
            return module in sys.stdlib_module_names
        case ["gh", "release", "create", *_]:
            return True
    return False


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_workflows_call_exists(path):
    assert commands(path)
    for words in commands(path):
        assert is_known(words), shlex.join(words)


def test_workflows_that_call_what_does_not_exist_are_seen():
    for line in ("nox -s nothing", "python tasks.py nothing", "make", "python -m nothing"):
        assert not is_known(line.split())


def test_workflows_run_all_systems_and_every_python_that_is_promised():
    matrix = jobs(ROOT / ".github/workflows/tests.yml")["tests"]["strategy"]["matrix"]
    systems = [name.partition("-")[0] for name in matrix["system"]]
    assert systems == ["ubuntu", "macos", "windows"]
    said = [one.split()[-1] for one in PROJECT["project"]["classifiers"] if ":: 3." in one]
    assert matrix["python"] == CONSTANTS["PYTHONS"] == said
    assert PROJECT["project"]["requires-python"] == f">={said[0]}"


def test_only_the_step_that_publishes_may_speak_for_us():
    for path in WORKFLOWS:
        whole = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert whole["permissions"] == {"contents": "read"}
        trusted = [name for name, job in jobs(path).items() if "id-token" in str(job)]
        assert trusted == (["publish"] if path.stem == "release" else [])
        assert "secrets." not in path.read_text(encoding="utf-8")


def test_nox_and_tasks_choose_the_same_tests():
    assert CONSTANTS["QUICK"][1] == tasks.QUICK
    assert {"tests", "oldest", "build", "docs", "lint"} <= SESSIONS


def test_hooks_are_tools_of_the_test_environment():
    (repository,) = yaml.safe_load(text_of(".pre-commit-config.yaml"))["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        assert hook["entry"].split()[0] in brought_by("test")


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem
)
def test_issue_forms_ask_something(path):
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.stem != "config":
        assert {"name", "description", "body"} <= form.keys()
        names = [one["id"] for one in form["body"]]
        assert len(set(names)) == len(names)
        assert any(one.get("validations", {}).get("required") for one in form["body"])


# --- files that every system can hold


def test_names_of_files_are_names_on_windows():
    seen = {}
    for top in ("src", "tests", "docs", "benchmarks/results", "results", "examples", ".github"):
        for path in (ROOT / top).rglob("*"):
            name = path.relative_to(ROOT).as_posix()
            if name.startswith("docs/reference/names/"):  # made by `tasks.py docs`, never shipped
                continue
            assert not re.search(r'[<>:"|?*\\]|[. ](/|$)', name), name
            assert seen.setdefault(name.lower(), name) == name, "names differ by case alone"
