"""Files are written completely or not at all, and never over what is being read.

The content is written to `.TARGET.toppush-N` in the folder of the target, flushed to the disk and
renamed. The writer holds a lock on that file, which the system releases when the process ends. So
a file of that name without a lock was left by a killed process, and the next writer of the same
target removes it.
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
"""Longest name of a target, in bytes, that is not shortened; file systems end at 255."""
_unfinished: dict[int, Path] = {}
"""Locking handles of files that are being written, with their paths."""


class WriteError(OSError):
    """A file could not be written: which one, and why."""


@contextlib.contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to, whose content replaces that of `path` when it is complete.

    Of a link the target is replaced. A new file has the permissions that `open` would set, an old
    one keeps its own. Pipes and devices are written to. A `WriteError` names `path`.
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
    """Write a string in UTF-8, completely or not at all, without changing its line ends."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write bytes, completely or not at all."""
    with written_whole(path) as temporary:
        temporary.write_bytes(data)


def same_file(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> bool:
    """Whether writing one path would destroy the other, as no terminal or null device would."""
    try:
        left, right = os.stat(first), os.stat(second)
    except OSError:
        return os.path.realpath(first) == os.path.realpath(second)
    return os.path.samestat(left, right) and not stat.S_ISCHR(left.st_mode)


def discard_unfinished() -> None:
    """Remove unfinished files, before a process ends without leaving its contexts."""
    for handle, temporary in list(_unfinished.items()):
        with contextlib.suppress(OSError):
            _discard(temporary, handle)


def _is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether it is a pipe or a device."""
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
    """A locked file in the folder of the target, which replaces it when it is complete."""
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
    """Remove an unfinished file, but not one of another writer with its name."""
    if fcntl is None:
        _let_go(handle)  # Windows removes no open file
        temporary.unlink(missing_ok=True)
    elif _is_still(temporary, handle):
        temporary.unlink(missing_ok=True)


def _let_go(handle: int) -> None:
    if _unfinished.pop(handle, None) is not None:
        os.close(handle)


def _claimed(target: Path) -> tuple[Path, int]:
    """A new locked file in the folder of the target; files of dead processes are removed."""
    claimed: tuple[Path, int] | None = None
    for number in range(MOST_WRITERS):
        temporary = _temporary(target, number)
        there = os.path.lexists(temporary)
        if claimed is not None and not there:
            return claimed
        if (not there or _remove_if_abandoned(temporary)) and claimed is None:
            handle = _created_and_locked(temporary)
            claimed = None if handle is None else (temporary, handle)
    if claimed is None:
        raise OSError(
            f"{MOST_WRITERS} others write it, or left files such as {_temporary(target, 0)} that "
            "cannot be removed"
        )
    return claimed


def _temporary(target: Path, number: int) -> Path:
    """Where to write before renaming; some writers choose a format by the ending, which stays."""
    name = target.name
    if len(os.fsencode(name)) > LONGEST:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    ending = target.suffix if len(os.fsencode(target.suffix)) < 20 else ""
    return target.with_name(f".{name}.{MARK}-{number}{ending}")


def _created_and_locked(temporary: Path) -> int | None:
    """The handle of a new file, or None if another writer was quicker."""
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
    """Remove a file that no process has locked; whether its name is free now."""
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
    """Whether the path still leads to the open file."""
    try:
        return os.path.samestat(os.stat(temporary, follow_symlinks=False), os.fstat(handle))
    except OSError:
        return False


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
