"""Files from their publishers: kept in a cache, resumed where a download broke off, checked."""

import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reproduce.datasets.catalogue import Entry
from toppush.system.extras import needs
from toppush.system.writing import write_text

Progress = Callable[[int, int], None]
"""Called with the bytes there are and the bytes there will be (0 if unknown)."""
CHUNK = 1 << 16
PATIENCE = 60
"""Seconds without a byte after which a download counts as broken off."""


class FetchError(RuntimeError):
    """A file could not be fetched; the message says what to do."""


def cache_directory() -> Path:
    """Where fetched files are kept; TOPPUSH_CACHE names another place."""
    chosen = os.environ.get("TOPPUSH_CACHE")
    return Path(chosen) if chosen else Path(_pooch().os_cache("toppush"))


def fetch_files(entry: Entry, progress: Progress | None = None) -> list[Path]:
    """The files of a data set in the cache, fetched if they are not there.

    No publisher gives checksums. So the first download's is kept with the file, and a file that
    has changed since is fetched again and refused if its content is new; that the rows are right
    is checked by their counts when they are read.
    """
    source = entry.published
    if source is None:
        raise FetchError(f"{entry.name} cannot be fetched. {entry.note}")
    return [_fetch(url, progress) for url in source.urls]


def _fetch(url: str, progress: Progress | None) -> Path:
    pooch, directory = _pooch(), cache_directory()
    name = url.rsplit("/", 1)[-1]
    stamp = directory / f"{name}.sha256"
    known = f"sha256:{stamp.read_text(encoding='utf-8').strip()}" if stamp.exists() else None

    def download(url: str, output_file: str, _: object) -> None:
        resume(url, directory / f"{name}.part", Path(output_file), progress)

    try:
        found = pooch.retrieve(
            url, known_hash=known, fname=name, path=directory, downloader=download
        )
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise FetchError(
            f"{url} could not be fetched: {error}. Try again to go on where it stopped, or put "
            f"{name} into a directory and name that with --data or TOPPUSH_DATA."
        ) from error
    if known is None:
        write_text(stamp, pooch.file_hash(found) + "\n")
    return Path(found)


def resume(url: str, part: Path, target: Path, progress: Progress | None) -> None:
    """Download to `part`, going on where an earlier try stopped; then copy it to `target`."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    request = urllib.request.Request(url, headers=headers)
    try:
        answer = urllib.request.urlopen(request, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        if error.code != 416:  # nothing is left to send: the part is whole
            raise
        part.replace(target)
        return
    with answer:
        if answer.status != 206:  # the server sends all of it
            have = 0
        total = have + int(answer.headers.get("Content-Length") or 0)
        with part.open("ab" if have else "wb") as file:
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                have += len(chunk)
                if progress is not None:
                    progress(have, total)
    if have < total:
        raise OSError(f"it broke off after {have:,} of {total:,} bytes")
    part.replace(target)


def _pooch() -> Any:
    try:
        import pooch
    except ImportError as error:
        raise ImportError(needs("fetching data", "pooch")) from error
    pooch.get_logger().setLevel("WARNING")
    return pooch
