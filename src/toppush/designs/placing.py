"""Where rows are, and putting them where they are worked on."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from toppush.designs.here import LocalRows
from toppush.designs.protocol import PlacedRows
from toppush.system.extras import needs


@dataclass(frozen=True)
class Backend:
    """Who holds rows that are not an array of this process."""

    called: str
    """By users."""
    to_array: str
    """What makes an array of such rows."""
    home: str
    """Module with `place(X, device)`, which makes `PlacedRows`; imported on first use."""
    missing: str = ""
    """What to say if it cannot be imported."""

    def place(self, X: Any, device: str | None) -> PlacedRows:
        """Rows where they are, or on the device."""
        try:
            home = import_module(self.home)
        except ImportError as error:
            raise ImportError(self.missing.format(device=device)) from error
        placed: PlacedRows = home.place(X, device)
        return placed


BACKENDS = {
    "torch": Backend(
        "a torch tensor",
        "X.numpy(force=True)",
        "toppush.designs.torch",
        needs("device={device!r}", "torch") + ", or leave device=None.",
    ),
    "dask": Backend(
        "a Dask collection",
        "X.compute()",
        "toppush.designs.dask",
        needs("a fit on a Dask collection", "dask", "distributed"),
    ),
    "disk": Backend("rows on disk", "numpy.load", "toppush.designs.disk"),
}
"""By the first name of the module of what users give, or by `PlacedRows.library`."""


def backend_of(X: Any) -> Backend | None:
    """Who holds rows or a vector over them; None for what is an array of this process."""
    own = isinstance(X, PlacedRows)
    return BACKENDS.get(X.library if own else type(X).__module__.partition(".")[0])


def is_placed(X: Any) -> bool:
    """Whether rows are where they are worked on, so that scikit-learn need not check them."""
    return isinstance(X, PlacedRows) or backend_of(X) is not None


def place(X: Any, device: str | None = None) -> PlacedRows:
    """Rows where a fit works on them.

    Those of an array or a CSR matrix stay in it, unless a device is named; those of a tensor
    on the device that holds it, and Dask's partitions on the workers that hold them.
    """
    if isinstance(X, PlacedRows):
        return X if device is None else X.on_device(device)
    backend = backend_of(X) or (None if device is None else BACKENDS["torch"])
    return LocalRows(X) if backend is None else backend.place(X, device)
