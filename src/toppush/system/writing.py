"""Files are written whole or not at all, and never over what is being read.

A file is written beside its target under a name of our own, `.TARGET.toppush-N`, flushed to the
disk and renamed. Who writes holds a lock on that file, and the system lets go of it when the
process ends, however it ends: a file of that name without a lock was left by a killed process,
and the next one to write the same target removes it.
"""

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed
    fcntl = None  # type: ignore[assignment]

MARK = "toppush"
MOST_WRITERS = 64
"""Of one target at a time."""
LONGEST = 200
"""Bytes of a target's name that are left as they are; file systems end at 255."""
_unfinished: dict[int, Path] = {}
"""Handles that lock what is being written, and where that is."""


class WriteError(OSError):
    """A file could not be written: which one, and why."""


@contextlib.contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to; `path` gets its content when that is complete, and else stays as it is.

    A link stays, and the file it leads to is replaced. A new file has the permissions that `open`
    would give it, and an old one keeps its own. A pipe or a device is written to. If anything that
    has to do with the file fails, a `WriteError` names `path`.
    """
    try:
        with _sent_to(path) if _is_stream(path) else _renamed_to(_target(path)) as temporary:
            yield temporary
    except OSError as error:
        why = error.strerror or str(error)
        failed = WriteError(f"{os.fspath(path)}: it cannot be written: {why}.")
        failed.errno = error.errno
        raise failed from error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text in UTF-8, whole or not at all, with the ends of lines that it has."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write bytes, whole or not at all."""
    with written_whole(path) as temporary:
        temporary.write_bytes(data)


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether writing one destroys the other: the same file, or to be, links followed.

    A terminal or the null device may well be both.
    """
    try:
        left, right = os.stat(one), os.stat(other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)
    return os.path.samestat(left, right) and not stat.S_ISCHR(left.st_mode)


def discard_unfinished() -> None:
    """Remove what is being written, before a process ends without leaving its contexts."""
    for handle, temporary in list(_unfinished.items()):
        with contextlib.suppress(OSError):
            _discard(temporary, handle)


def _is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether bytes go through it: a pipe, a device, or a name for an open one of them."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _target(path: str | os.PathLike[str]) -> Path:
    """The file behind a path, if one may be written there."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError("it is a folder")
    if target.is_symlink():
        raise OSError("its links go round in a circle")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError("it is there, and read-only")
    return target


@contextlib.contextmanager
def _sent_to(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A file whose content goes through a pipe or to a device when it is complete."""
    with tempfile.TemporaryDirectory(prefix=f"{MARK}-") as folder:
        temporary = Path(folder) / f"content{Path(path).suffix}"
        yield temporary
        with temporary.open("rb") as file, open(path, "wb") as stream:
            shutil.copyfileobj(file, stream)


@contextlib.contextmanager
def _renamed_to(target: Path) -> Iterator[Path]:
    """A locked file beside the target, which takes its place when it is complete."""
    temporary, handle = _claimed(target)
    _unfinished[handle] = temporary
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        if fcntl is None:
            _let_go(handle)  # Windows renames no open file
        os.replace(temporary, target)
    except BaseException:
        _discard(temporary, handle)
        raise
    finally:
        _let_go(handle)
    _sync_folder(target.parent)


def _discard(temporary: Path, handle: int) -> None:
    """Remove an unfinished file, but not one that another has begun under its name."""
    if fcntl is None:
        _let_go(handle)  # Windows removes no open file
        temporary.unlink(missing_ok=True)
    elif _is_still(temporary, handle):
        temporary.unlink(missing_ok=True)


def _let_go(handle: int) -> None:
    if _unfinished.pop(handle, None) is not None:
        os.close(handle)


def _claimed(target: Path) -> tuple[Path, int]:
    """A new file beside the target that is locked for us; what dead processes left is removed."""
    found: tuple[Path, int] | None = None
    for number in range(MOST_WRITERS):
        temporary = _beside(target, number)
        there = os.path.lexists(temporary)
        if found is not None and not there:
            return found
        if (not there or _remove_if_abandoned(temporary)) and found is None:
            handle = _created_and_locked(temporary)
            found = None if handle is None else (temporary, handle)
    if found is None:
        raise OSError(
            f"{MOST_WRITERS} others write it, or left files such as {_beside(target, 0)} that "
            "cannot be removed"
        )
    return found


def _beside(target: Path, number: int) -> Path:
    """Where to write before renaming; the ending stays, by which some writers choose a format."""
    name = target.name
    if len(os.fsencode(name)) > LONGEST:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    ending = target.suffix if len(os.fsencode(target.suffix)) < 20 else ""
    return target.with_name(f".{name}.{MARK}-{number}{ending}")


def _created_and_locked(temporary: Path) -> int | None:
    """A handle of a file that was not there, or None if another was quicker."""
    try:
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
    except FileExistsError:
        return None
    try:
        _lock(handle)
    except BlockingIOError:  # someone takes it for abandoned
        os.close(handle)
        return None
    except OSError:  # a file system without locks, where nothing is taken for abandoned
        return handle
    if _is_still(temporary, handle):
        return handle
    os.close(handle)
    return None


def _remove_if_abandoned(temporary: Path) -> bool:
    """Remove a file that no process holds; whether its name is free now."""
    try:
        if fcntl is None:
            temporary.unlink()
            return True
        handle = os.open(temporary, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        _lock(handle)
        if _is_still(temporary, handle):
            temporary.unlink()
        return True
    except OSError:
        return False
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    """Lock a file, or fail at once if another process or thread has it."""
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_still(temporary: Path, handle: int) -> bool:
    """Whether the name leads to the file that is open."""
    try:
        return os.path.samestat(os.stat(temporary, follow_symlinks=False), os.fstat(handle))
    except OSError:
        return False


def _sync_folder(folder: Path) -> None:
    """Make a rename outlast a power cut, where the system can; the file itself is complete."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
