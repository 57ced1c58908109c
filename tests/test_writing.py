"""Files are written whole or not at all, and what killed processes left is removed."""

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from toppush.system import writing
from toppush.system.writing import (
    WriteError,
    discard_unfinished,
    same_file,
    write_bytes,
    written_whole,
)

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")


def left_in(folder):
    return sorted(path.name for path in folder.iterdir())


def in_another_process(script, *arguments):
    """Start a process that prints a line when it is where it is wanted."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    return process


HALF = """
import sys
from toppush.system.writing import written_whole
with written_whole(sys.argv[1]) as temporary:
    temporary.write_text("half")
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_a_file_is_replaced_when_the_new_one_is_complete(tmp_path):
    path = tmp_path / "list.csv"
    for content in (b"first", b"second"):
        with written_whole(path) as temporary:
            assert temporary.parent == tmp_path
            assert temporary.suffix == ".csv"
            temporary.write_bytes(content)
            assert not path.exists() or path.read_bytes() == b"first"
        assert path.read_bytes() == content
    assert left_in(tmp_path) == ["list.csv"]


def test_contents_reach_the_disk_before_they_have_their_name(tmp_path, monkeypatch):
    done = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *given, n=name, r=real: done.append(n) or r(*given))
    write_bytes(tmp_path / "list.csv", b"first")
    assert done[:2] == ["fsync", "replace"]


@pytest.mark.parametrize("name", ["x" * 255, "x." + "y" * 253, "ü" * 127, "a b[1]*.csv"])
def test_any_name_will_do(name, tmp_path):
    write_bytes(tmp_path / name, b"content")
    assert left_in(tmp_path) == [name]


@posix
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_permissions_that_open_gives(mask, tmp_path, monkeypatch):
    before = os.umask(mask)
    try:
        monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the mask is the process's"))
        write_bytes(tmp_path / "ours", b"")
        (tmp_path / "plain").touch()
    finally:
        monkeypatch.undo()
        os.umask(before)
    ours, plain = (stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ours", "plain"))
    assert ours == plain


@posix
def test_an_old_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "m"
    path.touch()
    path.chmod(0o640)
    write_bytes(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@posix
def test_what_is_read_only_stays(tmp_path, monkeypatch):
    path = tmp_path / "m"
    path.write_bytes(b"old")
    path.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as for anyone but root
    with pytest.raises(WriteError, match="read-only"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"


@posix
@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_leads_to_the_new_content(there, tmp_path):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "m", tmp_path / "link"
    if there:
        target.write_bytes(b"old")
    link.symlink_to("far/m")
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert left_in(tmp_path) == ["far", "link"]
    assert left_in(tmp_path / "far") == ["m"]


@posix
def test_a_pipe_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_bytes(pipe, b"content")
    reader.join()
    assert got == [b"content"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@posix
def test_a_device_and_the_standard_output_are_written_to():
    write_bytes(os.devnull, b"content")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    script = (
        "from toppush.system.writing import write_bytes; write_bytes('/dev/stdout', b'content')"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert ran.stdout == b"content"


@posix
@pytest.mark.parametrize(
    "make, said",
    [
        (lambda path: path.mkdir(), "it is a folder"),
        (lambda path: path.symlink_to(path), "circle"),
        (lambda path: path.parent.rename(path.parent.with_name("away")), "there is no folder"),
    ],
)
def test_errors_name_the_file(make, said, tmp_path):
    path = tmp_path / "folder" / "m"
    path.parent.mkdir()
    make(path)
    with pytest.raises(WriteError, match=f"{path}: it cannot be written: .*{said}"):
        write_bytes(path, b"new")


@posix
@pytest.mark.parametrize("name", ["fsync", "replace", "open"])
def test_a_full_disk_leaves_the_old_file_and_is_named(name, tmp_path, monkeypatch):
    path = tmp_path / "m"
    path.write_bytes(b"old")

    def fail(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, name, fail)
        with pytest.raises(WriteError, match="written") as caught:
            write_bytes(path, b"new")
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == b"old"
    assert left_in(tmp_path) == ["m"]


def test_an_interrupt_leaves_the_old_file(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"old")
    writer = written_whole(path)
    writer.__enter__().write_bytes(b"half")
    with pytest.raises(KeyboardInterrupt):
        writer.gen.throw(KeyboardInterrupt())
    assert path.read_bytes() == b"old"
    assert left_in(tmp_path) == ["m"]


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    path = tmp_path / "m"
    for _ in range(2):
        process = in_another_process(HALF, path)
        process.kill()
        process.communicate()
        assert len(left_in(tmp_path)) == 1
    others = [".m", ".m.toppush-x", ".other.toppush-0"]
    for name in others:
        (tmp_path / name).touch()
    write_bytes(path, b"whole")
    assert left_in(tmp_path) == [*others, "m"]


def test_what_a_living_process_writes_is_left_alone(tmp_path):
    path = tmp_path / "m"
    one, other = (in_another_process(HALF, path) for _ in range(2))
    assert len(left_in(tmp_path)) == 2
    one.kill()
    one.communicate()
    write_bytes(path, b"whole")
    assert len(left_in(tmp_path)) == 2
    other.communicate()
    assert other.returncode == 0
    assert left_in(tmp_path) == ["m"]
    assert path.read_text() == "half"


def test_threads_write_one_file_at_the_same_time(tmp_path):
    path, together = tmp_path / "m", threading.Barrier(8)

    def write(number):
        for _ in range(20):
            together.wait()
            write_bytes(path, b"%d" % number * 1000)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(path.read_bytes())) == 1
    assert left_in(tmp_path) == ["m"]


def test_without_locks_nothing_is_taken_for_abandoned(tmp_path, monkeypatch):
    def no_locks(handle):
        raise OSError(errno.ENOTSUP, "no locks here")

    (tmp_path / ".m.toppush-0").write_text("whose?")
    monkeypatch.setattr(writing, "_lock", no_locks)
    write_bytes(tmp_path / "m", b"whole")
    assert left_in(tmp_path) == [".m.toppush-0", "m"]


def test_an_ending_process_discards_what_is_unfinished(tmp_path):
    path = tmp_path / "m"
    script = HALF.replace("sys.stdin.read()", "import os; from toppush.system.writing import "
                          "discard_unfinished; discard_unfinished(); os._exit(3)")  # fmt: skip
    process = in_another_process(script, path)
    process.communicate()
    assert process.returncode == 3
    assert left_in(tmp_path) == []
    discard_unfinished()


@posix
def test_same_files(tmp_path):
    one, hard, soft = tmp_path / "one", tmp_path / "hard", tmp_path / "soft"
    one.touch()
    hard.hardlink_to(one)
    soft.symlink_to(one)
    (tmp_path / "loop").symlink_to(tmp_path)
    for other in (one, hard, soft, tmp_path / "loop" / "one", Path(os.path.relpath(one))):
        assert same_file(one, other)
    assert same_file(tmp_path / "new", tmp_path / "loop" / "new")
    assert not same_file(one, tmp_path / "new")
    assert not same_file(os.devnull, os.devnull)
