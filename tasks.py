"""Set up everything in .venv and run the demo or the tests; needs only Python 3.11+.

python3 tasks.py install  set up what the tests need, no more
python3 tasks.py demo     install the package with its command line, run `toppush demo`
python3 tasks.py test     install what the tests need, then lint, types and tests
python3 tasks.py long     the tests that take long, and all laws with more examples
python3 tasks.py docs     install what the site needs, build it, print where it begins
python3 tasks.py build    wheel and sdist in dist/, checked; the wheel installed by itself
python3 tasks.py notes    what CHANGELOG.md says of a tag, into a file: notes v1.2.3 notes.md
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
QUICK, LONG = "not slow and not long", "(long or hypothesis) and not slow"
HUNG = ["-o", "faulthandler_timeout=600", "-o", "faulthandler_exit_on_timeout=true"]
"""A test that waits for ever says where all its threads are, and ends."""
DIST = ROOT / "dist"
SCRIPTS = "Scripts" if os.name == "nt" else "bin"
BIN = VENV / SCRIPTS


def run(*command: str | Path) -> None:
    """Print the command, run it, and stop with its exit code if it fails.

    Bytecode is kept whatever the environment says: else every process compiles all for itself.
    """
    words = [str(word) for word in command]
    print("+", " ".join(words), flush=True)
    env = os.environ | {
        "PYTHONPYCACHEPREFIX": str(VENV / "bytecode"),
        "PYTHONDONTWRITEBYTECODE": "",
    }
    code = subprocess.run(words, cwd=ROOT, env=env).returncode
    if code:
        sys.exit(code)


def install(extra: str) -> None:
    """Install the package with an extra, unless this very project file was installed before."""
    stamp = VENV / f"installed-{extra}"
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + sys.version.encode())
    if stamp.exists() and stamp.read_text() == wanted.hexdigest():
        print(f"# {VENV.name} is up to date")
        return
    if not (BIN / "python").exists() and not (BIN / "python.exe").exists():
        print(f"# making {VENV}", flush=True)
        venv.create(VENV, with_pip=True)
    pip = [BIN / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    run(*pip, "--editable", f".[{extra}]")
    stamp.write_text(wanted.hexdigest())


def setup(arguments: list[str]) -> None:
    """Install what the tests need."""
    install("test")


def demo(arguments: list[str]) -> None:
    """Run the demonstration."""
    install("cli")
    run(BIN / "toppush", "demo", *arguments)


def test(arguments: list[str]) -> None:
    """Lint, types, tests; arguments go to pytest and replace the default selection."""
    install("test")
    run(BIN / "ruff", "check", ".")
    run(BIN / "ruff", "format", "--check", ".")
    with subprocess.Popen([BIN / "mypy"], cwd=ROOT) as types:  # on one core while the tests begin
        run(BIN / "python", "-m", "pytest", *(arguments or ["-m", QUICK, "-n", "auto", *HUNG]))
    if types.returncode:
        sys.exit(types.returncode)


def long(arguments: list[str]) -> None:
    """What `test` leaves out, but for the slow checks; arguments go to pytest."""
    install("test")
    more = ["-m", LONG, "-n", "auto", "--hypothesis-profile", "thorough", *HUNG]
    run(BIN / "python", "-m", "pytest", *more, *arguments)


def docs(arguments: list[str]) -> None:
    """Build the site, offline, with warnings as errors; arguments go to sphinx-build."""
    install("docs")
    site = ROOT / "build" / "site"
    kept = ["-d", ROOT / "build" / "doctrees"]
    run(BIN / "sphinx-build", "-W", "--keep-going", "-q", *kept, *arguments, "docs", site)
    print(site / "index.html")


def build(arguments: list[str]) -> None:
    """Build wheel and sdist, check both, and try the wheel where nothing else is installed."""
    install("build")
    shutil.rmtree(DIST, ignore_errors=True)
    run(BIN / "python", "-m", "build", *arguments)
    run(BIN / "twine", "check", "--strict", *sorted(DIST.iterdir()))
    (wheel,) = DIST.glob("*.whl")
    run(BIN / "check-wheel-contents", wheel)
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / SCRIPTS / "python"
        run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", wheel)
        run(python, "tests/bare.py")
    for package in sorted(DIST.iterdir()):
        print(f"{package.relative_to(ROOT)}: {package.stat().st_size / 1000:.0f} KB")


def notes(arguments: list[str]) -> None:
    """Write the changelog's section of a tag into a file."""
    tag, path = arguments
    version = re.search(r'^__version__ = "(.+)"$', text_of("src/toppush/__init__.py"), re.MULTILINE)
    found = section_of(tag, version.group(1) if version else "", text_of("CHANGELOG.md"))
    Path(path).write_text(found, encoding="utf-8", newline="\n")


def text_of(path: str) -> str:
    """A file of ours."""
    return (ROOT / path).read_text(encoding="utf-8")


def section_of(tag: str, version: str, changelog: str) -> str:
    """What a changelog says of a tag; one that is not of the source's version is refused."""
    if tag != f"v{version}":
        sys.exit(f"the tag is {tag}, but the source is of version {version}")
    section = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |^\[|\Z)"
    found = re.search(section, changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        sys.exit(f"CHANGELOG.md has no section '## [{version}] - YYYY-MM-DD'")
    return found.group(1).strip() + "\n"


if __name__ == "__main__":
    tasks = {"install": setup, "demo": demo, "test": test, "long": long}
    tasks |= {"docs": docs, "build": build, "notes": notes}
    if sys.version_info < (3, 11):  # noqa: UP036 - older Pythons run this file too
        sys.exit(f"toppush needs Python 3.11 or newer; this is {sys.version.split()[0]}.")
    if len(sys.argv) < 2 or sys.argv[1] not in tasks:
        sys.exit(__doc__)
    tasks[sys.argv[1]](sys.argv[2:])
