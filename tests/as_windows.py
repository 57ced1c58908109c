"""This process with what Windows lacks or forbids taken away, as far as that can be told here.

Modules and functions that are not there are gone; a file that is open or mapped cannot be renamed,
replaced or removed; names with characters that Windows keeps for itself cannot be opened; a text
file opened without an encoding is an error in toppush. Paths themselves stay those of this system.
"""

import os
import sys
import warnings
from pathlib import Path

LACKING = ("fcntl", "grp", "posix_ipc", "pty", "pwd", "resource", "termios", "tty")
UNKNOWN = [
    *("O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC", "chown", "fork", "getegid", "geteuid"),
    *("getgid", "getloadavg", "getpgid", "getuid", "killpg", "mkfifo", "mknod", "nice", "pread"),
    *("pwrite", "sched_getaffinity", "setsid", "statvfs", "sysconf", "uname", "wait"),
]
FORBIDDEN = set('<>:"|?*\\')


def become_windows():
    """From here on; what others import on this system must be loaded before."""
    sys.modules |= dict.fromkeys(LACKING)
    for name in UNKNOWN:
        if hasattr(os, name):
            delattr(os, name)
    for name in ("rename", "replace", "remove", "unlink"):
        setattr(os, name, unless_in_use(getattr(os, name)))
    sys.addaudithook(refuse_names)
    warnings.filterwarnings("error", category=EncodingWarning, module=r"toppush\.")


def unless_in_use(change):
    """A change of names that fails where a file is open."""

    def changed(*paths, **options):
        for path in paths:
            if os.path.realpath(path) in in_use():
                raise PermissionError(13, "another process uses the file", str(path))
        return change(*paths, **options)

    return changed


def in_use():
    """Files that this process has open or mapped."""
    handles = {os.path.realpath(handle) for handle in Path("/proc/self/fd").iterdir()}
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return handles | {line.split(maxsplit=5)[5] for line in maps if len(line.split()) > 5}


def refuse_names(event, arguments):
    """Windows has no such names; devices and this system's own files are not meant."""
    if event == "open" and isinstance(arguments[0], str) and not is_of_the_system(arguments[0]):
        bad = FORBIDDEN & set(arguments[0])
        if bad or arguments[0].endswith((".", " ")):
            raise OSError(22, f"not a name on Windows: {arguments[0]}")


def is_of_the_system(path):
    return path.startswith(("/dev/", "/proc/", "/sys/"))
