"""What the workflows run, here: `nox -s tests-3.12`, `nox -s oldest`, `nox -l` for all.

`python3 tasks.py` is the way for newcomers; this one takes an environment for each session.
"""

import shutil
from pathlib import Path

import nox

nox.options.sessions = ["lint", "tests-3.11"]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
QUICK = ("-m", "not slow and not long", "-n", "auto")
DIST, SITE = Path("dist"), Path("build/site")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The tests on the newest of everything; arguments go to pytest instead of the selection."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "pytest", *(session.posargs or QUICK))


@nox.session(python="3.11")
def oldest(session: nox.Session) -> None:
    """The tests on the oldest versions that pyproject.toml takes."""
    session.install("-e", ".[test]", "-c", "tests/oldest.txt")
    session.run("python", "-m", "pytest", *(session.posargs or QUICK))


@nox.session(python="3.11")
def lint(session: nox.Session) -> None:
    """Style and types."""
    session.install("-e", ".[test]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session
def build(session: nox.Session) -> None:
    """Wheel and sdist, checked; the wheel alone in an environment of its own."""
    shutil.rmtree(DIST, ignore_errors=True)
    session.install("-e", ".[build]")
    session.run("python", "-m", "build")
    session.run("twine", "check", "--strict", *map(str, DIST.iterdir()))
    (wheel,) = map(str, DIST.glob("*.whl"))
    session.run("check-wheel-contents", wheel)
    session.notify("bare")


@nox.session
def bare(session: nox.Session) -> None:
    """The wheel of `build` with its three dependencies and nothing else."""
    (wheel,) = map(str, DIST.glob("*.whl"))
    session.install(wheel)
    session.run("python", "tests/bare.py")


@nox.session
def docs(session: nox.Session) -> None:
    """The site, warnings as errors."""
    session.install("-e", ".[docs]")
    session.run("sphinx-build", "-W", "--keep-going", "-d", "build/doctrees", "docs", str(SITE))
