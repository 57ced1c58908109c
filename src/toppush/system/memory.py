"""How much memory this process holds and may hold."""

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


def resident() -> int:
    """Bytes of memory of this process; on systems that do not say, the most it has held."""
    if sys.platform == "win32":
        return _on_windows(ctypes.windll.kernel32)
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most << 10


class MemoryCounters(ctypes.Structure):
    """PROCESS_MEMORY_COUNTERS of Windows, with six sizes that are not read here."""

    _fields_ = (
        ("cb", ctypes.c_uint32),
        ("PageFaultCount", ctypes.c_uint32),
        ("PeakWorkingSetSize", ctypes.c_size_t),
        ("WorkingSetSize", ctypes.c_size_t),
        ("others", ctypes.c_size_t * 6),
    )


def _on_windows(kernel: Any) -> int:
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    kernel.K32GetProcessMemoryInfo.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32)
    counters = MemoryCounters(cb=ctypes.sizeof(MemoryCounters))
    me = kernel.GetCurrentProcess()
    if not kernel.K32GetProcessMemoryInfo(me, ctypes.byref(counters), counters.cb):
        raise OSError("Windows does not say how much memory this process holds.")
    return int(counters.WorkingSetSize)


def is_limited() -> bool:
    """Whether the address space of this process is limited, as by `ulimit -v`."""
    if resource is None:
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
