"""The paper's seven data sets, seven more, raw tables, and made ones of their size.

Files are looked for in a directory of yours (`data`, or TOPPUSH_DATA), then in the cache, and are
otherwise fetched from their publisher.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from reproduce.datasets.catalogue import CATALOGUE, Entry, FileSet
from reproduce.datasets.fetching import FetchError, Progress, cache_directory, fetch_files
from reproduce.datasets.made import MADE, made
from reproduce.datasets.tables import DESCRIPTIONS, RawTable, read_raw_table
from toppush.system.reading import UNPACKERS
from toppush.types import Json, Mask

__all__ = [
    "CATALOGUE",
    "Dataset",
    "FetchError",
    "RawTable",
    "fetch",
    "find",
    "load",
    "load_table",
    "made",
    "names",
    "table_names",
    "title_of",
]


@dataclass(frozen=True)
class Dataset:
    """Rows and labels, and what to say about them.

    Attributes
    ----------
    name : str
    X : csr_array of float64
    y : array of bool
        True for positives.
    files : tuple of Path
        Where the rows came from; empty if they are made.
    note : str
        What to tell the reader of a result.
    min_max : bool
        Whether experiments should scale each column to [0, 1].
    is_made : bool
    whole : int, optional
        Rows of the whole set, if this is only a part of it.
    """

    name: str
    X: sparse.csr_array
    y: Mask
    files: tuple[Path, ...]
    note: str = ""
    min_max: bool = False
    is_made: bool = False
    whole: int | None = None

    @property
    def title(self) -> str:
        """The name, marked if the rows are made or only a part."""
        return title_of(self.name, self.y.size)

    @property
    def n_pos(self) -> int:
        """Number of positives."""
        return int(self.y.sum())

    @property
    def n_neg(self) -> int:
        """Number of negatives."""
        return int(self.y.size - self.y.sum())

    def scaled(self) -> sparse.csr_array:
        """X as the experiments use it: each column in [0, 1] if `min_max`, else as it is.

        As the authors did, over all rows, before any split; labels play no part in it.
        """
        return to_unit_range(self.X) if self.min_max else self.X


def title_of(name: str, n_rows: int) -> str:
    """A data set's name, marked if its rows are made or only a part."""
    if name in MADE:
        return f"{name} (made data)"
    whole = CATALOGUE[name].size[0] if name in CATALOGUE else n_rows
    return name if n_rows == whole else f"{name} ({n_rows / whole:.1%} of it)"


def names(*, in_paper: bool = False) -> list[str]:
    """Names of all data sets, or of those in the paper."""
    if in_paper:
        return [name for name, entry in CATALOGUE.items() if entry.in_paper]
    return [*CATALOGUE, *MADE]


def load(
    name: str,
    data: str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
    most_made: int | None = None,
) -> Dataset:
    """A data set by its name.

    Parameters
    ----------
    name : str
        One of `names()`.
    data : path, optional
        Directory with the files, `.svm` or as published, plain or `.gz`, `.bz2`, `.xz`, at its
        top or in a folder of its own; by default TOPPUSH_DATA.
    seed : int
        For made data.
    most_made : int, optional
        The most rows of made data, by default as many as the real set has.

    Returns
    -------
    Dataset
    """
    if name in MADE:
        n_rows = min(MADE[name].n_rows, MADE[name].n_rows if most_made is None else most_made)
        return Dataset(name, *made(name, n_rows=n_rows, seed=seed), files=(), is_made=True)
    entry = _entry(name)
    source, paths = find(name, data) or (entry.published, fetch(name))
    if source is None:
        raise FetchError(f"{name} is not there and cannot be fetched. {entry.note}")
    n_rows, n_features = entry.size
    X, y = source.read(paths, n_features, source.labels)
    return Dataset(
        name,
        X,
        y,
        tuple(paths),
        note=entry.note,
        min_max=entry.min_max,
        whole=n_rows if y.size != n_rows else None,
    )


def find(
    name: str, data: str | os.PathLike[str] | None = None
) -> tuple[FileSet, list[Path]] | None:
    """The files of a data set in DATA, TOPPUSH_DATA or the cache; None if absent."""
    listing = _listing(data)
    for source in _entry(name).sources:
        if all(file in listing for file in source.files):
            return source, [listing[file] for file in source.files]
    return None


def table_names(data: str | os.PathLike[str] | None = None) -> list[str]:
    """Names of the raw tables that are there; none without their `tables.json`."""
    return list(_tables(data))


def load_table(name: str, data: str | os.PathLike[str] | None = None) -> RawTable:
    """A raw table as it was published, by its name in `tables.json`.

    Parameters
    ----------
    name : str
    data : path, optional
        Directory with the file and `tables.json`; by default TOPPUSH_DATA.
    """
    tables = _tables(data)
    if name not in tables:
        raise FetchError(
            f"{name} is not there: put its file and {DESCRIPTIONS} into the data directory."
        )
    return read_raw_table(*tables[name])


def _tables(data: str | os.PathLike[str] | None) -> dict[str, tuple[Path, Json]]:
    """The files of the raw tables that are there, and what `tables.json` says of each."""
    listing = _listing(data)
    if DESCRIPTIONS not in listing:
        return {}
    described = json.loads(listing[DESCRIPTIONS].read_text(encoding="utf-8"))
    files = {name: _unpacked_name(Path(about["file"])) for name, about in described.items()}
    return {
        name: (listing[file], described[name]) for name, file in files.items() if file in listing
    }


def fetch(name: str, progress: Progress | None = None) -> list[Path]:
    """Fetch a data set's files from their publisher into the cache, unless they are there."""
    if name in MADE:
        raise FetchError(f"{name} is made, not fetched: load it.")
    return fetch_files(_entry(name), progress)


def _entry(name: str) -> Entry:
    if name not in CATALOGUE:
        raise ValueError(f"no data set is called {name!r}; there are {', '.join(names())}.")
    return CATALOGUE[name]


def _places(data: str | os.PathLike[str] | None) -> list[Path]:
    """Directories to look in: the user's own, then the cache if it can be and is there."""
    chosen = data if data is not None else os.environ.get("TOPPUSH_DATA")
    if chosen is not None and not Path(chosen).is_dir():
        raise FileNotFoundError(f"the data directory {chosen} is not there.")
    places = [] if chosen is None else [Path(chosen)]
    with suppress(ImportError):
        places += [place for place in [cache_directory()] if place.is_dir()]
    return places


def _listing(data: str | os.PathLike[str] | None) -> dict[str, Path]:
    """Files by their names without compression, the user's own before those of the cache."""
    return {stem: path for place in reversed(_places(data)) for stem, path in _list_files(place)}


def _list_files(place: Path) -> Iterator[tuple[str, Path]]:
    """Names without compression and paths of files in a directory and its folders."""
    for path in [*place.glob("*"), *place.glob("*/*")]:
        if path.is_file() and path.suffix not in (".part", ".sha256"):
            yield _unpacked_name(path), path


def _unpacked_name(path: Path) -> str:
    return path.stem if path.suffix in UNPACKERS else path.name


def to_unit_range(X: sparse.csr_array) -> sparse.csr_array:
    """Each column x as (x - min) / (max - min), constant columns as 0.

    A column of a sparse matrix with negative entries would lose its zeros, so that is refused.
    """
    low = np.asarray(X.min(axis=0).todense()).ravel()
    high = np.asarray(X.max(axis=0).todense()).ravel()
    if np.any(low < 0):
        raise ValueError("a column has negative entries; scale the data set before saving it.")
    spread = np.where(high > low, high - low, 1.0)
    # A column above zero everywhere stores all its entries, so that shifting them is enough.
    shifted = X.copy()
    shifted.data = (X.data - low[X.indices]) / spread[X.indices]
    shifted.eliminate_zeros()
    return shifted
