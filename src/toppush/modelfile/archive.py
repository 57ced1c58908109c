"""The container of a model: a line with a checksum, then a zip archive no larger than the file.

All parts are checked before any is read. They are stored uncompressed and do not overlap; a zip
file within (SciPy's of a sparse matrix) follows the same rules, and an array is as long as its
header says.
"""

import hashlib
import io
import json
import math
import re
import struct
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np

from toppush.system.errors import ModelError
from toppush.system.reading import require_file
from toppush.types import Json

MAGIC = b"toppush model 1 sha256 "
ABOUT = "about.json"
DIGEST = 64
"""Characters of the checksum, in hexadecimal."""
FIRST = len(MAGIC) + DIGEST + 1
"""Bytes of the first line."""
LARGEST = 1 << 30
"""Bytes of a model file."""
LARGEST_TEXT = 1 << 26
"""Bytes of a JSON part, each of which may take twenty in memory."""
LARGEST_LIST = 1 << 23
"""Bytes of the archive's list of its parts, 66 for each part."""
ZIP = b"PK\x03\x04"
"""How zip archives begin, and each of their parts."""
END, END_SIZE, END_SIGNATURE = struct.Struct("<4s4H2LH"), 22, b"PK\x05\x06"
LARGE_END_SIZE, LARGE_END_SIGNATURE = 20, b"PK\x06\x07"
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\.(json|npy|npz)")


class Archive:
    """The parts of a zip archive by name; refused if any of them breaks the rules."""

    def __init__(self, body: bytes) -> None:
        self._parts = _plain_parts(body)
        for name, part in self._parts.items():
            if name.endswith(".json") and len(part) > LARGEST_TEXT:
                raise ModelError(f"its part {name!r} is longer than {LARGEST_TEXT:,} bytes.")
            if name.endswith(".npy"):
                _require_array(name, part)
            if name.endswith(".npz"):
                for inner, content in _plain_parts(part).items():
                    if not inner.endswith(".npy"):
                        raise ModelError(f"its part {name!r} holds {inner!r}, which is no array.")
                    _require_array(f"{name}/{inner}", content)

    def read(self, name: str) -> bytes:
        """The content of a part."""
        if name not in self._parts:
            raise ModelError(f"it has no part {name!r}.")
        return bytes(self._parts[name])


def packed(parts: dict[str, bytes]) -> bytes:
    """An archive of parts that `Archive` takes; zip files among them are uncompressed too.

    It holds no time stamps, so the same parts make the same bytes.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, part in parts.items():
            content = packed(unpacked(part)) if name.endswith(".npz") else part
            file.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def unpacked(body: bytes, *names: str) -> dict[str, bytes]:
    """All parts of an archive, or some of them, unchecked; for models use `Archive`."""
    with zipfile.ZipFile(io.BytesIO(body)) as file:
        return {name: file.read(name) for name in names or file.namelist()}


def _plain_parts(body: bytes | memoryview) -> dict[str, memoryview]:
    """The parts of an archive; refused unless they are uncompressed and do not overlap."""
    view = memoryview(body)
    _require_short_list(view)
    try:
        with zipfile.ZipFile(io.BytesIO(view)) as file:
            members = file.infolist()
    except Exception as error:  # forged lists may raise anything
        raise ModelError(f"it is not a model file: {error}.") from None
    parts: dict[str, memoryview] = {}
    places = [(len(view), len(view))]
    for member in members:
        name, size = member.filename, member.file_size
        if member.compress_type != zipfile.ZIP_STORED or size != member.compress_size:
            raise ModelError(f"its part {name!r} is packed; models are stored plain.")
        if member.flag_bits & 1:
            raise ModelError(f"its part {name!r} is encrypted.")
        if not NAME.fullmatch(name):
            raise ModelError(f"its part {name[:100]!r} has a name that no part of a model has.")
        if name in parts:
            raise ModelError(f"it has two parts {name!r}.")
        # The content follows a header of 30 bytes, the name and an extra field.
        header = bytes(view[member.header_offset : member.header_offset + 30])
        if len(header) < 30 or header[:4] != ZIP:
            raise ModelError(f"its part {name!r} is not where the archive says.")
        start = member.header_offset + 30 + sum(struct.unpack("<2H", header[26:]))
        places.append((start, start + size))
        parts[name] = view[start : start + size]
    if any(before[1] > after[0] for before, after in pairwise(sorted(places))):
        raise ModelError("parts of its archive overlap, or go beyond its end.")
    return parts


def _require_short_list(body: memoryview) -> None:
    """Refuse an archive whose list of parts is long, before it is read."""
    if len(body) > LARGEST:
        raise ModelError(f"it is larger than {LARGEST:,} bytes.")
    if len(body) < END_SIZE:
        raise ModelError("it is not a model file: there is no archive.")
    signature, *_, count, length, _, comment = END.unpack(bytes(body[-END_SIZE:]))
    large = bytes(body[-END_SIZE - LARGE_END_SIZE :][:4]) == LARGE_END_SIGNATURE
    if signature != END_SIGNATURE or comment or large:
        raise ModelError("it is not a model file: its archive does not end as models do.")
    if length > LARGEST_LIST:
        raise ModelError(f"its archive lists {count:,} or more parts, which no model has.")


def _require_array(name: str, part: memoryview) -> None:
    """Refuse an array that is not as long as its header says, or holds objects."""
    file = io.BytesIO(part)
    try:
        major, _ = np.lib.format.read_magic(file)
        read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
        shape, _, dtype = read[major](file)
    except (ValueError, KeyError, EOFError, TypeError) as error:
        raise ModelError(f"its part {name!r} is not an array: {error}.") from None
    held = len(part) - file.tell()
    if dtype.hasobject or not dtype.itemsize or math.prod(shape) * dtype.itemsize != held:
        raise ModelError(f"its part {name!r} says {dtype} {shape}, and has {held} bytes.")


# ---- the file


def read_about(path: str | Path) -> Json:
    """The record about the fit in a model file, without building the model."""
    path = Path(path)
    try:
        return about_of(Archive(archive_of(read_file(path))))
    except ModelError as error:
        raise error.at(path) from None


def sealed(body: bytes) -> bytes:
    """An archive with its checksum before it."""
    return _first_line(body) + body


def _first_line(body: bytes | memoryview) -> bytes:
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n"


def read_file(path: Path) -> bytes:
    """The bytes of a file that may be a model."""
    if require_file(path).stat().st_size > LARGEST + FIRST:
        raise ModelError(f"it is larger than {LARGEST:,} bytes.")
    return path.read_bytes()


def archive_of(data: bytes) -> bytes:
    """The archive, if the checksum is right."""
    if not data.startswith(MAGIC):
        skops = "; skops files are for evaluate, threshold, report and compare --with"
        archive = skops * data.startswith(ZIP)
        raise ModelError(f"it is not a model file of this version of toppush{archive}.")
    if _first_line(memoryview(data)[FIRST:]) != data[:FIRST]:
        raise ModelError("it is damaged: the checksum does not fit; fit or copy the model again.")
    return data[FIRST:]


def about_of(archive: Archive) -> Json:
    """The record about the fit."""
    text = archive.read(ABOUT)
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"its {ABOUT} cannot be read: {error}.") from None
    if not isinstance(about, dict):
        raise ModelError(f"its {ABOUT} is not a table.")
    return about
