"""The gallery has its stories, each with a task, a picture and a conclusion; the site runs them."""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_all_stories_are_in_order():
    sys.path.insert(0, str(ROOT / "docs/_ext"))
    from gallery_order import STORIES

    assert sorted(STORIES) == [path.stem for path in EXAMPLES]
    assert len(STORIES) >= 8


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_story_has_a_task_a_picture_and_a_conclusion(path):
    text = path.read_text(encoding="utf-8")
    told = ast.get_docstring(ast.parse(text))
    assert re.match(r"[^\n]+\n=+\n\n\*\*The task\.\*\*", told)
    assert "plt." in text
    assert "# **What to conclude.**" in text


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_only_stories_called_torch_need_it(path):
    """The build leaves these out where torch is missing, and says so."""
    needs = re.search(r"^(import|from) torch|TopPushNet", path.read_text(), flags=re.MULTILINE)
    assert (needs is not None) == path.stem.startswith("torch_")
