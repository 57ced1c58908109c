"""What can be told on this system of how the package does on Windows."""

import ast
import contextlib
import os
import subprocess
import sys
from pathlib import Path, PureWindowsPath

import pytest

from as_windows import in_use, unless_in_use
from imports import SOURCE, modules, parsed
from toppush.system import writing

HERE = Path(__file__).resolve().parent
linux = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="asks /proc what is open")


@linux
@pytest.mark.long
def test_files_and_fits_as_windows_would_have_them(tmp_path):
    folder = tmp_path / "Büro & Co (1)"
    folder.mkdir()
    ran = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", HERE / "on_windows.py", folder],
        capture_output=True, text=True, encoding="utf-8",
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(SOURCE.parent), str(HERE)])},
    )  # fmt: skip
    assert ran.stdout.endswith("done\n"), ran.stderr


@linux
def test_a_file_that_is_open_is_seen_as_in_use(tmp_path):
    remove = unless_in_use(os.remove)
    with (tmp_path / "a").open("wb"):
        assert str(tmp_path / "a") in in_use()
        with pytest.raises(PermissionError):
            remove(tmp_path / "a")
    remove(tmp_path / "a")


@linux
def test_files_are_written_over_without_locks(tmp_path, monkeypatch):
    """Windows has no `fcntl`, and renames or removes no file that is open."""
    monkeypatch.setattr(writing, "fcntl", None)
    for name in ("replace", "unlink"):
        monkeypatch.setattr(os, name, unless_in_use(getattr(os, name)))
    for text in ("one\r\n", "two\n"):
        writing.write_text(tmp_path / "a.txt", text)
        assert (tmp_path / "a.txt").read_bytes() == text.encode()
    with contextlib.suppress(KeyError), writing.written_whole(tmp_path / "a.txt") as temporary:
        temporary.write_bytes(b"half")
        raise KeyError
    assert (tmp_path / "a.txt").read_bytes() == b"two\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    "path", [r"C:\Users\a b\list.csv", r"\\host\share\m.toppush", r"D:list.csv"]
)
def test_names_beside_a_target_keep_drive_and_folder(path):
    target = PureWindowsPath(path)
    temporary = writing._temporary(target, 3)
    assert temporary.parent == target.parent
    assert temporary.drive == target.drive
    assert temporary.suffix == target.suffix
    assert not set('<>:"|?*') & set(temporary.name)


def calls(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def is_text_without_encoding(call):
    """A file that is opened as text, in whatever encoding the system prefers."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    given = {keyword.arg for keyword in call.keywords}
    if name == "read_text" or (name == "write_text" and "newline" in given):
        return "encoding" not in given
    modes = [one.value for one in call.args[:2] if isinstance(one, ast.Constant)]
    of_text = [mode for mode in modes if mode in ("r", "w", "a", "x", "r+", "w+", "rt", "wt")]
    return name in ("open", "fdopen", "NamedTemporaryFile") and of_text and "encoding" not in given


@pytest.mark.parametrize(
    "code", ["p.read_text()", "open(p, 'w')", "p.open('r')", "os.fdopen(3, 'w')"]
)
def test_text_without_encoding_is_seen(code):
    assert any(map(is_text_without_encoding, calls(ast.parse(code))))


def test_text_files_have_an_encoding():
    found = [path for path in modules() if any(map(is_text_without_encoding, calls(parsed(path))))]
    assert not found


def test_writers_keep_the_ends_of_lines():
    """`Path.write_text` is called in one place, which says `newline`."""
    for path in modules():
        for call in calls(parsed(path)):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "write_text":
                assert "newline" in {keyword.arg for keyword in call.keywords}, path
