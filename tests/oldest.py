"""The oldest versions that pyproject.toml takes, each pinned, as constraints for pip.

python tests/oldest.py > tests/oldest.txt
pip install -e '.[test]' -c tests/oldest.txt
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
REQUIREMENT = re.compile(r"([\w-]+)(?:\[[\w,]+\])?>=([\w.]+)")
UNASKED = {"pyparsing": "3.1"}
"""What others bring along: with pyparsing 3.3 matplotlib 3.9 warns, and warnings are errors."""
TOOLS = ("build", "docs")
"""Extras that no test needs."""


def requirements(project=PROJECT):
    """What users and tests may need, each as `name>=version`; our own extras are not."""
    about = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    extras = about["optional-dependencies"]
    wanted = [one for name, listed in extras.items() if name not in TOOLS for one in listed]
    return [one for one in about["dependencies"] + wanted if not one.startswith("toppush[")]


def pins(project=PROJECT):
    """A line for each package."""
    found = dict(REQUIREMENT.fullmatch(one).groups() for one in requirements(project))
    return [f"{name}=={version}" for name, version in sorted((found | UNASKED).items())]


if __name__ == "__main__":
    sys.stdout.write("# python tests/oldest.py > tests/oldest.txt\n")
    sys.stdout.write("".join(f"{line}\n" for line in pins()))
