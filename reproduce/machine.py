"""Where figures were made: processor, cores, load, versions."""

import os
import platform
from pathlib import Path

from toppush.system.extras import version_of
from toppush.types import Json

PACKAGES = ("toppush", "numpy", "scipy", "scikit-learn")


def machine(*more: str) -> Json:
    """Processor, cores this process may use, how busy they are, and versions of packages."""
    from joblib import cpu_count

    return {
        "cpu": _cpu_name(),
        "cores": cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{package: version_of(package) for package in (*PACKAGES, *more)},
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
    }


def _cpu_name() -> str:
    about = Path("/proc/cpuinfo")
    lines = about.read_text(encoding="utf-8").splitlines() if about.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
